"""The chart of a study with factors: the headline figure over one factor, and what each stack keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blocklab.charts.base import HOLLOW, Chart, slug
from blocklab.charts.curves import Curves, Frame, curve_panel
from blocklab.charts.plan import STACK, Dot, Plan, belongs, panels, plan
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Family, families
from blocklab.stats.format import listed, quantity, scale
from blocklab.stats.grid import label_of, levels_of
from blocklab.stats.sweeps import ranges
from blocklab.study.factors import of_workload

# As many headlines get charts, and as many panels a chart; a page with more is a catalogue.
MOST_FAMILIES = 6
MOST_PANELS = 12


@dataclass(frozen=True)
class Sweep:
    """What a pair of charts is drawn from. ``unit`` and ``metric`` are those of the dots' figures.

    ``own_axis``: panels that differ in one of these dimensions have a y axis each.
    """

    name: str
    label: str
    dots: tuple[Dot, ...]
    dimensions: Mapping[str, tuple[str, ...]]
    made: Plan
    unit: str
    metric: str
    shares: str
    notes: str = ""
    own_axis: tuple[str, ...] = ()


def sweeps(analysis: Analysis, skip: Sequence[str] = ()) -> list[Chart | str]:
    """Both charts of each headline that a factor changes, but for the loads that ``skip`` names."""
    found: list[Chart | str] = []
    swept = [family for family in families(analysis) if family.workload not in skip]
    for family in swept[:MOST_FAMILIES]:
        found += draw_sweep(analysis, _sweep(analysis, family))
    if left := swept[MOST_FAMILIES:]:
        found.append(f"sweeps of {listed([family.label for family in left])}: the figures are in the tables")
    return found


def _sweep(analysis: Analysis, family: Family) -> Sweep:
    dots = tuple(
        Dot(
            row.stack_name,
            {name: row.levels[name] for name in family.factors if name in row.levels},
            row.value,
            row.half,
            row.relative,
            row.stack in analysis.grid.baselines,
            analysis.limit(row),
            analysis.share_limit(row),
        )
        for row in family.rows
    )
    known = levels_of(analysis.study)
    # A load's own factor makes the better axis: the stacks, which lines are for, have it in common.
    names = sorted(family.factors, key=lambda name: not of_workload(analysis.study.factors[name]))
    dimensions = {
        name: tuple(level for level in known[name] if any(dot.levels.get(name) == level for dot in dots))
        for name in names
    }
    first = family.rows[0]
    return Sweep(
        slug(family.label), family.label, dots, dimensions, plan(dots, dimensions), first.unit, first.metric,
        ranges(analysis, family.rows),
    )  # fmt: skip


def sweep_plan(analysis: Analysis, family: Family) -> Plan:
    """How the charts of a headline are laid out."""
    return _sweep(analysis, family).made


def draw_sweep(analysis: Analysis, sweep: Sweep) -> list[Chart | str]:
    """The figures, and the shares where there are some besides the baseline's own."""
    factor, unit = scale(sweep.unit, sweep.metric)
    figures = [_curves(sweep, sweep.dots, levels) for levels in _panels(sweep)]
    text = f"{sweep.label}, {unit}" if unit else sweep.label
    top = Frame(text, factor, sweep.unit, sweep.metric, shares=False)
    found: list[Chart | str] = [
        _chart(f"sweep-{sweep.name}", _title(sweep), sweep, figures, top, _caption(sweep, figures))
    ]
    compared = tuple(dot for dot in sweep.dots if dot.share is not None and not _own(sweep, dot))
    if any(not dot.base for dot in compared):
        kept = [_curves(sweep, compared, levels) for levels in _panels(sweep, compared)]
        frame = Frame(f"share of {analysis.baseline}, %", 100.0, sweep.unit, sweep.metric, shares=True)
        caption = (
            f"The same as shares of {analysis.baseline}'s figure at the same levels (dashed line = 100 %)"
            + (f", for each {' and '.join(each)}" if (each := _panel_names(sweep)) else "")
            + "."
        )
        title = f"{sweep.label}: {sweep.shares or 'shares of ' + analysis.baseline}"
        found.append(_chart(f"share-{sweep.name}", title, sweep, kept, frame, caption))
    if len(_all_panels(sweep)) > MOST_PANELS:
        found.append(f"{len(_all_panels(sweep)) - MOST_PANELS} more panels of {sweep.label}; see the tables")
    return found


