"""CSV of CloudWatch: the console's download, and data points with a column for each statistic."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import TypeAlias

from blocklab.formats.clock import Stamp, stamp
from blocklab.formats.database.cloudwatch.metrics import METRIC, STATISTICS, Collected, choose, stated
from blocklab.formats.found import Found, Points
from blocklab.formats.json_documents import number
from blocklab.formats.text import Bad, Refused, Text

# 2024/05/01 10:00:00   2024-05-01T10:00:00Z   05/01/2024 10:00
_CLOCK_TIME = re.compile(r"\d[T ]\d{1,2}:\d\d")
_NO_SECONDS = re.compile(r"([T ]\d{1,2}:\d\d)(?=$| ?[AaPp][Mm]$|Z$|[+-]\d\d:?\d\d$)")
_TIME_COLUMN = re.compile(r"time|date", re.IGNORECASE)
_HEAD_LINES, _SAMPLE, _LONGEST = 40, 4096, 4000
# Line, time and cells.
_Table: TypeAlias = list[tuple[int, Stamp, list[str]]]


def fits(head: str) -> bool:
    """Whether this is CSV with a known metric in its header, or of the data points of one."""
    if head.lstrip()[:1] in ("{", "["):
        return False
    lines = [line[:_LONGEST] for line in head.split("\n")[:_HEAD_LINES]]
    top = "\n".join(lines)
    known = METRIC.search(top) is not None or re.search(r"\bTimestamp\b.*\b(?:Sum|Average)\b", top) is not None
    rows = [_cells(line, _delimiter(top)) for line in lines]
    return known and any(len(row) > 1 and any(_time(cell) for cell in row) for row in rows)


def _delimiter(text: str) -> str:
    counts = {each: text.count(each) for each in (",", ";", "\t")}
    return ";" if counts[";"] > counts[","] / 2 and counts[";"] else max(counts, key=lambda each: counts[each])


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def _time(cell: str) -> Stamp | None:
    if not _CLOCK_TIME.search(cell) and not cell.isdigit():
        return None
    return stamp(_NO_SECONDS.sub(r"\1:00", cell)) if len(cell) < 60 else None


def read(text: Text) -> Found:
    """CSV: a column of times and one for each metric, whose header rows tell label, statistic and
    period (the console's download); or the data points of one metric, with a column for each statistic.

    Raises ``Refused`` for a file without usable data points.
    """
    got = Collected(text, "cloudwatch-csv")
    delimiter = _delimiter("\n".join(text.lines)[:_SAMPLE])
    head: list[list[str]] = []
    rows: _Table = []
    for line_number, line in enumerate(text.lines, 1):
        cells = _cells(line[:100_000], delimiter)
        at = next((each for each in map(_time, cells[:3]) if each is not None), None)
        if at is not None:
            rows.append((line_number, at, cells))
        elif not rows:
            head.append(cells)
        elif line.strip():
            got.bad.append(Bad(line_number, line[:200]))
    if text.cut.strip():
        got.bad.append(Bad(len(text.lines) + 1, text.cut[:200]))
    if not rows or not head:
        raise Refused("CSV of CloudWatch, but without a row of data under a header")
    # Also of rows without a value: they may tell the order of day and month.
    got.places = {at: place for place, at in enumerate(dict.fromkeys(at for _, at, _ in rows))}
    header = head[-1]
    if any(name in header for name in ("Sum", "Average")) and _TIME_COLUMN.search(header[0]):
        _long(got, header, rows)
    else:
        _wide(got, head, rows)
    return got.done()


def _wide(got: Collected, head: Sequence[Sequence[str]], table: _Table) -> None:
    """One metric a column."""
    width = max(len(row) for row in head)
    for column in range(1, width):
        cells = [(row[0].lower(), row[column]) for row in head if len(row) > column and row[column]]
        if not cells:
            continue
        texts = [value for _, value in cells]
        known = got.points(*reversed(texts))
        if known is None:
            continue
        period = next((number(value) for name, value in cells if "period" in name), None)
        known.period = period or None
        for line, at, row in table:
            if len(row) > column and row[column]:
                known.line = known.line or line
                got.put(known, at, _amount(row[column]), line, (_written(row), row[column]))
        got.every.append(known)


def _long(got: Collected, header: Sequence[str], table: _Table) -> None:
    """One statistic a column; what else there is in a row names the metric and the volume."""
    places = {name: header.index(name) for name in STATISTICS if name in header}
    by: dict[tuple[str, ...], Points | None] = {}
    names = [place for place, name in enumerate(header) if place not in places.values() and name != "Unit"]
    names = [place for place in names if not _TIME_COLUMN.search(header[place])]
    for line, at, row in table:
        labels = tuple(row[place] for place in names if place < len(row))
        if labels not in by:
            by[labels] = got.points(*labels) if labels else got.points("")
            known = by[labels]
            if known is not None:
                choose(known, set(places))
                known.line = line
        known = by[labels]
        column = next((places[name] for name in places if known and stated(name) == known.statistic), None)
        if known is None or column is None or column >= len(row):
            continue
        put = got.put(known, at, _amount(row[column]), line, (_written(row), row[column]))
        counted = places.get("SampleCount")
        if put is not None and counted is not None and counted < len(row):
            known.counts[put] = _amount(row[counted]) or 0.0
    got.every += [known for known in by.values() if known is not None]


def _amount(cell: str) -> float | None:
    """A number, also with a decimal comma (where another character parts the columns)."""
    return number(re.sub(r"^(\d+),(\d+)$", r"\1.\2", cell))


def _written(row: Sequence[str]) -> str:
    """The time of a row as it stands there."""
    return next((cell for cell in row[:3] if _time(cell) is not None), "")
