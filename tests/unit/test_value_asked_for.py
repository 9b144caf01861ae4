"""The value that somebody asks for instead of throughput: in the answer, the charts and the tables."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from blocklab.charts.all import draw
from blocklab.charts.base import Chart
from blocklab.cli.main import app
from blocklab.errors import StudyError
from blocklab.model.sample import Parsed
from blocklab.model.terminal import Console
from blocklab.report import terminal_table
from blocklab.report.build import laid_out
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.compare import families, items
from blocklab.stats.headline import asked_of
from blocklab.store.folder import StudyFolder
from blocklab.store.run import load
from blocklab.store.tables import write
from blocklab.study.types import View
from tests.unit import synthetic
from tests.unit.answers import answered

pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return synthetic.make(tmp_path_factory.mktemp("plain"), transactions=2000)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(synthetic.make_sweep(tmp_path_factory.mktemp("sweep"), seconds=5))


@pytest.fixture(scope="module")
def patterns(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(synthetic.make_patterns(tmp_path_factory.mktemp("patterns"), seconds=3, few=True))


def asked(analysis: Analysis, y: str) -> Analysis:
    return laid_out(analysis, View(y=y))


def charts(analysis: Analysis, y: str) -> dict[str, Chart]:
    return {each.name: each for each in draw(asked(analysis, y), check=True).shown}


def test_latency_is_compared_where_it_is_asked_for(plain: StudyFolder) -> None:
    found = asked(analyse(plain), "latency.p99")
    labels = {item.label: item for item in items(found)}
    # The workload's own value, of every workload that has one, named for what it is.
    assert {"tps-scale1 latency p99", "rand-write-4k write latency p99"} <= labels.keys()
    assert len(labels) == 2 + len(synthetic.BLOCKS)
    mirror = labels["rand-write-4k write latency p99"].shares["drbd1"].value
    local = 0.58e-3 + 4096 / 60e6
    assert mirror == pytest.approx((local + synthetic.ADDED["drbd1"]) / local)
    lead = answered(found).lead.replace("\u00a0", " ")
    # A latency five times as high is not kept.
    assert (
        "keeps" not in lead
        and "drbd1 (mirror on b1, 2.7 ms away) has from" in lead
        and "of local's values." in lead
    )


def test_a_load_without_the_figure_shows_its_usual_one(plain: StudyFolder) -> None:
    found = asked(analyse(plain), "write.latency.mean")
    assert {item.metric for item in items(found)} == {"tps", "write.latency.mean"}
    lead, *points = [text.replace("\u00a0", " ") for text in (answered(found).lead, *answered(found).points)]
    assert "TPS" in lead
    assert any(text.startswith("Block I/O: ") and "of local's write latency mean" in text for text in points)


def test_probes_tell_what_the_load_does_not(plain: StudyFolder) -> None:
    analysis = analyse(plain)
    sources = {(item.label, tuple(item.rows)) for item in items(asked(analysis, "cpu.busy"))}
    # The active node of every stack, and each mirror's own peer.
    assert ("tps-scale1 cpu busy of a1", ("local", "drbd0", "drbd1")) in sources
    assert ("tps-scale1 cpu busy of a2", ("drbd0",)) in sources
    waits = {item.label: item for item in items(asked(analysis, "await"))}
    top = waits["rand-write-4k write await of the highest device"].rows
    assert {row.layer for row in top.values()} == {"vda", "drbd1"} and len(top) == 3


def test_a_device_that_counts_both_ways_adds_none_that_the_load_lacks(tmp_path: Path) -> None:
    """iostat knows reads and writes of every device; fio only of those that it did."""
    folder = synthetic.make(tmp_path, transactions=500)
    for cell in folder.manifest().cells:
        file = folder.cells / cell.key
        run = load(file)
        more = [
            msgspec.structs.replace(each, metric=each.metric.replace("write", "read"), value=0.0)
            for each in run.samples
            if each.layer in ("vda", "drbd1")
        ]
        write(file, Parsed((*run.samples, *more), run.phases, run.transactions))
    for y in ("bandwidth", "iops"):
        found = {item.metric for item in items(asked(analyse(folder), y)) if item.workload == "fio"}
        assert found == {f"write.{y}"}


def test_the_very_name_comes_before_those_that_end_like_it(sweep: Analysis) -> None:
    rows = [row for row in sweep.rows if row.metric in ("new_order.latency.p95", "tpmc")]
    alike = [msgspec.structs.replace(row, metric="latency.p95") for row in rows if row.metric != "tpmc"]
    assert asked_of([*rows, *alike], "latency.p95") == [("latency.p95", "")]
    assert asked_of(rows, "latency.p95") == [("new_order.latency.p95", "")]
    assert asked_of(rows, "") == []


def test_a_phase_that_lacks_it_shows_its_usual_figure(patterns: Analysis) -> None:
    """Of reads alone there is no ``write.iops`` but the device's own, which has to do with the journal."""
    found = {item.phase: item.label for item in items(asked(patterns, "write.iops"))}
    assert found["rw-4k-r100-qd1"] == "rw-4k-r100-qd1" and found["rw-4k-r0-qd1"] == "rw-4k-r0-qd1"
    metrics = {item.phase: item.metric for item in items(asked(patterns, "write.iops"))}
    assert metrics["rw-4k-r100-qd1"] == "read.iops" and metrics["rw-4k-r50-qd1"] == "write.iops"


