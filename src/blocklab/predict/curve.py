"""The model of a rate over concurrency and round trip, its fit, and what it may be wrong by.

A transaction takes its own time ``s`` and waits ``k`` times for stable storage, which takes ``w`` (of its stack)
and one round trip; of many clients a wait finds half of another one under way, on average (a ferry of commits):

    T(n) = s + k (w + rtt) (1 + (1 - 1/n) / 2)
    F    = 1 / (1/C + l (w + rtt))
    X(n) = ((n / T(n))^-q + F^-q)^(-1/q)

so n clients do n / T, until something is full: the capacity ``C``, or what only one transaction can have at a time
(a lock) for ``l`` of its waits. ``q`` is how sharp the bend is. ``k``, ``C`` and ``l`` are those of a combination
of the study's other levels (a *group*), ``w`` and a factor on ``C`` those of a stack.

All parameters are positive and fitted as logarithms, by least squares on the logarithm of the rate with a robust
loss, and with a prior each, so that what the data do not tell stays where a usual layout has it. On 30 published
points (docs/prediction.md) that is 12 % off in the median where each is left out in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]
# Of the stated intervals.
LEVEL = 0.9
# Jackknife+ has a quantile of that level from so many points on.
LEAST = 10
# The scale of the residuals: what a cell differs by from time to time, and the model from the truth.
_NOISE = 0.2
_LEAST_NOISE, _MEDIAN_OF_NORMAL, _STEP = 0.02, 0.6745, 1e-4
# Priors (standard deviations of logarithms): own time, sharpness, wait, waits, capacity, locked waits; how far
# stacks differ in their wait and in their capacity.
_OWN, _SHARP, _WAIT, _WAITS, _CAPACITY, _LOCKED, _STACKS, _SHARE = 1.5, 0.7, 1.5, 1.2, 0.7, 1.0, 0.3, 0.03
_USUAL_SHARP, _USUAL_WAITS, _USUAL_LOCKED = 2.0, 3.0, 0.2
# A transaction (s) before anything is known: it only decides which cells are measured.
_USUAL_OWN = 0.005


class Spot(msgspec.Struct, frozen=True):
    """Where a cell stands: the numbers of its stack and its group, how many clients, and the round trip (s) that
    each of its waits has in it."""

    stack: int
    group: int
    clients: float
    rtt: float


class Parameters(msgspec.Struct, frozen=True):
    """What was fitted: ``own`` (s), ``sharp``, and by number the stacks' ``wait`` (s), the groups' ``waits`` and
    ``locked`` waits, and the ``capacity`` (1/s) of each group, and in it of each stack."""

    own: float
    sharp: float
    wait: tuple[float, ...]
    waits: tuple[float, ...]
    locked: tuple[float, ...]
    capacity: tuple[tuple[float, ...], ...]


class Interval(msgspec.Struct, frozen=True):
    """A predicted rate (1/s) and the bounds of its 90 % interval."""

    value: float
    low: float
    high: float


class Layout(msgspec.Struct, frozen=True):
    """Where parameters stand in the vector that is fitted: of so many stacks and groups."""

    stacks: int
    groups: int

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return 3 + 3 * self.groups + 2 * self.stacks

    def split(self, vector: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The groups' waits, capacities and locked waits, the stacks' waits and capacities."""
        ends = np.cumsum([3, self.groups, self.groups, self.groups, self.stacks])
        _, waits, capacity, locked, wait, share = np.split(vector, ends)
        return waits, capacity, locked, wait, share


