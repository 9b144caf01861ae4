"""One stack's figure relative to another's."""

from __future__ import annotations

import math

from blocklab.stats.summary import Estimate


def ratio(of: Estimate, to: Estimate) -> Estimate | None:
    """``of`` / ``to``, with the half width where both have one; None when ``to`` is 0.

    The two runs are independent, so the relative half widths add as squares (first order; good below 30 %).
    """
    if to.value == 0:
        return None
    value = of.value / to.value
    if of.half is None or to.half is None:
        return Estimate(value)
    if of.value == 0:
        return Estimate(value, of.half / abs(to.value))
    return Estimate(value, abs(value) * math.hypot(of.half / of.value, to.half / to.value))


def same(share: Estimate) -> bool:
    """Whether the interval of a ratio holds 1: within these runs the two cannot be told apart."""
    return share.half is not None and abs(share.value - 1) <= share.half
