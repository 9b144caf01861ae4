"""dstat: its table, and its CSV (``--output``)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import zip_longest

from blocklab.formats.clock import Clock, Numbers, Stamp, resolve, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host.columns import Collector, Columns
from blocklab.formats.host.cpu import CPU
from blocklab.formats.host.sar import ALL
from blocklab.formats.text import Bad, Refused, Text
from blocklab.model.metrics import metric as metric_of
from blocklab.model.watched import Values

# ----system---- ----total-usage---- -dsk/total- -net/total- ---paging-- ---system--      (dstat 0.7.4)
# ----total-cpu-usage---- -dsk/total- --dsk/sda-- -net/total-                             (older ones, with -D)
# dsk/nvme0n1 -net/ens160          (a name may leave no room for dashes)
_TITLE = re.compile(r"-*[a-z0-9][a-z0-9/_.-]*")
#      time     |usr sys idl wai stl| read  writ| recv  send|  in   out | int   csw
#      time     |usr sys idl wai hiq siq| read  writ: read  writ| recv  send| int   csw         (several disks)
_COLUMNS = re.compile(r"^ *(?:[a-z0-9#/]+[ |:]+)+[a-z0-9/]+ *$")
#   date/time   |usr sys idl wai hiq siq| read  writ                                               (0.7.0)
# 11-08 00:18:23|  4   2  92   1   2|   0    91M| 348k   96M|   0     0 |  13k 2643
_SIZES = "BkMGT"
_VALUE = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([BkMGT]?)")
# "Dstat 0.7.4 CSV output"     "pcp-dstat 5.3.7 CSV Output"
_CSV = re.compile(r'^"?(?:pcp-)?[Dd]stat .*CSV output', re.IGNORECASE)

_CPU = {
    "usr": "cpu.user", "sys": "cpu.system", "idl": "cpu.idle", "wai": "cpu.iowait", "siq": "cpu.softirq",
    "stl": "cpu.steal",
}  # fmt: skip
_CPUS = ("total-usage", "total-cpu-usage", "total cpu usage", "total usage")
_TIMES = ("time", "date/time", "epoch")
# What dstat gives for all devices together must not be taken for another device beside those of iostat.
_TOTAL = "total"


def fits(head: str) -> bool:
    """Whether this is dstat's table."""
    return any(_titles(line) and ("/" in line or "total-" in line) for line in head.split("\n")[:20])


def _titles(line: str) -> list[str]:
    """The names in a line of titles; nothing for another line."""
    words = line.split()
    if len(words) < 2 or not all(_TITLE.fullmatch(word) for word in words):
        return []
    padded = any(word.startswith("-") and word.endswith("-") for word in words)
    return [word.strip("-") for word in words] if padded else []


def fits_csv(head: str) -> bool:
    """Whether this is dstat's CSV."""
    return _CSV.match(head) is not None


def _meaning(group: str, name: str) -> tuple[str, str] | None:
    """Layer and metric of a column; None for one that is not kept."""
    kind, _, device = group.partition("/")
    if group in _CPUS and name in _CPU:
        return CPU, _CPU[name]
    way = {"read": "read", "writ": "write"}.get(name)
    if kind in ("dsk", "io") and way and device:
        what = "bandwidth" if kind == "dsk" else "iops"
        if device == _TOTAL:
            return ALL, f"disk.{way}.{what}"
        return device, f"{way}.{what}"
    if kind == "net" and device and name in ("recv", "send"):
        return group, f"{'rx' if name == 'recv' else 'tx'}.bandwidth"
    return None


def _with_units(row: Columns) -> Iterator[tuple[str, Values, str]]:
    return ((metric, values, metric_of(metric).unit) for metric, values in row.items())


class _Reading:
    """What was read so far; ``columns`` are (group, name), ``time`` the place of the time among them."""

    def __init__(self) -> None:
        self.columns: list[tuple[str, str]] = []
        self.stamps: list[Stamp] = []
        self.collector = Collector()
        self.bad: list[Bad] = []
        self.rows = 0
        self.other: dict[str, None] = {}
        self.untimed = False
        self.since_boot = 0
        self.near: float | None = None
        self.day: Numbers | None = None
        self._boot = False

    def header(self, columns: Sequence[tuple[str, str]]) -> None:
        """What the rows after it have; the first of them counts from the boot on, or is blank (pcp-dstat)."""
        self.columns, self._boot = list(columns), True

    def date(self, text: str) -> None:
        """The date in the header of a CSV: ``25 Mar 2024 10:00:00 UTC``; of several the first one counts."""
        at = stamp(text)
        if self.near is None and at is not None and len(at.numbers) == 3 and at.sure:
            (self.near,), _ = resolve(Clock((at,)), "", zone=UTC, order="", anchors=())
            self.day = at.numbers

    def row(self, number: int, line: str, values: Sequence[str]) -> None:
        """One row of as many values as there are columns."""
        blank = [value for (_, name), value in zip(self.columns, values, strict=False) if name not in _TIMES]
        if len(values) == len(self.columns) and not any(value.strip() for value in blank):
            self._boot = False
            return
        times = [value for (_, name), value in zip(self.columns, values, strict=False) if name in _TIMES]
        at = stamp(times[0]) if times else Stamp((), float(len(self.stamps)), offset=0.0)
        kept = [column for column in self.columns if column[1] not in _TIMES]
        numbers = [_number(value, group) for (group, _), value in zip(kept, blank, strict=False)]
        if len(values) != len(self.columns) or at is None or None in numbers:
            self.bad.append(Bad(number, line))
            return
        boot, self._boot = self._boot, False
        if boot:
            self.since_boot += 1
            return
        self.untimed = not times
        layers: dict[str, dict[str, float]] = {}
        for (group, name), amount in zip(kept, numbers, strict=True):
            if (meaning := _meaning(group, name)) is None:
                self.other.setdefault(f"{group} {name}".strip())
            else:
                layers.setdefault(meaning[0], {}).setdefault(meaning[1], amount or 0.0)
        for layer, metrics in layers.items():
            self.collector.add(layer, len(self.stamps), tuple(metrics), metrics.values(), _with_units)
        self.stamps.append(at)
        self.rows += 1

    def found(self, kind: str, text: Text, host: str) -> Found:
        """All of it. Raises ``Refused`` for nothing."""
        if not self.rows:
            besides = " but its first, which counts from the boot on" if self.since_boot else ""
            raise Refused(f"looks like dstat, but has no complete row{besides}")
        remarks: list[str] = []
        if self.since_boot:
            remarks.append("its first row counts from the boot on: left out")
        if self.other:
            remarks.append(f"columns that are not kept: {', '.join(self.other)}")
        if self.untimed:
            remarks.append("it has no times (dstat -t): its rows are put one second apart, on 1970-01-01")
        watched = self.collector.watched(host)
        clock = Clock(tuple(self.stamps), self.day, self.near)
        table = Table(watched=watched, clock=clock, host=host, untimed=self.untimed)
        return found_in(
            text, kind, bad=self.bad, remarks=remarks, rows=self.rows, host=host,
            tables=(table,) if watched else (),
        )  # fmt: skip


