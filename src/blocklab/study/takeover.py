"""A takeover as a property of the plan: what runs on the survivor, what takes the old node in again. All pure.

A *moved* study is the study as it is once the survivor is active. Its stack's plan is that of a stack that was
built there, with the old node as the peer; what ``takeover`` and ``rejoin`` give leads there from a stack that
stands on the old node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from blocklab.model.drill import Twins
from blocklab.model.ground import Ground, Topology
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Step, again
from blocklab.study.grid import Spot, spots
from blocklab.study.links import plan_links, plan_wires
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
    node), and its ports, the lowest first. Once the old node is in again, the facts are those of the moved study's
    ``plan_stack``.
    """

    survivor: str
    old: str
    stages: tuple[Stage, ...]
    plan: Plan


def survivor_of(stack: Stack) -> str:
    """The node that can take over from the active one; empty for a stack that has none."""
    return next((layer.survivor for layer in stack.layers if layer.survivor), "")


def moved(study: Study, name: str) -> Study:
    """The study with that stack active on its survivor. Raises ``ValueError`` where there is none."""
    stack = study.stacks[name]
    survivor = survivor_of(stack)
    if not survivor:
        raise ValueError(f"the stack {name} is on {stack.on} alone; nothing can take over")
    layers = tuple(layer.moved(stack.on) for layer in stack.layers)
    there = msgspec.structs.replace(stack, on=survivor, layers=layers)
    return msgspec.structs.replace(study, stacks={**study.stacks, name: there})


def takeover(study: Study, name: str, number: int, ground: Ground) -> Recipe:
    """The recipe for that stack, which was built from ``study``. What made its data (mkfs, initdb) is left out.

    Raises ``ValueError`` where there is no survivor.
    """
    after = moved(study, name)
    survivor = after.stacks[name].on
    parts: list[tuple[Kind, Iterable[Step]]] = []
    facts: list[Fact] = []
    ports: list[Port] = []
    stands = True
    for spot in _at(after, name, number, ground, survivor):
        stands = stands and not _mirrors(spot)
        if not stands:
            parts.append((spot.layer.gives, spot.layer.takeover(spot.place, spot.below)))
        facts += spot.layer.alone(spot.place, spot.below) if _mirrors(spot) else spot.plan.facts
        ports += spot.plan.ports
    here = tuple(fact for fact in facts if fact.host == survivor)
    return Recipe(survivor, study.stacks[name].on, _stages(parts), Plan((), here, tuple(ports)))


def restart(study: Study, name: str, number: int, ground: Ground) -> tuple[Stage, ...]:
    """All hosts of the stack were crashed and booted again, their wires and links are up: the active one starts by
    itself over its data; then, as the stage ``resync``, the other one is taken in."""
    active = study.stacks[name].on
    parts = [
        (spot.layer.gives, spot.layer.restart(spot.place, spot.below))
        for spot in _at(study, name, number, ground, active)
    ]
    found = _stages(parts)
    mirror = _mirror(study, name, number, ground)
    if mirror is not None:
        others = (host for host in mirror.layer.spans(active) if host != active)
        steps = [step for host in others for step in revive(study, name, number, ground, host)]
        found += (Stage("resync", (*steps, *rejoin(study, name, number, ground))),)
    return found


def ground_steps(shape: Topology, ground: Ground, host: str) -> tuple[Step, ...]:
    """What one host is told after it booted again: its end of each wire and link."""
    steps = plan_wires(shape, ground).steps + plan_links(shape, ground).steps
    return tuple(step for step in steps if step.host == host)


def revive(study: Study, name: str, number: int, ground: Ground, host: str) -> tuple[Step, ...]:
    """What a node of the stack needs after it booted again, between its wires and links and ``rejoin``: the layers
    below the mirror, over their data."""
    found: list[Step] = []
    for storey in spots(study, name, number, ground):
        if any(_mirrors(spot) for spot in storey.values()):
            break
        found += again(storey[host].plan.steps) if host in storey else ()
    return tuple(found)


def rejoin(study: Study, name: str, number: int, ground: Ground) -> tuple[Step, ...]:
    """What takes the other node in again. ``study`` says which one is active now: the moved one after a takeover.
    Empty for a stack without a mirror."""
    spot = _mirror(study, name, number, ground)
    return spot.layer.rejoin(spot.place, spot.below) if spot else ()


def parted(study: Study, name: str, number: int, ground: Ground) -> tuple[str, Argv] | None:
    """(host, argv) that prints something where the two sides have what the other one lacks, and fails where it
    cannot tell. It looks at what ``rejoin`` did. None for a stack of which there is one copy."""
    spot = _mirror(study, name, number, ground)
    return spot.layer.parted(spot.place) if spot else None


def twins(study: Study, name: str, number: int, ground: Ground) -> Twins | None:
    """How both sides are compared after ``rejoin``; None for a stack of which there is one copy."""
    spot = _mirror(study, name, number, ground)
    return spot.layer.twins(spot.place, spot.below) if spot else None


def _mirrors(spot: Spot) -> bool:
    return len(spot.layer.spans(spot.place.host)) > 1


def _mirror(study: Study, name: str, number: int, ground: Ground) -> Spot | None:
    """The mirror, or the shared disk, where it is active."""
    active = study.stacks[name].on
    return next((spot for spot in _at(study, name, number, ground, active) if _mirrors(spot)), None)


def _at(study: Study, name: str, number: int, ground: Ground, host: str) -> Iterable[Spot]:
    return (storey[host] for storey in spots(study, name, number, ground) if host in storey)


def _stages(parts: Iterable[tuple[Kind, Iterable[Step]]]) -> tuple[Stage, ...]:
    """The steps of layers one after the other, as stages; one without steps is there, too."""
    found: dict[StageName, list[Step]] = {}
    for kind, steps in parts:
        found.setdefault(STAGES[kind], []).extend(steps)
    return tuple(Stage(name, tuple(steps)) for name, steps in found.items())
