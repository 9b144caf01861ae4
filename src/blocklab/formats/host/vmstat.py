"""vmstat's table (procps): CPUs and block I/O of a host, with times (``-t``) and without, also ``-w``, ``-a``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host import cpu
from blocklab.formats.host.columns import Collector, Columns, used
from blocklab.formats.host.iostat_report import VMSTAT, DeviceRow, Run, first
from blocklab.formats.host.sar import ALL
from blocklab.formats.text import Bad, Refused, Text
from blocklab.model.watched import Values

# procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
#  r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 PDT
#  2  0      0 2794716 295968 312724    0    0     1     3   29   57  0  0 99  0  0 2021-09-16 20:33:13
#  r  b   swpd   free  inact active   si   so    bi    bo   in   cs us sy id wa st gu            (-a, 4.0)
_HEADER = re.compile(
    r"^[ \t]*(?P<names>r\s+b\s+swpd\s+free\s+\S+\s+\S+\s+si\s+so\s+bi\s+bo\s+in\s+cs"
    r"\s+us\s+sy\s+id(?:\s+(?:wa|st|gu))*)"
    r"(?P<zone>\s+[A-Z]{2,5}|\s+[+-]\d\d)?[ \t]*$",
    re.MULTILINE,
)
_TITLES = re.compile(r"^[ \t]*-*procs-*\s+-*memory-*")
_ROW = re.compile(r"\s*(?P<values>\d+(?:\s+\d+){14,17})(?P<time>\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?\s*")
# bi and bo are in KiB, whatever -S says.
_BLOCK = 1024.0
_LONGEST = 1000
_SHARES = ("us", "sy", "id", "wa", "st", "gu")


def fits(head: str) -> bool:
    """Whether this is vmstat's table."""
    return _HEADER.search(head) is not None


class _Reading:
    """What was read so far of a table."""

    def __init__(self, text: Text) -> None:
        self.zone = ""
        self.stamps: list[Stamp] = []
        self.collector = Collector()
        self.bad: list[Bad] = []
        # The row that may count from the boot on, and the time before the header.
        self.first: DeviceRow | None = None
        self.header: Stamp | None = None
        self.prefixed = False
        self._names: tuple[str, ...] = ()
        for number, before, line in text.every():
            if match := _HEADER.match(line):
                self._names, self.zone = tuple(match["names"].split()), (match["zone"] or "").strip()
                self.header = self.header or before
            elif line.strip() and not _TITLES.match(line):
                self._row(number, before, line)

    def _row(self, number: int, before: Stamp | None, line: str) -> None:
        row = _ROW.fullmatch(line) if len(line) < _LONGEST else None
        numbers = [float(each) for each in row["values"].split()] if row else []
        timed = stamp(f"{row['time'].strip()} {_offset(self.zone)}") if row and row["time"] else None
        whole = row is not None and len(numbers) == len(self._names) and bool(row["time"]) == bool(self.zone)
        shares = [value for name, value in zip(self._names, numbers, strict=False) if name in _SHARES]
        if not whole or (self.zone and timed is None) or not cpu.is_whole(shares):
            self.bad.append(Bad(number, line[:_LONGEST]))
            return
        self.prefixed = self.prefixed or (timed is None and before is not None)
        self.stamps.append(timed or before or Stamp((), float(len(self.stamps)), offset=0.0))
        found = DeviceRow(len(self.stamps) - 1, ALL, self._names, numbers)
        if self.first is None:
            self.first = found
        else:
            self.take(found)

    def take(self, row: DeviceRow) -> None:
        """A row that counts."""
        self.collector.add(ALL, row.place, row.names, row.numbers, _moved)
        self.collector.add(cpu.CPU, row.place, row.names, row.numbers, cpu.shares_of)


def read(text: Text) -> Found:
    """The series of the CPUs, and of all disks together. Raises ``Refused``."""
    got = _Reading(text)
    remarks = []
    untimed = not got.zone and not got.prefixed
    if got.first is not None:
        run = Run(banner=None if got.zone else got.header, rows=[got.first])
        kind, said = first(run, [] if untimed else got.stamps, text.first_report, VMSTAT)
        remarks.append(said)
        if kind == "interval":
            got.take(got.first)
    watched = got.collector.watched()
    if not watched:
        besides = " but its first, which counts from the boot on" if got.first else ""
        raise Refused(f"looks like vmstat, but has no complete row{besides}")
    watched, stamps = used(watched, got.stamps)
    if untimed:
        stamps = got.stamps[: len(stamps)]
        remarks.append("it has no times (vmstat -t): its rows are put one second apart, on 1970-01-01")
    elif got.zone and not _offset(got.zone):
        remarks.append(f"its times are of the zone {got.zone}, which may mean several: --zone tells which")
    table = Table(watched=watched, clock=Clock(tuple(stamps), jitter=got.prefixed), untimed=untimed)
    return found_in(
        text, "vmstat", bad=got.bad, remarks=remarks, cut_read=True, rows=len(watched[0].times), tables=(table,)
    )


def _offset(zone: str) -> str:
    """The zone as ``clock.stamp`` knows it; empty for a name that may mean several."""
    return "UTC" if zone in ("UTC", "GMT") else f"{zone}00" if zone[:1] in ("+", "-") and zone else ""


def _moved(row: Columns) -> Iterator[tuple[str, Values, str]]:
    for way, name in (("read", "bi"), ("write", "bo")):
        yield f"disk.{way}.bandwidth", row[name] * _BLOCK, "B/s"
