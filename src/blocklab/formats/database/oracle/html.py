"""AWR reports in HTML: the tables that matter, without a parser of the whole document (2 MB in 0.3 s)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise

from blocklab.formats.database.oracle.tables import Report, ReportRow, Table, plain
from blocklab.formats.text import Text

# <H1 class=awr>WORKLOAD REPOSITORY report for </H1>   <h1 class="awr">\nWORKLOAD REPOSITORY REPORT (RAC)\n</h1>
_TITLE = re.compile(r"<h1\b[^>]{0,200}>\s{0,20}(WORKLOAD REPOSITORY [^<\n]{0,80})", re.I)
_TABLE = re.compile(r"<table\b", re.I)
_END = re.compile(r"</table\b", re.I)
_ROW = re.compile(r"<tr\b[^>]{0,400}>", re.I)
_ROW_END = re.compile(r"</tr\b", re.I)
_CELL = re.compile(r"<t([dh])\b[^>]{0,400}>", re.I)
_CELL_END = re.compile(r"</t[dh]\b", re.I)
_TAG = re.compile(r"<[^<>]{0,400}>")
# A table without any of these is of no use here: most of the report.
_KEYS = (
    "Begin Snap", "Startup Time", "DB Name", "Host Name", "Container Name", "Database Instances",
    "Number of Instances", "Total Requests", "Total (MB)", "Transactions", "physical read", "physical write",
    "redo writes", "user commits", "Function Name", "Filetype Name", "Std Block Size", "db file sequential read",
    "cell single block physical read", "log file parallel write",
)  # fmt: skip
_HEADS = ("begin snap", "end snap", "elapsed")
_TAIL = 4000


def reports(text: Text) -> Iterator[Report]:
    """Each report of a file."""
    whole = text.text + text.cut
    starts = [match.start() for match in _TITLE.finditer(whole)] or [0]
    for start, end in pairwise([*starts, len(whole)]):
        yield _report(whole[start:end], whole.count("\n", 0, start) + 1)


def _report(part: str, line: int) -> Report:
    title = _TITLE.match(part)
    tables = list(_tables(part, line))
    rows = [row for table in tables for row in table.rows]
    head = [
        ReportRow(row.line, (row.label, "  ".join(row.cells[1:]).strip())) for row in rows if row.label in _HEADS
    ]
    names: dict[str, str] = {}
    for row in rows:
        for label, value in zip(row.cells, row.cells[1:], strict=False):
            if plain(label) == "std block size":
                names.setdefault("block size", value)
    ended = part[-_TAIL:].lower()
    return Report(
        line=line, title=title[1].strip() if title else "", tables=tuple(tables), head=tuple(head), names=names,
        complete="end of report" in ended or "</html" in ended,
    )  # fmt: skip


def _tables(part: str, line: int) -> Iterator[Table]:
    starts = [match.start() for match in _TABLE.finditer(part)]
    counted, at = 0, line
    for start, end in pairwise([*starts, len(part)]):
        chunk = part[start:end]
        if not any(key in chunk for key in _KEYS):
            continue
        at += part.count("\n", counted, start)
        counted = start
        closed = _END.search(chunk)
        yield _table(chunk[: closed.start()] if closed else chunk, at)


def _table(chunk: str, line: int) -> Table:
    header: tuple[str, ...] = ()
    rows: list[ReportRow] = []
    starts = [match.start() for match in _ROW.finditer(chunk)]
    counted = 0
    for start, end in pairwise([*starts, len(chunk)]):
        line += chunk.count("\n", counted, start)
        counted = start
        closed = _ROW_END.search(chunk, start, end)
        cells, heading = _row(chunk[start : closed.start() if closed else end])
        if heading and not rows:
            header = tuple(plain(cell) for cell in cells)
        elif cells:
            rows.append(ReportRow(line, cells))
    if not header and rows:
        header = tuple(plain(cell) for cell in rows[0].cells)
    return Table(header, tuple(rows))


def _row(chunk: str) -> tuple[tuple[str, ...], bool]:
    """The cells, and whether all are of a heading; none for a row in which the file is cut."""
    found = list(_CELL.finditer(chunk))
    cells: list[str] = []
    for match, following in zip(found, [*found[1:], None], strict=False):
        end = following.start() if following else len(chunk)
        closed = _CELL_END.search(chunk, match.end(), end)
        if closed is None and following is None:
            return (), False
        inner = chunk[match.end() : closed.start() if closed else end]
        cells.append(" ".join(html.unescape(_TAG.sub("", inner)).split()))
    # The empty corners of a heading of two rows are ordinary cells.
    return tuple(cells), any(match[1] in "hH" for match in found)
