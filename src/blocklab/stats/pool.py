"""Values of several machines with several builds each, put together: the machine is a random effect.

``value = centre + machine + build``: what a machine does to a value (standard deviation ``between``) is another
draw than what a build of the layout does to it (``within``). Builds of one machine share the first, so that many
of them on few machines say less of a further machine than their number suggests.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence

import msgspec

from blocklab.rules.series import t975


class Pool(msgspec.Struct, frozen=True):
    """The ``centre`` of some values and the half width of its 95 % interval; None of one value.

    ``between`` and ``within`` are the standard deviations of machines, and of builds on one machine; None where
    they cannot be told apart, since no machine has two builds, or there is one machine. ``chance``: how probable
    machines that differ as much are where only builds do (Cochran's Q); None likewise. ``low`` and ``high``: where
    95 % of further machines are; None of fewer than three.
    """

    centre: float
    half: float | None
    machines: int
    builds: int
    between: float | None = None
    within: float | None = None
    chance: float | None = None
    low: float | None = None
    high: float | None = None


def pool(values: Sequence[float], machines: Sequence[Hashable] = ()) -> Pool:
    """Put values of independent builds together, with the machine of each; without ``machines`` all are of one.

    Of one machine, and where each machine has one build: the mean, with Student's interval over the builds. Else
    the machines' means are weighted by ``1 / (between^2 + within^2 / builds)``. ``between`` is that of R.
    DerSimonian and N. Laird, Meta-analysis in clinical trials, Control. Clin. Trials 7 (1986), 177-188, with the
    builds' variance pooled over the machines; the interval is that of Hartung, Knapp, Sidik and Jonkman with
    Student's t of one degree of freedom less than machines (J. Hartung and G. Knapp, Stat. Med. 20 (2001),
    3875-3889; J. IntHout et al., BMC Med. Res. Methodol. 14 (2014), 25), which with equal numbers of builds is
    Student's over the machines' means, and exact. It is never narrower than that over all builds: means of few
    machines may agree by luck. Raises ``ValueError`` without values.
    """
    groups: dict[Hashable, list[float]] = {}
    for value, machine in zip(values, machines or [None] * len(values), strict=True):
        groups.setdefault(machine, []).append(value)
    count, builds = len(groups), len(values)
    alone = _student(values) if builds > 1 else None
    if count == 1 or count == builds:
        return Pool(statistics.fmean(values), alone, count, builds)
    sizes = [len(group) for group in groups.values()]
    means = [statistics.fmean(group) for group in groups.values()]
    free = builds - count
    within = sum(
        (value - mean) ** 2 for group, mean in zip(groups.values(), means, strict=True) for value in group
    )
    within /= free
    whole = statistics.fmean(values)
    among = sum(size * (mean - whole) ** 2 for size, mean in zip(sizes, means, strict=True)) / (count - 1)
    between = max(0.0, (among - within) * (count - 1) / (builds - sum(size**2 for size in sizes) / builds))
    # Builds and machines that agree to the last digit: any weights do.
    spreads = [between + within / size for size in sizes]
    weights = [1 / spread for spread in spreads] if all(spreads) else [1.0] * count
    total = sum(weights)
    centre = sum(weight * mean for weight, mean in zip(weights, means, strict=True)) / total
    error = sum(weight * (mean - centre) ** 2 for weight, mean in zip(weights, means, strict=True))
    error /= (count - 1) * total
    half = max(t975(count - 1) * math.sqrt(error), alone or 0.0)
    chance = beyond_f(among / within, count - 1, free) if within else float(not among)
    low = high = None
    if count > 2:
        # J. P. T. Higgins et al., J. R. Stat. Soc. A 172 (2009), 137-159, section 2.4; as many degrees of freedom
        # as the interval has, since the machines' means tell their spread by themselves.
        reach = max(t975(count - 1) * math.sqrt(between + error), half)
        low, high = centre - reach, centre + reach
    return Pool(centre, half, count, builds, math.sqrt(between), math.sqrt(within), chance, low, high)


def _student(values: Sequence[float]) -> float:
    return t975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def beyond_f(value: float, above: int, below: int) -> float:
    """The probability that F, of ``above`` and ``below`` degrees of freedom, is larger than ``value``: the
    incomplete beta function by its continued fraction (Abramowitz and Stegun, 26.6.2 and 26.5.8).

    Cochran's Q over its degrees of freedom is distributed so, rather than as chi-square, where the variance within
    the machines is itself estimated from the builds: it is the F test of a one-way analysis of variance.
    """
    x = below / (below + above * value)
    if not 0 < x < 1:
        return float(x >= 1)
    a, b = below / 2, above / 2
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges fast on this side only.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    found = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            found *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return found
