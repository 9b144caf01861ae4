"""The jobs that a device's time line shows: where its rates change for good, break for a moment, or pause.

Within a busy stretch each second is looked at with the five before and the five after it (three at its ends), on a
logarithmic scale, so that a change of 25 % is the same at 500 as at 50,000 IOPS:

- a *shift*: the medians before and after differ by more than 25 %, in IOPS, bandwidth or await;
- a *break*: the second itself differs from both by more than 15 %, to the same side: one job's queue has drained,
the
  next one's has not filled, though both do the same.

Both must also exceed six times the noise (as a standard deviation: by the median absolute deviation of these
seconds, and by the median step from one second to the next over 15 seconds before and after), so that a workload
whose rate wanders is not cut to pieces. The largest change is taken first. What is left of a job's first and last
second, or of a burst of a cap at its start, is trimmed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from blocklab.model.watched import Values, Watched

WINDOW = 5
LEAST_WINDOW = 3
SHIFT = math.log(1.25)
BREAK = math.log(1.15)
NOISES = 6.0
# A median absolute deviation times this is a normal distribution's standard deviation.
_MAD = 1.4826
# Below this noise is what two decimals make of it.
_LEAST_NOISE = 0.01
# A job that ran shorter than this cannot be told from the change between two others.
LEAST_SECONDS = 4
# A device is idle below this part of its busiest tenth, in requests and in bytes.
IDLE = 0.02
BUSY_UTIL = 5.0
# Of so many seconds the changes are looked for by columns, so many at a time.
_MANY, _AT_A_TIME = 200, 20_000
# At either end a job has a part of a second, or a burst, for so many seconds at most.
_MOST_TRIMMED = 3


class Second(msgspec.Struct, frozen=True):
    """What a device did in one interval that ended at ``time``. ``await_`` in s and ``util`` in % where known.
    ``iops`` are bytes where requests were not counted."""

    time: float
    iops: float
    bandwidth: float
    await_: float | None = None
    util: float | None = None


class Span(msgspec.Struct, frozen=True):
    """The first and the last whole second of a job, as places in the time line."""

    first: int
    last: int


def seconds(series: Watched) -> list[Second]:
    """A device's time line."""
    nothing = np.zeros(len(series.times))

    def told(metric: str) -> Values:
        return series.values.get(metric, np.full(len(nothing), np.nan))

    rates = {way: np.nan_to_num(told(f"{way}.iops")) for way in ("read", "write")}
    iops = sum(rates.values(), nothing)
    # sar -d and iostat without -x do not tell reads from writes.
    iops = np.where(iops > 0, iops, np.nan_to_num(told("iops")))
    bandwidth = sum(
        (np.nan_to_num(told(name)) for name in ("read.bandwidth", "write.bandwidth", "bandwidth")), nothing
    )
    if not any(metric.endswith("iops") for metric in series.values):
        # Of all disks together some tools have bytes alone (vmstat, dstat -d): these show the changes then.
        iops = bandwidth
    waits, requests = nothing, nothing
    for way, rate in rates.items():
        there = (rate > 0) & ~np.isnan(told(f"{way}.await"))
        waits = waits + np.where(there, rate * np.nan_to_num(told(f"{way}.await")), 0.0)
        requests = requests + np.where(there, rate, 0.0)
    waited = np.where(requests > 0, waits / np.where(requests > 0, requests, 1.0), told("await"))
    columns = zip(series.times.tolist(), iops.tolist(), bandwidth.tolist(), _plain(waited), _plain(told("util")),
                  strict=True)  # fmt: skip
    return [Second(*each) for each in columns]


def _plain(values: Values) -> list[float | None]:
    """Values of Python's own, None where there is none."""
    return [None if value != value else value for value in values.tolist()]


def step(times: Sequence[float]) -> float:
    """How far the times of a series are apart (s)."""
    return statistics.median([after - before for before, after in pairwise(times)] or [1.0])


def spans(line: Sequence[Second]) -> list[Span]:
    """The jobs in a time line, by time."""
    found: list[Span] = []
    for first, last in stretches(line):
        for low, high in _pieces(line, first, last):
            span = trimmed(line, low, high)
            if span.last - span.first + 1 >= LEAST_SECONDS:
                found.append(span)
    return found


