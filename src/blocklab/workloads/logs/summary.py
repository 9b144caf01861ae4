"""What a log comes to."""

from __future__ import annotations

import msgspec

from blocklab.model.sample import Tile

RELATIVE_ERROR = 2.0**-11
"""A percentile is at most this (0.05 %) off the value of its rank; below 2048 of the log's own unit (ns in
fio's, us in pgbench's) it is exact."""


COLUMNS = 120
"""Of the density: more are not told apart on a page."""


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
    """By time; seconds without anything are left out."""
    curve: tuple[tuple[float, float], ...] = ()
    """(share of all, latency that so many do not exceed): halving what is left, as HdrHistogram's plots do."""
    tiles: tuple[Tile, ...] = ()
    """The density over time and latency, at most ``COLUMNS`` columns wide; without empty ones."""


class BadLine(msgspec.Struct, frozen=True):
    """A line that is no row of the log. ``line`` counts from 1; ``text`` is its start."""

    file: str
    line: int
    text: str


class LogSummary(msgspec.Struct, frozen=True):
    """One log, of one or several files."""

    latency: dict[str, Latency]
    """By direction (``read``, ``write``, ``trim``), or ``transaction``; empty without a good row."""
    left_out: dict[str, int]
    """Good rows without a latency by what they say: pgbench's ``failed``, ``skipped``, ... No bad ones."""
    bad: int
    """Lines that are no row; nothing of them is in the figures."""
    first_bad: BadLine | None
    remarks: tuple[str, ...]
    """What is odd without being lost: an empty file, line ends of CR and LF."""
    start: float | None = None
    """When the first one began, on the log's clock (s); None where the log does not tell, or has no row."""
    end: float | None = None
    """When the last one ended."""
    done: tuple[tuple[float, float], ...] = ()
    """(end, latency) of each transaction in s, by their ends; empty where they are more than was asked for."""
