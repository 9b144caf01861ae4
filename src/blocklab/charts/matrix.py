"""A fio workload with many jobs as curves: a value over the queue depth, by what else its jobs differ in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from blocklab.charts.base import Chart, slug
from blocklab.charts.heat import heat
from blocklab.charts.knee import knee
from blocklab.charts.plan import STACK, Dot, plan
from blocklab.charts.sweep import Sweep, draw_sweep, unmet
from blocklab.charts.waits import mixed
from blocklab.model.metrics import metric as metric_of
from blocklab.model.stop import MOST_ROUNDS
from blocklab.model.workload import Shaped
from blocklab.rules.settle import from_rounds
from blocklab.stats.analysis import Analysis
from blocklab.stats.finding import share_range
from blocklab.stats.format import is_throughput, noun
from blocklab.stats.grid import levels_of
from blocklab.stats.headline import asked_of, source_of
from blocklab.stats.ratio import ratio
from blocklab.stats.sentences import range_text
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.workloads.fio_shapes import ACCESS, BLOCK, DEPTH, JOBS, axes, distinguished

# With more phases than this a bar for each cannot be read.
MANY_PHASES = 15
# What reads and writes have in common, and may be added up; the first is shown where nothing is asked for.
_TOGETHER = ("iops", "bandwidth")


def matrices(analysis: Analysis) -> tuple[list[Chart | str], tuple[str, ...]]:
    """The charts of the fio workloads that are laid out by what their jobs differ in, and the names of those
    workloads."""
    laid, notes = matrix_sweeps(analysis)
    found: list[Chart | str] = []
    for sweep, fixed in laid:
        made = (heat(sweep, fixed), *draw_sweep(analysis, sweep), knee(analysis, sweep))
        found += [each for each in made if each is not None]
    return [*found, *notes], tuple(dict.fromkeys(sweep.jobs for sweep, _ in laid))


def matrix_sweeps(analysis: Analysis) -> tuple[list[tuple[Sweep, Mapping[str, str]]], list[str]]:
    """Each value of a fio workload with many jobs whose options tell them apart, with what all of its jobs have in
    common; with a layout by what its jobs differ in also of one with a few. And a note of each whose jobs are not
    distinguished."""
    found: list[tuple[Sweep, Mapping[str, str]]] = []
    notes = []
    view = analysis.study.report
    for name, workload in analysis.study.workloads.items():
        every = workload.shapes() if isinstance(workload, Shaped) else {}
        if not every:
            continue
        labels = [label for label, side in analysis.workloads.items() if side.name == name]
        phases = list(dict.fromkeys(phase for label in labels for phase in analysis.phases(label)))
        shaped = {phase: shape for phase, shape in every.items() if phase in phases}
        levels = axes(shaped.values())
        asked = any(each in levels for each in view.axes)
        if len(phases) <= MANY_PHASES and not asked:
            continue
        if not levels or len(shaped) < len(phases) or not distinguished(shaped.values()):
            notes.append(f"curves of {name}: its jobs' options do not tell all of them apart")
            continue
        fixed = {axis: level for axis, level in next(iter(shaped.values())).items() if axis not in levels}
        mine = [
            row
            for label in labels
            for phase in analysis.phases(label)
            for row in analysis.places[label, phase]
            if phase in shaped
        ]
        found += [
            (_sweep(analysis, name, metric, rows, shaped, dict(levels)), fixed)
            for metric, rows in _values(mine, view.y)
            if rows
        ]
    return found, notes


def _values(rows: Sequence[Row], y: str) -> list[tuple[str, list[Row]]]:
    """What is shown of a workload, metric and rows: reads and writes together, or what ``y`` asks for, each
    direction for itself where they cannot be added up."""
    if y not in _TOGETHER and (asked := asked_of(rows, y)):
        return [
            (metric, [row for row in rows if row.metric == metric and source_of(row) == source])
            for metric, source in asked
        ]
    metric = y if y in _TOGETHER else _TOGETHER[0]
    ways = (f"read.{metric}", f"write.{metric}")
    return [(metric, [row for row in rows if row.own and row.metric in ways])]


def _sweep(
    analysis: Analysis,
    name: str,
    metric: str,
    chosen: Sequence[Row],
    shaped: Mapping[str, Mapping[str, str]],
    dimensions: dict[str, tuple[str, ...]],
) -> Sweep:
    known = levels_of(analysis.study)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for row in chosen:
        rows.setdefault((row.stack, row.workload, row.phase), []).append(row)
    totals = {at: _total(mine, _rounds(analysis, mine)) for at, mine in rows.items()}
    points = {(point.stack, point.workload): point for point in analysis.grid.points}
    dots = []
    for (stack, label, phase), total in totals.items():
        beside = (analysis.grid.base(points[stack, label]), label, phase)
        base = totals.get(beside)
        mine = rows[stack, label, phase]
        share = None if base is None else _share(analysis, mine, rows[beside], total, base)
        levels = {**{key: shaped[phase][key] for key in dimensions}, **mine[0].levels}
        dots.append(
            Dot(
                analysis.stacks[stack].name, levels, total.value, total.half,
                share, stack in analysis.grid.baselines,
                _said(analysis.limit(row) for row in mine), _said(analysis.share_limit(row) for row in mine),
                mixed(analysis, mine),
            )
        )  # fmt: skip
    for factor in analysis.grid.factors:
        seen = tuple(level for level in known[factor] if any(dot.levels.get(factor) == level for dot in dots))
        if len(seen) > 1:
            dimensions[factor] = seen
    view = analysis.study.report
    to_panels = (ACCESS, JOBS, STACK, BLOCK)
    made = plan(dots, dimensions, x=DEPTH if DEPTH in dimensions else "", to_panels=to_panels, view=view)
    together = "; reads and writes together" if metric in _TOGETHER else ""
    notes = f" {len(shaped)} jobs of fio, by their options{together}.{unmet(made, view)}"
    unit = chosen[0].unit
    source = source_of(chosen[0])
    label = (
        name if metric == _TOGETHER[0] else f"{name} {metric_of(metric).words}{f' of {source}' if source else ''}"
    )
    return Sweep(
        slug(label), label, tuple(dots), dimensions, made, unit, metric,
        _shares(analysis, dots, unit, metric), notes, (BLOCK, ACCESS), to_panels, jobs=name,
    )  # fmt: skip


def _share(
    analysis: Analysis, mine: Sequence[Row], beside: Sequence[Row], total: Estimate, base: Estimate
) -> Estimate | None:
    """Of reads and writes as one, with the doubts about them."""
    if len(mine) == 1 and mine[0].relative is not None:
        return mine[0].relative
    share = analysis.repeats.share(mine, beside) or ratio(total, base)
    doubts = [row.relative.doubt for row in mine if row.relative is not None and row.relative.doubt]
    return msgspec.structs.replace(share, doubt=doubts[0]) if share is not None and doubts else share


def _said(reasons: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _rounds(analysis: Analysis, rows: Sequence[Row]) -> list[tuple[float, ...]]:
    """The values in each round, a tuple for each row that has them; none where blocks are what was repeated."""
    measured = analysis.measured.get((rows[0].stack, rows[0].workload))
    if measured is None or analysis.times[1] > 1:
        return []
    found = (measured.spreads.get((row.phase, row.metric, row.layer, row.host)) for row in rows)
    return [each for each in found if each is not None]


def _total(rows: Sequence[Row], rounds: Sequence[tuple[float, ...]]) -> Estimate:
    """Reads and writes as one. What they are in each round says best how sure the sum is: they are not independent
    of each other. Without rounds the half widths add."""
    value = sum(row.value for row in rows)
    if len(rows) > 1 and len(rounds) == len(rows) and len({len(each) for each in rounds}) == 1 < len(rounds[0]):
        sums = [sum(each) for each in zip(*rounds, strict=True)]
        return Estimate(value, from_rounds(sums, 0.02, 2, MOST_ROUNDS).half)
    halves = [row.half for row in rows]
    return Estimate(value, None if None in halves else sum(each for each in halves if each is not None))


def _shares(analysis: Analysis, dots: Sequence[Dot], unit: str, metric: str) -> str:
    beside = f"{analysis.baseline}'s {noun(unit, metric)}"
    found = []
    for stack in dict.fromkeys(dot.stack for dot in dots if not dot.base):
        mine = [(dot.share, dot.words()) for dot in dots if dot.stack == stack and dot.share is not None]
        found += [share_range(stack, mine, beside, throughput=is_throughput(metric))] if mine else []
    return range_text(found) if found else ""
