"""The JSON of ``iostat -o JSON``, also of one that was killed, or of a locale with decimal commas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from blocklab.errors import ParseError
from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Found, Table, found_in
from blocklab.formats.host import sadf
from blocklab.formats.host.columns import Collector, Rates, from_the_first, rows_of, twice
from blocklab.formats.host.cpu import CPU, is_whole, shares_of
from blocklab.formats.host.device_names import named
from blocklab.formats.host.iostat import untimed
from blocklab.formats.host.iostat_columns import Meaning, put_right
from blocklab.formats.host.iostat_report import ONLY, DeviceRow, Run, first
from blocklab.formats.text import Bad, Refused, Text
from blocklab.model import outside

# {"sysstat": {"hosts": [{"nodename": "db1", ... "statistics": [{"timestamp": ..., "disk": [...]}, {...
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
# Up to sysstat 12.1.4 a lone comma stands where -y left out the report since the boot.
_COMMA = re.compile(r'"statistics"\s*:\s*\[\s*,')
# ... ]}]}}   of an iostat that came to its end
_CLOSED = re.compile(r"\]\s*\}\s*\]\s*\}\s*\}\s*$")
_GAP = re.compile(r"[\s,]*")


def fits(head: str) -> bool:
    """Whether this is the JSON of ``iostat -o JSON``, and not that of ``sadf -j``."""
    return '"sysstat"' in head and '"statistics"' in head and not sadf.fits_json(head)


class _Reading:
    def __init__(self) -> None:
        self.collector = Collector()
        self.meaning = Meaning()
        self.stamps: list[Stamp] = []
        self.bad: list[Bad] = []
        self.unread: list[str] = []
        self.reports = 0
        # Of the first report, until it is known what it covers.
        self.run = Run()

    def report(self, report: Any) -> None:
        """One report; what is none stood between them."""
        disks = report.get("disk", []) if isinstance(report, dict) else None
        if not isinstance(disks, list) or not all(isinstance(disk, dict) for disk in disks):
            self.bad.append(Bad(0, str(report)[:200]))
            return
        written = str(report.get("timestamp", ""))
        if (at := stamp(written)) is None:
            self.unread.append(written)
            at = Stamp((), float(len(self.stamps)), offset=0.0)
        self.stamps.append(at)
        shares = _numbers(report.get("avg-cpu"), "%")
        if is_whole(shares.values()):
            self._row(CPU, shares)
        for disk in disks:
            self._row(named(str(disk.get("disk_device", "?"))), _numbers(disk))
        self.reports += 1

    def _row(self, layer: str, values: Mapping[str, float]) -> None:
        if not values:
            return
        row = DeviceRow(len(self.stamps) - 1, layer, tuple(values), tuple(values.values()))
        if self.reports:
            self._take(row)
        else:
            self.run.rows.append(row)

    def _take(self, row: DeviceRow) -> None:
        rates: Rates = self.meaning.rates if row.layer != CPU else shares_of
        self.collector.add(row.layer, row.place, row.names, row.numbers, rates)

    def settle(self, whole: str, said: str) -> tuple[bool, list[str]]:
        """Takes the first report if it counts: whether it may be one since the boot, and what is to be said of
        it."""
        if not self.run.rows:
            return False, []
        only = False
        if not said and _COMMA.search(whole):
            kind = "interval"
            told = (
                "its first report is of an interval (iostat -y): a comma stands where the one since the boot was"
            )
        elif not said and self.reports == 1 and not self.bad and _CLOSED.search(whole):
            kind, told, only = "interval", ONLY, True
        else:
            kind, told = first(self.run, [] if self.unread else self.stamps, said)
        if kind == "interval":
            for row in self.run.rows:
                self._take(row)
        return only, [told]


def read(text: Text) -> Found:
    """The series of each device. Raises ``Refused`` for a text without a whole report."""
    whole = text.text + text.cut
    commas = re.search(r'": *\d+,\d+', whole)
    remarks: list[str] = []
    if commas:
        remarks.append(f"line {whole.count(chr(10), 0, commas.start()) + 1}: decimal commas, read as points")
        whole = re.sub(r'(": *\d+),(\d+)', r"\1.\2", whole)
    host = re.search(r'"nodename": *"([^"]*)"', whole)
    name = host[1] if host and host[1] != "(none)" else ""
    got = _Reading()
    try:
        for report in _whole_reports(whole):
            got.report(report)
    except ParseError as error:
        got.bad.append(Bad(0, error.message))
    only, said = got.settle(whole, text.first_report)
    watched, told = put_right(got.collector.watched(name), got.meaning.sizes)
    if not watched:
        raise Refused("looks like iostat -o JSON, but has no complete report with a device or CPUs in it")
    remarks += [*said, *told, *twice(got.collector)]
    stamps = got.stamps
    if got.unread:
        remarks.append(untimed(repr(got.unread[0]) if got.unread[0] else ""))
    if len(got.unread) == len(stamps):
        watched, stamps = from_the_first(watched, stamps)
    table = Table(
        watched=watched, clock=Clock(tuple(stamps)), host=name, untimed=len(got.unread) == len(got.stamps),
        since_boot=only,
    )  # fmt: skip
    return found_in(
        text, "iostat-json", bad=got.bad, remarks=remarks, cut_read=True, rows=rows_of(watched), host=name,
        tables=(table,),
    )  # fmt: skip


def _numbers(found: Any, before: str = "") -> dict[str, float]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {
        f"{before}{name}": float(value)
        for name, value in pairs
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _whole_reports(text: str) -> Iterator[Any]:
    """The whole reports as plain data; a cut one at the end is dropped. Raises ``ParseError``."""
    start = _STATISTICS.search(text)
    if start is None:
        raise ParseError("iostat", "no JSON with statistics in its output", text[:1000])
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
            raise ParseError("iostat", f"a report cannot be read: {error}", text[at : at + 1000]) from error
        yield found


def _is_cut(text: str, at: int) -> bool:
    """Whether the report at ``at`` ends before its braces are closed."""
    piece = re.sub(r'"[^"\n]*"', '""', text[at:])
    return piece.startswith("{") and piece.count("{") > piece.count("}")
