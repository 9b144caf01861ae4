"""What the drills of a study found: where something was lost and how much, how long it took, what is open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from blocklab.stats.analysis import Analysis
from blocklab.stats.binomial import Middle
from blocklab.stats.drills import Summary, summaries
from blocklab.stats.finding import Finding, Number

# With more levels a factor's sentence would be a table.
MOST_LEVELS = 8
# So many cells are named in a bracket.
MOST_FEW = 2
# What else can be wrong, and in how many drills of a cell it was.
_OPEN: Mapping[str, Callable[[Summary], int]] = {
    "no write accepted again": lambda each: each.never,
    "binary log differs from the tables": lambda each: each.binlog.get("differs", 0),
    "split brain": lambda each: each.mirror.get("split brain", 0),
    "replicas differ after the resync": lambda each: each.mirror.get("differs", 0),
    "loss not known, so not counted": lambda each: each.losses.unknown,
    "not counted, since the cell is not ok": lambda each: each.void,
    "not counted, but something was lost": lambda each: each.void_lost,
}


def drill_findings(analysis: Analysis) -> list[Finding]:
    """What losing depends on, where nothing was lost, and where most was; none in a study without drills."""
    found = summaries(analysis)
    return [*_by_level(found), *_safe(found), *_worst(found)]


def drill_details(analysis: Analysis) -> list[Finding]:
    """How long it took, and what else was wrong; the table has it by cell."""
    found = summaries(analysis)
    return [*_times(found), *_open(found)]


def _by_level(found: Sequence[Summary]) -> Iterator[Finding]:
    """On how many layouts something was lost, by the levels of the factor that tells it best."""
    by: dict[str, dict[str, list[Summary]]] = {}
    for each in found:
        for name, level in each.point.levels.items() if each.losses.ok + each.losses.lost else ():
            by.setdefault(name, {}).setdefault(level, []).append(each)
    apart = {
        name: max(shares) - min(shares)
        for name, levels in by.items()
        if len(shares := [sum(each.losses.lost > 0 for each in mine) / len(mine) for mine in levels.values()]) > 1
    }
    name = max(apart, key=lambda name: apart[name], default="")
    if not name or not apart[name] or len(by[name]) > MOST_LEVELS:
        return
    for level, mine in by[name].items():
        bad = [each for each in mine if each.losses.lost]
        names = tuple(each.label for each in bad) if len(bad) <= MOST_FEW < len(mine) else ()
        yield Finding("lost by", name, names=names, count=len(bad), of=len(mine), level=level)


def _safe(found: Sequence[Summary]) -> Iterator[Finding]:
    # A loss in a drill that does not count (of another layout, or not carried out to its end) is one all the same.
    kept = [each for each in found if not (each.losses.lost or each.void_lost) and each.losses.ok]
    if not kept:
        known = not any(each.losses.unknown or each.void for each in found)
        if any(each.losses.lost for each in found):
            yield Finding("unsafe", verdict="known" if known else "unknown")
        return
    # Of each by itself: crashes of several layouts are not those of one.
    most = max(each.losses.losing.high for each in kept if each.losses.losing is not None)
    numbers = (
        Number(sum(each.losses.acknowledged for each in kept), unit="1", name="acknowledged"),
        Number(most, name="crashes, at most"),
    )  # fmt: skip
    yield Finding(
        "safe", numbers=numbers, count=len(kept), of=sum(each.losses.ok for each in kept),
        names=tuple(each.label for each in kept),
    )  # fmt: skip


def _worst(found: Sequence[Summary]) -> Iterator[Finding]:
    bad = sorted((each for each in found if each.losses.lost), key=lambda each: -(each.losses.share or 0.0))
    for each in bad[:1]:
        mine = each.losses
        numbers = [
            Number(mine.missing, unit="1", name="missing"),
            Number(mine.acknowledged, unit="1", name="acknowledged"),
            Number(mine.worst, unit="1", name="worst"),
        ]
        numbers += [Number(mine.torn, unit="1", name="torn")] if mine.torn else []
        numbers += [Number(mine.unexpected, unit="1", name="unexpected")] if mine.unexpected else []
        if mine.losing is not None:
            numbers.append(Number(mine.losing.low, name="crashes, at least"))
            numbers.append(Number(mine.losing.high, name="crashes, at most"))
        numbers += [] if mine.rpo is None else [Number(mine.rpo.most, unit="s", name="RPO")]
        numbers += [] if mine.newest is None else [Number(mine.newest.least, unit="s", name="newest lost")]
        yield Finding("lost", stack=each.label, numbers=tuple(numbers), count=mine.lost, of=mine.ok + mine.lost)


def _times(found: Sequence[Summary]) -> Iterator[Finding]:
    """The shortest and the longest median outage that ended; of the longest, when the rate before was back
    and the stage that takes the most of it."""
    timed = [(each.rto, each) for each in found if each.rto is not None and math.isfinite(each.rto.median)]
    if not timed:
        return

    def median(one: tuple[Middle, Summary]) -> float:
        return one[0].median

    best, worst = min(timed, key=median), max(timed, key=median)
    numbers = [
        Number(rto.median, unit="s", name="RTO", at=each.label, low=rto.low, high=_ended(rto.high))
        for rto, each in ([best] if best == worst else [best, worst])
    ]
    back = worst[1].recovered
    if back is not None and math.isfinite(back.median):
        numbers.append(Number(back.median, unit="s", name="recovered"))
    if worst[1].slow:
        numbers.append(Number(worst[1].slow, unit="1", name="not recovered"))
    if slowest := max(worst[1].stages, key=lambda stage: stage[1], default=None):
        numbers.append(Number(slowest[1], unit="s", name="stage", at=slowest[0]))
    yield Finding("rto", numbers=tuple(numbers), count=len(timed))


def _ended(value: float | None) -> float | None:
    """Without an end that is infinite, for which JSON has no number."""
    return value if value is None or math.isfinite(value) else None


def _open(found: Sequence[Summary]) -> Iterator[Finding]:
    for what, count in _OPEN.items():
        if cells := [(each.label, many) for each in found if (many := count(each))]:
            yield Finding(
                "drills", what, names=tuple(f"{label} ({many})" for label, many in cells),
                count=sum(many for _, many in cells),
            )  # fmt: skip
