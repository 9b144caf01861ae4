"""A takeover as a property of the plan: what runs on the survivor, what takes the old node in again. All pure.

A *failed-over* study is the study as it is once a survivor is active. Its stack's plan is that of a stack that was
built there, with the old node as a peer; what ``takeover`` and ``rejoin`` give leads there from a stack that
stands on the old node. Any number of nodes can be survivors, in the order that the layer gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from blocklab.model.ground import Ground, Topology
from blocklab.model.layer import Layer, Staged
from blocklab.model.plan import Fact, Kind, Plan, Port, Step, again
from blocklab.model.spans import Comparison, Copies, Heir, Query, Sign, Spans, Stage, Watch
from blocklab.study.grid import Planned, place_of, planned, roles_of
from blocklab.study.links import plan_access, plan_links, plan_wires
from blocklab.study.types import Stack, Study

# What the layers are a part of that come before any with a stage: a node's devices.
PROMOTION = "promotion"
RESYNC = "resync"


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


def survivors_of(stack: Stack) -> tuple[str, ...]:
    """The nodes that can take over from the active one, the first choice first; empty for a stack without any."""
    return next((layer.survivors for layer in stack.layers if isinstance(layer, Heir)), ())


def kind_of(stack: Stack) -> Kind:
    """What the highest layer on several nodes gives; on one node, its devices."""
    return next((layer.gives for layer in reversed(stack.layers) if isinstance(layer, Spans)), "block")


def failed_over(study: Study, name: str, survivor: str = "") -> Study:
    """The study with that stack active on a survivor, the first one without a name. Raises ``ValueError`` where
    there is none."""
    stack = study.stacks[name]
    survivor = survivor or next(iter(survivors_of(stack)), "")
    if not survivor:
        raise ValueError(f"the stack {name} is on {stack.on} alone; nothing can take over")
    layers = tuple(
        layer.failed_over(stack.on, survivor) if isinstance(layer, Heir) else layer for layer in stack.layers
    )
    there = msgspec.structs.replace(stack, on=survivor, layers=layers)
    return msgspec.structs.replace(study, stacks={**study.stacks, name: there})


def takeover(study: Study, name: str, number: int, ground: Ground, survivor: str = "") -> Recipe:
    """The recipe for that stack, which was built from ``study``, and for one of its survivors, the first one
    without a name. What made its data (mkfs, initdb) is left out.

    Raises ``ValueError`` where there is no survivor.
    """
    after = failed_over(study, name, survivor)
    stack, survivor = study.stacks[name], after.stacks[name].on
    order = survivors_of(stack)
    gone = (stack.on, *order[: order.index(survivor)])
    parts: list[Stage] = []
    facts: list[Fact] = []
    ports: list[Port] = []
    for here in _at(after, name, number, ground, survivor):
        layer = here.layer
        if isinstance(layer, Heir):
            parts += _parts(layer, layer.takeover(here.place, here.below, gone))
            facts += layer.alone(here.place, here.below)
        else:
            # What is below stands there already.
            parts += [_part(layer, again(here.plan.steps))] if parts else []
            facts += here.plan.facts
        ports += here.plan.ports
    own = tuple(fact for fact in facts if fact.host == survivor)
    return Recipe(survivor, stack.on, _stages(parts), Plan((), own, tuple(ports)))


def restart(study: Study, name: str, number: int, ground: Ground) -> tuple[Stage, ...]:
    """All hosts of the stack were crashed and booted again, their wires and links are up: the active one starts by
    itself over its data; then, as the stage ``resync``, the others are taken in."""
    parts: list[Stage] = []
    for here in _at(study, name, number, ground, study.stacks[name].on):
        layer = here.layer
        if isinstance(layer, Heir):
            parts += _parts(layer, layer.restart(here.place, here.below))
        else:
            parts.append(_part(layer, again(here.plan.steps)))
    stages = _stages(parts)
    if _heir(study, name, number, ground) is not None:
        others = others_of(study.stacks[name])
        steps = [step for host in others for step in revive(study, name, number, ground, host)]
        stages += (Stage(RESYNC, (*steps, *rejoin(study, name, number, ground, others))),)
    return stages


def others_of(stack: Stack) -> tuple[str, ...]:
    """The nodes that the stack's layers stand on beside the active one, in their order."""
    hosts = dict.fromkeys(host for level in roles_of(stack) for host in level)
    return tuple(host for host in hosts if host != stack.on)


