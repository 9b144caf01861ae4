"""Whether a layout carries the rates that were asked of it: of each open-loop phase a verdict of three values.

===========  ==============================================================================================
verdict      when
===========  ==============================================================================================
carried      the whole 95 % interval of what was reached is at least ``ENOUGH`` of what was asked for, of all
             requests together, no kind of them clearly falls short, and latency does not still grow
not carried  the interval of all requests, or of one kind, is below that, and nothing says that it was the lab
unknown      all else: no values, failed requests, no interval, an interval around the bound, a value that
             is limited by the lab
===========  ==============================================================================================

The interval of a schedule with an exact count is that of the share that was done in time (Wilson 1927); of a
schedule of chance that of the count (Poisson), and of repeats theirs where it is wider.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Literal

import msgspec

from blocklab.model.metrics import metric as metric_of
from blocklab.model.workload import Asked, Connected, Paced
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import listed, number, percent, quantity
from blocklab.stats.values import Row

Verdict = Literal["carried", "not carried", "unknown"]

ENOUGH = 0.98
_Z = 1.96
# By so much the mean latency of the last third is above that of the first, in times and in seconds, where the line
# of requests that wait still grows.
GROWN, _GROWN_SECONDS = 3.0, 0.02
_LEAST_SERIES = 6
# So late (s) a node that keeps up with a schedule never is, on the mean.
LATE = 0.02
# A share of the mean latency from which on the node's own lateness is worth a word.
_OWN = 0.5
KINDS = {"read.iops": "reads", "write.iops": "writes", "sync.iops": "flushes", "tps": "transactions"}


class RequestKind(msgspec.Struct, frozen=True):
    """Requests of one kind, by the metric of their rate: asked for and reached (1/s), and percentiles of the
    latency from when they were due (s), None where the workload reports none."""

    metric: str
    asked: float
    reached: float | None
    p99: float | None = None
    p999: float | None = None


class Carried(msgspec.Struct, frozen=True):
    """One open-loop phase on one layout. ``asked`` and ``reached`` are of all its requests (1/s), ``low`` and
    ``high`` the 95 % interval of what was reached; ``level`` is in percent of the need; ``why`` the reason of
    a verdict that is not ``carried``, ``note`` what else there is to know; ``at_least``: p99 is a lower bound."""

    stack: str
    workload: str
    phase: str
    level: int
    asked: float
    verdict: Verdict
    why: str = ""
    note: str = ""
    reached: float | None = None
    low: float | None = None
    high: float | None = None
    kinds: tuple[RequestKind, ...] = ()
    at_least: bool = False


class Need(msgspec.Struct, frozen=True):
    """One workload on one layout: its phases by level; ``highest``: the highest level that was carried with all
    below it, None where the first was not. ``most``: the rate without a schedule (1/s), where it saturates;
    ``headroom`` that by what level 100 asks for; ``limited``: why ``most`` is the lab's own."""

    stack: str
    workload: str
    phases: tuple[Carried, ...]
    highest: int | None = None
    most: float | None = None
    headroom: float | None = None
    limited: str = ""

    @property
    def base(self) -> Carried:
        """The phase of the need itself: level 100, else the lowest."""
        return next((each for each in self.phases if each.level == 100), self.phases[0])


def needs(analysis: Analysis) -> tuple[Need, ...]:
    """Every workload with a rate on every layout where it ran, in the order of the study."""
    found = []
    for point in analysis.grid.points:
        workload = analysis.workloads[point.workload].workload
        asked = workload.asked_rates() if isinstance(workload, Paced) else {}
        # Of a cell that nobody measured, as after a run of one stack, there is nothing to judge.
        if any(each.rates for each in asked.values()) and (point.stack, point.workload) in analysis.runs:
            found.append(_need(analysis, point.stack, point.workload, asked))
    return tuple(found)


def scheduled(analysis: Analysis) -> frozenset[tuple[str, str]]:
    """(workload, phase) of the phases with a rate: what they reach is what was asked for, and no cost."""
    return frozenset(
        (label, phase)
        for label, side in analysis.workloads.items()
        if isinstance(side.workload, Paced)
        for phase, each in side.workload.asked_rates().items()
        if each.rates
    )


