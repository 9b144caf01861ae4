"""``sar -d`` and ``sar -b`` as series: text of sysstat 9 to 12, of several days, and across restarts.

https://man7.org/linux/man-pages/man1/sar.1.html. ``sar -d`` tells reads and writes apart in bytes only;
``sar -b`` in requests too, for all disks of the host together (not for md or dm, nor for partitions).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from blocklab.imports.clock import Clock, Numbers, Stamp, banner_day, readings, resolve, stamp
from blocklab.imports.text import Bad, Refused, Text, has_commas, points
from blocklab.sizing.devices import SAR_B, SAR_D, named
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.json_documents import can_be, number
from blocklab.sizing.series import Found, Interval, Rates, Series, Trust

KIB, SECTOR = 1024.0, 512.0
MOST_BAD = 8
# What is longer is no row.
_LONGEST = 1000

# Linux 5.4.0-1045-aws (ip-10-0-0-1) 	08/11/2020 	_x86_64_	(2 CPU)
_BANNER = re.compile(r"Linux \S+ \((?P<host>[^)]*)\)\s+(?P<rest>.*)$")
# 06:43:45 PM    dev8-0   6274.00 ...   12:55:19 PM IST      0.00 ...   00시 47분 26초    dev7-0 ...
# 14时33分13秒    dev8-0 ...
_TIMED = re.compile(
    r"\s*(?P<hour>\d{1,2})(?::|[時时시] ?)(?P<minute>\d{1,2})(?::|[分분] ?)(?P<second>\d{1,2})[秒초]?"
    r"(?: (?P<half>[AaPp][Mm]))?(?: (?P<zone>[A-Z]{3,5})(?=\s+[\w.,/-]+\s+\S))?(?P<rest>\s.*)$"
)
# 00:00:01          DEV       tps  rd_sec/s  wr_sec/s ...   12:55:18 PM IST       tps      rtps      wtps ...
_ANY_HEADER = re.compile(
    r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t](?:DEV\s+tps\s|tps\s.*\sDEV\s*$|tps\s+rtps\s+wtps\s)", re.M
)
_DEVICES = re.compile(r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t](?:DEV\s+tps\s|tps\s.*\sDEV\s*$)", re.M)
# 02:57:25        CPU     %user     %nice   %system ...   (sar without -d or -b)
_OTHER = re.compile(r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t](?:CPU\s+%usr?|proc/s\s+cswch/s|pgpgin/s\s)", re.M)
# 116.0k   21.2M   6.8%
_HUMAN = re.compile(r"\d+(?:\.\d+)?[kMGTP%]")


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
    if _DEVICES.search(head):
        return True
    return (
        _BANNER.match(head.partition("\n")[0]) is not None
        and _OTHER.search(head) is not None
        and not _ANY_HEADER.search(head)
    )


def fits_b(head: str) -> bool:
    """Whether this is text of ``sar -b`` without ``-d``."""
    return _ANY_HEADER.search(head) is not None and not _DEVICES.search(head)


class _Row(msgspec.Struct):
    block: int
    kind: str
    device: str
    start: int
    end: int
    values: dict[str, float]
    line: int


class _Text:
    """What was read of a text. A block goes from one banner to the next; its times are those of one kind of
    statistics (``sar -A`` prints a whole day of one kind, then that day of the next)."""

    def __init__(self, text: Text) -> None:
        self.hosts = [""]
        self.days: list[Numbers | None] = [None]
        self.stamps: dict[tuple[int, str], list[Stamp]] = {}
        self.rows: list[_Row] = []
        self.bad: list[Bad] = []
        self.commas = self.human = self.restarts = 0
        self.remarks = list(text.remarks)
        self._kind = ""
        self._names: tuple[str, ...] = ()
        self._last = False
        # Of each kind the report that is being read, and the one before it.
        self._report: dict[str, tuple[int | None, int]] = {}
        for line_number, line in enumerate(text.lines, 1):
            if len(line) > _LONGEST:
                self.bad.append(Bad(line_number, line[:_LONGEST]))
            elif line.strip():
                self._line(line_number, line)
        if text.cut.strip():
            self.bad.append(Bad(len(text.lines) + 1, text.cut[:_LONGEST]))

    def _line(self, line_number: int, line: str) -> None:
        if match := _BANNER.match(line.lstrip()):
            self.hosts.append(match["host"])
            self.days.append(banner_day(match["rest"]))
            self._kind, self._report = "", {}
            return
        timed = _TIMED.match(line)
        at = _stamp(timed) if timed else None
        if timed is None or at is None:
            # Average:   Moyenne :   平均时间:
            if timed is not None or ":" not in line[:24] or re.match(r"\s*\d", line):
                self.bad.append(Bad(line_number, line))
            return
        tokens = timed["rest"].split()
        if tokens[:2] == ["LINUX", "RESTART"]:
            self._report, self._kind = {}, ""
            self.restarts += 1
        elif "tps" in tokens:
            self._header(at, tokens)
        elif tokens and not any(each[:1].isdigit() for each in tokens):
            self._kind = ""
        elif self._kind:
            self._row(line_number, line, at, tokens)

    def _header(self, at: Stamp, tokens: list[str]) -> None:
        self._last = tokens[-1] == "DEV"
        if "DEV" in tokens:
            self._kind = "d"
            self._names = tuple(tokens[:-1] if self._last else tokens[tokens.index("DEV") + 1 :])
        else:
            self._kind = "b" if "rtps" in tokens else ""
            self._names = tuple(tokens[tokens.index("tps") :])
        if self._kind:
            place = self._place(at)
            if self._report.get(self._kind, (None, None))[1] != place:
                self._report[self._kind] = (None, place)

    def _place(self, at: Stamp) -> int:
        stamps = self.stamps.setdefault((len(self.hosts), self._kind), [])
        if not stamps or stamps[-1] != at:
            stamps.append(at)
        return len(stamps) - 1

    def _row(self, line_number: int, line: str, at: Stamp, tokens: list[str]) -> None:
        if "," in line and any(has_commas(each) for each in tokens):
            self.commas = self.commas or line_number
            tokens = [points(each) for each in tokens]
        device = ""
        if self._kind == "d" and tokens:
            device = tokens.pop(-1 if self._last else 0)
        values = [_value(each) for each in tokens]
        known = [each for each in values if each is not None]
        if len(known) != len(self._names) or len(known) < len(values):
            self.human += bool(tokens) and all(
                _HUMAN.fullmatch(each) or number(each) is not None for each in tokens
            )
            self.bad.append(Bad(line_number, line))
            return
        place = self._place(at)
        before, now = self._report.get(self._kind, (None, place))
        if place != now:
            before, now = now, place
        self._report[self._kind] = (before, now)
        if before is not None:
            row = dict(zip(self._names, known, strict=True))
            self.rows.append(_Row(len(self.hosts), self._kind, named(device), before, now, row, line_number))


def _stamp(match: re.Match[str]) -> Stamp | None:
    return stamp(f"{match['hour']}:{match['minute']:>02}:{match['second']:>02} {match['half'] or ''}".strip())


def _value(text: str) -> float | None:
    """sar prints two decimals, or as few as --dec says; more are a thousands separator."""
    return number(text) if len(text.partition(".")[2]) <= 2 else None


def read(text: Text, reading: Reading) -> Found:
    """The series of each device (``-d``), and that of the host (``-b``).

    Raises ``Refused`` for a text without a good row, ``StudyError`` for dates that may mean several days.
    """
    got = _Text(text)
    if not got.rows:
        if got.human:
            raise Refused(
                "its numbers are rounded for humans (sar -h); print it again without -h: sar -d -b -f FILE"
            )
        if not got.stamps:
            raise Refused("sar, but neither -d nor -b; print it again: sar -d -b -f FILE")
        raise Refused("looks like sar -d or -b, but has no complete row after a header")
    if got.commas:
        got.remarks.append(f"line {got.commas}: decimal commas, read as points")
    if got.restarts:
        got.remarks.append(f"restarts of the host: {got.restarts}; no interval is made across one")
    reports = _reports(got, text, reading)
    bad = tuple(got.bad[:MOST_BAD])
    return found(reports, text, got.remarks, bad, len(got.bad))


def _reports(got: _Text, text: Text, reading: Reading) -> list[Report]:
    order = _order(got, reading)
    reports: list[Report] = []
    times: dict[tuple[int, str], list[float | None]] = {}
    for (block, kind), stamps in got.stamps.items():
        clock = Clock(tuple(stamps), got.days[block - 1])
        times[block, kind], said = resolve(clock, str(text.path), zone=reading.zone, order=order, anchors=())
        got.remarks += said
    lost = 0
    for row in got.rows:
        start, end = (times[row.block, row.kind][place] for place in (row.start, row.end))
        if start is None or end is None or end <= start:
            lost += 1
            continue
        reports.append(Report(got.hosts[row.block - 1], row.device, start, end, row.values, row.line))
    if lost:
        got.remarks.append(f"{lost} rows left out: they are not later than the ones before them")
    return reports


def _order(got: _Text, reading: Reading) -> str:
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
            reads=reads, writes=writes, read_bytes=_times(values, ("bread/s", SECTOR)),
            write_bytes=_times(values, ("bwrtn/s", SECTOR)),
        )  # fmt: skip
        return Interval(start=report.start, seconds=seconds, rates=rates, line=report.line)
    read = _times(values, ("rkB/s", KIB), ("rd_sec/s", SECTOR), ("rMB/s", KIB * KIB))
    written = _times(values, ("wkB/s", KIB), ("wr_sec/s", SECTOR), ("wMB/s", KIB * KIB))
    tps = values.get("tps")
    # One wait for all requests: it is of those of which there were any.
    wait = values["await"] / 1000 if tps and values.get("await") and not values.get("dkB/s") else None
    return Interval(
        start=report.start, seconds=seconds, line=report.line,
        rates=Rates(read_bytes=read, write_bytes=written, requests=tps),
        read_latency=wait if read and written == 0 else None,
        write_latency=wait if written and read == 0 else None,
    )  # fmt: skip


def _times(values: Mapping[str, float], *columns: tuple[str, float]) -> float | None:
    """The first column that is there, in bytes."""
    for name, factor in columns:
        if name in values:
            return can_be(values[name] * factor)
    return None


KINDS: Mapping[str, Kind] = {
    "sar-d": Kind("sar -d", fits_d, read),
    "sar-b": Kind("sar -b", fits_b, read),
}
"""The kinds of this module by name; those of ``sadf`` are in ``blocklab.sizing.readers.sadf``."""
