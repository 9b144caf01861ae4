"""One drill: a client writes, something breaks, the survivor takes over, and what was acknowledged is counted.

The main thread only sequences. It looks at what the client and the monitor have printed every 20 ms, lets faults
strike and heal when they are due, and carries out the takeover when the monitor, not blocklab, takes the active
node for dead.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from blocklab.drills.bins import bins
from blocklab.errors import BlocklabError, CommandError, HostError, KnobError, ParseError
from blocklab.model.clock import EXCHANGES, Stretch
from blocklab.model.drill import Drill, Event, MirrorState, Stage, Verdict
from blocklab.model.drill import Ledger as Found
from blocklab.model.host import Proc
from blocklab.model.workload import Drilled, History
from blocklab.runner.aftermath import Aftermath
from blocklab.runner.lookout import Lookout
from blocklab.runner.measure import Measured, Steady, clocks
from blocklab.runner.single import read, stop
from blocklab.runner.strikes import Count, Counters, End, Moment, Strikes
from blocklab.runner.workshop import Standing
from blocklab.store.run import Record
from blocklab.study.drill_phases import FENCING, HEARD_SECONDS, NOTICE_SECONDS, Succession, Write, out_of, writing
from blocklab.study.grid import hosts_of
from blocklab.study.phases import Ask, Do
from blocklab.study.types import Study

LOOK_SECONDS = 0.02
# What the client needs to end, beside what is under way.
SPARE_SECONDS = 10.0


Counting: TypeAlias = Callable[[Count], None]
"""Is told the client's running counters whenever there are new ones."""