def _need(analysis: Analysis, stack: str, workload: str, asked: Mapping[str, Asked]) -> Need:
    phases = tuple(
        _judged(analysis, (stack, workload, phase), each)
        for phase, each in sorted(asked.items(), key=lambda item: item[1].level)
        if each.rates
    )
    highest = None
    for each in phases:
        if each.verdict != "carried":
            break
        highest = each.level
    found = Need(stack, workload, phases, highest)
    free = next((phase for phase, each in asked.items() if not each.rates), None)
    metrics = {kind.metric for each in phases for kind in each.kinds}
    rows = _rows(analysis, (stack, workload, free), metrics) if free is not None else {}
    if not rows:
        return found
    most = sum(row.value for row in rows.values())
    limited = next((said for row in rows.values() if (said := analysis.limit(row))), "")
    headroom = most / (found.base.asked * 100 / found.base.level)
    return msgspec.structs.replace(found, most=most, headroom=headroom, limited=limited)


def _rows(analysis: Analysis, at: tuple[str, str, str], metrics: set[str]) -> dict[str, Row]:
    return {row.metric: row for row in analysis.reported.get(at, ()) if row.metric in metrics}


def _judged(analysis: Analysis, at: tuple[str, str, str], asked: Asked) -> Carried:
    stack, workload, phase = at
    rows = {row.metric: row for row in analysis.reported.get(at, ())}
    kinds = tuple(_kind(rows, metric, rate) for metric, rate in asked.rates.items())
    found = Carried(stack, workload, phase, asked.level, asked.total, "unknown", kinds=kinds)
    if not rows:
        return msgspec.structs.replace(found, why=_without(analysis, stack, workload))
    if lacking := [KINDS.get(kind.metric, kind.metric) for kind in kinds if kind.reached is None]:
        # A kind of which not one was due in time has no row; what is missing is never taken for 0.
        return msgspec.structs.replace(found, why=f"there is no rate of its {listed(lacking)}")
    reached = sum(kind.reached or 0.0 for kind in kinds)
    seconds = asked.seconds or _took(analysis, at)
    halves = [rows[kind.metric].half for kind in kinds]
    spread = _apart(analysis, halves)
    low, high = interval(reached, asked.total, seconds, spread, exact=asked.exact)
    unfinished = rows["unfinished"].value if "unfinished" in rows else 0.0
    found = msgspec.structs.replace(
        found, reached=reached, low=low, high=high, note=_note(rows),
        at_least=bool(unfinished > 0.01 * asked.total * (seconds or 0.0)),
    )  # fmt: skip
    verdict, why = _verdict(analysis, at, asked, found, rows)
    return msgspec.structs.replace(found, verdict=verdict, why=why)


def _kind(rows: Mapping[str, Row], metric: str, rate: float) -> RequestKind:
    values = {name: row.value for name, row in rows.items()}
    p99, p999 = (values.get(metric_of(metric).beside(f"latency.{name}")) for name in ("p99", "p99.9"))
    return RequestKind(metric, rate, values.get(metric), p99, p999)


def _without(analysis: Analysis, stack: str, workload: str) -> str:
    gap = next((gap for gap in analysis.gaps if (gap.stack, gap.workload) == (stack, workload)), None)
    return f"the cell is {gap.status}: {gap.error.rstrip('.')}" if gap is not None else "the phase has no values"


def _took(analysis: Analysis, at: tuple[str, str, str]) -> float | None:
    measured = analysis.measured.get(at[:2])
    phases = measured.run.phases if measured is not None else ()
    return sum(phase.end - phase.start for phase in phases) or None


def _apart(analysis: Analysis, halves: list[float | None]) -> float | None:
    """The half width over repeats; within one run the seconds of a schedule say nothing of another run."""
    known = [half for half in halves if half is not None]
    return math.hypot(*known) if analysis.times[1] > 1 and len(known) == len(halves) else None


