"""What surely does not fit: data into volumes, a file system onto them, a server's memory into its node. Pure.

Only what cannot be is refused: each value is the least that is needed, and the most that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from blocklab.model.ground import NodeSpec
from blocklab.model.layer import Database, Layer, RawVolumes, Sized
from blocklab.model.workload import Connected, NeedsSpace, Workload
from blocklab.study.grid import is_drill
from blocklab.study.takeover import survivor_of
from blocklab.study.types import Stack, Study

Problem = tuple[str, str]
MIB = 2**20


def room_problems(study: Study, name: str, workloads: Sequence[str]) -> Iterator[Problem]:
    """What a stack of the study, or one of these workloads, asks for and surely has not: it would show when the
    layout stands, or is loaded."""
    stack = study.stacks[name]
    small = list(_too_small(name, stack))
    yield from small
    # Without faults nothing takes over, and the server stays where it is.
    heir = survivor_of(stack) if any(is_drill(study, workload) for workload in workloads) else ""
    yield from _memory(study.nodes, name, stack, (stack.on, heir) if heir else (stack.on,))
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


def _memory(nodes: Mapping[str, NodeSpec], name: str, stack: Stack, hosts: Sequence[str]) -> Iterator[Problem]:
    for index, layer in enumerate(stack.layers):
        for field, (value, wants) in layer.memory().items() if isinstance(layer, Database) else ():
            for host in hosts:
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
        yield path, f"{said}; make it smaller, or them larger"
    taken = [layer.max_connections for layer in stack.layers if isinstance(layer, Database)]
    most = min((each for each in taken if each is not None), default=None)
    if most is not None and isinstance(workload, Connected) and workload.sessions > most:
        yield (
            path,
            f"has {workload.sessions} connections at once, but the database of stack {name} takes {most}; raise "
            "its max_connections",
        )


def _mib(size: float) -> str:
    return f"{size / MIB:,.6g} MiB"
