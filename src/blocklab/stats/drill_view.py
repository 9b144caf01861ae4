"""A drill as its time line shows it: which part of it, in what steps, and what happened when."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from blocklab.model.drill import Bin, Drill
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import NBSP, quantity, seconds
from blocklab.stats.reading import Drilled

# More drills than this second by second are read by nobody.
MOST_CHOSEN = 12
# Before the fault, and after the writes came back (s): enough to see what is normal.
BEFORE, AFTER = 2.0, 2.0
# A drill in which no write came back is shown as far as this after its fault.
MOST = 30.0
# More steps than this on the axis cannot be distinguished.
MOST_STEPS = 240
LONGEST_NAME = 34
# A monitor that sees more is told in full in the list of events.
MOST_EVENTS = 10


class Span(msgspec.Struct, frozen=True):
    """The part of a drill that is shown, in seconds from the fault; ``width`` (s) of each step."""

    fault: float
    start: float
    end: float
    width: float

    def at(self, time: float) -> float:
        """A moment on the axis."""
        return round(time - self.fault, 4)


class Mark(msgspec.Struct, frozen=True):
    """Something with a name at a time, in seconds from the fault."""

    kind: Literal["fault", "event", "stage"]
    start: float
    end: float
    label: str
    said: str = ""


def chosen(analysis: Analysis) -> tuple[tuple[str, str, Drilled], ...]:
    """(name, label, drill) of those to show one by one: of each cell the first one that lost something, the first
    one of each cell, then more that lost something; a dozen at most, in their own order."""
    drills = analysis.drills
    firsts: dict[tuple[str, str], int] = {}
    losers: dict[tuple[str, str], list[int]] = {}
    for at, each in enumerate(drills):
        cell = (each.stack, each.workload)
        firsts.setdefault(cell, at)
        if each.drill.verdict.status != "ok":
            losers.setdefault(cell, []).append(at)
    ranked = [mine[0] for mine in losers.values()] + list(firsts.values())
    ranked += [at for mine in losers.values() for at in mine[1:]]
    return tuple(
        # By its number too: "m-a" and "b" read as "m" and "a-b" do.
        (f"{at + 1}-{each.stack}-{each.workload}-{each.repeat}", drill_label(analysis, each), each)
        for at, each in enumerate(drills)
        if at in list(dict.fromkeys(ranked))[:MOST_CHOSEN]
    )


def drill_label(analysis: Analysis, each: Drilled) -> str:
    """``mirror rtt=2ms, drill 3``."""
    return f"{analysis.drilled_label(each.stack, each.workload)}, drill {each.repeat}"


def span(drill: Drill) -> Span:
    """What to show of a drill that has bins and a fault."""
    assert drill.struck is not None
    fault = drill.struck
    first, last = drill.bins[0].time - fault, drill.bins[-1].time + drill.width - fault
    back = drill.verdict.first
    begin = min(-BEFORE, (drill.verdict.last or fault) - fault - 0.5)
    end = MOST if back is None else back - fault + AFTER
    late = max((stage.end - fault + 0.5 for stage in drill.stages), default=0.0)
    if drill.until is not None:
        # Answers may still come in, but nothing is due any more.
        last = min(last, drill.until - fault + 0.5)
    start, end = max(first, begin), min(last, max(end, late, AFTER))
    steps = max(1, math.ceil((end - start) / drill.width / MOST_STEPS))
    return Span(fault, round(start, 3), round(max(end, start + drill.width), 3), drill.width * steps)


def merged(drill: Drill, view: Span) -> tuple[Bin, ...]:
    """The bins that are shown, put together where the steps are longer."""
    margin = drill.width / 2
    shown = [row for row in drill.bins if view.start - margin <= row.time - view.fault <= view.end - margin]
    steps = max(1, round(view.width / drill.width))
    if steps == 1:
        return tuple(shown)
    return tuple(_together(shown[at : at + steps]) for at in range(0, len(shown), steps))


def _together(rows: Sequence[Bin]) -> Bin:
    medians = [row.p50 for row in rows if row.p50 is not None]
    return Bin(
        rows[0].time,
        sum(row.scheduled for row in rows),
        sum(row.acknowledged for row in rows),
        sum(row.refused for row in rows),
        sum(row.in_doubt for row in rows),
        statistics.median(medians) if medians else None,
        max((row.longest for row in rows if row.longest is not None), default=None),
    )


def values(row: Bin) -> tuple[int, int, int]:
    """Acknowledged, in doubt, refused."""
    return row.acknowledged, row.in_doubt, row.refused


def mark_of(drill: Drill, view: Span) -> tuple[Mark, ...]:
    """The fault, the events and the stages that are in view: first the fault, then all by time."""
    found = [Mark("fault", 0.0, 0.0, drill.fault, "the fault")]
    # The fault is its own first event.
    events = [each for each in drill.events if each.what != drill.fault or abs(each.time - view.fault) > 1e-6]
    for event in events[:MOST_EVENTS]:
        at = view.at(event.time)
        found.append(Mark("event", at, at, _short(event.what), event.said))
    for stage in drill.stages:
        took = stage.end - stage.start
        label = f"{_short(stage.name)} {_took(took)}"
        found.append(Mark("stage", view.at(stage.start), view.at(stage.end), label, f"{stage.name}: {took:.3f} s"))
    shown = [mark for mark in found if mark.end >= view.start and mark.start <= view.end]
    return tuple(sorted(shown, key=lambda mark: (mark.kind != "fault", mark.start, mark.end)))


def _took(value: float) -> str:
    return quantity(value, "s") if value < 1 else seconds(value)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def reading(drill: Drill) -> str:
    """The finding of one drill, for a title."""
    verdict = drill.verdict
    lost = {
        "ok": "nothing lost",
        "lost": f"{len(verdict.missing):,} of {verdict.acknowledged:,} lost" if verdict.missing else "damaged",
        "unknown": "unknown what was lost",
    }[verdict.status]
    if verdict.rto_seconds is None:
        return f"{lost}, no write accepted again" if drill.never else lost
    longest = f"{seconds(verdict.rto_seconds)} without an acknowledgement"
    return f"{lost}, {longest}".replace(" s ", f"{NBSP}s ")
