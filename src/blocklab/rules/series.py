"""Pieces that the stopping rules are made of: warm-up, batches, correlation, shifts, Student's t. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import accumulate
from operator import mul, sub

# Student's t, 97.5 %, for 1 to 30 degrees of freedom.
_T = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z = 1.959964

# MSER-5: the statistic is taken over means of five neighbouring values.
MSER = 5
# The statistic of the last few means is small by chance alone, so it is not looked at there.
LAST = 5

# More batches than these tell no more about the mean, and their correlation is seen better in longer ones.
MOST_BATCHES = 64
LEAST_BATCHES = 10
# In fewer values than these a correlation of 0.6 is overlooked too often.
LEAST_VALUES = 15
# One-sided 10 %: to overlook correlation costs coverage, to see one that is not there costs only time.
_CORRELATED = 1.2816
# A batch is at least so many times as long as the values resemble each other, (1 + r) / (1 - r) of them.
_TIMES = 2.0
# A shift is looked for again and again while the series grows, so t must be larger than usual: 1 % a look.
_SHIFTED = 1.4


def t975(df: int) -> float:
    """Student's t, 97.5 % (the factor of a two-sided 95 % interval), for ``df`` >= 1 degrees of freedom.

    A table up to 30, beyond that the Cornish-Fisher expansion to 1/df^3 (Abramowitz and Stegun, 26.7.5), good to
    1e-5. Raises ``ValueError`` below 1.
    """
    if df < 1:
        raise ValueError(f"no t quantile for {df} degrees of freedom")
    if df <= len(_T):
        return _T[df - 1]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / df + second / df**2 + third / df**3


def variance(values: Sequence[float]) -> float:
    """The sample variance of at least two values; ``statistics.variance`` calculates in slow fractions."""
    centre = statistics.fmean(values)
    return sum([(value - centre) ** 2 for value in values]) / (len(values) - 1)


def mser(values: Sequence[float]) -> int:
    """The index of the first value that MSER-5 keeps, wherever it lies (White, Cobb and Spratt 2000).

    Values are put into means of five; d of these are cut so that sum((z - mean)^2) / (number kept)^2 is least. A
    series under 50 values has shorter means (of a tenth of it), so that there are enough of them. 0 when it is too
    short to say.
    """
    size = min(MSER, max(1, len(values) // 10))
    count = len(values) // size
    if count <= LAST:
        return 0
    means = batch_values(values[: count * size], size)
    # Sums of what differs from the last mean: large values that differ little would lose their digits otherwise.
    rest = [mean - means[-1] for mean in reversed(means)]
    sums, squares = list(accumulate(rest)), list(accumulate(value * value for value in rest))
    best, first = math.inf, 0
    for kept in range(LAST, count + 1):
        spread = max(0.0, squares[kept - 1] - sums[kept - 1] ** 2 / kept) / kept**2
        # On a tie (a constant series) the cut that keeps more.
        if spread <= best:
            best, first = spread, count - kept
    return first * size


def truncate(values: Sequence[float]) -> int | None:
    """The index of the first value after the warm-up, by MSER-5; None when more than half would have to go.

    More than half means that the series is still warming up: the least spread lies at its end since it has not
    come to rest.
    """
    first = mser(values)
    return None if 2 * first > len(values) else first


def von_neumann(means: Sequence[float]) -> float:
    """An estimate of the lag-1 correlation, 1 - sum((y[i+1] - y[i])^2) / (2 sum((y - mean)^2)); 0 for a constant.

    Without correlation it is about normal with mean 0 and variance (k - 2) / (k^2 - 1) for k values (von Neumann
    1941; Fishman 1978).
    """
    centre = statistics.fmean(means)
    away = [mean - centre for mean in means]
    total: float = sum(map(mul, away, away))
    # The mean of equal values is not always one of them, to the last digit.
    if total <= 0 or min(means) == max(means):
        return 0.0
    steps = list(map(sub, away[1:], away))
    changes: float = sum(map(mul, steps, steps))
    return 1 - changes / (2 * total)


def correlated(found: float, count: int) -> bool:
    """Whether von Neumann's estimate from ``count`` >= 3 values shows a positive lag-1 correlation."""
    return found > _CORRELATED * math.sqrt((count - 2) / (count**2 - 1))


def corrected(found: float, count: int) -> float:
    """Von Neumann's estimate where it is positive, freed of its bias of about -(1 + 3 r) / k; at most 0.95."""
    found = max(0.0, found)
    return min(0.95, found + (1 + 3 * found) / count)


def batches(values: Sequence[float]) -> tuple[list[float], bool] | None:
    """Batch means of a series, the batches as short as they may be, and whether these are free of correlation.

    Where the values themselves are correlated, batches start at twice the time that these resemble each other;
    they grow by a fifth until their means are not correlated, down to ``LEAST_BATCHES`` of them. What does not
    fill a batch is left out at the start. None when there are fewer than ``LEAST_VALUES`` values.
    """
    total = len(values)
    if total < LEAST_VALUES:
        return None
    size = -(-total // MOST_BATCHES)
    found = von_neumann(values)
    if correlated(found, total):
        r = corrected(found, total)
        size = max(size, math.ceil(_TIMES * (1 + r) / (1 - r)))
    longest = total // LEAST_BATCHES
    if size > longest:
        return batch_values(values, longest), False
    means = batch_values(values, size)
    while correlated(von_neumann(means), len(means)):
        size = max(size + 1, size * 6 // 5)
        if size > longest:
            return means, False
        means = batch_values(values, size)
    return means, True


def batch_values(values: Sequence[float], size: int) -> list[float]:
    """The means of batches of ``size`` values; those at the start that do not fill one are left out."""
    if size == 1:
        return list(values)
    return [sum(values[at : at + size]) / size for at in range(len(values) % size, len(values), size)]


def standard_error(means: Sequence[float]) -> float:
    """The standard error of the mean of at least three batch means, with what correlation is left between them.

    The plain one times sqrt((1 + r) / (1 - r)), for r their lag-1 correlation (the correction of Skart: Tafazzoli,
    Wilson, Lada and Steiger 2011).
    """
    r = corrected(von_neumann(means), len(means))
    return math.sqrt(variance(means) / len(means) * (1 + r) / (1 - r))


def shifted(means: Sequence[float]) -> bool:
    """Whether the second half of at least six batch means differs from the first: a level shift."""
    half = len(means) // 2
    before, after = means[:half], means[-half:]
    error = math.sqrt((variance(before) + variance(after)) / half)
    return abs(statistics.fmean(after) - statistics.fmean(before)) > _SHIFTED * t975(2 * half - 2) * error


def drifts(means: Sequence[float]) -> bool:
    """Whether the least-squares line through at least three means has a slope that noise does not explain."""
    count = len(means)
    centre, middle, width = statistics.fmean(means), (count - 1) / 2, (count**3 - count) / 12
    slope = sum([(at - middle) * (mean - centre) for at, mean in enumerate(means)]) / width
    left = sum([(mean - centre - slope * (at - middle)) ** 2 for at, mean in enumerate(means)])
    error = math.sqrt(left / (count - 2) / width)
    return abs(slope) > _SHIFTED * t975(count - 2) * error
