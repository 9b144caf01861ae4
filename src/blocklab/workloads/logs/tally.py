"""Counts, moments, a histogram and a time series, added up block by block.

The histogram is log-linear, as HdrHistogram's (http://hdrhistogram.org): 1024 buckets for each power of two. A
bucket's number is read off a value's floating-point form: its exponent and the first ten bits of its mantissa.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklab.workloads.logs.density import Density
from blocklab.workloads.logs.summary import Latency, Second

Integers = NDArray[np.int64]

# p99.99 is 9999 of 10,000.
_PERCENTILES = {"p50": 5000, "p95": 9500, "p99": 9900, "p99.9": 9990, "p99.99": 9999}
_BITS = 10
# A double has 52 bits of mantissa; the exponent of 1 is stored as 1023. Bucket 0 is that of 0, 1 that of 1.
_SHIFT = 52 - _BITS
_ONE = (1023 << _BITS) - 1
# Values have at most 18 digits, so less than 60 bits.
_BUCKETS = (60 << _BITS) + 1
# Up to so many seconds from the first to the last of a block are counted in an array.
_SPAN = 4096


class Tally:
    """Adds up rows of ``lanes`` kinds (directions); all values are whole numbers of the log's unit."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._histogram = np.zeros(_BUCKETS * lanes, np.int64)
        self._counts = [0] * lanes
        self._means = [0.0] * lanes
        # Sums of squared distances from the mean.
        self._squares = [0.0] * lanes
        self._least = np.full(lanes, np.iinfo(np.int64).max)
        # second * lanes + lane -> count, sum, max
        self._seconds: dict[int, tuple[int, float, float]] = {}
        self._density = Density(lanes)

    def add(self, seconds: Integers, values: Integers, lanes: Integers | None) -> None:
        """One block, not empty; ``lanes`` is None where there is one lane. ``seconds`` is spoilt."""
        floats = values.astype(np.float64)
        self._spread(floats, lanes)
        self._density.add(seconds, floats, lanes)
        counts, sums = self._series(seconds, floats, lanes)
        present = counts > 0
        # Seldom so after the first blocks.
        if (least := values.min()) < self._least[present].max():
            if lanes is None:
                self._least[0] = least
            else:
                np.minimum.at(self._least, lanes, values)
        means = sums / np.maximum(counts, 1)
        floats -= means[0] if lanes is None else means.take(lanes)
        floats *= floats
        # Not np.dot: on such short arrays its threads take more than they give.
        squares = np.array([floats.sum()]) if lanes is None else np.bincount(lanes, floats, self._lanes)
        for lane in np.flatnonzero(present).tolist():
            self._merge(lane, int(counts[lane]), float(means[lane]), float(squares[lane]))

    def _merge(self, lane: int, count: int, mean: float, squares: float) -> None:
        """Two parts' moments are those of the whole: Chan, Golub, LeVeque, Updating formulae, 1979, (2.1)."""
        before = self._counts[lane]
        whole = before + count
        apart = mean - self._means[lane]
        self._counts[lane] = whole
        self._means[lane] += apart * count / whole
        self._squares[lane] += squares + apart * apart * before * count / whole

    def _spread(self, floats: NDArray[np.float64], lanes: Integers | None) -> None:
        buckets: Integers = floats.view(np.int64) >> _SHIFT
        buckets -= _ONE
        np.maximum(buckets, 0, out=buckets)
        if lanes is not None:
            buckets *= self._lanes
            buckets += lanes
        first = int(buckets.min())
        buckets -= first
        found = np.bincount(buckets)
        self._histogram[first : first + len(found)] += found

    def _series(
        self, seconds: Integers, floats: NDArray[np.float64], lanes: Integers | None
    ) -> tuple[Integers, NDArray[np.float64]]:
        """Adds to the seconds; the block's rows and sum of each lane."""
        first = int(seconds.min())
        keys = seconds
        keys -= first
        if lanes is not None:
            keys *= self._lanes
            keys += lanes
        names: Integers | None = None
        if int(keys.max()) > _SPAN * self._lanes:
            names, keys = np.unique(keys, return_inverse=True)
        size = int(keys.max()) + 1
        if names is None:
            # Each second has all lanes, so that it folds.
            size = -(-size // self._lanes) * self._lanes
        counts = np.bincount(keys, minlength=size)
        sums = np.bincount(keys, floats, size)
        most = np.zeros(len(counts))
        np.maximum.at(most, keys, floats)
        for at in np.flatnonzero(counts).tolist():
            key = first * self._lanes + (at if names is None else int(names[at]))
            count, total, high = self._seconds.get(key, (0, 0.0, 0.0))
            self._seconds[key] = (
                count + int(counts[at]), total + float(sums[at]), max(high, float(most[at]))
            )  # fmt: skip
        if names is None:
            return counts.reshape(-1, self._lanes).sum(axis=0), sums.reshape(-1, self._lanes).sum(axis=0)
        lane_of = names % self._lanes
        return (
            np.bincount(lane_of, counts, self._lanes).astype(np.int64),
            np.bincount(lane_of, sums, self._lanes).astype(np.float64),
        )

    def latency(self, lane: int, unit: float) -> Latency | None:
        """The values of a lane, in seconds (``unit`` of the log's unit are one); None if it has no row."""
        count = self._counts[lane]
        if not count:
            return None
        series = tuple(
            Second(key // self._lanes, rows, total / rows / unit, high / unit)
            for key, (rows, total, high) in sorted(self._seconds.items())
            if key % self._lanes == lane
        )
        least, most = int(self._least[lane]) / unit, max(second.max for second in series)
        passed = np.cumsum(self._histogram[lane :: self._lanes])
        percentiles = {
            # Rounded up in whole numbers: a product of floats may be a hair above.
            name: min(max(_middle(int(np.searchsorted(passed, -(-count * part // 10_000)))) / unit, least), most)
            for name, part in _PERCENTILES.items()
        }
        stddev = math.sqrt(self._squares[lane] / (count - 1)) if count > 1 else 0.0
        return Latency(
            count, self._means[lane] / unit, stddev / unit, least, most, percentiles, series,
            tuple(_curve(passed, count, unit, most)), self._density.tiles(lane, unit),
        )  # fmt: skip


def _curve(passed: Integers, count: int, unit: float, most: float) -> Iterator[tuple[float, float]]:
    """Eight steps to each halving of what is left, the percentiles among them, to the last one."""
    halvings = (1 - 2 ** (-step / 8) for step in range(math.ceil(8 * math.log2(count)) if count > 1 else 0))
    before = -1.0
    for share in sorted({*halvings, *(part / 10_000 for part in _PERCENTILES.values())}):
        rank = max(1, math.ceil(round(count * share, 6)))
        value = min(_middle(int(np.searchsorted(passed, rank))) / unit, most)
        if value > before or share * 10_000 in _PERCENTILES.values():
            yield share, value
            before = value
    yield 1.0, most


def _middle(bucket: int) -> float:
    """The mean of a bucket's least and greatest whole number."""
    if bucket == 0:
        return 0.0
    power, part = divmod(bucket - 1, 1 << _BITS)
    least = math.ceil(math.ldexp((1 << _BITS) + part, power - _BITS))
    beyond = math.ceil(math.ldexp((1 << _BITS) + part + 1, power - _BITS))
    return (least + beyond - 1) / 2
