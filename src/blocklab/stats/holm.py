"""Many ratios at once: some leave 1 out by chance, and those must not be told as differences.

Each ratio stands on a few builds, so that its own spread is poorly known. As in the analysis of microarrays, with
the same many comparisons of few repeats, the spreads of all ratios tell what is usual, and each is drawn towards
that as far as they are alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import msgspec

from blocklab.model.stop import SYSTEMATIC
from blocklab.rules.series import t975
from blocklab.stats.summary import Estimate

T = TypeVar("T", bound=Hashable)
LEVEL = 0.05
# Of fewer ratios there is no telling how alike their spreads are.
LEAST = 5
# More degrees of freedom than these change nothing.
MOST_DF = 200
_EULER = 0.5772156649015329


class _Known(msgspec.Struct, frozen=True):
    """The logarithm of a ratio, the standard deviation of one build's (of several machines one machine's), its
    degrees of freedom, and how many."""

    log: float
    sd: float
    df: int
    units: int


def cautious(shares: Sequence[tuple[Hashable, Estimate]]) -> list[Estimate]:
    """The ratios in their order, those with ``doubt="chance"`` that do not differ from 1 among all of them.

    With each comes the layout that was built for it: several ratios share its builds. Holm's method (A simple
    sequentially rejective multiple test procedure, Scand. J. Stat. 6 (1979), 65-70) keeps the chance of even one
    false difference among all at 5 %. Ratios without an interval, or with another doubt, take no part.
    """
    known = {at: each for at, (_, share) in enumerate(shares) if (each := _known(share)) is not None}
    found = [share for _, share in shares]
    if len(known) < 2:
        return found
    layouts = {shares[at][0]: each.df for at, each in known.items()}
    usual, weight = _usual([(each.sd**2, each.df) for each in known.values()], sum(layouts.values()))
    chances = {at: _chance(each, usual, weight) for at, each in known.items()}
    for at in chances.keys() - rejected(chances, LEVEL):
        found[at] = msgspec.structs.replace(found[at], doubt="chance")
    return found


def rejected(chances: Mapping[T, float], level: float) -> set[T]:
    """Those that Holm's method rejects: the chance that any of them is wrong is at most ``level``."""
    found: set[T] = set()
    for at in sorted(chances, key=lambda at: chances[at]):
        if chances[at] * (len(chances) - len(found)) > level:
            break
        found.add(at)
    return found


def _known(share: Estimate) -> _Known | None:
    """What the interval of a ratio that is the mean over its builds was made from."""
    if share.half is None or share.builds < 2 or share.doubt or share.value <= 0:
        return None
    df = share.units - 1
    half = math.sqrt(max(0.0, math.log1p(share.half / share.value) ** 2 - SYSTEMATIC**2))
    sd = max(half * math.sqrt(share.units) / t975(df), SYSTEMATIC / 2)
    return _Known(math.log(share.value), sd, df, share.units)


def _usual(variances: Sequence[tuple[float, int]], most: int) -> tuple[float, int]:
    """The usual variance, and how many degrees of freedom it is worth beside a ratio's own; 0 where it tells
    nothing. Source: Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004),
    section 6.2. ``most``: those that all builds together have."""
    if len(variances) < LEAST:
        return 0.0, 0
    logs = [math.log(value) - digamma(df) + math.log(df / 2) for value, df in variances]
    middle = statistics.fmean(logs)
    spread = statistics.variance(logs) - statistics.fmean(trigamma(df) for _, df in variances)
    weight = min(MOST_DF, most)
    while weight and trigamma(weight) < spread:
        weight -= 1
    if not weight:
        return 0.0, 0
    return math.exp(middle + digamma(weight) - math.log(weight / 2)), weight


def _chance(each: _Known, usual: float, weight: int) -> float:
    df = each.df + weight
    variance = (each.df * each.sd**2 + weight * usual) / df
    # What all builds have in common is known at 95 %.
    error = math.hypot(math.sqrt(variance / each.units), SYSTEMATIC / t975(MOST_DF))
    return beyond(abs(each.log) / error, min(df, MOST_DF))


def beyond(t: float, df: int) -> float:
    """The probability that Student's t lies outside of -``t`` to ``t``, for ``df`` >= 1 degrees of freedom
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = cosine if df % 2 else 1.0
    total = 0.0
    for k in range(3 if df % 2 else 2, df + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    within = 2 / math.pi * (angle + sine * total) if df % 2 else sine * total
    return max(0.0, 1 - within)


def digamma(df: int) -> float:
    """The digamma function at ``df`` / 2, for ``df`` >= 1 (Abramowitz and Stegun, 6.3.2 to 6.3.5)."""
    start = -_EULER - (2 * math.log(2) if df % 2 else 0.0)
    return start + sum(2 / k for k in range(1 if df % 2 else 2, df, 2))


def trigamma(df: int) -> float:
    """The trigamma function at ``df`` / 2, for ``df`` >= 1 (Abramowitz and Stegun, 6.4.2 to 6.4.6)."""
    start = math.pi**2 / (2 if df % 2 else 6)
    return start - sum(4 / k**2 for k in range(1 if df % 2 else 2, df, 2))
