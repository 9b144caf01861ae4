"""iostat's text, with and without ``-x``, ``-d``, ``-c``, ``-s`` and ``--pretty``: with or without times, of any
sysstat, also with a time put before each line. Its JSON: ``iostat_json``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from blocklab.formats.clock import Clock, Numbers, Stamp, banner_day, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host.columns import Collector, Form, from_the_first, plain, rows_of, twice
from blocklab.formats.host.cpu import CPU, is_whole, shares_of
from blocklab.formats.host.device_names import named
from blocklab.formats.host.iostat_columns import BY_COUNT, Meaning, put_right, without_header
from blocklab.formats.host.iostat_report import ONLY, DeviceRow, Run, first
from blocklab.formats.text import Bad, Refused, Text, has_commas, points

# Linux 5.4.0-1045-aws (ip-10-0-0-1) 	08/11/2020 	_x86_64_	(2 CPU)
_BANNER = re.compile(r"Linux \S+ \((?P<host>[^)]*)\)\s+(?P<rest>.*)$")
# Device            r/s     w/s     rkB/s ...     Device:         rrqm/s   wrqm/s ...
# Device:            tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn
_HEADER = re.compile(r"(?P<before>.*?)\bDevice:?\s+(?P<names>\S+/s\s.*%util|tps\s+\S+/s.*?)\s*$")
#      r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device    (--pretty)
_PRETTY = re.compile(r"\s*(?P<names>(?:tps|\S+/s)\s.*\S)\s+Device:?\s*$")
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
# Rows of one report are written at once; iostat's shortest interval is a second.
_AT_ONCE = 0.5
_LONGEST_TIME = 60


def untimed(unread: str) -> str:
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
    if any(_HEADER.match(line) or _PRETTY.match(line) or _CPU.search(line) for line in lines):
        # Rounded for humans (-h), and told from other tools all the same.
        return True
    rows = [match for line in lines[:200] if (match := _ROW.match(line))]
    known = [match for match in rows if len(match["numbers"].split()) in BY_COUNT]
    return len(known) >= max(1, len([line for line in lines[:200] if line.strip()]) // 2)


class _Reading:
    """What was read so far of a text."""

    def __init__(self, text: Text) -> None:
        self.host = ""
        self.day: Numbers | None = None
        self.names: tuple[str, ...] = ()
        self.collector = Collector()
        self.meaning = Meaning()
        self.stamps: list[Stamp] = []
        self.untimed = self.jitter = False
        self.bad: list[Bad] = []
        self.commas = 0
        self.runs = [Run()]
        self._text = text
        self._cpu_names: tuple[str, ...] = ()
        # Without -x the rates have decimals, and only they.
        self._decimals: list[bool] = []
        self._last = False
        self._boot = self._banner = False
        # The headers that came since the banner, and those of the report that is being read.
        self._headers: set[tuple[str, ...]] = set()
        self._part: set[tuple[str, ...]] = set()
        # The rows of that report; whether a header began it, and whether times have lines of their own.
        self._seen: set[tuple[str, Form]] = set()
        self._new = self._timed = False
        # The line of the last header of devices.
        self._headed_by = ""
        self._form = self.collector.form((), shares_of)
        self._forms: dict[tuple[str, ...], tuple[str, ...]] = {}
        for number, before, line in text.every():
            if len(line) > _LONGEST:
                self.bad.append(Bad(number, line[:_LONGEST]))
            elif not self._quick(before, line.split()):
                self._line(number, before, line)

    @cached_property
    def _headed(self) -> bool:
        """Whether a header comes, be it damaged: without it nobody knows the columns."""
        return any(re.search(r"\bDevice:?\s", line) for line in self._text.lines)

    def _quick(self, before: Stamp | None, tokens: list[str]) -> bool:
        """Takes a row of a device as almost all are; whatever is unusual is left to ``_line``."""
        names = self.names
        if not names or len(tokens) != len(names) + 1:
            return False
        device = tokens.pop() if self._last else tokens.pop(0)
        numbers = plain(tokens, self._decimals) if device[0].isalpha() else None
        if numbers is None:
            return False
        self._take(before, device, names, numbers)
        return True

    def _usual(self, before: Stamp | None, line: str) -> bool:
        """Takes what comes with every report, and is soon seen: nothing, a time, a header that came before."""
        if not line or line.isspace():
            return True
        if line == self._headed_by:
            self._header(self.names, before)
            return True
        if line[0].isdigit() and len(line) < _LONGEST_TIME and (found := stamp(line)) is not None:
            self._time(found)
            return True
        return False

    def _time(self, at: Stamp) -> None:
        self.stamps.append(at)
        self._timed = True
        self._seen.clear()
        self._part.clear()

    def _line(self, number: int, before: Stamp | None, line: str) -> None:
        if self._usual(before, line):
            return
        shares = _cpu_row(line)
        if has_commas(line) and (shares or _device_row(line)):
            self.commas = self.commas or number
            line = points(line)
            if self._quick(before, line.split()):
                return
            shares = _cpu_row(line)
        if match := _CPU.search(line):
            self._cpu_names = self._known(match["names"])
            self._header(self._cpu_names, before)
        elif shares:
            self._cpu(number, before, line, shares)
        elif match := _BANNER.search(line):
            self.host, self.day = match["host"], banner_day(match["rest"])
            self._banner = self._new = True
            self._headers.clear()
            self._part.clear()
            self.runs.append(Run(banner=before))
        elif match := _HEADER.match(line) or _PRETTY.match(line):
            self.names, self._last = self._known(match["names"]), match.re is _PRETTY
            every = "%util" in self.names or self._last
            self._decimals = [every or name == "tps" or name.endswith("/s") for name in self.names]
            self._headed_by = line
            self._header(self.names, before)
        elif match := _device_row(line):
            self._row(number, before, line, match)
        elif (found := stamp(line)) is not None:
            self._time(found)
        else:
            self.bad.append(Bad(number, line))

    def _known(self, names: str) -> tuple[str, ...]:
        """The columns of a header; one object for all headers alike."""
        found = tuple(names.split())
        return self._forms.setdefault(found, found)

    def _header(self, names: tuple[str, ...], before: Stamp | None) -> None:
        self.runs[-1].more |= names in self._headers
        # The first report after the banner counts from the boot on.
        self._boot = self._banner and names not in self._headers
        self._headers.add(names)
        if names in self._part or not self._part:
            self._part.clear()
            self._new = True
            if before is not None and not self._timed:
                self.jitter = True
                self._report(before)
        self._part.add(names)

    def _cpu(self, number: int, before: Stamp | None, line: str, match: re.Match[str]) -> None:
        values = _values(match["numbers"])
        if self._cpu_names and (len(values) != len(self._cpu_names) or not is_whole(values)):
            self.bad.append(Bad(number, line))
        elif self._cpu_names:
            own = stamp(match["before"]) if match["before"].strip() else before
            self._take(own, "", self._cpu_names, values)

    def _row(self, number: int, before: Stamp | None, line: str, match: re.Match[str]) -> None:
        values = _values(match["numbers"])
        known = len(values) in BY_COUNT and not self._headed
        names = self.names or (BY_COUNT[len(values)][1] if known else ())
        written = match["before"].strip()
        own = stamp(written) if written else before
        if len(values) != len(names) or (written and own is None) or not _fit(match["numbers"], names):
            self.bad.append(Bad(number, line))
        else:
            self._take(own, match["device"], names, values)

    def _take(self, own: Stamp | None, device: str, names: tuple[str, ...], numbers: Sequence[float]) -> None:
        """A good row; ``device`` is empty for the CPUs."""
        if names is not self._form.names:
            self._form = self.collector.form(names, self.meaning.rates if device else shares_of)
        self._begin(own, (device, self._form))
        place = len(self.stamps) - 1
        layer = named(device) if device else CPU
        if self._boot:
            self.runs[-1].rows.append(DeviceRow(place, layer, names, numbers))
        else:
            self.collector.put(layer, place, self._form, numbers)

    def _begin(self, own: Stamp | None, which: tuple[str, Form]) -> None:
        """The report that a row belongs to."""
        again = which in self._seen
        if again and self._boot:
            self.runs[-1].more = True
        if self._timed:
            # iostat -t: a line of its own has the time.
            pass
        elif own is not None:
            self.jitter = True
            if again or self._new or not self.stamps or (not self._headers and _later(self.stamps[-1], own)):
                self._report(own)
        elif again or self._new or not self.stamps:
            # No times at all: a header, or a device that comes again, begins the next report.
            self.untimed = True
            self._report(Stamp((), float(len(self.stamps)), offset=0.0))
        self._seen.add(which)

    def _report(self, at: Stamp) -> None:
        self.stamps.append(at)
        self._seen.clear()
        self._new = False

    def settle(self) -> tuple[bool, list[str]]:
        """Takes the first reports of the runs that count: whether its only report may be one since the boot, and
        what is to be said of them."""
        remarks: dict[str, None] = {}
        runs = [run for run in self.runs if run.rows]
        one = len(runs) == 1 and not (self.collector.rows or self.bad or runs[0].more or self._text.cut.strip())
        if one and not self._text.first_report:
            self._keep(runs[0])
            return True, [ONLY]
        for run in runs:
            kind, said = first(run, [] if self.untimed else self.stamps, self._text.first_report)
            remarks[said] = None
            if kind == "interval":
                self._keep(run)
        return False, list(remarks)

    def _keep(self, run: Run) -> None:
        for row in run.rows:
            rates = self.meaning.rates if row.layer != CPU else shares_of
            self.collector.add(row.layer, row.place, row.names, row.numbers, rates)


def _later(one: Stamp, other: Stamp) -> bool:
    """Whether a row is of a later report than the one before it: rows of one report are written at once."""
    return one.numbers != other.numbers or abs(other.seconds - one.seconds) > _AT_ONCE


def read(text: Text) -> Found:
    """The series of each device. Raises ``Refused`` for a text without a good row."""
    got = _Reading(text)
    only, said = got.settle()
    watched = got.collector.watched(got.host)
    if not watched:
        raise Refused("looks like iostat, but has no complete row (-h rounds for humans: print it without)")
    remarks: list[str] = []
    if not got.names and any(each.layer != CPU for each in watched):
        watched, told = without_header(watched, got.meaning)
        remarks.append(told)
    else:
        watched, told_of = put_right(watched, got.meaning.sizes)
        remarks += told_of
    remarks += said
    if got.commas:
        remarks.append(f"line {got.commas}: decimal commas, read as points")
    remarks += twice(got.collector)
    stamps = got.stamps
    if got.untimed:
        watched, stamps = from_the_first(watched, stamps)
        odd = next((bad for bad in got.bad if _LIKE_TIME.search(bad.text)), None)
        remarks.append(untimed(f"line {odd.line}: {odd.text[:40]!r}" if odd else ""))
    table = Table(
        watched=watched, clock=Clock(tuple(stamps), got.day, jitter=got.jitter), host=got.host,
        untimed=got.untimed, since_boot=only,
    )  # fmt: skip
    return found_in(
        text, "iostat", bad=got.bad, remarks=remarks, cut_read=True, rows=rows_of(watched), host=got.host,
        tables=(table,),
    )  # fmt: skip
