"""How many took how long, over time: a grid whose size does not follow the length of the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklab.model.sample import Tile
from blocklab.workloads.logs.summary import COLUMNS

Integers = NDArray[np.int64]

# Rows of the grid: four for each power of two, so the first two bits of a double's mantissa.
_BITS = 2
_SHIFT = 52 - _BITS
_ONE = (1023 << _BITS) - 1
_ROWS = (60 << _BITS) + 1
# While a log is read the columns are a second wide, or as many as keep their number below this.
_MOST = 2048


class Density:
    """Adds up rows of ``lanes`` kinds; values are whole numbers of the log's unit."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._step = 1
        self._first = self._last = 0
        # column (of ``_step`` seconds) -> counts by lane and row
        self._columns: dict[int, Integers] = {}

    def add(self, seconds: Integers, floats: NDArray[np.float64], lanes: Integers | None) -> None:
        """One block, not empty."""
        low, high = int(seconds.min()), int(seconds.max())
        self._first, self._last = (min(low, self._first), max(high, self._last)) if self._columns else (low, high)
        while self._last // self._step - self._first // self._step >= _MOST:
            self._coarser()
        rows: Integers = (floats.view(np.int64) >> _SHIFT) - _ONE
        np.maximum(rows, 0, out=rows)
        if lanes is not None:
            rows += lanes * _ROWS
        first = low // self._step
        wide = self._lanes * _ROWS
        rows += (seconds // self._step - first) * wide
        found = np.bincount(rows, minlength=(high // self._step - first + 1) * wide).reshape(-1, wide)
        for at in np.flatnonzero(found.any(axis=1)).tolist():
            column = self._columns.get(first + at)
            self._columns[first + at] = found[at].copy() if column is None else column + found[at]

    def _coarser(self) -> None:
        self._step *= 2
        self._columns = _merged(self._columns, 2)

    def tiles(self, lane: int, unit: float) -> tuple[Tile, ...]:
        """What is not empty of one lane, in seconds, by time and latency."""
        if not self._columns:
            return ()
        first = min(self._columns)
        apart = {column - first: counts for column, counts in self._columns.items()}
        times = -(-(max(apart) + 1) // COLUMNS)
        width = self._step * times
        return tuple(
            tile
            for column, counts in sorted(_merged(apart, times).items())
            for tile in _tiles(
                counts[lane * _ROWS : (lane + 1) * _ROWS], first * self._step + column * width, width, unit
            )
        )


def _merged(columns: dict[int, Integers], times: int) -> dict[int, Integers]:
    found: dict[int, Integers] = {}
    for column, counts in columns.items():
        before = found.get(column // times)
        found[column // times] = counts if before is None else before + counts
    return found


def _tiles(counts: Integers, start: float, width: float, unit: float) -> Iterator[Tile]:
    for row in np.flatnonzero(counts).tolist():
        yield Tile(float(start), float(width), _least(row) / unit, _least(row + 1) / unit, int(counts[row]))


def _least(row: int) -> float:
    """The least value of a row: 0, then 1, 1.25, 1.5, 1.75, 2, 2.5, ..."""
    if row == 0:
        return 0.0
    power, part = divmod(row - 1, 1 << _BITS)
    return (1 + part / (1 << _BITS)) * 2.0**power
