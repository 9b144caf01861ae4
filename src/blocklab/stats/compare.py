"""What the stacks are compared by: one headline value for each workload, or each phase and direction of it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from blocklab.model.knobs import nearest
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.carried import scheduled
from blocklab.stats.format import is_throughput, quantity
from blocklab.stats.headline import asked_of, headlines, is_asked, source_of
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row

T = TypeVar("T")


class Item(msgspec.Struct, frozen=True):
    """One comparison. ``values`` has the headline of each stack that was measured, ``shares`` its ratio to the
    baseline's (the baseline left out). ``label`` names the workload or phase, and a value that is no rate; unique
    in the study. ``source``: who measured it, empty for the workload itself."""

    workload: str
    phase: str
    metric: str
    label: str
    rows: Mapping[str, Row]
    shares: Mapping[str, Estimate]
    source: str = ""

    @property
    def transactions(self) -> bool:
        """Whether this is a database's throughput rather than block I/O."""
        return metric_of(self.metric).transactions


class Family(msgspec.Struct, frozen=True):
    """One headline of a workload, or of a phase of it, at all levels of the study's factors that matter to it.

    ``rows`` are in the order of the study; ``factors`` take several levels among them. ``label`` names the
    workload or phase.
    """

    workload: str
    phase: str
    metric: str
    label: str
    rows: tuple[Row, ...]
    factors: tuple[str, ...]

    @property
    def transactions(self) -> bool:
        """Whether this is a database's throughput rather than block I/O."""
        return metric_of(self.metric).transactions


def once(made: Callable[[Analysis], T]) -> Callable[[Analysis], T]:
    """Made once of an analysis, since a page asks for it many times, and kept in its ``memo``."""

    @functools.wraps(made)
    def known(analysis: Analysis) -> T:
        memo: dict[object, T] = analysis.memo
        if made not in memo:
            memo[made] = made(analysis)
        return memo[made]

    return known


@once
def families(analysis: Analysis) -> tuple[Family, ...]:
    """The headlines that a factor changes; none in a study without factors. Transactions come first."""
    if not analysis.grid.factors:
        return ()
    every: dict[tuple[str, str, str, str | None], list[Row]] = {}
    for row in analysis.rows:
        every.setdefault((row.workload_name, row.phase, row.metric, source_of(row)), []).append(row)
    chosen: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for item in items(analysis):
        name = analysis.workloads[item.workload].name
        known = metric_of(item.metric)
        requests = known.beside(known.goes_with) if known.goes_with else item.metric
        chosen.setdefault((name, item.phase, requests, item.source), {})[item.metric] = None
    found = []
    for (name, phase, requests, source), metrics in chosen.items():
        # A factor that changes the request size must not tear a curve in two.
        metric = next(iter(metrics)) if len(metrics) == 1 else requests
        rows = every.get((name, phase, metric, source), [])
        factors = _several(analysis, rows)
        if factors:
            alone = sum((name, phase) == (other, at) for other, at, *_ in chosen) == 1
            label = _label(f"{name} {phase}".strip(), rows[0], alone=alone)
            found.append(Family(name, phase, metric, label, tuple(rows), factors))
    return tuple(sorted(found, key=lambda family: not family.transactions))


def plain_items(analysis: Analysis) -> tuple[Item, ...]:
    """The comparisons that no factor changes: all of them in a study without factors."""
    swept = {(family.workload, family.phase) for family in families(analysis)}
    return tuple(
        item for item in items(analysis) if (analysis.workloads[item.workload].name, item.phase) not in swept
    )


def _several(analysis: Analysis, rows: list[Row]) -> tuple[str, ...]:
    return tuple(
        name for name in analysis.grid.factors if len({row.levels[name] for row in rows if name in row.levels}) > 1
    )


@once
def items(analysis: Analysis) -> tuple[Item, ...]:
    """Every comparison that has a value, in the order of the study."""
    found = list(_found(analysis))
    # A phase may have several values.
    rows = Counter((each.workload, each.phase) for each in found)
    taken = Counter(phase or workload for workload, phase in rows)
    named = []
    for item in found:
        short = item.phase or item.workload
        label = short if taken[short] == 1 else f"{item.workload} {item.phase}".strip()
        alone = rows[item.workload, item.phase] == 1
        label = _label(label, next(iter(item.rows.values())), alone=alone)
        named.append(msgspec.structs.replace(item, label=label))
    # Transactions first: they are what the user's database does.
    return tuple(sorted(named, key=lambda item: not item.transactions))


def _label(place: str, row: Row, *, alone: bool) -> str:
    """The name of a workload or phase, with the value's own where its unit does not tell it, or its direction
    where there are several."""
    source = source_of(row)
    if source or not is_throughput(row.metric):
        return f"{place} {metric_of(row.metric).words}{f' of {source}' if source else ''}"
    way = metric_of(row.metric).of
    return place if alone or not way else f"{place} ({way})"


def asked_in_vain(analysis: Analysis) -> str:
    """That no workload has the value that the layout asks for, with those that there are; empty where one has
    it."""
    y = analysis.study.report.y
    known = dict.fromkeys(row.metric for row in analysis.rows if source_of(row) is not None)
    if not y or not known or any(is_asked(metric, y) for metric in known):
        return ""
    like = nearest(y, {*known, *(metric_of(name).family for name in known)})
    return f"y: there is no value {y!r}{like}; there are {', '.join(sorted(known))}"


def _found(analysis: Analysis) -> Iterator[Item]:
    # What an open loop reaches is what was asked for: whether it does is told by itself.
    paced, y = scheduled(analysis), analysis.study.report.y
    for workload in analysis.workloads:
        phases = analysis.phases(workload)
        by_phase = {phase: analysis.places[workload, phase] for phase in phases}
        asked = asked_of([row for rows in by_phase.values() for row in rows], y)
        for phase, chosen in headlines(by_phase, y).items():
            rows = by_phase[phase]
            if (workload, phase) in paced and not asked:
                continue
            for metric, source in chosen:
                by_stack = {row.stack: row for row in rows if row.metric == metric and source_of(row) == source}
                shares = {
                    stack: row.relative
                    for stack, row in by_stack.items()
                    if stack in analysis.others and row.relative is not None
                }
                yield Item(workload, phase, metric, "", by_stack, shares, source)


def verb(chosen: Sequence[Item]) -> str:
    """What a stack does to the baseline's values: of its throughput it keeps a share, all else it has."""
    every = (row for item in chosen for row in item.rows.values())
    return "keeps" if all(is_throughput(row.metric) for row in every) else "has"


def rate_label(item: Item, stack: str) -> str:
    """The headline value of one stack with its unit; empty when it has none."""
    row = item.rows.get(stack)
    return "" if row is None else quantity(row.value, row.unit, row.metric)
