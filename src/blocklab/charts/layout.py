"""The layout of each stack as boxes on nodes, for the diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from blocklab.model.layer import Drawn
from blocklab.model.spans import Spans
from blocklab.model.units import Duration, Size, enc_hook
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import exact
from blocklab.stats.grid import Side, levels_of
from blocklab.study.grid import hosts_of, roles_of, sides_of
from blocklab.study.types import Study


class Box(msgspec.Struct, frozen=True):
    """A layer from the column ``first`` over ``width`` columns (nodes), ``row`` counted from the bottom."""

    title: str
    detail: str
    row: int
    first: int
    width: int
    link: str = ""


class Layout(msgspec.Struct, frozen=True):
    """One stack: its nodes (the active one first, then those of clients), its boxes, how many rows.

    ``stack`` is a label for its colour, ``name`` what the study calls it; ``varied`` says which factors change it.
    """

    stack: str
    nodes: tuple[str, ...]
    boxes: tuple[Box, ...]
    rows: int
    name: str = ""
    varied: tuple[str, ...] = ()


def layouts(analysis: Analysis) -> tuple[Layout, ...]:
    """Every stack of the study, whether it was measured or not: once, at the first levels of its factors."""
    found: dict[str, Layout] = {}
    for label, side in analysis.stacks.items():
        if side.name not in found:
            found[side.name] = _layout(analysis, label, side)
    return tuple(found.values())


def _layout(analysis: Analysis, label: str, side: Side) -> Layout:
    study, stack = side.study, side.stack
    nodes = hosts_of(stack)
    boxes = []
    for row, (layer, roles) in enumerate(zip(stack.layers, roles_of(stack), strict=True)):
        title, detail = layer.tag, ""
        if isinstance(layer, Drawn):
            title, detail = layer.title, _detail(layer.details())
        reach = sides_of(layer, stack.on)
        if isinstance(layer, Spans) and len(reach) > 1:
            columns = [nodes.index(end.host) for end in reach]
            links = "; ".join(filter(None, (_link(analysis, label, side, link) for link in layer.links)))
            boxes.append(Box(title, detail, row, min(columns), max(columns) - min(columns) + 1, links))
            continue
        boxes += [Box(title, detail, row, nodes.index(host), 1) for host in roles]
    rows = len(stack.layers)
    clients = _clients(study, nodes)
    for column, (client, workloads) in enumerate(clients.items(), len(nodes)):
        link = next((name for name, link in study.links.items() if set(link.between) == {client, stack.on}), "")
        boxes.append(Box("Client", ", ".join(workloads), rows - 1, column, 1, _link(analysis, label, side, link)))
    return Layout(label, (*nodes, *clients), tuple(boxes), rows, side.name, _varied(analysis, side))


def _clients(study: Study, nodes: tuple[str, ...]) -> dict[str, list[str]]:
    """The nodes besides the stack's own from which workloads run, and those workloads."""
    found: dict[str, list[str]] = {}
    for name, workload in study.workloads.items():
        if workload.client and workload.client not in nodes:
            found.setdefault(workload.client, []).append(name)
    return found


def _varied(analysis: Analysis, side: Side) -> tuple[str, ...]:
    """``rtt: 0.5ms, 1ms, 2ms`` for each factor that changes the stack."""
    mine = [other.levels for other in analysis.stacks.values() if other.name == side.name]
    known = levels_of(analysis.study)
    return tuple(
        f"{name}: {', '.join(level for level in known[name] if any(levels.get(name) == level for levels in mine))}"
        for name in side.levels
    )


def _detail(details: Mapping[str, Any]) -> str:
    """What the study sets of a layer, in a few words."""
    said = []
    for label, value in details.items():
        if isinstance(value, msgspec.Struct):
            # What a profile's name stands for.
            inner = msgspec.structs.asdict(value).items()
            said += [f"{key.replace('_', ' ')} {_word(item)}" for key, item in inner if item is not None]
        elif isinstance(value, dict):
            said += [f"{key} {_word(item)}" for key, item in value.items()]
        elif isinstance(value, tuple):
            said.append(" ".join(str(item) for item in value))
        else:
            said.append(f"{label} {_word(value)}".lstrip())
    return ", ".join(said)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Duration):
        return exact(value, "s")
    if isinstance(value, Size):
        return exact(value, "B")
    if isinstance(value, int):
        return f"{value:,}"
    try:
        text = enc_hook(value)
    except NotImplementedError:
        return str(value)
    return exact(float(value), "B/s") if str(text).endswith("B/s") else str(text)


def _link(analysis: Analysis, label: str, side: Side, name: str) -> str:
    """``0.5 ms round trip over zone``, and what a ping measured."""
    link = side.study.links.get(name)
    if link is None:
        return ""
    text = f"{name}: {exact(link.rtt, 's')} round trip"
    pings = [analysis.ping(label, workload, name) for workload in analysis.workloads]
    found = [1e3 * ping for ping in pings if ping is not None]
    if found:
        low, high = f"{min(found):.2f}", f"{max(found):.2f}"
        text += f" (ping: {low if low == high else f'{low} to {high}'} ms)"
    if link.rate is not None:
        text += f", {link.rate / 1e6:g} Mbit/s"
    if link.lanes > 1:
        text += f", {link.lanes} lanes ({link.bond})"
    return text
