"""sar's text (``-d``, ``-b``, ``-u``) of sysstat 9 to 12: its rows, and their series beside a workload.

https://man7.org/linux/man-pages/man1/sar.1.html. ``sar -d`` tells reads and writes apart in bytes only;
``sar -b`` in requests too, for all disks of the host together (not for md or dm, nor for partitions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from blocklab.formats.clock import Clock, Numbers, Stamp, banner_day, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host.columns import Collector, Columns, Rates, plain, twice
from blocklab.formats.host.cpu import CPU, is_known, is_whole, shares_of
from blocklab.formats.host.device_names import named
from blocklab.formats.host.iostat_columns import Sizes, put_right
from blocklab.formats.json_documents import number
from blocklab.formats.text import Bad, Refused, Text, has_commas, points
from blocklab.model.watched import Values

KIB, SECTOR = 1024.0, 512.0
ALL = "dsk/total"
"""The layer of all disks of a host together: that of dstat's ``total``, too."""
# What is longer is no row.
_LONGEST = 1000

# Linux 5.4.0-1045-aws (ip-10-0-0-1) 	08/11/2020 	_x86_64_	(2 CPU)
BANNER = re.compile(r"Linux \S+ \((?P<host>[^)]*)\)\s+(?P<rest>.*)$")
# 06:43:45 PM    dev8-0   6274.00 ...   12:55:19 PM IST      0.00 ...   00시 47분 26초    dev7-0 ...
# 14時33分13秒    dev8-0 ...
_TIMED = re.compile(
    r"\s*(?P<hour>\d{1,2})(?::|[時时시] ?)(?P<minute>\d{1,2})(?::|[分분] ?)(?P<second>\d{1,2})[秒초]?"
    r"(?: (?P<half>[AaPp][Mm]))?(?: (?P<zone>[A-Z]{3,5})(?=\s+[\w.,/-]+\s+\S))?(?P<rest>\s.*)$"
)
_TIME = r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t]"
# 00:00:01          DEV       tps  rd_sec/s  wr_sec/s ...   12:55:18 PM IST       tps      rtps      wtps ...
DISKS = re.compile(rf"{_TIME}(?:DEV\s+tps\s|tps\s.*\sDEV\s*$|tps\s+rtps\s+wtps\s)", re.M)
# 02:57:25        CPU     %user     %nice   %system   %iowait    %steal     %idle
# 02:57:25        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %soft    %guest ...
# 03:14:20 PM     CPU      %usr     %nice      %sys   %iowait      %irq     %soft   %steal ...     (mpstat)
_CPUS = re.compile(rf"{_TIME}CPU\s+%usr?(?:er)?\s(?!.*%irq\s+%soft\s+%steal)(?P<whole>.*%idle)?", re.M)
# 116.0k   21.2M   6.8%
_HUMAN = re.compile(r"\d+(?:\.\d+)?[kMGTP%]")


