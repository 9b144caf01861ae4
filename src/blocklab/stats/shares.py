"""Shares in sentences: each with its interval, and none at the end of a range that is too noisy to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from blocklab.stats.format import NBSP, listed, percent
from blocklab.stats.ratio import verdict
from blocklab.stats.summary import Endless, Estimate

T = TypeVar("T")


def share_text(share: Estimate) -> str:
    """``48 % ± 2``; ``48 % ± ∞`` where the interval has no end."""
    endless = f"{NBSP}±{NBSP}∞" if isinstance(share, Endless) else ""
    return percent(share.value, share.half) + endless


def clear(every: Iterable[T], share: Callable[[T], Estimate]) -> list[T]:
    """Those whose shares are not too noisy to say, the smallest first."""
    told = [each for each in every if verdict(share(each)) != "too noisy to say"]
    return sorted(told, key=lambda each: share(each).value)


def throughout(shares: Sequence[Estimate]) -> str:
    """What shares come to that all read alike, with the widest of their intervals; empty where they do not."""
    if len({percent(share.value) for share in shares}) > 1:
        return ""
    halves = [share.half for share in shares if share.half is not None]
    return percent(shares[0].value, max(halves) if halves else None)


def of_baseline(said: Sequence[str], noisy: Mapping[str, tuple[int, int]], what: str) -> str:
    """What is said of each stack, and of what: ``mirror keeps from 3 % ± 1 to 95 % ± 2 of local's tpmC (too noisy
    to say, and left out: 2 of 84 of mirror)``. ``noisy``: of each stack how many were left out, of how many."""
    left = [f"{few} of {many} of {stack}" for stack, (few, many) in noisy.items() if few]
    if not said:
        are = "is" if len(left) == 1 else "are"
        return f"{listed(list(noisy))} {are} too noisy to say, as a share of {what}" if left else ""
    return f"{'; '.join(said)} of {what}" + (f" (too noisy to say, and left out: {listed(left)})" if left else "")