class Drilling:
    """The study's faults on a stack that stands, under its ledger workload. ``seed`` decides random moments.

    Raw output goes to ``raw``; values, knobs and warnings into ``measured``. ``brief``: knobs that nobody sets
    are not read back. ``counting`` is told of the client's counters when they change. ``moment``: when the first
    fault strikes, if not by the seed.
    """

    def __init__(
        self,
        stand: Standing,
        study: Study,
        stack: str,
        workload: Drilled,
        raw: Path,
        measured: Measured,
        seed: str,
        brief: bool,
        counting: Counting | None,
        moment: Moment | None = None,
    ) -> None:
        self._stand = stand
        self._engine = stand.engine
        self._timer = stand.engine.timer
        self._study = study
        self._stack = stack
        self._workload = workload
        self._raw = raw
        self._measured = measured
        self._seed = seed if moment is None or moment.after is None else f"{seed}@{moment.after:.9f}"
        self._counting = counting
        self._hosts = hosts_of(study.stacks[stack])
        self._active = study.stacks[stack].on
        self._brief, self._dice, self._moment = brief, seed, moment
        self._arm()
        self._client = self._plan.command.host
        self._after = Aftermath(stand, study, stack, raw)
        self._events: list[Event] = []
        # Ours of seconds since the epoch plus this is the client's.
        self._offset: dict[str, float] = {}
        # The ends of the parts of each takeover, by our clock.
        self._marks: list[list[tuple[str, float]]] = []
        self._watches: list[Lookout] = []
        # The takeovers that were carried out, and how many of the successions are over.
        self._taken: Succession | None = None
        self._over = 0
        self._failed = False
        self.unmended = False
        """Whether a fault could not be healed, or a node not be taken in again: on these nodes nothing else can be
        measured."""

    def run(self) -> tuple[Drill, Found | None]:
        """Carry it out once: the drill, and what the database had afterwards, if it could be read.

        Raises ``CommandError`` when the client fails, ``NodeLost`` for a node that was lost without a fault,
        ``HostError`` where the monitor took the active node for dead before a fault struck, and what preparing
        raises. What goes wrong in the takeover or after it is told in the drill.
        """
        self._prepare()
        try:
            self._write()
        except BaseException:
            # What the next cells are to have is built on these nodes and links.
            self._mend()
            raise
        history, why = self._history()
        attempts = history.attempts if history is not None else None
        self._after.dead |= self._strikes.dead
        self._mend()
        if self._taken is not None:
            self._after.moved(self._taken.heir)
        ledger, unread = self._ledger()
        first = self._strikes.first
        struck = None if first is None else self._by_client(first)
        until = history.stop if history else None
        verdict = self._workload.checker.verdict(
            attempts, ledger, struck, why or unread, until=until, binlog_unread=self._after.binlog_unread
        )
        mirror = self._mirror()
        if attempts and history:
            self._measured.parsed = history.before(struck, self._client)
        rate = next(
            (each.value for each in self._measured.parsed.samples if (each.metric, each.time) == ("tps", None)),
            None,
        )
        drill = Drill(
            seed=self._seed, fault=", ".join(self._strikes.struck), active=self._study.stacks[self._stack].on,
            survivor=self._survivor, took_over=self._taken is not None,
            servers=tuple(self._plan.servers), events=tuple(sorted(self._events, key=lambda event: event.time)),
            stages=self._stages(verdict), verdict=verdict, mirror=mirror, rate=rate, struck=struck, until=until,
            bins=bins(attempts or (), edge=struck or 0.0), after=self._strikes.after,
        )  # fmt: skip
        return drill, ledger

    @property
    def _survivor(self) -> str:
        """Who took over last; who would do first, where nobody has; empty where nobody can."""
        return next((each.heir for each in (self._taken, *self._plan.successions) if each is not None), "")

    @property
    def _left(self) -> tuple[Succession, ...]:
        """Those of whom each can still take over from who is active now."""
        return self._plan.successions[self._over :]

    # -- before ----------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """The drill's phases and faults, on the ground as it is now."""
        stand, stack = self._stand, self._stack
        *self._before, write = writing(
            self._study, stack, self._workload, stand.ground, stand.facts[stack], brief=self._brief
        )
        assert isinstance(write, Write)
        self._plan = write
        self._strikes = Strikes(stand.engine, write.strikes, random.Random(self._dice), self._moment)

    def _prepare(self) -> None:
        for phase in self._before:
            if isinstance(phase, Ask):
                Steady().ask(self._engine, phase, self._measured)
                if self._stand.correct(self._stack) is not None:
                    # Faults of links start from what is added to these now.
                    self._arm()
            else:
                assert isinstance(phase, Do)
                self._engine.go(phase)
        found, _ = clocks(self._engine.hosts, EXCHANGES, self._timer)
        self._offset = {name: clock.offset for name, clock in found.items()}

    # -- while the client writes -----------------------------------------------------------------------------

    def _write(self) -> None:
        command = self._plan.command
        folder = self._raw / "workload"
        folder.mkdir(parents=True)
        try:
            self._look_out()
            run, deadline = Stretch(self._timer), self._timer.now() + command.seconds
            client = self._engine.hosts[command.host].spawn(command.argv, folder / "stdout", folder / "stderr")
            try:
                self._loop(client, Counters(folder / "stdout"), deadline)
            finally:
                # What is due gets its turn within the patience, and its answer within it once more.
                stop(client, signal.SIGTERM, 2 * self._workload.patience + SPARE_SECONDS)
            self._engine.records.append(
                Record("workload", command.host, command.argv, client.poll() or 0, run.seconds, cpu=run.own)
            )
            (folder / "history.tsv").write_bytes(read(self._engine.hosts[command.host], command.fetch[0]))
        finally:
            for watch in self._watches:
                stop(watch.proc, signal.SIGTERM)

    def _look_out(self) -> None:
        """Start all monitors, of the first survivor first."""
        for succession in self._plan.successions:
            for monitor in succession.monitors:
                number = len(self._watches) + 1
                folder = self._raw / ("monitor" if number == 1 else f"monitor-{number}")
                self._watches.append(Lookout(self._engine, monitor, folder))

    def _loop(self, client: Proc, counters: Counters, deadline: float) -> None:
        """Until writes are accepted again for long enough, or will not be."""
        self._begin(client, counters, deadline)
        end = End(float(self._workload.after), float(self._study.takeover.wait), NOTICE_SECONDS, self._timer)
        known = None
        while self._goes_on(client, deadline):
            if (heir := self._successor()) is not None:
                self._take_over(heir)
                if self._failed:
                    return
                end.taken_over([*self._plan.servers].index(heir.heir))
            count = counters.look()
            assert count is not None
            if self._counting is not None and count != known:
                self._counting(count)
                known = count
            for what, begun in self._strikes.look(counters):
                self._happened(what, begun)
            if self._hopeless() or end.reached(count, self._strikes):
                return
            self._timer.sleep(self._strikes.within(LOOK_SECONDS))

    def _begin(self, client: Proc, counters: Counters, deadline: float) -> None:
        """Until the client counts and the monitor hears the active node: without that it could miss nothing."""
        while counters.look() is None:
            self._goes_on(client, deadline)
            self._timer.sleep(LOOK_SECONDS)
        limit = self._timer.now() + HEARD_SECONDS
        while deaf := [watch for watch in self._watches if watch.first("answered") is None]:
            self._goes_on(client, deadline)
            host, active = deaf[0].host, deaf[0].of
            if self._timer.now() > limit:
                raise HostError(
                    host, f"its monitor got no answer from {active} in {HEARD_SECONDS:g} s",
                    hint="no fault had struck by then; is the link between them slower than the study says?",
                )  # fmt: skip
            self._timer.sleep(LOOK_SECONDS)
        self._strikes.start()

    def _hopeless(self) -> bool:
        """Whether the active node is dead and nothing is left that could take over."""
        dead = self._strikes.dead
        if self._taken is not None or self._active not in dead:
            return False
        return all(each.heir in dead for each in self._left)

    def _goes_on(self, client: Proc, deadline: float) -> bool:
        """Whether the client still writes; not once its time is over. ``CommandError`` where it failed."""
        code = client.poll()
        if code is None and self._timer.now() < deadline:
            return True
        if code == 0 and self._strikes.struck:
            return False
        said = (self._raw / "workload" / "stderr").read_text(errors="replace")
        if code is None:
            raise CommandError(
                self._client, self._plan.command.argv, -9, said or "it did not come to an end in time"
            )
        raise CommandError(self._client, self._plan.command.argv, code, said or "it ended too early")

    def _successor(self) -> Succession | None:
        """Who has to take over now: the first whose monitors declare dead the active node and all who come before
        it. ``HostError`` where nothing had happened to them."""
        awake = {each.heir for each in self._left} - self._strikes.dead - self._strikes.frozen
        declared = {(each.host, each.of) for each in self._watches if each.host in awake and self._declared(each)}
        ahead = [self._active]
        for succession in self._left:
            if all((succession.heir, node) in declared for node in ahead):
                return succession
            ahead.append(succession.heir)
        return None

    def _declared(self, watch: Lookout) -> bool:
        """Whether a monitor declares its node dead. That the active one was is not taken back."""
        dead = watch.first("dead")
        if dead is not None and not self._strikes.struck:
            active = watch.of
            raise HostError(
                watch.host,
                f"its monitor declared {active} dead before any fault struck ({dead.said}), so there is "
                "nothing to measure",
                hint="give `takeover` more misses or a longer interval if this machine is busy; `blocklab resume` "
                "does the drill again",
            )
        return watch.dead or (watch.of == self._active and dead is not None)

    def _take_over(self, succession: Succession) -> None:
        """Carry a takeover out, each stage timed."""
        marks = [("detection", self._timer.today())]
        self._marks.append(marks)
        try:
            for phase in succession.without(self._strikes.dead | self._strikes.frozen).takeover:
                self._engine.go(phase)
                if isinstance(phase, Do):
                    marks.append((phase.of, self._timer.today()))
                    if phase.of == FENCING:
                        self._strikes.dead |= {step.host for step in phase.steps}
            self._taken, self._active = succession, succession.heir
            self._over = self._plan.successions.index(succession) + 1
            self._strikes.taken_over = succession.heir
        except BlocklabError as error:
            self._failed = True
            self._happened("takeover failed", self._timer.today(), error.message)
            self._measured.warnings.append(f"the takeover failed: {error.message}")
            return
        for watch in self._watches:
            if watch.host in {each.heir for each in self._left}:
                watch.forget()

    def _happened(self, what: str, when: float, said: str = "") -> None:
        """Note an event that happened ``when`` by our clock."""
        self._events.append(Event(self._by_client(when), what, said))

    def _by_client(self, ours: float) -> float:
        return ours + self._offset.get(self._client, 0.0)

    # -- afterwards ------------------------------------------------------------------------------------------

    def _history(self) -> tuple[History | None, str]:
        """What the client has on record, and why it cannot be read where it cannot; the monitor's events go among
        ours."""
        try:
            for number, watch in enumerate(self._watches):
                shift = self._offset.get(self._client, 0.0) - self._offset.get(watch.host, 0.0)
                for each in watch.events():
                    said = f"{watch.host} about {watch.of}: {each.said}" if number else each.said
                    self._events.append(Event(each.time + shift, each.what, said))
        except ParseError as error:
            # What the client was told is worth as much without it.
            self._measured.warnings.append(error.message)
        try:
            return self._workload.checker.history((self._raw / "workload" / "history.tsv").read_bytes()), ""
        except ParseError as error:
            return None, error.message

    def _mend(self) -> None:
        """Heal what was to last until the end; what cannot be healed must not cost what was found."""
        mended, errors = self._strikes.mend()
        for what, begun in mended:
            self._happened(what, begun)
        self._measured.warnings += self._strikes.warnings
        self._measured.warnings += [f"a fault could not be mended: {error.message}" for error in errors]
        self.unmended = bool(errors)

    def _ledger(self) -> tuple[Found | None, str]:
        """What the database has; where it does not stand any more, after it was built again over its data."""
        if self._active not in self._after.dead:
            ledger, why = self._after.ledger(self._workload)
            if ledger is not None or self._taken is not None:
                return ledger, why
        try:
            self._after.restart()
        except KnobError:
            raise
        except BlocklabError as error:
            return None, f"the stack could not be built again over its data: {error.message}"
        return self._after.ledger(self._workload)

    def _mirror(self) -> MirrorState | None:
        before = self._taken.monitors if self._taken is not None else ()
        out = () if self._after.restarted else out_of(self._hosts, self._active, self._after.dead, before)
        try:
            mirror = self._after.mirror(out)
            # What could not be looked at is not to be built upon.
            self.unmended = self.unmended or (mirror is not None and mirror.status == "unknown")
            return mirror
        except KnobError:
            self.unmended = True
            raise
        except BlocklabError as error:
            self.unmended = True
            old = ", ".join(out)
            said = f"{old} could not be taken in again" if old else "the stack could not be looked at afterwards"
            self._measured.warnings.append(f"{said}: {error.message}")
            return None

    def _stages(self, verdict: Verdict) -> tuple[Stage, ...]:
        """The parts of the outage; none where nothing took over, and of the last takeover that was one of its."""
        if self._taken is None:
            return ()
        by_client = ([(name, self._by_client(when)) for name, when in marks] for marks in reversed(self._marks))
        return next(filter(None, (stages(marks, verdict) for marks in by_client)), ())


def stages(marks: Sequence[tuple[str, float]], verdict: Verdict) -> tuple[Stage, ...]:
    """The parts of the outage, one after the other, from the last acknowledgement before it to the first after.
    ``marks``: the ends of the takeover's parts, in seconds by the client's clock. None where the longest silence
    was before the takeover or after it.
    """
    last, first = verdict.last, verdict.first
    if not marks or last is None or first is None or marks[-1][1] < last or marks[0][1] > first:
        return ()
    ends = [*((name, min(max(when, last), first)) for name, when in marks), ("first commit", first)]
    starts = [last, *(end for _, end in ends)]
    return tuple(Stage(name, start, end) for (name, end), start in zip(ends, starts, strict=False))
