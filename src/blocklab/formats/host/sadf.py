"""``sadf -j`` (JSON) and ``sadf -d`` (CSV) of sar's files: their rows, and their series beside a workload.

https://man7.org/linux/man-pages/man1/sadf.1.html. Each row tells the end and the length of its interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host import sar
from blocklab.formats.host.columns import Collector, twice
from blocklab.formats.host.cpu import is_known, is_whole
from blocklab.formats.host.iostat_columns import put_right
from blocklab.formats.json_documents import can_be, decimals, line_at, number, objects
from blocklab.formats.text import Bad, Refused, Text
from blocklab.model.watched import Watched

# # hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util
_HEADER = re.compile(r"#? ?hostname;interval;timestamp;")
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NODE = re.compile(r'"nodename"\s*:\s*"([^"]{0,255})"')
# 2013-09-19 00-45-01   (sadf -t of sysstat 9)
_DASHES = re.compile(r"^(\d{4}-\d\d-\d\d) (\d\d)-(\d\d)-(\d\d)")
_JSON_NAMES = {
    "tps": "tps", "rkB": "rkB/s", "wkB": "wkB/s", "dkB": "dkB/s", "rd_sec": "rd_sec/s", "wr_sec": "wr_sec/s",
    "await": "await", "rtps": "rtps", "wtps": "wtps", "bread": "bread/s", "bwrtn": "bwrtn/s", "aqu-sz": "aqu-sz",
    "avgqu-sz": "avgqu-sz", "util": "%util", "util-percent": "%util", **{name: f"%{name}" for name in (
        "user", "usr", "nice", "system", "sys", "iowait", "steal", "irq", "soft", "guest", "gnice", "idle",
    )},
}  # fmt: skip
_TEXT = 200
AGAIN = "print it again: sadf -j FILE -- -d -b -u"
"""What to do about a file without any of the statistics that are read."""


class ActivityRow(msgspec.Struct, frozen=True):
    """One row: ``kind`` is sar's option (``d``, ``b`` or ``u``), ``seconds`` the length of its interval,
    ``values`` go by sar's names of columns."""

    kind: str
    host: str
    device: str
    seconds: float
    values: dict[str, float]
    line: int


class Section:
    """The rows of one kind of a host."""

    def __init__(self) -> None:
        self.collector = Collector()
        self.meaning = sar.Meaning()


class Rows:
    """What was read of a file. ``stamps`` are the ends of intervals, ``seconds`` their lengths, by place;
    ``sections`` go by host and kind."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []
        self.seconds: list[float] = []
        self.sections: dict[tuple[str, str], Section] = {}
        self.bad: list[Bad] = []
        self.restarts = 0
        self._places: dict[tuple[str, float], int | None] = {}

    def add(self, row: ActivityRow, when: str) -> None:
        """One row; what has no time or no length goes to the bad ones, what is of one CPU nowhere."""
        place = self._place(when, row.seconds)
        if place is None or not row.values or (row.kind == "u" and not is_whole(row.values.values())):
            self.bad.append(Bad(row.line, f"{row.host} {when} {row.device}"))
        elif row.kind != "u" or row.device == "all":
            section = self.sections.get((row.host, row.kind))
            section = section or self.sections.setdefault((row.host, row.kind), Section())
            layer, rates = sar.meaning(row.kind, row.device, section.meaning)
            section.collector.add(layer, place, tuple(row.values), row.values.values(), rates)

    def _place(self, when: str, seconds: float) -> int | None:
        if (when, seconds) not in self._places:
            at = stamp(_DASHES.sub(r"\1 \2:\3:\4", when))
            self._places[when, seconds] = None if at is None else len(self.stamps)
            if at is not None:
                self.stamps.append(at)
                self.seconds.append(seconds)
        return self._places[when, seconds]

    def remarks(self) -> Iterator[str]:
        """What is odd without being lost."""
        if self.restarts:
            yield f"restarts of the host: {self.restarts}; no interval is made across one"

    def watched(self, remarks: list[str]) -> Iterator[tuple[str, bool, tuple[Watched, ...]]]:
        """Of each host and kind: the host, whether there were discards, and its series."""
        for (host, _), section in self.sections.items():
            watched, said = put_right(section.collector.watched(host), section.meaning.sizes)
            remarks += [*said, *twice(section.collector)]
            yield host, section.meaning.discards, watched


def fits_json(head: str) -> bool:
    """Whether this is the JSON of ``sadf -j``."""
    return '"sysstat"' in head and re.search(r'"timestamp"\s*:\s*\{|"file-date"|"file-utc-time"', head) is not None


def fits_csv(head: str) -> bool:
    """Whether these are the rows of ``sadf -d``."""
    return any(_HEADER.match(line) for line in head.split("\n")[:200])


def json_rows(text: Text) -> Rows:
    """Those of a file of ``sadf -j``, of several put together, or of the start of a cut one."""
    whole = decimals(text.text + text.cut)
    found = Rows()
    nodes = [(match.start(), match[1]) for match in _NODE.finditer(whole)]
    for start in _STATISTICS.finditer(whole):
        host = next((name for at, name in reversed(nodes) if at < start.start()), "")
        line, counted = line_at(whole, start.end()), start.end()
        for at, report in objects(whole, start.end()):
            line, counted = line + whole.count("\n", counted, at), at
            if not isinstance(report, dict):
                found.bad.append(Bad(line, whole[at : at + 80].split("\n")[0] or "the end is missing"))
                break
            _of_report(found, host, report, line)
    found.restarts = whole.count('"boot"')
    return found


def _of_report(found: Rows, host: str, report: Mapping[str, Any], line: int) -> None:
    when = report.get("timestamp")
    if not isinstance(when, dict):
        found.bad.append(Bad(line, str(when)[:80]))
        return
    seconds = can_be(when.get("interval"))
    zone = " UTC" if when.get("utc") == 1 else ""
    written = f"{when.get('date')} {when.get('time')}{zone}"
    for kind, device, values in _tables(report):
        if not seconds:
            found.bad.append(Bad(line, f"{written} without the length of its interval"))
            return
        found.add(ActivityRow(kind, host, device, seconds, values, line), written)


def _tables(report: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Each device, the whole host, and its CPUs."""
    for disk in _objects(report.get("disk")):
        if isinstance(disk.get("disk-device"), str):
            values = _values(disk)
            yield "d", disk["disk-device"], values if "tps" in values else {}
    io = report.get("io")
    if isinstance(io, dict):
        parts = [each for each in io.values() if isinstance(each, dict)]
        values = {name: value for part in parts for name, value in _values(part).items()}
        yield "b", "", values if "rtps" in values else {}
    for name in ("cpu-load", "cpu-load-all"):
        for cpu in _objects(report.get(name)):
            yield "u", str(cpu.get("cpu")), _values(cpu)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _values(table: Mapping[str, Any]) -> dict[str, float]:
    known = {_JSON_NAMES[name]: can_be(value) for name, value in table.items() if name in _JSON_NAMES}
    # A row with a value that cannot be is damaged.
    return (
        {name: value for name, value in known.items() if value is not None} if None not in known.values() else {}
    )


