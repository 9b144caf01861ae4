"""The chart of a study with factors: the headline value over one factor, and what each stack keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blocklab.charts.base import HOLLOW, Chart, apart, slug
from blocklab.charts.curves import Curves, Frame, curve_panel
from blocklab.charts.plan import STACK, WORKLOAD, Dot, Plan, belongs, panels, plan
from blocklab.charts.waits import wait_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Family, families, items
from blocklab.stats.findings import sweep_ranges
from blocklab.stats.format import listed, quantity, scale
from blocklab.stats.grid import label_of, levels_of
from blocklab.stats.sentences import range_text
from blocklab.study.factors import of_workload
from blocklab.study.types import View

# As many headlines get charts, and as many panels a chart; a page with more is a catalogue.
MOST_FAMILIES = 6
MOST_PANELS = 12
MOST_NAMED = 4


@dataclass(frozen=True)
class Sweep:
    """What a pair of charts is drawn from. ``unit`` and ``metric`` are those of the dots' values.

    ``own_axis``: panels that differ in one of these dimensions have an axis of values each. ``to_panels``: what
    becomes panels first. ``jobs``: the fio workload whose jobs its dots are, empty for a sweep of factors.
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
    to_panels: tuple[str, ...] = ()
    jobs: str = ""

    def told(self, levels: str = "") -> str:
        """What the values are of, at ``levels``, with their unit."""
        unit = scale(self.unit, self.metric)[1]
        known = not unit or self.label.startswith(f"{unit} of ")
        return f"{self.label}{levels}" if known else f"{self.label}{levels}, {unit}"


def sweeps(analysis: Analysis, skip: Sequence[str] = ()) -> list[Sweep]:
    """What the charts are drawn from of each headline that a factor changes, but for the workloads that ``skip``
    has.

    Workloads share a chart where they are asked for as a dimension of it; with a layout that is asked for, what no
    factor changes is laid out too.
    """
    view = analysis.study.report
    wanted = list(families(analysis))
    if not wanted and {STACK, WORKLOAD} & {*view.axes}:
        wanted = [
            Family(each.workload, each.phase, each.metric, each.label, tuple(each.rows.values()), ())
            for each in items(analysis)
        ]
    wanted = [family for family in wanted if analysis_name(analysis, family) not in skip]
    alike: dict[object, list[Family]] = {}
    for at, family in enumerate(wanted):
        together = (family.metric, family.rows[0].unit) if WORKLOAD in view.axes else at
        alike.setdefault(together, []).append(family)
    found = [_sweep(analysis, group, view) for group in alike.values()]
    # Long labels may begin alike.
    names = apart(each.name for each in found)
    return [replace(each, name=name) for each, name in zip(found, names, strict=True)]


def analysis_name(analysis: Analysis, family: Family) -> str:
    """The name of a family's load in the study; it may be known by its label, which has the levels in it."""
    side = analysis.workloads.get(family.workload)
    return side.name if side is not None else family.workload


def _sweep(analysis: Analysis, group: Sequence[Family], view: View) -> Sweep:
    joined = WORKLOAD in view.axes
    dots = tuple(
        Dot(
            row.stack_name,
            {name: row.levels[name] for name in family.factors if name in row.levels}
            | ({WORKLOAD: family.label} if joined else {}),
            row.value,
            row.half,
            row.relative,
            row.stack in analysis.grid.baselines,
            analysis.limit(row),
            analysis.share_limit(row),
            wait_of(analysis, row),
        )
        for family in group
        for row in family.rows
    )
    known = levels_of(analysis.study) | ({WORKLOAD: tuple(family.label for family in group)} if joined else {})
    factors = [name for name in analysis.grid.factors if any(name in family.factors for family in group)]
    # A workload's own factor makes the better axis: the stacks, which lines are for, have it in common.
    names = sorted(factors, key=lambda name: not of_workload(analysis.study.factors[name]))
    dimensions = {
        name: tuple(level for level in known[name] if any(dot.levels.get(name) == level for dot in dots))
        for name in [*names, *([WORKLOAD] if joined else [])]
    }
    first = group[0].rows[0]
    label = group[0].label
    if joined and len(group) > 1:
        label = f"{scale(first.unit, first.metric)[1]} of {listed([family.label for family in group])}"
    made = plan(dots, dimensions, view=view)
    return Sweep(
        slug(label)[:60], label, dots, dimensions, made, first.unit, first.metric,
        range_text(sweep_ranges(analysis, group[0].rows)) if len(group) == 1 else "",
        unmet(made, view),
    )  # fmt: skip


