"""``sadf -j`` (JSON) and ``sadf -d`` (CSV) of sar's files as series.

https://man7.org/linux/man-pages/man1/sadf.1.html. Each row tells the end and the length of its interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from blocklab.imports.clock import Clock, Stamp, resolve, stamp
from blocklab.imports.device_names import named
from blocklab.imports.json_documents import can_be, decimals, line_at, number, objects
from blocklab.imports.text import Bad, Refused, Text
from blocklab.sizing.readers import sar
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found

# # hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util
_HEADER = re.compile(r"#? ?hostname;interval;timestamp;")
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NODE = re.compile(r'"nodename"\s*:\s*"([^"]{0,255})"')
# 2013-09-19 00-45-01   (sadf -t of sysstat 9)
_DASHES = re.compile(r"^(\d{4}-\d\d-\d\d) (\d\d)-(\d\d)-(\d\d)")
# The end of one interval and the start of the next are rounded to seconds, and so is the length.
_ROUNDING = 1.5
_JSON_NAMES = {
    "tps": "tps", "rkB": "rkB/s", "wkB": "wkB/s", "dkB": "dkB/s", "rd_sec": "rd_sec/s", "wr_sec": "wr_sec/s",
    "await": "await", "rtps": "rtps", "wtps": "wtps", "bread": "bread/s", "bwrtn": "bwrtn/s",
}  # fmt: skip
_AGAIN = "print it again: sadf -j FILE -- -d -b"


class _Raw:
    """Rows before their times are known."""

    def __init__(self, text: Text) -> None:
        self.stamps: list[Stamp] = []
        # Host, device, length (s), values, line: one for each stamp.
        self.rows: list[tuple[str, str, float, dict[str, float], int]] = []
        self.bad: list[Bad] = []
        self.remarks = list(text.remarks)
        self.restarts = 0

    def add(self, host: str, device: str, when: str, seconds: float, values: dict[str, float], line: int) -> None:
        """One row; what has no time or no length goes to the bad ones."""
        at = stamp(_DASHES.sub(r"\1 \2:\3:\4", when))
        if at is None or not values:
            self.bad.append(Bad(line, f"{host} {when} {device}"))
            return
        self.stamps.append(at)
        self.rows.append((host, named(device) if device else "", seconds, values, line))


def fits_json(head: str) -> bool:
    """Whether this is the JSON of ``sadf -j``."""
    return '"sysstat"' in head and re.search(r'"timestamp"\s*:\s*\{|"file-date"|"file-utc-time"', head) is not None


def fits_csv(head: str) -> bool:
    """Whether these are the rows of ``sadf -d``."""
    return any(_HEADER.match(line) for line in head.split("\n")[:200])


def read_json(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -j``, of several put together, or of the start of a cut one.

    Raises ``Refused`` for a file without a whole report of disks.
    """
    whole = decimals(text.text + text.cut)
    raw = _Raw(text)
    nodes = [(match.start(), match[1]) for match in _NODE.finditer(whole)]
    for start in _STATISTICS.finditer(whole):
        host = next((name for at, name in reversed(nodes) if at < start.start()), "")
        line, counted = line_at(whole, start.end()), start.end()
        for at, report in objects(whole, start.end()):
            line, counted = line + whole.count("\n", counted, at), at
            if not isinstance(report, dict):
                raw.bad.append(Bad(line, whole[at : at + 80].split("\n")[0] or "the end is missing"))
                break
            _of_report(raw, host, report, line)
    raw.restarts = whole.count('"boot"')
    return _done(raw, text, reading)


def _of_report(raw: _Raw, host: str, report: Mapping[str, Any], line: int) -> None:
    when = report.get("timestamp")
    if not isinstance(when, dict):
        raw.bad.append(Bad(line, str(when)[:80]))
        return
    seconds = can_be(when.get("interval"))
    zone = " UTC" if when.get("utc") == 1 else ""
    written = f"{when.get('date')} {when.get('time')}{zone}"
    for device, values in _tables(report):
        if not seconds:
            raw.bad.append(Bad(line, f"{written} without the length of its interval"))
            return
        raw.add(host, device, written, seconds, values, line)


