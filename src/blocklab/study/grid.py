"""From a study to its cells, to the ground they need, and to the plan of each stack. All pure."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.model.dsn import Dsn
from blocklab.model.ground import Ground, LinkSpec, NodeSpec, Topology, VolumeSpec
from blocklab.model.layer import Equipped, Garbled, Layer, Place, RawVolumes, Role
from blocklab.model.plan import Plan, Port
from blocklab.model.spans import Copies, Side, Spans, one_copy
from blocklab.model.units import Duration, enc_hook
from blocklab.model.workload import ByTcp, Drilled, Workload
from blocklab.study.factors import (
    assignments,
    combinations,
    excluded,
    level_texts,
    of_client,
    of_workload,
    variant,
)
from blocklab.study.links import plan_access, plan_links, plan_wires
from blocklab.study.old import of_key
from blocklab.study.types import FORMAT, Cell, Stack, Study


@dataclass(frozen=True)
class Layout:
    """Cells that share one build: ``study`` is the variant that the stack is planned from."""

    study: Study
    stack: str
    cells: tuple[Cell, ...]


def cells(study: Study) -> tuple[Cell, ...]:
    """Every cell, stack by stack in the order of the file, each at every combination of the factors.

    Combinations that do not differ for a stack and a workload (a link's RTT for a stack without links) are one
    cell, which has only the levels that matter to it. Raises ``StudyError`` for a combination that cannot be
    built.
    """
    found: dict[str, dict[str, Cell]] = {stack: {} for stack in study.stacks}
    for levels in combinations(study):
        at = variant(study, levels)
        for stack in study.stacks:
            for workload in study.workloads:
                if excluded(study, levels, stack, workload):
                    continue
                spec = spec_of(at, stack, workload)
                key = key_of(of_key(spec))
                before = found[stack].get(key)
                mine = levels if before is None else dict(before.levels.items() & levels.items())
                found[stack][key] = Cell(key, stack, workload, spec, mine)
    once = tuple(_ordered(study, _distinguished(study, cell)) for each in found.values() for cell in each.values())
    return tuple(repeated(cell, repeat) for repeat in range(study.repeats) for cell in once)


def repeated(cell: Cell, repeat: int) -> Cell:
    """A cell of the first repeat in another one."""
    # The first repeat's key is that of a study without repeats, whose cells it may take over.
    if repeat == 0:
        return cell
    return msgspec.structs.replace(cell, key=key_of(of_key({**cell.spec, "repeat": repeat})), repeat=repeat)


def _distinguished(study: Study, cell: Cell) -> Cell:
    """Without a level that only seems to matter to the cell, since all others are excluded for it."""
    if not study.exclude:
        return cell
    kept = {name: level for name, level in cell.levels.items() if _matters(study, cell, name, level)}
    return msgspec.structs.replace(cell, levels=kept)


def _matters(study: Study, cell: Cell, factor: str, level: str) -> bool:
    # Only those that an exclusion names can be excluded where this one is not.
    named = {text for entry in study.exclude if factor in entry for text in level_texts(entry[factor])}
    for other in assignments(study.factors[factor]):
        levels = {**cell.levels, factor: other}
        if other != level and other in named and excluded(study, levels, cell.stack, cell.workload):
            try:
                return key_of(of_key(spec_of(variant(study, levels), cell.stack, cell.workload))) != cell.key
            except StudyError:
                # It cannot even be built there.
                return True
    return True


def _ordered(study: Study, cell: Cell) -> Cell:
    """With the levels in the order of the study, whatever a set made of it."""
    levels = {name: cell.levels[name] for name in study.factors if name in cell.levels}
    return msgspec.structs.replace(cell, levels=levels)


def spec_of(study: Study, stack: str, workload: str) -> dict[str, Any]:
    """All that a cell's values depend on, as plain data."""
    nodes, links = ground_of(study, [stack], [workload])
    spec: dict[str, Any] = msgspec.to_builtins(
        {
            "format": FORMAT,
            "stack": {"name": stack, **_builtins(study.stacks[stack])},
            "workload": {"name": workload, **_builtins(study.workloads[workload])},
            "nodes": _builtins(nodes),
            "links": _builtins(links),
        }
    )
    if is_drill(study, workload):
        spec["faults"], spec["takeover"] = _builtins(study.faults), _builtins(study.takeover)
    return spec


def is_drill(study: Study, workload: str) -> bool:
    """Whether the study's faults strike under that workload."""
    return bool(study.faults) and isinstance(study.workloads[workload], Drilled)


def layouts(study: Study, wanted: Sequence[Cell]) -> tuple[Layout, ...]:
    """The cells by the build that they share: the same stack at the same levels of all but the workloads'
    factors."""
    groups: dict[str, list[Cell]] = {}
    # Nodes and links are those of all workloads at the layout's levels, so where a workload runs has to be the
    # same.
    parting = {name for name, each in study.factors.items() if not of_workload(each) or of_client(each)}
    for cell in wanted:
        shared = {name: part for name, part in cell.spec.items() if name != "workload"}
        # A client's node is in the spec of its own workloads only, and all workloads of a layout share the build.
        shared["levels"] = {name: level for name, level in cell.levels.items() if name in parting}
        del shared["nodes"], shared["links"]
        shared["repeat"] = cell.repeat
        shared.pop("faults", None)
        shared.pop("takeover", None)
        groups.setdefault(key_of(shared), []).append(cell)
    return tuple(
        Layout(variant(study, group[0].levels), group[0].stack, tuple(group)) for group in groups.values()
    )


def hardware(shape: Topology, ground: Ground | None = None) -> str:
    """A key that is the same for topologies between which no node has to boot again: delays and rates are undone
    with the stack (``plan_links``). With the ``ground``, for which the volumes have to be the same devices too."""
    links = {
        name: msgspec.structs.replace(link, rtt=Duration("0s"), jitter=Duration("0s"), rate=None)
        for name, link in shape.links.items()
    }
    # Two stacks of the same hardware may share it too.
    volumes = tuple(msgspec.structs.replace(volume, stack="") for volume in shape.volumes)
    devices = [] if ground is None else [ground.devices[each.stack] for each in shape.volumes]
    return key_of({"shape": _builtins(Topology(shape.nodes, links, volumes, shape.addons)), "devices": devices})


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=enc_hook)


