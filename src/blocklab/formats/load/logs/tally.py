"""Counts, moments, a histogram, a time series and the density over time, added up block by block.

What is held does not follow the length of the log.
The histogram is log-linear, as HdrHistogram's (http://hdrhistogram.org): 1024 buckets for each power of two. A
bucket's number is read off a value's floating-point form: its exponent and the first ten bits of its mantissa. The
density has four rows for each power of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklab.formats.load.logs.summary import COLUMNS, Latency, Second
from blocklab.model.sample import Tile

Integers = NDArray[np.int64]

# p99.99 is 9999 of 10,000.
_PERCENTILES = {"p50": 5000, "p95": 9500, "p99": 9900, "p99.9": 9990, "p99.99": 9999}
_BITS, _ROW_BITS = 10, 2
# A double has 52 bits of mantissa; the exponent of 1 is stored as 1023. Bucket 0 is that of 0, 1 that of 1.
_SHIFT = 52 - _BITS
_ONE = (1023 << _BITS) - 1
# Values have at most 18 digits, so less than 60 bits.
_BUCKETS, _ROWS = ((60 << bits) + 1 for bits in (_BITS, _ROW_BITS))
# Up to so many neighbours are counted in an array.
_SPAN = 4096
# While a log is read the columns of the density are a second wide, or as many as keep their number below this.
_MOST = 2048


def grouped(values: Integers) -> tuple[Integers, Integers]:
    """What occurs, or may, in ``values``, and the place of each value in that."""
    first, last = int(values.min()), int(values.max())
    if last - first > _SPAN:
        return np.unique(values, return_inverse=True)
    return np.arange(first, last + 1), values - first


class Tally:
    """Adds up rows of one kind; all values are whole numbers of the log's unit."""

    def __init__(self) -> None:
        self._histogram = np.zeros(_BUCKETS, np.int64)
        self._count, self._mean = 0, 0.0
        # The sum of squared distances from the mean.
        self._squares = 0.0
        self._least = 0
        # second -> count, sum, max
        self._seconds: dict[int, tuple[int, float, float]] = {}
        # column (of ``_step`` seconds) -> counts by row
        self._step = 1
        self._columns: dict[int, Integers] = {}

    def add(self, seconds: Integers, values: Integers) -> None:
        """One block."""
        if not len(values):
            return
        floats = values.astype(np.float64)
        buckets: Integers = floats.view(np.int64) >> _SHIFT
        buckets -= _ONE
        np.maximum(buckets, 0, out=buckets)
        first = int(buckets.min())
        found = np.bincount(buckets - first)
        self._histogram[first : first + len(found)] += found
        self._density(seconds, buckets)
        self._series(seconds, floats)
        least = int(values.min())
        self._least = min(self._least, least) if self._count else least
        mean = float(floats.mean())
        floats -= mean
        floats *= floats
        # Two parts' moments are those of the whole: Chan, Golub, LeVeque, Updating formulae, 1979, (2.1).
        before, count, apart = self._count, len(values), mean - self._mean
        self._count += count
        self._mean += apart * count / self._count
        # Not np.dot: on such short arrays its threads take more than they give.
        self._squares += float(floats.sum()) + apart * apart * before * count / self._count

    def _series(self, seconds: Integers, floats: NDArray[np.float64]) -> None:
        names, keys = grouped(seconds)
        counts, sums, most = np.bincount(keys), np.bincount(keys, floats), np.zeros(len(names))
        np.maximum.at(most, keys, floats)
        for at in np.flatnonzero(counts).tolist():
            count, total, high = self._seconds.get(key := int(names[at]), (0, 0.0, 0.0))
            self._seconds[key] = count + int(counts[at]), total + float(sums[at]), max(high, float(most[at]))

    def _density(self, seconds: Integers, buckets: Integers) -> None:
        low, high = int(seconds.min()), int(seconds.max())
        ends = [low, high, *(end * self._step for end in self._columns)]
        while max(ends) // self._step - min(ends) // self._step >= _MOST:
            self._step *= 2
            self._columns = _merged(self._columns, 2)
        rows = (buckets - 1 >> _BITS - _ROW_BITS) + 1
        first = low // self._step
        rows += (seconds // self._step - first) * _ROWS
        found = np.bincount(rows, minlength=(high // self._step - first + 1) * _ROWS).reshape(-1, _ROWS)
        for at in np.flatnonzero(found.any(axis=1)).tolist():
            self._columns[first + at] = self._columns.get(first + at, 0) + found[at]

    def latency(self, unit: float) -> Latency | None:
        """The values in seconds (``unit`` of the log's unit are one); None without a row."""
        count = self._count
        if not count:
            return None
        series = tuple(
            Second(key, rows, total / rows / unit, high / unit)
            for key, (rows, total, high) in sorted(self._seconds.items())
        )
        least, most = self._least / unit, max(second.max for second in series)
        passed = np.cumsum(self._histogram)
        percentiles = {
            # Rounded up in whole numbers: a product of floats may be a hair above.
            name: min(max(_middle(int(np.searchsorted(passed, -(-count * part // 10_000)))) / unit, least), most)
            for name, part in _PERCENTILES.items()
        }
        stddev = math.sqrt(self._squares / (count - 1)) if count > 1 else 0.0
        return Latency(
            count, self._mean / unit, stddev / unit, least, most, percentiles, series,
            tuple(_curve(passed, count, unit, most)), tuple(self._tiles(unit)),
        )  # fmt: skip

    def _tiles(self, unit: float) -> Iterator[Tile]:
        """What is not empty of the density, in seconds, by time and latency."""
        first = min(self._columns)
        apart = {column - first: counts for column, counts in self._columns.items()}
        times = -(-(max(apart) + 1) // COLUMNS)
        width = float(self._step * times)
        for column, counts in sorted(_merged(apart, times).items()):
            start = first * self._step + column * width
            for row in np.flatnonzero(counts).tolist():
                low, high = (_least(each, _ROW_BITS) / unit for each in (row, row + 1))
                yield Tile(start, width, low, high, int(counts[row]))


def _merged(columns: dict[int, Integers], times: int) -> dict[int, Integers]:
    found: dict[int, Integers] = {}
    for column, counts in columns.items():
        found[column // times] = found.get(column // times, 0) + counts
    return found


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


def _least(row: int, bits: int) -> float:
    """The least value of a row or bucket; of two bits 0, then 1, 1.25, 1.5, 1.75, 2, 2.5, ..."""
    if row == 0:
        return 0.0
    power, part = divmod(row - 1, 1 << bits)
    return math.ldexp((1 << bits) + part, power - bits)


def _middle(bucket: int) -> float:
    """The mean of a bucket's least and greatest whole number."""
    return (math.ceil(_least(bucket, _BITS)) + math.ceil(_least(bucket + 1, _BITS)) - 1) / 2
