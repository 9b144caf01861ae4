"""sar's text (``-d``, ``-b``, ``-u``) of sysstat 9 to 12: its rows, and their series beside a workload.

https://man7.org/linux/man-pages/man1/sar.1.html. ``sar -d`` tells reads and writes apart in bytes only;
``sar -b`` in requests too, for all disks of the host together (not for md or dm, nor for partitions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.imports.clock import DAY, Clock, Numbers, Stamp, banner_day, stamp
from blocklab.imports.cpu import is_known, is_whole, shares
from blocklab.imports.device_names import named
from blocklab.imports.found import Found, found_in
from blocklab.imports.json_documents import can_be, number
from blocklab.imports.text import Bad, Refused, Text, has_commas, points
from blocklab.model.sample import Sample

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
DEVICES = re.compile(rf"{_TIME}(?:DEV\s+tps\s|tps\s.*\sDEV\s*$)", re.M)
# 02:57:25        CPU     %user     %nice   %system   %iowait    %steal     %idle
# 02:57:25        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %soft    %guest ...
# 03:14:20 PM     CPU      %usr     %nice      %sys   %iowait      %irq     %soft   %steal ...     (mpstat)
_CPUS = re.compile(rf"{_TIME}CPU\s+%usr?(?:er)?\s(?!.*%irq\s+%soft\s+%steal).*%idle", re.M)
# 116.0k   21.2M   6.8%
_HUMAN = re.compile(r"\d+(?:\.\d+)?[kMGTP%]")


class Row(msgspec.Struct, frozen=True):
    """One row. ``kind`` is sar's option (``d``, ``b`` or ``u``); ``start`` and ``end`` are places among the times
    of that kind in that block; ``values`` go by sar's names of columns."""

    block: int
    kind: str
    device: str
    start: int
    end: int
    values: dict[str, float]
    line: int


class Rows:
    """What was read of a text. A block goes from one banner to the next; its times are those of one kind of
    statistics (``sar -A`` prints a whole day of one kind, then that day of the next)."""

    def __init__(self, text: Text) -> None:
        self.hosts = [""]
        self.days: list[Numbers | None] = [None]
        self.stamps: dict[tuple[int, str], list[Stamp]] = {}
        self.rows: list[Row] = []
        self.bad: list[Bad] = []
        self.commas = self.human = self.restarts = 0
        self._kind = ""
        self._names: tuple[str, ...] = ()
        self._last = self._other = False
        # Of each kind the report that is being read, and the one before it.
        self._report: dict[str, tuple[int | None, int]] = {}
        for line_number, line in enumerate(text.lines, 1):
            if len(line) > _LONGEST:
                self.bad.append(Bad(line_number, line[:_LONGEST]))
            elif line.strip():
                self._line(line_number, line)

    def remarks(self) -> Iterator[str]:
        """What is odd without being lost."""
        if self.commas:
            yield f"line {self.commas}: decimal commas, read as points"
        if self.restarts:
            yield f"restarts of the host: {self.restarts}; no interval is made across one"

    def check(self, wanted: Sequence[str]) -> None:
        """Raises ``Refused`` where no row is of one of these kinds."""
        if any(row.kind in wanted for row in self.rows):
            return
        options = " ".join(f"-{kind}" for kind in wanted)
        if self.human:
            raise Refused(
                f"its numbers are rounded for humans (sar -h); print it again without -h: sar {options} -f FILE"
            )
        if not any(kind in wanted for _, kind in self.stamps):
            raise Refused(f"sar, but none of {options}; print it again: sar {options} -f FILE")
        raise Refused(f"looks like sar {options}, but has no complete row after a header")

    def _line(self, line_number: int, line: str) -> None:
        if match := BANNER.match(line.lstrip()):
            self.hosts.append(match["host"])
            self.days.append(banner_day(match["rest"]))
            self._kind, self._report = "", {}
            return
        timed = _TIMED.match(line)
        at = _stamp(timed) if timed else None
        if timed is None or at is None:
            # Average:   Moyenne :   平均时间:
            # Summary           3      8087        24         0     hub     (sar -m USB)
            of_other = self._other and timed is None and not re.match(r"\s*\d", line)
            if not of_other and (timed is not None or ":" not in line[:24] or re.match(r"\s*\d", line)):
                self.bad.append(Bad(line_number, line))
            return
        tokens = timed["rest"].split()
        if tokens[:2] == ["LINUX", "RESTART"]:
            self._report, self._kind = {}, ""
            self.restarts += 1
        elif "tps" in tokens or (tokens[:1] == ["CPU"] and "%idle" in tokens):
            self._header(at, tokens)
        elif tokens and not any(each[:1].isdigit() for each in tokens):
            self._kind, self._other = "", True
        elif self._kind:
            self._row(line_number, line, at, tokens)

    def _header(self, at: Stamp, tokens: list[str]) -> None:
        self._last, self._other = tokens[-1] == "DEV", False
        if "DEV" in tokens:
            self._kind = "d"
            self._names = tuple(tokens[:-1] if self._last else tokens[tokens.index("DEV") + 1 :])
        elif tokens[0] == "CPU":
            self._kind, self._names = "u" if is_known(tokens[1:]) else "", tuple(tokens[1:])
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
        if self._kind in ("d", "u") and tokens:
            device = tokens.pop(-1 if self._last else 0)
        values = [_value(each) for each in tokens]
        known = [each for each in values if each is not None]
        row = dict(zip(self._names, known, strict=False))
        whole = len(known) == len(self._names) == len(values) and (self._kind != "u" or is_whole(known))
        # sar prints all numbers with as many decimals: one with fewer was cut.
        whole = whole and len({len(each.partition(".")[2]) for each in tokens}) == 1
        if not whole:
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
        # Of a CPU of its own nothing is kept.
        if before is not None and (self._kind != "u" or device == "all"):
            name = named(device) if self._kind == "d" else ""
            self.rows.append(Row(len(self.hosts), self._kind, name, before, now, row, line_number))


