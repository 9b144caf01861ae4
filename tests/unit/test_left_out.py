"""What charts and comparisons could lose in silence, or show under another's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.charts import sweep
from blocklab.charts.all import draw
from blocklab.charts.base import Chart
from blocklab.charts.forest import forest
from blocklab.charts.outage import outage
from blocklab.charts.plan import scale_of
from blocklab.model.drill import Drill
from blocklab.report.versus import summary
from blocklab.stats.analysis import analyse
from blocklab.stats.compare import families
from blocklab.stats.grid import number_of
from blocklab.stats.source import source
from blocklab.stats.versus import headlines, versus
from blocklab.study.grid import cells
from tests.unit import synthetic, versions
from tests.unit.synthetic_drills import FAILOVER, drill, failover, make_drills


@pytest.mark.parametrize("level", ["inf", "-inf", "nan", "1e999"])
def test_a_level_that_is_no_finite_number_is_a_name(level: str) -> None:
    assert number_of(level) is None
    found = scale_of("x", ["1", level])
    assert found.places == (0, 1) and not found.measured


def test_charts_of_drills_whose_names_read_alike_are_told_apart(tmp_path: Path) -> None:
    mirror = FAILOVER["stacks"]["drbd-a"]
    workload = {"workload": "ledger", "from": "app", "clients": 8, "time": "9s"}
    plan = failover(
        stacks={"m-a": mirror, "m": mirror},
        baseline="m",
        workloads={"b": workload, "a-b": workload},
        repeats=1,
        factors={},
    )
    names = [chart.name for chart in draw(analyse(make_drills(tmp_path, plan))).shown]
    assert len([name for name in names if name.startswith("outage-")]) == 4
    assert len(set(names)) == len(names)


def test_sweeps_whose_labels_begin_alike_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = analyse(synthetic.make_sweep(tmp_path))
    (plain,) = {each.name for each in sweep.sweeps(analysis)}
    monkeypatch.setattr(sweep, "families", lambda of: [*families(of)] * 3)
    assert [each.name for each in sweep.sweeps(analysis)] == [plain, f"{plain}-2", f"{plain}-3"]


def drilled(median: float, longest: float) -> Drill:
    """A drill in which each answer took about as long."""
    plan = failover(repeats=1, factors={})
    found, _, _ = drill(next(cell for cell in cells(plan) if cell.stack == "drbd-a"), 1e9)
    rows = tuple(msgspec.structs.replace(row, p50=median, longest=longest) for row in found.bins)
    return msgspec.structs.replace(found, bins=rows)


def axis_of(chart: Chart) -> list[float]:
    """The ticks of the latencies."""

    def channels(value: Any) -> list[Any]:
        if isinstance(value, dict):
            own = [value] if isinstance(value.get("axis"), dict) else []
            return own + [found for each in value.values() for found in channels(each)]
        return [found for each in value for found in channels(each)] if isinstance(value, list) else []

    return next(y["axis"]["values"] for y in channels(chart.panels[0].spec) if y.get("title") == "latency, ms")


@pytest.mark.parametrize(
    ("median", "longest", "ticks"),
    [(2.7e-3, 3.9e-3, [2.7, 3.9]), (3.01e-3, 3.01e-3, [3.0]), (2.1e-3, 3.3e-3, [2.0]), (1e-3, 9e-2, [1, 10, 100])],
)
def test_the_latencies_of_an_outage_have_an_axis(median: float, longest: float, ticks: list[float]) -> None:
    chart = outage(drilled(median, longest), "one", "drbd-a")
    assert isinstance(chart, Chart) and axis_of(chart) == pytest.approx(ticks)


def test_cells_without_a_share_are_named_under_cost_against_loss(tmp_path: Path) -> None:
    commit = "stacks.*.layers.postgres.settings.synchronous_commit"
    plan = failover(repeats=1, factors={"commit": {"field": commit, "values": ["on", "off"]}})
    whole = analyse(make_drills(tmp_path / "whole", plan))
    (chart,) = [chart for chart in draw(whole).shown if chart.name == "cost"]
    assert "for want of" not in chart.caption
    void = analyse(make_drills(tmp_path / "void", plan, invalid=["local/ledger commit=off"]))
    (chart,) = [chart for chart in draw(void).shown if chart.name == "cost"]
    shown = {row["what"] for panel in chart.panels for row in panel.spec["datasets"]["cells"]}
    assert shown == {f"{name} commit=on" for name in ("local", "drbd-a", "drbd-b", "drbd-c")}
    left = "drbd-c commit=off, drbd-b commit=off and drbd-a commit=off"
    assert f"Not shown, no rate before the fault, their own or local's: {left}." in chart.caption


def test_loads_that_have_only_the_probes_figures_in_common_are_not_said_to_be_zero(tmp_path: Path) -> None:
    sides = [versions.make(tmp_path / name, {"local": [1000.0]}) for name in ("a", "b")]
    whole = versus(*(source(each.path) for each in sides))
    found = replace(whole, pairs=tuple(pair for pair in whole.pairs if not pair.own))
    assert found.pairs and headlines(found.pairs) == ()
    assert summary(found, ()) == "The workloads have no value in common; --all has the probes'."
    assert forest((), "A", "B", "") == "ratios: the workloads have no value in common"
    zero = tuple(pair for pair in whole.pairs if pair.metric == "failed")
    assert "is above 0" in summary(whole, zero) and "above 0" in str(forest(zero, "A", "B", ""))
