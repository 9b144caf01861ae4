"""From a study to its cells, to the ground they need, and to the plan of each stack. All pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from blocklab.layers import AnyLayer
from blocklab.model.ground import Ground, Topology, VolumeSpec
from blocklab.model.plan import Plan, Port
from blocklab.model.protocols import Place, Workload
from blocklab.model.units import enc_hook
from blocklab.study.links import plan_links
from blocklab.study.types import FORMAT, Cell, Stack, Study


def cells(study: Study) -> tuple[Cell, ...]:
    """Every cell, stack by stack in the order of the file."""
    found = []
    for stack_name in study.stacks:
        shape = topology(study, [stack_name])
        for workload_name, workload in study.workloads.items():
            spec = msgspec.to_builtins(
                {
                    "format": FORMAT,
                    "stack": {"name": stack_name, **_builtins(study.stacks[stack_name])},
                    "workload": {"name": workload_name, **_builtins(workload)},
                    "nodes": _builtins(shape.nodes),
                    "links": _builtins(shape.links),
                }
            )
            found.append(Cell(key_of(spec), stack_name, workload_name, spec))
    return tuple(found)


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=enc_hook)


def key_of(spec: dict[str, Any]) -> str:
    """12 hex digits of the SHA-256 of the canonical JSON (keys sorted, no blanks)."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:12]


def hosts_of(stack: Stack) -> tuple[str, ...]:
    """The nodes that a stack stands on, the active one first."""
    found = dict.fromkeys([stack.on])
    for layer in stack.layers:
        found.update(dict.fromkeys(layer.spans(stack.on)))
    return tuple(found)


def topology(study: Study, stacks: Sequence[str]) -> Topology:
    """What a site must give for these stacks together: only the nodes and links that they use."""
    used = dict.fromkeys(host for name in stacks for host in hosts_of(study.stacks[name]))
    volumes = []
    for name in stacks:
        stack = study.stacks[name]
        profile = stack.layers[0].profile()
        assert profile is not None, "check() lets only volumes be the lowest layer"
        volumes += [VolumeSpec(name, host, profile) for host in hosts_of(stack)]
    return Topology(
        nodes={name: node for name, node in study.nodes.items() if name in used},
        links={name: link for name, link in study.links.items() if set(link.between) <= set(used)},
        volumes=tuple(volumes),
    )


def plan_ground(shape: Topology, ground: Ground) -> Plan:
    """The plan that the links need, before any stack."""
    return plan_links(shape, ground)


def plan_stack(study: Study, name: str, number: int, ground: Ground) -> Plan:
    """The plan of one stack; its ports are the active host's, lowest layer first."""
    stack = study.stacks[name]
    steps: list[Any] = []
    facts: list[Any] = []
    ports: list[Port] = []
    below: dict[str, tuple[Port, ...]] = {}
    for index, layer in enumerate(stack.layers):
        above: dict[str, tuple[Port, ...]] = {}
        for host in hosts_at(stack, index):
            reach = layer.spans(host)
            plan = layer.plan(
                Place(name, host, number, ground), tuple(port for peer in reach for port in below.get(peer, ()))
            )
            steps += plan.steps
            facts += plan.facts
            above[host] = plan.ports
        below = above
        ports += above[stack.on]
    return Plan(tuple(steps), tuple(facts), tuple(ports))


def hosts_at(stack: Stack, index: int) -> tuple[str, ...]:
    """The hosts on which the layer ``index`` is built: those that the layers above it span."""
    found = dict.fromkeys([stack.on])
    for layer in stack.layers[index + 1 :]:
        found.update(dict.fromkeys(layer.spans(stack.on)))
    return tuple(found)


def port_for(workload: Workload, ports: Sequence[Port]) -> Port:
    """The highest port of the first kind that the workload takes."""
    for kind in workload.takes:
        for port in reversed(ports):
            if port.kind == kind:
                return port
    raise ValueError("check() lets no workload through without a port")


def layer_tag(layer: AnyLayer) -> str:
    """``drbd`` for a ``Drbd``."""
    return str(layer.__struct_config__.tag)
