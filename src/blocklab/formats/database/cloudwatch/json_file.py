"""JSON of ``aws cloudwatch get-metric-data`` and ``get-metric-statistics``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from blocklab.formats.clock import Stamp, stamp
from blocklab.formats.database.cloudwatch.metrics import STATISTICS, Collected, choose, stated
from blocklab.formats.found import Found
from blocklab.formats.json_documents import can_be, documents, line_at, objects
from blocklab.formats.text import Bad, Text

_RESULTS = re.compile(r'"(?P<what>MetricDataResults|Datapoints)"\s*:\s*\[')
_LABEL = re.compile(r'"Label"\s*:\s*"([^"]{0,500})"')


def fits(head: str) -> bool:
    """Whether this is what ``aws cloudwatch get-metric-data`` or ``get-metric-statistics`` prints."""
    return head.lstrip()[:1] in ("{", "[") and ('"MetricDataResults"' in head or '"Datapoints"' in head)


def read(text: Text) -> Found:
    """What the CLI printed once or several times. Where the queries of ``get-metric-data`` stand in
    the file too they tell metric, volume, period and statistic of each result.

    Raises ``Refused`` for a file without usable data points.
    """
    whole = text.text + text.cut
    got = Collected(text, "cloudwatch-json")
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
    return got.done()


def _tables(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The objects of a document that hold a query or results, at most a few levels down."""
    if isinstance(value, dict):
        yield value
    if depth < 4 and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                yield from _tables(each, depth + 1)


def _cut(whole: str, at: int, got: Collected) -> Iterator[tuple[Mapping[str, Any], int]]:
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


def _data(got: Collected, result: Mapping[str, Any], query: Mapping[str, Any] | None, line: int) -> None:
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
        got.put(known, _epoch(when), can_be(value), line, (str(when), str(value)))
    got.every.append(known)


def _dimension(metric: Any, name: str) -> str:
    """The value of a dimension of a query; empty where it has none."""
    dimensions = metric.get("Dimensions") if isinstance(metric, dict) else None
    for each in dimensions if isinstance(dimensions, list) else ():
        if isinstance(each, dict) and each.get("Name") == name:
            return str(each.get("Value"))
    return ""


def _statistics(got: Collected, result: Mapping[str, Any], line: int) -> None:
    """What ``get-metric-statistics`` printed: each data point has every statistic that was asked for."""
    rows = [each for each in result["Datapoints"] if isinstance(each, dict)]
    known = got.points(str(result.get("Label") or ""))
    if known is None:
        return
    choose(known, {name for row in rows for name in STATISTICS if name in row})
    known.line = line
    column = next((name for name in STATISTICS if stated(name) == known.statistic), "Sum")
    for row in rows:
        when, value = row.get("Timestamp"), row.get(column)
        at = got.put(known, _epoch(when), can_be(value), line, (str(when), str(value)))
        count = can_be(row.get("SampleCount"))
        if at is not None and count is not None:
            known.counts[at] = count
    got.every.append(known)


def _epoch(when: Any) -> Stamp | None:
    """A time in seconds since the epoch."""
    if isinstance(when, int | float):
        at = can_be(when)
        return Stamp((), at, offset=0.0) if at is not None and 1e9 <= at < 1e10 else None
    parsed = stamp(str(when)) if len(str(when)) < 60 else None
    if parsed is None or (parsed.numbers and not parsed.sure):
        return None
    if not parsed.numbers:
        return Stamp((), parsed.seconds, offset=0.0) if parsed.seconds >= 1e9 else None
    if len(parsed.numbers) != 3 or not 1970 <= parsed.numbers[0] <= 2200:
        return None
    year, month, day = parsed.numbers
    try:
        start = datetime(year, month, day, tzinfo=timezone(timedelta(seconds=parsed.offset or 0.0)))
    except ValueError:
        return None
    return Stamp((), (start + timedelta(seconds=parsed.seconds)).timestamp(), offset=0.0)
