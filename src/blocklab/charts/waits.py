"""How long a request or a transaction of a cell took, beside how many there were: for throughput over latency."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from blocklab.model.metrics import metric
from blocklab.stats.analysis import Analysis
from blocklab.stats.values import Row

_MIDDLES = ("latency.p50", "latency.mean")
_SLOW = ("latency.p99", "latency.p95")
_WORDS = {
    "latency.p50": "median", "latency.mean": "mean", "latency.p95": "95th percentile",
    "latency.p99": "99th percentile",
}  # fmt: skip


class Wait(msgspec.Struct, frozen=True):
    """A latency (s) and its name, and a percentile of the slow ones; None where that is not known."""

    value: float
    name: str
    slow: float | None = None
    slow_name: str = ""


def wait_of(analysis: Analysis, row: Row, middles: Sequence[str] = _MIDDLES) -> Wait | None:
    """The latencies that belong to a workload's rate, as its program reported them: the first of ``middles`` that
    is known, and the highest percentile. None for what the workload did not count itself."""
    if not row.own:
        return None
    mine = [each for each in analysis.reported[row.stack, row.workload, row.phase] if each.host == row.host]
    for of in (metric(row.metric).of, "new_order"):
        values = {each.family: row.value for row in mine if (each := metric(row.metric)).of == of}
        if found := _wait(values, " of new orders" if of == "new_order" else "", middles):
            return found
    return None


def mixed(analysis: Analysis, rows: Sequence[Row]) -> Wait | None:
    """Of reads and writes together: the mean over all requests, and the slower of both percentiles."""
    # A median of two kinds of requests together is not known from their own.
    waits = [(row.value, wait_of(analysis, row, ("latency.mean",))) for row in rows if row.value]
    found = [(rate, wait) for rate, wait in waits if wait is not None]
    if len(found) < len(waits) or not found or len({wait.name for _, wait in found}) > 1:
        return None
    slow = [wait.slow for _, wait in found if wait.slow is not None]
    total = sum(rate for rate, _ in found)
    middle = sum(rate * wait.value for rate, wait in found) / total
    return Wait(middle, found[0][1].name, max(slow) if len(slow) == len(found) else None, found[0][1].slow_name)


def _wait(known: dict[str, float], of: str, middles: Sequence[str]) -> Wait | None:
    middle = next((name for name in middles if known.get(name)), "")
    slow = next((name for name in _SLOW if known.get(name)), "")
    if not middle and not slow:
        return None
    if not middle:
        return Wait(known[slow], _WORDS[slow] + of)
    top = known[slow] if slow else None
    return Wait(known[middle], _WORDS[middle] + of, top, _WORDS[slow] + of if slow else "")
