"""A fio load with many jobs as curves: IOPS over the queue depth, by what else its jobs differ in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from blocklab.charts.base import Chart, slug
from blocklab.charts.heat import ACCESS, BLOCK, DEPTH, JOBS, READS, heat
from blocklab.charts.knee import knee
from blocklab.charts.plan import STACK, Dot, plan
from blocklab.charts.sweep import Sweep, draw_sweep, unmet
from blocklab.charts.waits import mixed
from blocklab.stats.analysis import Analysis
from blocklab.stats.figures import Row
from blocklab.stats.format import listed, percent
from blocklab.stats.grid import levels_of
from blocklab.stats.ratio import ratio
from blocklab.stats.summary import Estimate
from blocklab.workloads import Fio
from blocklab.workloads.fio_jobs import sections, size

# With more phases than this a bar for each cannot be read.
MANY_PHASES = 15
ALL = (DEPTH, READS, BLOCK, ACCESS, JOBS)
_WAYS = ("read.iops", "write.iops")


def matrices(analysis: Analysis) -> tuple[list[Chart | str], tuple[str, ...]]:
    """The charts of each fio load with many jobs whose options tell them apart, and the names of those loads."""
    found: list[Chart | str] = []
    drawn = []
    for name, workload in analysis.study.workloads.items():
        labels = [label for label, side in analysis.workloads.items() if side.name == name]
        phases = list(dict.fromkeys(phase for label in labels for phase in analysis.phases(label)))
        if not isinstance(workload, Fio) or len(phases) <= MANY_PHASES:
            continue
        shapes = {phase: shape for phase, shape in shapes_of(workload).items() if phase in phases}
        levels = _dimensions(shapes.values())
        if len({tuple(shape[name] for name in levels) for shape in shapes.values()}) < len(phases) or not levels:
            found.append(f"curves of {name}: its jobs' options do not tell all of them apart")
            continue
        drawn.append(name)
        sweep = _sweep(analysis, name, labels, shapes, levels)
        fixed = {key: next(iter(shapes.values()))[key] for key in ALL if key not in levels}
        made = (heat(sweep, fixed), *draw_sweep(analysis, sweep), knee(analysis, sweep))
        found += [each for each in made if each is not None]
    return found, tuple(drawn)


def shapes_of(workload: Fio) -> dict[str, dict[str, str]]:
    """What each job does, in the terms of a chart: ``{"iodepth": "32", "bs": "16k", "reads": "90%", ...}``."""
    if workload.jobtext is not None:
        jobs = {section.name: section.options for section in sections(workload.jobtext)[0]}
    else:
        jobs = {
            name: {option: str(value) for option, value in {**workload.options, **job}.items()}
            for name, job in workload.jobs.items()
        }
    return {name: _shape(options) for name, options in jobs.items()}


def _shape(options: Mapping[str, str]) -> dict[str, str]:
    kind = options.get("rw", options.get("readwrite", "read"))
    share = {"read": "100", "randread": "100", "write": "0", "randwrite": "0"}.get(kind)
    return {
        DEPTH: options.get("iodepth", "1"),
        READS: f"{share or options.get('rwmixread', '50')}%",
        BLOCK: options.get("bs", options.get("blocksize", "4k")),
        ACCESS: "random" if kind.startswith("rand") else "sequential",
        JOBS: options.get("numjobs", "1"),
    }


def _dimensions(shapes: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    every = list(shapes)
    found = {}
    for name in ALL:
        levels = dict.fromkeys(shape[name] for shape in every)
        if len(levels) > 1:
            found[name] = tuple(sorted(levels, key=_rank))
    return found


def _rank(level: str) -> tuple[float, str]:
    try:
        return size(level.removesuffix("%")), level
    except ValueError:
        return math.inf, level


def _sweep(
    analysis: Analysis,
    name: str,
    labels: Sequence[str],
    shapes: Mapping[str, Mapping[str, str]],
    dimensions: dict[str, tuple[str, ...]],
) -> Sweep:
    known = levels_of(analysis.study)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for label in labels:
        for phase in analysis.phases(label):
            for row in analysis.places[label, phase]:
                if row.load and row.metric in _WAYS and phase in shapes:
                    rows.setdefault((row.stack, label, phase), []).append(row)
    totals = {at: _total(mine) for at, mine in rows.items()}
    points = {(point.stack, point.workload): point for point in analysis.grid.points}
    dots = []
    for (stack, label, phase), total in totals.items():
        base = totals.get((analysis.grid.base(points[stack, label]), label, phase))
        mine = rows[stack, label, phase]
        levels = {**{key: shapes[phase][key] for key in dimensions}, **mine[0].levels}
        dots.append(
            Dot(
                analysis.stacks[stack].name, levels, total.value, total.half,
                ratio(total, base) if base is not None else None, stack in analysis.grid.baselines,
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
    notes = f" {len(shapes)} jobs of fio, by their options; reads and writes together.{unmet(made, view)}"
    return Sweep(
        slug(name),
        name,
        tuple(dots),
        dimensions,
        made,
        "1/s",
        "iops",
        _shares(analysis, name, dots),
        notes,
        (BLOCK, ACCESS),
        to_panels,
    )


def _said(reasons: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _total(rows: Sequence[Row]) -> Estimate:
    halves = [row.half for row in rows]
    half = None if None in halves else math.hypot(*(each for each in halves if each is not None))
    return Estimate(sum(row.value for row in rows), half)


def _shares(analysis: Analysis, name: str, dots: Sequence[Dot]) -> str:
    said = []
    for stack in dict.fromkeys(dot.stack for dot in dots if not dot.base):
        ranked = sorted(
            ((dot.share.value, dot) for dot in dots if dot.stack == stack and dot.share is not None),
            key=lambda each: each[0],
        )
        if ranked:
            (low, worst), (high, best) = ranked[0], ranked[-1]
            said.append(f"{stack} keeps from {percent(low)} ({_words(worst)}) to {percent(high)} ({_words(best)})")
    return f"{listed(said)} of {analysis.baseline}'s IOPS" if said else ""


def _words(dot: Dot) -> str:
    return ", ".join(f"{name}={level}" for name, level in dot.levels.items())
