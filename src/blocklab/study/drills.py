"""What a study's drills are: where faults strike, and whether they can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.faults import monitor
from blocklab.faults.base import SETTLED_SECONDS
from blocklab.model.fault import Fault, Mended, Outdates, Scene
from blocklab.model.ground import End, Ground, Topology
from blocklab.model.plan import Port, Power
from blocklab.model.spans import Copies
from blocklab.model.workload import Drilled
from blocklab.study.factors import left_out
from blocklab.study.grid import between, hosts_of, is_shared, plan_layers, topology
from blocklab.study.takeover import comparison, survivors_of
from blocklab.study.types import Study

Problem = tuple[str, str]


def scene(study: Study, name: str, number: int, ground: Ground) -> Scene:
    """Where faults strike on a stack: its nodes, the ground, its links, and what each layer gives on each node."""
    active, *peers = hosts_of(study.stacks[name])
    ports: dict[str, tuple[Port, ...]] = {}
    for level in plan_layers(study, name, number, ground):
        for host, plan in level.items():
            ports[host] = (*ports.get(host, ()), *plan.ports)
    links = {link: study.links[link] for link in ground.ends}
    return Scene(name, number, active, tuple(peers), ground, links, ports)


def problems(study: Study) -> Iterator[Problem]:
    """What keeps the study's faults from striking: nobody to see them, something that a stack lacks, no way for
    the monitor, a client that they take along. Stacks of which no drill is left are not asked."""
    if not study.faults:
        return
    for field, problem in study.takeover.problems():
        yield f"takeover.{field}", problem
    if not any(isinstance(workload, Drilled) for workload in study.workloads.values()):
        yield "faults", "no workload uses faults; add one with workload: ledger"
    gone = left_out(study, {})
    for name, stack in study.stacks.items():
        struck = [
            workload
            for workload, each in study.workloads.items()
            if isinstance(each, Drilled) and {"stack": name, "workload": workload} not in gone
        ]
        if not struck:
            continue
        order = (stack.on, *survivors_of(stack))
        for heir, on in _watching(order):
            if not between(study, heir, on):
                yield f"stacks.{name}", f"no link joins {heir} and {on}, over which the monitor pings; add one"
        if not study.takeover.fence and is_shared(stack):
            yield (
                "takeover.fence",
                f"on the shared disk of {name} two nodes would write to one file system",
            )
        here = scene(study, name, 0, nominal(topology(study, [name])))
        yield from _unheard(study, here, order)
        found = [
            (f"faults.{fault}.{field}", problem)
            for fault, each in study.faults.items()
            for field, problem in each.problems(here)
        ]
        yield from found or (
            *_taken_along(study, here, struck), *_on_frozen(study, here), *_from_the_stale_side(study, here)
        )  # fmt: skip


def _taken_along(study: Study, here: Scene, workloads: Sequence[str]) -> Iterator[Problem]:
    """Clients whose node goes down: what they knew would be gone with them."""
    down = {
        step.host: f"is hit by the fault {name}"
        for name, each in study.faults.items()
        for step in each.strike(here)
        if isinstance(step, Power)
    }
    # A takeover cuts its power, and its end restarts it.
    down[here.active] = "is the active one"
    for workload in workloads:
        if why := down.get(client := study.workloads[workload].client):
            yield (
                f"workloads.{workload}.from",
                f"{client} {why} on stack {here.stack}, and its history is lost if its node fails; "
                "give it a node of its own, with links to the nodes of the stack",
            )


def _watching(order: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Which survivor watches which node: all that come before it."""
    return ((heir, of) for index, heir in enumerate(order) for of in order[:index])


def _unheard(study: Study, here: Scene, order: Sequence[str]) -> Iterator[Problem]:
    """Monitors that would take a node for dead before they can hear it."""
    takeover = study.takeover
    for beat in dict.fromkeys(monitor.link(here, heir, of) for heir, of in _watching(order)):
        if not beat or takeover.interval * takeover.misses > here.links[beat].rtt:
            continue
        yield (
            "takeover.misses",
            f"{takeover.misses} times {takeover.interval} are over before an answer can be there: the monitor of "
            f"{here.stack} pings over the link {beat}, which has an rtt of {here.links[beat].rtt}; give more "
            "misses or a longer interval",
        )


def _on_frozen(study: Study, here: Scene) -> Iterator[Problem]:
    """Faults that would have to do something on a node that stands still until the end of the drill."""
    for name, freeze in study.faults.items():
        host = next(iter(_powered(freeze, here, "freeze")), "")
        if not host or freeze.lasts is not None:
            continue
        for other, each in study.faults.items():
            mended = each.heal(here) if isinstance(each, Mended) and each.lasts is not None else ()
            steps = (*each.strike(here), *mended)
            needs = any(step.host == host and not isinstance(step, Power) for step in steps)
            if needs and _may_follow(study, other, name):
                yield (
                    f"faults.{name}.for",
                    f"is missing: {host} would stand still until the end of the drill, and {other} may strike or "
                    f"be mended there meanwhile; say for how long it is frozen, or give {other} an earlier time",
                )


def _from_the_stale_side(study: Study, here: Scene) -> Iterator[Problem]:
    """Power cuts after which the active node would start from a copy that its mirror had given up."""
    exact = any(isinstance(layer, Copies) and layer.exact for layer in study.stacks[here.stack].layers)
    if not exact or comparison(study, here.stack, here.number, here.ground) is None:
        return
    for name, error in study.faults.items():
        if not isinstance(error, Outdates) or error.stale(here) != here.active:
            continue
        for other, each in study.faults.items():
            if _powered(each, here, "crash") >= set(here.nodes) and _may_follow(study, other, name):
                yield (
                    f"faults.{other}.at",
                    f"would be after {name}, when the mirror of {here.stack} goes on with the volume of "
                    f"{here.peer} alone; afterwards {here.active} starts from its own copy, and all that it "
                    f"lacks would be called lost; give {other} an earlier time, or leave {name} out",
                )


def _powered(fault: Fault, here: Scene, what: str) -> set[str]:
    """The nodes whose power the fault has a say in, in that way."""
    return {step.host for step in fault.strike(here) if isinstance(step, Power) and step.what == what}


def _may_follow(study: Study, name: str, before: str) -> bool:
    """Whether that fault may strike, or be mended, after the other one has struck."""
    each, other, order = study.faults[name], study.faults[before], list(study.faults)
    late = each.moments()[1] + float(each.lasts or 0)
    if each.when and not other.when:
        late += SETTLED_SECONDS
    return (late, order.index(name)) > (other.moments()[0], order.index(before))


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