def key_of(spec: dict[str, Any]) -> str:
    """12 hex digits of the SHA-256 of the canonical JSON (keys sorted, no blanks)."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:12]


def hosts_of(stack: Stack) -> tuple[str, ...]:
    """The nodes that a stack stands on, the active one first."""
    found = dict.fromkeys([stack.on])
    for level in roles_of(stack):
        found.update(dict.fromkeys(level))
    return tuple(found)


def roles_of(stack: Stack) -> tuple[dict[str, Role], ...]:
    """On which hosts each layer is built, from the raw volume up, and for which role: that which the nearest layer
    above that spans hosts has for it there. The active host, or what leads to it, comes first."""
    here: dict[str, Role] = {stack.on: "primary"}
    found = []
    for layer in reversed(stack.layers):
        found.append(here)
        if isinstance(layer, Spans):
            here = {side.host: side.role for host in here for side in layer.sides(host)}
    return tuple(reversed(found))


def sides_of(layer: Layer, host: str) -> tuple[Side, ...]:
    """Where what is below the layer must be built so that it can be active on ``host``."""
    return layer.sides(host) if isinstance(layer, Spans) else (Side(host, "primary"),)


def peers_of(layer: Spans, on: str, links: Mapping[str, LinkSpec]) -> dict[str, str]:
    """The other nodes of a layer that is active on one, each with the link of the layer's that joins both; empty
    without one."""
    peers = [side.host for side in layer.sides(on) if side.host != on]
    own = {name: set(links[name].between) for name in layer.links if name in links}
    return {peer: next((name for name, ends in own.items() if ends == {on, peer}), "") for peer in peers}


def links_of(stack: Stack) -> tuple[str, ...]:
    """The links that the stack's layers send data over, from below."""
    return tuple(link for layer in stack.layers if isinstance(layer, Spans) for link in layer.links)


