"""Charts: valid Vega-Lite, no empty panel, a note for each that is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.charts.all import draw
from blocklab.charts.base import (
    BASELINE,
    INKS,
    ON_DARK,
    PALETTE,
    RAMP,
    Chart,
    Charts,
    colours,
    config,
    log_ticks,
    ramp,
)
from blocklab.charts.latency import thin
from blocklab.charts.layout import layouts
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.format import NBSP
from tests.unit import synthetic


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(synthetic.make(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def drawn(analysis: Analysis) -> Charts:
    return draw(analysis, check=True)


def by_name(shown: tuple[Chart, ...]) -> dict[str, Chart]:
    return {chart.name: chart for chart in shown}


def test_every_part_is_valid_vega_lite_and_every_panel_holds_data(drawn: Charts) -> None:
    assert drawn.left_out == ()
    assert set(by_name(drawn.shown)) == {
        "bars", "latency-tps-scale1", "latency-tps-scale50", "latency-curve-tps-scale1",
        "latency-curve-tps-scale50", "latency-curve-fio", "throughput-tps-scale1", "throughput-tps-scale50",
        "bandwidth-fio", "await-fio", "iops-fio", "cpu-fio",
    }  # fmt: skip
    for chart in drawn.shown:
        for panel in chart.panels:
            assert all(panel.spec["datasets"].values()), f"{chart.name}, {panel.label}: an empty data set"
            assert "$schema" not in panel.spec and "http" not in str(panel.spec)


def test_titles_say_the_finding(drawn: Charts) -> None:
    titles = {name: chart.title.replace(NBSP, " ") for name, chart in by_name(drawn.shown).items()}
    assert titles["bars"] == "drbd0 keeps 46 % to 96 % and drbd1 keeps 18 % to 86 % of what local does"
    assert titles["latency-tps-scale1"].startswith("tps-scale1: the median transaction takes 9.")
    assert "In rand-write-4k, a write waits 0.6" in titles["await-fio"]
    assert "no node's CPU is the limit" in titles["cpu-fio"]


def test_a_bar_for_each_stack_and_workload_besides_the_baseline(drawn: Charts) -> None:
    (panel,) = by_name(drawn.shown)["bars"].panels
    rows = panel.spec["datasets"]["shares"]
    assert len(rows) == 2 * 6 and {row["stack"] for row in rows} == {"drbd0", "drbd1"}
    first = rows[0]
    assert (first["what"], first["stack"], round(first["share"])) == ("tps-scale1", "drbd0", 48)
    assert first["low"] <= first["share"] <= first["high"]


def test_many_transactions_are_thinned_but_the_slowest_stay() -> None:
    points = [(number / 100, 10 + number % 7) for number in range(100_000)] + [(1.5, 500.0)]
    kept, step, slow = thin(points)
    assert len(kept) <= 2500 and step > 1 and slow <= 500
    assert (1.5, 500.0) in kept
    assert kept == sorted(kept)


def test_few_transactions_are_all_shown() -> None:
    points = [(1.0, 2.0), (2.0, 3.0)]
    assert thin(points) == (points, 1, 0)


def test_the_caption_says_what_was_left_out(tmp_path: Path, drawn: Charts) -> None:
    charts = by_name(drawn.shown)
    assert "every 5th of 10,000 and the slowest 100 of each stack" in charts["latency-tps-scale1"].caption
    few = by_name(draw(analyse(synthetic.make(tmp_path, transactions=900))).shown)
    assert "All are shown." in few["latency-tps-scale1"].caption


def test_transactions_that_all_took_no_time_are_no_points(tmp_path: Path) -> None:
    drawn = draw(analyse(synthetic.make(tmp_path, transactions=0)))
    names = [chart.name for chart in drawn.shown if chart.name.startswith("latency-")]
    # What is left are the percentiles that pgbench reports by itself.
    assert names == [f"latency-curve-{workload}" for workload in ("fio", "tps-scale1", "tps-scale50")]


def test_percentiles_that_fio_reports_are_a_curve_for_each_phase(drawn: Charts) -> None:
    chart = by_name(drawn.shown)["latency-curve-fio"]
    assert [panel.label.split(":")[0] for panel in chart.panels][-1] == "rand-write-4k write"
    rows = chart.panels[-1].spec["datasets"]["curve"]
    assert {row["share"] for row in rows} >= {"50 %", "99 %"} and {row["stack"] for row in rows} >= {
        "local",
        "drbd0",
    }
    at = {share: [row["l"] for row in rows if row["share"] == share] for share in ("50 %", "99 %")}
    assert all(slow >= fast for slow, fast in zip(at["99 %"], at["50 %"], strict=True))
    assert "rand-write-4k write" in chart.title


def test_a_failed_cell_leaves_its_panel_out_and_nothing_else(tmp_path: Path) -> None:
    charts = by_name(draw(analyse(synthetic.make(tmp_path, failed=["drbd0/fio", "drbd1/tps-scale1"]))).shown)
    assert [panel.label.split(":")[0] for panel in charts["await-fio"].panels] == ["local", "drbd1"]
    assert len(charts["latency-tps-scale1"].panels) == 2
    rows: list[dict[str, Any]] = charts["bars"].panels[0].spec["datasets"]["shares"]
    assert ("tps-scale1", "drbd1") not in {(row["what"], row["stack"]) for row in rows}


def test_without_any_run_there_is_no_chart_but_notes(tmp_path: Path) -> None:
    everything = [f"{s}/{w}" for s in synthetic.RAW["stacks"] for w in synthetic.RAW["workloads"]]
    drawn = draw(analyse(synthetic.make(tmp_path, missing=everything)))
    assert drawn.shown == ()
    assert any(note.startswith("bars:") for note in drawn.left_out)


def test_the_await_panel_shows_the_volumes_below_the_mirror(drawn: Charts) -> None:
    panels = {p.label.split(":")[0]: p for p in by_name(drawn.shown)["await-fio"].panels}
    lines = {row["line"] for row in panels["drbd1"].spec["datasets"]["lines"]}
    assert lines == {"drbd1 on a1", "vda on a1", "vda on b1"}
    assert {row["line"] for row in panels["local"].spec["datasets"]["lines"]} == {"vda on a1"}


def test_phases_too_short_for_their_names_get_numbers(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    for cell in folder.manifest().cells:
        if cell.workload == "fio":
            path = folder.cells / cell.key / "phases.json"
            path.write_text(path.read_text().replace("seq-write-1m", "sequential-write-of-1-mebibyte"))
    chart = by_name(draw(analyse(folder)).shown)["bandwidth-fio"]
    assert "1 = sequential-write-of-1-mebibyte, 2 = rand-write-1m" in chart.caption
    assert [band["name"] for band in chart.panels[0].spec["datasets"]["phases"]] == ["1", "2", "3", "4"]


def test_colours_are_distinct_and_have_a_twin_for_dark_paper() -> None:
    found = colours(("a", "base", "b"), ("base",))
    assert found == {"a": PALETTE[0], "base": BASELINE, "b": PALETTE[1]}
    assert {*PALETTE, BASELINE, *RAMP, *INKS.values()} == set(ON_DARK)
    assert len(set(ramp(9))) == 9 and ramp(2) == [RAMP[0], RAMP[-1]] and ramp(1) == [RAMP[0]]
    assert config(dark=True)["background"] != config(dark=False)["background"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(4.2, 110, [5, 10, 20, 50, 100]), (0.4, 1.2, [0.5, 1]), (0.02, 90, [0.1, 1, 10])],
)
def test_logarithmic_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks


def test_the_layout_has_each_layer_where_it_stands(analysis: Analysis) -> None:
    local, _, drbd1 = layouts(analysis)
    assert local.nodes == ("a1",) and [box.title for box in local.boxes] == ["Volume", "xfs", "PostgreSQL"]
    assert drbd1.nodes == ("a1", "b1")
    mirror = next(box for box in drbd1.boxes if box.link)
    assert (mirror.first, mirror.width, mirror.row) == (0, 2, 1)
    assert mirror.link.replace(NBSP, " ") == "cross: 2.7 ms round trip (ping: 2.81 ms)"
    assert sum(box.title == "Volume" for box in drbd1.boxes) == 2
