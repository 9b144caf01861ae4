"""Dumps of ``/proc/diskstats``, each with a time or the host's uptime before it, as snapshots of each device.

https://docs.kernel.org/admin-guide/iostats.html. What blocklab itself keeps of a run (``counters.before.HOST`` and
``counters.after.HOST``, of ``blocklab.probes.counters``) is such a dump.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Dump, Found, found_in
from blocklab.formats.host.device_names import named
from blocklab.formats.host.proc import DISK, DISKSTATS, SECTOR, UPTIME, Field, numbers, uptime
from blocklab.formats.text import Bad, Refused, Text

UNITS = {
    "reads": "1", "writes": "1", "read_bytes": "B", "write_bytes": "B", "read_seconds": "s", "write_seconds": "s",
    "flushes": "1",
}  # fmt: skip
"""What is counted of each device."""
# ==> /proc/diskstats <==   (tail -v)
_FILE = re.compile(r"==> (?P<path>/\S+) <==\s*$")
# Partitions on Linux 2.6 before 2.6.25: reads, sectors, writes, sectors
_OLD_PARTITION = re.compile(r"\s*\d{1,4}\s+\d{1,7}\s+[A-Za-z]\S*(?:\s+\d{1,20}){4}\s*$")
_TS = re.compile(r"TS (\d{10}(?:\.\d{1,9})?)(?: .*)?")
_LIKE_TIME = re.compile(r"\d{1,2}\D{1,3}\d\d\D{1,3}\d\d")
# zzz ***Mon Nov 23 03:00:14 UTC 2026 (OSWatcher)   === 2026-11-23T03:00:14+0000 ===   # 1795402647
_AROUND = "#=*- \t"
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
    return any(DISK.match(line) for line in head.split("\n") if len(line) < _LONGEST)


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
        elif self._section not in ("", DISKSTATS, UPTIME):
            pass
        elif match := DISK.match(line):
            self._disk(number, match)
        elif (seconds := uptime(line)) is not None:
            self._fresh(number).uptime = seconds
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
        self._next.disks[name] = (number, _counters(numbers(match)))


def _counters(fields: list[int]) -> dict[str, float]:
    found = {
        "reads": float(fields[Field.READS]), "writes": float(fields[Field.WRITES]),
        "read_bytes": float(fields[Field.READ_SECTORS] * SECTOR),
        "write_bytes": float(fields[Field.WRITE_SECTORS] * SECTOR),
        "read_seconds": fields[Field.READ_TIME] / 1000, "write_seconds": fields[Field.WRITE_TIME] / 1000,
    }  # fmt: skip
    if len(fields) > Field.FLUSH_TIME:
        found["flushes"] = float(fields[Field.FLUSHES])
    return found


def read(text: Text) -> Found:
    """The counters of each device at each dump. Raises ``Refused`` for a file without a whole line of a device."""
    got = _Reading(text)
    if not got.dumps:
        raise Refused("looks like /proc/diskstats, but has no whole line of a device")
    if got.unread is not None and not got.stamps and len(got.dumps) > 1:
        raise Refused(
            f"line {got.unread.line} looks like a time that cannot be read ({got.unread.text[:60]!r}); take it "
            "with LC_ALL=C date, or date +%s"
        )
    wrapped: dict[tuple[str, str], int] = {}
    before: dict[str, Mapping[str, float]] = {}
    dumps = []
    for dump in got.dumps:
        for device, (line, counters) in dump.disks.items():
            raw = dict(counters)
            _unwrap(device, counters, before.get(device), wrapped)
            before[device] = raw
            dumps.append(
                Dump(
                    counters=counters, units=UNITS, time=dump.time, uptime=dump.uptime, device=device, line=line,
                )
            )  # fmt: skip
    remarks = [f"{device}: its {name} passed 2^32 ms: put right" for device, name in wrapped]
    return found_in(
        text, "diskstats", bad=got.bad, remarks=remarks, cut_read=True, rows=len(dumps), dumps=tuple(dumps),
        clock=Clock(tuple(got.stamps)) if got.stamps else None,
    )  # fmt: skip


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