def topology(study: Study, stacks: Sequence[str], workloads: Sequence[str] | None = None) -> Topology:
    """What a site must give for these stacks together, and for the clients of the workloads (all, if None): only
    the nodes and links that they use. The first node is the first stack's active one."""
    nodes, links = ground_of(study, stacks, workloads)
    volumes = [volume for name in stacks for volume in _volumes(name, study.stacks[name])]
    addons = sorted({need for name in stacks for need in _needs(study.stacks[name])})
    return Topology(nodes, links, tuple(volumes), tuple(addons))


def ground_of(
    study: Study, stacks: Sequence[str], workloads: Sequence[str] | None = None
) -> tuple[dict[str, NodeSpec], dict[str, LinkSpec]]:
    """The nodes and the links of these stacks' ``topology``."""
    hosts = [host for name in stacks for host in hosts_of(study.stacks[name])]
    clients: set[str] = set()
    links = {link for name in stacks for link in links_of(study.stacks[name])}
    for name in study.workloads if workloads is None else workloads:
        if client := study.workloads[name].client:
            clients.add(client)
            links |= {between(study, client, host) for stack in stacks for host in reached(study, name, stack)}
        if is_drill(study, name):
            # The monitors'.
            pairs = (pair for stack in stacks for pair in itertools.combinations(hosts_of(study.stacks[stack]), 2))
            links |= {between(study, *pair) for pair in pairs}
    order = (*hosts, *(name for name in study.nodes if name in clients))
    return (
        {name: study.nodes[name] for name in order if name in study.nodes},
        {name: link for name, link in study.links.items() if name in links},
    )


def _needs(stack: Stack) -> Iterator[str]:
    for layer in stack.layers:
        if isinstance(layer, Equipped):
            yield from layer.needs


def reached(study: Study, workload: str, stack: str) -> tuple[str, ...]:
    """The hosts of a stack that a workload's client needs a link to: in a drill it goes on where another one takes
    over."""
    return hosts_of(study.stacks[stack]) if is_drill(study, workload) else (study.stacks[stack].on,)


def between(study: Study, client: str, host: str) -> str:
    """The first link between a client and a host; empty without one, or where they are the same."""
    return next((name for name, link in study.links.items() if set(link.between) == {client, host}), "")


def is_shared(stack: Stack) -> bool:
    """Whether all nodes of the stack have the same volumes."""
    return any(one_copy(layer) and len(sides_of(layer, stack.on)) > 1 for layer in stack.layers)


def _volumes(name: str, stack: Stack) -> Iterator[VolumeSpec]:
    hosts = tuple(roles_of(stack)[0])
    lowest = stack.layers[0]
    alike = any(isinstance(layer, Copies) and layer.exact for layer in stack.layers)
    for index, profile in enumerate(lowest.profiles() if isinstance(lowest, RawVolumes) else ()):
        if is_shared(stack):
            yield VolumeSpec(name, hosts, profile, index, alike)
        else:
            yield from (VolumeSpec(name, (host,), profile, index, alike) for host in hosts)


