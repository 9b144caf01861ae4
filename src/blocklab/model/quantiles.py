"""Tables of quantiles, which latencies are drawn from: pairs of a quantile (0 to 1) and seconds, both ascending.

As a volume's server has it (``volume/latency.rs``): between two quantiles the logarithm of the latency is linear;
below the first and above the last it is constant.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

Table: TypeAlias = Sequence[tuple[float, float]]
# No latency is 0 or less, which would have no logarithm (s).
_LEAST = 1e-9


def at(table: Table, quantile: float) -> float:
    """The latency at a quantile (s)."""
    after = bisect_right(table, quantile, key=lambda point: point[0])
    if after in (0, len(table)):
        return table[min(after, len(table) - 1)][1]
    (start, low), (end, high) = table[after - 1], table[after]
    return float(low * (high / low) ** ((quantile - start) / (end - start)))


def share(table: Table, seconds: float) -> float:
    """The part of all draws that takes at most so long (s), from 0 to 1."""
    after = bisect_right(table, seconds, key=lambda point: point[1])
    if after in (0, len(table)):
        return float(after > 0)
    (start, low), (end, high) = table[after - 1], table[after]
    return start + (end - start) * math.log(seconds / low) / math.log(high / low)


def shifted(table: Table, seconds: float) -> Table:
    """Each latency so much longer; shorter by a negative number, down to next to nothing."""
    return [(quantile, max(_LEAST, latency + seconds)) for quantile, latency in table]


def distance(table: Table, found: Table, *, beyond: float = 0.0) -> float:
    """The Kolmogorov-Smirnov distance between a table and measured requests (``fio.report.distribution``): the
    greatest difference of the two cumulative distributions, at what was measured above ``beyond`` (s)."""
    return max((abs(part - share(table, seconds)) for part, seconds in found if seconds > beyond), default=0.0)
