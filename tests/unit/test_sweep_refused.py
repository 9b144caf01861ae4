"""Factors that are accepted are swept; large grids are asked about before anything of them is looked at."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

from blocklab.campaign.choice import expanded
from blocklab.campaign.needs import too_short
from blocklab.cli.main import app
from blocklab.errors import StudyError
from blocklab.store import floor as floors
from blocklab.store.floor import METRICS, Floor, Reading, machine_of
from blocklab.study import check, decode, factors, profiles, sweep
from blocklab.study.factors import assignments, left_out, parts_of, phase_total, size, variant
from blocklab.study.grid import cells, layouts
from blocklab.study.read import build, read
from blocklab.study.shipped import shipped
from blocklab.study.types import Factor, Study
from tests.unit.drill_samples import RAW
from tests.unit.refusals import refused, written

RTT = {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]}


def idle(plan: dict[str, Any]) -> list[tuple[str, str]]:
    study = build(plan)
    return list(sweep.idle_problems(study, cells(study)))


# -- factors that change nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factor",
    [
        {"field": "repeats", "values": [1, 5]},
        {"field": "name", "values": ["a", "b"]},
        {"field": "question", "values": ["Why?"]},
        {"field": "baseline", "values": ["local", "mirror"]},
        {"field": "expect", "values": {"none": [], "no": []}},
        {"field": "factors.f.values", "values": {"one": [], "two": []}},
        {"values": {"a": {"links.zone.rtt": "1ms"}, "b": {"notes": []}}},
        {"field": "*.zone.rtt", "values": ["1ms", "2ms"]},
    ],
)
def test_a_factor_of_what_no_cell_depends_on(small: dict[str, Any], factor: dict[str, Any]) -> None:
    said = refused({**small, "factors": {"f": factor}})
    assert said.startswith("factors.f: ") and "changes nothing that is measured; a path begins with one of" in said


@pytest.mark.parametrize(
    "path", ["links.zone.rtt.", "links..rtt", ".links.zone.rtt", "links.zone.rtt[", "links.zone]rtt"]
)
def test_a_path_that_is_none(small: dict[str, Any], path: str) -> None:
    assert parts_of(path) == []
    said = refused({**small, "factors": {"f": {"field": path, "values": ["1ms", "2ms"]}}})
    assert said == f"factors.f: the study has no field {path!r}"


@pytest.mark.parametrize(
    "factor",
    [
        {"field": "takeover.misses", "values": [3, 5]},
        # No stack uses it.
        {"field": "links.cross.rtt", "values": ["1ms", "2ms"]},
        # One value in two spellings.
        {"field": "links.zone.rtt", "values": ["1ms", "1000us"]},
        {"field": "profiles.mine.iops", "values": [100, 200]},
    ],
)
def test_a_factor_whose_levels_all_make_the_same_cells(
    small: dict[str, Any], factor: dict[str, Any], tmp_path: Path
) -> None:
    small |= {"factors": {"f": factor}, "profiles": {"mine": {"iops": 100}}}
    assert [path for path, _ in idle(small)] == ["factors.f"]
    file = written(small, tmp_path)
    line = next(number for number, text in enumerate(Path(file).read_text().splitlines(), 1) if text == "  f:")
    for command in (["check", file], ["plan", file, "--cells"], ["run", file, "--runs", str(tmp_path / "runs")]):
        done = CliRunner().invoke(app, command)
        assert str(done.exception).startswith(f"{file}:{line}: factors.f: changes nothing: all of its levels")


def test_a_factor_that_changes_one_stack_alone_is_a_factor(small: dict[str, Any]) -> None:
    assert idle({**small, "factors": {"rtt": RTT}}) == []
    assert idle({**small, "factors": {"rtt": RTT}, "exclude": [{"stack": "mirror", "rtt": "2ms"}]}) == []
    # One level sweeps nothing, and says so itself.
    assert idle({**small, "factors": {"cross": {"field": "links.cross.rtt", "values": ["1ms"]}}}) == []
    nothing = {**small, "factors": {"rtt": RTT}, "exclude": [{"stack": "mirror"}]}
    assert [path for path, _ in idle(nothing)] == ["factors.rtt"]
    drill = {**RAW, "factors": {"misses": {"field": "takeover.misses", "values": [3, 5]}}}
    assert idle(drill) == []


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("file", shipped().values(), ids=lambda file: file.stem)
def test_every_factor_of_a_shipped_study_sweeps_something(file: Path, quick: bool) -> None:
    assert expanded(read(file, quick=quick), file)


# -- two factors of one field -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"field": "stacks.mirror.layers[1].protocol", "values": ["A", "C"]},
        {"field": "stacks.*.layers.drbd.protocol", "values": ["A", "C"]},
        {"values": {"none": {}, "fast": {"stacks.mirror.layers.drbd.protocol": "A"}}},
    ],
)
def test_two_factors_of_one_field(small: dict[str, Any], other: dict[str, Any]) -> None:
    protocol = {"field": "stacks.mirror.layers.drbd.protocol", "values": ["B", "C"]}
    said = refused({**small, "factors": {"protocol": protocol, "other": other}})
    assert said.startswith("factors.other: stacks.") and "is set by the factor protocol too" in said


def test_levels_of_one_factor_and_fields_of_a_layer_that_another_one_gives_may_overlap(
    small: dict[str, Any],
) -> None:
    both = {"values": {"a": {"links.zone.rtt": "1ms"}, "b": {"links.zone.rtt": "2ms", "links.zone.mtu": 9000}}}
    assert build({**small, "factors": {"line": both}})
    server = {"layer": "postgres", "settings": {"shared_buffers": "64MB"}}
    within = {
        "database": {
            "field": "stacks.*.layers.postgres",
            "values": {"a": server, "b": {**server, "initdb": ["-k"]}},
        },
        "fsync": {"field": "stacks.*.layers.postgres.settings.fsync", "values": [True, False]},
    }
    study = build({**small, "factors": within})
    assert len(cells(study)) == 16
    # What the one sets within a level of the other is not there for good.
    assert "fsync" not in str(assignments(study.factors["database"]))


# -- exclusions ---------------------------------------------------------------------------------------------------


def test_an_empty_list_excludes_nothing_and_is_refused(small: dict[str, Any]) -> None:
    said = refused({**small, "factors": {"rtt": RTT}, "exclude": [{"rtt": []}]})
    assert said.startswith("exclude[0].rtt: is an empty list, so it would exclude nothing")


def test_what_exclusions_leave(small: dict[str, Any]) -> None:
    clients = {"field": "workloads.tx.clients", "values": [1, 2]}
    small["factors"] = {"rtt": RTT, "clients": clients}

    def gone(*exclude: dict[str, Any], **levels: str) -> set[tuple[str, str]]:
        study = build({**small, "exclude": list(exclude)})
        return {(entry["stack"], entry["workload"]) for entry in left_out(study, levels)}

    assert gone({"stack": "local"}) == {("local", "io"), ("local", "tx")}
    assert gone({"stack": "local", "rtt": "2ms"}) == set()
    assert gone({"stack": "local", "rtt": "2ms", "workload": "io"}, rtt="2ms") == {("local", "io")}
    assert gone({"workload": "io", "rtt": ["0.5ms", "2ms"]}) == {("local", "io"), ("mirror", "io")}
    assert gone({"stack": "local", "rtt": "2ms", "clients": 1}, {"stack": "local", "rtt": "2ms", "clients": 2},
                {"stack": "local", "rtt": "0.5ms"}) == {("local", "io"), ("local", "tx")}  # fmt: skip


def test_no_cell_left_has_its_line(small: dict[str, Any], tmp_path: Path) -> None:
    file = written({**small, "exclude": [{"workload": ["io", "tx"]}]}, tmp_path)
    line = next(number for number, text in enumerate(Path(file).read_text().splitlines(), 1) if text == "exclude:")
    done = CliRunner().invoke(app, ["check", file])
    assert str(done.exception).startswith(f"{file}:{line}: exclude: leaves no cell to measure")


# -- large grids --------------------------------------------------------------------------------------------------


def many(small: dict[str, Any], count: int) -> dict[str, Any]:
    return {**small, "factors": {"scale": {"field": "workloads.tx.scale", "values": list(range(1, count + 1))}}}


@pytest.fixture
def unlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes long for a large grid fails."""

    def never(*args: object, **options: object) -> Iterator[Any]:
        raise AssertionError("looked at before the question")

    monkeypatch.setattr(check, "problems", never)
    monkeypatch.setattr(factors, "combinations", never)
    for module in ("check", "sweep", "claims"):
        monkeypatch.setattr(f"blocklab.study.{module}.variant", never, raising=False)


