"""What surely does not fit: data into volumes, a file system onto them, a server's memory into its node; and how
much memory layouts take. Pure.

Only what cannot be is refused: each value is the least that is needed, and the most that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.model.ground import NodeSpec, Topology
from blocklab.model.layer import Database, Layer, RawVolumes, Sized
from blocklab.model.workload import Connected, NeedsSpace, WithData, Workload
from blocklab.study.copies import copy_of
from blocklab.study.factors import variant
from blocklab.study.grid import hardware, is_drill, layouts, roles_of, topology
from blocklab.study.takeover import survivors_of
from blocklab.study.types import Cell, Stack, Study

Problem = tuple[str, str]
MIB = 2**20


def room_problems(study: Study, name: str, workloads: Sequence[str]) -> Iterator[Problem]:
    """What a stack of the study, or one of these workloads, asks for and surely has not: it would show when the
    layout stands, or is loaded."""
    stack = study.stacks[name]
    small = list(_too_small(name, stack))
    yield from small
    # Without faults nothing takes over, and the server stays where it is.
    heirs = survivors_of(stack) if any(is_drill(study, workload) for workload in workloads) else ()
    yield from _memory(study.nodes, name, stack, heirs)
    for workload in () if small else workloads:
        yield from _overfull(f"workloads.{workload}", study.workloads[workload], name, stack)


def held(layers: Sequence[Layer]) -> int:
    """Bytes that what is on top of these layers has for data at most; 0 where they do not tell. Raises
    ``ValueError`` where a layer has too little below it."""
    sizes: list[int] = []
    for layer in layers:
        if isinstance(layer, RawVolumes):
            sizes = [int(profile.size) for profile in layer.profiles()]
        elif isinstance(layer, Sized) and sizes:
            sizes = layer.holds(sizes)
    return max(0, sum(sizes))


def _too_small(name: str, stack: Stack) -> Iterator[Problem]:
    for index, layer in enumerate(stack.layers):
        try:
            held(stack.layers[: index + 1])
        except ValueError as error:
            yield f"stacks.{name}.layers[{index}]", f"{layer.tag} {error}"
            return


def _memory(nodes: Mapping[str, NodeSpec], name: str, stack: Stack, heirs: Sequence[str]) -> Iterator[Problem]:
    for index, (layer, roles) in enumerate(zip(stack.layers, roles_of(stack), strict=True)):
        for field, (value, wants) in layer.memory().items() if isinstance(layer, Database) else ():
            for host in dict.fromkeys((*roles, *heirs)):
                if wants > nodes[host].memory:
                    yield (
                        f"stacks.{name}.layers[{index}].{field}",
                        f"{value} is more than the whole memory of node {host}, {_mib(nodes[host].memory)}; give "
                        "the server less or the node more",
                    )


def _overfull(path: str, workload: Workload, name: str, stack: Stack) -> Iterator[Problem]:
    has = held(stack.layers)
    if isinstance(workload, NeedsSpace) and 0 < has < workload.room:
        said = f"needs {_mib(workload.room)}, but the volumes of stack {name} have {_mib(has)} for it"
        yield path, f"{said}; {_smaller(workload, has) or 'make it smaller'}, or make the volumes larger"
    taken = [layer.max_connections for layer in stack.layers if isinstance(layer, Database)]
    most = min((each for each in taken if each is not None), default=None)
    if most is not None and isinstance(workload, Connected) and workload.sessions > most:
        yield (
            path,
            f"has {workload.sessions} connections at once, but the database of stack {name} takes {most}; raise "
            "its max_connections",
        )


def _smaller(workload: Any, has: int) -> str:
    """The field that the data grow with, at a value that fits; empty where it is no plain number."""
    for field in msgspec.structs.fields(type(workload)):
        value = getattr(workload, field.name)
        if type(value) is not int or value < 2:
            continue
        halved = msgspec.structs.replace(workload, **{field.name: value // 2})
        if halved.room < workload.room and (most := value * has // workload.room):
            return f"{field.encode_name}: {most} fits"
    return ""


def _mib(size: float) -> str:
    return f"{size / MIB:,.6g} MiB"


def hardwares(study: Study, cells: Sequence[Cell]) -> Iterator[tuple[Topology, int]]:
    """What the layouts of these cells stand on, and how often its volumes are kept: once in use, and once for each
    set of data that is copied while the same nodes run."""
    shapes: dict[str, Topology] = {}
    copies: dict[str, set[str]] = {}
    for layout in layouts(study, cells):
        shape = topology(layout.study, [layout.stack])
        kind = hardware(shape)
        shapes.setdefault(kind, shape)
        mine = copies.setdefault(kind, set())
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            if isinstance(workload, WithData):
                mine.add(copy_of(layout.study, layout.stack, workload))
    for kind, shape in shapes.items():
        yield shape, 1 + len(copies[kind])


def memory(study: Study, cells: Sequence[Cell]) -> int:
    """Bytes that the largest layout takes, with its volumes in memory."""
    return max(sum(shape.memory(copies)) for shape, copies in hardwares(study, cells))
