"""A drill's history in short times of equal length. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from blocklab.model.drill import Answer, Attempt, Bin

# More than a day of bins comes of a broken time stamp.
MOST_BINS = 1_000_000


def bins(attempts: Sequence[Attempt], width: float = 0.1, edge: float = 0.0) -> tuple[Bin, ...]:
    """The history in times of ``width`` (s), without a gap; one of them begins at ``edge`` (the fault).

    A transaction counts as scheduled when it was due, and by its answer when that was known; without such a time
    when it was sent, or was due. Raises ``ValueError`` where the history is longer than a day.
    """
    if width <= 0:
        raise ValueError(f"bins of {width} s: must be above 0")
    scheduled: Counter[int] = Counter()
    answers: Counter[tuple[int, Answer]] = Counter()
    took: dict[int, list[float]] = {}
    for attempt in attempts:
        scheduled[_bin(attempt.scheduled, width, edge)] += 1
        known = attempt.ended if attempt.ended is not None else attempt.sent
        at = _bin(attempt.scheduled if known is None else known, width, edge)
        answers[at, attempt.answer] += 1
        if attempt.answer == "acknowledged" and attempt.ended is not None:
            took.setdefault(at, []).append(attempt.ended - attempt.scheduled)
    every = [*scheduled, *(at for at, _ in answers)]
    if not every:
        return ()
    first, last = min(every), max(every)
    if last - first >= MOST_BINS:
        raise ValueError(f"the history lasts {(last - first) * width:,.0f} s: one of its times is wrong")
    return tuple(
        Bin(
            round(edge + at * width, 6),
            scheduled[at],
            answers[at, "acknowledged"],
            answers[at, "refused"],
            answers[at, "in doubt"],
            round(statistics.median(took[at]), 6) if at in took else None,
            round(max(took[at]), 6) if at in took else None,
        )
        for at in range(first, last + 1)
    )


def _bin(time: float, width: float, edge: float) -> int:
    return math.floor((time - edge) / width)
