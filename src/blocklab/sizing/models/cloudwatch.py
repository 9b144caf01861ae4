"""CloudWatch metrics of EBS volumes, EC2 instances and RDS databases as series."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from blocklab.formats.found import Found, Points
from blocklab.formats.json_documents import can_be
from blocklab.formats.text import Refused
from blocklab.sizing.devices import INSTANCES, VOLUMES
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Interval, Rates, Series, Statistics, Trust

DATABASES = "CloudWatch RDS"
# Metrics by their names in lower case.
_VOLUME = {
    "volumereadops": "reads", "volumewriteops": "writes", "volumereadbytes": "read_bytes",
    "volumewritebytes": "write_bytes", "volumetotalreadtime": "read_time", "volumetotalwritetime": "write_time",
    "volumeavgreadlatency": "read_latency", "volumeavgwritelatency": "write_latency",
}  # fmt: skip
_INSTANCE = {
    "ebsreadops": "reads", "ebswriteops": "writes", "ebsreadbytes": "read_bytes", "ebswritebytes": "write_bytes",
}  # fmt: skip
_DATABASE = {
    "readiops": "reads", "writeiops": "writes", "readthroughput": "read_bytes", "writethroughput": "write_bytes",
    "readlatency": "read_latency", "writelatency": "write_latency",
}  # fmt: skip
_SOURCES = {
    name: (source, field)
    for source, fields in ((VOLUMES, _VOLUME), (INSTANCES, _INSTANCE), (DATABASES, _DATABASE))
    for name, field in fields.items()
}
_RATES = ("reads", "writes", "read_bytes", "write_bytes")
# So many different whole numbers are no averages: those have fractions.
_WHOLE = 4
_MINUTE = 60
# So many steps of one length are the period.
_SURE = 5
_CLI = "aws cloudwatch get-metric-statistics --statistics Sum --period 300 ..."


class Timed(Interval, frozen=True, kw_only=True):
    """``read_time``, ``write_time``: seconds that all requests of a second took, until their number is known."""

    read_time: float | None = None
    write_time: float | None = None


class _Metric(msgspec.Struct, kw_only=True):
    """A metric with its times known: ``values`` and ``counts`` by seconds since the epoch."""

    of: Points
    system: str
    device: str
    values: dict[float, float]
    counts: dict[float, float]

    @property
    def metric(self) -> str:
        return self.of.metric


def statistics(found: Found, reading: Reading) -> Statistics:
    """The series of each volume, instance or database. Raises ``Refused`` where nothing is left, and
    ``StudyError`` for dates that may mean several days."""
    assert found.clock is not None
    times, remarks = reading.times(found.clock, found.path)
    every = [
        _Metric(
            of=each, system=each.system, device=each.device, values=_at(each.values, times),
            counts=_at(each.counts, times),
        )
        for each in found.points
    ]  # fmt: skip
    usual = _period([each for each in every if each.values])
    why: list[str] = []
    tables: dict[tuple[str, str, str, float], dict[float, dict[str, float]]] = {}
    lines: dict[tuple[str, str, str, float], int] = {}
    twice: Counter[str] = Counter()
    for each in _told_apart(every, remarks):
        source, field = _SOURCES[each.metric.lower()]
        period = each.of.period or _own_period(each, usual)
        if not each.values or period is None:
            why.append(
                f"{each.metric}: " + ("one data point: its period is not known; ask for a longer time"
                                      if each.values else "no data points")
            )  # fmt: skip
            continue
        if each.of.period is None:
            remarks.append(f"the period is not reported: {period:g} s, the step of its times")
        key = (source, each.system, each.device if source == VOLUMES else "", period)
        lines.setdefault(key, each.of.line)
        table = tables.setdefault(key, {})
        for at, value in _rates(each, period, remarks, why).items():
            row = table.setdefault(at, {})
            if row.setdefault(field, value) != value:
                twice[each.metric] += 1
    remarks += [f"left out: {each}" for each in dict.fromkeys(why)]
    remarks += [
        f"{metric}: {count} data points of a time that was there with another value: left out"
        for metric, count in twice.items()
    ]  # fmt: skip
    series = [_one(key, table, found.path, lines[key], remarks) for key, table in tables.items() if table]
    if {key[2] for key in tables if key[0] == VOLUMES} == {""}:
        remarks.append(
            "no volume is named: taken for one volume; name it (vol-...) in the label or the file's name"
        )
    if not series:
        raise Refused("; ".join(list(dict.fromkeys(why))[:3]) or "no data points of a metric of block storage")
    return Statistics(series=tuple(series), remarks=tuple(dict.fromkeys(remarks)))


def _at(values: Mapping[int, float], times: Sequence[float | None]) -> dict[float, float]:
    """By the times that are known."""
    return {at: value for place, value in values.items() if (at := times[place]) is not None}


def _told_apart(every: Sequence[_Metric], remarks: list[str]) -> Iterator[_Metric]:
    """Each with a name. Two results of one metric and one name that differ at one time are of two volumes (or
    instances, or databases) whose labels do not name them: none may be left out, for all of them do I/O."""
    known: dict[tuple[str, str, str], list[_Metric]] = {}
    for each in every:
        alike = known.setdefault((each.metric.lower(), each.system, each.device), [])
        number = next((at for at, other in enumerate(alike) if _agree(each, other)), len(alike))
        if number == len(alike):
            alike.append(each)
        if number == 0:
            yield each
            continue
        volumes = _SOURCES[each.metric.lower()][0] == VOLUMES
        remarks.append(
            f"{each.metric}: {len(alike)} results that differ at the same time: taken for as many volumes; name "
            "them (vol-...) in their labels"
            if volumes
            else f"{each.metric}: {len(alike)} results that differ at the same time: taken for as many systems; "
            "name them in their labels"
        )
        name = f"{each.device if volumes else each.system} {number + 1}".strip()
        yield msgspec.structs.replace(each, **{"device" if volumes else "system": name})


def _agree(one: _Metric, other: _Metric) -> bool:
    """Whether both may be of one thing: by another statistic, or without two values of one time."""
    if one.of.statistic != other.of.statistic:
        return True
    return all(other.values.get(at, value) == value for at, value in one.values.items())


def _steps(every: Sequence[_Metric]) -> Counter[float]:
    steps: Counter[float] = Counter()
    for each in every:
        steps.update(after - before for before, after in pairwise(sorted(each.values)))
    return steps


def _period(every: Sequence[_Metric]) -> float | None:
    """What all steps are whole numbers of, since data points may be missing; where that is no period of CloudWatch
    (whole minutes) the step that is there most often. None for single points."""
    steps = _steps(every)
    if not steps:
        return None
    if all(step.is_integer() for step in steps) and (common := math.gcd(*map(int, steps))) % _MINUTE == 0:
        return float(common)
    most = max(steps.values())
    return min(step for step, count in steps.items() if count == most)


def _own_period(each: _Metric, usual: float | None) -> float | None:
    """That of one metric. With few steps, or uneven ones, it is that of the file."""
    steps = _steps([each])
    alike = len(steps) == 1 and sum(steps.values()) >= _SURE
    if usual is not None and not alike and all(step % usual == 0 for step in steps):
        return usual
    return _period([each]) or usual


def _rates(each: _Metric, period: float, remarks: list[str], why: list[str]) -> dict[float, float]:
    """The values per second (latencies in s), by the start of their period; empty where the statistic is none of
    use: why goes to ``why``."""
    values = each.values
    if not each.of.summed:
        if each.of.statistic in ("sum", "minimum", "samplecount"):
            why.append(
                f"{each.metric} is a rate: its {each.of.statistic} means nothing; ask for --statistics Average"
            )
            return {}
        if each.of.statistic != "average":
            remarks.append(
                f"{each.metric}: its statistic is {each.of.statistic or 'not reported: read as the average'}"
            )
        return dict(values)
    if each.of.statistic == "average" and each.counts:
        values = {at: value * each.counts[at] for at, value in values.items() if at in each.counts}
    elif each.of.statistic not in ("", "sum"):
        why.append(
            f"{each.metric}: its {each.of.statistic} is not that of a period but of one operation or data point; "
            f"ask for sums: {_CLI}"
        )
        return {}
    elif not each.of.statistic and not _whole(each, remarks, why):
        return {}
    return {at: value / period for at, value in values.items()}


def _whole(each: _Metric, remarks: list[str], why: list[str]) -> bool:
    """Whether values without a statistic are sums: many different whole numbers, or nothing but 0."""
    different = {value for value in each.values.values() if value}
    times = each.metric.lower().startswith("volumetotal")
    if different and (times or len(different) < _WHOLE or any(not value.is_integer() for value in different)):
        why.append(
            f"{each.metric}: its statistic is not reported and it may be an average; put it into the label "
            f"(${{PROP('Dim.VolumeId')}} ${{PROP('MetricName')}} ${{PROP('Stat')}}), or use {_CLI}"
        )
        return False
    remarks.append(f"{each.metric}: its statistic is not reported; whole numbers, so read as the sum")
    return True


def _one(
    key: tuple[str, str, str, float],
    table: Mapping[float, dict[str, float]],
    path: Path,
    line: int,
    remarks: list[str],
) -> Series:
    source, system, device, period = key
    intervals: list[Interval] = []
    early = 0
    for at in sorted(table):
        if intervals and at < intervals[-1].end - 1e-6:
            early += 1
            continue
        intervals.append(_finished(_interval(at, period, table[at], line)))
    name = device or system
    if early:
        remarks.append(f"{name or source}: {early} data points within the period of the one before: left out")
    fields = {field for row in table.values() for field in row}
    if fields and not fields & set(_RATES):
        remarks.append(f"{name or source}: times only; they need the operations of the same volume beside them")
    return Series(
        system=system, source=source, trust=Trust.DEVICE, files=(path,), intervals=tuple(intervals), device=device
    )


def _interval(at: float, period: float, row: Mapping[str, float], line: int) -> Timed:
    return Timed(
        start=at, seconds=period, line=line, rates=Rates(**{name: row.get(name) for name in _RATES}),
        read_latency=row.get("read_latency"), write_latency=row.get("write_latency"),
        read_time=row.get("read_time"), write_time=row.get("write_time"),
    )  # fmt: skip


def _finished(one: Timed) -> Timed:
    """With the latencies that total times and operations give."""
    rates = one.rates
    reading, writing = one.read_latency, one.write_latency
    if reading is None and one.read_time is not None and rates.reads:
        reading = can_be(one.read_time / rates.reads)
    if writing is None and one.write_time is not None and rates.writes:
        writing = can_be(one.write_time / rates.writes)
    if (reading, writing) == (one.read_latency, one.write_latency):
        return one
    return msgspec.structs.replace(one, read_latency=reading, write_latency=writing)


def merge(series: Sequence[Series]) -> list[Series]:
    """CloudWatch's metrics of one volume, instance or database out of several files put together; all other series
    are passed on as they are, in their order.

    Series of one source, system and device with periods of one length are joined, each moment's rates filled in.
    Two that tell the same rate of one time differently are not of one volume: they stay apart.
    """
    found: list[Series] = []
    places: dict[tuple[str, str, str, str, float], list[int]] = {}
    for one in series:
        if not one.source.startswith("CloudWatch") or not one.intervals:
            found.append(one)
            continue
        key = (one.source, one.system, one.device, one.instance, one.intervals[0].seconds)
        for place in places.setdefault(key, []):
            joined = _joined(found[place], one)
            if joined is not None:
                found[place] = joined
                break
        else:
            places[key].append(len(found))
            found.append(one)
    return [one for one in found if not _idle(one)]


def _idle(one: Series) -> bool:
    """A volume's times without the operations that they are of."""
    return one.source.startswith("CloudWatch") and all(each.rates == Rates() for each in one.intervals)


