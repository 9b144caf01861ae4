"""Rates over time as pieces of constant value, so that series with other intervals can be added up exactly."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from blocklab.sizing.series import Columns, Interval, columns, joined

Values: TypeAlias = npt.NDArray[np.float64]

METRICS = (
    "iops", "read_iops", "write_iops", "bandwidth", "read_bandwidth", "write_bandwidth", "flushes", "concurrency",
    "transactions",
)  # fmt: skip
"""What a curve has: 1/s, B/s, requests in flight (1), commits (1/s)."""
# What another source may tell where the most trusted one does not.
BORROWED = ("flushes", "transactions")
# Stamps of two tools are rounded to seconds; intervals may overlap by this without being of the same time.
OVERLAP = 1.5


@dataclass(frozen=True)
class Curve:
    """``values[metric][i]`` holds from ``starts[i]`` to ``ends[i]`` (seconds since the epoch); pieces are in order
    and do not overlap. NaN: not told. ``resolution[i]``: how long (s) the interval is whose mean the piece has."""

    starts: Values
    ends: Values
    resolution: Values
    values: dict[str, Values]

    @property
    def seconds(self) -> Values:
        """The length of each piece."""
        return self.ends - self.starts

    def kept(self, mask: npt.NDArray[np.bool_]) -> Curve:
        """Only some of the pieces."""
        return Curve(
            self.starts[mask], self.ends[mask], self.resolution[mask],
            {name: each[mask] for name, each in self.values.items()},
        )  # fmt: skip

    def cut(self, edges: Values) -> Curve:
        """The same, its pieces cut at the edges that lie within them."""
        return self.kept_at(np.unique(np.concatenate([self.starts, self.ends, edges])))

    def kept_at(self, edges: Values) -> Curve:
        """One piece for each step between two edges that lies within one of the curve's own pieces."""
        at, there = self._at(edges)
        return Curve(
            edges[:-1][there], edges[1:][there], self.resolution[at][there],
            {name: each[at][there] for name, each in self.values.items()},
        )  # fmt: skip

    def _at(self, edges: Values) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Of each step between two edges the piece that holds there, and whether there is one."""
        middle = (edges[:-1] + edges[1:]) / 2
        at = np.clip(np.searchsorted(self.starts, middle, side="right") - 1, 0, len(self.starts) - 1)
        return at, (self.starts[at] <= middle) & (middle < self.ends[at])


def curve_of(intervals: Sequence[Interval], left_out: Iterable[str] = ()) -> Curve:
    """The curve of intervals that do not overlap; ``left_out``: parts to take off, by their names."""
    ordered = joined([columns(intervals, left_out)])
    starts, ends = ordered.starts, ordered.ends
    # Rounded stamps may make neighbours overlap by a second.
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    reads, writes, read_bytes, write_bytes = (
        ordered.told(name) for name in ("reads", "writes", "read_bytes", "write_bytes")
    )
    values = {
        "iops": _either(reads + writes, ordered.told("requests")),
        "read_iops": reads,
        "write_iops": writes,
        "bandwidth": _either(read_bytes + write_bytes, ordered.told("total_bytes")),
        "read_bandwidth": read_bytes,
        "write_bandwidth": write_bytes,
        "flushes": ordered.told("flushes"),
        "concurrency": _in_flight(ordered),
        "transactions": ordered.told("transactions"),
    }
    return Curve(starts, ends, ordered.seconds, values)


def _either(value: Values, other: Values) -> Values:
    return np.where(np.isnan(value), other, value)


def _in_flight(ordered: Columns) -> Values:
    """Requests in flight, by Little's law (Operations Research 9 (1961), 383-387) or as the source counts them. A
    source that never tells how long a request took does not tell it of idle intervals either."""
    found = np.zeros(len(ordered))
    known = False
    for way in ("read", "write"):
        rate, latency = ordered.told(f"{way}s"), ordered.told(f"{way}_latency")
        known = known or bool((~np.isnan(latency) & (rate > 0)).any())
        found = found + np.where(rate == 0, 0.0, rate * latency)
    counted = ordered.told("in_flight")
    return _either(found, counted) if known else counted


def total(curves: Sequence[Curve]) -> Curve:
    """The sum, for the time in which all of them tell something."""
    if len(curves) == 1:
        return curves[0]
    edges = _edges(curves)
    found = [curve._at(edges) for curve in curves]
    there = np.logical_and.reduce([each for _, each in found])
    values = {
        name: np.sum([curve.values[name][at] for curve, (at, _) in zip(curves, found, strict=True)], axis=0)[there]
        for name in METRICS
    }
    resolution = np.max([curve.resolution[at] for curve, (at, _) in zip(curves, found, strict=True)], axis=0)
    return Curve(edges[:-1][there], edges[1:][there], resolution[there], values)


def filled(main: Curve, other: Curve) -> Curve:
    """``main``, with ``other`` where it tells nothing, and flushes and transactions of ``other`` where it has none
    of its own."""
    edges = _edges([main, other])
    (at, here), (beside, there) = main._at(edges), other._at(edges)

    def chosen(name: str, mine: Values, its: Values) -> Values:
        own, foreign = mine[at], its[beside]
        borrow = here & there & np.isnan(own) if name in BORROWED else np.zeros_like(here)
        return np.where(here & ~borrow, own, foreign)[here | there]

    values = {name: chosen(name, main.values[name], other.values[name]) for name in METRICS}
    return Curve(
        edges[:-1][here | there], edges[1:][here | there], chosen("", main.resolution, other.resolution), values
    )


def _edges(curves: Sequence[Curve]) -> Values:
    return np.unique(np.concatenate([each for curve in curves for each in (curve.starts, curve.ends)]))


def quantile(values: Values, weights: Values, share: float) -> float:
    """The least value that holds for at least ``share`` (0 to 1) of the weight: the inverted distribution
    function, without interpolation, so that of a few values it is one of them. NaN without any that is told."""
    told = ~np.isnan(values)
    if not told.any():
        return float("nan")
    order = np.argsort(values[told], kind="stable")
    ranked, cumulated = values[told][order], np.cumsum(weights[told][order])
    at = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12), side="left"))
    return float(ranked[min(at, len(ranked) - 1)])


def mean(values: Values, weights: Values) -> float:
    """Weighted, of what is told; NaN without any."""
    told = ~np.isnan(values) & (weights > 0)
    return float(np.average(values[told], weights=weights[told])) if told.any() else float("nan")


def apart(intervals: Sequence[tuple[Interval, str]]) -> tuple[list[Interval], list[tuple[str, str]]]:
    """Intervals that do not overlap: of those that do the shortest, which tell most. And for each one left out its
    file and that of the one that was kept."""
    if len(intervals) < 2:
        return [interval for interval, _ in intervals], []
    kept: list[tuple[float, Interval, str]] = []
    dropped: list[tuple[str, str]] = []
    for interval, file in sorted(intervals, key=lambda each: (each[0].seconds, each[0].start)):
        slack = min(OVERLAP, interval.seconds / 4)
        at = bisect.bisect(kept, interval.start, key=lambda each: each[0])
        # What is kept does not overlap, so its neighbours are the only ones that can.
        beside = [
            file
            for _, other, file in kept[max(0, at - 1) : at + 1]
            if min(interval.end, other.end) - max(interval.start, other.start) > slack
        ]
        if beside:
            dropped.append((file, beside[0]))
        else:
            kept.insert(at, (interval.start, interval, file))
    return [interval for _, interval, _ in kept], dropped


def overlap(ordered: Columns) -> bool:
    """Whether any of them, ordered by their starts, overlaps the next one by more than rounding makes."""
    slack = np.minimum(OVERLAP, np.minimum(ordered.seconds[:-1], ordered.seconds[1:]) / 4)
    return bool((ordered.ends[:-1] - ordered.starts[1:] > slack).any())
