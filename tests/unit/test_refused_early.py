"""What would fail late, or be ignored, is refused before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from blocklab.campaign.choice import levels_of
from blocklab.cli import drill
from blocklab.cli.main import app
from blocklab.errors import StudyError
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.check import combined_problems
from blocklab.study.factors import size
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.unit import synthetic
from tests.unit.refusals import refused, well, written

# -- factors -----------------------------------------------------------------------------------------------------


@pytest.fixture
def swept(small: dict[str, Any]) -> dict[str, Any]:
    """A jitter that only one of the round trips allows."""
    small["factors"] = {
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]},
        "jitter": {"field": "links.zone.jitter", "values": ["0ms", "0.4ms", "1ms"]},
    }
    small["links"]["zone"]["rtt"] = "2ms"
    return small


def test_what_only_a_combination_breaks_is_found_before_the_start(swept: dict[str, Any], tmp_path: Path) -> None:
    found = list(combined_problems(build(swept)))
    assert len(found) == 1
    assert found[0][1].startswith("with rtt=0.5ms, jitter=1ms: links.zone.jitter: must not be more than the rtt")
    done = CliRunner().invoke(app, ["check", written(swept, tmp_path)])
    assert isinstance(done.exception, StudyError) and "with rtt=0.5ms, jitter=1ms" in str(done.exception)


def test_what_is_excluded_need_not_be_built(swept: dict[str, Any]) -> None:
    swept["exclude"] = [{"rtt": "0.5ms", "jitter": "1ms"}]
    assert list(combined_problems(build(swept))) == []
    # The other stack does not use the link.
    swept["exclude"] = [{"stack": "mirror", "rtt": "0.5ms", "jitter": "1ms"}]
    assert list(combined_problems(build(swept))) == [] and cells(build(swept))
    swept["exclude"] = [{"stack": "local", "rtt": "0.5ms", "jitter": "1ms"}]
    assert len(list(combined_problems(build(swept)))) == 1


def test_a_job_file_is_no_field_to_sweep(small: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.fio").write_text(f"[{name}]\nrw=randread\nruntime=3\n")
    small["workloads"]["io"] = {"workload": "fio", "size": "16MiB", "jobfile": "a.fio"}
    values = ["a.fio", "b.fio"]
    small["factors"] = {"file": {"field": "workloads.io.jobfile", "values": values}}
    with pytest.raises(
        StudyError, match="a job file is read once, before the factors; make a workload of each file"
    ):
        build(small, folder=tmp_path)


def test_repeats_count_in_the_size_of_a_grid(small: dict[str, Any]) -> None:
    assert size(build(small)) == 4 and size(build({**small, "repeats": 3000})) == 12_000


def test_drills_are_counted_as_they_are_asked_for(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred of one cell are a hundred, however many cells the study has."""
    seen: list[int | None] = []
    monkeypatch.setattr(drill, "sure", lambda study, yes, count=None: seen.append(count))
    monkeypatch.setattr(drill, "carry_out", lambda folder, shown: None)
    small["nodes"]["c1"] = {"memory": "256MiB"}
    small["links"] |= {f"c{n}": {"between": ["c1", n]} for n in ("a1", "a2")}
    small["workloads"]["ledger"] = {"workload": "ledger", "from": "c1"}
    small["faults"] = {"kill": {"fault": "crash", "at": "4s"}}
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["1ms", "2ms", "3ms"]}}
    argv = ["drill", written(small, tmp_path), "--stack", "mirror", "--at", "rtt=1ms", "--times", "100"]
    done = CliRunner().invoke(app, [*argv, "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    assert seen == [None, 100]


def test_two_levels_of_one_factor_are_a_slip(swept: dict[str, Any]) -> None:
    study = build(swept)
    assert levels_of(study, ["rtt=2ms", "jitter=0ms", "rtt=2ms"]) == {"rtt": "2ms", "jitter": "0ms"}
    with pytest.raises(StudyError, match=r"--at rtt=2ms and --at rtt=0.5ms: which one\?"):
        levels_of(study, ["rtt=2ms", "rtt=0.5ms"])


# -- a workload that its stack has no room for
# -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload",
    [
        {"workload": "fio", "size": "1GiB", "options": {"runtime": 1}, "jobs": {"a": {"rw": "randread"}}},
        {"workload": "dd", "bs": "1MiB", "mode": "direct", "count": 513},
        {"workload": "dd", "bs": "1MiB", "mode": "direct", "size": "1GiB"},
    ],
)
def test_a_load_that_is_larger_than_the_volumes(small: dict[str, Any], workload: dict[str, Any]) -> None:
    small["workloads"] = {"big": workload}
    said = refused(small)
    assert said.startswith("workloads.big: needs ") and "but the volumes of stack local have 512 MiB" in said
    small["stacks"] = {"local": small["stacks"]["local"]}
    small["stacks"]["local"]["layers"][:1] = [
        {"layer": "volume", "size": "512MiB", "count": 3}, {"layer": "stripe"},
    ]  # fmt: skip
    assert well(small)


@pytest.mark.parametrize(
    "workload",
    [
        {"workload": "pgbench", "scale": 1, "clients": 128, "time": "5s"},
        {"workload": "sysbench", "clients": 101, "time": "5s"},
        {"workload": "tpcc", "warehouses": 1, "clients": 101, "time": "5s"},
    ],
)
def test_more_clients_than_the_database_takes(small: dict[str, Any], workload: dict[str, Any]) -> None:
    small["workloads"] = {"many": workload}
    assert "but the database of stack local takes 100; raise its max_connections" in refused(small)
    for stack in small["stacks"].values():
        stack["layers"][-1]["settings"] = {"max_connections": 200}
    assert well(small)
    # What only the server can read is left to it.
    small["stacks"]["local"]["layers"][-1]["settings"] = {"max_connections": "0x80"}
    assert well(small)


def test_a_cell_that_is_excluded_needs_no_room(small: dict[str, Any]) -> None:
    small["factors"] = {"clients": {"field": "workloads.tx.clients", "values": [8, 200]}}
    small["stacks"]["mirror"]["layers"][-1]["settings"] = {"max_connections": 300}
    assert "with clients=200: has 200 connections at once, but the database of stack local takes 100" in refused(
        small
    )
    small["exclude"] = [{"stack": "local", "clients": 200}]
    assert well(small)
    small["factors"]["rtt"] = {"field": "links.zone.rtt", "values": ["1ms", "2ms"]}
    small["exclude"] = [{"stack": "local", "workload": "tx", "clients": 200}]
    assert well(small)
    # The file's own value need not be measured at all.
    small["workloads"]["tx"]["clients"] = 5000
    assert well(small)


# -- expectations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            {"workload": "io", "phase": "write-4K"},
            "expect[0].phase: io has no phase 'write-4K'; there are write-4k",
        ),
        ({"workload": "io"}, "expect[0].phase: is missing: each value of io is of one of write-4k"),
        ({"workload": "tx", "phase": "all"}, "expect[0].phase: tx has no phases; leave it out"),
        (
            {"workload": "tx", "relative_to": "local", "between": ["1ms", "2ms"]},
            "expect[0].between: a ratio is a plain number",
        ),
    ],
)
def test_a_claim_about_nothing(small: dict[str, Any], claim: dict[str, Any], said: str) -> None:
    small["expect"] = [{"metric": "read.await", "stack": "mirror", "between": [1, 2], **claim}]
    assert refused(small).startswith(said)


