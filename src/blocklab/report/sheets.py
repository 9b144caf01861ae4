"""The values of each workload as a table: a row for each cell and phase, a column for each metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from blocklab.lang import term
from blocklab.model.metrics import WAYS
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import NBSP, digits, percent
from blocklab.stats.ratio import verdict
from blocklab.stats.values import Row

# Metrics of workloads that the page shows, in this order; the CSV has all of them.
SHOWN = (
    "tpmc", "tps", "iops", "bandwidth", "latency.mean", "latency.p50", "latency.p95", "latency.p99",
    "commit.group", "lock.waits", "failed",
)  # fmt: skip
# More columns than this of lower devices hide all others.
MOST_LOWER = 4


class Value(msgspec.Struct, frozen=True):
    """One table cell: the value, its interval, its ratio to the baseline's, or why there is none.

    ``limited`` says why the value is the lab's own rather than the layout's; empty when it is not.
    """

    text: str
    half: str = ""
    relative: str = ""
    absent: bool = False
    limited: str = ""


class SheetRow(msgspec.Struct, frozen=True):
    """One cell's values, or one phase's. ``stack`` is a label for its colour."""

    stack: str
    names: tuple[str, ...]
    values: tuple[Value, ...]


class Sheet(msgspec.Struct, frozen=True):
    """One workload's values: ``names`` are the columns that say which cell, ``columns`` the values'."""

    title: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[SheetRow, ...]


class _Column(msgspec.Struct, frozen=True):
    title: str
    metric: str
    own: bool = False
    host: str = ""
    device: str = ""

    def of(self, rows: Sequence[Row]) -> Row | None:
        """The value among those of one cell and phase."""
        for row in rows:
            if row.metric != self.metric or row.own != self.own:
                continue
            if self.own or (row.host, row.layer) == (self.host, self.device) or (row.top and not self.host):
                return row
        return None


def sheets(analysis: Analysis) -> tuple[Sheet, ...]:
    """A sheet for each workload that has values; transactions first, as everywhere on the page."""
    names = dict.fromkeys(side.name for side in analysis.workloads.values())
    transactions = {row.workload_name for row in analysis.rows if row.own and metric_of(row.metric).transactions}
    every = [_sheet(analysis, name) for name in sorted(names, key=lambda name: name not in transactions)]
    return tuple(sheet for sheet in every if sheet.rows)


def _sheet(analysis: Analysis, name: str) -> Sheet:
    labels = [label for label, side in analysis.workloads.items() if side.name == name]
    cells = [point for point in analysis.grid.points if point.workload in labels]
    order = {stack: number for number, stack in enumerate(analysis.stacks)}
    cells.sort(key=lambda point: (order[point.stack], labels.index(point.workload)))
    factors = [factor for factor in analysis.grid.factors if any(factor in point.levels for point in cells)]
    phases = dict.fromkeys(phase for label in labels for phase in analysis.phases(label))
    by_cell: dict[tuple[str, str, str], list[Row]] = {}
    for label in labels:
        for phase in analysis.phases(label):
            for row in analysis.places[label, phase]:
                by_cell.setdefault((row.stack, label, phase), []).append(row)
    columns = list(_columns(analysis, labels, [row for rows in by_cell.values() for row in rows]))
    gaps = {(gap.stack, gap.workload): gap.status for gap in analysis.unmeasured}
    names = [term("stack"), *factors, *([term("phase")] if any(phases) else [])]
    rows = []
    for phase in phases:
        for point in cells:
            mine = by_cell.get((point.stack, point.workload, phase), [])
            gap = gaps.get((point.stack, point.workload))
            said = [point.stack_name, *(point.levels.get(factor, "–") for factor in factors)]
            values = tuple(value_of(analysis, column.of(mine), gap) for column in columns)
            rows.append(SheetRow(point.stack, (*said, phase) if any(phases) else tuple(said), values))
    return Sheet(name, tuple(names), tuple(column.title for column in columns), tuple(rows))


def _columns(analysis: Analysis, labels: Sequence[str], rows: Sequence[Row]) -> Iterator[_Column]:
    for metric, title in workload_metrics(row.metric for row in rows if row.own):
        if metric == "failed" and not any(row.value for row in rows if row.metric == metric):
            continue
        yield _Column(title, metric, own=True)
    probed = dict.fromkeys((row.metric, row.host, row.layer, row.top) for row in rows if not row.own)
    lower = list(dict.fromkeys(each for label in labels for each in lower_devices(analysis, label)))
    for way in WAYS:
        metric = f"{way}.await"
        if any(found == metric and top for found, _, _, top in probed):
            yield _Column(f"{way} await, top device, ms", metric)
        for host, device in lower[:MOST_LOWER]:
            if any(each[:3] == (metric, host, device) for each in probed):
                yield _Column(f"{way} await, {device} on {host}, ms", metric, host=host, device=device)
    for host in dict.fromkeys(host for metric, host, _, _ in probed if metric == "cpu.busy"):
        yield _Column(f"CPU busy on {host}, %", "cpu.busy", host=host, device="cpu")


def workload_metrics(metrics: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The metrics of a workload that the page shows, in its order, and what they are called there.

    Of a type of transaction (``new_order.latency.p95``) the 95th percentile is shown.
    """
    order = ("", *WAYS)
    known = [metric_of(name) for name in dict.fromkeys(metrics)]
    # The types of transactions come last, in the order of the run.
    known.sort(key=lambda each: order.index(each.of) if each.of in order else len(order))
    for kind in SHOWN:
        for each in known:
            if each.family == kind and (each.of in order or kind == "latency.p95"):
                yield each.name, f"{term(each.of.replace('_', ' '))} {each.title}".strip()


def lower_devices(analysis: Analysis, workload: str) -> list[tuple[str, str]]:
    """(host, device) of each block device below the highest one of a stack, of all stacks."""
    found: dict[tuple[str, str], None] = {}
    for (_, label), measured in analysis.measured.items():
        for host in measured.hosts if label == workload else ():
            found.update(dict.fromkeys((host, device) for device in measured.lower(host)))
    return list(found)


def value_of(analysis: Analysis, row: Row | None, gap: str | None) -> Value:
    """The cell of a table for a value, or for the lack of it."""
    if row is None:
        # A node that is not part of the stack has no value for a good reason.
        return Value(gap or "–", absent=True)
    # The label has the unit.
    text, half = digits(row.value, row.half, row.unit, row.metric)
    relative = "" if row.stack in analysis.grid.baselines else relative_text(row)
    return Value(text, f"±{NBSP}{half}" if half else "", relative, limited=analysis.limit(row))


def relative_text(row: Row) -> str:
    """``48 % ± 2 %`` of the baseline's throughput, ``2.06×`` its latency, with what the interval leaves open;
    empty for shares of a CPU."""
    if row.relative is None or row.unit not in ("1/s", "1/min", "B/s", "s"):
        return ""
    said = verdict(row.relative)
    open_ = "" if said in ("differs", "one build") else f" ({said})"
    if row.unit == "s":
        times, half = digits(row.relative.value, row.relative.half, "")
        return f"{times}×{f'{NBSP}±{NBSP}{half}' if half else ''}{open_}"
    return percent(row.relative.value, row.relative.half) + open_
