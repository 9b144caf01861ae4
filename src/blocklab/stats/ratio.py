"""One stack's value relative to another's."""

from __future__ import annotations

import math
from typing import Literal

from blocklab.stats.summary import Endless, Estimate


def ratio(of: Estimate, to: Estimate) -> Estimate | None:
    """``of`` / ``to``, with the wider side of its 95 % interval where both have one; None when ``to`` is 0.

    Fieller's interval for two independent runs. It has no end, and the ratio is ``Endless``, where the interval of
    ``to`` reaches 0. Source: Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).
    """
    if to.value == 0:
        return None
    value = of.value / to.value
    if of.half is None or to.half is None:
        return Estimate(value)
    if to.half >= abs(to.value):
        return Endless(value)
    # The ends are (value +- sqrt(...)) / (1 - below^2), of which the one away from 0 is farther off.
    above, below = of.half / to.value, to.half / to.value
    far = (abs(value) + math.sqrt(above**2 * (1 - below**2) + (value * below) ** 2)) / (1 - below**2)
    return Estimate(value, far - abs(value))


# A difference of less than this (a part of the baseline) decides nothing: an interval around 1 that goes no
# further shows that there is none to speak of.
NOTABLE = 0.05

Verdict = Literal["differs", "no difference shown", "too noisy to say", "no interval"]


def verdict(share: Estimate) -> Verdict:
    """What a ratio and its 95 % interval say: ``differs`` where the interval leaves 1 out; where it holds 1, ``no
    difference shown`` if all of it lies within 5 % of it, else ``too noisy to say``, as of one without an end.
    ``no interval`` where there is none.
    """
    if share.half is None:
        return "too noisy to say" if isinstance(share, Endless) else "no interval"
    if abs(share.value - 1) > share.half:
        return "differs"
    # 1e-9: what was meant to be 5 % is, as a float.
    return "no difference shown" if abs(share.value - 1) + share.half <= NOTABLE + 1e-9 else "too noisy to say"
