"""Carries out plans: every step recorded, its undo registered before it runs, knobs read back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from blocklab.errors import BlocklabError, CommandError, HostError, WaitError
from blocklab.model.host import Host, Result
from blocklab.model.plan import Argv, Fact, Knob, Put, Run, Step, Wait, undo_of
from blocklab.store.run import Record

POLL_SECONDS = 0.05
UNDO_SECONDS = 60.0
# Enough to see why a command failed; the raw output of tools is kept elsewhere, whole.
SAID_CHARACTERS = 4000


class Engine:
    """Runs steps on hosts.

    ``records`` grows by one for each command, ``warnings`` by what an undo could not do.
    """

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self.hosts = hosts
        self.records: list[Record] = []
        self.warnings: list[str] = []
        self._undo: list[tuple[str, Argv]] = []

    def carry_out(self, steps: Iterable[Step], part: str) -> None:
        """Run the steps in order. Raises ``CommandError``, ``WaitError``, ``HostError``, ``NodeLost``."""
        for step in steps:
            if undo := undo_of(step):
                self._undo.append((step.host, undo))
            if isinstance(step, Run):
                self._command(step.host, step.argv, step.timeout, part)
            elif isinstance(step, Put):
                self._put(step, part)
            else:
                self._wait(step, part)

    def mark(self) -> int:
        """A place in the pile of undos, for ``undo``."""
        return len(self._undo)

    def undo(self, to: int = 0) -> None:
        """Undo everything since ``mark`` in reverse order. Never raises: a failing undo becomes a warning."""
        while len(self._undo) > to:
            host, argv = self._undo.pop()
            try:
                self._command(host, argv, UNDO_SECONDS, "undo")
            except BlocklabError as error:
                self.warnings.append(f"undo: {error.message}")

    def ask(self, facts: Iterable[Fact]) -> list[Knob]:
        """Read knobs back. A command that fails leaves its wanted knobs ``unreadable``, so not in force."""
        knobs: list[Knob] = []
        for fact in facts:
            values = self._answers(fact)
            for name in [*fact.wanted, *(name for name in values if name not in fact.wanted)]:
                value = values.get(name, "unreadable" if not values else "absent")
                knobs.append(Knob(fact.host, fact.layer, name, value, fact.wanted.get(name)))
        return knobs

    # -- one step ------------------------------------------------------------------------------------------

    def _answers(self, fact: Fact) -> Mapping[str, str]:
        try:
            return fact.parse(self._command(fact.host, fact.argv, 30.0, "knob").said)
        except CommandError:
            return {}
        except (ValueError, KeyError, IndexError) as error:
            self.warnings.append(f"{fact.host}: {fact.layer}: cannot read {' '.join(fact.argv[:3])}: {error}")
            return {}

    def _command(self, host: str, argv: Argv, timeout: float, part: str) -> Record:
        started = time.monotonic()
        try:
            result = self.hosts[host].run(argv, timeout=timeout)
        except TimeoutError as error:
            self.records.append(Record(part, host, argv, -9, time.monotonic() - started, "did not end in time"))
            raise CommandError(host, argv, -9, f"did not end in {timeout:g} s; killed") from error
        output = result.text if part == "knob" else result.said[-SAID_CHARACTERS:]
        record = Record(part, host, argv, result.code, time.monotonic() - started, output)
        # What a knob said is stored as knobs; its text would only fill the list of commands.
        self.records.append(record if part != "knob" else Record(part, host, argv, result.code, record.seconds))
        if result.code != 0:
            raise CommandError(host, argv, result.code, result.said)
        return record

    def _put(self, step: Put, part: str) -> None:
        started = time.monotonic()
        try:
            self.hosts[step.host].put(step.path, step.text.encode(), step.mode)
        except OSError as error:
            raise HostError(step.host, f"cannot write {step.path}: {error.strerror}") from error
        argv = ("put", step.path)
        self.records.append(Record(part, step.host, argv, 0, time.monotonic() - started, step.text))

    def _wait(self, step: Wait, part: str) -> None:
        started = time.monotonic()
        while True:
            try:
                result = self.hosts[step.host].run(step.argv, timeout=max(5.0, step.seconds))
            except TimeoutError:
                result = Result(-9, b"", b"did not end in time; killed")
            seconds = time.monotonic() - started
            if result.code == 0 and step.until in result.text:
                self.records.append(Record(part, step.host, step.argv, 0, seconds, result.said))
                return
            if seconds > step.seconds:
                self.records.append(Record(part, step.host, step.argv, result.code, seconds, result.said))
                raise WaitError(step.host, step.argv, step.seconds, result.said)
            time.sleep(POLL_SECONDS)
