"""What a study's drills are: where faults strike, and whether they can."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.layers import Shared
from blocklab.model.ground import End, Ground, Topology
from blocklab.model.plan import Port
from blocklab.model.protocols import Scene
from blocklab.study.grid import between, hosts_of, plan_layers, topology
from blocklab.study.takeover import survivor_of
from blocklab.study.types import Study

Problem = tuple[str, str]


def scene(study: Study, name: str, number: int, ground: Ground) -> Scene:
    """Where faults strike on a stack: its nodes, the ground, its links, and what each layer gives on each node."""
    active, *others = hosts_of(study.stacks[name])
    ports: dict[str, tuple[Port, ...]] = {}
    for storey in plan_layers(study, name, number, ground):
        for host, plan in storey.items():
            ports[host] = (*ports.get(host, ()), *plan.ports)
    links = {link: study.links[link] for link in ground.ends}
    return Scene(name, number, active, others[0] if others else "", ground, links, ports)


def problems(study: Study) -> Iterator[Problem]:
    """What keeps the study's faults from striking: nobody to see them, something that a stack lacks, no way for
    the monitor."""
    if not study.faults:
        return
    for field, problem in study.takeover.problems():
        yield f"takeover.{field}", problem
    if not any(workload.drilled for workload in study.workloads.values()):
        yield "faults", "no load would see them; add one with load: ledger"
    for name, stack in study.stacks.items():
        heir = survivor_of(stack)
        if heir and not between(study, heir, stack.on):
            yield f"stacks.{name}", f"no link joins {heir} and {stack.on}, over which the monitor pings; add one"
        if not study.takeover.fence and any(isinstance(layer, Shared) for layer in stack.layers):
            yield (
                "takeover.fence",
                f"on the shared disk of {name} two nodes would write to one file system",
            )
        here = scene(study, name, 0, nominal(topology(study, [name])))
        for fault, each in study.faults.items():
            yield from ((f"faults.{fault}.{field}", problem) for field, problem in each.problems(here))


def nominal(shape: Topology) -> Ground:
    """A ground of the right shape, whose names mean nothing: good for looking, not for running."""
    ends = {
        name: {
            host: End(f"nic{side}", f"192.0.2.{side}", tuple(f"nic{side}.{lane}" for lane in range(link.lanes)))
            for side, host in enumerate(link.between, 1)
        }
        for name, link in shape.links.items()
    }
    devices: dict[str, dict[str, tuple[str, ...]]] = {}
    for volume in shape.volumes:
        for node in volume.nodes:
            mine = devices.setdefault(volume.stack, {})
            mine[node] = (*mine.get(node, ()), f"/dev/volume{volume.index}")
    return Ground(ends, devices)