def test_a_claim_about_one_of_many_phases_names_some(small: dict[str, Any]) -> None:
    small["workloads"]["io"] |= {
        "jobs": {},
        "matrix": {"rw": ["read"], "bs": ["4k"], "iodepth": list(range(1, 40))},
    }
    small["expect"] = [{"metric": "read.iops", "stack": "local", "workload": "io", "between": [1, 2]}]
    said = refused(small)
    assert "read-4k-qd1, read-4k-qd2" in said and said.endswith("and 31 more")


def test_a_claim_is_about_the_phases_at_its_levels(small: dict[str, Any]) -> None:
    small["workloads"]["io"] |= {"jobs": {}, "matrix": {"rw": ["randwrite"], "bs": ["4k"]}}
    values = {"small": ["4k"], "large": ["16k"]}
    small["factors"] = {"bs": {"field": "workloads.io.matrix.bs", "values": values}}
    claim = {"metric": "write.iops", "stack": "local", "workload": "io", "between": [1, 2]}
    small["expect"] = [{**claim, "at": {"bs": "large"}, "phase": "randwrite-16k"}]
    assert well(small)
    small["expect"] = [{**claim, "at": {"bs": "large"}, "phase": "randwrite-4k"}]
    assert "has no phase 'randwrite-4k'; there are randwrite-16k" in refused(small)


