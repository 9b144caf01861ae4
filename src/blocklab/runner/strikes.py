"""Faults when they are due, and what the client says of its progress meanwhile."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from blocklab.errors import BlocklabError
from blocklab.faults.base import SETTLED_SECONDS
from blocklab.model import outside
from blocklab.model.clock import Timer
from blocklab.model.host import Host
from blocklab.model.plan import Power, Step
from blocklab.runner.engine import Engine
from blocklab.study.drill_phases import Strike

# A rate is steady when its last three seconds are within a tenth of their mean.
STEADY_SECONDS, STEADY = 3, 0.1
# Writes are accepted where one was acknowledged so lately (s).
FLOWING = 0.5
# What is done so much later than it was due is said.
LATE_SECONDS = 1.0
MISSED, MENDED = " did not strike", " is mended"


class Count(msgspec.Struct, frozen=True):
    """The client's running counters, as it prints them every 100 ms. ``server``: who gave the last
    acknowledgement, -1 before the first one."""

    time: float
    scheduled: int
    acknowledged: int
    refused: int
    in_doubt: int
    server: int = -1


class Counters:
    """What the client has printed so far."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = 0
        self.counts: list[Count] = []

    def look(self) -> Count | None:
        """Read what is new; the last counters, None before the first."""
        if self._file.stat().st_size == self._at:
            return self.counts[-1] if self.counts else None
        with self._file.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._at += whole
        self.counts += [outside.typed_json(line, Count, str(self._file)) for line in text[:whole].splitlines()]
        return self.counts[-1] if self.counts else None

    @property
    def steady(self) -> bool:
        """Whether acknowledgements come at a steady rate."""
        if not self.counts or self.counts[-1].time - self.counts[0].time < STEADY_SECONDS + 1:
            return False
        end, marks = self.counts[-1].time, []
        for back in range(STEADY_SECONDS + 1):
            marks.append(next(each for each in reversed(self.counts) if each.time <= end - back + 0.05))
        rates = [later.acknowledged - earlier.acknowledged for later, earlier in itertools.pairwise(marks)]
        return min(rates) > 0 and max(rates) - min(rates) <= STEADY * sum(rates) / len(rates)


@dataclass(frozen=True)
class Moment:
    """When a drill's first fault strikes: ``after`` so many seconds, where its seed is not to decide. ``before``
    is called just before it, with the hosts."""

    after: float | None = None
    before: Callable[[Mapping[str, Host]], None] | None = None


class _Due:
    """One fault on its way: struck at ``struck``, mended at ``healed`` (seconds by the hosts' time).

    ``missed``: all of its nodes were dead when it was due; ``failed``: it could not be mended when that was due.
    """

    def __init__(self, plan: Strike, moment: float) -> None:
        self.name = plan.name
        self.fault = plan.fault
        self.plan = plan
        self.moment = moment
        self.struck: float | None = None
        self.healed: float | None = None
        self.missed = False
        self.failed = False


