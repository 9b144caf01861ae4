"""A sample: one value, in one unit, of one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

# To import numpy takes time that commands without series do not have.
if TYPE_CHECKING:
    from blocklab.model.watched import Watched

OWN = "cpu.own"
"""The metric of what measuring itself took of a CPU, in % of one core, while the cell was watched. The layer is
``blocklab`` for blocklab's own process (its host is empty: it is none of the study's), or ``probe NAME``."""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row.

    ``metric`` is a dotted name (``write.iops``, ``write.latency.p99``, ``tps``); ``unit`` one of ``1/s``,
    ``1/min``, ``s``, ``B/s``, ``B``, ``%``, ``1``. ``layer`` is who measured: a workload (``fio``, ``pgbench``), a
    database server, or a device, interface or CPU that a probe watched. ``phase`` is the part of the workload (a
    fio section). ``time`` is seconds since the epoch for a point of a series, and None for a value of the whole
    phase.
    """

    metric: str
    value: float
    unit: str
    layer: str
    host: str
    phase: str = ""
    time: float | None = None


class Phase(msgspec.Struct, frozen=True):
    """A named part of a workload; ``start`` and ``end`` are seconds since the epoch."""

    name: str
    start: float
    end: float


class Spread(msgspec.Struct, frozen=True):
    """A value's value in each round of its phase, in the order of the rounds."""

    phase: str
    metric: str
    layer: str
    host: str
    values: tuple[float, ...]


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """One operation that the workload logged: when it ended (seconds since the epoch) and how long it took (s)."""

    end: float
    latency: float


class Tile(msgspec.Struct, frozen=True, array_like=True):
    """How many operations ended in ``[start, start + width)`` and took from ``low`` to ``high``, all in s."""

    start: float
    width: float
    low: float
    high: float
    count: int


class Latencies(msgspec.Struct, frozen=True):
    """Operations that are too many to keep each: how many took how long, over time.

    ``curve``: (share of all, latency in s that so many do not exceed), rising to a share of 1. ``tiles`` are the
    density, without empty ones; ``start`` of a tile is seconds since the epoch.
    """

    count: int
    curve: tuple[tuple[float, float], ...]
    tiles: tuple[Tile, ...]


class Histogram(msgspec.Struct, frozen=True):
    """How many operations took how long: ``bins`` has pairs of a latency (s) and a count. ``family`` is what their
    percentiles are called: ``write.latency`` of ``write.latency.p99``."""

    family: str
    phase: str
    host: str
    bins: tuple[tuple[float, int], ...]


class Parsed(msgspec.Struct, frozen=True):
    """What a parser made of a tool's output. ``histograms`` are for putting rounds together; none is stored.
    ``watched``: further series, as columns."""

    samples: tuple[Sample, ...] = ()
    phases: tuple[Phase, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    watched: tuple[Watched, ...] = ()