def test_what_a_short_form_leaves_out_is_undecided_there(small: dict[str, Any]) -> None:
    small["workloads"]["io"]["jobs"]["read-4k"] = {"rw": "randread", "bs": "4k"}
    claim = {"metric": "read.iops", "stack": "local", "workload": "io", "phase": "read-4k", "between": [1, 2]}
    small |= {"expect": [claim], "quick": {"workloads": {"io": {"jobs": {"read-4k": None}}}}}
    assert build(small) and build(small, quick=True)


def test_there_is_no_short_form_to_run(small: dict[str, Any], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", written(small, tmp_path), "--quick"])
    assert isinstance(done.exception, StudyError) and "the study has no quick variant" in str(done.exception)


# -- fio ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gtod_reduce": True}, "gtod_reduce: refused: with it fio measures no latency"),
        ({"disable_lat": 1}, "disable_lat: refused"),
        ({"size": "1g"}, "size: 1g is more than the workload's `size`"),
        ({"ramp_time": "soon"}, "ramp_time: 'soon' is not a time that fio accepts"),
        ({"rw": "randrw", "rwmixwrite": "30%"}, "rwmixwrite: 30% is not a whole number of percent"),
    ],
)
def test_options_of_fio_that_cannot_be_meant(small: dict[str, Any], options: dict[str, Any], said: str) -> None:
    io = small["workloads"]["io"]
    small["workloads"]["io"] = {
        **io,
        "fill": True,
        "options": io["options"] | options,
        "stop": {"rounds": "3..5", "each": "3s"},
    }
    del small["workloads"]["io"]["options"]["runtime"]
    assert said in refused(small)


def test_an_option_may_make_a_job_smaller(small: dict[str, Any]) -> None:
    small["workloads"]["io"]["jobs"]["half"] = {"rw": "randread", "size": "8m"}
    small["workloads"]["io"]["jobs"]["part"] = {"rw": "randread", "size": "50%", "gtod_reduce": False}
    # Nothing is filled here: fio makes what it needs itself.
    small["workloads"]["io"]["jobs"]["twice"] = {"rw": "randwrite", "size": "32m"}
    assert build(small)
    small["workloads"]["io"]["fill"] = True
    assert "size: 32m is more than the workload's `size`" in refused(small)


def test_true_is_a_value_that_every_option_takes(small: dict[str, Any]) -> None:
    small["workloads"]["io"]["options"] |= {"direct": True, "time_based": True, "norandommap": False}
    text = build(small).workloads["io"].text("/dev/vda")  # type: ignore[union-attr]
    assert "direct=1\n" in text and "time_based=1\n" in text and "norandommap=0\n" in text


# -- queries -----------------------------------------------------------------------------------------------------


def test_what_is_no_number_is_no_broken_json(tmp_path: Path) -> None:
    sql = (
        "SELECT 'inf'::DOUBLE AS a, 'nan'::DOUBLE AS b, 1.5 AS c, ['-inf'::DOUBLE, 2] AS d, "
        "{'x': 'nan'::DOUBLE} AS e"
    )
    synthetic.make(tmp_path, transactions=50)
    done = CliRunner().invoke(app, ["query", sql, "--runs", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output

    def none(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    assert json.loads(done.stdout, parse_constant=none) == [
        {"a": None, "b": None, "c": 1.5, "d": [None, 2.0], "e": {"x": None}}
    ]


# -- clocks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--parallel", "2"], "--parallel 2 needs --clock virtual"),
        (["--clock", "virtual", "--dask", "tcp://127.0.0.1:8786"], "--clock virtual and --dask: which one?"),
    ],
)
@pytest.mark.parametrize(("command", "study"), [("run", "drbd-az"), ("drill", "failover")])
def test_labs_of_one_machine_are_parallel_in_virtual_time_only(
    command: str, study: str, options: list[str], problem: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, [command, study, "--runs", str(tmp_path / "runs"), *options])
    assert isinstance(done.exception, StudyError) and problem in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_a_study_of_real_time_is_resumed_in_one_lab(small: dict[str, Any], tmp_path: Path) -> None:
    study = build(small)
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    done = CliRunner().invoke(app, ["resume", str(folder.path), "--parallel", "2"])
    assert isinstance(done.exception, StudyError) and "--parallel 2 needs --clock" in str(done.exception)
    done = CliRunner().invoke(app, ["drill", "failover", "--replay", "1 a", "--parallel", "2"])
    assert isinstance(done.exception, StudyError) and "--replay and --parallel" in str(done.exception)