def _own(sweep: Sweep, dot: Dot) -> bool:
    """Whether a dot's share is that of the baseline to itself, where that is a line of its own."""
    return dot.base and any(not other.base and other.stack != dot.stack for other in sweep.dots)


def _all_panels(sweep: Sweep, dots: Sequence[Dot] | None = None) -> list[dict[str, str]]:
    return panels(sweep.made, sweep.dots if dots is None else dots, sweep.dimensions)


def _panels(sweep: Sweep, dots: Sequence[Dot] | None = None) -> list[dict[str, str]]:
    return _all_panels(sweep, dots)[:MOST_PANELS]


def _panel_names(sweep: Sweep) -> list[str]:
    return ["stack" if name == STACK else name for name in sweep.made.panels]


def _curves(sweep: Sweep, dots: Sequence[Dot], levels: Mapping[str, str]) -> Curves:
    mine = tuple(dot for dot in dots if belongs(sweep.made, dot, levels))
    return Curves(label_of(levels.get(STACK, ""), {n: at for n, at in levels.items() if n != STACK}).strip(), mine)


def _chart(name: str, title: str, sweep: Sweep, curves: Sequence[Curves], frame: Frame, caption: str) -> Chart:
    everything = [dot for each in curves for dot in each.dots]
    beside: dict[tuple[str | None, ...], list[Dot]] = {}
    for each in curves:
        beside.setdefault(_axis_of(sweep, each), []).extend(each.dots)
    drawn = tuple(
        curve_panel(each, sweep.made, sweep.dimensions, everything, frame, beside[_axis_of(sweep, each)])
        for each in curves
    )
    stacks = len({dot.stack for dot in everything}) if STACK in sweep.made.panels else 0
    columns = stacks if 2 <= stacks <= 3 else min(2, len(drawn))
    hollow = HOLLOW if any(frame.limited(dot) for dot in everything) else ""
    return Chart(name, title, caption + sweep.notes + hollow, drawn, columns)


def _axis_of(sweep: Sweep, curves: Curves) -> tuple[str | None, ...]:
    """The same for panels that share a y axis."""
    shared = [name for name in sweep.own_axis if name in sweep.made.panels]
    return tuple(curves.dots[0].levels.get(name) for name in shared)


def _title(sweep: Sweep) -> str:
    said = []
    for stack in dict.fromkeys(dot.stack for dot in sweep.dots):
        best = max((dot for dot in sweep.dots if dot.stack == stack), key=lambda dot: dot.value)
        at = ", ".join(f"{name}={level}" for name, level in best.levels.items())
        where = f" ({at})" if at else ""
        said.append(f"{quantity(best.value, sweep.unit, sweep.metric)} on {stack}{where}")
    return f"{sweep.label}: at most {listed(said)}"


def _caption(sweep: Sweep, curves: Sequence[Curves]) -> str:
    made = sweep.made
    lines = listed([*(["stack"] if STACK not in made.panels else []), *made.lines])
    text = f"Along the axis {made.x.name}"
    if made.x.log:
        text += " on a logarithmic scale"
    if len({made.line(dot) for each in curves for dot in each.dots}) > 1:
        text += f"; a line for each {lines}"
    if _panel_names(sweep):
        text += f"; a panel for each {' and '.join(_panel_names(sweep))}"
    text += ". A line that does not change along the axis has no points: the factor makes no difference to it."
    if all(made.x.name in dot.levels for dot in sweep.dots):
        text = text.partition(" A line that")[0]
    if any(dot.half for dot in sweep.dots):
        text += " The thin bars are the 95 % intervals within the runs."
    return text