def ground_steps(shape: Topology, ground: Ground, host: str) -> tuple[Step, ...]:
    """What one host is told after it booted again: its end of each wire and link, and what gives access."""
    steps = (*plan_wires(shape, ground).steps, *plan_links(shape, ground).steps, *plan_access(shape, ground).steps)
    return tuple(step for step in steps if step.host == host)


def revive(study: Study, name: str, number: int, ground: Ground, host: str) -> tuple[Step, ...]:
    """What a node of the stack needs after it booted again, between its wires and links and ``rejoin``: the layers
    below what stands on several nodes, over their data, for the role that it has in ``study``."""
    steps: list[Step] = []
    for level in planned(study, name, number, ground):
        if any(isinstance(here.layer, Spans) for here in level.values()):
            break
        steps += again(level[host].plan.steps) if host in level else ()
    return tuple(steps)


def rejoin(
    study: Study, name: str, number: int, ground: Ground, back: Sequence[str] | None = None
) -> tuple[Step, ...]:
    """What takes other nodes in again, all of them without names. ``study`` says which one is active now: the
    failed-over one after a takeover. Empty for a stack on one node."""
    if (heir := _heir(study, name, number, ground)) is None:
        return ()
    layer, here = heir
    return layer.rejoin(here.place, here.below, others_of(study.stacks[name]) if back is None else back)


def split_brain(study: Study, name: str, number: int, ground: Ground) -> Query | None:
    """(host, argv) that prints something where two sides have what the other one lacks, and fails where it cannot
    tell. It looks at what ``rejoin`` did. None for a stack of which there is one copy."""
    if (copies := _copies(study, name, number, ground)) is None:
        return None
    layer, here = copies
    return layer.split_brain(here.place)


def comparison(study: Study, name: str, number: int, ground: Ground) -> Comparison | None:
    """How all sides are compared after ``rejoin``; None for a stack of which there is one copy."""
    if (copies := _copies(study, name, number, ground)) is None:
        return None
    layer, here = copies
    return layer.comparison(here.place, here.below)


def signs(study: Study, name: str, number: int, ground: Ground, host: str, of: str) -> tuple[Sign, ...]:
    """What a node of the stack sees of another one, beside whether it answers pings."""
    found: list[Sign] = []
    stack = study.stacks[name]
    for index, layer in enumerate(stack.layers):
        if isinstance(layer, Watch):
            found += layer.signs(place_of(study, name, number, ground, index, host, "replica"), of)
    return tuple(found)


def _heir(study: Study, name: str, number: int, ground: Ground) -> tuple[Heir, Planned] | None:
    """What can be active elsewhere, where it is active."""
    here = _at(study, name, number, ground, study.stacks[name].on)
    return next(((level.layer, level) for level in here if isinstance(level.layer, Heir)), None)


def _copies(study: Study, name: str, number: int, ground: Ground) -> tuple[Copies, Planned] | None:
    here = _at(study, name, number, ground, study.stacks[name].on)
    return next(((level.layer, level) for level in here if isinstance(level.layer, Copies)), None)


def _at(study: Study, name: str, number: int, ground: Ground, host: str) -> Iterator[Planned]:
    return (level[host] for level in planned(study, name, number, ground) if host in level)


def _part(layer: Layer, steps: tuple[Step, ...]) -> Stage:
    return Stage(layer.stage if isinstance(layer, Staged) else "", steps, frozenset([layer.gives]))


def _parts(layer: Layer, stages: Iterable[Stage]) -> list[Stage]:
    return [Stage(stage.name, stage.steps, frozenset([layer.gives])) for stage in stages]


def _stages(parts: Iterable[Stage]) -> tuple[Stage, ...]:
    """The steps of layers one after the other, as stages; one without steps is there, too."""
    found: dict[str, Stage] = {}
    name = PROMOTION
    for part in parts:
        name = part.name or name
        known = found.get(name, Stage(name, ()))
        found[name] = Stage(name, known.steps + part.steps, known.gives | part.gives)
    return tuple(found.values())
