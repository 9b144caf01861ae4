"""Steady state as SNIA's Performance Test Specification for solid-state storage defines it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

WINDOW = 5
RANGE = 0.20
SLOPE = 0.10
# A value exactly on a bound is within it ("no more than"); binary fractions must not decide.
_ROUNDING = 1e-9


class Steady(msgspec.Struct, frozen=True):
    """The last five rounds by SNIA's rule.

    ``average`` is their mean (of all rounds while there are fewer than five; None without any), ``spread`` the
    largest less the smallest value, ``excursion`` what the least-squares line rises or falls over the window, both
    relative to the average (None while not known). ``why`` says what is missing when it is not ``steady``.
    """

    average: float | None
    spread: float | None
    excursion: float | None
    steady: bool
    why: str = ""


def snia(rounds: Sequence[float]) -> Steady:
    """Whether a device is in steady state after these rounds; the last five are the measurement window.

    The standard's wording (SNIA SSS PTS 2.0.1 and 2.0.2, 2.1.24): "A device is said to be in Steady State when,
    for the dependent variable (y) being tracked: a) Range(y) is less than 20% of Ave(y): Max(y)-Min(y) within the
    Measurement Window is no more than 20% of the Ave(y) within the Measurement Window; and b) Slope(y) is less
    than 10%: Max(y)-Min(y), where Max(y) and Min(y) are the maximum and minimum values on the best linear curve
    fit of the y-values within the Measurement Window, is within 10% of Ave(y) value within the Measurement
    Window."

    Heading and body differ on the bound itself ("less than", "no more than"); the body is followed. The best
    linear fit is the least-squares line over the rounds' numbers, so its excursion is four times the slope. It is
    no interval: the rule says nothing of how sure the average is.
    """
    if len(rounds) < WINDOW:
        average = statistics.fmean(rounds) if rounds else None
        return Steady(average, None, None, False, f"{len(rounds)} of {WINDOW} rounds")
    window = rounds[-WINDOW:]
    average = statistics.fmean(window)
    if not average > 0 or average == float("inf"):
        return Steady(None, None, None, False, "no average that could be taken as 100 %")
    spread = (max(window) - min(window)) / average
    slope, _ = statistics.linear_regression(range(WINDOW), window)
    excursion = abs(slope) * (WINDOW - 1) / average
    why = ""
    if spread > RANGE + _ROUNDING:
        why = f"the range is {spread:.1%} of the average, more than {RANGE:.0%}".replace("%", " %")
    elif excursion > SLOPE + _ROUNDING:
        why = f"the slope is {excursion:.1%} of the average, more than {SLOPE:.0%}".replace("%", " %")
    return Steady(average, spread, excursion, not why, why)