def clients(study: Study, stack: str, ground: Ground, host: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The addresses of one of the stack's nodes, the active one without a name, at which workloads from other
    nodes reach it, and those nodes' own."""
    here = host or study.stacks[stack].on
    names = dict.fromkeys(each.client for each in study.workloads.values())
    found = {name: address for name in names if (address := _address(name, here, ground))}
    return tuple(dict.fromkeys(found.values())), tuple(_address(here, name, ground) for name in found)


def _loopback(study: Study, stack: str, ground: Ground) -> bool:
    """Whether a database is to be reached by TCP on its own node; always where nobody else is on it."""
    here = study.stacks[stack].on
    local = (each for each in study.workloads.values() if each.client in ("", here))
    return not ground.guarded or any(isinstance(each, ByTcp) for each in local)


def _address(client: str, host: str, ground: Ground) -> str:
    """Where ``client`` reaches ``host``: at the other end of the first link between them; empty without one."""
    ends = (each for each in ground.ends.values() if client in each and host in each)
    return next((each[host].address for each in ends), "") if client and client != host else ""


def plan_ground(shape: Topology, ground: Ground) -> Plan:
    """The plan that nodes and links need, before any stack: once after the boot, and what may change later."""
    return plan_wires(shape, ground) + plan_links(shape, ground) + plan_access(shape, ground)


def plan_stack(study: Study, name: str, number: int, ground: Ground) -> Plan:
    """The plan of one stack; its ports are the active host's, lowest layer first."""
    on = study.stacks[name].on
    steps: list[Any] = []
    facts: list[Any] = []
    ports: list[Port] = []
    for level in plan_layers(study, name, number, ground):
        for plan in level.values():
            steps += plan.steps
            facts += plan.facts
        ports += level[on].ports if on in level else ()
    return Plan(tuple(steps), tuple(facts), tuple(ports))


@dataclass(frozen=True)
class Planned:
    """A layer on one host: where it is planned, the ports below it, and its plan."""

    layer: Layer
    place: Place
    below: tuple[Port, ...]
    plan: Plan


def plan_layers(study: Study, name: str, number: int, ground: Ground) -> Iterator[dict[str, Plan]]:
    """The plan of each layer of a stack on each of its hosts, from the raw volume up."""
    for level in planned(study, name, number, ground):
        yield {host: here.plan for host, here in level.items()}


def planned(study: Study, name: str, number: int, ground: Ground) -> Iterator[dict[str, Planned]]:
    """Each layer of a stack on each of its hosts, from the raw volume up."""
    stack = study.stacks[name]
    given: dict[str, tuple[Port, ...]] = {}
    roles = roles_of(stack)
    for index, layer in enumerate(stack.layers):
        level: dict[str, Planned] = {}
        for host, role in roles[index].items():
            place = place_of(study, name, number, ground, index, host, role)
            below = tuple(port for side in sides_of(layer, host) for port in given.get(side.host, ()))
            level[host] = Planned(layer, place, below, layer.plan(place, below))
        given = {host: here.plan.ports for host, here in level.items()}
        yield level


def place_of(study: Study, name: str, number: int, ground: Ground, index: int, host: str, role: Role) -> Place:
    """Where the layer ``index`` of a stack is on one host."""
    listen, callers = clients(study, name, ground, host)
    alike = not any(isinstance(lower, Garbled) for lower in study.stacks[name].layers[:index])
    return Place(
        ground.prefix + name, host, ground.first + number, ground, listen,
        ground.devices.get(name, {}).get(host, ()), callers, _loopback(study, name, ground), alike, role,
        tuple(_joined(study.stacks[name], index, host, ground)),
    )  # fmt: skip


def _joined(stack: Stack, index: int, host: str, ground: Ground) -> Iterator[tuple[str, str]]:
    """The addresses of both ends of each link from a host to its peers in the next layer above that has any."""
    above = next((layer for layer in stack.layers[index + 1 :] if isinstance(layer, Spans)), None)
    peers = {side.host for side in above.sides(stack.on)} - {host} if above else ()
    for link in above.links if above else ():
        ends = ground.ends.get(link, {})
        yield from ((ends[host].address, ends[peer].address) for peer in peers if {host, peer} == ends.keys())


def wires(study: Study, name: str, ground: Ground) -> dict[str, tuple[str, ...]]:
    """The interfaces of the links that a stack sends data over, at each of their ends; empty without one."""
    found: dict[str, tuple[str, ...]] = {}
    for link in dict.fromkeys(links_of(study.stacks[name])):
        for host, end in ground.ends.get(link, {}).items():
            found[host] = (*found.get(host, ()), end.nic)
    return found


def port_for(workload: Workload, ports: Sequence[Port], ground: Ground) -> Port:
    """The highest port of the first kind that the workload takes, as seen from the node that it runs on.

    Raises ``StudyError`` where that node has no link to it.
    """
    for kind in workload.takes:
        for port in reversed(ports):
            if port.kind == kind:
                return _seen(port, workload.client, ground)
    raise ValueError("check() lets no workload through without a port")


def _seen(port: Port, client: str, ground: Ground) -> Port:
    if not client or client == port.host:
        return port
    address = _address(client, port.host, ground)
    if not address:
        # By the server's own socket it would be another workload: one without a network.
        said = f"a workload is to run on {client}, but no link joins it to {port.host}"
        raise StudyError("workloads", said, hint=f"links: {{name: {{between: [{client}, {port.host}]}}}}")
    return Port(client, port.kind, str(Dsn.of(port.where).at(address)))