def _joined(first: Series, second: Series) -> Series | None:
    """Both in one; None where they contradict each other."""
    by: dict[float, Interval] = {each.start: each for each in first.intervals}
    for each in second.intervals:
        mine = by.get(each.start)
        filled = each if mine is None else _filled(mine, each)
        if filled is None:
            return None
        by[each.start] = filled
    return msgspec.structs.replace(
        first, intervals=tuple(_apart(by)), files=tuple(dict.fromkeys([*first.files, *second.files])),
        remarks=tuple(dict.fromkeys([*first.remarks, *second.remarks])),
    )  # fmt: skip


def _apart(by: Mapping[float, Interval]) -> Iterator[Interval]:
    """In order, without those that begin within another."""
    end = float("-inf")
    for at in sorted(by):
        if at >= end - 1e-6:
            end = by[at].end
            yield by[at]


def _filled(first: Interval, second: Interval) -> Interval | None:
    rates = {}
    for name in _RATES:
        a, b = getattr(first.rates, name), getattr(second.rates, name)
        if a is not None and b is not None and a != b:
            return None
        rates[name] = b if a is None else a
    rest = {}
    for name in ("read_latency", "write_latency", "read_time", "write_time"):
        a, b = getattr(first, name, None), getattr(second, name, None)
        rest[name] = b if a is None else a
    one = Timed(
        start=first.start, seconds=first.seconds, rates=Rates(**rates), flushes=first.flushes,
        transactions=first.transactions, parts=first.parts, line=first.line, **rest,
    )  # fmt: skip
    return _finished(one)