def test_no_throughput_of_a_device_is_drawn_over_the_loads_latency(sweep: Analysis) -> None:
    made = charts(sweep, "iops")
    assert "sweep-tpcc-write-iops-of-the-highest-device" in made
    assert not any(name.startswith("knee-") for name in made)


def test_the_jobs_of_fio_by_what_probes_say_of_them(patterns: Analysis) -> None:
    made = charts(patterns, "cpu.busy")
    assert "heat-fio-cpu-busy-of-a1" in made and "heat-fio" not in made
    cells = [row for panel in made["heat-fio-cpu-busy-of-a1"].panels for row in panel.spec["datasets"]["cells"]]
    assert cells and all(10 < row["v"] < 50 for row in cells)


def test_of_many_figures_the_terminal_shows_those_that_suffer_most(patterns: Analysis, tmp_path: Path) -> None:
    folder = synthetic.make_patterns(tmp_path, seconds=3)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_table(folder, asked(analyse(folder), "latency.mean"), every=True))
    text = console.export_text()
    assert "values with the largest shares" in text
    worst = max(
        item.shares["drbd1"].value for item in items(asked(analyse(folder), "latency.mean")) if item.shares
    )
    shown = [int(each) for each in re.findall(r" (\d+)\s%", text)]
    assert max(shown) == round(100 * worst)


def test_a_sweep_is_drawn_of_it(sweep: Analysis) -> None:
    found = asked(sweep, "latency.p95")
    assert [family.label for family in families(found)] == ["tpcc new order latency p95"]
    made = charts(sweep, "latency.p95")
    chart = made["sweep-tpcc-new-order-latency-p95"]
    assert chart.panels[0].label.endswith("tpcc new order latency p95, ms over threads")
    assert re.search(
        r"mirror has from .* of local's new order latency p95$", made[f"share-{chart.name[6:]}"].title
    )
    # Nothing is drawn over a latency as if it were throughput.
    assert not any(name.startswith("knee-") for name in made)


def test_the_cpu_of_each_node_is_a_curve(sweep: Analysis) -> None:
    made = charts(sweep, "cpu.busy")
    assert {"sweep-tpcc-cpu-busy-of-a1", "sweep-tpcc-cpu-busy-of-b1"} <= made.keys()
    rows = [row for panel in made["sweep-tpcc-cpu-busy-of-b1"].panels for row in panel.spec["datasets"]["dots"]]
    assert {row["stack"] for row in rows} == {"mirror"} and {row["v"] for row in rows} == {39.0}


def test_the_jobs_of_fio_add_up_only_what_can_be_added(patterns: Analysis) -> None:
    half = {"of bs": "64k", "of reads": "50%", "of iodepth": "4", "stack": "local"}

    def cell(chart: Chart) -> float:
        rows = [row for panel in chart.panels for row in panel.spec["datasets"]["cells"]]
        return float(next(row["v"] for row in rows if half.items() <= row.items()))

    usual, bandwidth = charts(patterns, ""), charts(patterns, "bandwidth")
    assert cell(bandwidth["heat-fio-bandwidth"]) == pytest.approx(cell(usual["heat-fio"]) * 65_536 / 1e6, rel=1e-3)
    assert "Reads and writes together." in bandwidth["heat-fio-bandwidth"].caption
    waits = charts(patterns, "latency.mean")
    # Of each direction by itself: a mean of both would be of neither.
    assert {"heat-fio-read-latency-mean", "heat-fio-write-latency-mean"} <= waits.keys()
    chart = waits["heat-fio-write-latency-mean"]
    assert cell(chart) == pytest.approx(1e3 * 4 / cell(usual["heat-fio"]), rel=1e-3)
    assert "together" not in chart.caption and "100%" not in {
        row["of reads"] for panel in chart.panels for row in panel.spec["datasets"]["cells"]
    }
    assert not any(name.startswith("knee-") for name in waits) and "bars" not in waits


def test_the_command_takes_it_and_the_study_says_it(plain: StudyFolder) -> None:
    done = CliRunner().invoke(app, ["report", str(plain.path), "--y", "latency.p99"])
    assert done.exit_code == 0, done.output
    assert "tps-scale50 latency p99" in done.output and "TPS" not in done.output.split("? one build")[0]
    assert synthetic.study(report={"y": "latency.p99"}).report.y == "latency.p99"
    # Back to what the study says.
    CliRunner().invoke(app, ["report", str(plain.path)])


def test_a_figure_that_nothing_has_is_refused_with_those_that_there_are(plain: StudyFolder) -> None:
    done = CliRunner().invoke(app, ["report", str(plain.path), "--y", "latency.p42"])
    assert isinstance(done.exception, StudyError)
    said = str(done.exception)
    assert "--y: there is no value 'latency.p42'" in said and "latency.p99" in said and "cpu.busy" in said
    assert "y: there is no value 'latency.p42'" in " ".join(draw(asked(analyse(plain), "latency.p42")).left_out)
    with pytest.raises(StudyError, match=r"report\.y"):
        synthetic.study(report={"y": "p99 latency"})
