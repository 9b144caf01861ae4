"""When a rate has settled: the rules by which a run, or a series of short rounds, may stop. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from blocklab.model.stop import SYSTEMATIC, Rule
from blocklab.rules.series import batches, drifts, mser, shifted, standard_error, t975, variance
from blocklab.rules.snia import RANGE

# A rule that is asked again and again stops when the spread looks small by luck, so its intervals are too short by
# about this much. Measured: see tests/unit/test_settle.py.
LONG_RUN_LOOKS = 1.1
ROUND_LOOKS = 1.2

# A run that lost more than this share of it to the warm-up goes on.
MOST_CUT = 0.25
# So many 95 % intervals lie between a warm-up and the rest; fewer, and MSER only cut where it suited the spread.
WARM = 2.0
# A first round is warm-up when it lies outside of this many prediction intervals of the others.
FIRST = 3.0
# The expected range of five normal values, in standard deviations (d2 of control charts: ISO 7870-2, table 2).
RANGE_OF_FIVE = 2.326
# A series of which no mean is that of the next one.
_MOVING = ("still warming up", "level shift", "drifting")


class Settled(msgspec.Struct, frozen=True):
    """What a series says so far, and whether that is enough.

    ``value`` is the mean of the ``used`` points after ``cut`` points of warm-up (None without a single number),
    ``half`` the half width of its 95 % interval in the series' unit (None where none is known). ``why`` says what
    is missing when it is not ``settled``.
    """

    value: float | None
    half: float | None
    used: int
    cut: int
    settled: bool
    why: str = ""


def long_run(values: Sequence[float], interval: float, half_width: float, at_least: float) -> Settled:
    """One long run's rates so far, one for each ``interval`` seconds. To be asked again as it grows.

    Warm-up is cut by MSER-5, where what it cuts differs from the rest; batches grow until they show no
    correlation; halves and slope must show no shift. Settled when the 95 % interval is within ``half_width``
    (relative) and ``at_least`` seconds remain after the warm-up. What shifts within the first quarter is warm-up.

    There is no interval while it warms up, drifts or shifts: it would be too short by nobody knows how much.
    ``SYSTEMATIC`` is in it; what the machine does slower than the run lasts is not: see ``from_rounds``.
    """
    bad = _unusable(values)
    if bad:
        return bad
    cut = _warm_up(values)
    kept = values[cut:]
    value = statistics.fmean(kept)
    found = batches(kept)
    if found is None:
        return Settled(value, None, len(kept), cut, False, "too short")
    means, free = found
    half = _whole(value, LONG_RUN_LOOKS * t975(len(means) - 1) * standard_error(means))
    why = ""
    if cut > MOST_CUT * len(values):
        why = "level shift" if _plateau(values[:cut], value) else "still warming up"
    elif len(kept) * interval < at_least:
        why = "too short"
    elif not free:
        why = "neighbouring batches are correlated"
    elif shifted(means):
        why = "level shift"
    elif drifts(means):
        why = "drifting"
    else:
        why = _too_wide(value, half, half_width)
    return Settled(value, None if why in _MOVING else half, len(kept), cut, not why, why)


def from_rounds(means: Sequence[float], half_width: float, least: int, most: int) -> Settled:
    """The means of independent short rounds so far. To be asked after each round, from ``least`` to ``most``.

    Student's interval over the rounds, widened when it is asked more than once, and with ``SYSTEMATIC`` in it.
    Settled when it is within ``half_width`` (relative) and at least ``least`` rounds are used. The first round is
    left out as warm-up when that moves the mean by more than the round's share (1/n) of the allowed half width,
    and the round lies outside of three times the 95 % prediction interval of at least three others. Raises
    ``ValueError`` unless 2 <= ``least`` <= ``most``.

    Rounds that are minutes apart, in shuffled order with other cells, see a machine's slow drift as spread.
    """
    if not 2 <= least <= most:
        raise ValueError(f"from {least} to {most} rounds: at least 2 are needed for an interval")
    bad = _unusable(means)
    if bad:
        return bad
    cut = int(_cold(means, half_width))
    kept = means[cut:]
    count = len(kept)
    value = statistics.fmean(kept)
    if count < 2:
        return Settled(value, None, count, cut, False, "too few rounds")
    looks = ROUND_LOOKS if most > least else 1.0
    half = _whole(value, looks * t975(count - 1) * math.sqrt(variance(kept) / count))
    why = "too few rounds" if count < least else _too_wide(value, half, half_width)
    return Settled(value, half, count, cut, not why, why)


def ends(rule: Rule, noise: float) -> float:
    """Where a rule is expected to end a phase, from 0 (its least time) to 1 (its cap), for independent rounds, or
    seconds of one long run, with a standard deviation of ``noise``, relative to their mean."""
    if rule.kind == "fixed":
        return 0.0
    if rule.kind == "snia":
        return float(RANGE_OF_FIVE * noise > RANGE)
    long = rule.kind == "long"
    least, most = (math.ceil(rule.at_least), int(rule.at_most)) if long else (rule.least, rule.most)
    looks = LONG_RUN_LOOKS if long else ROUND_LOOKS if most > least else 1.0
    for count in range(max(2, least), most):
        if _whole(1.0, looks * t975(count - 1) * noise / math.sqrt(count)) <= rule.half_width:
            return (count - least) / (most - least)
    return float(most > least)


def _unusable(values: Sequence[float]) -> Settled | None:
    """What is said of values that no rule can be applied to; None when they are usable."""
    if not all(map(math.isfinite, values)):
        numbers = [value for value in values if math.isfinite(value)]
        value = statistics.fmean(numbers) if numbers else None
        return Settled(value, None, len(numbers), 0, False, "a value is not a number")
    if not values:
        return Settled(None, None, 0, 0, False, "no values")
    if not any(values):
        return Settled(0.0, None, len(values), 0, False, "every value is 0")
    return None


def _whole(value: float, half: float) -> float:
    """The half width with what the spread does not tell of; independent parts add up by their squares (JCGM
    100:2008, "Guide to the expression of uncertainty in measurement", 5.1.2)."""
    return math.hypot(half, SYSTEMATIC * value)


def _too_wide(value: float, half: float, half_width: float) -> str:
    """``interval is ±4.1 %`` when it is wider than allowed, else empty."""
    if half <= half_width * abs(value):
        return ""
    return f"interval is ±{half / abs(value):.1%}".replace("%", " %") if value else "the mean is 0"


def _warm_up(values: Sequence[float]) -> int:
    """How many values to cut: where MSER says, but only what differs from the rest by more than noise.

    On a series without a warm-up MSER cuts where that makes the spread least, and with it the interval too short:
    of 60 points with a correlation of 0.6 the coverage fell from 92 to 86 %.
    """
    cut = mser(values)
    kept = values[cut:]
    if not cut:
        return 0
    found = batches(kept)
    means = found[0] if found else kept
    apart = abs(statistics.fmean(values[:cut]) - statistics.fmean(kept))
    error = standard_error(means) * math.sqrt(1 + len(kept) / cut)
    return cut if apart > WARM * t975(len(means) - 1) * error else 0


def _plateau(cut: Sequence[float], value: float) -> bool:
    """Whether what was cut lay level at another height than ``value``, rather than on its way there."""
    half = len(cut) // 2
    if not half:
        return False
    rise = statistics.fmean(cut[-half:]) - statistics.fmean(cut[:half])
    return abs(rise) < abs(value - statistics.fmean(cut)) / 2


def _cold(means: Sequence[float], half_width: float) -> bool:
    """Whether the first round is a warm-up (see ``from_rounds``)."""
    first, others = means[0], means[1:]
    if len(others) < 3:
        return False
    value = statistics.fmean(others)
    apart = abs(first - value)
    predicted = t975(len(others) - 1) * math.sqrt(variance(others) * (1 + 1 / len(others)))
    # The mean moves by apart / n; n stands on both sides of "more than its share".
    return apart > half_width * abs(value) and apart > FIRST * predicted
