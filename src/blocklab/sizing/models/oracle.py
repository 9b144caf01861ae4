"""What one Oracle report tells about I/O: rates, their parts, latencies, commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from blocklab.formats.database.oracle.reports import AGAIN, SLACK
from blocklab.formats.database.oracle.sections import (
    BLOCKS,
    MIB,
    NEAR,
    OWN,
    READ_WAITS,
    ROUNDED,
    TOTALS,
    WAYS,
    WRITE_WAITS,
)
from blocklab.formats.found import Found, Period
from blocklab.formats.text import Refused
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Interval, Rates, Series, Statistics, Trust, implausible

_SOURCES = {"statspack": "Statspack"}
_SLACK_SHARE = 0.01
_CLOCK_CHANGE = 3600.0
# Below this a rate is too rounded to be judged.
_JUDGED_REQUESTS, _JUDGED_BYTES = 0.5, 0.5 * MIB
Sections: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """``remarks`` say where each comes from, and what is left out for which reason."""

    rates: Rates
    parts: Mapping[str, Rates]
    flushes: float | None
    transactions: float | None
    read_latency: float | None
    write_latency: float | None
    remarks: tuple[str, ...]


def statistics(found: Found, reading: Reading) -> Statistics:
    """The series of each report. Raises ``Refused`` where none can be used."""
    series: list[Series] = []
    remarks: list[str] = []
    refused: list[Refused] = []
    for period in found.periods:
        try:
            one = _series(found, period, reading)
        except Refused as error:
            refused.append(error)
            remarks.append(f"the report in line {period.line} is left out: {error}")
            continue
        if any(_same(one, each) for each in series):
            remarks.append(f"the report in line {period.line} is there twice: it is counted once")
        else:
            series.append(one)
    if not series:
        raise Refused(found.reason) if found.reason else refused[0]
    return Statistics(series=tuple(series), remarks=tuple(remarks))


def _same(one: Series, two: Series) -> bool:
    names = (one.system, one.instance) == (two.system, two.instance)
    (first,), (second,) = one.intervals, two.intervals
    return names and (first.start, first.seconds) == (second.start, second.seconds)


def _series(found: Found, period: Period, reading: Reading) -> Series:
    if period.wrong:
        raise Refused(period.wrong)
    start, said = _start(found, period, reading)
    told = measured(period.sections)
    if told.rates == Rates():
        raise Refused(
            f"line {period.line}: it holds neither an IO Profile nor Instance Activity with physical reads; "
            + (AGAIN if period.complete else f"the report is cut off: {AGAIN}")
        )
    remarks = [*said, *period.remarks, *told.remarks]
    if not period.complete:
        remarks.append("the report is cut off: what its rest would tell is missing")
    names = period.names
    interval = Interval(
        start=start or 0.0, seconds=period.seconds, rates=told.rates, flushes=told.flushes,
        read_latency=told.read_latency, write_latency=told.write_latency, transactions=told.transactions,
        parts=told.parts, line=period.head,
    )  # fmt: skip
    return Series(
        system="/".join(each for each in (names["database"], names["container"]) if each), host=names["host"],
        source=_SOURCES.get(found.kind, "Oracle AWR"), trust=Trust.SERVER, files=(found.path,),
        instance=names["instance"], product="oracle", untimed=start is None, remarks=tuple(remarks),
        intervals=(interval,),
    )  # fmt: skip


def _start(found: Found, period: Period, reading: Reading) -> tuple[float | None, list[str]]:
    """When it began (seconds since the epoch), and what is to be said of its length. Raises ``Refused`` where its
    times contradict that."""
    begin, end = (_moment(found, place) for place in (period.start, period.end))
    if begin is None:
        return None, []
    start = begin.replace(tzinfo=reading.zone).timestamp()
    if end is None:
        return start, []
    line, seconds, minutes = period.head, period.seconds, period.seconds / 60
    between = (end - begin).total_seconds()
    slack = max(SLACK, _SLACK_SHARE * seconds)
    lasted = end.replace(tzinfo=reading.zone).timestamp() - start
    if min(abs(between - seconds), abs(lasted - seconds)) <= slack:
        return start, []
    if abs(abs(between - seconds) - _CLOCK_CHANGE) <= SLACK:
        return start, ["its times are an hour apart from its Elapsed (a change of the clock): Elapsed is taken"]
    raise Refused(
        f"line {line}: Elapsed says {minutes:,.2f} min, but its snapshots are {between / 60:,.2f} min "
        f"apart; {AGAIN}"
    )


def _moment(found: Found, place: int | None) -> datetime | None:
    """By the report's own clock."""
    if place is None or found.clock is None:
        return None
    stamp = found.clock.stamps[place]
    year, month, day = stamp.numbers
    return datetime(year, month, day) + timedelta(seconds=stamp.seconds)


def measured(sections: Sections) -> Measured:
    """All that one report tells."""
    said: list[str] = []
    counted = {name: row["rate"] for name, row in sections["statistics"].items()}
    rates = _rates(sections, counted, said)
    read_latency = _latency(sections["waits"], READ_WAITS, "read", said)
    write_latency = _latency(sections["waits"], WRITE_WAITS, "write", said)
    flushes = counted.get("redo writes")
    if flushes is not None:
        said.append(
            "Oracle counts no flushes: its redo writes are taken for them (each is synchronous); there may be more"
        )
    return Measured(
        rates=rates, parts=dict(_parts(sections, rates, said)), flushes=flushes,
        transactions=_transactions(sections, counted), read_latency=read_latency, write_latency=write_latency,
        remarks=tuple(said),
    )  # fmt: skip


