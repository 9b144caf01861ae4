"""Seconds in which a workload all but stood still, and rates that fell while they were measured.

A mean over a short run says nothing of either: how often a stall comes nobody knows after the few that were seen,
and a burst that was used up half way leaves a mean that is of neither half.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Sample
from blocklab.rules.series import batch_values, variance
from blocklab.stats.values import Measured, interval, of_layer, within

# A second with less than this part of the median's events is a stall, where the median has so many events that
# chance does not make one (Poisson: of 20 expected fewer than 7 come in 1 of 4,000 seconds).
STALLED, LEAST_EVENTS = 1 / 3, 20
# A rate fell when the mean of what follows some point is lower by this part, and by so many standard errors.
FELL, ERRORS = 0.2, 5.0
# What stands before and after that point.
LEAST_SIDE = 3
# Of a long run's seconds, neighbours are put together into so many parts at most.
MOST_PARTS = 120
# The median of fewer seconds is not known.
LEAST = 6
_FAMILIES = ("tps", "iops")


class Unsteady(msgspec.Struct, frozen=True):
    """A phase of a cell whose rate stalled for ``count`` of its ``seconds``, or fell by the part ``by`` after
    ``count`` of them."""

    stack: str
    workload: str
    phase: str
    kind: Literal["stalls", "fell"]
    count: float
    seconds: float
    by: float = 0.0

    @property
    def place(self) -> str:
        """Cell and phase for people."""
        return f"{self.stack}/{self.workload} {self.phase}".strip()


def unsteady(stack: str, workload: str, measured: Measured) -> Iterator[Unsteady]:
    """What is to be said of one run, at most one of each kind for each phase. Of a drill nothing, since its fault
    is meant to be seen."""
    if measured.run.drill is not None:
        return
    seen: set[tuple[str, str]] = set()
    for sample in measured.run.values():
        if of_layer(sample) or metric_of(sample.metric).family not in _FAMILIES:
            continue
        values, step = _seconds(measured, sample)
        for found in (stalls(values, step), _fell(values, step)):
            if found is not None and (sample.phase, found.kind) not in seen:
                seen.add((sample.phase, found.kind))
                yield msgspec.structs.replace(found, stack=stack, workload=workload, phase=sample.phase)


def _seconds(measured: Measured, sample: Sample) -> tuple[list[float], float]:
    """A rate in each whole second of its rounds, in the order in which they were measured, and how long it is."""
    points = measured.series.get((sample.host, sample.layer, sample.metric, sample.phase), [])
    step = interval(points)
    windows = [phase for phase in measured.run.phases if not sample.phase or phase.name == sample.phase]
    return [value for phase in windows for _, value in within(points, phase, 0.0, step)], step


def stalls(values: Sequence[float], step: float) -> Unsteady | None:
    """What is to be said of the stalls among rates (1/s) of ``step`` seconds each; None without any."""
    if len(values) < LEAST:
        return None
    median = statistics.median(values)
    if median * step < LEAST_EVENTS:
        return None
    count = sum(value < STALLED * median for value in values)
    return Unsteady("", "", "", "stalls", count * step, len(values) * step) if count else None


def _fell(values: Sequence[float], step: float) -> Unsteady | None:
    """At the point where the means before and after it differ by most standard errors."""
    size = -(-len(values) // MOST_PARTS) or 1
    values, step = batch_values(values, size), size * step
    best, found = ERRORS, None
    for at in range(LEAST_SIDE, len(values) - LEAST_SIDE + 1):
        before, after = values[:at], values[at:]
        high = statistics.fmean(before)
        down = high - statistics.fmean(after)
        if high <= 0 or down < FELL * high:
            continue
        error = math.sqrt(variance(before) / len(before) + variance(after) / len(after))
        errors = down / error if error else math.inf
        if errors > best:
            best, found = errors, Unsteady("", "", "", "fell", at * step, len(values) * step, down / high)
    return found