def _number(text: str, group: str) -> float | None:
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        return None
    # I/Os go by thousands, bytes by 1024.
    base = 1000.0 if group.startswith("io/") else 1024.0
    return float(match[1]) * base ** _SIZES.index(match[2] or "B")


def read(text: Text) -> Found:
    """The series of a table. Raises ``Refused``."""
    got = _Reading()
    groups: list[str] = []
    heads: list[str] = []
    titled = False
    whole = _whole(text.lines)
    for number, line in enumerate(text.lines, 1):
        # A row without a time may look like columns: "  0   0 100   0   0|   0    12k".
        under, titled = titled, False
        if titles := _titles(line):
            groups, titled = titles, True
        elif under and "|" in line and _COLUMNS.match(line):
            parts = [part.split() for part in re.split("[|:]", line)]
            if len(parts) != len(groups):
                raise Refused(f"line {number}: {len(parts)} groups of columns under {len(groups)} titles")
            heads = line.split("|")
            got.header([(g, name) for g, names in zip(groups, parts, strict=True) for name in names])
        elif "|" in line:
            got.row(number, line, list(_cells(line, heads)) if number in whole else ())
        elif line.strip() and not line.startswith(("You did not select", "Color support")):
            got.bad.append(Bad(number, line))
    return got.found("dstat", text, "")


def _whole(lines: Sequence[str]) -> set[int]:
    """The numbers of the lines that are as long as most below their titles: a shorter row was cut, and its last
    value is another one. Where no line ends in a blank, blanks were taken away, and nothing can be told."""
    blocks: list[list[tuple[int, str]]] = [[]]
    titled = False
    for number, line in enumerate(lines, 1):
        # Below the titles are the names of the columns.
        under, titled = titled, bool(_titles(line))
        if titled:
            blocks.append([])
        elif "|" in line and not under:
            blocks[-1].append((number, line))
    kept: set[int] = set()
    for block in blocks:
        usual = Counter(len(line) for _, line in block).most_common(1)
        stripped = not any(line.endswith(" ") for _, line in block)
        kept |= {number for number, line in block if stripped or len(line) == usual[0][0]}
    return kept


def _cells(line: str, heads: Sequence[str]) -> Iterator[str]:
    """The values of a row below the names of its columns; a group without any has as many empty ones as it has
    columns."""
    for head, part in zip_longest(heads, line.split("|"), fillvalue=""):
        names = head.replace(":", " ").split()
        if len(names) == 1 and names[0] in _TIMES:
            yield part.strip()
        elif not part.strip(" :"):
            yield from ("" for _ in names)
        elif part.count(":") == head.count(":"):
            yield from part.replace(":", " ").split()


def read_csv(text: Text) -> Found:
    """The series of ``--output``. Raises ``Refused``."""
    got, host = _Reading(), ""
    groups: list[str] = []
    for number, row in enumerate(csv.reader(text.lines), 1):
        line = ",".join(row)
        if _CSV.match(line) or (row and row[0].endswith(":")):
            host = row[1] if row[0] == "Host:" and len(row) > 1 else host
            # "Cmdline:","dstat -t --output x.csv 1",,,,"Date:","25 Mar 2024 10:00:00 UTC"
            if "Date:" in row[:-1]:
                got.date(row[row.index("Date:") + 1])
            # dstat appends to a file that is there.
            groups, got.columns = [], []
        elif not groups and any(cell in _CPUS or "/" in cell for cell in row):
            groups = _filled(row)
        elif groups and not got.columns:
            # "dsk/sda:read" where there are several disks
            got.header([(group, name.rpartition(":")[2]) for group, name in zip(groups, row, strict=False)])
        elif got.columns and row:
            got.row(number, line, row)
    return got.found("dstat-csv", text, host)


def _filled(row: Sequence[str]) -> list[str]:
    """Each group's name over all its columns: the CSV has it over the first one only."""
    found: list[str] = []
    for cell in row:
        found.append(cell or (found[-1] if found else ""))
    return found
