"""Dumps of ``/proc/diskstats``, each with a time or the host's uptime before it, as snapshots of each device.

https://docs.kernel.org/admin-guide/iostats.html. What blocklab itself keeps of a run (``counters.before.HOST`` and
``counters.after.HOST``, of ``blocklab.probes.counters``) is such a dump.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from blocklab.formats.clock import Clock, Stamp, resolve, stamp
from blocklab.formats.text import Bad, Refused, Text
from blocklab.imports.device_names import named
from blocklab.probes.disks import SECTOR
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found, Snapshot, Trust

SOURCE = "diskstats"
# ==> /proc/diskstats <==   (tail -v)
_FILE = re.compile(r"==> (?P<path>/\S+) <==\s*$")
# 28.06 4.58   (/proc/uptime)
_UPTIME = re.compile(r"\s*(\d{1,10}\.\d\d) \d{1,12}\.\d\d\s*$")
#   98      16 ubdb 101 0 629 3 1899 0 398990 2682 0 320 2685 0 0 0 0 6 0
# major minor name, reads merged sectors ms, writes merged sectors ms, in flight, ms, weighted ms,
# since Linux 4.18 discards merged sectors ms, since 5.5 flushes ms
_DISK = re.compile(r"\s*\d{1,4}\s+\d{1,7}\s+(?P<name>[A-Za-z]\S*)(?P<fields>(?:\s+\d{1,20}){11,30})\s*$")
# Partitions on Linux 2.6 before 2.6.25: reads, sectors, writes, sectors
_OLD_PARTITION = re.compile(r"\s*\d{1,4}\s+\d{1,7}\s+[A-Za-z]\S*(?:\s+\d{1,20}){4}\s*$")
_TS = re.compile(r"TS (\d{10}(?:\.\d{1,9})?)(?: .*)?")
_LIKE_TIME = re.compile(r"\d{1,2}\D{1,3}\d\d\D{1,3}\d\d")
# zzz ***Mon Nov 23 03:00:14 UTC 2026 (OSWatcher)   === 2026-11-23T03:00:14+0000 ===   # 1795402647
_AROUND = "#=*- \t"
_FLUSHES = 17
_LONGEST = 1000
# The milliseconds of a device are counted in 32 bits.
_WRAP = 2**32 / 1000
_SECONDS = ("read_seconds", "write_seconds")


class _Dump(msgspec.Struct):
    line: int
    time: int | None = None
    uptime: float | None = None
    disks: dict[str, tuple[int, dict[str, float]]] = {}


def fits(head: str) -> bool:
    """Whether this holds lines of ``/proc/diskstats``."""
    return any(_DISK.match(line) for line in head.split("\n") if len(line) < _LONGEST)


class _Reading:
    def __init__(self, text: Text) -> None:
        self.dumps: list[_Dump] = []
        self.stamps: list[Stamp] = []
        self.bad: list[Bad] = []
        # The first line that looks like a time and cannot be read.
        self.unread: Bad | None = None
        # What another program put before the line.
        self._before: Stamp | None = None
        self._section = ""
        self._next = _Dump(1)
        for number, before, line in text.every():
            if line.strip():
                self._before = before
                self._line(number, line[:_LONGEST])

    def _line(self, number: int, line: str) -> None:
        if match := _FILE.match(line):
            self._section = match["path"]
        elif self._section not in ("", "/proc/diskstats", "/proc/uptime"):
            pass
        elif match := _DISK.match(line):
            self._disk(number, match)
        elif match := _UPTIME.match(line):
            self._fresh(number).uptime = float(match[1])
        elif _OLD_PARTITION.match(line):
            pass
        else:
            self._other(number, line)

    def _other(self, number: int, line: str) -> None:
        written = line.strip().removeprefix("zzz ").strip(_AROUND)
        if not written:
            return
        # TS 1711360800.012145298 2024-03-25 10:00:00   (pt-stalk, pt-diskstats --save-samples)
        if match := _TS.fullmatch(written):
            written = match[1]
        at = stamp(written)
        if at is None:
            if _LIKE_TIME.search(written):
                self.unread = self.unread or Bad(number, line[:200])
            self.bad.append(Bad(number, line[:200]))
            return
        self._fresh(number).time = len(self.stamps)
        self.stamps.append(at)

    def _fresh(self, number: int) -> _Dump:
        """The dump that a time or an uptime belongs to: the next one, once devices were read."""
        if self._next.disks:
            self._next = _Dump(number)
        return self._next

    def _disk(self, number: int, match: re.Match[str]) -> None:
        name = named(match["name"])
        if name in self._next.disks:
            self._next = _Dump(number)
        if not self._next.disks:
            self._next.line = number
            self.dumps.append(self._next)
            if self._before is not None and self._next.time is None:
                self._next.time = len(self.stamps)
                self.stamps.append(self._before)
        self._next.disks[name] = (number, _counters([int(each) for each in match["fields"].split()]))


def _counters(fields: list[int]) -> dict[str, float]:
    found = {
        "reads": float(fields[0]), "writes": float(fields[4]),
        "read_bytes": float(fields[2] * SECTOR), "write_bytes": float(fields[6] * SECTOR),
        "read_seconds": fields[3] / 1000, "write_seconds": fields[7] / 1000,
    }  # fmt: skip
    if len(fields) >= _FLUSHES:
        found["flushes"] = float(fields[15])
    return found


def read(text: Text, reading: Reading) -> Found:
    """The counters of each device at each dump. Raises ``Refused`` for a file without a whole line of a device,
    ``StudyError`` for dates that may mean several days."""
    got = _Reading(text)
    if not got.dumps:
        raise Refused("looks like /proc/diskstats, but has no whole line of a device")
    if got.unread is not None and not got.stamps and len(got.dumps) > 1:
        raise Refused(
            f"line {got.unread.line} looks like a time that cannot be read ({got.unread.text[:60]!r}); take it "
            "with LC_ALL=C date, or date +%s"
        )
    remarks = list(text.remarks)
    times: list[float | None] = []
    if got.stamps:
        clock = Clock(tuple(got.stamps))
        times, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
        remarks += said
    wrapped: dict[tuple[str, str], int] = {}
    before: dict[str, Mapping[str, float]] = {}
    snapshots = []
    for dump in got.dumps:
        for device, (line, counters) in dump.disks.items():
            raw = dict(counters)
            _unwrap(device, counters, before.get(device), wrapped)
            before[device] = raw
            snapshots.append(
                Snapshot(
                    system="", device=device, source=SOURCE, file=text.path, counters=counters, trust=Trust.DEVICE,
                    time=times[dump.time] if dump.time is not None else None, uptime=dump.uptime, line=line,
                )
            )  # fmt: skip
    remarks += [f"{device}: its {name} passed 2^32 ms: put right" for device, name in wrapped]
    return Found(
        snapshots=tuple(snapshots),
        bad=tuple(got.bad[:8]),
        lost=len(got.bad),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _unwrap(
    device: str,
    counters: dict[str, float],
    before: Mapping[str, float] | None,
    wrapped: dict[tuple[str, str], int],
) -> None:
    """Makes the milliseconds go on past 2^32, where the other counters did not fall: no restart lies between."""
    for name in _SECONDS:
        fell = before is not None and counters[name] < before[name]
        if fell and before is not None and all(counters[each] >= before[each] for each in ("reads", "writes")):
            # Only a counter near its end can have passed it.
            if before[name] > _WRAP / 2:
                wrapped[device, name] = wrapped.get((device, name), 0) + 1
        elif fell:
            wrapped.pop((device, name), None)
        counters[name] += wrapped.get((device, name), 0) * _WRAP


KINDS: Mapping[str, Kind] = {"diskstats": Kind("/proc/diskstats, several dumps", fits, read, lines=True)}
"""The kinds of this module by name."""
