"""What the stacks are compared by: one headline figure for each workload, or each phase and direction of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.figures import Row
from blocklab.stats.format import quantity, scale
from blocklab.stats.summary import Estimate

# From this request size on people think of I/O as MB/s, below it as IOPS.
LARGE_REQUEST = 64 * 1024


class Item(msgspec.Struct, frozen=True):
    """One comparison. ``figures`` has the headline of each stack that was measured, ``shares`` its ratio to the
    baseline's (the baseline left out). ``label`` names the workload or phase, unique in the study."""

    workload: str
    phase: str
    metric: str
    label: str
    figures: Mapping[str, Row]
    shares: Mapping[str, Estimate]

    @property
    def transactions(self) -> bool:
        """Whether this is a database's throughput rather than block I/O."""
        return self.metric == "tps"


def items(analysis: Analysis) -> tuple[Item, ...]:
    """Every comparison that has a figure, in the order of the study."""
    found = list(_found(analysis))
    taken = [item.phase or item.workload for item in found]
    named = []
    for item in found:
        short = item.phase or item.workload
        label = short if taken.count(short) == 1 else f"{item.workload} {item.phase}".strip()
        if sum(other.workload == item.workload and other.phase == item.phase for other in found) > 1:
            label += f" ({item.metric.partition('.')[0]})"
        named.append(msgspec.structs.replace(item, label=label))
    # Transactions first: they are what the user's database does.
    return tuple(sorted(named, key=lambda item: not item.transactions))


def _found(analysis: Analysis) -> Iterator[Item]:
    for workload in analysis.study.workloads:
        for phase in analysis.phases(workload):
            mine = [row for row in analysis.rows if row.load and (row.workload, row.phase) == (workload, phase)]
            for metric in _headlines(mine):
                figures = {row.stack: row for row in mine if row.metric == metric}
                shares = {
                    stack: row.relative
                    for stack, row in figures.items()
                    if stack != analysis.baseline and row.relative is not None
                }
                yield Item(workload, phase, metric, "", figures, shares)


def _headlines(mine: list[Row]) -> list[str]:
    metrics = dict.fromkeys(row.metric for row in mine)
    if "tps" in metrics:
        return ["tps"]
    found = []
    for metric in metrics:
        way, _, kind = metric.rpartition(".")
        if kind != "iops":
            continue
        rates = {row.stack: row.value for row in mine if row.metric == metric}
        large = [
            row.value >= LARGE_REQUEST * rates[row.stack]
            for row in mine
            if row.metric == f"{way}.bandwidth" and rates.get(row.stack)
        ]
        found.append(f"{way}.bandwidth" if large and all(large) else metric)
    return found or [metric for metric in metrics if any(r.metric == metric and r.unit == "1/s" for r in mine)][:1]


def rate_label(item: Item, stack: str) -> str:
    """The headline figure of one stack with its unit; empty when it has none."""
    row = item.figures.get(stack)
    return "" if row is None else quantity(row.value, row.unit, row.metric)


def unit_label(item: Item) -> str:
    """``TPS``, ``IOPS`` or ``MB/s``."""
    row = next(iter(item.figures.values()))
    return scale(row.unit, row.metric)[1]
