"""What charts, their captions and the tables around them say is what was measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.charts import timeline
from blocklab.charts.all import draw
from blocklab.charts.base import DAGGER, Chart, apart
from blocklab.charts.curves import Frame, curve_panel
from blocklab.charts.heat import brief
from blocklab.charts.latency import _nth
from blocklab.charts.plan import Dot, Group, plan
from blocklab.model.sample import Sample
from blocklab.report import render, tables
from blocklab.report.export import as_csv
from blocklab.report.sheets import sheets
from blocklab.stats import longform
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from tests.unit import synthetic, versions
from tests.unit.answers import answered
from tests.unit.floor_samples import with_samples
from tests.unit.readers import Reader
from tests.unit.synthetic_drills import FAILOVER, failover, make_drills

pytestmark = pytest.mark.usefixtures("without_vega")


def charts(analysis: Analysis) -> dict[str, Chart]:
    return {chart.name: chart for chart in draw(analysis, check=True).shown}


def page_of(folder: StudyFolder) -> str:
    return Reader(render(folder).read_text()).text


# -- time lines ------------------------------------------------------------------------------------------------


def with_phases(folder: StudyFolder, stack: str, names: Sequence[str]) -> None:
    """The phases of a stack's fio, each as long as the others."""
    for cell in folder.manifest().cells:
        if (cell.stack, cell.workload) == (stack, "fio"):
            path = folder.cells / cell.key / "phases.json"
            old = json.loads(path.read_text())
            start, each = old[0]["start"], (old[-1]["end"] - old[0]["start"]) / len(names)
            path.write_text(
                json.dumps(
                    [
                        {"name": name, "start": start + at * each, "end": start + (at + 0.9) * each}
                        for at, name in enumerate(names)
                    ]
                )
            )


def bands(chart: Chart, stack: str) -> list[str]:
    (panel,) = [each for each in chart.panels if each.label.startswith(f"{stack}:")]
    return [band["name"] for band in panel.spec["datasets"]["phases"]]


def texts(chart: Chart, stack: str) -> int:
    """How many layers of text a stack's panel has."""
    (panel,) = [each for each in chart.panels if each.label.startswith(f"{stack}:")]
    return sum(layer["mark"]["type"] == "text" for layer in panel.spec["layer"])


def test_a_job_has_one_number_on_all_stacks_and_in_all_rounds(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=50)
    with_phases(folder, "local", ["a", "b"] * 3)
    with_phases(folder, "drbd0", ["b", "a"] * 3)
    with_phases(folder, "drbd1", ["b", "c"] * 15)
    chart = charts(analyse(folder))["bandwidth-fio"]
    assert "Phases: 1 = a, 2 = b, 3 = c." in chart.caption
    assert bands(chart, "local") == ["1", "2"] * 3 and bands(chart, "drbd0") == ["2", "1"] * 3
    assert texts(chart, "local") == texts(chart, "drbd0") == 2
    # Of thirty no numbers are drawn, which only that stack has.
    assert texts(chart, "drbd1") == 0 and bands(chart, "drbd1") == ["2", "3"] * 15
    assert "30 phases are too many for numbers: the tooltip of a band has its name." in chart.caption


def test_many_phases_are_counted_and_no_order_is_claimed(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=50)
    for stack, rounds in (("local", 20), ("drbd0", 13), ("drbd1", 20)):
        with_phases(folder, stack, ["a", "b"] * rounds)
    caption = charts(analyse(folder))["bandwidth-fio"].caption
    assert "26 to 40 phases are too many for numbers" in caption
    assert "1 = a" not in caption and "in the order of" not in caption


def lines(analysis: Analysis) -> list[dict[str, Any]]:
    panel = charts(analysis)["iops-fio"].panels[0]
    assert panel.label.startswith("local")
    found: list[dict[str, Any]] = panel.spec["datasets"]["lines"]
    assert any("dot" in row for row in found) == any(
        layer.get("transform") == [{"filter": "datum.dot"}] for layer in panel.spec["layer"]
    )
    return found


