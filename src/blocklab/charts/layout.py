"""The layout of each stack as boxes on nodes, for the diagram."""

from __future__ import annotations

from typing import Any

import msgspec

from blocklab.model.units import Duration, Size, enc_hook
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import exact
from blocklab.study.grid import hosts_at, hosts_of, layer_tag
from blocklab.study.types import Stack

_NAMES = {"volume": "Volume", "drbd": "DRBD mirror", "xfs": "xfs", "ext4": "ext4", "postgres": "PostgreSQL"}


class Box(msgspec.Struct, frozen=True):
    """A layer from the column ``first`` over ``width`` columns (nodes), ``row`` counted from the bottom."""

    title: str
    detail: str
    row: int
    first: int
    width: int
    link: str = ""


class Layout(msgspec.Struct, frozen=True):
    """One stack: its nodes (the active one first), its boxes, how many rows."""

    stack: str
    nodes: tuple[str, ...]
    boxes: tuple[Box, ...]
    rows: int


def layouts(analysis: Analysis) -> tuple[Layout, ...]:
    """Every stack of the study, whether it was measured or not."""
    return tuple(_layout(analysis, name, stack) for name, stack in analysis.study.stacks.items())


def _layout(analysis: Analysis, name: str, stack: Stack) -> Layout:
    nodes = hosts_of(stack)
    boxes = []
    for row, layer in enumerate(stack.layers):
        title = _NAMES.get(layer_tag(layer), layer_tag(layer))
        reach = layer.spans(stack.on)
        if len(reach) > 1:
            columns = [nodes.index(host) for host in reach]
            link = _link(analysis, name, getattr(layer, "link", ""))
            boxes.append(Box(title, _detail(layer), row, min(columns), max(columns) - min(columns) + 1, link))
            continue
        boxes += [Box(title, _detail(layer), row, nodes.index(host), 1) for host in hosts_at(stack, row)]
    return Layout(name, nodes, tuple(boxes), len(stack.layers))


def _detail(layer: Any) -> str:
    """What the study sets of a layer, in a few words."""
    said = []
    for field, value in msgspec.structs.asdict(layer).items():
        default = layer.__struct_defaults__[_default_at(layer, field)] if _default_at(layer, field) >= 0 else None
        if field in ("peer", "link") or not value or (value == default and field != "protocol"):
            continue
        if isinstance(value, dict):
            said += [f"{key} {_word(item)}" for key, item in value.items()]
        elif isinstance(value, tuple):
            said.append(" ".join(str(item) for item in value))
        elif field == "size":
            said.append(exact(value, "B"))
        else:
            said.append(f"{field.replace('_', ' ')} {_word(value)}")
    return ", ".join(said)


def _default_at(layer: Any, field: str) -> int:
    fields = layer.__struct_fields__
    return int(fields.index(field) - (len(fields) - len(layer.__struct_defaults__)))


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


def _link(analysis: Analysis, stack: str, name: str) -> str:
    """``0.5 ms round trip over zone``, and what a ping measured."""
    link = analysis.study.links.get(name)
    if link is None:
        return ""
    text = f"{name}: {exact(link.rtt, 's')} round trip"
    pings = [analysis.ping(stack, workload, name) for workload in analysis.study.workloads]
    found = [1e3 * ping for ping in pings if ping is not None]
    if found:
        low, high = f"{min(found):.2f}", f"{max(found):.2f}"
        text += f" (ping: {low if low == high else f'{low} to {high}'} ms)"
    if link.rate is not None:
        text += f", {link.rate / 1e6:g} Mbit/s"
    return text
