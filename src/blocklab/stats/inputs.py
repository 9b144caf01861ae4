"""What a layout was to be made of, and what this machine achieved: round trips of links, latencies of volumes.

A claim is about the layout that was asked for. Where the machine could not emulate it, nothing that was measured
decides the claim; where others used the machine meanwhile, no claim fails of it. A ratio is of two layouts; where
the same volume or link took longer under one of them, it is of two machines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from blocklab.model.stack_map import StackMap, Took, tolerance
from blocklab.stats.floor import OTHERS, PRESSURE
from blocklab.stats.format import NBSP, percent

# A claim that holds on inputs further off than this (a part of what was asked) held by chance; what compared cells
# have in common may not be further apart.
FAR = 0.25

# What names a cell: (stack, workload) by their labels, or a side of a comparison and its cell there.
At: TypeAlias = Hashable


class Input(msgspec.Struct, frozen=True):
    """A link's round trip or a volume's latency (s). ``what``: ``link zone``, ``writes of vda on a1``. ``given``:
    it is one of somebody's hosts, and ``asked`` is what the study expects. ``added``: what blocklab adds to what
    the machine takes by itself. ``stalls``: ``achieved`` is a mean that a few long ones have made long."""

    what: str
    asked: float
    achieved: float
    given: bool = False
    added: float = 0.0
    stalls: bool = False

    @property
    def far(self) -> bool:
        """Whether it is so far off that even a claim that holds says nothing."""
        return abs(self.achieved - self.asked) > FAR * self.asked

    @property
    def sentence(self) -> str:
        """``link zone took 0.435 ms instead of 0.5 ms: tuning missed by 13 %``. It is the machine's limit only
        where that holds without what blocklab itself added."""
        what, took, asked = self.what, _ms(self.achieved), _ms(self.asked)
        if self.given:
            return f"{what} took {took}{NBSP}ms where the study expects {asked}{NBSP}ms"
        if self.stalls:
            return f"{what} took {took}{NBSP}ms on average instead of {asked}{NBSP}ms: this machine stalled"
        if (alone := self.achieved - self.added) > self.asked + tolerance(self.asked):
            least = _ms(alone)
            return (
                f"{what} took {took}{NBSP}ms instead of {asked}{NBSP}ms: this machine alone takes {least}{NBSP}ms"
            )
        missed = percent(abs(self.achieved / self.asked - 1))
        return f"{what} took {took}{NBSP}ms instead of {asked}{NBSP}ms: tuning missed by {missed}"


class Apart(msgspec.Struct, frozen=True):
    """A volume or a link under one of two cells and under the other: what it took (s). ``asked``: what was asked
    for under each (s), None where nothing was. ``noise``: what both may be off by together (s)."""

    what: str
    mine: float
    other: float
    asked: tuple[float | None, float | None] = (None, None)
    noise: float = 0.0

    @property
    def times(self) -> float:
        """How many times longer it took."""
        low, high = sorted((self.mine, self.other))
        return high / low if low > 0 else math.inf if high > 0 else 1.0

    @property
    def far(self) -> bool:
        """Whether it took more than ``FAR`` longer under one, by more than noise."""
        return self.times > 1 + FAR and abs(self.mine - self.other) > self.noise


class Busy(NamedTuple):
    """What others took of a cell's machine, and of which ``kind``: CPU time that its hypervisor took (``steal``)
    or other programs (``foreign``), or how long programs waited for a CPU (``pressure``). ``share`` is of the
    cell's time, ``times`` how many times it is what others may take."""

    times: float
    kind: str
    share: float


class _Median(NamedTuple):
    """By what name something was timed, what was asked for (s), what it took (s), and how far that may be off."""

    what: str
    asked: float | None
    took: float
    noise: float


class Inputs:
    """What each cell stood on, over its builds. ``machines``: the machine of each of a cell's stacks; two cells
    are compared on the machines that both were measured on."""

    def __init__(
        self, stacks: Mapping[Any, Sequence[StackMap]], machines: Mapping[Any, Sequence[int]] | None = None
    ) -> None:
        self._stacks = stacks
        self._machines = machines or {}

    def untrue(self, at: At) -> tuple[Input, ...]:
        """What was not achieved under a cell."""
        return tuple(_untrue(self._stacks.get(at, ())))

    @property
    def vague(self) -> dict[str, float]:
        """Links and volumes whose median varies by more than they may be off: by what part of what was asked, in
        the worst build."""
        found: dict[str, float] = {}
        for stack in (stack for stacks in self._stacks.values() for stack in stacks):
            for what, tuned in stack.tuned.items():
                if not tuned.given and tuned.reached.noise > tolerance(tuned.asked):
                    found[what] = max(found.get(what, 0.0), tuned.reached.noise / tuned.asked)
        return found

    def busy(self, at: At) -> Busy | None:
        """What others took of a cell's machine, in the build where it was most; None where that was little."""
        return max(filter(None, (busy(stack) for stack in self._stacks.get(at, ()))), default=None)

    def apart(self, at: At, other: At) -> Apart | None:
        """The volume or the link, asked for alike, that differs most between two cells; None where none took more
        than ``FAR`` longer under one than under the other."""
        alike = [each for each in self.beside(at, other) if None not in each.asked and len(set(each.asked)) == 1]
        most = max(alike, key=lambda each: each.times, default=None)
        return most if most is not None and most.far else None

    def beside(self, at: At, other: At) -> tuple[Apart, ...]:
        """Every volume and link that both cells have, whatever was asked for. A volume is known by its place in
        the layout, since a device may be called otherwise on another site."""
        mine, theirs = _medians(self._beside(at, other)), _medians(self._beside(other, at))
        return tuple(
            Apart(
                here.what if here.what == there.what else name,
                here.took, there.took, (here.asked, there.asked), here.noise + there.noise,
            )
            for name, here in mine.items()
            if (there := theirs.get(name)) is not None
        )  # fmt: skip

    def _beside(self, at: At, other: At) -> Sequence[StackMap]:
        """A cell's stacks, without those of machines that the other cell was not measured on."""
        stacks, machines = self._stacks.get(at, ()), self._machines.get(at, ())
        both = {*machines} & {*self._machines.get(other, ())}
        if not both:
            return stacks
        return [stack for stack, machine in zip(stacks, machines, strict=True) if machine in both]