class Strikes:
    """The study's faults on one stack. ``dice`` decides moments that are ranges, but for the first fault's where
    ``moment`` has one."""

    def __init__(
        self, engine: Engine, strikes: Iterable[Strike], dice: random.Random, moment: Moment | None = None
    ) -> None:
        self._engine = engine
        self._timer = engine.timer
        self._started = self._timer.now()
        self._settled: float | None = None
        self.first: float | None = None
        """When the first one struck, in seconds since the epoch by our clock."""
        self.dead: set[str] = set()
        """The nodes that are dead: those that they crashed, and whoever is added. Nothing is done to them any
        more."""
        self.frozen: set[str] = set()
        """The nodes that stand still: no command would come to an end there."""
        self.taken_over = ""
        """The survivor on which the stack's data are in use by now; empty while they are where they were."""
        self.warnings: list[str] = []
        """Faults that did not strike, or could not be mended in time."""
        # In the order of the file, so that the dice fall alike each time.
        self._due = [_Due(each, each.fault.moment(dice)) for each in strikes]
        moment = moment or Moment()
        self._before = moment.before
        if self._due and moment.after is not None:
            self._due[0].moment = moment.after

    def start(self) -> None:
        """The workload has started."""
        self._started = self._timer.now()

    @property
    def after(self) -> float | None:
        """After how long (s) the first fault of the study is due."""
        return self._due[0].moment if self._due else None

    @property
    def struck(self) -> tuple[str, ...]:
        """The names of those that have struck."""
        return tuple(due.name for due in self._due if due.struck is not None and not due.missed)

    def look(self, counters: Counters) -> list[tuple[str, float]]:
        """Let strike and heal what is due, in the order in which it was: (what, when it began in seconds since the
        epoch by our clock). What needs a frozen node is put off until it goes on."""
        now = self._timer.now()
        if self._settled is None and (counters.steady or now - self._started > SETTLED_SECONDS):
            self._settled = now
        found = []
        for since, due in sorted(self._at(now), key=lambda each: each[0]):
            done = self._heal(due) if due.struck is not None else self._strike(due)
            late = self._timer.now() - since
            if done and late > LATE_SECONDS:
                self.warnings.append(
                    f"{done[0][0]} {late:.1f} s after it was due: a takeover or a frozen node was first"
                )
            found += done
        return found

    def within(self, seconds: float) -> float:
        """How long nothing is due, but no longer than that (s)."""
        now = self._timer.now()
        return min([seconds, *(since - now for since, _ in self._at(math.inf) if since > now)])

    def _at(self, now: float) -> Iterator[tuple[float, _Due]]:
        """Since when something is to be done about which fault."""
        for due in self._due:
            begin: float | None = due.struck
            seconds: float | None = due.fault.lasts
            if begin is None:
                begin, seconds = self._settled if due.fault.when else self._started, due.moment
            elif due.healed is not None:
                continue
            if begin is not None and seconds is not None and now - begin >= seconds:
                yield begin + seconds, due

    def _strike(self, due: _Due) -> list[tuple[str, float]]:
        whole = due.plan.strike.steps
        steps = self._left(whole)
        if self._stuck(steps):
            return []
        if whole and not steps:
            due.missed, due.struck = True, self._timer.now()
            due.healed = due.struck
            hosts = ", ".join(sorted({step.host for step in whole}))
            self.warnings.append(
                f"{due.name} did not strike: no node of it ({hosts}) was alive when it was due; "
                "give it an earlier time"
            )
            return [(due.name + MISSED, self._timer.today())]
        if self._before is not None and not self.struck:
            self._before(self._engine.hosts)
        try:
            found = self._do(f"{due.name} strikes", steps)
            if found and self.first is None:
                self.first = found[0][1]
            return found
        finally:
            # Also where it failed half-way: what it did by then has to be mended.
            due.struck = self._timer.now()

    def _heal(self, due: _Due) -> list[tuple[str, float]]:
        steps = self._mending(due)
        if self._stuck(steps):
            return []
        try:
            return self._do(due.name + MENDED, steps)
        except BlocklabError as error:
            # It is tried again at the end, and must not cost what was found.
            due.failed = True
            self.warnings.append(f"{due.name} could not be mended when that was due: {error.message}")
            return []
        finally:
            due.healed = self._timer.now()

    def _mending(self, due: _Due) -> list[Step]:
        there = due.plan.mend_there.get(self.taken_over, ())
        return self._left((*due.plan.mend.steps, *there))

    def _left(self, steps: Sequence[Step]) -> list[Step]:
        return [step for step in steps if step.host not in self.dead]

    def _stuck(self, steps: Sequence[Step]) -> bool:
        return any(step.host in self.frozen and not isinstance(step, Power) for step in steps)

    def _do(self, what: str, steps: Sequence[Step]) -> list[tuple[str, float]]:
        """Nothing happens where all of its nodes are dead."""
        begun = self._timer.today()
        if not steps:
            return []
        self._engine.carry_out(steps, "fault")
        for step in steps:
            if isinstance(step, Power):
                self.frozen.discard(step.host)
                if step.what == "freeze":
                    self.frozen.add(step.host)
                elif step.what == "crash":
                    self.dead.add(step.host)
        return [(what, begun)]

    @property
    def last(self) -> float | None:
        """When the last of them struck or was mended (by the hosts' time); None while one is still to come."""
        times = []
        for due in self._due:
            if due.struck is None or (due.fault.lasts is not None and due.healed is None):
                return None
            times.append(due.healed or due.struck)
        return max(times, default=None)

    def mend(self) -> tuple[list[tuple[str, float]], list[BlocklabError]]:
        """Heal what was to last until the end: what was, as ``look`` tells it, and why others could not be.

        The last that struck comes first: on a node that was frozen then, nothing else can be healed before.
        """
        found, errors = [], []
        for due in sorted(self._due, key=lambda each: each.struck or 0.0, reverse=True):
            steps = self._mending(due)
            if due.struck is not None and (due.healed is None or due.failed) and steps:
                try:
                    found += self._do(due.name + MENDED, steps)
                    due.healed, due.failed = self._timer.now(), False
                except BlocklabError as error:
                    errors.append(error)
        return found, errors


class End:
    """When a drill has seen enough: writes are accepted again for ``after`` seconds, or will not be.

    ``wait``: how long (s) it is hoped for, after the takeover and after the last fault; ``notice``: how long a
    fault may take to show.
    """

    def __init__(self, after: float, wait: float, notice: float, timer: Timer) -> None:
        self._timer = timer
        self._after = after
        self._wait = wait
        self._notice = notice
        self._taken: float | None = None
        self._accepted: float | None = None
        self._server = 0
        self._last = (0, self._timer.now())

    def taken_over(self, server: int) -> None:
        """A survivor is active from now on: the one at this address, of those that the client knows."""
        self._taken, self._accepted, self._server = self._timer.now(), None, server

    def reached(self, count: Count, faults: Strikes) -> bool:
        """Whether it is over, given the client's last counters."""
        now = self._timer.now()
        if count.acknowledged > self._last[0]:
            self._last = (count.acknowledged, now)
            if self._taken is not None and self._accepted is None and count.server == self._server:
                self._accepted = now
        last = faults.last
        if self._taken is not None and self._accepted is None:
            return now - self._taken >= self._wait
        if last is None:
            return False
        flows = now - self._last[1] <= FLOWING
        if self._accepted is not None:
            # What flows now may have been under way when a fault since struck.
            after = max(self._after, 2 * FLOWING) if last > self._accepted else self._after
            return now - max(last, self._accepted) >= (after if flows else self._wait)
        return now - last >= (max(self._after, self._notice) if flows else self._wait)
