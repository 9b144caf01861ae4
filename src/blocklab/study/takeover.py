"""A takeover as a property of the plan: what runs on the survivor, what takes the old node in again. All pure.

A *failed-over* study is the study as it is once the survivor is active. Its stack's plan is that of a stack that
was built there, with the old node as the peer; what ``takeover`` and ``rejoin`` give leads there from a stack that
stands on the old node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from blocklab.model.drill import Replicas
from blocklab.model.ground import Ground, Topology
from blocklab.model.layer import Mirror, Paired
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Step, again
from blocklab.study.grid import Planned, planned
from blocklab.study.links import plan_access, plan_links, plan_wires
from blocklab.study.types import Stack, Study

StageName: TypeAlias = Literal["promotion", "mount", "recovery", "resync"]
# What makes a layer of each kind usable again.
STAGES: Mapping[Kind, StageName] = {
    "block": "promotion",
    "dir": "mount",
    "postgresql": "recovery",
    "mysql": "recovery",
}


class Stage(msgspec.Struct, frozen=True):
    """A part of a takeover: steps that are timed together."""

    name: StageName
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Recipe:
    """How ``survivor`` takes over from ``old``, which must be gone or cut off before the first stage.

    ``plan``: what then stands on the survivor: no steps, the facts that hold while it is alone (they ask no other
    node), and its ports, the lowest first. Once the old node is in again, the facts are those of the failed-over
    study's ``plan_stack``.
    """

    survivor: str
    old: str
    stages: tuple[Stage, ...]
    plan: Plan


def survivor_of(stack: Stack) -> str:
    """The node that can take over from the active one; empty for a stack that has none."""
    return next((layer.survivor for layer in stack.layers if isinstance(layer, Paired) and layer.survivor), "")


def failed_over(study: Study, name: str) -> Study:
    """The study with that stack active on its survivor. Raises ``ValueError`` where there is none."""
    stack = study.stacks[name]
    survivor = survivor_of(stack)
    if not survivor:
        raise ValueError(f"the stack {name} is on {stack.on} alone; nothing can take over")
    layers = tuple(layer.failed_over(stack.on) if isinstance(layer, Paired) else layer for layer in stack.layers)
    there = msgspec.structs.replace(stack, on=survivor, layers=layers)
    return msgspec.structs.replace(study, stacks={**study.stacks, name: there})


def takeover(study: Study, name: str, number: int, ground: Ground) -> Recipe:
    """The recipe for that stack, which was built from ``study``. What made its data (mkfs, initdb) is left out.

    Raises ``ValueError`` where there is no survivor.
    """
    after = failed_over(study, name)
    survivor = after.stacks[name].on
    parts: list[tuple[Kind, Iterable[Step]]] = []
    facts: list[Fact] = []
    ports: list[Port] = []
    for here in _at(after, name, number, ground, survivor):
        layer = here.layer
        if isinstance(layer, Paired):
            parts.append((layer.gives, layer.takeover(here.place, here.below)))
            facts += layer.alone(here.place, here.below)
        else:
            # What is below stands there already.
            parts += [(layer.gives, again(here.plan.steps))] if parts else []
            facts += here.plan.facts
        ports += here.plan.ports
    mine = tuple(fact for fact in facts if fact.host == survivor)
    return Recipe(survivor, study.stacks[name].on, _stages(parts), Plan((), mine, tuple(ports)))


def restart(study: Study, name: str, number: int, ground: Ground) -> tuple[Stage, ...]:
    """All hosts of the stack were crashed and booted again, their wires and links are up: the active one starts by
    itself over its data; then, as the stage ``resync``, the other one is taken in."""
    active = study.stacks[name].on
    parts = [
        (
            here.layer.gives,
            here.layer.restart(here.place, here.below)
            if isinstance(here.layer, Paired)
            else again(here.plan.steps),
        )
        for here in _at(study, name, number, ground, active)
    ]
    found = _stages(parts)
    if (pair := _pair(study, name, number, ground)) is not None:
        steps = revive(study, name, number, ground, pair[0].peer)
        found += (Stage("resync", (*steps, *rejoin(study, name, number, ground))),)
    return found


def ground_steps(shape: Topology, ground: Ground, host: str) -> tuple[Step, ...]:
    """What one host is told after it booted again: its end of each wire and link, and what gives access."""
    steps = (*plan_wires(shape, ground).steps, *plan_links(shape, ground).steps, *plan_access(shape, ground).steps)
    return tuple(step for step in steps if step.host == host)


def revive(study: Study, name: str, number: int, ground: Ground, host: str) -> tuple[Step, ...]:
    """What a node of the stack needs after it booted again, between its wires and links and ``rejoin``: the layers
    below the mirror, over their data."""
    found: list[Step] = []
    for level in planned(study, name, number, ground):
        if any(isinstance(here.layer, Paired) for here in level.values()):
            break
        found += again(level[host].plan.steps) if host in level else ()
    return tuple(found)


def rejoin(study: Study, name: str, number: int, ground: Ground) -> tuple[Step, ...]:
    """What takes the other node in again. ``study`` says which one is active now: the failed-over one after a
    takeover. Empty for a stack on one node."""
    pair = _pair(study, name, number, ground)
    return pair[0].rejoin(pair[1].place, pair[1].below) if pair else ()


def split_brain(study: Study, name: str, number: int, ground: Ground) -> tuple[str, Argv] | None:
    """(host, argv) that prints something where the two sides have what the other one lacks, and fails where it
    cannot tell. It looks at what ``rejoin`` did. None for a stack of which there is one copy."""
    pair = _pair(study, name, number, ground)
    return pair[0].split_brain(pair[1].place) if pair and isinstance(pair[0], Mirror) else None


def replicas(study: Study, name: str, number: int, ground: Ground) -> Replicas | None:
    """How both sides are compared after ``rejoin``; None for a stack of which there is one copy."""
    pair = _pair(study, name, number, ground)
    return pair[0].replicas(pair[1].place, pair[1].below) if pair and isinstance(pair[0], Mirror) else None


def _pair(study: Study, name: str, number: int, ground: Ground) -> tuple[Paired, Planned] | None:
    """The mirror, or the shared disk, where it is active."""
    here = _at(study, name, number, ground, study.stacks[name].on)
    return next(((each.layer, each) for each in here if isinstance(each.layer, Paired)), None)


def _at(study: Study, name: str, number: int, ground: Ground, host: str) -> Iterable[Planned]:
    return (level[host] for level in planned(study, name, number, ground) if host in level)


def _stages(parts: Iterable[tuple[Kind, Iterable[Step]]]) -> tuple[Stage, ...]:
    """The steps of layers one after the other, as stages; one without steps is there, too."""
    found: dict[StageName, list[Step]] = {}
    for kind, steps in parts:
        found.setdefault(STAGES[kind], []).extend(steps)
    return tuple(Stage(name, tuple(steps)) for name, steps in found.items())