def _tables(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """Each device, and the whole host by an empty name."""
    disks = report.get("disk")
    for disk in disks if isinstance(disks, list) else ():
        if isinstance(disk, dict) and isinstance(disk.get("disk-device"), str):
            values = _values(disk)
            yield disk["disk-device"], values if "tps" in values else {}
    io = report.get("io")
    if isinstance(io, dict):
        parts = [each for each in io.values() if isinstance(each, dict)]
        values = {name: value for part in parts for name, value in _values(part).items()}
        yield "", values if "rtps" in values else {}


def _values(table: Mapping[str, Any]) -> dict[str, float]:
    known = {_JSON_NAMES[name]: can_be(value) for name, value in table.items() if name in _JSON_NAMES}
    # A row with a value that cannot be is damaged.
    return (
        {name: value for name, value in known.items() if value is not None} if None not in known.values() else {}
    )


def read_csv(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -d``. Raises ``Refused`` for one without a whole row of disks."""
    raw = _Raw(text)
    names: list[str] = []
    for line_number, line in enumerate(text.lines, 1):
        if _HEADER.match(line):
            names = line.lstrip("# ").strip().split(";")[3:]
        elif line.strip() and names:
            _csv_row(raw, names, line, line_number)
    if text.cut.strip():
        raw.bad.append(Bad(len(text.lines) + 1, text.cut[:200]))
    return _done(raw, text, reading)


def _csv_row(raw: _Raw, names: list[str], line: str, line_number: int) -> None:
    cells = line.strip().split(";")
    if len(cells) > 3 and cells[3].startswith("LINUX-RESTART"):
        raw.restarts += 1
        return
    if names[:1] != ["DEV"] and "rtps" not in names:
        return
    devices = names[:1] == ["DEV"]
    if len(cells) != len(names) + 3 or (devices and not cells[3]):
        raw.bad.append(Bad(line_number, line[:200]))
        return
    device = cells[3] if devices else ""
    values = {
        name: number(cell.replace(",", ".")) for name, cell in zip(names, cells[3:], strict=True) if name != "DEV"
    }
    known = {name: value for name, value in values.items() if value is not None}
    seconds = number(cells[1])
    if len(known) < len(values) or not seconds:
        raw.bad.append(Bad(line_number, line[:200]))
        return
    raw.add(cells[0], device, cells[2], seconds, known, line_number)


def _done(raw: _Raw, text: Text, reading: Reading) -> Found:
    if not raw.rows:
        raise Refused(f"sadf, but without a whole report of disks; {_AGAIN}")
    clock = Clock(tuple(raw.stamps))
    times, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    if raw.restarts:
        raw.remarks.append(f"restarts of the host: {raw.restarts}; no interval is made across one")
    ends: dict[tuple[str, str], float] = {}
    reports = []
    for at, (host, device, seconds, values, line) in zip(times, raw.rows, strict=True):
        if at is None:
            raw.bad.append(Bad(line, "its time cannot be"))
            continue
        start, before = at - seconds, ends.get((host, device))
        if before is not None and abs(before - start) <= _ROUNDING and before < at:
            start = before
        ends[host, device] = at
        reports.append(sar.Report(host, device, start, at, values, line))
    return sar.found(reports, text, [*raw.remarks, *said], tuple(raw.bad[: sar.MOST_BAD]), len(raw.bad))


KINDS: Mapping[str, Kind] = {
    "sadf-json": Kind("sadf -j FILE -- -d -b", fits_json, read_json),
    "sadf-csv": Kind("sadf -d FILE -- -d", fits_csv, read_csv),
}
"""The kinds of this module by name."""
