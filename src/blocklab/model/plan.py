"""A plan is data: what to run where, how to undo it, and how to ask the system whether it is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

Kind = Literal["block", "dir", "postgresql", "mysql"]
Argv: TypeAlias = tuple[str, ...]
# What the knobs of a ``steady`` fact are wanted to be.
UNCHANGED = "unchanged"


class Port(msgspec.Struct, frozen=True):
    """What one layer offers the next.

    ``where`` is a device path for ``block``, a folder for ``dir``, and for a database its URI (``model.dsn``).
    """

    host: str
    kind: Kind
    where: str


class Run(msgspec.Struct, frozen=True, tag_field="step", tag="run"):
    """Run ``argv`` on ``host``; exit code 0 or the cell fails. ``undo`` runs at the end, in reverse order.

    ``once`` marks what makes the data on the volumes (mkfs, initdb): it is left out when a stack is built again
    over its data, on this host after a restore or on another one after a takeover. ``again`` is what runs then
    in its place (``mdadm --assemble`` for ``mdadm --create``); ``undo`` is due in both cases.

    ``late`` marks what parts the volumes' data from each other (a mirror's disconnect): it is left out while data
    are loaded that are going to be copied, so that all volumes are copied with the same data.
    """

    host: str
    argv: Argv
    undo: Argv = ()
    once: bool = False
    again: Argv = ()
    late: bool = False
    timeout: float = 120.0


class Put(msgspec.Struct, frozen=True, tag_field="step", tag="put"):
    """Write ``text`` to ``path`` on ``host``; undone by removing the file.

    ``secret`` names the secret that is written in the place of ``access.SECRET``, and is stored nowhere.
    """

    host: str
    path: str
    text: str
    mode: int = 0o644
    secret: str | msgspec.UnsetType = msgspec.UNSET


class Wait(msgspec.Struct, frozen=True, tag_field="step", tag="wait"):
    """Run ``argv`` again and again until its standard output contains ``until``, at most ``seconds``.

    An empty ``until`` waits for exit code 0.
    """

    host: str
    argv: Argv
    until: str = ""
    seconds: float = 30.0


class Power(msgspec.Struct, frozen=True, tag_field="step", tag="power"):
    """What is done to a node itself: ``crash`` ends it as a power cut does, ``freeze`` stops it, ``thaw`` lets it
    go on, ``boot`` starts one that is dead, with the volumes and links that it had."""

    host: str
    what: Literal["crash", "freeze", "thaw", "boot"]


class Equip(msgspec.Struct, frozen=True, tag_field="step", tag="equip"):
    """Put blocklab's own programs (``model.node``) on ``host``, as long as it runs."""

    host: str


Step: TypeAlias = Run | Put | Wait | Power | Equip


def again(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps that build the same stack over the data that are on its volumes already."""
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, Run) or not step.once:
            found.append(step)
        elif step.again:
            found.append(msgspec.structs.replace(step, argv=step.again, once=False, again=()))
    return tuple(found)


def before_data(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps that build the stack that data are loaded into."""
    return tuple(step for step in steps if not isinstance(step, Run) or not step.late)


def made_once(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps that decide what is on the volumes."""
    return tuple(step for step in steps if isinstance(step, Run) and step.once)


def undo_of(step: Step) -> Argv:
    """The command that undoes a step on its host; empty when there is nothing to undo."""
    if isinstance(step, Put):
        return ("rm", "-f", step.path)
    return step.undo if isinstance(step, Run) else ()


@dataclass(frozen=True)
class Fact:
    """A question to the running system, and what the study wants the answer to be.

    ``argv`` prints; ``parse`` (pure) turns the text into knob -> value. A knob in ``wanted`` whose value
    differs makes the cell invalid; all values are stored with the run. ``lasting``: the answer stays the same as
    long as the host is up, so it is asked for once.

    ``timed``: it measures what that takes (``link zone``, ``reads of vda on a1``), and the answers are times in
    seconds: see ``stack_map.Took``. They are stored as such, and are no knobs.

    ``steady``: whatever the answer is, it must be the same after a workload as before it. What is stored is not
    the answer, which is another one on each build, but ``unchanged`` or ``changed``; so each of its knobs is
    wanted ``UNCHANGED``.
    """

    host: str
    layer: str
    argv: Argv
    parse: Callable[[str], Mapping[str, str]]
    wanted: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = False
    steady: bool = False
    timed: str = ""


class Knob(msgspec.Struct, frozen=True):
    """One answer of a ``Fact``: ``wanted`` is None where the study did not set it."""

    host: str
    layer: str
    name: str
    value: str
    wanted: str | None = None

    @property
    def in_force(self) -> bool:
        """Whether the system has what the study set; true where it set nothing."""
        return self.wanted is None or self.wanted == self.value


@dataclass(frozen=True)
class Plan:
    """Steps in order, facts to check once the steps are done, and the ports that they leave."""

    steps: tuple[Step, ...] = ()
    facts: tuple[Fact, ...] = ()
    ports: tuple[Port, ...] = ()

    def __add__(self, other: Plan) -> Plan:
        """This plan, then ``other``; the ports are the later plan's."""
        return Plan(self.steps + other.steps, self.facts + other.facts, other.ports)
