"""Cumulative counters become intervals: the difference of two snapshots, never across a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from blocklab.sizing.series import Interval, Rates, Series, Snapshot, Trust

# A server that was started less than this ago is still filling its caches.
JUST_STARTED = 1800.0
# Two clocks (the server's uptime and the time of the dump) may be this far apart, both rounded to seconds.
_ROUNDING = 5.0
# Shorter than this the rounding of times to seconds is too much of the interval.
_LEAST_SECONDS = 0.5


class Paired(msgspec.Struct, frozen=True):
    """The series that came out, and what had to be left out, with file and line."""

    series: tuple[Series, ...]
    remarks: tuple[str, ...]


def pair(snapshots: Sequence[Snapshot], *, every: float | None = None) -> Paired:
    """The series of each system and source among the snapshots.

    ``every``: seconds between snapshots that tell no time, in the order in which they are given. One snapshot
    alone is an average since the server's start where it tells its uptime, else its own short window, else
    nothing: that is said.
    """
    groups: dict[tuple[str, str, str, str], list[Snapshot]] = {}
    for each in snapshots:
        groups.setdefault((each.system, each.host, each.device, each.source), []).append(each)
    series: list[Series] = []
    remarks: list[str] = []
    for group in groups.values():
        found, said = _one(group, every)
        series += [found] if found is not None else []
        remarks += said
    return Paired(tuple(series), tuple(dict.fromkeys(remarks)))


def _one(group: Sequence[Snapshot], every: float | None) -> tuple[Series | None, list[str]]:
    timed, said = _timed(group, every)
    said += [f"{_place(each)}: {remark}" for each in timed for remark in each.remarks]
    intervals = list(_intervals(timed, said))
    if intervals:
        untimed = all(each.time is None for each in group)
        return _series(timed, intervals, timed[0].trust, untimed=untimed), said
    return _alone(timed[-1], said) if timed else None, said


def _alone(last: Snapshot, said: list[str]) -> Series | None:
    """What a single usable snapshot is good for."""
    if last.uptime and last.counters:
        end = last.time if last.time is not None else last.uptime
        interval = _difference(last, dict.fromkeys(last.counters, 0.0), last.uptime, end - last.uptime, said)
        if last.uptime < JUST_STARTED:
            said.append(
                f"{_place(last)}: the server was started {last.uptime / 60:.0f} min before: its caches are cold, "
                "this is no ordinary load"
            )
        said.append(f"{_place(last)}: one dump only, an average since the server's start; take a second one later")
        return _series([last], [interval], last.trust, untimed=last.time is None, since_start=True)
    if last.window is not None:
        said += [f"{last.file}: {remark}" for remark in last.window_remarks]
        said.append(
            f"{_place(last)}: one dump only: its own averages of the last {last.window.seconds:.0f} s; take a "
            "second dump later, so that the counters between the two are used"
        )
        return _series([last], [last.window], Trust.WINDOW, untimed=last.time is None)
    said.append(
        f"{_place(last)}: one dump of counters only, and it does not tell since when they count; take a second one"
    )
    return None


def _timed(group: Sequence[Snapshot], every: float | None) -> tuple[list[Snapshot], list[str]]:
    """In the order of time, each moment once."""
    said: list[str] = []
    known = [each for each in group if each.time is not None]
    if len(known) < len(group):
        known += _placed([each for each in group if each.time is None], every, said)
    known.sort(key=lambda each: each.time or 0.0)
    kept: list[Snapshot] = []
    for each in known:
        if kept and each.time == kept[-1].time:
            said.append(f"{_place(each)}: the same moment as {_place(kept[-1])}: left out")
        else:
            kept.append(each)
    return kept, said


def _placed(group: Sequence[Snapshot], every: float | None, said: list[str]) -> list[Snapshot]:
    """Snapshots without a time, put where their uptime or ``every`` says."""
    if all(each.uptime is not None for each in group):
        # Falls across a restart, where the order in which they were given holds.
        return [msgspec.structs.replace(each, time=at) for each, at in zip(group, _by_uptime(group), strict=True)]
    if every is not None:
        return [msgspec.structs.replace(each, time=every * number) for number, each in enumerate(group)]
    if len(group) > 1:
        said.append(
            f"{_place(group[0])}: {len(group)} dumps without times; say how far they are apart: --every 60s"
        )
    return [msgspec.structs.replace(group[-1], time=None)]


def _by_uptime(group: Sequence[Snapshot]) -> Iterator[float]:
    base, before = 0.0, 0.0
    for each in group:
        uptime = each.uptime or 0.0
        if uptime < before:
            base += before
        before = uptime
        yield base + uptime


def _intervals(timed: Sequence[Snapshot], said: list[str]) -> Iterator[Interval]:
    for before, after in pairwise(timed):
        if before.time is None or after.time is None:
            continue
        seconds = after.time - before.time
        if seconds < _LEAST_SECONDS:
            said.append(f"{_place(after)}: {seconds:.1f} s after {_place(before)}: too short to tell a rate")
        elif why := _restarted(before, after, seconds):
            said.append(f"{_place(after)}: {why}: what lies between {_place(before)} and it is left out")
        else:
            yield _difference(after, before.counters, seconds, before.time, said)


def _restarted(before: Snapshot, after: Snapshot, seconds: float) -> str:
    fell = [name for name, value in after.counters.items() if value < before.counters.get(name, 0.0)]
    if fell:
        return f"its counters fell ({', '.join(fell)}): the server was restarted, or its statistics were reset"
    if before.uptime is not None and after.uptime is not None and after.uptime < seconds - _ROUNDING:
        return f"the server was restarted {after.uptime:.0f} s before"
    if _apart(before.counting_since, after.counting_since):
        return "its statistics were reset"
    return ""


def _apart(one: float | None, other: float | None) -> bool:
    """Whether two moments, worked out from times and uptimes in whole seconds, are not the same."""
    if one is None or other is None:
        return one is not other
    return abs(one - other) > _ROUNDING


def _difference(
    after: Snapshot, before: Mapping[str, float], seconds: float, start: float, said: list[str]
) -> Interval:
    device = after.model({name: value - before[name] for name, value in after.counters.items() if name in before})
    said += [f"{after.file}: {remark}" for remark in device.remarks]
    moved = device.counters

    def rate(name: str) -> float | None:
        return moved[name] / seconds if name in moved else None

    def latency(way: str) -> float | None:
        count, took = moved.get(f"{way}s"), moved.get(f"{way}_seconds")
        return took / count if count and took is not None else None

    return Interval(
        start=start, seconds=seconds, line=after.line,
        rates=Rates(**{name: rate(name) for name in Rates.__struct_fields__}),
        flushes=rate("flushes"), transactions=rate("transactions"),
        read_latency=latency("read"), write_latency=latency("write"),
    )  # fmt: skip


def _series(
    of: Sequence[Snapshot],
    intervals: Sequence[Interval],
    trust: Trust,
    *,
    untimed: bool,
    since_start: bool = False,
) -> Series:
    first = of[0]
    files = tuple(dict.fromkeys(each.file for each in of))
    return Series(
        system=first.system, source=first.source, trust=trust, files=files, intervals=tuple(intervals),
        host=first.host, device=first.device, product=first.product, untimed=untimed, since_start=since_start,
    )  # fmt: skip


def _place(each: Snapshot) -> str:
    return f"{each.file}:{each.line}" if each.line else str(each.file)
