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
# A database's throughput, by the figure that its users quote.
TRANSACTIONS = ("tpmc", "tps")


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
        return self.metric in TRANSACTIONS


class Family(msgspec.Struct, frozen=True):
    """One headline of a load, or of a phase of it, at all levels of the study's factors that matter to it.

    ``rows`` are in the order of the study; ``factors`` take several levels among them. ``label`` names the load or
    phase.
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
        return self.metric in TRANSACTIONS


def families(analysis: Analysis) -> tuple[Family, ...]:
    """The headlines that a factor changes; none in a study without factors. Transactions come first."""
    if not analysis.grid.factors:
        return ()
    every: dict[tuple[str, str, str], list[Row]] = {}
    for row in analysis.rows:
        if row.load:
            every.setdefault((row.workload_name, row.phase, row.metric), []).append(row)
    chosen: dict[tuple[str, str, str], dict[str, None]] = {}
    for item in items(analysis):
        name = analysis.workloads[item.workload].name
        way = item.metric.removesuffix(".bandwidth").removesuffix(".iops")
        chosen.setdefault((name, item.phase, way), {})[item.metric] = None
    found = []
    for (name, phase, way), metrics in chosen.items():
        # A factor that changes the request size must not tear a curve in two.
        metric = next(iter(metrics)) if len(metrics) == 1 else f"{way}.iops"
        rows = every.get((name, phase, metric), [])
        factors = _several(analysis, rows)
        if factors:
            label = f"{name} {phase}".strip()
            if sum((name, phase) == (other, at) for other, at, _ in chosen) > 1:
                label += f" ({way})"
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
    for workload in analysis.workloads:
        for phase in analysis.phases(workload):
            mine = [row for row in analysis.places[workload, phase] if row.load]
            for metric in _headlines(mine):
                figures = {row.stack: row for row in mine if row.metric == metric}
                shares = {
                    stack: row.relative
                    for stack, row in figures.items()
                    if stack in analysis.others and row.relative is not None
                }
                yield Item(workload, phase, metric, "", figures, shares)


def _headlines(mine: list[Row]) -> list[str]:
    metrics = dict.fromkeys(row.metric for row in mine)
    for metric in TRANSACTIONS:
        if metric in metrics:
            return [metric]
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
    found = found or [metric for metric in metrics if metric.endswith(".bandwidth")]
    return found or [metric for metric in metrics if any(r.metric == metric and r.unit == "1/s" for r in mine)][:1]


def rate_label(item: Item, stack: str) -> str:
    """The headline figure of one stack with its unit; empty when it has none."""
    row = item.figures.get(stack)
    return "" if row is None else quantity(row.value, row.unit, row.metric)


def unit_label(item: Item) -> str:
    """``TPS``, ``IOPS`` or ``MB/s``."""
    row = next(iter(item.figures.values()))
    return scale(row.unit, row.metric)[1]