def test_no_point_of_a_long_load_is_of_two_jobs_and_none_is_invisible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = analyse(synthetic.make(tmp_path, transactions=50))
    monkeypatch.setattr(timeline, "FEW_POINTS", 0)
    single: dict[int, list[float]] = {}
    for row in lines(analysis):
        single.setdefault(row["phase"], []).append(row["v"])
    assert len([phase for phase in single if phase % 2]) == 4
    monkeypatch.setattr(timeline, "MOST_SECONDS", 1)
    means = lines(analysis)
    assert len(means) < 20
    for row in means:
        assert min(single[row["phase"]]) <= row["v"] <= max(single[row["phase"]])
        alone = sum(other["phase"] == row["phase"] for other in means) == 1
        # The second of a pause between two phases is half of each job: it stays no more than a gap.
        assert row.get("dot", False) == (alone and row["phase"] % 2 == 1)
    assert any("dot" in row for row in means)
    assert "of up to 83 seconds of one phase" in charts(analysis)["iops-fio"].caption


def test_no_second_is_of_two_phases_where_a_phase_has_whole_ones(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path, transactions=50))
    (measured,) = [each for at, each in analysis.measured.items() if at == ("local", "fio")]
    start, edges = measured.start or 0.0, [at for phase in measured.run.phases for at in (phase.start, phase.end)]
    points = lines(analysis)
    assert len(points) > 20
    for row in points:
        assert not [edge for edge in edges if abs(edge - start - row["t"]) < 0.49]


def test_a_database_is_shown_over_time(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make_sweep(tmp_path, seconds=20))
    chart = charts(analysis)["throughput-tpcc-threads-1"]
    assert chart.title.startswith("tpcc threads=1 over time: ") and "tpmC on local" in chart.title
    rows = chart.panels[0].spec["datasets"]["lines"]
    series = analysis.measured["local sync_binlog=0", "tpcc threads=1"].series
    (points,) = [points for (_, _, metric, _), points in series.items() if metric == "tpmc"]
    assert [row["v"] for row in rows] == [float(f"{value:.4g}") for _, value in points]


def test_a_busy_cpu_of_a_database_is_shown_over_time_beside_block_io(tmp_path: Path) -> None:
    drawn = charts(analyse(synthetic.make(tmp_path, busy=["local/tps-scale1"])))
    assert "the CPU may be the limit" in drawn["cpu-tps-scale1"].title and "cpu-tps-scale50" not in drawn


def test_what_a_node_sends_to_itself_is_not_the_most(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=50)

    def sent(samples: list[Sample]) -> list[Sample]:
        times = [each.time for each in samples if each.layer == "drbd1" and each.metric == "write.iops"]
        return samples + [
            Sample("tx.bandwidth", value, "B/s", layer, "a1", time=time)
            for layer, value in (("lo", 9e8), ("vec0", 3e7))
            for time in times
        ]

    with_samples(folder, "drbd1/fio", sent)
    chart = charts(analyse(folder))["network-fio"]
    assert "(vec0 of a1, drbd1" in chart.title
    assert {row["line"] for panel in chart.panels for row in panel.spec["datasets"]["lines"]} == {"vec0 on a1"}


def test_a_sixth_line_looks_like_none_before_it(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=50)

    def sent(samples: list[Sample]) -> list[Sample]:
        times = [each.time for each in samples if each.layer == "drbd1" and each.metric == "write.iops"]
        return samples + [
            Sample("tx.bandwidth", 1e6 * number, "B/s", f"vec{number}", "a1", time=time)
            for number in range(1, timeline.MOST_LINES + 1)
            for time in times
        ]

    with_samples(folder, "drbd1/fio", sent)
    (panel,) = charts(analyse(folder))["network-fio"].panels
    drawn = next(layer["encoding"] for layer in panel.spec["layer"] if layer["mark"]["type"] == "line")
    colours, dashes = (drawn[channel]["scale"]["range"] for channel in ("color", "strokeDash"))
    looks = {(colour, str(dash)) for colour, dash in zip(colours, dashes, strict=True)}
    assert len(looks) == timeline.MOST_LINES > len(set(colours))


# -- curves, tables of cells ------------------------------------------------------------------------------------

FRAME = Frame("TPS", 1.0, "1/s", "tps", shares=False)


