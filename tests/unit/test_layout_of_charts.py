"""Charts laid out as somebody asks: factors along the axis, in colours, in panels; and the charts of depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from blocklab.charts.all import draw
from blocklab.charts.base import INKS, ON_DARK, PALETTE, PAPER, PAPER_ON_DARK, RAMP, Chart, contrast, ink
from blocklab.charts.heat import crystal, shade
from blocklab.charts.latency import at_share, latencies_of
from blocklab.cli.main import app
from blocklab.errors import StoreError, StudyError
from blocklab.model.sample import Transaction
from blocklab.report import render
from blocklab.report.build import laid_out
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from blocklab.study.types import View
from tests.unit import synthetic

pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return synthetic.make_sweep(tmp_path_factory.mktemp("runs"), seconds=5)


@pytest.fixture(scope="module")
def analysis(folder: StudyFolder) -> Analysis:
    return analyse(folder)


def charts(analysis: Analysis, view: View | None = None) -> dict[str, Chart]:
    return {each.name: each for each in draw(laid_out(analysis, view), check=True).shown}


def axis_of(chart: Chart) -> str:
    line = next(layer for layer in chart.panels[0].spec["layer"] if layer["mark"]["type"] == "line")
    return str(line["encoding"]["x"]["title"])


def dots(chart: Chart) -> list[list[dict[str, Any]]]:
    return [panel.spec["datasets"]["dots"] for panel in chart.panels]


def test_a_factor_goes_where_it_is_asked_for(analysis: Analysis) -> None:
    chart = charts(analysis, View(x="rtt", color="threads", facet="sync_binlog"))["sweep-tpcc"]
    assert axis_of(chart) == "rtt" and len(chart.panels) == 4
    assert {panel.spec["title"]["text"] for panel in chart.panels} == {
        f"{stack} sync_binlog={level}" for stack in ("local", "mirror") for level in (0, 1)
    }
    assert "colours tell threads" in chart.caption
    lines = {row["line"] for rows in dots(chart) for row in rows}
    assert all("threads=" in line and "rtt=" not in line for line in lines)


def test_the_stack_may_be_the_axis_or_the_colour(analysis: Analysis) -> None:
    chart = charts(analysis, View(x="stack", facet="sync_binlog", color="rtt"))["sweep-tpcc"]
    assert axis_of(chart) == "stack"
    assert {row["x"] for rows in dots(chart) for row in rows} <= {0.0, 1.0}
    both = charts(analysis, View(color="stack", facet="rtt"))["sweep-tpcc"]
    assert "colours tell stack" in both.caption and len(both.panels) >= len(synthetic.RTTS)
    # Whatever the sync_binlog, a stack has one colour.
    found: dict[str, set[str]] = {}
    for panel in both.panels:
        line = next(layer for layer in panel.spec["layer"] if layer["mark"]["type"] == "line")
        scale = line["encoding"]["color"]["scale"]
        for name, colour in zip(scale["domain"], scale["range"], strict=True):
            found.setdefault(name.partition(" ")[0], set()).add(colour)
    assert {stack: len(colours) for stack, colours in found.items()} == {"local": 1, "mirror": 1}


def test_what_makes_no_difference_is_said(analysis: Analysis, tmp_path: Path) -> None:
    study = synthetic.sweep(
        factors={name: synthetic.SWEEP["factors"][name] for name in ("sync_binlog", "threads")}, expect=[]
    )
    found = analyse(synthetic.make_sweep(tmp_path, study, seconds=5))
    chart = charts(found, View(x="workload"))["sweep-tpcc"]
    assert axis_of(chart) == "workload"
    known = msgspec.structs.replace(found.study, report=View(x="rtt"))
    assert "Not laid out by rtt" in charts(laid_out(found, View(x="rtt")))["sweep-tpcc"].caption
    assert known.report.x == "rtt"


def test_loads_share_a_chart_in_a_study_without_factors(tmp_path: Path) -> None:
    found = charts(analyse(synthetic.make(tmp_path)), View(x="workload", color="stack"))
    chart = next(each for name, each in found.items() if name.startswith("sweep-TPS"))
    assert axis_of(chart) == "workload" and chart.title.startswith("TPS of tps-scale1 and tps-scale50")
    assert {row["stack"] for row in dots(chart)[0]} == {"local", "drbd0", "drbd1"}


def test_the_study_says_how_its_charts_are_laid_out(tmp_path: Path) -> None:
    study = synthetic.sweep(report={"x": "rtt", "facet": "stack"})
    chart = charts(analyse(synthetic.make_sweep(tmp_path, study, seconds=5)))["sweep-tpcc"]
    assert axis_of(chart) == "rtt"


def test_what_fios_jobs_differ_in_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    """Four jobs are bars as long as nobody wants them over an axis."""
    found = analyse(synthetic.make(tmp_path))
    assert "sweep-fio" not in charts(found)
    made = charts(found, View(x="bs", facet="access"))
    chart = made["sweep-fio"]
    assert axis_of(chart) == "bs"
    assert [panel.spec["title"]["text"] for panel in chart.panels] == ["access=random", "access=sequential"]
    rows = [(row["of bs"], row["stack"]) for row in dots(chart)[0]]
    assert sorted(rows) == sorted((bs, stack) for bs in ("4k", "512k", "1M") for stack in synthetic.ADDED)
    shares = [row["v"] for row in dots(made["share-fio"])[0] if row["stack"] == "drbd0" and row["of bs"] == "4k"]
    wanted = (0.58e-3 + 4096 / 60e6) / (0.58e-3 + synthetic.ADDED["drbd0"] + 4096 / 60e6)
    assert shares == [pytest.approx(100 * wanted, rel=1e-3)]
    # What has been laid out so is no bar, and what has no such axis stays one.
    assert {row["what"] for row in made["bars"].panels[0].spec["datasets"]["shares"]} == {
        "tps-scale1", "tps-scale50"
    }  # fmt: skip


def test_the_command_prints_a_table_over_what_fios_jobs_differ_in(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    done = CliRunner().invoke(app, ["report", str(folder.path), "--x", "bs", "--facet", "access"])
    assert done.exit_code == 0, done.output
    out = done.output.replace("\u00a0", " ")
    assert "fio random, IOPS" not in out and "fio access=random, IOPS (share of local)" in out
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["4k"], ["512k"], ["1M"])]
    assert [row[0] for row in rows] == ["1M", "4k", "512k", "1M"]
    # In one table alone: as bars they stand there only as long as nobody asks.
    assert "rand-write-512k" not in out and "tps-scale50" in out


def test_the_jobs_of_a_matrix_make_the_table(tmp_path: Path) -> None:
    workload = synthetic.RAW["workloads"]["fio"] | {
        "options": {"ioengine": "libaio", "rw": "randrw", "runtime": 3},
        "jobs": {},
        "matrix": {"bs": ["4k", "16k"], "rwmixread": [100, 50, 0], "iodepth": [1, 4, 16]},
    }
    plan = synthetic.study(workloads={"fio": workload}, expect=[])
    found = charts(analyse(synthetic.make_patterns(tmp_path, seconds=3, plan=plan)))
    cells = found["heat-fio"].panels[0].spec["datasets"]["cells"]
    assert len(cells) == 18 and {cell["row"] for cell in cells} >= {"4k · 100%", "16k · 0%"}


def test_a_name_that_no_job_differs_in_is_refused_with_those_that_they_do() -> None:
    said = "there is no factor 'iodepth'; there are stack, workload, and in fio's jobs bs, access"
    with pytest.raises(StudyError, match=said):
        synthetic.study(report={"x": "iodepth"})
    assert synthetic.study(report={"x": "bs", "color": "access"}).report.color == "access"


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"x": "distance"}, "report.x: there is no factor 'distance'; there are rtt, sync_binlog, threads, stack"),
        ({"x": "rtt", "color": "rtt"}, "report.color: rtt is already used as x"),
    ],
)
def test_a_name_that_is_no_factor_is_refused(report: dict[str, str], said: str) -> None:
    with pytest.raises(StudyError) as caught:
        synthetic.sweep(report=report)
    assert said in f"{caught.value.path}: {caught.value.problem}"


def test_the_command_lays_out_and_writes_where_it_is_told(folder: StudyFolder, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(
        app, ["report", str(folder.path), "-o", str(page), "--x", "rtt", "--facet", "sync_binlog"]
    )
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "Along the axis rtt" in text and 'href="data:text/csv;base64,' in text and "report.json" not in text
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--x", "distance"], "there is no factor 'distance'; there are rtt, sync_binlog"),
        (["--x", "rtt", "--color", "rtt"], "rtt is already used as x"),
        (["-o", "page.pdf"], "the page is HTML"),
    ],
)
def test_the_command_refuses_with_the_cure(folder: StudyFolder, options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["report", str(folder.path), *options])
    assert isinstance(done.exception, StudyError) and said in str(done.exception)


def test_the_runs_are_found_by_folder_name_and_file(folder: StudyFolder, tmp_path: Path) -> None:
    runs = str(folder.path.parent)
    for what in (["mirror-sweep"], [runs], []):
        done = CliRunner().invoke(app, ["report", *what, "--runs", runs, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["study"] == "mirror-sweep"
    lost = CliRunner().invoke(app, ["report", "nowhere", "--runs", runs])
    assert "no runs of nowhere" in str(lost.exception)
    cell = next((folder.path / "cells").iterdir())
    single = CliRunner().invoke(app, ["report", str(cell)])
    assert isinstance(single.exception, StoreError)
    assert "a single run" in str(single.exception) and str(folder.path) in single.exception.hint


# -- charts of depth -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patterns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Chart]:
    return charts(analyse(synthetic.make_patterns(tmp_path_factory.mktemp("runs"), seconds=3)))


def test_the_iops_table_has_the_figure_in_each_cell(patterns: dict[str, Chart]) -> None:
    chart = patterns["heat-fio"]
    assert len(chart.panels) == 2
    cells = chart.panels[0].spec["datasets"]["cells"]
    assert len(cells) == len(synthetic.patterns())
    assert {cell["depth"] for cell in cells} == {"1", "4", "16", "32", "64"}
    assert all(contrast(cell["ink"], cell["fill"]) >= 4.5 for cell in cells)
    # 4 KiB at queue depth 1 and 32, reads or writes alone; only r0 and r100 have a depth of 32.
    assert {(cell["row"], cell["depth"]) for cell in cells if "marked" in cell} == {
        (f"4k · {reads}", depth) for reads in ("0%", "100%") for depth in ("1", "32")
    }
    assert "CrystalDiskMark" in chart.caption


def test_only_what_crystaldiskmark_does_is_marked() -> None:
    sequential = {"bs": "1m", "access": "sequential", "iodepth": "8", "reads": "100%", "numjobs": "1"}
    assert crystal(sequential)
    for change in ({"iodepth": "4"}, {"bs": "512k"}, {"access": "random"}, {"reads": "70%"}, {"numjobs": "4"}):
        assert not crystal({**sequential, **change})


def test_shades_rise_with_the_figure() -> None:
    found = [shade(value, 10, 10_000) for value in (10, 30, 100, 1000, 5000, 10_000)]
    bright = [sum(int(each[at : at + 2], 16) for at in (1, 3, 5)) for each in found]
    assert bright == sorted(bright, reverse=True) and found[0] == "#eef4fb" and found[-1] == "#08306b"


def test_latency_stands_over_throughput_with_a_point_for_each_depth(patterns: dict[str, Chart]) -> None:
    chart = patterns["knee-fio"]
    rows = chart.panels[0].spec["datasets"]["points"]
    line = [row for row in rows if row["line"] == rows[0]["line"]]
    assert [row["n"] for row in line] == sorted(row["n"] for row in line) and len(line) >= 4
    assert all(row["ms"] > 0 and row["v"] > 0 for row in rows)
    assert "(mean, on a logarithmic scale)" in chart.caption


def test_a_sweep_over_clients_has_it_too(analysis: Analysis) -> None:
    chart = charts(analysis)["knee-tpcc"]
    assert "A point for each level of threads, from 1 to 64" in chart.caption
    assert "95th percentile of new orders" in chart.caption
    table = chart.panels[0].spec["usermeta"]
    assert ["of threads", "threads"] in [list(each) for each in table["columns"]]


# -- what all share --------------------------------------------------------------------------------------------


def test_the_curve_of_transactions_is_that_of_their_ranks() -> None:
    found = latencies_of([Transaction(0.0, number / 1000) for number in range(1, 1001)])
    assert found is not None and found.count == 1000 and found.tiles == ()
    assert at_share(found, 0.5) == pytest.approx(0.5, rel=0.03)
    assert at_share(found, 0.99) == pytest.approx(0.99, rel=0.003)
    assert found.curve[-1] == (1.0, 1.0)
    shares = [share for share, _ in found.curve]
    assert shares == sorted(shares)
    assert latencies_of([]) is None


def test_text_can_be_read_on_both_papers() -> None:
    for colour in (*PALETTE, *RAMP[:-1], *INKS):
        assert contrast(ink(colour), PAPER) >= 4.5, colour
        assert contrast(ON_DARK[ink(colour)], PAPER_ON_DARK) >= 4.5, colour
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_every_chart_has_a_table_of_its_rows(
    analysis: Analysis, patterns: dict[str, Chart], tmp_path: Path
) -> None:
    plain = charts(analyse(synthetic.make(tmp_path)))
    for chart in (*charts(analysis).values(), *patterns.values(), *plain.values()):
        for panel in chart.panels:
            meta = panel.spec["usermeta"]
            rows = panel.spec["datasets"][meta["rows"]]
            known = {field for row in rows for field in row}
            told = [field for field, _ in meta["columns"] if field in known]
            assert len(told) >= 2, (chart.name, panel.label)


def test_the_page_has_its_table_behind_each_chart(folder: StudyFolder) -> None:
    text = render(folder).read_text()
    assert text.count('<details class="data"') == text.count("<figure")


def test_factors_that_are_fios_options_make_the_table_too(tmp_path: Path) -> None:
    factors = {
        "depth": {"field": "workloads.fio.options.iodepth", "values": [1, 4, 32]},
        "block": {"field": "workloads.fio.jobs.rand-write-4k.bs", "values": ["4k", "16k"]},
    }
    workloads = {"fio": synthetic.RAW["workloads"]["fio"]}
    study = synthetic.study(factors=factors, workloads=workloads, expect=[])
    chart = charts(analyse(synthetic.make(tmp_path, study)))["heat-fio-rand-write-4k"]
    assert {(cell["row"], cell["depth"]) for cell in chart.panels[0].spec["datasets"]["cells"]} == {
        (block, depth) for block in ("4k", "16k") for depth in ("1", "4", "32")
    }
