"""iostat, with and without ``-x``, ``-d`` and ``-c``: text with or without times, of any sysstat, also with a time
put before each line; and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blocklab.errors import ParseError
from blocklab.imports import cpu, sadf
from blocklab.imports.clock import Clock, Numbers, Stamp, banner_day, stamp
from blocklab.imports.cpu import is_whole
from blocklab.imports.found import Found, found_in
from blocklab.imports.iostat_columns import BY_COUNT, in_kilobytes, rates
from blocklab.imports.text import Bad, Refused, Text, has_commas, points
from blocklab.model import outside
from blocklab.model.sample import Sample

# Linux 5.4.0-1045-aws (ip-10-0-0-1) 	08/11/2020 	_x86_64_	(2 CPU)
_BANNER = re.compile(r"Linux \S+ \((?P<host>[^)]*)\)\s+(?P<rest>.*)$")
# Device            r/s     w/s     rkB/s ...     Device:         rrqm/s   wrqm/s ...
# Device:            tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn
_HEADER = re.compile(r"(?P<before>.*?)\bDevice:?\s+(?P<names>\S+/s\s.*%util|tps\s+\S+/s.*?)\s*$")
# 20/08/11 00:29:55 xvdd   0.05    0.00 ...   (by awk)      nvme0n1p1    0.00   0.05
_ROW = re.compile(
    r"(?P<before>.*?)(?P<device>[A-Za-z]\S{0,127})\s+(?P<numbers>-?\d+[.,]\d+(?:\s+-?\d+[.,]\d+){9,21})\s*$",
    re.ASCII,
)
# sda               0.24         5.28         1.10     203305      42368      (without -x)
_PLAIN_ROW = re.compile(
    r"(?P<before>.*?)(?P<device>[A-Za-z]\S{0,127})\s+(?P<numbers>\d+[.,]\d+(?:\s+\d+[.,]\d+){1,6}(?:\s+\d+){0,3})\s*$",
    re.ASCII,
)
# avg-cpu:  %user   %nice %system %iowait  %steal   %idle
#            0.25    0.00    0.26    2.03    0.00   97.46
_CPU = re.compile(r"avg-cpu:\s+(?P<names>%user\s.*%idle)")
_CPU_ROW = re.compile(r"(?P<before>.*?)(?<![\d.,])(?P<numbers>\d+[.,]\d+(?:\s+\d+[.,]\d+){5})\s*", re.ASCII)

# Heure : 10:00:00   what looks like a time, in whatever language
_LIKE_TIME = re.compile(r"(?<![\d.])\d{1,2}(?:[^\d.,]{1,3}\d\d[^\d.,]{1,3}|\.\d\d\.)\d\d(?![\d.])")
# What is longer is no row; it would take long to see that.
_LONGEST = 1000
# {"sysstat": {"hosts": [{"nodename": "db1", ... "statistics": [{"timestamp": ..., "disk": [...]}, {...
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
# ... ]}]}}   of an iostat that came to its end
_CLOSED = re.compile(r"\]\s*\}\s*\]\s*\}\s*\}\s*$")
_GAP = re.compile(r"[\s,]*")
_SINCE_BOOT = "its first report counts from the boot on (without iostat -y): left out"
_ONLY = "its only report is taken for an interval (iostat -y); without -y it counts from the boot on"
# By how many kB each counts.
_UNITS = {0.5: "sectors/s", 1.0: "kB/s", 1024.0: "MB/s"}


def _untimed(unread: str) -> str:
    """What is said of reports without times; ``unread`` is the first one that is not known as one."""
    why = f"its times cannot be read ({unread})" if unread else "it has no times (iostat -t)"
    return f"{why}: its reports are put one second apart, on 1970-01-01"


def _cpu_row(line: str) -> re.Match[str] | None:
    """The row under avg-cpu; one of a device that was cut has its name before the numbers."""
    match = _CPU_ROW.fullmatch(line)
    return match if match and (not match["before"].strip() or stamp(match["before"]) is not None) else None


def _values(numbers: str) -> list[float]:
    """The numbers of a row; nothing where one is negative, or was cut: all but counts have as many decimals."""
    parts = numbers.split()
    decimals = {len(part.partition(".")[2]) for part in parts if "." in part}
    return [] if "-" in numbers or len(decimals) > 1 else [float(part) for part in parts]


def _fit(numbers: str, names: Sequence[str]) -> bool:
    """Without -x: whether the rates, and only they, have decimals."""
    rates = [name == "tps" or name.endswith("/s") for name in names]
    return "%util" in names or ["." in part for part in numbers.split()] == rates


def _device_row(line: str) -> re.Match[str] | None:
    return _ROW.match(line) or _PLAIN_ROW.match(line)


def fits(head: str) -> bool:
    """Whether this is iostat's text: a header of its own, or rows with as many columns as some version has."""
    lines = [line for line in head.split("\n")[:-1] or [head] if len(line) < _LONGEST]
    if any(_HEADER.match(line) or _CPU.search(line) for line in lines):
        # Rounded for humans (-h), and told from other tools all the same.
        return True
    rows = [match for line in lines[:200] if (match := _ROW.match(line))]
    known = [match for match in rows if len(match["numbers"].split()) in BY_COUNT]
    return len(known) >= max(1, len([line for line in lines[:200] if line.strip()]) // 2)


def fits_json(head: str) -> bool:
    """Whether this is the JSON of ``iostat -o JSON``, and not that of ``sadf -j``."""
    return '"sysstat"' in head and '"statistics"' in head and not sadf.fits_json(head)


class _Reading:
    """What was read so far of a text; ``boot``: with the reports that come first after a banner."""

    def __init__(self, text: Text, *, boot: bool = False) -> None:
        self.host = ""
        self.day: Numbers | None = None
        self.names: tuple[str, ...] = ()
        # Of each row: the time's place, the device, its columns.
        self.rows: list[tuple[int, str, tuple[str, ...], list[float]]] = []
        # Of each report: the time's place, the CPUs' shares by name.
        self.cpus: list[tuple[int, dict[str, float]]] = []
        self.stamps: list[Stamp] = []
        self.untimed = False
        self.bad: list[Bad] = []
        self.commas = 0
        self._cpu_names: tuple[str, ...] = ()
        self._boot = False
        # The headers still to come since the banner, and those that came.
        self._first: set[str] = set()
        self._headers: set[str] = set()
        # One that is damaged is a header, too: without it nobody knows the columns.
        self._headed = any(re.search(r"\bDevice:?\s", line) for line in text.lines)
        self._all = boot
        self._seen: set[str] = set()
        self.since_boot = 0
        self._from_boot: set[str] = set()
        # Whether there is more than the first report.
        self.more = False
        for number, line in enumerate(text.lines, 1):
            if len(line) > _LONGEST:
                self.bad.append(Bad(number, line[:_LONGEST]))
            else:
                self._line(number, line)

    def _line(self, number: int, line: str) -> None:
        shares = _cpu_row(line)
        if has_commas(line) and (shares or _device_row(line)):
            self.commas = self.commas or number
            line = points(line)
            shares = _cpu_row(line)
        if not line.strip():
            return
        if match := _CPU.search(line):
            self._cpu_names = tuple(match["names"].split())
            self._header("cpu")
        elif shares:
            self._cpu(number, line, shares)
        elif match := _BANNER.search(line):
            self.host, self.day = match["host"], banner_day(match["rest"])
            self._first, self._headers = {"cpu", "device"}, set()
            self._from_boot.clear()
        elif match := _HEADER.match(line):
            self.names = tuple(match["names"].split())
            self._header("device")
        elif match := _device_row(line):
            self._row(number, line, match)
        elif (found := stamp(line)) is not None:
            self.stamps.append(found)
        else:
            self.bad.append(Bad(number, line))

    def _header(self, what: str) -> None:
        # The first report after the banner counts from the boot on.
        self.more = self.more or what in self._headers
        self._boot = what in self._first
        self._first.discard(what)
        self._headers.add(what)

    def _cpu(self, number: int, line: str, match: re.Match[str]) -> None:
        values = _values(match["numbers"])
        if self._cpu_names and (len(values) != len(self._cpu_names) or not is_whole(values)):
            self.bad.append(Bad(number, line))
        elif self._cpu_names and self._counts(""):
            self._begin(stamp(match["before"]), "")
            self.cpus.append((len(self.stamps) - 1, dict(zip(self._cpu_names, values, strict=True))))

    def _row(self, number: int, line: str, match: re.Match[str]) -> None:
        values = _values(match["numbers"])
        known = len(values) in BY_COUNT and not self._headed
        names = self.names or (BY_COUNT[len(values)][1] if known else ())
        before = match["before"].strip()
        own = stamp(before) if before else None
        if len(values) != len(names) or (before and own is None) or not _fit(match["numbers"], names):
            self.bad.append(Bad(number, line))
        elif self._counts(match["device"]):
            self._begin(own, match["device"])
            self.rows.append((len(self.stamps) - 1, match["device"], names, values))

    def _counts(self, name: str) -> bool:
        """Whether a row counts: not one from the boot on."""
        self.since_boot += self._boot
        if self._boot:
            self.more = self.more or name in self._from_boot
            self._from_boot.add(name)
        return self._all or not self._boot

    def _begin(self, own: Stamp | None, name: str) -> None:
        """The report that a row belongs to."""
        if own is not None:
            if not self.stamps or self.stamps[-1] != own:
                self.stamps.append(own)
        elif not self.stamps or (self.untimed and name in self._seen):
            # No times at all: a device that comes again begins the next report.
            self.untimed = True
            self.stamps.append(Stamp((), float(len(self.stamps)), offset=0.0))
            self._seen.clear()
        self._seen.add(name)


def read(text: Text) -> Found:
    """The series of each device. Raises ``Refused`` for a text without a good row."""
    got = _Reading(text)
    only = bool(got.since_boot and not got.rows and not got.cpus and not (got.bad or got.more or text.cut))
    if only:
        got = _Reading(text, boot=True)
    if not got.rows and not got.cpus:
        raise Refused("looks like iostat, but has no complete row (-h rounds for humans: print it without)")
    remarks: list[str] = []
    factor = 1.0
    if got.rows and not got.names:
        factor = _without_header(got, remarks)
    if got.since_boot:
        remarks.append(_ONLY if only else _SINCE_BOOT)
    if got.commas:
        remarks.append(f"line {got.commas}: decimal commas, read as points")
    if got.untimed:
        odd = next((bad for bad in got.bad if _LIKE_TIME.search(bad.text)), None)
        remarks.append(_untimed(f"line {odd.line}: {odd.text[:40]!r}" if odd else ""))
    samples = tuple(_samples(got, factor))
    return found_in(
        text, "iostat", bad=got.bad, remarks=remarks, rows=len(got.rows) or len(got.cpus), host=got.host,
        samples=samples, clock=Clock(tuple(got.stamps), got.day), untimed=got.untimed,
    )  # fmt: skip


def _without_header(got: _Reading, remarks: list[str]) -> float:
    names = got.rows[0][2]
    version = BY_COUNT[len(names)][0]
    factor = in_kilobytes(names, [values for _, _, each, values in got.rows if each == names])
    unit = _UNITS[factor or 1.0]
    why = ", by the sizes of the requests" if factor else " (nothing moved, so it makes no difference)"
    remarks.append(f"it has no header: {len(names)} columns are those of sysstat {version}, in {unit}{why}")
    return factor or 1.0


def _samples(got: _Reading, factor: float) -> Iterator[Sample]:
    for place, shares in got.cpus:
        yield from _of_cpu(shares, got.host, place)
    for place, device, names, values in got.rows:
        for metric, value, unit in rates(dict(zip(names, values, strict=True))):
            scaled = value * factor if unit == "B/s" else value
            yield Sample(metric, scaled, unit, device, got.host, time=float(place))


def _of_cpu(row: Mapping[str, float], host: str, place: float) -> Iterator[Sample]:
    for metric, value, unit in cpu.shares(row):
        yield Sample(metric, value, unit, "cpu", host, time=float(place))


def read_json(text: Text) -> Found:
    """The series of each device. Raises ``Refused`` for a text without a whole report."""
    whole = text.text + text.cut
    commas = re.search(r'": *\d+,\d+', whole)
    remarks: list[str] = []
    if commas:
        remarks.append(f"line {whole.count(chr(10), 0, commas.start()) + 1}: decimal commas, read as points")
        whole = re.sub(r'(": *\d+),(\d+)', r"\1.\2", whole)
    host = re.search(r'"nodename": *"([^"]*)"', whole)
    name = host[1] if host and host[1] != "(none)" else ""
    stamps: list[Stamp] = []
    samples: list[Sample] = []
    bad: list[Bad] = []
    rows = 0
    unread: list[str] = []
    reports = _reports(whole, bad)
    only = len(reports) == 1 and not bad and _CLOSED.search(whole) is not None
    if reports:
        remarks.append(_ONLY if only else _SINCE_BOOT)
    for report in reports if only else reports[1:]:
        disks = report.get("disk", [])
        if not isinstance(disks, list) or not all(isinstance(disk, dict) for disk in disks):
            bad.append(Bad(0, str(report)))
            continue
        said = str(report.get("timestamp", ""))
        if (at := stamp(said)) is None:
            unread.append(said)
            at = Stamp((), float(len(stamps)), offset=0.0)
        shares = _numbers(report.get("avg-cpu"), "%")
        if is_whole(shares.values()):
            samples += _of_cpu(shares, name, float(len(stamps)))
            rows += not disks
        for disk in disks:
            samples += _of_disk(disk, name, float(len(stamps)))
            rows += 1
        stamps.append(at)
    if unread:
        remarks.append(_untimed(repr(unread[0]) if unread[0] else ""))
    if not rows:
        raise Refused("looks like iostat -o JSON, but has no complete report with a device or CPUs in it")
    return Found(
        kind="iostat-json", path=text.path, rows=rows, host=name, bad=len(bad), first_bad=bad[0] if bad else None,
        samples=tuple(samples), clock=Clock(tuple(stamps)), untimed=len(unread) == len(stamps),
        remarks=tuple(remarks),
    )  # fmt: skip


def _reports(text: str, bad: list[Bad]) -> list[Any]:
    """Those before the first one that is cut."""
    found: list[Any] = []
    try:
        for report in _whole_reports(text):
            # What is no report stood between them.
            if isinstance(report, dict):
                found.append(report)
            else:
                bad.append(Bad(0, str(report)))
    except ParseError as error:
        bad.append(Bad(0, error.message))
    return found


def _of_disk(disk: Mapping[str, Any], host: str, place: float) -> Iterator[Sample]:
    for metric, value, unit in rates(_numbers(disk)):
        yield Sample(metric, value, unit, str(disk.get("disk_device", "?")), host, time=place)


def _numbers(found: Any, before: str = "") -> dict[str, float]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {f"{before}{name}": float(value) for name, value in pairs if isinstance(value, int | float)}


def _whole_reports(text: str) -> Iterator[Any]:
    """The whole reports as plain data; a cut one at the end is dropped. Raises ``ParseError``."""
    start = _STATISTICS.search(text)
    if start is None:
        raise ParseError("iostat", "no JSON with statistics in its output", text)
    at = start.end()
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text) or text[at] == "]":
            return
        try:
            found, at = outside.next_json(text, at)
        except ValueError as error:
            # What was cut has nothing after it, in particular no other report.
            if text.count('"timestamp"', at) <= 1 and _is_cut(text, at):
                return
            raise ParseError("iostat", f"a report cannot be read: {error}", text[at:]) from error
        yield found


def _is_cut(text: str, at: int) -> bool:
    """Whether the report at ``at`` ends before its braces are closed."""
    piece = re.sub(r'"[^"\n]*"', '""', text[at:])
    return piece.startswith("{") and piece.count("{") > piece.count("}")