@pytest.mark.parametrize("command", [["check"], ["run"], ["drill"], ["plan", "--cells"]])
def test_a_large_grid_is_asked_about_first(
    small: dict[str, Any], tmp_path: Path, unlooked: None, command: list[str]
) -> None:
    file = written(many(small, 5_001), tmp_path)
    line = next(number for number, text in enumerate(Path(file).read_text().splitlines(), 1) if text == "factors:")
    done = CliRunner().invoke(app, [command[0], file, *command[1:]])
    assert isinstance(done.exception, StudyError), done.exception
    assert done.exception.message.startswith(f"{file}:{line}: factors: the grid has up to 20,004 cells (2 stacks")


def test_jobs_of_fio_count_too(small: dict[str, Any], tmp_path: Path, unlooked: None) -> None:
    small["workloads"] = {"io": small["workloads"]["io"]}
    small["stacks"] = {"local": small["stacks"]["local"]}
    small["workloads"]["io"]["matrix"] = {"bs": [f"{n}k" for n in range(1, 201)], "iodepth": list(range(1, 101))}
    file = written(small, tmp_path)
    line = next(
        number for number, text in enumerate(Path(file).read_text().splitlines(), 1) if text == "workloads:"
    )
    done = CliRunner().invoke(app, ["check", file])
    assert isinstance(done.exception, StudyError), done.exception
    assert done.exception.message.startswith(f"{file}:{line}: workloads: the grid has up to 1 cells (1 stack, 1")
    assert "20,001 with each job of fio counted" in done.exception.message