def csv_rows(text: Text) -> Rows:
    """Those of a file of ``sadf -d``."""
    found = Rows()
    names: list[str] = []
    for line_number, _, line in text.every():
        if _HEADER.match(line):
            names = line.lstrip("# ").strip().split(";")[3:]
        elif line.strip() and names:
            _csv_row(found, names, line, line_number)
    return found


def _csv_row(found: Rows, names: list[str], line: str, line_number: int) -> None:
    cells = line.strip().split(";")
    if len(cells) > 3 and cells[3].startswith("LINUX-RESTART"):
        found.restarts += 1
        return
    kind = {"DEV": "d", "CPU": "u"}.get(names[0] if names else "", "b" if "rtps" in names else "")
    if not kind or (kind == "u" and not is_known(names[1:])):
        return
    named_first = kind != "b"
    if len(cells) != len(names) + 3 or (named_first and not cells[3]):
        found.bad.append(Bad(line_number, line[:_TEXT]))
        return
    columns = list(zip(names, cells[3:], strict=True))[named_first:]
    values = {name: number(cell.replace(",", ".")) for name, cell in columns}
    known = {name: value for name, value in values.items() if value is not None}
    seconds = number(cells[1])
    if len(known) < len(values) or not seconds:
        found.bad.append(Bad(line_number, line[:_TEXT]))
        return
    device = cells[3] if named_first else ""
    # -1 stands for all CPUs.
    device = "all" if kind == "u" and device == "-1" else device
    found.add(ActivityRow(kind, cells[0], device, seconds, known, line_number), cells[2])


def read_json(text: Text) -> Found:
    """The series of a file of ``sadf -j``. Raises ``Refused``."""
    return _series(text, "sadf-json", json_rows(text))


def read_csv(text: Text) -> Found:
    """The series of a file of ``sadf -d``. Raises ``Refused``."""
    return _series(text, "sadf-csv", csv_rows(text))


def _series(text: Text, kind: str, got: Rows) -> Found:
    if not got.sections:
        raise Refused(f"sadf, but without a whole report of disks or CPUs; {AGAIN}")
    remarks = list(got.remarks())
    clock = Clock(tuple(got.stamps))
    tables = tuple(
        Table(watched=watched, clock=clock, host=host, seconds=tuple(got.seconds), discards=discards)
        for host, discards, watched in got.watched(remarks)
    )
    hosts = {table.host for table in tables}
    return found_in(
        text, kind, bad=got.bad, remarks=remarks, cut_read=True, tables=tables,
        rows=sum(len(series.times) for table in tables for series in table.watched),
        host=hosts.pop() if len(hosts) == 1 else "",
    )  # fmt: skip
