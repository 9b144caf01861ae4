"""How long a study takes: a range before the start, and after each cell what the finished ones make of it."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from blocklab.rules.settle import ends
from blocklab.runner.estimate import BOOT_SECONDS, BUILD_SECONDS, Cost, Load, Span
from blocklab.runner.events import AnyEvent, Begun, Done, Listener
from blocklab.store.floor import Floor
from blocklab.store.run import Stopped

# A first guess of what lies around the workloads may be this many times too short or too long, before the first
# cell is finished.
GUESS = 3.0
# So many seconds of first guesses count beside what was seen: one cell alone says little of the others.
PRIOR_SECONDS = 60.0


class Machine(msgspec.Struct, frozen=True):
    """What its floor says of how long studies take here: how many times ``slower`` than the first guesses nodes
    boot and layouts are built, and the ``noise`` of its rounds (relative standard deviation), None while not
    known."""

    slower: float = 1.0
    noise: float | None = None

    @classmethod
    def of(cls, floor: Floor | None) -> Machine:
        """By a floor; none at all says nothing."""
        if floor is None:
            return cls()
        slower = 1.0 if floor.ready is None else floor.ready / (BOOT_SECONDS + BUILD_SECONDS)
        return cls(slower, floor.noise)


# Of one without a floor.
UNKNOWN = Machine()


class Remaining:
    """The time that those of the cells of ``costs`` take which are not ``finished`` yet.

    First guesses of what lies around the workloads count as ``PRIOR_SECONDS`` of observations; the finished cells'
    own times outweigh them more and more, and what they may be wrong by shrinks from ``GUESS`` as the error of a
    mean does. Where in its range a workload ends on a stack where it was measured before is known by those cells,
    and by one more that settles at once (least) or never (most); elsewhere all of the range is possible, and it
    ends where other cells did (likely) or, as long as none has, where ``machine``'s noise lets it.
    """

    def __init__(
        self, costs: Iterable[Cost], machine: Machine = UNKNOWN, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._costs = {each.cell.key: each for each in costs}
        self._machine = machine
        self._clock = clock
        self._since = clock()
        self._paid: set[str] = set()
        self._took = self._expected = 0.0
        # By stack and workload: where in its range each of its cells ended, 0 to 1.
        self._ended: dict[tuple[str, str], list[float]] = {}
        # Of the cell that was under way when it was last asked: its key, its own span, that of the others.
        self._known: tuple[str, Span, Span] | None = None

    def announcing(self, tell: Listener) -> Listener:
        """Keeps up with the events that go to ``tell``, and says in them what is left."""

        def listen(event: AnyEvent) -> None:
            if isinstance(event, Done):
                self.finished(event)
            elif isinstance(event, Begun):
                event = msgspec.structs.replace(event, left=self.left(event.key))
            tell(event)

        return listen

    def finished(self, cell: Done) -> None:
        """A cell is stored. One that failed took as long as it took to fail, which says nothing of the others."""
        now, since = self._clock(), self._since
        self._since, self._known = now, None
        if (cost := self._costs.pop(cell.key, None)) is None:
            return
        load, ended = cost.load, _ended(cost.load, cell.seconds, cell.stops)
        expected = self._around([cost], self._paid) + self._machine.slower * load.starting(ended or 0.0)
        self._paid |= cost.once.keys()
        if cell.status != "ok":
            return
        if ended is not None:
            self._ended.setdefault((cost.cell.stack, cost.cell.workload), []).append(ended)
        self._took += max(0.0, now - since - load.at(ended or 0.0))
        self._expected += expected

    def left(self, key: str = "") -> Span:
        """The time left, while the cell ``key`` is under way."""
        # Drawn twice a second, of grids that may have thousands of cells.
        if self._known is None or self._known[0] != key:
            here = [self._costs[key]] if key in self._costs else []
            rest = [each for name, each in self._costs.items() if name != key]
            # What they share is paid by the one that is under way.
            shared = self._paid.union(*(each.once for each in here))
            self._known = key, self._span(here, self._paid), self._span(rest, shared)
        _, mine, others = self._known
        return mine.after(self._clock() - self._since).plus(others)

    def _around(self, costs: Sequence[Cost], paid: Collection[str]) -> float:
        """What lies around these cells' workloads, by the first guesses and the machine's floor."""
        once = {name: seconds for each in costs for name, seconds in each.once.items() if name not in paid}
        return self._machine.slower * (sum(each.around for each in costs) + sum(once.values()))

    def _span(self, costs: Sequence[Cost], paid: Collection[str]) -> Span:
        prior = PRIOR_SECONDS
        pace = (self._took + prior) / (self._expected + prior)
        wrong = GUESS ** math.sqrt(prior / (prior + self._expected))
        around = pace * self._around(costs, paid)
        found = Span(around / wrong, around, around * wrong)
        for each in costs:
            load, start = each.load, pace * self._machine.slower
            low, expected, high = self._ends(each)
            middle = None if expected is None else load.at(expected) + start * load.starting(expected)
            found = found.plus(
                Span(
                    load.at(low) + start / wrong * load.starting(low), middle,
                    load.at(high) + start * wrong * load.starting(high),
                )
            )  # fmt: skip
        return found

    def _ends(self, cost: Cost) -> tuple[float, float | None, float]:
        """Where in its range the workload may end: least, likely, most."""
        load = cost.load
        if load.most <= load.least:
            return 0.0, 0.0, 0.0
        if seen := self._ended.get((cost.cell.stack, cost.cell.workload)):
            count = len(seen) + 1
            return min(*seen, sum(seen) / count), statistics.fmean(seen), max(*seen, (sum(seen) + 1) / count)
        if load.rule is None:
            return 0.0, None, 1.0
        noise, others = self._machine.noise, [one for each in self._ended.values() for one in each if one <= 1]
        likely = statistics.fmean(others) if others else None if noise is None else ends(load.rule, noise)
        return 0.0, likely, 1.0


def _ended(load: Load, seconds: float, stops: Sequence[Stopped]) -> float | None:
    """Where in its range a workload ended; None where it had a length. One that ends by work done may have ended
    outside of what was guessed."""
    if load.open_ended:
        return (seconds - load.least) / (load.most - load.least)
    rule = load.rule
    if rule is None or not stops or rule.longest <= rule.shortest:
        return None
    mean = statistics.fmean(each.seconds for each in stops)
    return min(1.0, max(0.0, (mean - rule.shortest) / (rule.longest - rule.shortest)))