def test_bounds_are_told_as_they_are_however_they_are_drawn() -> None:
    dimensions = {"rtt": ("1ms", "2ms", "3ms")}
    dots = [
        Dot("local", {"rtt": "1ms"}, 10.0, 9.5, None, base=True),
        Dot("local", {"rtt": "2ms"}, 1000.0, 20.0, None, base=True),
        Dot("local", {"rtt": "3ms"}, 500.0, None, None, base=True),
        Dot("mirror", {}, 50.0, 5.0, None, base=False, limited="near the floor"),
    ]
    made = plan(dots, dimensions)
    panel = curve_panel(Group("", dots, dots, dots), made, dimensions, FRAME)
    low, high, unsure, *level = panel.spec["datasets"]["dots"]
    assert (low["low"], low["high"], low["foot"]) == (0.5, 19.5, 8.0), "the axis begins at 8"
    assert (high["low"], high["foot"]) == (980, 980)
    # Without an interval there are no bounds.
    assert "low" not in unsure and "high" not in unsure
    assert [(row["low"], row["high"], "foot" in row) for row in level] == [(45, 55, False)] * 2
    # What is limited is seen as that on a level line too.
    (hollow,) = [layer for layer in panel.spec["layer"] if layer["mark"].get("filled") is False]
    assert hollow["transform"] == [{"filter": "datum.note"}] and all("note" in row for row in level)