class Curve:
    """A model that was fitted to measured rates.

    ``rates`` (1/s) are at ``spots``; at least one, of positive numbers. Stacks and groups count from 0.
    """

    def __init__(self, spots: Sequence[Spot], rates: Sequence[float], start: Floats | None = None) -> None:
        self.spots = tuple(spots)
        self._y = np.log(np.asarray(rates, dtype=float))
        self._layout = Layout(max(each.stack for each in spots) + 1, max(each.group for each in spots) + 1)
        if start is not None and len(start) != self._layout.size:
            start = None
        self._places = _columns(spots)
        self._middle, self._wide = _prior(self._layout, self._places, self._y)
        first = self._middle if start is None else start
        # It takes half a second to load, for which a run that predicts nothing need not wait.
        from scipy.optimize import least_squares

        self._vector: Floats = least_squares(self._residuals, first, loss="soft_l1", x_scale=self._wide).x

    def _residuals(self, vector: Floats) -> Floats:
        off = (_predicted(self._layout, vector, self._places) - self._y) / _NOISE
        return np.concatenate([off, (vector - self._middle) / self._wide])

    @property
    def parameters(self) -> Parameters:
        """The parameters, as numbers."""
        waits, capacity, locked, wait, share = self._layout.split(self._vector)
        own, sharp, common = np.exp(self._vector[:3])
        return Parameters(
            float(own), float(sharp), tuple(float(common * each) for each in np.exp(wait)),
            tuple(map(float, np.exp(waits))), tuple(map(float, np.exp(locked))),
            tuple(tuple(map(float, np.exp(each + share))) for each in capacity),
        )  # fmt: skip

    def rates(self, spots: Sequence[Spot]) -> Floats:
        """The rates (1/s) there; stacks and groups have to be among those that were fitted."""
        found: Floats = np.exp(_predicted(self._layout, self._vector, _columns(spots)))
        return found

    def without(self, number: int) -> Curve:
        """The fit without one of its points."""
        kept = [at for at in range(len(self.spots)) if at != number]
        return _of(kept, self.spots, self._y, self._vector)

    def spread(self, spots: Sequence[Spot]) -> Floats:
        """By what part a measurement there is expected to differ from the prediction (standard deviation of the
        logarithm): the residuals' own, and what the data leave open of the parameters."""
        off = np.abs(_predicted(self._layout, self._vector, self._places) - self._y)
        noise = max(_LEAST_NOISE, float(np.median(off)) / _MEDIAN_OF_NORMAL)
        mine, there = (slopes(self._layout, self._vector, each) for each in (self._places, _columns(spots)))
        known = np.linalg.inv(mine.T @ mine / noise**2 + np.diag(self._wide**-2))
        found: Floats = np.sqrt(noise**2 + np.einsum("ij,jk,ik->i", there, known, there))
        return found

    def intervals(self, spots: Sequence[Spot]) -> list[Interval]:
        """Predictions with their 90 % intervals, by the jackknife+ (Barber, Candes, Ramdas and Tibshirani 2021,
        section 1.3): each point is left out in turn, and what the others say of it is how wrong they may be. A
        design's points lie at the ends, where that is more than between them: it is scaled by ``spread``."""
        if not spots:
            return []
        lows, highs = [], []
        for number, spot in enumerate(self.spots):
            rest = self.without(number)
            everything = [_known(each, rest) for each in (spot, *spots)]
            found, spread = np.log(rest.rates(everything)), rest.spread(everything)
            off = abs(found[0] - self._y[number]) / spread[0] * spread[1:]
            lows.append(found[1:] - off)
            highs.append(found[1:] + off)
        count = len(self.spots)
        rank = min(math.ceil((count + 1) * LEVEL), count)
        low, high = np.sort(np.array(lows), axis=0)[count - rank], np.sort(np.array(highs), axis=0)[rank - 1]
        values = self.rates(spots)
        return [
            Interval(float(value), float(min(value, bottom)), float(max(value, top)))
            for value, bottom, top in zip(values, np.exp(low), np.exp(high), strict=True)
        ]


def slopes(layout: Layout, vector: Floats, places: Places) -> Floats:
    """How the logarithm of the rate at each place (rows) changes with each parameter (columns)."""
    ways = _STEP * np.eye(len(vector))
    return np.array([
        (_predicted(layout, vector + way, places) - _predicted(layout, vector - way, places)) / (2 * _STEP)
        for way in ways
    ]).T  # fmt: skip