def busy(stack: StackMap) -> Busy | None:
    """What others took of its machine meanwhile; None where it is not known, or no more than they may take. The
    pressure counts where nothing tells what other programs took, since the lab's own make some too."""
    machine = stack.machine
    most = {"steal": OTHERS, **({"foreign": OTHERS} if "foreign" in machine else {"pressure": PRESSURE})}
    worst = max(
        Busy(machine.get(kind, 0.0) / limit, kind, machine.get(kind, 0.0) / 100) for kind, limit in most.items()
    )
    return worst if worst.times > 1 else None


def _medians(stacks: Sequence[StackMap]) -> dict[str, _Median]:
    """By the name of the place."""
    found: dict[str, list[Took]] = {}
    known: dict[str, tuple[str, float | None]] = {}
    for stack in stacks:
        for what in dict.fromkeys([*stack.tuned, *stack.times]):
            place = _place(stack, what)
            known[place] = (what, stack.tuned[what].asked if what in stack.tuned else None)
            found.setdefault(place, []).extend(_times_of(stack, what))
    return {
        place: _Median(
            *known[place], statistics.median(took.median for took in times), max(took.noise for took in times)
        )
        for place, times in found.items()
        if times
    }


def _place(stack: StackMap, what: str) -> str:
    """``writes of vda on a1`` as ``writes of volume 1 on a1``; as it is what is no volume of the map."""
    for level in stack.levels:
        for number, device in enumerate(level.devices if level.number == 0 else (), 1):
            end = f" of {device} on {level.host}"
            if what.endswith(end):
                return f"{what.removesuffix(end)} of volume {number} on {level.host}"
    return what


def _times_of(stack: StackMap, what: str) -> tuple[Took, ...]:
    """What was measured around the workload; else what was reached when it was tuned."""
    return stack.times.get(what) or ((stack.tuned[what].reached,) if what in stack.tuned else ())


def _untrue(stacks: Sequence[StackMap]) -> Iterator[Input]:
    """Medians whose whole 95 % interval is further from what was asked for than ``tolerance``, and means that
    stalls have made far longer."""
    for what in dict.fromkeys(what for stack in stacks for what in stack.tuned):
        mine = [stack for stack in stacks if what in stack.tuned]
        tuned = mine[0].tuned[what]
        times = [took for stack in mine for took in _times_of(stack, what)]
        achieved = statistics.median(each.median for each in times)
        low, high = _ends(times)
        most, mean = tolerance(tuned.asked), statistics.fmean(each.mean for each in times)
        if low > tuned.asked + most or high < tuned.asked - most:
            yield Input(what, tuned.asked, achieved, tuned.given, tuned.added)
        elif (stalled := Input(what, tuned.asked, mean, tuned.given, stalls=True)).far:
            yield stalled


def arithmetic(inputs: Sequence[Input]) -> str:
    """``writes of vda on a1 took 1.21 ms instead of 0.45 ms: this machine alone takes 0.8 ms; so this was not
    tested``; on hosts of one's own ``... where the study expects 0.5 ms: these hosts are not the ones that the
    study describes``."""
    said = "; ".join(each.sentence for each in inputs)
    if all(each.given for each in inputs):
        return f"{said}: these hosts are not the ones that the study describes"
    return f"{said}; so this was not tested"


def taken(found: Busy) -> str:
    """``other programs took 40 % of the machine's CPU time: measure again when it is quiet``."""
    share = percent(found.share)
    said = {
        "steal": f"the machine's hypervisor took {share} of its CPU time",
        "foreign": f"other programs took {share} of the machine's CPU time",
        "pressure": f"programs waited for a CPU {share} of the time",
    }[found.kind]
    return f"{said}: measure again when it is quiet"


def unlike(apart: Apart) -> str:
    """``writes of vda on a1 took 1.21 ms in one of the compared cells and 0.71 ms in the other: unlike
    machines``."""
    return (
        f"{apart.what} took {_ms(apart.mine)}{NBSP}ms in one of the compared cells and {_ms(apart.other)}{NBSP}ms "
        "in the other: unlike machines"
    )


def _ends(times: Sequence[Took]) -> tuple[float, float]:
    lows = [each.median if each.low is None else each.low for each in times]
    highs = [each.median if each.high is None else each.high for each in times]
    return min(lows), max(highs)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
