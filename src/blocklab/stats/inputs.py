"""What a layout was to be made of, and what this machine achieved: round trips of links, latencies of volumes.

A claim is about the layout that was asked for. Where the machine could not emulate it, nothing that was measured
decides the claim.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from blocklab.model.stack_map import StackMap, Took, tolerance
from blocklab.stats.format import NBSP, listed

# A claim that holds on inputs further off than this (a part of what was asked) held by chance.
FAR = 0.25


class Input(msgspec.Struct, frozen=True):
    """A link's round trip or a volume's latency (s). ``what``: ``link zone``, ``writes of vda on a1``."""

    what: str
    asked: float
    achieved: float

    @property
    def far(self) -> bool:
        """Whether it is so far off that even a claim that holds says nothing."""
        return abs(self.achieved - self.asked) > max(FAR * self.asked, tolerance(self.asked))


def untrue(stack: StackMap) -> Iterator[Input]:
    """What was not achieved: medians whose whole 95 % interval is further from what was asked for than
    ``tolerance``, and means that stalls have made far longer. What was measured around the workload decides; else
    what was reached when it was tuned."""
    for what, tuned in stack.tuned.items():
        times = stack.times.get(what) or (tuned.reached,)
        achieved = statistics.median(each.median for each in times)
        low, high = _ends(times)
        most, mean = tolerance(tuned.asked), statistics.fmean(each.mean for each in times)
        if low > tuned.asked + most or high < tuned.asked - most:
            yield Input(what, tuned.asked, achieved)
        elif (stalled := Input(what, tuned.asked, mean)).far:
            yield stalled


def arithmetic(inputs: Sequence[Input]) -> str:
    """``writes of vda on a1 took 1.21 ms where 0.45 ms were asked for, link zone took 1.71 ms where 0.5 ms were
    asked for: this machine cannot test this``."""
    said = [
        f"{each.what} took {_ms(each.achieved)}{NBSP}ms where {_ms(each.asked)}{NBSP}ms were asked for"
        for each in inputs
    ]
    return f"{listed(said)}: this machine cannot test this"


def _ends(times: Sequence[Took]) -> tuple[float, float]:
    lows = [each.median if each.low is None else each.low for each in times]
    highs = [each.median if each.high is None else each.high for each in times]
    return min(lows), max(highs)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
