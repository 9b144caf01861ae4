"""The chart of a study with factors: the headline value over one factor, and what each stack keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blocklab.charts.base import HOLLOW, Chart, Panel, apart, slug
from blocklab.charts.curves import Frame, curve_panel
from blocklab.charts.plan import STACK, WORKLOAD, Arrangement, Dot, Group, groups, plan
from blocklab.charts.waits import wait_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Family, families, items
from blocklab.stats.findings import sweep_ranges
from blocklab.stats.format import listed, quantity, scale
from blocklab.stats.grid import levels_of
from blocklab.stats.sentences import range_text
from blocklab.study.factors import of_workload
from blocklab.study.types import View

# As many headlines get charts; a page with more is a catalogue.
MOST_FAMILIES = 6
MOST_NAMED = 4
_GUESSED = " Hollow and named predicted: not measured, but predicted, with the 90 % interval."


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
    made: Arrangement
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
    dots += tuple(
        Dot(
            cell.stack,
            {name: cell.levels[name] for name in family.factors if name in cell.levels}
            | ({WORKLOAD: family.label} if joined else {}),
            cell.value, cell.half, None, cell.stack == analysis.baseline, predicted=True,
        )
        for family in group
        for fit in analysis.fits if (fit.workload, fit.phase, fit.metric) == (
            family.workload, family.phase, family.metric
        )
        for cell in fit.cells
    )  # fmt: skip
    known = levels_of(analysis.study) | ({WORKLOAD: tuple(family.label for family in group)} if joined else {})
    factors = [name for name in analysis.grid.factors if any(name in family.factors for family in group)]
    # A workload's own factor makes the better axis: the stacks, which lines are for, have it in common.
    names = sorted(factors, key=lambda name: not of_workload(analysis.study.factors[name]))
    dimensions = {
        name: tuple(level for level in known[name] if any(dot.levels.get(name) == level for dot in dots))
        for name in [*names, *([WORKLOAD] if joined else [])]
    }
    if any(dot.predicted for dot in dots):
        dots = _in_order(analysis, dots, known)
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


def _in_order(analysis: Analysis, dots: Sequence[Dot], known: Mapping[str, Sequence[str]]) -> tuple[Dot, ...]:
    """In the order of the study: predicted ones stand between the measured ones."""
    stacks = [analysis.baseline, *analysis.study.stacks]

    def rank(dot: Dot) -> tuple[int, ...]:
        return stacks.index(dot.stack), *(
            list(known[name]).index(dot.levels[name]) if name in dot.levels else -1 for name in known
        )

    return tuple(sorted(dots, key=rank))


def unmet(made: Arrangement, view: View) -> str:
    """A sentence for the caption about what was asked for and makes no difference here."""
    met = {"x": made.x.name == view.x, "color": made.color == view.color, "facet": view.facet in made.panels}
    names = [name for field in met if (name := getattr(view, field)) and not met[field]]
    return f" Not laid out by {listed(names)}, which makes no difference to it." if names else ""


def draw_sweep(analysis: Analysis, sweep: Sweep) -> list[Chart | str]:
    """The values, and the shares where there are some besides the baseline's own."""
    factor, _ = scale(sweep.unit, sweep.metric)
    shown, more = groups(sweep.made, sweep.dots, sweep.dimensions, sweep.own_axis)
    frame = Frame(sweep.told(), factor, sweep.unit, sweep.metric, shares=False)
    found: list[Chart | str] = [
        _chart(f"sweep-{sweep.name}", _title(sweep), sweep, shown, frame, _caption(analysis, sweep, shown))
    ]
    compared = tuple(dot for dot in sweep.dots if dot.share is not None and not _own(sweep, dot))
    if any(not dot.base for dot in compared):
        kept, _ = groups(sweep.made, compared, sweep.dimensions, sweep.own_axis)
        frame = Frame(f"share of {analysis.baseline}, %", 100.0, sweep.unit, sweep.metric, shares=True)
        each = f", for each {listed(sweep.made.panels)}" if sweep.made.panels else ""
        caption = (
            f"The same as shares of {analysis.baseline}'s value at the same levels (dashed line = 100 %){each}."
        )
        title = f"{sweep.label}: {sweep.shares or 'shares of ' + analysis.baseline}"
        found.append(_chart(f"share-{sweep.name}", title, sweep, kept, frame, caption))
    if more:
        found.append(f"{more} more panels of {sweep.label}; see the tables")
    return found


def _own(sweep: Sweep, dot: Dot) -> bool:
    """Whether a dot's share is that of the baseline to itself, where that is a line of its own."""
    return dot.base and any(not other.base and other.stack != dot.stack for other in sweep.dots)


def _chart(name: str, title: str, sweep: Sweep, shown: Sequence[Group], frame: Frame, caption: str) -> Chart:
    drawn = [curve_panel(each, sweep.made, sweep.dimensions, frame) for each in shown]
    hollow = any(frame.limited(dot) and not dot.predicted for dot in shown[0].everything)
    guessed = any(dot.predicted for dot in shown[0].everything)
    notes = sweep.notes + HOLLOW * hollow + _GUESSED * guessed
    return beside_each_other(name, title, caption + notes, sweep.made, shown, drawn)


def beside_each_other(
    name: str, title: str, caption: str, made: Arrangement, shown: Sequence[Group], drawn: Sequence[Panel]
) -> Chart:
    """A chart whose panels stand by stacks where these are panels, else two in a row."""
    stacks = len({dot.stack for dot in shown[0].everything}) if STACK in made.panels else 0
    return Chart(name, title, caption, tuple(drawn), stacks if 2 <= stacks <= 3 else min(2, len(drawn)), "curves")


def _title(sweep: Sweep) -> str:
    said = []
    for stack in list(dict.fromkeys(dot.stack for dot in sweep.dots))[:MOST_NAMED]:
        best = max((dot for dot in sweep.dots if dot.stack == stack), key=lambda dot: dot.value)
        where = f" ({best.words()})" if best.levels else ""
        said.append(f"{quantity(best.value, sweep.unit, sweep.metric)} on {stack}{where}")
    return f"{sweep.label}: at most {listed(said)}"


def _caption(analysis: Analysis, sweep: Sweep, shown: Sequence[Group]) -> str:
    made = sweep.made
    lines = listed([*(["stack"] if STACK not in (*made.panels, made.x.name) else []), *made.lines])
    text = f"Along the axis {made.x.name}"
    if made.x.log:
        text += " on a logarithmic scale"
    if len({made.line(dot) for dot in shown[0].everything}) > 1:
        text += f"; a line for each {lines}"
    if made.panels:
        text += f"; a panel for each {listed(made.panels)}"
    if made.color:
        text += f"; colours tell {made.color}"
    text += "."
    if any(dot.level(made.x.name) is None for dot in sweep.dots):
        text += " A level line without points along it: the factor makes no difference to it."
    if any(dot.half for dot in sweep.dots):
        text += f" The thin bars are the 95 % intervals {analysis.spread}."
    return text