class Section:
    """The rows of one kind of statistics (``d``, ``b`` or ``u``) in one block. ``before`` is, by the place of each
    time, that of the report before it; None where there is none, or the host was restarted between."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []
        self.before: list[int | None] = []
        self.collector = Collector()
        self.meaning = Meaning()
        # The place of the report that is being read, if one is.
        self.now: int | None = None

    def place(self, at: Stamp) -> int:
        """That of a time, which goes on from the one before it."""
        if not self.stamps or self.stamps[-1] != at:
            self.stamps.append(at)
            self.before.append(self.now)
        elif self.now is None:
            self.before[-1] = None
        self.now = len(self.stamps) - 1
        return self.now


class Rows:
    """What was read of a text. A block goes from one banner to the next; its times are those of one kind of
    statistics (``sar -A`` prints a whole day of one kind, then that day of the next)."""

    def __init__(self, text: Text) -> None:
        self.hosts = [""]
        self.days: list[Numbers | None] = [None]
        self.tables: dict[tuple[int, str], Section] = {}
        self.bad: list[Bad] = []
        self.commas = self.human = self.restarts = 0
        self._kind = ""
        self._names: tuple[str, ...] = ()
        self._last = False
        # What tables of other things, and sums at the end, begin their lines with: Average:, Summary, Moyenne :
        self._sums: set[str] = set()
        # The time of the last row, as it was written, and as it was read.
        self._written: list[str] = []
        self._at: Stamp | None = None
        for line_number, _, line in text.every():
            if len(line) > _LONGEST:
                self.bad.append(Bad(line_number, line[:_LONGEST]))
            elif not self._again(line.split()):
                self._line(line_number, line)

    def remarks(self) -> Iterator[str]:
        """What is odd without being lost."""
        if self.commas:
            yield f"line {self.commas}: decimal commas, read as points"
        if self.restarts:
            yield f"restarts of the host: {self.restarts}; no interval is made across one"

    def check(self) -> None:
        """Raises ``Refused`` without a row."""
        if any(table.collector.rows for table in self.tables.values()):
            return
        options = "-d -b -u"
        if self.human:
            raise Refused(
                f"its numbers are rounded for humans (sar -h); print it again without -h: sar {options} -f FILE"
            )
        if not self.tables:
            raise Refused(f"sar, but none of {options}; print it again: sar {options} -f FILE")
        raise Refused(f"looks like sar {options}, but has no complete row after a header")

    def _again(self, tokens: list[str]) -> bool:
        """Takes a further row of a time, as almost all of many disks are; else leaves it to ``_line``."""
        size = len(self._written)
        if not size or not self._kind or self._at is None or tokens[:size] != self._written:
            return False
        tokens = tokens[size:]
        device = ""
        if self._kind != "b":
            if not tokens:
                return False
            device = tokens.pop(-1 if self._last else 0)
        numbers = plain(tokens) if len(tokens) == len(self._names) else None
        if numbers is None or (self._kind == "u" and not is_whole(numbers)) or not _is_name(device):
            return False
        self._take(self._at, device, numbers)
        return True

    def _line(self, line_number: int, line: str) -> None:
        if not line.strip():
            return
        if match := BANNER.match(line.lstrip()):
            self.hosts.append(match["host"])
            self.days.append(banner_day(match["rest"]))
            self._kind, self._written = "", []
            return
        timed = _TIMED.match(line)
        at = _stamp(timed) if timed else None
        if timed is None or at is None:
            if timed is not None or not self._is_sum(line):
                self.bad.append(Bad(line_number, line))
            return
        self._written, self._at = [], at
        self._timed(line_number, line, at, timed["rest"].split())

    def _timed(self, line_number: int, line: str, at: Stamp, tokens: list[str]) -> None:
        if tokens[:2] == ["LINUX", "RESTART"]:
            for (block, _), table in self.tables.items():
                if block == len(self.hosts):
                    table.now = None
            self._kind = ""
            self.restarts += 1
        elif "tps" in tokens or (tokens[:1] == ["CPU"] and "%idle" in tokens):
            self._header(at, tokens)
        elif tokens and not any(each[:1].isdigit() for each in tokens):
            self._kind = ""
        elif self._kind:
            self._row(line_number, line, at, tokens)
            self._written = line.split()[: len(line.split()) - len(tokens)]

    def _is_sum(self, line: str) -> bool:
        """Whether a line without a time is of the sums at the end, in whatever language: ``Average:``,
        ``Summary``. A header of theirs, or the colon behind the word, shows what they begin with."""
        first, *others = line.split()
        if first[:1].isdigit():
            return False
        if ":" in line[:24] or (len(others) > 1 and not any(each[:1].isdigit() for each in others)):
            self._sums.add(first)
        return first in self._sums

    def _header(self, at: Stamp, tokens: list[str]) -> None:
        self._last = tokens[-1] == "DEV"
        if "DEV" in tokens:
            self._kind = "d"
            self._names = tuple(tokens[:-1] if self._last else tokens[tokens.index("DEV") + 1 :])
        elif tokens[0] == "CPU":
            self._kind, self._names = "u" if is_known(tokens[1:]) else "", tuple(tokens[1:])
        else:
            self._kind = "b" if "rtps" in tokens else ""
            self._names = tuple(tokens[tokens.index("tps") :])
        if self._kind:
            table = self._table()
            if not table.stamps or table.stamps[-1] != at or table.now is None:
                # What follows is of the time from here on.
                table.now = None
                table.place(at)

    def _table(self) -> Section:
        return self.tables.setdefault((len(self.hosts), self._kind), Section())

    def _row(self, line_number: int, line: str, at: Stamp, tokens: list[str]) -> None:
        if "," in line and any(has_commas(each) for each in tokens):
            self.commas = self.commas or line_number
            tokens = [points(each) for each in tokens]
        cells = list(tokens)
        device = cells.pop(-1 if self._last else 0) if self._kind in ("d", "u") and cells else ""
        values = [_value(each) for each in cells]
        known = [each for each in values if each is not None]
        whole = len(known) == len(self._names) == len(values) and (self._kind != "u" or is_whole(known))
        # sar prints all numbers with as many decimals: one with fewer was cut.
        whole = whole and len({len(each.partition(".")[2]) for each in cells}) == 1
        if not whole:
            self.human += bool(cells) and all(_HUMAN.fullmatch(each) or number(each) is not None for each in cells)
            self.bad.append(Bad(line_number, line))
            return
        self._take(at, device, known)

    def _take(self, at: Stamp, device: str, numbers: Sequence[float]) -> None:
        table = self._table()
        place = table.place(at)
        # Of a CPU of its own nothing is kept.
        if table.before[place] is not None and (self._kind != "u" or device == "all"):
            layer, rates = meaning(self._kind, device, table.meaning)
            table.collector.add(layer, place, self._names, numbers, rates)


def _is_name(device: str) -> bool:
    return not device or device == "all" or device[0].isalpha() or device.isdigit()


def _stamp(match: re.Match[str]) -> Stamp | None:
    return stamp(f"{match['hour']}:{match['minute']:>02}:{match['second']:>02} {match['half'] or ''}".strip())


def _value(text: str) -> float | None:
    """sar prints two decimals, or as few as --dec says; more are a thousands separator."""
    return number(text) if len(text.partition(".")[2]) <= 2 else None


def fits(head: str) -> bool:
    """Whether this is text of ``sar -d``, ``-b`` or ``-u``, or any of them together."""
    if DISKS.search(head) is not None:
        return True
    cpus = _CPUS.search(head)
    return cpus is not None and (cpus["whole"] is not None or BANNER.match(head.partition("\n")[0]) is not None)


def read(text: Text) -> Found:
    """A table of each kind of statistics in each output: devices, all disks together, CPUs. Raises ``Refused``."""
    got = Rows(text)
    got.check()
    tables = []
    remarks = list(got.remarks())
    for (output, _), section in got.tables.items():
        if not section.collector.rows:
            continue
        host = got.hosts[output - 1]
        watched, said = put_right(section.collector.watched(host), section.meaning.sizes)
        remarks += [*said, *twice(section.collector)]
        clock = Clock(tuple(section.stamps), got.days[output - 1])
        tables.append(
            Table(
                watched=watched, clock=clock, host=host, output=output, before=tuple(section.before),
                discards=section.meaning.discards,
            )
        )  # fmt: skip
    hosts = {table.host for table in tables}
    return found_in(
        text, "sar", bad=got.bad, remarks=remarks, cut_read=True, tables=tuple(tables),
        rows=sum(len(series.times) for table in tables for series in table.watched),
        host=hosts.pop() if len(hosts) == 1 else "",
    )  # fmt: skip


class Meaning:
    """What the columns of a table of devices mean; it sees all of them, so it knows whether they agree."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.discards = False

    def rates(self, row: Columns) -> Iterator[tuple[str, Values, str]]:
        """Metric, values and unit, as the probe disks has them."""
        self.sizes.add(row)
        self.discards = self.discards or bool(row["dkB/s"].any() if "dkB/s" in row else False)
        if "tps" in row:
            yield "iops", row["tps"], "1/s"
        for way, letter, name in (("read", "r", "rd"), ("write", "w", "wr")):
            amount = in_bytes(row, (f"{letter}kB/s", KIB), (f"{name}_sec/s", SECTOR), (f"{letter}MB/s", KIB * KIB))
            if amount is not None:
                yield f"{way}.bandwidth", amount, "B/s"
        # Where nothing waited 0.00 is no measurement.
        if "tps" in row and "await" in row:
            there = (row["tps"] > 0) & (row["await"] > 0)
            yield "await", np.where(there, row["await"] / 1000, np.nan), "s"
        if (queue := row.get("aqu-sz", row.get("avgqu-sz"))) is not None:
            yield "queue", queue, "1"
        if "%util" in row:
            yield "util", row["%util"], "%"


def meaning(kind: str, device: str, of: Meaning) -> tuple[str, Rates]:
    """The layer of a row, and what its columns mean."""
    return {"d": (named(device), of.rates), "b": (ALL, of_host), "u": (CPU, shares_of)}[kind]


def of_host(row: Columns) -> Iterator[tuple[str, Values, str]]:
    """Those of all disks together."""
    for way, count, blocks in (("read", "rtps", "bread/s"), ("write", "wtps", "bwrtn/s")):
        if count in row:
            yield f"disk.{way}.iops", row[count], "1/s"
        if blocks in row:
            yield f"disk.{way}.bandwidth", row[blocks] * SECTOR, "B/s"


def in_bytes(row: Columns, *columns: tuple[str, float]) -> Values | None:
    """The first column that is there, in bytes per second."""
    return next((row[name] * factor for name, factor in columns if name in row), None)
