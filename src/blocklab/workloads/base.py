"""What all workloads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import msgspec

from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Fact, Port, Run, Step
from blocklab.model.stop import DEFAULT, AnyStop, Rule, Stop, rule_of
from blocklab.model.workload import Command, Live


def version(host: str, layer: str, argv: Argv, find: Callable[[str], str]) -> Fact:
    """The question for a tool's version, which ``find`` takes out of what it prints."""
    return Fact(host, layer, argv, lambda text: {"version": find(text)}, lasting=True)


def stamped(argv: Argv) -> Argv:
    """The command, so that its lines have times, for ``formats.stamped``."""
    return program("stamp", *argv)


def target(port: Port, tool: str) -> str:
    """The path that a tool of block I/O works on: the device, or a file of its own in the folder."""
    return port.where if port.kind == "block" else f"{port.where.rstrip('/')}/blocklab.{tool}"


def no_target_yet(port: Port, tool: str) -> list[Step]:
    """That the folder or the device is there, and the file is not. Tools make what is missing in the node's own
    root: a folder, and a plain file in place of a device."""
    steps: list[Step] = [Run(port.host, ("test", "-b" if port.kind == "block" else "-d", port.where))]
    if port.kind == "dir":
        remove = ("rm", "-f", target(port, tool))
        steps.append(Run(port.host, remove, undo=remove))
    return steps


class WorkloadBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="workload", kw_only=True):
    """A workload.

    ``from`` is the node that it runs on, in place of the stack's own: a client of the database, which needs a
    link to it.
    """

    client: str = msgspec.field(default="", name="from")
    """The node that it runs on, in place of the stack's own: a client of the database, which needs a link to the
    node that the stack is active on. Only for a workload on a database."""

    refused: ClassVar[tuple[str, ...]] = ()
    """Fields of all workloads that this one has no use for."""
    program: ClassVar[str] = "the workload"
    """What it is called in a sentence about its counts."""


class Stoppable(WorkloadBase, frozen=True, kw_only=True):
    """A workload that has a rate, and can go on for as long as one likes."""

    stop: AnyStop | None = None
    """The stopping rule, where no field gives it a fixed length: see ``stop``."""

    def _timed(self) -> bool:
        """Whether the fields give it a length."""
        raise NotImplementedError

    def watched(self, command: Command) -> Command:
        """As it is: most tools print a line each second anyway."""
        return command

    def rule(self) -> Rule | None:
        """None where the fields give it a length."""
        return None if self._timed() else rule_of(self.stop or DEFAULT)

    def _stop_problems(self) -> Iterator[tuple[str, str]]:
        if self.stop is None:
            return
        if self._timed():
            yield "stop", "it has a fixed length already; give one or the other"
        if isinstance(self.stop, Stop):
            problems = list(self.stop.problems())
            yield from ((f"stop.{name}", problem) for name, problem in problems)
            if not problems and self.stop.rule().kind == "long" and not isinstance(self, Live):
                yield "stop", "its program cannot be ended early; give rounds, like {rounds: 3..15, each: 4s}"
