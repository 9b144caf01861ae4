"""What surely does not fit: data into volumes, a file system onto them, a server's memory into its node. Pure.

Only what cannot be is refused: each figure is the least that is needed, and the most that there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blocklab.layers import AnyLayer, Drbd, Ext4, LvmStripe, MariaDb, MySql, Postgres, Raid10, Stripe, Xfs
from blocklab.model.ground import NodeSpec
from blocklab.study.grid import is_drill, layer_tag
from blocklab.study.takeover import survivor_of
from blocklab.study.types import Stack, Study
from blocklab.workloads import AnyWorkload

Problem = tuple[str, str]
MIB = 2**20
# An MD member's superblock and what stands before it: metadata 1.2.
_MD = 8192
# LVM gives whole extents of 4 MiB; its own notes take the first MiB.
_EXTENT = 4 * MIB
# Internal metadata of DRBD 8.4 in sectors: 8 for each 2^18 of the device (its bitmap), and 72.
_SECTOR, _BITMAP, _NOTES = 512, 2**18, 72
_MEMORY = ("shared_buffers", "innodb_buffer_pool_size")
# "512MB", "1.5 GB", 16384 (blocks of 8 KiB): a memory parameter of PostgreSQL
_PG = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|kB|MB|GB|TB|)\s*$")
_PG_UNITS = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40, "": 8192}
# "1280M", "4g", 134217728 (bytes): a size of MariaDB or MySQL
_MY = re.compile(r"^(?P<number>\d+)(?P<unit>[kKmMgGtT]?)$")
_MY_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def room_problems(study: Study, name: str, loads: Sequence[str]) -> Iterator[Problem]:
    """What a stack of the study, or one of these loads, asks for and surely has not: it would show when the layout
    stands, or is loaded."""
    stack = study.stacks[name]
    yield from _file_system(name, stack)
    # Without faults nothing takes over, and the server stays where it is.
    heir = survivor_of(stack) if any(is_drill(study, load) for load in loads) else ""
    yield from _memory(study.nodes, name, stack, (stack.on, heir) if heir else (stack.on,))
    for load in loads:
        yield from _overfull(f"workloads.{load}", study.workloads[load], name, stack)


def held(layers: Sequence[AnyLayer]) -> int:
    """Bytes that the block device on top of these layers has at most; 0 where they do not tell."""
    sizes = [int(profile.size) for profile in layers[0].profiles()] if layers else []
    for layer in layers[1:]:
        if layer.gives != "block" or not sizes:
            break
        if isinstance(layer, Stripe | Raid10):
            sizes = [sum(size - _MD for size in sizes) // (2 if isinstance(layer, Raid10) else 1)]
        elif isinstance(layer, LvmStripe):
            sizes = [sum((size - MIB) // _EXTENT * _EXTENT for size in sizes)]
        elif isinstance(layer, Drbd):
            sizes = [size - _SECTOR * (8 * -(-size // (_SECTOR * _BITMAP)) + _NOTES) for size in sizes]
    return max(0, sum(sizes))


def _file_system(name: str, stack: Stack) -> Iterator[Problem]:
    for index, layer in enumerate(stack.layers):
        if not isinstance(layer, Xfs | Ext4) or "--unsupported" in layer.mkfs:
            continue
        has = held(stack.layers[:index])
        if 0 < has < layer.least:
            cure = "make the volume larger, or take ext4"
            said = f"{layer_tag(layer)} needs {_mib(layer.least)}, but what it stands on has {_mib(has)}"
            yield f"stacks.{name}.layers[{index}]", f"{said}; {cure}"


def _memory(nodes: Mapping[str, NodeSpec], name: str, stack: Stack, hosts: Sequence[str]) -> Iterator[Problem]:
    for index, layer in enumerate(stack.layers):
        if not isinstance(layer, Postgres | MariaDb | MySql):
            continue
        for setting in _MEMORY:
            value = layer.settings.get(setting)
            wants = _bytes(value, postgres=isinstance(layer, Postgres))
            for host in hosts:
                if wants > nodes[host].memory:
                    yield (
                        f"stacks.{name}.layers[{index}].settings.{setting}",
                        f"{value} is more than the whole memory of node {host}, {_mib(nodes[host].memory)}; give "
                        "the server less or the node more",
                    )


def _bytes(value: object, *, postgres: bool) -> float:
    """Bytes that a server's setting asks for; 0 where it is not given, or only the server can read it."""
    match = (_PG if postgres else _MY).match(str(value))
    if match is None:
        return 0
    unit = _PG_UNITS[match["unit"]] if postgres else _MY_UNITS[match["unit"].lower()]
    return float(match["number"]) * unit


def _overfull(path: str, workload: AnyWorkload, name: str, stack: Stack) -> Iterator[Problem]:
    has = held(stack.layers)
    if 0 < has < workload.room:
        said = f"needs {_mib(workload.room)}, but the volumes of stack {name} have {_mib(has)} for it"
        yield path, f"{said}; make it smaller, or them larger"
    seats = min((layer.seats for layer in stack.layers if layer.seats is not None), default=None)
    if seats is not None and workload.sessions > seats:
        yield (
            path,
            f"has {workload.sessions} connections at once, but the database of stack {name} takes {seats}; raise "
            "its max_connections",
        )


def _mib(size: float) -> str:
    return f"{size / MIB:,.6g} MiB"
