"""Counts of successes, and order statistics: exact intervals, without a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec


class Share(msgspec.Struct, frozen=True):
    """``count`` of ``of``, and the 95 % interval of the share behind it."""

    count: int
    of: int
    low: float
    high: float


class Middle(msgspec.Struct, frozen=True):
    """A median, its 95 % interval (None where there are too few values), and the range."""

    median: float
    low: float | None
    high: float | None
    least: float
    most: float
    count: int


def share(count: int, of: int) -> Share:
    """The exact interval of Clopper and Pearson, which is never too narrow (Biometrika 26 (1934), 404-413), by
    bisection of the binomial sum. At 0 and at ``of`` the one side that is left has all of the 5 %: 0 of n has the
    bound ``1 - 0.05 ** (1 / n)``, 14 % for n = 20 (J. A. Hanley and A. Lippman-Hand, JAMA 249 (1983), 1743-1745).
    Raises ``ValueError`` of nothing.
    """
    if not 0 <= count <= of or not of:
        raise ValueError(f"{count} of {of} is no share")
    tail = 0.05 if count in (0, of) else 0.025
    low = 0.0 if count == 0 else _solve(lambda p: 1 - _below(count, of, p), tail)
    high = 1.0 if count == of else _solve(lambda p: 1 - _below(count + 1, of, p), 1 - tail)
    return Share(count, of, low, high)


def middle(values: Sequence[float]) -> Middle:
    """The median with the interval between two of the values that covers it with at least 95 %, whatever the
    values' distribution (sign test); under six values there is none. Raises ``ValueError`` without values."""
    if not values:
        raise ValueError("no values, so no median")
    ranked = sorted(values)
    count = len(ranked)
    half = count // 2
    centre = ranked[half] if count % 2 else (ranked[half - 1] + ranked[half]) / 2
    # How many values may be left out on each side.
    out = -1
    while _below(out + 2, count, 0.5) <= 0.025:
        out += 1
    low, high = (ranked[out], ranked[count - 1 - out]) if out >= 0 else (None, None)
    return Middle(centre, low, high, ranked[0], ranked[-1], count)


def _below(limit: int, of: int, p: float) -> float:
    """The probability of fewer than ``limit`` successes."""
    if p <= 0 or p >= 1:
        return 1.0 if (p <= 0 and limit > 0) or limit > of else 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    whole = math.lgamma(of + 1)
    return min(1.0, math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * log_p + (of - k) * log_q)
        for k in range(limit)
    ))  # fmt: skip


def _solve(rising: Callable[[float], float], wanted: float) -> float:
    """Where a function that rises from 0 to 1 has a value."""
    low, high = 0.0, 1.0
    for _ in range(60):
        centre = (low + high) / 2
        low, high = (centre, high) if rising(centre) < wanted else (low, centre)
    return (low + high) / 2
