"""The files that CloudWatch's metrics come in: JSON of ``aws cloudwatch``, and CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from blocklab.errors import StudyError
from blocklab.formats.clock import Clock, Stamp, resolve, stamp
from blocklab.formats.json_documents import can_be, documents, line_at, number, objects
from blocklab.formats.text import Bad, Refused, Text
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.cloudwatch import METRIC, Points, described, found, of_path, stated
from blocklab.sizing.series import Statistics

_STATISTICS = ("Sum", "Average", "SampleCount", "Maximum", "Minimum")
_RESULTS = re.compile(r'"(?P<what>MetricDataResults|Datapoints)"\s*:\s*\[')
_LABEL = re.compile(r'"Label"\s*:\s*"([^"]{0,500})"')
# 2024/05/01 10:00:00   2024-05-01T10:00:00Z   05/01/2024 10:00
_CLOCK_TIME = re.compile(r"\d[T ]\d{1,2}:\d\d")
_NO_SECONDS = re.compile(r"([T ]\d{1,2}:\d\d)(?=$| ?[AaPp][Mm]$|Z$|[+-]\d\d:?\d\d$)")
_TIME_COLUMN = re.compile(r"time|date", re.IGNORECASE)
_HEAD_LINES, _SAMPLE, _LONGEST = 40, 4096, 4000


def fits_json(head: str) -> bool:
    """Whether this is what ``aws cloudwatch get-metric-data`` or ``get-metric-statistics`` prints."""
    return head.lstrip()[:1] in ("{", "[") and ('"MetricDataResults"' in head or '"Datapoints"' in head)


def fits_csv(head: str) -> bool:
    """Whether this is CSV with a known metric in its header, or of the data points of one."""
    if head.lstrip()[:1] in ("{", "["):
        return False
    lines = [line[:_LONGEST] for line in head.split("\n")[:_HEAD_LINES]]
    top = "\n".join(lines)
    known = METRIC.search(top) is not None or re.search(r"\bTimestamp\b.*\b(?:Sum|Average)\b", top) is not None
    rows = [_cells(line, _delimiter(top)) for line in lines]
    return known and any(len(row) > 1 and any(_time(cell) for cell in row) for row in rows)


class _Got:
    """The metrics that were read, by what tells them apart, and what could not be used."""

    def __init__(self, text: Text) -> None:
        self.every: list[Points] = []
        self.bad: list[Bad] = []
        self.remarks = list(text.remarks)
        self.unknown: list[str] = []
        self.path = of_path(text.path)

    def points(self, *labels: str) -> Points | None:
        """A metric by its labels, else by the file's name."""
        known = described(*labels)
        if known is None and any(METRIC.search(label) for label in self.path) and not _others(labels):
            known = described(*labels, *self.path)
        if known is None:
            self.unknown.append(next((label for label in labels if label), "?")[:60])
            return None
        if not known.device and known.metric.lower().startswith("volume"):
            other = described(known.metric, *self.path)
            known.device = other.device if other else ""
        return known

    def done(self, text: Text) -> Statistics:
        """The series. Raises ``Refused`` without any."""
        if self.unknown:
            names = ", ".join(dict.fromkeys(self.unknown[:6]))
            self.remarks.append(f"no metric of what is sized: {names}: left out")
        if not self.every:
            raise Refused(
                "no metric of EBS (VolumeReadOps, VolumeWriteOps, VolumeReadBytes, ...), EC2 or RDS in it"
                + (f": {', '.join(dict.fromkeys(self.unknown[:3]))}" if self.unknown else "")
            )
        return found(self.every, text.path, self.remarks, self.bad)


def _others(labels: Sequence[str]) -> bool:
    """Whether labels name a metric that is none of ours, as CloudWatch writes it: BurstBalance."""
    return any(re.search(r"[A-Z][a-z]+[A-Z]", label) for label in labels)


