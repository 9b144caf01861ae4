"""Means, spreads and intervals of one run's series."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from blocklab.judge.series import t975

BATCHES = 10
# With fewer batches the t factor is so large that the interval says nothing.
LEAST_BATCHES = 5


class Estimate(msgspec.Struct, frozen=True):
    """A value and the half width of its 95 % interval within the run; ``half`` is None where none is known."""

    value: float
    half: float | None = None


class Endless(Estimate, frozen=True):
    """A value whose 95 % interval is known and has no end: ``half`` is None, but not for want of measurements."""


def percentile(values: Sequence[float], rank: float) -> float:
    """The value at ``rank`` (0 to 1) by nearest rank: always one that was measured.

    Raises ``ValueError`` when there are no values.
    """
    if not values:
        raise ValueError("no values, so no percentile")
    return sorted(values)[max(0, math.ceil(len(values) * rank) - 1)]


def batch_means(values: Sequence[float]) -> float | None:
    """The half width of the 95 % interval of the mean of a series, in the series' unit.

    Neighbouring seconds of a workload resemble each other, so the plain standard error would be too small. The
    series is cut into at most ten batches whose means are taken as independent; what does not fill a batch is
    left out at the start, where the workload is still warming up. None where the series is too short (under ten).
    """
    count = min(BATCHES, len(values) // 2)
    if count < LEAST_BATCHES:
        return None
    size = len(values) // count
    kept = values[len(values) - count * size :]
    means = [statistics.fmean(kept[at : at + size]) for at in range(0, len(kept), size)]
    return t975(count - 1) * statistics.stdev(means) / math.sqrt(count)


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """The mean of per-second means, each counted as often as it has events; None when there were none."""
    total = sum(weights)
    if not total:
        return None
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total
