"""What a log comes to."""

from __future__ import annotations

import msgspec

RELATIVE_ERROR = 2.0**-11
"""A percentile is at most this (0.05 %) off the value of its rank; below 2048 of the log's own unit (ns in
fio's, us in pgbench's) it is exact."""


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
