"""What every reader of statistics yields: the I/O of one system over time, never one number."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, overload

import msgspec
import numpy as np
import numpy.typing as npt

from blocklab.model.watched import Values

# Bytes of one request that no device or server has: sources outside these bounds are implausible (a sector is the
# least; no kernel, driver or database makes requests above 32 MiB).
LEAST_REQUEST, MOST_REQUEST = 512.0, 32.0 * 2**20


class Trust(enum.IntEnum):
    """How far a source is to be trusted; a higher one wins where two tell of the same system and time."""

    CACHED = 1
    """System calls through a page cache: reads may never have reached a device."""
    WINDOW = 2
    """A server's averages over its last few seconds."""
    SERVER = 3
    """A server's own cumulative counters."""
    DEVICE = 4
    """Counters of the block device, by the kernel or the cloud."""

    @property
    def label(self) -> str:
        """In words, for tables."""
        return {
            Trust.CACHED: "calls through a page cache", Trust.WINDOW: "short window",
            Trust.SERVER: "server counter", Trust.DEVICE: "device counter",
        }[self]  # fmt: skip


class Rates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """I/O per second. ``reads`` and ``writes`` are requests (1/s), the others bytes (B/s). None: the source does
    not tell.

    ``requests`` (1/s) and ``total_bytes`` (B/s): reads and writes together, only where the source does not tell
    them apart (``sar -d``, ``iostat -x -s``).
    """

    reads: float | None = None
    writes: float | None = None
    read_bytes: float | None = None
    write_bytes: float | None = None
    requests: float | None = None
    total_bytes: float | None = None

    @property
    def bytes_together(self) -> float | None:
        """Reads and writes together (B/s), however the source tells them."""
        if self.read_bytes is not None and self.write_bytes is not None:
            return self.read_bytes + self.write_bytes
        return self.total_bytes

    @property
    def together(self) -> float | None:
        """Reads and writes together (1/s), however the source tells them."""
        if self.reads is not None and self.writes is not None:
            return self.reads + self.writes
        return self.requests


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The means from ``start`` (seconds since the epoch) on, over ``seconds``.

    ``flushes``: fsync, fdatasync or cache flushes (1/s). Latencies (s) are means of one request; ``in_flight`` is
    how many there were at a time, where the source counts it.
    ``transactions``: commits and rollbacks (1/s). ``parts``: portions of ``rates`` that one may want to leave out,
    by name (``backup``, ``smart scan``). ``line``: where in the file it stands, from 1; 0 where that is unknown.
    """

    start: float
    seconds: float
    rates: Rates
    flushes: float | None = None
    read_latency: float | None = None
    write_latency: float | None = None
    in_flight: float | None = None
    transactions: float | None = None
    parts: Mapping[str, Rates] = {}
    line: int = 0

    @property
    def end(self) -> float:
        """Seconds since the epoch."""
        return self.start + self.seconds


RATES = Rates.__struct_fields__
OTHERS = ("flushes", "read_latency", "write_latency", "in_flight", "transactions")
"""The names of an interval's rates, and of what else it tells."""


