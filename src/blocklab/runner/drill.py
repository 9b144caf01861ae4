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

from blocklab.drills.ledger import bins, check
from blocklab.errors import BlocklabError, CommandError, HostError, KnobError, ParseError
from blocklab.model.clock import EXCHANGES, Stretch
from blocklab.model.drill import Attempt, Drill, Event, MirrorState, Stage, Verdict
from blocklab.model.drill import Ledger as Found
from blocklab.model.host import Proc
from blocklab.model.workload import Drilled
from blocklab.runner.aftermath import Aftermath
from blocklab.runner.lookout import Lookout
from blocklab.runner.measure import Measured, Steady, clocks
from blocklab.runner.single import read, stop
from blocklab.runner.strikes import Count, Counters, End, Moment, Strikes
from blocklab.runner.workshop import Standing
from blocklab.store.run import Record
from blocklab.study.drill_phases import FENCING, HEARD_SECONDS, NOTICE_SECONDS, Write, writing
from blocklab.study.grid import hosts_of
from blocklab.study.phases import Ask, Do
from blocklab.study.types import Study
from blocklab.workloads import ledger_output
from blocklab.workloads.ledger_output import History

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
        hosts = hosts_of(study.stacks[stack])
        self._active, self._peer = hosts[0], hosts[1] if len(hosts) > 1 else ""
        self._brief, self._dice, self._moment = brief, seed, moment
        self._arm()
        self._survivor = self._plan.monitor.host if self._plan.monitor else ""
        self._client = self._plan.command.host
        self._after = Aftermath(stand, study, stack, raw)
        self._events: list[Event] = []
        # Ours of seconds since the epoch plus this is the client's.
        self._offset: dict[str, float] = {}
        # The ends of the takeover's parts, by our clock.
        self._marks: list[tuple[str, float]] = []
        self._watch: Lookout | None = None
        self._took_over = False
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
        attempts, history, why = self._history()
        self._after.dead |= self._strikes.dead
        self._mend()
        if self._took_over:
            self._after.moved()
        ledger, unread = self._ledger()
        first = self._strikes.first
        struck = None if first is None else self._by_client(first)
        until = history.stop if history else None
        verdict = check(
            attempts, ledger, struck, why or unread, until=until, binlog_unread=self._after.binlog_unread
        )
        mirror = self._mirror()
        if attempts and history:
            self._measured.parsed = ledger_output.before(attempts, history, struck, self._client)
        rate = next(
            (each.value for each in self._measured.parsed.samples if (each.metric, each.time) == ("tps", None)),
            None,
        )
        drill = Drill(
            seed=self._seed, fault=", ".join(self._strikes.struck), active=self._active,
            survivor=self._survivor, took_over=self._took_over,
            servers=tuple(self._plan.servers), events=tuple(sorted(self._events, key=lambda event: event.time)),
            stages=self._stages(verdict), verdict=verdict, mirror=mirror, rate=rate, struck=struck, until=until,
            bins=bins(attempts or (), edge=struck or 0.0), after=self._strikes.after,
        )  # fmt: skip
        return drill, ledger

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
        if self._plan.monitor is not None:
            self._watch = Lookout(self._engine, self._plan.monitor, self._raw / "monitor")
        try:
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
            if self._watch is not None:
                stop(self._watch.proc, signal.SIGTERM)

    def _loop(self, client: Proc, counters: Counters, deadline: float) -> None:
        """Until writes are accepted again for long enough, or will not be."""
        self._begin(client, counters, deadline)
        end = End(float(self._workload.after), float(self._study.takeover.wait), NOTICE_SECONDS, self._timer)
        known = None
        while self._goes_on(client, deadline):
            if not self._took_over and self._dead():
                self._take_over()
                if self._failed:
                    return
                end.taken_over()
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
        watch, limit = self._watch, self._timer.now() + HEARD_SECONDS
        while watch is not None and watch.first("answered") is None:
            self._goes_on(client, deadline)
            if self._timer.now() > limit:
                raise HostError(
                    watch.host, f"its monitor got no answer from {self._active} in {HEARD_SECONDS:g} s",
                    hint="no fault had struck by then; is the link between them slower than the study says?",
                )  # fmt: skip
            self._timer.sleep(LOOK_SECONDS)
        self._strikes.start()

    def _hopeless(self) -> bool:
        """Whether the active node is dead and nothing is left that could take over."""
        dead = self._strikes.dead
        if self._took_over or self._active not in dead:
            return False
        return not self._survivor or self._survivor in dead

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

    def _dead(self) -> bool:
        """Whether the monitor declares the active node dead. ``HostError`` where nothing had happened to it."""
        watch = self._watch
        if watch is None or watch.host in self._strikes.dead | self._strikes.frozen:
            return False
        dead = watch.first("dead")
        if dead is not None and not self._strikes.struck:
            raise HostError(
                watch.host,
                f"its monitor declared {self._active} dead before any fault struck ({dead.said}), so there is "
                "nothing to measure",
                hint="give `takeover` more misses or a longer interval if this machine is busy; `blocklab resume` "
                "does the drill again",
            )
        return dead is not None

    def _take_over(self) -> None:
        """Carry the takeover out, each stage timed."""
        self._marks.append(("detection", self._timer.today()))
        try:
            for phase in self._plan.takeover:
                self._engine.go(phase)
                if isinstance(phase, Do):
                    self._marks.append((phase.of, self._timer.today()))
                    if phase.of == FENCING:
                        self._strikes.dead.add(self._active)
            self._took_over = self._strikes.taken_over = True
        except BlocklabError as error:
            self._failed = True
            self._happened("takeover failed", self._timer.today(), error.message)
            self._measured.warnings.append(f"the takeover failed: {error.message}")

    def _happened(self, what: str, when: float, said: str = "") -> None:
        """Note an event that happened ``when`` by our clock."""
        self._events.append(Event(self._by_client(when), what, said))

    def _by_client(self, ours: float) -> float:
        return ours + self._offset.get(self._client, 0.0)

    # -- afterwards ------------------------------------------------------------------------------------------

    def _history(self) -> tuple[list[Attempt] | None, History | None, str]:
        """What the client has on record, and why it cannot be read where it cannot; the monitor's events go among
        ours."""
        try:
            if watch := self._watch:
                shift = self._offset.get(self._client, 0.0) - self._offset.get(watch.host, 0.0)
                self._events += [Event(each.time + shift, each.what, each.said) for each in watch.events()]
        except ParseError as error:
            # What the client was told is worth as much without it.
            self._measured.warnings.append(error.message)
        try:
            attempts, history = ledger_output.attempts((self._raw / "workload" / "history.tsv").read_bytes())
        except ParseError as error:
            return None, None, error.message
        return attempts, history, ""

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
        active = self._survivor if self._took_over else self._active
        if active not in self._after.dead:
            ledger, why = self._after.ledger(self._workload)
            if ledger is not None or self._took_over:
                return ledger, why
        try:
            self._after.restart()
        except KnobError:
            raise
        except BlocklabError as error:
            return None, f"the stack could not be built again over its data: {error.message}"
        return self._after.ledger(self._workload)

    def _mirror(self) -> MirrorState | None:
        other = self._active if self._took_over else self._peer if self._peer in self._after.dead else ""
        old = "" if self._after.restarted else other
        try:
            mirror = self._after.mirror(old)
            # What could not be looked at is not to be built upon.
            self.unmended = self.unmended or (mirror is not None and mirror.status == "unknown")
            return mirror
        except KnobError:
            self.unmended = True
            raise
        except BlocklabError as error:
            self.unmended = True
            said = f"{old} could not be taken in again" if old else "the stack could not be looked at afterwards"
            self._measured.warnings.append(f"{said}: {error.message}")
            return None

    def _stages(self, verdict: Verdict) -> tuple[Stage, ...]:
        """The parts of the outage; none where nothing took over."""
        if not self._took_over:
            return ()
        return stages([(name, self._by_client(when)) for name, when in self._marks], verdict)


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
