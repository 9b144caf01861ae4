"""What a log comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from blocklab.errors import ParseError
from blocklab.model.sample import Sample, Tile

RELATIVE_ERROR = 2.0**-11
"""A percentile is at most this (0.05 %) off the value of its rank; below 2048 of the log's own unit (ns in
fio's, us in pgbench's) it is exact."""


COLUMNS = 120
"""Of the density: more are not distinguished on a page."""

_MOST_SILENT = 86_400


class Second(msgspec.Struct, frozen=True):
    """A second of the log's clock in which something ended; the first and the last are seldom whole."""

    time: int
    """Its start, in seconds: since the epoch, or since fio's job started where fio logged it so."""
    count: int
    """I/Os or transactions, so IOPS or TPS of a whole second."""
    mean: float
    """Latency in seconds."""
    max: float
    """Latency in seconds."""


class Latency(msgspec.Struct, frozen=True):
    """Latencies in seconds. ``stddev`` divides by n - 1, as fio's; it is 0 for one value."""

    count: int
    mean: float
    stddev: float
    min: float
    max: float
    percentiles: dict[str, float]
    """``p50``, ``p95``, ``p99``, ``p99.9``, ``p99.99`` by nearest rank, within ``RELATIVE_ERROR``."""
    series: tuple[Second, ...]
    """By time; seconds without anything are left out (``every_second`` puts them in)."""
    curve: tuple[tuple[float, float], ...] = ()
    """(share of all, latency that so many do not exceed): halving what is left, as HdrHistogram's plots do."""
    tiles: tuple[Tile, ...] = ()
    """The density over time and latency, at most ``COLUMNS`` columns wide; without empty ones."""


def every_second(tool: str, series: Sequence[Second]) -> list[Second]:
    """A time series with the seconds in which nothing ended, which have a ``count`` of 0, and a latency that means
    nothing.

    Raises ``ParseError`` where these would be more than a day.
    """
    silent = series[-1].time - series[0].time + 1 - len(series) if series else 0
    if silent > _MOST_SILENT:
        jump = max((after.time - before.time, before.time) for before, after in pairwise(series))
        raise ParseError(
            tool, f"the times in its log jump by {jump[0]:,} s after {jump[1]}: a damaged row, or two runs",
            hint="cut it into a file for each run",
        )  # fmt: skip
    found = list(series[:1])
    for before, after in pairwise(series):
        found += [Second(time, 0, 0.0, 0.0) for time in range(before.time + 1, after.time)]
        found.append(after)
    return found


def latency_values(done: Latency, layer: str, prefix: str = "", phase: str = "") -> Iterator[Sample]:
    """Mean, deviation, percentiles and the greatest one."""
    values = {"mean": done.mean, "stddev": done.stddev, **done.percentiles, "max": done.max}
    for name, value in values.items():
        yield Sample(f"{prefix}latency.{name}", value, "s", layer, "", phase)


class BadLine(msgspec.Struct, frozen=True):
    """A line that is no row of the log. ``line`` counts from 1; ``text`` is its start.
    ``cut``: it is the last one, and has no line end."""

    file: str
    line: int
    text: str
    cut: bool = False


class Numbered(msgspec.Struct, frozen=True):
    """What a client numbered: its first and its last transaction, and how many rows it has, of whatever end."""

    first: int
    last: int
    rows: int


class LogSummary(msgspec.Struct, frozen=True):
    """One log, of one or several files."""

    latency: dict[str, Latency]
    """By direction (``read``, ``write``, ``trim``), or ``transaction``; empty without a good row."""
    left_out: dict[str, int]
    """Good rows without a latency by what they say: pgbench's ``failed``, ``skipped``, ... No bad ones."""
    bad: int
    """Lines that are no row; nothing of them is in the values."""
    first_bad: BadLine | None
    remarks: tuple[str, ...]
    """What is odd without being lost: an empty file, line ends of CR and LF."""
    start: float | None = None
    """When the first one began, on the log's clock (s); None where the log does not tell, or has no row."""
    end: float | None = None
    """When the last one ended."""
    done: tuple[tuple[float, float], ...] = ()
    """(end, latency) of each transaction in s, by their ends; empty where they are more than was asked for."""
    clients: Mapping[int, Numbered] = {}
    """Of pgbench's log: each client's transactions."""

    @property
    def numbered(self) -> int:
        """How many transactions the clients counted from their first row to their last; skipped and failed ones
        have numbers, too."""
        return sum(each.last - each.first + 1 for each in self.clients.values())

    @property
    def rows(self) -> int:
        """How many of these have a row."""
        return sum(each.rows for each in self.clients.values())
