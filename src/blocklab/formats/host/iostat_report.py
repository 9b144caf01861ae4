"""Which of iostat's reports count: the first one of a run is an average since the boot, unless it was ``-y``."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from blocklab.formats.clock import DAY, Stamp

First = Literal["", "boot", "interval"]
"""What the first report of a run is; empty where nothing tells."""
INTERVAL, BOOT = "interval", "boot"
ONLY = "its only report is taken for an interval (iostat -y); without -y it counts from the boot on"
IOSTAT, VMSTAT = "iostat", "vmstat"
"""The tools whose option -y makes the first report one of an interval."""

_MOVED = re.compile(r"(?:kB|MB|Blk)_(?:read|wrtn)/s")
# A counter in whole kB and a rate with two decimals tell a length this well.
_SURE = 0.2


class DeviceRow(msgspec.Struct, frozen=True):
    """A row of a first report."""

    place: int
    layer: str
    names: tuple[str, ...]
    numbers: Sequence[float]


class Run(msgspec.Struct):
    """One run of iostat: from its banner on. ``banner`` is the time before it, ``rows`` those of the reports that
    came first, of devices and of CPUs."""

    banner: Stamp | None = None
    rows: list[DeviceRow] = []
    more: bool = False


def first(run: Run, stamps: Sequence[Stamp], said: str, tool: str = IOSTAT) -> tuple[First, str]:
    """What the first report of a run is, and what shows it. ``said``: what the user says of it; ``tool``: whose
    report it is."""
    boot = f"its first report counts from the boot on (without {tool} -y): left out"
    if said == INTERVAL:
        return "interval", "its first report is taken for an interval, as --first-report says"
    if said == BOOT:
        return "boot", boot
    unsure = (
        f"its first report counts from the boot on (without {tool} -y): left out; with {tool} -y say "
        "--first-report interval"
    )
    usual = _usual(stamps)
    if usual is None or not run.rows:
        return "", unsure
    lengths = list(_lengths(run.rows))
    if lengths:
        if abs(statistics.median(lengths) - usual) <= _SURE * usual + 1:
            return "interval", f"its first report is of an interval ({tool} -y), as its totals and rates tell"
        return "boot", boot
    if run.banner is not None:
        waited = _seconds(run.banner, stamps[run.rows[0].place])
        if waited >= usual / 2:
            told = f"its first report is of an interval ({tool} -y): it came {waited:.0f} s after the header"
            return "interval", told
        return "boot", boot
    return "", unsure


def _usual(stamps: Sequence[Stamp]) -> float | None:
    steps = [_seconds(one, other) for one, other in pairwise(stamps)]
    return statistics.median(steps) if steps else None


def _seconds(one: Stamp, other: Stamp) -> float:
    """From one time to a later one, within a day."""
    return other.seconds - one.seconds if other.seconds >= one.seconds else (other.seconds - one.seconds) % DAY


def _lengths(rows: Sequence[DeviceRow]) -> Iterator[float]:
    """How many seconds a report covers: what was moved in all (without -x), over what was moved a second."""
    for row in rows:
        values = dict(zip(row.names, row.numbers, strict=True))
        for name, rate in values.items():
            total = values.get(name.removesuffix("/s"))
            # Rounded to two decimals and to whole kB.
            if _MOVED.fullmatch(name) and total and rate >= 0.5 and total >= 10:
                yield total / rate
