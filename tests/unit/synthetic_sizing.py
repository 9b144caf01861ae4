"""Statistics for the tests of sizing: systems with known rates, and files of dumps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blocklab.sizing.curve import curve_of
from blocklab.sizing.series import Interval, Rates, Trust
from blocklab.sizing.system import Source, System

# A Monday.
MIDNIGHT = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
HOUR = 3600.0


def interval(start: float, seconds: float, iops: float, **more: Any) -> Interval:
    """Half of the requests are reads of 8 KiB, half are writes of 16 KiB."""
    rates = Rates(reads=iops / 2, writes=iops / 2, read_bytes=iops / 2 * 8192, write_bytes=iops / 2 * 16384)
    return Interval(start=start, seconds=seconds, rates=rates, **more)


def hourly(name: str, iops: Sequence[float], **more: object) -> System:
    """A system with the mean of each hour from midnight on."""
    return system(name, [interval(MIDNIGHT + HOUR * at, HOUR, value) for at, value in enumerate(iops)], **more)


def system(name: str, intervals: Sequence[Interval], **more: object) -> System:
    source = Source(name="test", trust=Trust.SERVER, main=True, files=(Path(name),))
    return System(name=name, product="", curve=curve_of(intervals), sources=(source,), **more)  # type: ignore[arg-type]


# Of `/proc/diskstats`: sectors and milliseconds.
STATS = " 254       0 vda {reads} 0 {sectors} {ms} {writes} 0 {sectors} {ms} 0 0 0 0 0 0 0 {flushes} 0\n"


def dump(at: int, reads: int, writes: int = 0) -> str:
    """One dump of /proc/diskstats, with the time before it."""
    return f"{at}\n" + STATS.format(reads=reads, writes=writes, sectors=reads * 16, ms=reads, flushes=writes)


def stats(path: Path, *dumps: tuple[int, int]) -> Path:
    """A file of dumps: (seconds since the epoch, reads so far)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(dump(at, reads) for at, reads in dumps))
    return path
