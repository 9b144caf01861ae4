"""Which of iostat's reports count: the first one of a run is an average since the boot, unless it was ``-y``."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from blocklab.imports.clock import DAY, Stamp

First = Literal["", "boot", "interval"]
"""What the first report of a run is; empty where nothing tells."""
INTERVAL, BOOT = "interval", "boot"
ONLY = "its only report is taken for an interval (iostat -y); without -y it counts from the boot on"
SHOWN = "its first report is of an interval (iostat -y): {why}"


class Words(msgspec.Struct, frozen=True):
    """What is said of the first report of a tool: it is left out and that is sure, or not; it counts."""

    boot: str
    unsure: str
    said: str
    shown: str


IOSTAT = Words(
    "its first report counts from the boot on (without iostat -y): left out",
    "its first report counts from the boot on (without iostat -y): left out; if it was iostat -y: "
    "--first-report interval",
    "its first report is taken for an interval, as --first-report says", SHOWN,
)  # fmt: skip
VMSTAT = Words(
    "its first row counts from the boot on: left out",
    "its first row counts from the boot on: left out; if it was vmstat -y: --first-report interval",
    "its first row is taken for an interval, as --first-report says",
    "its first row is of an interval (vmstat -y): {why}",
)  # fmt: skip

_MOVED = re.compile(r"(?:kB|MB|Blk)_(?:read|wrtn)/s")
# A counter in whole kB and a rate with two decimals tell a length this well.
_SURE = 0.2


class Row(msgspec.Struct, frozen=True):
    """A row of a first report."""

    place: int
    layer: str
    names: tuple[str, ...]
    numbers: Sequence[float]


class Run(msgspec.Struct):
    """One run of iostat: from its banner on. ``banner`` is the time before it, ``rows`` those of the reports that
    came first, of devices and of CPUs."""

    banner: Stamp | None = None
    rows: list[Row] = []
    more: bool = False


def first(run: Run, stamps: Sequence[Stamp], said: str, words: Words = IOSTAT) -> tuple[First, str]:
    """What the first report of a run is, and what shows it. ``said``: what the user says of it."""
    if said == INTERVAL:
        return "interval", words.said
    if said == BOOT:
        return "boot", words.boot
    usual = _usual(stamps)
    if usual is None or not run.rows:
        return "", words.unsure
    lengths = list(_lengths(run.rows))
    if lengths:
        middle = statistics.median(lengths)
        if abs(middle - usual) <= _SURE * usual + 1:
            return "interval", words.shown.format(why="its totals and rates tell how long it is")
        return "boot", words.boot
    if run.banner is not None:
        waited = _seconds(run.banner, stamps[run.rows[0].place])
        if waited >= usual / 2:
            return "interval", words.shown.format(why=f"it came {waited:.0f} s after the header")
        return "boot", words.boot
    return "", words.unsure


def _usual(stamps: Sequence[Stamp]) -> float | None:
    steps = [_seconds(one, other) for one, other in pairwise(stamps)]
    return statistics.median(steps) if steps else None


def _seconds(one: Stamp, other: Stamp) -> float:
    """From one time to a later one, within a day."""
    return other.seconds - one.seconds if other.seconds >= one.seconds else (other.seconds - one.seconds) % DAY


def _lengths(rows: Sequence[Row]) -> Iterator[float]:
    """How many seconds a report covers: what was moved in all (without -x), over what was moved a second."""
    for row in rows:
        values = dict(zip(row.names, row.numbers, strict=True))
        for name, rate in values.items():
            total = values.get(name.removesuffix("/s"))
            # Rounded to two decimals and to whole kB.
            if _MOVED.fullmatch(name) and total and rate >= 0.5 and total >= 10:
                yield total / rate