def read_json(text: Text, reading: Reading) -> Statistics:
    """The series of what the CLI printed once or several times. Where the queries of ``get-metric-data`` stand in
    the file too they tell metric, volume, period and statistic of each result.

    Raises ``Refused`` for a file without usable data points.
    """
    whole = text.text + text.cut
    got = _Got(text)
    queries: dict[str, Mapping[str, Any]] = {}
    results: list[tuple[Mapping[str, Any], int]] = []
    for at, document in documents(whole):
        line = line_at(whole, at)
        if document is None:
            results += _cut(whole, at, got)
        for each in _tables(document):
            if isinstance(each.get("MetricStat"), dict):
                queries[str(each.get("Id"))] = each
            elif isinstance(each.get("Timestamps"), list) or isinstance(each.get("Datapoints"), list):
                results.append((each, line))
    for result, line in results:
        if "Datapoints" in result:
            _statistics(got, result, line)
        else:
            _data(got, result, queries.get(str(result.get("Id"))), line)
    return got.done(text)


def _tables(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The objects of a document that hold a query or results, at most a few levels down."""
    if isinstance(value, dict):
        yield value
    if depth < 4 and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                yield from _tables(each, depth + 1)


def _cut(whole: str, at: int, got: _Got) -> Iterator[tuple[Mapping[str, Any], int]]:
    """The whole results or data points of a document that is cut or damaged."""
    match = _RESULTS.search(whole, at)
    if match is None:
        got.bad.append(Bad(line_at(whole, at), whole[at : at + 80].split("\n")[0]))
        return
    label = _LABEL.search(whole, at)
    kept: list[Any] = []
    for place, value in objects(whole, match.end()):
        if isinstance(value, dict):
            kept.append((value, line_at(whole, place)))
        else:
            got.bad.append(
                Bad(line_at(whole, place), whole[place : place + 80].split("\n")[0] or "the end is missing")
            )
            break
    if match["what"] == "Datapoints":
        values = [value for value, _ in kept]
        yield {"Label": label[1] if label else "", "Datapoints": values}, line_at(whole, at)
    else:
        yield from kept


def _data(got: _Got, result: Mapping[str, Any], query: Mapping[str, Any] | None, line: int) -> None:
    """One of ``MetricDataResults``."""
    times, values = result.get("Timestamps"), result.get("Values")
    labels = [str(result.get("Label") or ""), str(result.get("Id") or "")]
    asked = query.get("MetricStat") if query else None
    metric = asked.get("Metric") if isinstance(asked, dict) else None
    if isinstance(asked, dict) and isinstance(metric, dict):
        named = [_dimension(metric, name) for name in ("VolumeId", "InstanceId")]
        labels = [str(metric.get("MetricName")), *named, *labels]
    known = got.points(*labels)
    if known is None:
        return
    if isinstance(asked, dict):
        known.statistic = stated(str(asked.get("Stat") or known.statistic))
        known.period = can_be(asked.get("Period")) or None
        known.system = known.system or _dimension(metric, "DBInstanceIdentifier")
    known.line = line
    if not isinstance(times, list) or not isinstance(values, list) or len(times) != len(values):
        got.bad.append(Bad(line, f"{known.metric}: as many times as values are needed"))
        return
    for when, value in zip(times, values, strict=True):
        _put(got, known, when, value, line)
    got.every.append(known)


def _dimension(metric: Any, name: str) -> str:
    """The value of a dimension of a query; empty where it has none."""
    dimensions = metric.get("Dimensions") if isinstance(metric, dict) else None
    for each in dimensions if isinstance(dimensions, list) else ():
        if isinstance(each, dict) and each.get("Name") == name:
            return str(each.get("Value"))
    return ""


def _statistics(got: _Got, result: Mapping[str, Any], line: int) -> None:
    """What ``get-metric-statistics`` printed: each data point has every statistic that was asked for."""
    rows = [each for each in result["Datapoints"] if isinstance(each, dict)]
    known = got.points(str(result.get("Label") or ""))
    if known is None:
        return
    _choose(known, {name for row in rows for name in _STATISTICS if name in row})
    known.line = line
    column = next((name for name in _STATISTICS if stated(name) == known.statistic), "Sum")
    for row in rows:
        at = _put(got, known, row.get("Timestamp"), row.get(column), line)
        count = can_be(row.get("SampleCount"))
        if at is not None and count is not None:
            known.counts[at] = count
    got.every.append(known)


def _choose(known: Points, there: set[str]) -> None:
    """The statistic that means something, of those that are there."""
    summed = known.metric.lower().startswith(("volumeread", "volumewrite", "volumetotal", "ebs"))
    for name in ("Sum", "Average") if summed else ("Average", "Maximum"):
        if name in there:
            known.statistic = stated(name)
            return
    known.statistic = stated(min(there)) if there else ""


def _put(got: _Got, known: Points, when: Any, value: Any, line: int) -> float | None:
    """One data point. CloudWatch's times are of a zone that they name, or seconds since the epoch."""
    at = _epoch(when)
    amount = can_be(value)
    if at is None or amount is None:
        got.bad.append(Bad(line, f"{known.metric}: {str(when)[:40]} {str(value)[:40]}"))
        return None
    if known.values.setdefault(at, amount) != amount:
        got.bad.append(Bad(line, f"{known.metric}: {str(when)[:40]} comes twice, with {amount:g} too"))
        return None
    return at


def _epoch(when: Any) -> float | None:
    if isinstance(when, int | float):
        at = can_be(when)
        return at if at is not None and 1e9 <= at < 1e10 else None
    parsed = stamp(str(when)) if len(str(when)) < 60 else None
    if parsed is None or (parsed.numbers and not parsed.sure):
        return None
    if parsed.offset is None:
        parsed = Stamp(parsed.numbers, parsed.seconds, parsed.sure, 0.0)
    if not parsed.numbers and parsed.seconds < 1e9:
        return None
    clock = Clock((parsed,))
    if parsed.numbers and not 1970 <= parsed.numbers[0] <= 2200:
        return None
    try:
        return resolve(clock, "", zone=UTC, order="ymd", anchors=())[0][0]
    except StudyError:
        return None


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


def read_csv(text: Text, reading: Reading) -> Statistics:
    """The series of CSV: a column of times and one for each metric, whose header rows tell label, statistic and
    period (the console's download); or the data points of one metric, with a column for each statistic.

    Raises ``Refused`` for a file without usable data points, ``StudyError`` for dates that may mean several days.
    """
    got = _Got(text)
    delimiter = _delimiter("\n".join(text.lines)[:_SAMPLE])
    head: list[list[str]] = []
    rows: list[tuple[int, Stamp, list[str]]] = []
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
    clock = Clock(tuple(at for _, at, _ in rows))
    times, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    got.remarks += said
    header = head[-1]
    table = [(line, at, row) for (line, _, row), at in zip(rows, times, strict=True) if at is not None]
    if any(name in header for name in ("Sum", "Average")) and _TIME_COLUMN.search(header[0]):
        _long(got, header, table)
    else:
        _wide(got, head, table)
    return got.done(text)


_Table = list[tuple[int, float, list[str]]]


def _wide(got: _Got, head: Sequence[Sequence[str]], table: _Table) -> None:
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
                _put(got, known, at, _amount(row[column]), line)
        got.every.append(known)


def _long(got: _Got, header: Sequence[str], table: _Table) -> None:
    """One statistic a column; what else there is in a row names the metric and the volume."""
    places = {name: header.index(name) for name in _STATISTICS if name in header}
    by: dict[tuple[str, ...], Points | None] = {}
    names = [place for place, name in enumerate(header) if place not in places.values() and name != "Unit"]
    names = [place for place in names if not _TIME_COLUMN.search(header[place])]
    for line, at, row in table:
        labels = tuple(row[place] for place in names if place < len(row))
        if labels not in by:
            by[labels] = got.points(*labels) if labels else got.points("")
            known = by[labels]
            if known is not None:
                _choose(known, set(places))
                known.line = line
        known = by[labels]
        column = next((places[name] for name in places if known and stated(name) == known.statistic), None)
        if known is None or column is None or column >= len(row):
            continue
        put = _put(got, known, at, _amount(row[column]), line)
        counted = places.get("SampleCount")
        if put is not None and counted is not None and counted < len(row):
            known.counts[put] = _amount(row[counted]) or 0.0
    got.every += [known for known in by.values() if known is not None]


def _amount(cell: str) -> float | None:
    """A number, also with a decimal comma (where another character parts the columns)."""
    return number(re.sub(r"^(\d+),(\d+)$", r"\1.\2", cell))


KINDS: Mapping[str, Kind] = {
    "cloudwatch-json": Kind("aws cloudwatch get-metric-data or get-metric-statistics", fits_json, read_json),
    "cloudwatch-csv": Kind("CloudWatch CSV", fits_csv, read_csv),
}
"""The kinds of this module by name."""
