"""Rates out of what was counted between two reports of a tool."""

from __future__ import annotations

from collections.abc import Iterable


def each_second(steps: Iterable[tuple[float, float]]) -> list[float]:
    """The rate (1/s) in each second, of steps of (seconds, count). One of several seconds, in which a tool printed
    nothing, stands for as many."""
    return [count / took for took, count in steps if took > 0 for _ in range(max(1, round(took)))]