def _stamp(match: re.Match[str]) -> Stamp | None:
    return stamp(f"{match['hour']}:{match['minute']:>02}:{match['second']:>02} {match['half'] or ''}".strip())


def _value(text: str) -> float | None:
    """sar prints two decimals, or as few as --dec says; more are a thousands separator."""
    return number(text) if len(text.partition(".")[2]) <= 2 else None


def fits(head: str) -> bool:
    """Whether this is text of ``sar -d``, ``-b`` or ``-u``, or any of them together."""
    return DISKS.search(head) is not None or _CPUS.search(head) is not None


def read(text: Text) -> Found:
    """The series of each device, of all disks together, and of the CPUs. Raises ``Refused``."""
    got = Rows(text)
    got.check("dbu")
    blocks = {row.block for row in got.rows}
    if len(blocks) > 1:
        raise Refused(f"holds {len(blocks)} outputs of sar; cut it at the lines 'Linux ...' into a file for each")
    block = blocks.pop()
    known = {kind: _days(stamps) for (of, kind), stamps in got.stamps.items() if of == block}
    # The times of all kinds, each once.
    ends = sorted({known[row.kind][row.end] for row in got.rows})
    places = {at: place for place, at in enumerate(ends)}
    host = got.hosts[block - 1]
    found = [
        sample
        for row in got.rows
        for sample in samples(row.kind, row.device, row.values, host, places[known[row.kind][row.end]])
    ]
    return found_in(
        text, "sar", bad=got.bad, remarks=tuple(got.remarks()), rows=len(got.rows), host=host,
        samples=tuple(found), clock=Clock(tuple(Stamp((), at) for _, at in places), got.days[block - 1]),
    )  # fmt: skip


def _days(stamps: Sequence[Stamp]) -> list[tuple[int, float]]:
    """How many midnights each time is after the first, and its second of the day."""
    found: list[tuple[int, float]] = []
    for each in stamps:
        day, before = found[-1] if found else (0, each.seconds)
        found.append((day + (each.seconds < before - DAY / 2), each.seconds))
    return found


def samples(kind: str, device: str, row: Mapping[str, float], host: str, place: int) -> Iterator[Sample]:
    """The values of a row in base units, under the names that the probes give them."""
    layer = {"d": device, "b": ALL, "u": "cpu"}[kind]
    rates = {"d": _of_device, "b": _of_host, "u": shares}[kind]
    for metric, value, unit in rates(row):
        yield Sample(metric, value, unit, layer, host, time=float(place))


def _of_host(row: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    for way, count, blocks in (("read", "rtps", "bread/s"), ("write", "wtps", "bwrtn/s")):
        if count in row:
            yield f"disk.{way}.iops", row[count], "1/s"
        if blocks in row:
            yield f"disk.{way}.bandwidth", row[blocks] * SECTOR, "B/s"


def _of_device(row: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    if "tps" in row:
        yield "iops", row["tps"], "1/s"
    for way, letter, name in (("read", "r", "rd"), ("write", "w", "wr")):
        amount = in_bytes(row, (f"{letter}kB/s", KIB), (f"{name}_sec/s", SECTOR), (f"{letter}MB/s", KIB * KIB))
        if amount is not None:
            yield f"{way}.bandwidth", amount, "B/s"
    # Where nothing waited 0.00 is no measurement.
    if row.get("tps") and row.get("await"):
        yield "await", row["await"] / 1000, "s"
    if (queue := row.get("aqu-sz", row.get("avgqu-sz"))) is not None:
        yield "queue", queue, "1"
    if "%util" in row:
        yield "util", row["%util"], "%"


def in_bytes(values: Mapping[str, float], *columns: tuple[str, float]) -> float | None:
    """The first column that is there, in bytes per second."""
    for name, factor in columns:
        if name in values:
            return can_be(values[name] * factor)
    return None
