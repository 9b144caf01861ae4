"""Studies with factors: labels, baselines, curves, words and tables; and fio workloads with many jobs."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.charts.all import draw
from blocklab.charts.base import BASELINE, DASHES, Chart, Charts
from blocklab.charts.curves import Line, shades_of
from blocklab.charts.layout import layouts
from blocklab.charts.plan import MOST_LINES, Dot, Scale, panels, plan, scale_of
from blocklab.model.terminal import Console
from blocklab.report import build, render, terminal_table
from blocklab.report.build import laid_out
from blocklab.report.sheets import relative_text
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.compare import families
from blocklab.stats.findings import describe, findings
from blocklab.stats.format import NBSP, percent, quantity, shortened
from blocklab.stats.grid import grid, number_of
from blocklab.stats.sentences import sentence
from blocklab.store.folder import StudyFolder
from blocklab.study.grid import cells
from blocklab.study.types import View
from blocklab.workloads import Fio
from blocklab.workloads.fio_shapes import axes, distinguished
from tests.unit import synthetic
from tests.unit.answers import answered

_FAR = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "10ms"]}}
_SYNC = {
    "sync_binlog": {"field": "stacks.*.layers.postgres.settings.commit_siblings", "values": [0, 1]},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return synthetic.make_sweep(tmp_path_factory.mktemp("runs"), seconds=20, transactions=50)


@pytest.fixture(scope="module")
def analysis(folder: StudyFolder) -> Analysis:
    return analyse(folder)


@pytest.fixture(scope="module")
def drawn(analysis: Analysis) -> Charts:
    return draw(analysis, check=True)


def chart(drawn: Charts, name: str) -> Chart:
    return next(each for each in drawn.shown if each.name == name)


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


def test_each_cell_has_a_place_of_its_own(analysis: Analysis) -> None:
    assert len(analysis.cells) == len(analysis.measured) == 98
    assert list(analysis.workloads) == [f"tpcc threads={number}" for number in synthetic.THREADS]
    assert list(analysis.stacks)[:3] == [
        "local sync_binlog=0", "local sync_binlog=1", "mirror rtt=0.5ms sync_binlog=0",
    ]  # fmt: skip
    assert analysis.baseline == "local" and len(analysis.others) == 12


def test_the_baseline_has_the_same_levels_of_what_both_have(analysis: Analysis) -> None:
    row = analysis.find("mirror rtt=10ms sync_binlog=1", "tpcc threads=16", "tpmc")
    base = analysis.find("local sync_binlog=1", "tpcc threads=16", "tpmc")
    assert row is not None and base is not None and row.relative is not None
    assert row.relative.value == pytest.approx(row.value / base.value)
    assert (row.stack_name, row.workload_name) == ("mirror", "tpcc")
    assert row.levels == {"rtt": "10ms", "sync_binlog": "1", "threads": "16"}


def test_a_single_stacks_baseline_is_its_first_levels_and_never_a_loads(tmp_path: Path) -> None:
    stacks = {"mirror": synthetic.SWEEP["stacks"]["mirror"]}
    study = synthetic.sweep(stacks=stacks, baseline="", expect=[])
    found = analyse(synthetic.make_sweep(tmp_path, study, seconds=10))
    assert found.baseline == "mirror rtt=0.5ms sync_binlog=0"
    row = found.find("mirror rtt=20ms sync_binlog=0", "tpcc threads=2", "tpmc")
    base = found.find("mirror rtt=0.5ms sync_binlog=0", "tpcc threads=2", "tpmc")
    assert row is not None and base is not None and row.relative is not None
    assert row.relative.value == pytest.approx(row.value / base.value)
    threads = {"threads": synthetic.SWEEP["factors"]["threads"]}
    only = synthetic.sweep(name="only", stacks=stacks, baseline="", expect=[], factors=threads)
    alone = analyse(synthetic.make_sweep(tmp_path, only, seconds=10))
    assert alone.others == () and {row.relative and row.relative.value for row in alone.rows if row.own} == {1.0}
    assert "mirror has from" in answered(alone).lead
    assert [each.name for each in draw(alone).shown][:1] == ["sweep-tpcc"]


def test_a_stack_that_exclusions_leave_at_one_level_is_compared_at_that_level(tmp_path: Path) -> None:
    """Its label does not have the level; the first one of the baseline is another one all the same."""
    study = synthetic.sweep(
        factors={**_SYNC, "threads": synthetic.SWEEP["factors"]["threads"]},
        exclude=[
            {"stack": "mirror", "sync_binlog": 0},
            {"stack": "mirror", "threads": [1, 2, 4, 8, 32, 64]},
        ],
        expect=[
            {
                "metric": "tpmc",
                "workload": "tpcc",
                "stack": "mirror",
                "at": at,
                "relative_to": "local",
                "between": [0, 9],
            }
            for at in ({"threads": 16, "sync_binlog": 1}, {"threads": 1}, {"threads": 16, "sync_binlog": 0})
        ],
    )
    found = analyse(synthetic.make_sweep(tmp_path, study, seconds=10))
    # A workload is called the same on all stacks, or nothing could be compared.
    row = found.find("mirror", "tpcc threads=16", "tpmc")
    base = found.find("local sync_binlog=1", "tpcc threads=16", "tpmc")
    assert row is not None and base is not None and row.relative is not None
    assert row.relative.value == pytest.approx(row.value / base.value)
    here, elsewhere, other = found.verdicts
    assert here.found == pytest.approx(row.value / base.value)
    assert (elsewhere.status, other.status) == ("unknown", "unknown")
    assert "no cell mirror/tpcc threads=1" in elsewhere.sentence


def test_a_level_that_makes_no_difference_is_none_even_if_all_others_are_excluded() -> None:
    study = synthetic.sweep(factors=_FAR, exclude=[{"stack": "local", "rtt": "0.5ms"}], expect=[])
    assert {(cell.stack, *cell.levels.values()) for cell in cells(study)} == {
        ("local",), ("mirror", "0.5ms"), ("mirror", "10ms"),
    }  # fmt: skip
    found = grid(study, cells(study))
    assert [found.base(point) for point in found.points] == ["local", "local", "local"]
    # One that does makes the two different layouts, which are not compared.
    study = synthetic.sweep(factors=_SYNC, exclude=[{"stack": "local", "sync_binlog": 0}], expect=[])
    found = grid(study, cells(study))
    assert {point.label: found.base(point) for point in found.points} == {
        "local/tpcc": "local", "mirror sync_binlog=0/tpcc": "", "mirror sync_binlog=1/tpcc": "local",
    }  # fmt: skip


def test_a_factor_with_one_level_is_no_part_of_a_label() -> None:
    study = synthetic.sweep(factors={"rtt": {"field": "links.zone.rtt", "values": ["2ms"]}}, expect=[])
    found = grid(study, cells(study))
    assert list(found.stacks) == ["local", "mirror"] and found.factors == ()


def test_the_answer_is_a_range_and_where_its_ends_are(analysis: Analysis) -> None:
    found = findings(analysis)
    (lead,) = found.lead
    assert (lead.kind, lead.stack, lead.count, lead.of) == ("range", "mirror", 0, 84)
    assert [each.at for each in lead.numbers] == [
        "rtt=20ms, sync_binlog=1, threads=1", "rtt=0.5ms, sync_binlog=0, threads=64",
    ]  # fmt: skip
    assert plain(sentence(found.lead)) == (
        "tpcc over rtt (0.5ms to 20ms), sync_binlog (0 and 1) and threads (1 to 64): mirror keeps from 7.6 % "
        "(rtt=20ms, sync_binlog=1, threads=1) to 98 % (rtt=0.5ms, sync_binlog=0, threads=64) of local's tpmC."
    )
    (threads,) = [each for group in found.points for each in group if each.level == "threads"]
    assert (threads.numbers[0].at, round(threads.numbers[0].value, 2)) == ("1", 0.43)
    assert (threads.numbers[-1].at, round(threads.numbers[-1].value, 2)) == ("64", 0.89)
    assert "by threads: the median share of local is 43 % at 1 and 89 % at 64" in plain(sentence([threads]))


def test_the_curves_have_a_line_for_each_round_trip_and_a_panel_for_each_flush(drawn: Charts) -> None:
    values, shares = chart(drawn, "sweep-tpcc"), chart(drawn, "share-tpcc")
    assert len(values.panels) == len(shares.panels) == 2
    rows = values.panels[0].spec["datasets"]["dots"]
    assert {row["line"] for row in rows} == {"local", *(f"rtt={rtt}" for rtt in synthetic.RTTS)}
    assert len(rows) == 7 * 7 and {row["x"] for row in rows} == set(range(7))
    kept = shares.panels[1].spec["datasets"]
    assert {row["line"] for row in kept["dots"]} == {f"rtt={rtt}" for rtt in synthetic.RTTS}
    assert not any("low" in row for row in kept["dots"]), "one build has no interval"
    for each in (values, shares):
        for panel in each.panels:
            assert all(panel.spec["datasets"].values())


def test_names_at_the_ends_of_lines_never_meet(drawn: Charts) -> None:
    for each in (chart(drawn, "sweep-tpcc"), chart(drawn, "share-tpcc")):
        for panel in each.panels:
            scale: dict[str, Any] = next(
                layer["encoding"]["y"]["scale"] for layer in panel.spec["layer"] if layer["mark"]["type"] == "line"
            )
            low, high = scale["domain"]
            assert all(low <= end["v"] <= high * 1.001 for end in panel.spec["datasets"]["ends"])
            assert len({end["v"] for end in panel.spec["datasets"]["ends"]}) == len(panel.spec["datasets"]["ends"])


def test_only_some_cells_are_shown_second_by_second(analysis: Analysis, drawn: Charts) -> None:
    assert len(analysis.detailed) == 8
    lines = [each for each in drawn.shown if each.name.startswith(("bandwidth-", "await-", "latency-tpcc"))]
    assert lines and sum(len(each.panels) for each in lines) <= 3 * 8
    assert any("of 90 cells" in note for note in drawn.left_out)


def test_the_page_of_98_cells_is_light(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "bundle", lambda: "/* vega */")
    assert render(folder).stat().st_size < 2_000_000
    with (folder.path / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-3:] == ["factor.rtt", "factor.sync_binlog", "factor.threads"]
    assert {row["stack"] for row in rows} == {"local", "mirror"} and {row["workload"] for row in rows} == {"tpcc"}
    assert {row["factor.rtt"] for row in rows if row["stack"] == "local"} == {""}
    document = json.loads((folder.path / "report.json").read_text())
    assert document["factors"]["rtt"] == list(synthetic.RTTS)
    assert list(document["metrics"][-1]) == list(rows[0])
    assert [document["metrics"][-1][f"factor.{name}"] for name in ("rtt", "sync_binlog", "threads")] == [
        "20ms", "1", "64",
    ]  # fmt: skip
    assert document["verdicts"][0]["against_at"] == {"threads": 1}


def test_the_terminal_has_a_row_for_each_level_along_the_axis(folder: StudyFolder, tmp_path: Path) -> None:
    console = Console(width=120, record=True, file=(tmp_path / "out").open("w"))
    console.print(terminal_table(folder, every=True))
    console.file.close()
    text = plain(console.export_text())
    assert "tpcc sync_binlog=1, tpmC (share of local)" in text and "rtt=0.5ms" in text
    # Six columns of values and their shares do not fit beside the baseline, so each table has a second part.
    assert sum(line.startswith(" 64 ") for line in text.splitlines()) == 4
    tables = [line for line in text.splitlines() if re.match(r" (threads|\d+) ", line)]
    assert tables and all(len(line.rstrip()) <= 100 for line in tables)
    assert not re.search(r"^ *(%|\?|% \?)( |$)", "\n".join(tables), re.MULTILINE), "a value is torn from its unit"


@pytest.mark.parametrize("width", [60, 80])
def test_no_figure_is_torn_apart_on_a_narrow_terminal(folder: StudyFolder, width: int) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(terminal_table(folder, every=True))
    lines = plain(console.export_text()).splitlines()
    shares = [line for line in lines if re.match(r" (1|2|4|8|16|32|64) +[\d,]+", line)]
    assert len(shares) >= 28 and all(len(line) <= width for line in lines)
    # Each value of a mirror stands in one line with its share.
    assert [line for line in shares if line.count("%") != len(re.findall(r"[\d,]+†? +[\d.]+ %", line))] == []
    assert not [line for line in lines if re.match(r"^ +([=?%]|\d+ %) *$", line)]


def test_the_terminal_is_laid_out_as_its_charts_are(folder: StudyFolder, analysis: Analysis) -> None:
    def printed(**view: str) -> list[str]:
        console = Console(width=100, file=io.StringIO(), record=True)
        console.print(terminal_table(folder, laid_out(analysis, View(**view)), every=True))
        return [" ".join(line.split()) for line in plain(console.export_text()).splitlines()]

    lines = printed(x="rtt", color="threads", facet="stack")
    assert "tpcc mirror sync_binlog=1, tpmC (share of local)" in lines
    at = lines.index("tpcc mirror sync_binlog=1, tpmC (share of local)")
    assert lines[at + 2].startswith("rtt threads=1 threads=2 threads=4")
    wanted = synthetic.tpmc("mirror", {"rtt": "4ms", "sync_binlog": "1", "threads": "1"})
    assert next(line for line in lines[at:] if line.startswith("4ms ")).split()[1] == f"{wanted:,.0f}"
    # Stacks along the axis are rows, and nothing besides tells them apart.
    lines = printed(x="stack", color="rtt", facet="sync_binlog")
    at = next(at for at, line in enumerate(lines) if line.startswith("stack tpmC rtt=0.5ms rtt=1ms "))
    assert lines[at + 2].split()[0] == "local" and lines[at + 3].split()[:2] == ["mirror", "–"]


def test_a_title_of_many_stacks_tells_the_least_and_the_most(analysis: Analysis) -> None:
    found = [each for each in draw(analysis).shown if each.name.startswith("bandwidth-")]
    assert found
    for each in found:
        assert " from " in each.title and each.title.count(" on ") == 2 and "rtt=20ms" in each.title


def test_few_factors_of_few_levels_are_one_panel(tmp_path: Path) -> None:
    study = synthetic.sweep(factors=_FAR | _SYNC, expect=[])
    drawn = draw(analyse(synthetic.make_sweep(tmp_path, study, seconds=10)), check=True)
    (panel,) = chart(drawn, "sweep-tpcc").panels
    rows = panel.spec["datasets"]["dots"]
    # The baseline has no round trip: level lines without points.
    assert [row["point"] for row in rows if row["line"].startswith("local")] == [False] * 4
    assert len({row["line"] for row in rows}) == 4


def test_a_failed_cell_is_a_gap_at_its_levels_and_leaves_a_hole(tmp_path: Path) -> None:
    study = synthetic.sweep(factors=_FAR | _SYNC, expect=[])
    found = analyse(
        synthetic.make_sweep(tmp_path, study, seconds=10, failed=["mirror/tpcc rtt=10ms sync_binlog=1"])
    )
    (gap,) = found.gaps
    assert (gap.stack, gap.workload) == ("mirror rtt=10ms sync_binlog=1", "tpcc")
    (panel,) = chart(draw(found), "share-tpcc").panels
    assert len(panel.spec["datasets"]["dots"]) == 3


def test_a_level_is_not_blamed_for_what_a_missing_cell_takes_away(tmp_path: Path) -> None:
    """Without the worst cell at 10 ms its median would be over other levels than that at 0.5 ms."""
    study = synthetic.sweep(factors=_FAR | _SYNC, expect=[])
    gap = "mirror/tpcc rtt=10ms sync_binlog=1"
    found = analyse(synthetic.make_sweep(tmp_path, study, seconds=10, failed=[gap]))
    shares = {
        row.levels["rtt"]: percent(row.relative.value, row.relative.half)
        for row in found.rows
        if row.metric == "tpmc"
        and row.stack_name == "mirror"
        and row.levels["sync_binlog"] == "0"
        and row.relative
    }
    points = answered(found).points
    (said,) = [plain(point) for point in points if "by rtt" in point]
    assert plain(f"{shares['0.5ms']} at 0.5ms and {shares['10ms']} at 10ms") in said


def test_a_factor_that_changes_little_says_by_how_much(tmp_path: Path) -> None:
    nothing = {"cost": {"field": "stacks.*.layers.postgres.settings.cpu_tuple_cost", "values": [1, 2]}}
    study = synthetic.sweep(factors=_FAR | nothing, expect=[])
    found = answered(analyse(synthetic.make_sweep(tmp_path, study, seconds=10)))
    points = [plain(point) for point in found.points]
    (idle,) = [point for point in points if "by cost" in point]
    assert idle.startswith("tpcc by cost: the median share of local changes by at most ") and "%" in idle
    assert any("by rtt: the median share of local is" in point for point in points)


def test_each_stack_is_drawn_once_with_its_factors(analysis: Analysis) -> None:
    local, mirror = layouts(analysis)
    assert (local.name, mirror.name) == ("local", "mirror")
    assert mirror.varied == ("rtt: 0.5ms, 1ms, 2ms, 4ms, 10ms, 20ms", "sync_binlog: 0, 1")
    assert "0.5 ms round trip" in plain(next(box.link for box in mirror.boxes if box.link))


def test_layouts_tell_of_several_volumes_lanes_shared_disks_and_lone_mirrors(tmp_path: Path) -> None:
    volume = {"layer": "volume", "size": "1GiB", "count": 4}
    mirror = {"layer": "drbd", "peer": "a2", "link": "zone", "standalone": True}
    one = {"layer": "volume", "size": "1GiB"}
    study = synthetic.study(
        links={"zone": {"between": ["a1", "a2"], "rtt": "1ms", "lanes": 2}},
        stacks={
            "alone": {"on": "a1", "layers": [one, mirror]},
            "both": {"on": "a1", "layers": [one, {"layer": "shared", "peer": "a2"}]},
            "wide": {"on": "a1", "layers": [volume, {"layer": "stripe"}]},
        },
        workloads={"fio": synthetic.RAW["workloads"]["fio"]},
        baseline="both",
        expect=[],
    )
    every = [f"{stack}/fio" for stack in study.stacks]
    alone, both, wide = layouts(analyse(synthetic.make(tmp_path, study, missing=every)))
    box = next(box for box in alone.boxes if box.link)
    assert box.title == "DRBD mirror, disconnected" and "2 lanes (balance-rr)" in box.link
    assert any(box.title == "Shared volume" and box.width == 2 for box in both.boxes)
    assert wide.boxes[0].title == "4 volumes"
    said = [describe(stack, study.links) for stack in study.stacks.values()]
    assert said == ["mirror on a2, disconnected", "volume shared with a2", ""]


def test_many_fio_jobs_are_curves_by_their_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "bundle", lambda: "/* vega */")
    folder = synthetic.make_patterns(tmp_path, seconds=4)
    drawn = draw(analyse(folder), check=True)
    assert not any(each.name == "bars" for each in drawn.shown)
    values = chart(drawn, "sweep-fio")
    assert len(values.panels) == 4 * 2 and values.columns == 2
    assert values.panels[0].label == "local bs=4k: fio, IOPS over iodepth"
    rows = values.panels[1].spec["datasets"]["dots"]
    assert {row["line"] for row in rows} == {f"reads={share}%" for share in (0, 10, 30, 50, 70, 90, 100)}
    assert len(chart(drawn, "share-fio").panels) == 4
    assert render(folder).stat().st_size < 3_000_000


def test_a_jobs_shape_is_read_from_its_options_or_its_file() -> None:
    text = "[global]\nrw=randrw\nrwmixread=70\n[a]\niodepth=8\nbs=16k\n[b]\nrw=write\n"
    found = Fio(jobtext=text).shapes()
    assert found["a"] == {"iodepth": "8", "reads": "70%", "bs": "16k", "access": "random", "numjobs": "1"}
    assert (found["b"]["reads"], found["b"]["access"]) == ("0%", "sequential")
    mixed = Fio(options={"rw": "randrw:8"}, jobs={"a": {"rwmixwrite": 30}, "b": {"rwmixwrite": 0}}).shapes()
    assert [(each["reads"], each["access"]) for each in mixed.values()] == [("70%", "random"), ("100%", "random")]


def test_the_jobs_of_a_matrix_have_shapes_too() -> None:
    workload = Fio(
        jobs={"seq": {"rw": "read", "bs": "1M"}},
        matrix={"bs": ("4k", "16k"), "fsync": (0, 1), "iodepth": (1, 32)},
        options={"rw": "randrw", "rwmixread": 90},
    )
    found = workload.shapes()
    assert list(found) == list(workload.all_jobs)
    assert found["4k-fsync1-qd32"] == {
        "iodepth": "32", "reads": "90%", "bs": "4k", "access": "random", "numjobs": "1", "fsync": "1",
    }  # fmt: skip
    assert found["seq"]["fsync"] == "–" and distinguished(found.values())
    assert tuple(axes(found.values())) == ("iodepth", "reads", "bs", "access", "fsync")


def test_jobs_that_only_differ_in_their_engine_are_not_told_apart() -> None:
    workload = Fio(jobs={"a": {"ioengine": "psync"}, "b": {"ioengine": "libaio"}})
    assert not distinguished(workload.shapes().values())
    found = Fio(matrix={"ioengine": ("psync", "libaio")}).shapes().values()
    assert distinguished(found) and tuple(axes(found)) == ("ioengine",)


@pytest.mark.parametrize(
    ("levels", "places", "log"),
    [(("1", "2", "8"), (0, 1, 3), True), (("1", "3", "9"), (0, 1, 2), False), (("A", "B"), (0, 1), False),
     (("64KiB", "256KiB"), (0, 2), True), (("0ms", "1ms"), (0, 1), False)],
)  # fmt: skip
def test_powers_of_two_get_a_logarithmic_axis(
    levels: tuple[str, ...], places: tuple[float, ...], log: bool
) -> None:
    found = scale_of("x", levels)
    assert (found.places, found.log) == (places, log)


def test_levels_in_any_order_stand_on_a_logarithmic_axis_from_the_least_to_the_most(tmp_path: Path) -> None:
    assert scale_of("x", ["8", "1", "32"]) == Scale("x", ("1", "8", "32"), (0, 3, 5), True, True)
    threads = {"threads": {**synthetic.SWEEP["factors"]["threads"], "values": [8, 1, 32]}}
    analysis = analyse(synthetic.make_sweep(tmp_path, synthetic.sweep(factors=threads, expect=[]), seconds=5))
    assert answered(analysis).lead.startswith("tpcc over threads (1 to 32): ")
    drawn = draw(analysis, check=True)
    assert "from 1 to 32 along the line" in chart(drawn, "knee-tpcc").caption
    for name in ("sweep-tpcc", "share-tpcc"):
        for panel in chart(drawn, name).panels:
            (low, high), *others = [
                layer["encoding"]["x"]["scale"]["domain"]
                for layer in panel.spec["layer"]
                if "scale" in layer["encoding"].get("x", {})
            ]
            assert all(each == [low, high] for each in others)
            data = panel.spec["datasets"]
            assert all(low < row["x"] < high for row in [*data["dots"], *data.get("ends", ())])
            assert [(row["x"], row["end"]) for row in data.get("whole", ())] == [(0, 5)] * ("share" in name)


@pytest.mark.parametrize("stacks", [2, 3, 7, MOST_LINES])
def test_no_two_lines_look_the_same(stacks: int) -> None:
    lines: list[Line] = [(f"s{number}", ()) for number in range(stacks)]
    looks = [(colour, number % len(DASHES)) for colour, number in shades_of(lines, {lines[0]}).values()]
    assert len(set(looks)) == stacks and looks[0][0] == BASELINE


def test_quantities_are_numbers_and_names_are_not() -> None:
    assert [number_of(level) for level in ("16", "0.5ms", "64KiB", "C")] == [16, 0.0005, 65536, None]


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(2, 5))
def test_every_dot_is_in_a_panel_and_no_panel_has_too_many_lines(
    stacks: int, one: int, two: int, along: int
) -> None:
    dimensions = {
        name: tuple(str(n) for n in range(count)) for name, count in (("p", one), ("q", two), ("x", along))
    }
    dots = [
        Dot(f"s{stack}", {"p": p, "q": q, "x": x}, 1.0, None, None, stack == 0)
        for stack in range(stacks)
        for p in dimensions["p"]
        for q in dimensions["q"]
        for x in dimensions["x"]
    ]
    made = plan(dots, dimensions, x="x")
    found = panels(made, dots, dimensions)
    assert len({made.line(dot) for dot in dots}) <= 8
    assert sum(len([dot for dot in dots if made.panel_of(dot).items() <= each.items()]) for each in found) == len(
        dots
    )


def test_the_headline_of_tpc_c_is_tpmc(analysis: Analysis) -> None:
    (family,) = families(analysis)
    assert (family.metric, family.factors) == ("tpmc", ("rtt", "sync_binlog", "threads"))
    assert plain(quantity(9704, "1/min", "tpmc")) == "9,704 tpmC"
    row = next(each for each in family.rows if each.stack_name == "mirror")
    assert row.relative is not None and plain(relative_text(row)).startswith(plain(percent(row.relative.value)))


def test_long_lists_are_cut_with_their_rest_counted() -> None:
    assert shortened(["a", "b"]) == "a and b"
    assert shortened([str(number) for number in range(12)], 2) == "0, 1 and 10 more"
