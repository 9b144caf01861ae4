"""How long each phase was measured, why it ended, and how sure its rates were then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.caveats import often
from blocklab.stats.format import NBSP, percent, plus_minus, scale, seconds
from blocklab.stats.reading import Stop
from blocklab.stats.summary import percentile
from blocklab.store.run import Rate, Reason

# Of more phases than this report.json has the rest.
MOST_ROWS = 24
REASONS: tuple[Reason, ...] = ("settled", "capped", "drained", "failed")


class StopRow(msgspec.Struct, frozen=True):
    """One phase of one cell. ``stack`` is a label for its colour."""

    stack: str
    place: str
    reason: str
    why: str
    took: str
    rates: tuple[str, ...]


def stops(analysis: Analysis) -> tuple[tuple[StopRow, ...], int]:
    """The phases that ended before their rates were as sure as the study asks for, and how many more there are."""
    every = [each for each in analysis.stops if each.stopped.why]
    return tuple(_row(analysis, each) for each in every[:MOST_ROWS]), max(0, len(every) - MOST_ROWS)


def _row(analysis: Analysis, stop: Stop) -> StopRow:
    stopped = stop.stopped
    repeat = f", repeat {stop.repeat}" if analysis.study.repeats > 1 else ""
    rounds = f" in {stopped.rounds} rounds" if stopped.rounds > 1 else ""
    cut = f", the first {_time(stopped.cut)} left out" if stopped.cut else ""
    return StopRow(
        stop.stack,
        f"{stop.stack}/{stop.workload} {stopped.phase}".strip() + repeat,
        stopped.reason,
        stopped.why,
        f"{_time(stopped.seconds)}{rounds}{cut}",
        tuple(_rate(rate) for rate in stopped.rates),
    )


def _rate(rate: Rate) -> str:
    """``write: 3,147 ± 2 IOPS (0.1 %)``; a workload with one rate needs no way."""
    known = metric_of(rate.metric)
    name = f"{known.of}: " if known.of else ""
    if rate.value is None:
        return f"{name}no {scale(known.unit, rate.metric)[1] or known.words} that is known"
    part = relative(rate)
    sure = f" ({percent(part)})" if part is not None else " (no interval)"
    return f"{name}{plus_minus(rate.value, rate.half, '1/s', rate.metric)}{sure}"


def relative(rate: Rate) -> float | None:
    """The half width of a rate's interval as a part of its mean; None where there is none."""
    return rate.half / abs(rate.value) if rate.value and rate.half is not None else None


def _time(value: float) -> str:
    """Whole seconds: 3 rounds of 2 s are 6 s, and not 6.00."""
    return seconds(value) if value >= 100 or value < 1 else f"{value:.0f}{NBSP}s"


def _times(mine: Sequence[Stop]) -> str:
    took = sorted(each.stopped.seconds for each in mine if each.stopped.reason != "failed")
    if not took:
        return "–"
    first, last = _time(took[0]), _time(took[-1])
    return first if first == last else f"{first} to {last}"


def _sure(mine: Sequence[Stop]) -> str:
    """The middle and the widest of the intervals."""
    parts = sorted(part for each in mine for rate in each.stopped.rates if (part := relative(rate)) is not None)
    if not parts:
        return "–"
    return f"±{percent(percentile(parts, 0.5))}, at most ±{percent(parts[-1])}"


def stops_line(analysis: Analysis) -> str:
    """All of it in a sentence for a terminal; empty where no rule was at work."""
    every = analysis.stops
    if not every:
        return ""
    reasons = Counter(each.stopped.reason for each in every)
    said = ", ".join(f"{reasons[reason]:,} {reason}" for reason in REASONS if reasons[reason])
    return f"Measured: {said}; {_times(every)} each; 95 % intervals {_sure(every)}."


def order_text(analysis: Analysis) -> str:
    """In which order the cells ran, and how often, for the method."""
    built = (
        "Every layout was built once"
        if analysis.study.repeats == 1
        else f"Every layout was built and measured {often(analysis)}"
    )
    known = sorted(seed for seed in analysis.seeds if seed is not None)
    if known:
        seeds = f"seed{'s' if len(known) > 1 else ''} {', '.join(str(seed) for seed in known)}"
        order = f"the cells that share one ran in a shuffled order ({seeds}; --seed repeats it)"
        if None in analysis.seeds:
            order += ", some of them in the order of the file"
        return f"{built}; {order}."
    if analysis.seeds:
        return f"{built}; the cells that share one ran in the order of the study's file."
    return f"{built}."