def _transactions(sections: Sections, counted: Mapping[str, float]) -> float | None:
    if "user commits" in counted and "user rollbacks" in counted:
        return counted["user commits"] + counted["user rollbacks"]
    return sections["load profile"].get("transactions", {}).get("rate")


def _rates(sections: Sections, counted: Mapping[str, float], said: list[str]) -> Rates:
    totals = Rates(**{way: counted[name] for way, name in TOTALS.items() if name in counted})
    told = sections["io profile"].get("total")
    profile = Rates(**told) if told else None
    if profile is not None and (why := implausible(_judged(profile))):
        said.append(f"its IO Profile is not used: {why}")
        profile = None
    if profile is not None:
        return _exact(profile, totals, said)
    if why := implausible(_judged(totals)):
        said.append(f"its requests are left out: {why}")
        totals = Rates(read_bytes=totals.read_bytes, write_bytes=totals.write_bytes)
    if totals != Rates():
        said.append("it has no usable IO Profile: the totals of Instance Activity are used")
        return totals
    return _blocks(sections, counted, said)


def _exact(profile: Rates, totals: Rates, said: list[str]) -> Rates:
    """The profile, without its rounding where the totals of Instance Activity agree."""
    values: dict[str, float | None] = {}
    differ = False
    for way in WAYS:
        rounded, exact = getattr(profile, way), getattr(totals, way)
        unit = ROUNDED * (MIB if way.endswith("bytes") else 1.0)
        if rounded is None or exact is None:
            values[way] = rounded if exact is None else exact
            continue
        near = abs(rounded - exact) <= 0.01 * rounded + unit
        values[way] = exact if near else rounded
        differ |= not near
    if differ:
        said.append("its Instance Activity has other totals than its IO Profile: the IO Profile is used")
    return Rates(**values)


def _judged(rates: Rates) -> Rates:
    """What is large enough for bytes to be divided by requests."""
    known: dict[str, float] = {}
    for count, size in (("reads", "read_bytes"), ("writes", "write_bytes")):
        requests, data = getattr(rates, count), getattr(rates, size)
        # Hardly any data for many requests is nonsense, not rounding.
        enough = requests is not None and data is not None and requests > _JUDGED_REQUESTS
        if enough and (data > _JUDGED_BYTES or requests * 512 > _JUDGED_BYTES):
            known |= {count: requests, size: data}
    return Rates(**known)


def _blocks(sections: Sections, counted: Mapping[str, float], said: list[str]) -> Rates:
    """What Statspack of 9i and early 10g has: blocks of data files."""
    own = {way: counted[name] for way, name in OWN.items() if name in counted}
    size = sections["block"].get("block", {}).get("size")
    from_blocks = [way for way, name in BLOCKS.items() if name in counted and way not in own]
    if size:
        own |= {way: counted[BLOCKS[way]] * size for way in from_blocks}
    if own:
        said.append("it counts the I/O of data files only: redo, control files and backup are not in it")
    if from_blocks and not {"reads", "writes"} <= own.keys():
        said.append(
            "its physical reads and writes are blocks, not requests: how many requests they took is unknown"
            + ("" if size else ", and so is the size of a block")
        )
    return Rates(**own)


def _parts(sections: Sections, total: Rates, said: list[str]) -> Iterator[tuple[str, Rates]]:
    functions, files = sections["functions"], sections["filetypes"]
    by_function = "IOStat by Function is not used (backup and smart scan cannot be left out)"
    for name, rows, row, what in (
        ("backup", functions, "rman", by_function),
        ("smart scan", functions, "smart scan", by_function),
        ("temp", files, "temp file", "IOStat by Filetype is not used (temp cannot be left out)"),
    ):
        whole, part = Rates(**rows.get("total", {})), Rates(**rows.get(row, {}))
        why = implausible(_judged(whole)) or implausible(_judged(part)) or _larger(part, total)
        if why and (remark := f"its {what}: {why}") not in said:
            said.append(remark)
        if not why and any(getattr(part, way) for way in WAYS):
            yield name, part


def _larger(part: Rates, total: Rates) -> str:
    for way in WAYS:
        value, most = getattr(part, way), getattr(total, way)
        unit = ROUNDED * (MIB if way.endswith("bytes") else 1.0)
        if value is not None and most is not None and value > (1 + NEAR) * most + unit:
            return f"{value:,.0f} {way.replace('_', ' ')} a second in a part of {most:,.0f}"
    return ""


def _latency(
    rows: Mapping[str, Mapping[str, float]], events: Sequence[str], way: str, said: list[str]
) -> float | None:
    """Seconds: the mean of all waits for these events."""
    waits = {name: (row["waits"], row["mean"]) for name, row in rows.items() if name in events}
    total = sum(count for count, _ in waits.values())
    if not total:
        return None
    most = max(waits, key=lambda name: waits[name][0])
    share = waits[most][0] / total
    if len(waits) == 1:
        said.append(f"its {way} latency is the mean wait for {most!r}")
    else:
        said.append(
            f"its {way} latency is the mean of {total:,.0f} waits for {len(waits)} events, {100 * share:.0f} % of "
            f"them {most!r}"
        )
    return sum(count * each for count, each in waits.values()) / total
