"""Numbers of one file that contradict one another: what a tool counted, how long that took, its rate, and the rate
over time."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from blocklab.formats.found import Found
from blocklab.formats.text import Text
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Sample

# Rounding and what begins and ends a run make less.
_OFF = 0.1
_FEWEST = 5
# A time series that covers less of a run says nothing of all of it.
_COVERED = 0.9
# pgbench waits for the transactions that are under way at the end: of a shorter run these count (s).
_LONG_ENOUGH = 30.0
# The rate that a tool prints behind a count, or in another line, by the metric that it is of.
_PRINTED: Mapping[str, Sequence[tuple[str, re.Pattern[str], float]]] = {
    # transactions:                        5400   (90.00 per sec.)
    "sysbench": (("tps", re.compile(r"^ +transactions: +\d+ +\((\d+\.\d+) per sec\.\)", re.MULTILINE), 1.0),),
    # [Summary] NEW_ORDER - Takes(s): 59.9, Count: 5629221, TPM: 93826.9, ...
    "go-tpc": (("tpmc", re.compile(r"^\[Summary\] NEW_ORDER - .{1,60}?, TPM: (\d+\.\d+)", re.MULTILINE), 1.0),),
}
# duration: 30 s
_DURATION = re.compile(r"^duration: (\d{1,9}) s$", re.MULTILINE)


def contradictions(found: Found, text: Text) -> Iterator[str]:
    """What does not agree in a file, each with both numbers and which of them is taken."""
    whole = {(each.phase, each.metric): each for each in found.samples if each.time is None}
    for metric, pattern, scale in _PRINTED.get(found.kind, ()):
        taken = whole.get(("", metric))
        printed = [float(number) * scale for number in pattern.findall(text.text)]
        if taken is not None and printed and _apart(taken.value, printed[-1]):
            yield (
                f"it contradicts itself: its {metric} comes to {taken.value:.6g}, but another of its lines says "
                f"{printed[-1]:.6g}; the first one is taken"
            )
    for (phase, metric), sample in whole.items():
        if metric_of(metric).kind == "rate":
            yield from _of_count(sample, whole.get((phase, _count_of(metric))), _seconds(found, text))
            yield from _of_series(sample, found.samples, _seconds(found, text))


def _apart(one: float, other: float) -> bool:
    return abs(one - other) > _OFF * max(abs(one), abs(other))


def _count_of(metric: str) -> str:
    return "transactions" if metric == "tps" else ""


def _seconds(found: Found, text: Text) -> float | None:
    """How long the run took; None of fio, each of whose jobs has its own time, and where nothing tells."""
    if found.tool == "fio":
        return None
    if found.kind == "pgbench":
        match = _DURATION.search(text.text)
        return float(match[1]) if match and float(match[1]) >= _LONG_ENOUGH else None
    if len(found.phases) == 1 and found.clock is None:
        return found.phases[0].end - found.phases[0].start
    return None


def _of_count(rate: Sample, count: Sample | None, seconds: float | None) -> Iterator[str]:
    if count is not None and seconds and _apart(rate.value, count.value / seconds):
        yield (
            f"it contradicts itself: {count.value:,.0f} {count.metric} in {seconds:.6g} s are "
            f"{count.value / seconds:.6g} a second, but its {rate.metric} is {rate.value:.6g}, which is taken"
        )


def _of_series(rate: Sample, samples: Iterable[Sample], seconds: float | None) -> Iterator[str]:
    points = sorted(
        (each.time, each.value)
        for each in samples
        if each.time is not None and (each.phase, each.metric) == (rate.phase, rate.metric)
    )
    if len(points) < _FEWEST or not seconds:
        return
    step = statistics.median(after - before for (before, _), (after, _) in pairwise(points))
    mean = statistics.fmean(value for _, value in points)
    if points[-1][0] - points[0][0] + step >= _COVERED * seconds and _apart(rate.value, mean):
        yield (
            f"it contradicts itself: its {rate.metric} is {rate.value:.6g}, which is taken, but the mean of its "
            f"time series is {mean:.6g}"
        )
