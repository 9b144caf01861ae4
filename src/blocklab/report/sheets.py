"""The values of workloads that factors change, or that have many phases: a row for each cell and phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from blocklab.report.tables import SHOWN, Value, lower_devices, on_sheets, value_of, workload_metrics
from blocklab.stats.analysis import Analysis
from blocklab.stats.values import Row

# A row has no room for the median beside the mean.
_KINDS = tuple(kind for kind in SHOWN if kind != "latency.p50")
# More columns than this of lower devices hide all others.
MOST_LOWER = 4


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
    """A sheet for each workload that the table with a column a stack has no room for."""
    return tuple(sheet for name in on_sheets(analysis) if (sheet := _sheet(analysis, name)).rows)


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
    names = ["stack", *factors, *(["phase"] if any(phases) else [])]
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
    for metric, title in workload_metrics((row.metric for row in rows if row.own), _KINDS):
        if metric == "failed" and not any(row.value for row in rows if row.metric == metric):
            continue
        yield _Column(title, metric, own=True)
    probed = dict.fromkeys((row.metric, row.host, row.layer, row.top) for row in rows if not row.own)
    lower = list(dict.fromkeys(each for label in labels for each in lower_devices(analysis, label)))
    for way in ("read", "write"):
        metric = f"{way}.await"
        if any(found == metric and top for found, _, _, top in probed):
            yield _Column(f"{way} await, top device, ms", metric)
        for host, device in lower[:MOST_LOWER]:
            if any(each[:3] == (metric, host, device) for each in probed):
                yield _Column(f"{way} await, {device} on {host}, ms", metric, host=host, device=device)
    for host in dict.fromkeys(host for metric, host, _, _ in probed if metric == "cpu.busy"):
        yield _Column(f"CPU busy on {host}, %", "cpu.busy", host=host, device="cpu")