class Columns(Sequence[Interval]):
    """Intervals without parts, as columns: of a million of them an object each would take a gigabyte. ``values``
    are by the names of ``RATES`` and ``OTHERS``, NaN where nothing is told."""

    def __init__(self, starts: Values, seconds: Values, values: Mapping[str, Values]) -> None:
        self.starts = starts
        self.seconds = seconds
        self.values = values

    @property
    def ends(self) -> Values:
        """Seconds since the epoch."""
        return self.starts + self.seconds

    def told(self, name: str) -> Values:
        """A column; NaN where the source does not tell it."""
        found = self.values.get(name)
        return found if found is not None else np.full(len(self.starts), np.nan)

    def at(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Columns:
        """Only some of them, or in another order."""
        values = {name: each[which] for name, each in self.values.items()}
        return Columns(self.starts[which], self.seconds[which], values)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Interval: ...
    @overload
    def __getitem__(self, at: slice) -> Columns: ...
    def __getitem__(self, at: int | slice) -> Interval | Columns:
        """One of them, or several."""
        if isinstance(at, slice):
            return self.at(at)
        told = {name: float(each[at]) for name, each in self.values.items() if not np.isnan(each[at])}
        rates = Rates(**{name: told.get(name) for name in RATES})
        found = Interval(start=float(self.starts[at]), seconds=float(self.seconds[at]), rates=rates)
        return msgspec.structs.replace(found, **{name: told[name] for name in OTHERS if name in told})

    def __iter__(self) -> Iterator[Interval]:
        """Each of them."""
        return (self[at] for at in range(len(self)))


def columns(intervals: Sequence[Interval], left_out: Iterable[str] = ()) -> Columns:
    """Intervals as columns; ``left_out``: parts to take off, by their names."""
    if isinstance(intervals, Columns):
        return intervals
    names = tuple(left_out)
    rates = [without(each.rates, [each.parts[name] for name in names if name in each.parts]) for each in intervals]
    values = {name: _column(getattr(each, name) for each in rates) for name in RATES}
    values |= {name: _column(getattr(each, name) for each in intervals) for name in OTHERS}
    return Columns(_column(each.start for each in intervals), _column(each.seconds for each in intervals), values)


def _column(values: Iterable[float | None]) -> Values:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def joined(several: Sequence[Columns]) -> Columns:
    """All of them, by their starts."""
    names = dict.fromkeys(name for each in several for name in each.values)
    found = Columns(
        np.concatenate([each.starts for each in several]), np.concatenate([each.seconds for each in several]),
        {name: np.concatenate([each.told(name) for each in several]) for name in names},
    )  # fmt: skip
    rising = len(found) < 2 or bool((np.diff(found.starts) >= 0).all())
    return found if rising else found.at(np.argsort(found.starts, kind="stable"))


def parts_of(intervals: Sequence[Interval]) -> set[str]:
    """The names of the parts that any of them tells."""
    return set() if isinstance(intervals, Columns) else {name for each in intervals for name in each.parts}


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says of one system.

    ``system`` is the database (its name), or the host for device counters; ``device`` the block device or cloud
    volume, empty for a server's counters. ``instance``: of several instances of one database (RAC); those of one
    system are added up. ``source`` names the statistics (``Oracle AWR``, ``InnoDB status``, ``iostat``).
    ``product``: ``oracle``, ``mysql``, ``mariadb``, ``postgresql`` or empty. ``untimed``: the starts are made up,
    only the lengths are known. ``since_start``: the one interval runs from the server's start on.
    """

    system: str
    source: str
    trust: Trust
    files: tuple[Path, ...]
    intervals: Sequence[Interval]
    host: str = ""
    device: str = ""
    instance: str = ""
    product: str = ""
    untimed: bool = False
    since_start: bool = False
    remarks: tuple[str, ...] = ()


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What a server's counters say of the device below: ``counters`` by the names of ``COUNTERS``, and in
    ``remarks`` what had to be assumed for that."""

    counters: Mapping[str, float]
    remarks: tuple[str, ...] = ()


Model: TypeAlias = Callable[[Mapping[str, float]], Device]
"""Makes the device's counters of a server's own, as they moved in an interval (or since the server's start)."""


def plain(counters: Mapping[str, float]) -> Device:
    """The model of counters that are the device's already."""
    return Device(counters=counters)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Cumulative counters of one system at one moment; two of them make an interval (``sizing.snapshots``).

    ``time`` is seconds since the epoch, None where the file does not tell; ``uptime`` (s) that of the server.
    ``counters`` are the source's own, each as far as it has it; ``model`` makes the device's of their differences,
    so what an earlier load left in them decides nothing. ``window``: rates that the source itself gives of its
    last few seconds, used where nothing better is there. ``line``: where it begins.
    ``counting_since``: seconds since the epoch at which the counters began (a reset of the statistics); two
    snapshots with different ones cannot be subtracted.
    """

    system: str
    source: str
    file: Path
    counters: Mapping[str, float]
    time: float | None = None
    uptime: float | None = None
    window: Interval | None = None
    trust: Trust = Trust.SERVER
    host: str = ""
    device: str = ""
    product: str = ""
    line: int = 0
    counting_since: float | None = None
    remarks: tuple[str, ...] = ()
    model: Model = plain
    window_remarks: tuple[str, ...] = ()
    """What is to be said where ``window`` is used."""


COUNTERS = (
    "reads", "writes", "read_bytes", "write_bytes", "flushes", "read_seconds", "write_seconds", "transactions",
)  # fmt: skip
"""The names in ``Device.counters``: requests, bytes, seconds that all requests took together, commits."""


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """What one file tells of systems: whole ``series``, or ``snapshots`` that are still to be paired, also with
    those of other files."""

    series: tuple[Series, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    remarks: tuple[str, ...] = ()


def without(rates: Rates, parts: Sequence[Rates]) -> Rates:
    """What is left after the parts are taken off, at least 0. A part that does not tell a rate takes none off."""

    def left(name: str) -> float | None:
        value = getattr(rates, name)
        if value is None:
            return None
        whole = {"requests": "together", "total_bytes": "bytes_together"}
        taken = [getattr(part, whole.get(name, name)) for part in parts]
        return float(max(0.0, value - sum(each or 0.0 for each in taken)))

    return Rates(**{name: left(name) for name in Rates.__struct_fields__})


def implausible(rates: Rates) -> str:
    """Why requests and bytes cannot belong together; empty where they can, or where one is not reported."""
    for way, count, size in (
        ("read", rates.reads, rates.read_bytes), ("write", rates.writes, rates.write_bytes),
    ):  # fmt: skip
        if count and size is not None and not LEAST_REQUEST <= size / count <= MOST_REQUEST:
            return f"{size / count:,.0f} bytes for each {way} request: no request has so many or so few"
    return ""
