"""Means, spreads and intervals of one run's series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Doubt: TypeAlias = Literal["", "chance", "unlike machines"]
"""Why a ratio whose interval leaves 1 out may still not differ: it is one of many, of which some leave it out by
``chance``; or its two sides did not have the same link or volume, and so were on ``unlike machines``."""


class Estimate(msgspec.Struct, frozen=True):
    """A value and the half width of its 95 % interval; ``half`` is None where none is known.

    ``builds``: over how many builds of the layout the interval is. Of one it is that within its run, which says
    nothing of another build. ``machines``: on how many machines they stood; of several the interval is over these
    (``stats.pool``). ``doubt`` is that of a ratio.
    """

    value: float
    half: float | None = None
    builds: int = 1
    doubt: Doubt = ""
    machines: int = 1

    @property
    def units(self) -> int:
        """Over how many independent ones the interval is: the machines, of one machine the builds."""
        return self.machines if self.machines > 1 else self.builds


def percentile(values: Sequence[float], rank: float) -> float:
    """The value at ``rank`` (0 to 1) by nearest rank: always one that was measured.

    Raises ``ValueError`` when there are no values.
    """
    if not values:
        raise ValueError("no values, so no percentile")
    return sorted(values)[max(0, math.ceil(len(values) * rank) - 1)]


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """The mean of per-second means, each counted as often as it has events; None when there were none."""
    total = sum(weights)
    if not total:
        return None
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total
