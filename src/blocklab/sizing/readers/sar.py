"""``sar -d`` and ``sar -b`` as series: text of sysstat 9 to 12, of several days, and across restarts.

https://man7.org/linux/man-pages/man1/sar.1.html. ``sar -d`` tells reads and writes apart in bytes only;
``sar -b`` in requests too, for all disks of the host together (not for md or dm, nor for partitions).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from blocklab.imports.clock import Clock, Stamp, readings, resolve
from blocklab.imports.sar import BANNER, DEVICES, DISKS, KIB, SECTOR, Rows, in_bytes
from blocklab.imports.text import Bad, Refused, Text
from blocklab.sizing.devices import SAR_B, SAR_D
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found, Interval, Rates, Series, Trust

MOST_BAD = 8
# 02:57:25        CPU     %user     %nice   %system ...   (sar without -d or -b)
_OTHER = re.compile(r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t](?:CPU\s+%usr?|proc/s\s+cswch/s|pgpgin/s\s)", re.M)


class Report(msgspec.Struct, frozen=True):
    """One row. ``start`` and ``end`` are seconds since the epoch, ``values`` by sar's names of columns; ``device``
    is empty for ``sar -b``."""

    host: str
    device: str
    start: float
    end: float
    values: Mapping[str, float]
    line: int


def fits_d(head: str) -> bool:
    """Whether this is text of ``sar -d``, perhaps with ``-b`` too, or of ``sar`` without either."""
    if DEVICES.search(head):
        return True
    return (
        BANNER.match(head.partition("\n")[0]) is not None
        and _OTHER.search(head) is not None
        and not DISKS.search(head)
    )


def fits_b(head: str) -> bool:
    """Whether this is text of ``sar -b`` without ``-d``."""
    return DISKS.search(head) is not None and not DEVICES.search(head)


def read(text: Text, reading: Reading) -> Found:
    """The series of each device (``-d``), and that of the host (``-b``).

    Raises ``Refused`` for a text without a good row, ``StudyError`` for dates that may mean several days.
    """
    got = Rows(text)
    got.check("db")
    remarks = [*text.remarks, *got.remarks()]
    bad = [*got.bad, *([Bad(len(text.lines) + 1, text.cut)] if text.cut.strip() else ())]
    return found(_reports(got, text, reading, remarks), text, remarks, tuple(bad[:MOST_BAD]), len(bad))


def _reports(got: Rows, text: Text, reading: Reading, remarks: list[str]) -> list[Report]:
    order = _order(got, reading)
    reports: list[Report] = []
    times: dict[tuple[int, str], list[float | None]] = {}
    for (block, kind), stamps in got.stamps.items():
        clock = Clock(tuple(stamps), got.days[block - 1])
        times[block, kind], said = resolve(clock, str(text.path), zone=reading.zone, order=order, anchors=())
        remarks += said
    lost = 0
    for row in got.rows:
        if row.kind == "u":
            continue
        start, end = (times[row.block, row.kind][place] for place in (row.start, row.end))
        if start is None or end is None or end <= start:
            lost += 1
            continue
        reports.append(Report(got.hosts[row.block - 1], row.device, start, end, row.values, row.line))
    if lost:
        remarks.append(f"{lost} rows left out: they are not later than the ones before them")
    return reports


def _order(got: Rows, reading: Reading) -> str:
    """The order of day and month in which the dates of all banners follow each other, where there is just one."""
    days = tuple(Stamp(day, 0.0, day[0] > 31) for day in got.days if day is not None)
    if reading.order or len(set(days)) < 2:
        return reading.order
    possible = readings(Clock(days), "", 1970)
    return next(iter(possible)) if len(possible) == 1 else ""


def found(reports: Sequence[Report], text: Text, remarks: list[str], bad: tuple[Bad, ...], lost: int) -> Found:
    """Reports as the series of each host and device. Raises ``Refused`` where nothing is left."""
    by: dict[tuple[str, str], dict[float, Interval]] = {}
    twice: Counter[str] = Counter()
    discards = False
    for each in reports:
        place = by.setdefault((each.host, each.device), {})
        interval = _interval(each)
        if interval.end in place:
            twice[each.device or SAR_B] += 1
        else:
            place[interval.end] = interval
        discards = discards or bool(each.device and each.values.get("dkB/s"))
    if not by:
        raise Refused("no interval: its times do not go on, or it has one report only")
    remarks += [
        f"{name}: {count} reports of a time that was there before: left out" for name, count in twice.items()
    ]
    if discards:
        remarks.append("its requests (tps) count discards (TRIM) too: sar -d does not tell those apart")
    series = tuple(
        Series(
            system=host, host=host, device=device, source=SAR_D if device else SAR_B, trust=Trust.DEVICE,
            files=(text.path,), intervals=tuple(of[end] for end in sorted(of)),
        )
        for (host, device), of in by.items()
    )  # fmt: skip
    return Found(series=series, bad=bad, lost=lost, remarks=tuple(dict.fromkeys(remarks)))


def _interval(report: Report) -> Interval:
    values, seconds = report.values, report.end - report.start
    if not report.device:
        reads, writes = values.get("rtps"), values.get("wtps")
        rates = Rates(
            reads=reads, writes=writes, read_bytes=in_bytes(values, ("bread/s", SECTOR)),
            write_bytes=in_bytes(values, ("bwrtn/s", SECTOR)),
        )  # fmt: skip
        return Interval(start=report.start, seconds=seconds, rates=rates, line=report.line)
    read = in_bytes(values, ("rkB/s", KIB), ("rd_sec/s", SECTOR), ("rMB/s", KIB * KIB))
    written = in_bytes(values, ("wkB/s", KIB), ("wr_sec/s", SECTOR), ("wMB/s", KIB * KIB))
    tps = values.get("tps")
    # One wait for all requests: it is of those of which there were any.
    wait = values["await"] / 1000 if tps and values.get("await") and not values.get("dkB/s") else None
    return Interval(
        start=report.start, seconds=seconds, line=report.line,
        rates=Rates(read_bytes=read, write_bytes=written, requests=tps),
        read_latency=wait if read and written == 0 else None,
        write_latency=wait if written and read == 0 else None,
    )  # fmt: skip


KINDS: Mapping[str, Kind] = {
    "sar-d": Kind("sar -d", fits_d, read),
    "sar-b": Kind("sar -b", fits_b, read),
}
"""The kinds of this module by name; those of ``sadf`` are in ``blocklab.sizing.readers.sadf``."""