def _busiest(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[(len(ordered) * 9) // 10] or ordered[-1]


def stretches(line: Sequence[Second]) -> Iterator[tuple[int, int]]:
    """First and last second of each busy stretch, as places in the time line."""
    if not line:
        return
    iops, bandwidth = _busiest([each.iops for each in line]), _busiest([each.bandwidth for each in line])
    start: int | None = None
    for place, each in enumerate(line):
        busy = each.iops > 0 and (
            each.iops >= IDLE * iops or each.bandwidth >= IDLE * bandwidth or (each.util or 0.0) >= BUSY_UTIL
        )
        if busy and start is None:
            start = place
        elif not busy and start is not None:
            yield start, place - 1
            start = None
    if start is not None:
        yield start, len(line) - 1


def _features(each: Second) -> list[float]:
    rates = [each.iops, each.bandwidth] if each.bandwidth else [each.iops]
    return [math.log(max(value, 1e-9)) for value in [*rates, *([each.await_] if each.await_ else [])]]


def _pieces(line: Sequence[Second], first: int, last: int) -> list[tuple[int, int]]:
    """A busy stretch, cut at its changes; the seconds of a change belong to no piece."""
    rows = [_features(each) for each in line[first : last + 1]]
    width = min(len(row) for row in rows)
    columns = [[row[feature] for row in rows] for feature in range(width)]
    scores = {place: score for place, score in enumerate(_scores(columns).tolist()) if score > 1}
    cuts: list[int] = []
    for near in sorted(scores, key=lambda place: (-scores[place], place)):
        place = _exactly(columns, near)
        if all(abs(place - cut) > LEAST_SECONDS for cut in cuts):
            cuts.append(place)
    ends = [-1, *sorted(cuts), len(rows)]
    return [(first + low + 1, first + high - 1) for low, high in pairwise(ends) if high - low > 1]


def _scores(columns: Sequence[Sequence[float]]) -> Values:
    """How many times as large as the least that counts the change at each place is; 0 too near an end."""
    count = len(columns[0])
    if count < _MANY:
        return np.array([_score(columns, place) for place in range(count)])
    found = np.zeros(count)
    edge = 3 * WINDOW
    for first in range(edge, count - edge, _AT_A_TIME):
        last = min(first + _AT_A_TIME, count - edge)
        some = [np.asarray(values[first - edge : last + edge]) for values in columns]
        found[first:last] = np.max([_inner_scores(values) for values in some], axis=0)
    for place in (*range(edge), *range(count - edge, count)):
        found[place] = _score(columns, place)
    return found


def _inner_scores(values: Values) -> Values:
    """``_score`` of one column for all of its places that have whole windows around them."""
    windows = np.lib.stride_tricks.sliding_window_view
    edge = 3 * WINDOW
    here = values[edge:-edge]
    around = windows(values, WINDOW)
    before, after = around[edge - WINDOW :][: len(here)], around[edge + 1 :][: len(here)]
    left, right = np.median(before, axis=1), np.median(after, axis=1)
    away = np.abs(np.concatenate([before - left[:, None], after - right[:, None]], axis=1))
    steps = np.median(windows(np.abs(np.diff(values)), 2 * edge), axis=1)[: len(here)]
    noise = np.maximum(_LEAST_NOISE, _MAD * np.maximum(np.median(away, axis=1), steps / math.sqrt(2)))
    up, down = here - left, here - right
    apart = np.where(up * down > 0, np.minimum(np.abs(up), np.abs(down)), 0.0)
    shift = np.abs(right - left) / np.maximum(SHIFT, NOISES * noise)
    found: Values = np.maximum(shift, apart / np.maximum(BREAK, NOISES * noise))
    return found


def _score(columns: Sequence[Sequence[float]], place: int) -> float:
    """How many times as large as the least that counts the change at a place is; 0 too near an end."""
    best = 0.0
    for values in columns:
        before, after = values[max(0, place - WINDOW) : place], values[place + 1 : place + 1 + WINDOW]
        if min(len(before), len(after)) < LEAST_WINDOW:
            return 0.0
        left, right = statistics.median(before), statistics.median(after)
        away = [abs(value - left) for value in before] + [abs(value - right) for value in after]
        near = values[max(0, place - 3 * WINDOW) : place + 3 * WINDOW + 1]
        steps_near = [abs(b - a) for a, b in pairwise(near)]
        noise = _MAD * max(statistics.median(away), statistics.median(steps_near) / math.sqrt(2))
        noise = max(_LEAST_NOISE, noise)
        shift = abs(right - left)
        steps = (values[place] - left, values[place] - right)
        apart = min(abs(step) for step in steps) if steps[0] * steps[1] > 0 else 0.0
        best = max(best, shift / max(SHIFT, NOISES * noise), apart / max(BREAK, NOISES * noise))
    return best


def _exactly(columns: Sequence[Sequence[float]], near: int) -> int:
    """The place about a change at which what is before and after it differ least from their own medians."""
    low, high = max(0, near - 2 * WINDOW), min(len(columns[0]), near + 2 * WINDOW + 1)

    def cost(place: int) -> float:
        parts = [values[start:end] for values in columns for start, end in ((low, place), (place + 1, high))]
        return sum(abs(value - middle) for part in parts for middle in [statistics.median(part)] for value in part)

    places = range(max(low + LEAST_WINDOW, near - WINDOW), min(high - LEAST_WINDOW, near + WINDOW + 1))
    return min(places, key=lambda place: (cost(place), abs(place - near)), default=near)


def trimmed(line: Sequence[Second], low: int, high: int) -> Span:
    """A part of the time line, without the seconds at either end that are unlike the rest."""
    if high - low + 1 < LEAST_SECONDS:
        return Span(low, high)
    middle = statistics.median(math.log(max(each.iops, 1e-9)) for each in line[low : high + 1])

    def odd(place: int) -> bool:
        return abs(math.log(max(line[place].iops, 1e-9)) - middle) > BREAK

    first, last = low, high
    while first - low < _MOST_TRIMMED and odd(first):
        first += 1
    while high - last < _MOST_TRIMMED and odd(last):
        last -= 1
    return Span(first, last) if not odd(first) and not odd(last) else Span(low, high)