def _of(kept: Sequence[int], spots: Sequence[Spot], logs: Floats, start: Floats) -> Curve:
    return Curve([spots[at] for at in kept], [math.exp(logs[at]) for at in kept], start)


def _known(spot: Spot, curve: Curve) -> Spot:
    """The spot, as a fit without its stack's or group's only point knows it: by the last that it has."""
    stacks = max(each.stack for each in curve.spots)
    groups = max(each.group for each in curve.spots)
    return msgspec.structs.replace(spot, stack=min(spot.stack, stacks), group=min(spot.group, groups))


def _columns(spots: Sequence[Spot]) -> Places:
    return (
        np.array([each.stack for each in spots], dtype=np.int64),
        np.array([each.group for each in spots], dtype=np.int64),
        np.array([each.clients for each in spots], dtype=float),
        np.array([each.rtt for each in spots], dtype=float),
    )


def _predicted(layout: Layout, vector: Floats, places: Places) -> Floats:
    """The logarithm of the rate."""
    stack, group, clients, rtt = places
    waits, capacity, locked, wait, share = layout.split(vector)
    one = np.exp(vector[2] + wait[stack]) + rtt
    took = np.exp(vector[0]) + np.exp(waits)[group] * one * (1 + (1 - 1 / clients) / 2)
    sharp = np.exp(vector[1])
    # The power mean of both limits, in logarithms, which cannot overflow.
    full = -np.logaddexp(-(capacity[group] + share[stack]), locked[group] + np.log(one))
    free = np.log(clients / took)
    found: Floats = -np.logaddexp(-sharp * free, -sharp * full) / sharp
    return found


def _prior(layout: Layout, places: Places, logs: Floats) -> tuple[Floats, Floats]:
    """Middle and width of each parameter's logarithm: half of the shortest transaction is its own time, an eighth
    of it a wait, and the capacity is the highest rate that was seen."""
    shortest, highest = float(np.min(np.log(places[2]) - logs)), float(np.max(logs))
    stacks, groups = np.zeros(layout.stacks), np.ones(layout.groups)
    middle = np.concatenate([
        [shortest - math.log(2), math.log(_USUAL_SHARP), shortest - math.log(8)],
        math.log(_USUAL_WAITS) * groups, highest * groups, math.log(_USUAL_LOCKED) * groups, stacks, stacks,
    ])  # fmt: skip
    wide = np.concatenate([
        [_OWN, _SHARP, _WAIT], _WAITS * groups, _CAPACITY * groups, _LOCKED * groups, _STACKS + stacks,
        _SHARE + stacks,
    ])  # fmt: skip
    return middle, wide


class Guess(msgspec.Struct, frozen=True):
    """The model before anything was measured: the priors' middle as ``vector``, their widths, and the spots."""

    vector: Floats
    wide: Floats
    layout: Layout
    spots: tuple[Spot, ...]

    def slopes(self) -> Floats:
        """How the logarithm of the rate at each spot (rows) changes with each parameter (columns)."""
        return slopes(self.layout, self.vector, _columns(self.spots))


def guess(spots: Sequence[Spot]) -> Guess:
    """Of transactions that take as long as some round trips, and of a bend in the middle of the clients."""
    layout = Layout(max(each.stack for each in spots) + 1, max(each.group for each in spots) + 1)
    places = _columns(spots)
    took = max(_USUAL_OWN, float(np.median(places[3])))
    middle = float(np.exp(np.mean(np.log(places[2]))))
    logs = np.array([math.log(middle / took)])
    one = (places[0][:1], places[1][:1], np.array([middle]), places[3][:1])
    vector, wide = _prior(layout, one, logs)
    return Guess(vector, wide, layout, tuple(spots))