def test_what_a_grid_counts(small: dict[str, Any]) -> None:
    small["workloads"]["io"]["matrix"] = {"bs": ["4k", "8k"], "iodepth": [1, 2, 3]}
    study = build({**many(small, 5), "repeats": 2})
    # Seven jobs of fio and one of pgbench, on two stacks.
    assert size(study) == 2 * 2 * 5 * 2 and phase_total(study) == 8 * 2 * 5 * 2


def test_a_sweep_takes_time_for_each_level_not_for_each_pair_of_them(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: what is read of a factor's values for one of its levels."""
    reads = 0
    assigned = Factor.assigned

    class Counted:
        """Counts how often the levels are made out of the values."""

        def __get__(self, factor: Factor, kind: type) -> Any:
            nonlocal reads
            if "assigned" not in factor.__dict__:
                reads += 1
                factor.__dict__["assigned"] = assigned.func(factor)  # type: ignore[attr-defined]
            return factor.__dict__["assigned"]

    monkeypatch.setattr(Factor, "assigned", Counted())
    converted: list[int] = []

    def watched(plain: Any) -> Study:
        converted.append(len(str(plain)))
        return decode.decoded(plain)

    monkeypatch.setattr(factors, "decoded", watched)
    study = build(many(small, 60))
    found = cells(study)
    assert len(layouts(study, found)) == 2 and len(found) == 2 * (60 + 1)
    assert reads == 1
    # A variant is as long with sixty levels as with two.
    sixty, converted = max(converted), []
    cells(build(many(small, 2)))
    assert abs(sixty - max(converted)) < 10


def calls(small: dict[str, Any], rtts: int, clients: int, tmp_path: Path) -> Counter[str]:
    """How often each function of blocklab is called while a study with so many levels is checked."""
    small["factors"] = {
        "rtt": {"field": "links.zone.rtt", "values": [f"{1000 + 10 * number}us" for number in range(rtts)]},
        "clients": {"field": "workloads.tx.clients", "values": list(range(1, clients + 1))},
    }
    file, found = written(small, tmp_path), Counter[str]()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and f"{os.sep}blocklab{os.sep}" in frame.f_code.co_filename:
            found[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        done = CliRunner().invoke(app, ["check", file])
    finally:
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return found


def test_check_plans_a_stack_once_for_its_own_levels_and_takes_time_for_each_cell(
    small: dict[str, Any], tmp_path: Path
) -> None:
    """Counted, not timed."""
    del small["workloads"]["io"]
    calls(small, 2, 2, tmp_path)
    few, many = calls(small, 4, 5, tmp_path), calls(small, 4, 20, tmp_path)
    # Another number of clients is no other stack, nor volume, nor link.
    for name in ("_stack", "Volume.problems", "Drbd.problems", "Postgres.problems"):
        assert few[name] and many[name] - few[name] <= 2 * (20 - 5), name
    # Four times the cells.
    assert many.total() < 4.2 * few.total()


def test_variants_share_what_no_level_changes(small: dict[str, Any]) -> None:
    small["factors"] = {"rtt": RTT, "clients": {"field": "workloads.tx.clients", "values": [1, 2]}}
    study = build(small)
    near, far = ({"rtt": rtt, "clients": "1"} for rtt in ("0.5ms", "2ms"))
    one, other = variant(study, near), variant(study, far)
    assert one is variant(study, dict(near)) and one.links["zone"] != other.links["zone"]
    assert one.links["cross"] is other.links["cross"] and one.stacks["mirror"] is other.stacks["mirror"]
    assert one.workloads["tx"] is other.workloads["tx"] != study.workloads["tx"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes.a1.memory", "256MiB"),
        ("nodes.a1.sysctl[vm.dirty_ratio]", 5),
        ("links.zone.rtt", "2ms"),
        ("stacks.local.layers", [{"layer": "volume", "size": "1GiB"}, {"layer": "xfs"}]),
        ("stacks.*.layers[0].size", "256MiB"),
        ("stacks", {"other": {"on": "a1", "layers": [{"layer": "volume", "profile": "san", "size": "1GiB"}]}}),
        ("workloads.more", {"workload": "pgbench", "clients": 1, "scale": 1, "time": "1s"}),
        ("profiles.san.iops", 500),
        ("takeover.misses", 7),
    ],
)
def test_a_variant_is_what_its_values_in_the_file_make(small: dict[str, Any], field: str, value: Any) -> None:
    small["profiles"] = {"san": {"iops": 100, "read_latency": "1ms"}}
    small["stacks"]["local"]["layers"][0]["profile"] = "san"
    small["nodes"]["a1"]["sysctl"] = {}
    small["takeover"] = {"misses": 3}
    fields = {"clients": {"workloads.tx.clients": 3}, "swept": {field: value}}
    swept = {**small, "factors": {name: {"values": {"there": each}} for name, each in fields.items()}}
    found = variant(decode.decoded(profiles.fill(swept)), {"clients": "there", "swept": "there"})
    small["workloads"]["tx"]["clients"] = 3
    for place in list(factors.places(small, parts_of(field))):
        at: Any = small
        for part in place[:-1]:
            at = at[part]
        at[place[-1]] = value
    wanted = decode.decoded(profiles.fill(small))
    for part in sweep.SWEPT:
        assert getattr(found, part) == getattr(wanted, part), part


def test_the_rest_of_a_study_is_kept_in_a_variant(small: dict[str, Any]) -> None:
    small |= {"factors": {"rtt": RTT}, "exclude": [{"stack": "local"}], "notes": ["one"], "quick": {"notes": []}}
    study = build(small)
    at = variant(study, {"rtt": "2ms"})
    assert (at.factors, at.exclude, at.notes, at.quick) == (study.factors, study.exclude, study.notes, study.quick)


# -- what cannot be in force --------------------------------------------------------------------------------------


def test_what_the_lab_is_too_slow_for_is_said(small: dict[str, Any]) -> None:
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["50us", "150us", "2ms"]}}
    study = build(small)
    values = {
        name: Reading(180e-6 if name == floors.RTT else 0.0, unit, 0.0, 3) for name, (_, unit) in METRICS.items()
    }
    floor = Floor(machine_of({}), 0.0, 1.0, values)
    assert too_short(study, cells(study), floor) == (
        "links.zone.rtt: requested 50us; the minimum here is about 180us",
        "links.zone.rtt: requested 150us; the minimum here is about 180us",
    )
    # 5 % more or less are as good as what was asked.
    small["factors"]["rtt"]["values"] = ["175us", "2ms"]
    near = build(small)
    assert too_short(near, cells(near), floor) == ()
    # What this machine takes is not known yet.
    assert too_short(study, cells(study), None) == ()