def unmet(made: Plan, view: View) -> str:
    """A sentence for the caption about what was asked for and makes no difference here."""
    met = {"x": made.x.name == view.x, "color": made.color == view.color, "facet": view.facet in made.panels}
    names = [name for field in met if (name := getattr(view, field)) and not met[field]]
    return f" Not laid out by {listed(names)}, which makes no difference to it." if names else ""


def draw_sweep(analysis: Analysis, sweep: Sweep) -> list[Chart | str]:
    """The values, and the shares where there are some besides the baseline's own."""
    factor, _ = scale(sweep.unit, sweep.metric)
    rows = [_curves(sweep, sweep.dots, levels) for levels in _panels(sweep)]
    top = Frame(sweep.told(), factor, sweep.unit, sweep.metric, shares=False)
    found: list[Chart | str] = [
        _chart(f"sweep-{sweep.name}", _title(sweep), sweep, rows, top, _caption(analysis, sweep, rows))
    ]
    compared = tuple(dot for dot in sweep.dots if dot.share is not None and not _own(sweep, dot))
    if any(not dot.base for dot in compared):
        kept = [_curves(sweep, compared, levels) for levels in _panels(sweep, compared)]
        frame = Frame(f"share of {analysis.baseline}, %", 100.0, sweep.unit, sweep.metric, shares=True)
        caption = (
            f"The same as shares of {analysis.baseline}'s value at the same levels (dashed line = 100 %)"
            + (f", for each {listed(each)}" if (each := _panel_names(sweep)) else "")
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
    return curves_of(sweep.made, dots, levels)


def curves_of(made: Plan, dots: Sequence[Dot], levels: Mapping[str, str]) -> Curves:
    """The dots of a panel under what its levels are called."""
    mine = tuple(dot for dot in dots if belongs(made, dot, levels))
    return Curves(label_of(levels.get(STACK, ""), {n: at for n, at in levels.items() if n != STACK}).strip(), mine)


def _chart(name: str, title: str, sweep: Sweep, curves: Sequence[Curves], frame: Frame, caption: str) -> Chart:
    everything = [dot for each in curves for dot in each.dots]
    beside: dict[tuple[str | None, ...], list[Dot]] = {}
    for each in curves:
        beside.setdefault(axis_of(sweep, each, sweep.made), []).extend(each.dots)
    drawn = tuple(
        curve_panel(
            each, sweep.made, sweep.dimensions, everything, frame, beside[axis_of(sweep, each, sweep.made)]
        )
        for each in curves
    )
    stacks = len({dot.stack for dot in everything}) if STACK in sweep.made.panels else 0
    columns = stacks if 2 <= stacks <= 3 else min(2, len(drawn))
    hollow = HOLLOW if any(frame.limited(dot) for dot in everything) else ""
    return Chart(name, title, caption + sweep.notes + hollow, drawn, columns)


def axis_of(sweep: Sweep, curves: Curves, made: Plan) -> tuple[str | None, ...]:
    """The same for panels that share an axis of values."""
    shared = [name for name in sweep.own_axis if name in made.panels]
    return tuple(curves.dots[0].levels.get(name) for name in shared)


def _title(sweep: Sweep) -> str:
    said = []
    for stack in list(dict.fromkeys(dot.stack for dot in sweep.dots))[:MOST_NAMED]:
        best = max((dot for dot in sweep.dots if dot.stack == stack), key=lambda dot: dot.value)
        at = ", ".join(f"{name}={level}" for name, level in best.levels.items())
        where = f" ({at})" if at else ""
        said.append(f"{quantity(best.value, sweep.unit, sweep.metric)} on {stack}{where}")
    return f"{sweep.label}: at most {listed(said)}"


def _caption(analysis: Analysis, sweep: Sweep, curves: Sequence[Curves]) -> str:
    made = sweep.made
    lines = listed([*(["stack"] if STACK not in (*made.panels, made.x.name) else []), *made.lines])
    text = f"Along the axis {made.x.name}"
    if made.x.log:
        text += " on a logarithmic scale"
    if len({made.line(dot) for each in curves for dot in each.dots}) > 1:
        text += f"; a line for each {lines}"
    if _panel_names(sweep):
        text += f"; a panel for each {listed(_panel_names(sweep))}"
    if made.color:
        text += f"; colours tell {made.color}"
    text += "."
    if any(dot.level(made.x.name) is None for dot in sweep.dots):
        text += " A level line without points along it: the factor makes no difference to it."
    if any(dot.half for dot in sweep.dots):
        text += f" The thin bars are the 95 % intervals {analysis.spread}."
    return text
