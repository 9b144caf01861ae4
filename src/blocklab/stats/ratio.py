"""One stack's value relative to another's, and what that decides."""

from __future__ import annotations

from typing import Literal, TypeAlias

from blocklab.stats.summary import Estimate


def ratio(of: Estimate, to: Estimate) -> Estimate | None:
    """``of`` / ``to``; None when ``to`` is 0. It has no interval: what varies from build to build is in neither
    run. Ratios that are taken within each repeat have one: see ``stats.repeats``."""
    return Estimate(of.value / to.value) if to.value else None


# A difference of less than this (a part of the baseline) decides nothing: an interval around 1 that goes no
# further shows that there is none to speak of.
NOTABLE = 0.05

Verdict: TypeAlias = Literal["differs", "no difference shown", "too noisy to say", "one build", "unlike machines"]
# What decides nothing, in the order in which it is told.
OPEN: tuple[Verdict, ...] = ("too noisy to say", "one build", "unlike machines")


def verdict(share: Estimate, within: float = NOTABLE) -> Verdict:
    """What a ratio and its 95 % interval say.

    ``differs`` where the interval leaves 1 out, among all comparisons of the study too (``stats.holm``); else ``no
    difference shown`` if all of it is ``within`` that of 1, and ``too noisy to say`` if it reaches further. Of
    single builds ``one build``; ``unlike machines`` where the two sides did not stand on the same.
    """
    if share.doubt == "unlike machines":
        return share.doubt
    if share.half is None:
        return "one build"
    if abs(share.value - 1) > share.half and not share.doubt:
        return "differs"
    # 1e-9: what was meant to be 5 % is, as a float.
    return "no difference shown" if abs(share.value - 1) + share.half <= within + 1e-9 else "too noisy to say"