def test_limited_cells_are_marked_and_the_caption_says_how(tmp_path: Path) -> None:
    found = charts(analyse(synthetic.make_patterns(tmp_path, seconds=3, lab=True, few=True)))["heat-fio"]
    rows = [row for panel in found.panels for row in panel.spec["datasets"]["cells"]]
    assert {"note" in row for row in rows} == {True, False}
    for row in rows:
        assert row["text"].endswith("†") == row["short"].endswith("†") == ("note" in row)
    assert DAGGER in found.caption


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (26_808, "27k"),
        (9120, "9.1k"),
        (999.7, "1k"),
        (268_000, "270k"),
        (2.6e6, "2.6M"),
        (0.5812, "0.58"),
        (0, "0"),
    ],
)
def test_a_figure_in_little_room(value: float, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    ("step", "text"),
    [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st"), (32, "32nd"), (112, "112th")],
)
def test_ordinals(step: int, text: str) -> None:
    assert _nth(step) == text


def test_charts_whose_labels_have_one_slug_are_apart(tmp_path: Path) -> None:
    factors = {
        "gap": {"values": {"-5": {"workloads.tpcc.clients": 4}, "5": {"workloads.tpcc.clients": 8}}},
    }
    study = synthetic.sweep(factors=factors, expect=[])
    names = [chart.name for chart in draw(analyse(synthetic.make_sweep(tmp_path, study, seconds=5))).shown]
    assert len(names) == len(set(names)) and {"cpu-tpcc-gap-5", "cpu-tpcc-gap-5-2"} <= set(names)
    assert apart(["a", "a", "a-2", "b"]) == ["a", "a-2", "a-2-2", "b"]


# -- the page around them ----------------------------------------------------------------------------------------


def test_a_cell_with_figures_is_not_among_those_without(tmp_path: Path) -> None:
    labels = ["drbd0/fio (repeat 2)", *(f"drbd1/fio{each}" for each in ("", " (repeat 2)", " (repeat 3)"))]
    folder = synthetic.make(tmp_path, synthetic.study(repeats=3), failed=labels, transactions=50)
    text = page_of(folder)
    without, _, blocks = text.partition("Failed repeats")
    without = without.partition("Cells without results cell repeat state why")[2]
    assert [f"drbd1/fio {block} ✗ failed" in without for block in (1, 2, 3)] == [True] * 3
    assert "drbd0/fio" not in without and "drbd0/fio 2 ✗ failed" in blocks
    caveats = answered(analyse(folder)).caveats
    assert "1 of 9 cells have no results: drbd1/fio (failed)." in caveats
    assert "Repeats without results: drbd0/fio (failed in repeat 2)." in caveats
    assert "Cells without results" not in page_of(
        synthetic.make(tmp_path / "b", synthetic.study(repeats=2), failed=["local/fio"], transactions=50)
    )


@pytest.mark.parametrize("factors", [{}, {"clients": {"field": "workloads.tx.clients", "values": [4, 8]}}])
def test_a_block_that_failed_is_not_why_a_stack_lacks_a_nodes_figure(
    tmp_path: Path, factors: dict[str, Any]
) -> None:
    rates = {"local": [1000.0, 990.0, 1010.0], "mirror": [500.0, 490.0, 510.0]}
    workload = "tx clients=4" if factors else "tx"
    folder = versions.make(tmp_path, rates, failed=[f"local/{workload} (repeat 2)"], factors=factors)

    def on_both(samples: list[Sample]) -> list[Sample]:
        idle = [each for each in samples if each.metric == "cpu.idle"]
        return samples + [msgspec.structs.replace(each, host="a2") for each in idle]

    for cell in folder.manifest().cells:
        if cell.stack == "mirror":
            with_samples(folder, cell.label, on_both)
    analysis = analyse(folder)
    assert [gap.stack for gap in analysis.gaps] == ["local"]
    said = [
        row.values[at].text
        for sheet in sheets(analysis)
        for row in sheet.rows
        if row.stack == "local"
        for at, column in enumerate(sheet.columns)
        if column == "CPU busy on a2, %"
    ]
    assert said == (["–", "–"] if factors else ["–"])


def test_failures_of_all_blocks_are_counted(tmp_path: Path) -> None:
    folder = versions.make(tmp_path, {"local": [1000.0, 990.0, 1010.0], "mirror": [500.0, 490.0, 510.0]})
    for label, count in (("local/tx (repeat 2)", 1), ("mirror/tx", 2), ("mirror/tx (repeat 3)", 1203)):
        failed = Sample("failed", float(count), "1", "pgbench", "a1")
        with_samples(
            folder, label, lambda samples, failed=failed: [s if s.metric != "failed" else failed for s in samples]
        )
    said = [text for text in tables.warnings(analyse(folder)) if text.endswith("failed")]
    assert said == ["local/tx: 1 transaction failed", "mirror/tx: 1,205 transactions failed"]


def test_of_too_many_runs_those_that_failed_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_RUNS", 4)
    failed = [f"drbd1/{workload}" for workload in synthetic.RAW["workloads"]] + ["drbd0/tps-scale50", "drbd0/fio"]
    folder = synthetic.make(tmp_path, failed=failed, transactions=50)
    told, left = tables.explained_runs(analyse(folder))
    assert all(run.outcome.status == "failed" for run in told) and len(told) == 4
    assert sum(run.outcome.status == "failed" for run in left) == 1
    assert "4 cells: those that failed, then" in page_of(folder)
    assert "Those of the other 5, of which 1 failed, are in cells/*/steps.jsonl." in page_of(folder)


def header_and_rows(text: str) -> tuple[list[str], list[dict[str, str]]]:
    rows = csv.DictReader(io.StringIO(text))
    return list(rows.fieldnames or ()), list(rows)


def test_a_factor_that_is_called_like_a_column_has_one_of_its_own(tmp_path: Path) -> None:
    factors = {"host": synthetic.SWEEP["factors"]["threads"], "rtt": synthetic.SWEEP["factors"]["rtt"]}
    analysis = analyse(synthetic.make_sweep(tmp_path, synthetic.sweep(factors=factors, expect=[]), seconds=3))
    names, rows = header_and_rows(as_csv(longform.report(analysis)))
    assert len(names) == len(set(names)) and {"factor.rtt", "host", "factor.host"} <= set(names)
    assert {row["factor.host"] for row in rows} == {f"{each}" for each in synthetic.THREADS}
    assert {row["host"] for row in rows} == {"a1", "b1"}
    study = failover(factors={"fault": FAILOVER["factors"]["rtt"]}, repeats=1)
    folder = make_drills(tmp_path / "b", study)
    render(folder)
    names, rows = header_and_rows((folder.path / "drills.csv").read_text())
    assert len(names) == len(set(names)) and {row["fault"] for row in rows} == {"kill"}
    assert "10ms" in {row["factor.fault"] for row in rows}
