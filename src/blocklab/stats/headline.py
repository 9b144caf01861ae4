"""Which values of a workload stand for it: those that users quote, or those that a study's layout asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blocklab.model.metrics import metric as metric_of
from blocklab.model.metrics import quoted
from blocklab.stats.values import Row

# From this request size on people think of I/O as MB/s, below it as IOPS.
LARGE_REQUEST = 64 * 1024
# Who measured a value, where it is neither the workload nor a node's CPU.
_HIGHEST = "the highest device"


def headlines(phases: Mapping[str, Sequence[Row]], y: str) -> dict[str, list[tuple[str, str]]]:
    """The (metric, who measured it) of each of one workload's phases, of the rows of all stacks in it. ``y``: the
    metric or family that the layout asks for, or nothing."""
    asked = asked_of([row for rows in phases.values() for row in rows], y)
    found = {}
    for phase, rows in phases.items():
        known = {(row.metric, source_of(row)) for row in rows} if asked else set()
        found[phase] = [each for each in asked if each in known] or _usual(rows)
    return found


def headline_rows(table: Iterable[Row], y: str) -> list[Row]:
    """Those rows of a study's table."""
    workloads: dict[str, dict[str, list[Row]]] = {}
    for row in table:
        workloads.setdefault(row.workload, {}).setdefault(row.phase, []).append(row)
    found = []
    for phases in workloads.values():
        # What probes saw of a workload without phases stands under its own name.
        named = {phase: rows for phase, rows in phases.items() if any(row.own for row in rows)}
        chosen = headlines(named, y)
        found += [
            row for phase, rows in named.items() for row in rows if (row.metric, source_of(row)) in chosen[phase]
        ]
    return found


def source_of(row: Row) -> str | None:
    """Who measured a value: empty for the workload itself, the node of a CPU's; None for what tells nothing of a
    stack as a whole."""
    if row.own:
        return ""
    if row.top:
        return _HIGHEST
    return row.host if row.layer == "cpu" else None


def is_asked(metric: str, y: str) -> bool:
    """Whether a metric is the one that a layout asks for: by its name, or its family's (``latency.p99``)."""
    return y in (metric, metric_of(metric).family)


def asked_of(rows: Sequence[Row], y: str) -> list[tuple[str, str]]:
    """The metrics of a workload that ``y`` asks for, and who measured them: the one of that very name where there
    is one, and the workload itself where it knows any of them (a device counts reads where the workload does
    none)."""
    found: dict[tuple[str, str], None] = {}
    for row in rows if y else ():
        source = source_of(row)
        if source is not None and is_asked(row.metric, y):
            found[row.metric, source] = None
    own = [each for each in found if not each[1]] or list(found)
    return [each for each in own if each[0] == y] or own


def _usual(rows: Sequence[Row]) -> list[tuple[str, str]]:
    mine = [row for row in rows if row.own]
    found = []
    for name in quoted(row.metric for row in mine):
        known = metric_of(name)
        sizes = known.beside("bandwidth") if known.family == "iops" else ""
        rates = {row.stack: row.value for row in mine if row.metric == name}
        large = [
            row.value >= LARGE_REQUEST * rates[row.stack]
            for row in mine
            if row.metric == sizes and rates.get(row.stack)
        ]
        found.append(sizes if large and all(large) else name)
    return [(metric, "") for metric in found or [row.metric for row in mine if row.unit == "1/s"][:1]]
