"""Carries out plans: every step recorded, its undo registered before it runs, knobs read back."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping

import msgspec

from blocklab.errors import BlocklabError, CommandError, HostError, HostTimeout, WaitError
from blocklab.model import access, node_programs
from blocklab.model.host import Host, Result
from blocklab.model.plan import UNCHANGED, Argv, Equip, Fact, Knob, Put, Run, Step, Wait, undo_of
from blocklab.model.plan import Power as PowerStep
from blocklab.model.site import Journal, Lab, Pauses, Power, offered, timer_of
from blocklab.model.stack_map import Took
from blocklab.model.undo import Undos
from blocklab.store.run import Record
from blocklab.study.phases import Do, Mark, Undo

POLL_SECONDS = 0.05
# umount writes back what waits in memory: 300 MB take 150 s to a volume of 500 I/Os of 4 KiB a second.
UNDO_SECONDS = 200.0
# mdadm: Cannot get exclusive access to /dev/md0:Perhaps a running process, mounted filesystem or ...
# device-mapper: remove ioctl on dm-10001  failed: Device or resource busy    Device one-crypt-1 is still in use.
_HELD = re.compile(r"Cannot get exclusive access|Device or resource busy|is still in use")
HELD_SECONDS = 3.0
# Enough to see why a command failed; the raw output of tools is kept elsewhere, whole.
SAID_CHARACTERS = 4000


# Of this process alone, in its memory alone.
_KEY = secrets.token_bytes(32)


def secret(name: str) -> str:
    """The secret of that name, 48 hex digits: DRBD takes up to 64 characters."""
    return hmac.new(_KEY, name.encode(), hashlib.sha256).hexdigest()[:48]


def without_secrets(result: Result) -> Result:
    """What a command printed, without any secret: a program may show what it was configured with."""
    out, err = result.out, result.err
    for name in access.NAMES:
        hidden, shown = secret(name).encode(), access.SECRET.encode()
        out, err = out.replace(hidden, shown), err.replace(hidden, shown)
    return Result(result.code, out, err)


class Engine:
    """Runs steps on a lab's hosts. Where these outlive us (``Journal``) each undo is on disk before its step runs.

    ``records`` grows by one for each command, ``warnings`` by what an undo could not do.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.timer = timer_of(lab)
        self._journal = offered(lab, Journal) if Journal in lab.offers else None
        self.records: list[Record] = []
        self.warnings: list[str] = []
        self.times: dict[str, tuple[Took, ...]] = {}
        """What pings over each link and reads of each volume took, each time that they were asked for."""
        self._undos = Undos()
        self.marks: dict[str, int] = {}
        """Places in the pile of undos, by the names of their phases."""
        # Steps whose result is kept, and the mark below their undos.
        self._kept: tuple[int, tuple[Step, ...]] | None = None
        self._known: dict[tuple[str, Argv], Mapping[str, str]] = {}

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The lab's, by name."""
        return self._lab.hosts

    def go(self, phase: Do | Mark | Undo) -> None:
        """Carry out a phase of steps. Raises what ``carry_out`` raises."""
        if isinstance(phase, Mark):
            self.marks[phase.name] = self.mark()
        elif isinstance(phase, Undo):
            self.undo(self.marks[phase.to] if phase.to else 0)
        elif phase.kept:
            self.keep(phase.steps, phase.part)
        else:
            self.carry_out(phase.steps, phase.part)

    def carry_out(self, steps: Iterable[Step], part: str) -> None:
        """Run the steps in order. Raises ``CommandError``, ``WaitError``, ``HostError``, ``NodeLost``."""
        for step in steps:
            self._push(step)
            if isinstance(step, Run):
                self._command(step.host, step.argv, step.timeout, part)
            elif isinstance(step, Put):
                self._put(step, part)
            elif isinstance(step, Wait):
                self._wait(step, part)
            elif isinstance(step, Equip):
                self._equip(step, part)
            else:
                self._power(step, part)

    def _push(self, step: Step) -> None:
        number = self._undos.push(step.host, undo := undo_of(step))
        if self._journal is not None and undo:
            self._journal.note(step.host, number, undo)

    def keep(self, steps: tuple[Step, ...], part: str) -> None:
        """Have the result of ``steps``: what was kept last if they are the same and not undone. Otherwise that is
        undone, with all since, and they are run.

        Raises what ``carry_out`` raises."""
        if self._kept is not None:
            at, before = self._kept
            if before == steps:
                return
            self.undo(at)
        at = self.mark()
        try:
            self.carry_out(steps, part)
        except BaseException:
            self.undo(at)
            raise
        self._kept = (at, steps)

    def mark(self) -> int:
        """A place in the pile of undos, for ``undo``."""
        return self._undos.mark()

    def forget(self, host: str) -> None:
        """Leave out the undos of a host that is dead: what they would undo went with it."""
        gone = self._undos.forget(host)
        if self._journal is not None:
            self._journal.done(host, gone)
        self._kept = None

    def undo(self, to: int = 0) -> None:
        """Undo everything since ``mark`` in reverse order. Never raises: a failing undo becomes a warning."""
        if self._kept is not None and self._kept[0] >= to:
            self._kept = None
        for number, host, argv in self._undos.since(to):
            try:
                self._undone(host, argv)
                if self._journal is not None:
                    self._journal.done(host, [number])
            except BlocklabError as error:
                self.warnings.append(f"undo: {error.message}")

    def _undone(self, host: str, argv: Argv) -> None:
        """Run an undo, and again while what it takes away is still held by what was taken away just before: a
        worker of the kernel's lets go a moment later. Raises what ``carry_out`` raises."""
        deadline = self.timer.now() + HELD_SECONDS
        while True:
            try:
                self._command(host, argv, UNDO_SECONDS, "undo")
                return
            except CommandError as error:
                if not _HELD.search(error.message) or self.timer.now() > deadline:
                    raise
                self.timer.sleep(POLL_SECONDS)

    def ask(self, facts: Iterable[Fact]) -> list[Knob]:
        """Read knobs back, steady ones left out; what pings and reads took goes to ``times``.

        A command that fails leaves its wanted knobs ``unreadable``, so not in force.
        """
        knobs: list[Knob] = []
        for fact in facts:
            if fact.steady:
                continue
            values = self._answers(fact)
            if fact.timed:
                if values:
                    took = Took(**{name: float(value) for name, value in values.items() if value != "None"})
                    self.times[fact.timed] = (*self.times.get(fact.timed, ()), took)
                continue
            for name in [*fact.wanted, *(name for name in values if name not in fact.wanted)]:
                value = values.get(name, "unreadable" if not values else "absent")
                knobs.append(Knob(fact.host, fact.layer, name, value, fact.wanted.get(name)))
        return knobs

    def before(self, facts: Iterable[Fact]) -> list[tuple[Fact, Mapping[str, str]]]:
        """The steady facts among these with their present answers, for ``since``."""
        return [(fact, self._answers(fact)) for fact in facts if fact.steady]

    def since(self, before: Iterable[tuple[Fact, Mapping[str, str]]]) -> list[Knob]:
        """Whether the answers are still those of ``before``."""
        knobs: list[Knob] = []
        for fact, then in before:
            now = self._answers(fact)
            for name, wanted in fact.wanted.items():
                known = name in then and name in now
                value = "unreadable" if not known else UNCHANGED if now[name] == then[name] else "changed"
                knobs.append(Knob(fact.host, fact.layer, name, value, wanted))
        return knobs

    # -- one step ------------------------------------------------------------------------------------------

    def _answers(self, fact: Fact) -> Mapping[str, str]:
        if fact.lasting and (fact.host, fact.argv) in self._known:
            return self._known[fact.host, fact.argv]
        try:
            found = fact.parse(self._command(fact.host, fact.argv, 30.0, "knob").said)
            if fact.lasting:
                self._known[fact.host, fact.argv] = found
            return found
        except CommandError:
            return {}
        except (ValueError, KeyError, IndexError) as error:
            self.warnings.append(f"{fact.host}: {fact.layer}: cannot read {' '.join(fact.argv[:3])}: {error}")
            return {}

    def _command(self, host: str, argv: Argv, timeout: float, part: str) -> Record:
        started = self.timer.now()
        try:
            result = without_secrets(self.hosts[host].run(argv, timeout=timeout))
        except HostTimeout as error:
            self.records.append(Record(part, host, argv, -9, self.timer.now() - started, "did not end in time"))
            raise CommandError(host, argv, -9, f"did not end in {timeout:g} s; killed") from error
        output = result.text if part == "knob" else result.said[-SAID_CHARACTERS:]
        record = Record(part, host, argv, result.code, self.timer.now() - started, output)
        # What a knob said is stored as knobs; its text would only fill the list of commands.
        self.records.append(record if part != "knob" else Record(part, host, argv, result.code, record.seconds))
        if result.code != 0:
            raise CommandError(host, argv, result.code, result.said)
        return record

    def _write(self, step: Put) -> None:
        text = step.text
        if not isinstance(step.secret, msgspec.UnsetType):
            text = text.replace(access.SECRET, secret(step.secret))
        try:
            self.hosts[step.host].put(step.path, text.encode(), step.mode)
        except OSError as error:
            raise HostError(step.host, f"cannot write {step.path}: {error.strerror}") from error

    def _equip(self, step: Equip, part: str) -> None:
        started = self.timer.now()
        for name in node_programs.NAMES:
            self._write(Put(step.host, node_programs.path(name), node_programs.text(name)))
        argv = ("equip", node_programs.FOLDER, node_programs.digest())
        self.records.append(Record(part, step.host, argv, 0, self.timer.now() - started))

    def _put(self, step: Put, part: str) -> None:
        started = self.timer.now()
        self._write(step)
        argv = ("put", step.path)
        self.records.append(Record(part, step.host, argv, 0, self.timer.now() - started, step.text))

    def _power(self, step: PowerStep, part: str) -> None:
        started = self.timer.now()
        getattr(offered(self._lab, Pauses if step.what in ("freeze", "thaw") else Power), step.what)(step.host)
        if step.what == "crash":
            self.forget(step.host)
        self.records.append(Record(part, step.host, ("power", step.what), 0, self.timer.now() - started))

    def _wait(self, step: Wait, part: str) -> None:
        started = self.timer.now()
        while True:
            try:
                result = without_secrets(self.hosts[step.host].run(step.argv, timeout=max(5.0, step.seconds)))
            except HostTimeout:
                result = Result(-9, b"", b"did not end in time; killed")
            seconds = self.timer.now() - started
            if result.code == 0 and step.until in result.text:
                self.records.append(Record(part, step.host, step.argv, 0, seconds, result.said))
                return
            if seconds > step.seconds:
                self.records.append(Record(part, step.host, step.argv, result.code, seconds, result.said))
                raise WaitError(step.host, step.argv, step.seconds, result.said)
            self.timer.sleep(POLL_SECONDS)
