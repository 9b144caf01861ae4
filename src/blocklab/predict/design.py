"""Which cells to measure so that a model tells the others: those that it would know least about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blocklab.predict.curve import LEAST, Floats, Spot, guess

# A fifth of the cells, where the model has enough of it.
SHARE = 5
_NOISE = 0.2


def usual_count(spots: Sequence[Spot]) -> int:
    """How many of these cells are measured if nobody says: a fifth, and enough for the model."""
    stacks, groups = len({each.stack for each in spots}), len({each.group for each in spots})
    return max(-(-len(spots) // SHARE), LEAST, 2 + stacks + 3 * groups)


def chosen(spots: Sequence[Spot], count: int) -> list[int]:
    """The numbers of ``count`` of these cells, in their order: each next one is where the model's variance is
    largest, given those before (a greedy D-optimal design, Fedorov 1972, with the priors as what is known at the
    start). The same each time."""
    model = guess(spots)
    slopes = model.slopes()
    known: Floats = np.diag(model.wide**2)
    left, found = list(range(len(spots))), list[int]()
    while left and len(found) < count:
        variances = [float(slopes[at] @ known @ slopes[at]) for at in left]
        best = left[int(np.argmax(np.round(variances, 9)))]
        along = known @ slopes[best]
        known = known - np.outer(along, along) / (_NOISE**2 + slopes[best] @ along)
        left.remove(best)
        found.append(best)
    return sorted(found)