def interval(
    reached: float, asked: float, seconds: float | None, spread: float | None = None, *, exact: bool = False
) -> tuple[float | None, float | None]:
    """The 95 % interval of a rate that was reached (1/s), of ``asked`` for so many seconds; (None, None) where
    nothing tells. ``spread``: the half width over repeats, which counts where it is wider.

    ``exact``: exactly ``asked`` x ``seconds`` requests were due: Wilson's interval of a share, J. Am. Stat. Assoc.
    22 (1927), 209-212. Else their number is Poisson's too, whose standard deviation is its root.
    """
    if not seconds or asked <= 0:
        return (None, None) if spread is None else (reached - spread, reached + spread)
    count = asked * seconds
    if exact:
        share = min(1.0, reached / asked)
        centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
        half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
        low, high = asked * (centre - half), asked * (centre + half)
    else:
        half = _Z * math.sqrt(max(reached * seconds, 1.0)) / seconds
        low, high = reached - half, reached + half
    if spread is not None:
        low, high = min(low, reached - spread), max(high, reached + spread)
    return max(0.0, low), high


def _verdict(
    analysis: Analysis, at: tuple[str, str, str], asked: Asked, found: Carried, rows: Mapping[str, Row]
) -> tuple[Verdict, str]:
    if bad := _failed(rows):
        return "unknown", bad
    if found.low is None or found.high is None or found.reached is None:
        return "unknown", "there is no interval: how long it took is not known"
    reached = f"{number(found.reached)} of {number(found.asked)}/s were reached ({_share(found)})"
    if (short := _short(asked, found)) is not None:
        if lab := _by_lab(analysis, found, rows):
            return "unknown", f"{reached}, but that is {lab}"
        # Fewer connections than the rate needs at this latency fall short on any layout.
        workload = analysis.workloads[at[1]].workload
        beside = f" with {workload.sessions} connections" if isinstance(workload, Connected) else ""
        return "not carried", f"{reached}{short}{beside}"
    if found.low < ENOUGH * found.asked:
        return "unknown", f"{reached}, and the interval reaches below {percent(ENOUGH)}; run it longer"
    if grown := _growing(analysis, at):
        return "unknown", f"{reached}, but latency still grew{grown}; run it longer"
    return "carried", ""


def _share(found: Carried) -> str:
    return percent((found.reached or 0.0) / found.asked)


def _short(asked: Asked, found: Carried) -> str | None:
    """What fell short, for the end of a sentence, empty for all together; None where nothing clearly did."""
    if found.high is not None and found.high < ENOUGH * found.asked:
        return ""
    for kind in found.kinds:
        high = interval(kind.reached or 0.0, kind.asked, asked.seconds, exact=asked.exact)[1]
        if high is not None and high < ENOUGH * kind.asked and len(found.kinds) > 1:
            return (
                f", and of the {KINDS.get(kind.metric, kind.metric)} {percent((kind.reached or 0) / kind.asked)}"
            )
    return None


def _failed(rows: Mapping[str, Row]) -> str:
    for name, what in (("errors", "failed"), ("failed", "failed"), ("skipped", "were skipped")):
        if name in rows and rows[name].value:
            return f"{rows[name].value:,.0f} requests {what}"
    return ""


def _by_lab(analysis: Analysis, found: Carried, rows: Mapping[str, Row]) -> str:
    """Why a rate that was not reached says nothing of the layout; empty where it does."""
    for kind in found.kinds:
        if said := analysis.limit(rows[kind.metric]):
            return said
    late = rows.get("lag.mean")
    if late is not None and late.value > LATE:
        return f"limited by the lab: its node sent requests {quantity(late.value, 's')} late by itself"
    return ""


def _growing(analysis: Analysis, at: tuple[str, str, str]) -> str:
    """From what to what latency grew while all was carried; empty where it did not."""
    measured = analysis.measured.get(at[:2])
    for (_, _, metric, phase), points in measured.series.items() if measured is not None else ():
        if phase != at[2] or metric_of(metric).family != "latency.mean" or len(points) < _LEAST_SERIES:
            continue
        third = len(points) // 3
        first, last = (statistics.median(value for _, value in part) for part in (points[:third], points[-third:]))
        if last > GROWN * first and last - first > _GROWN_SECONDS:
            return f", from {quantity(first, 's')} to {quantity(last, 's')}"
    return ""


def _note(rows: Mapping[str, Row]) -> str:
    late = rows.get("lag.mean")
    means = [row.value for name, row in rows.items() if metric_of(name).family == "latency.mean"]
    if late is None or not means or late.value < _OWN * min(means):
        return ""
    return f"{quantity(late.value, 's')} of each latency is the node's own, which sends that late"
