"""Room for nodes and volumes on this machine: what is refused before anything starts, and what is said when there
is none left."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.model.ground import Topology
from blocklab.sites.uml import memory
from blocklab.sites.uml.processes import scratch

# With no more than this (bytes) left in a place, what went wrong there most likely lacked room.
LEAST = 64 << 20
LARGER = "larger (mount -o remount,size=..., docker --shm-size)"


def check_room(topology: Topology, *, volumes: Path | None = None, copies: int = 1, labs: int = 1) -> str:
    """Refuse what this machine's memory, or the place of its nodes, cannot hold, before anything starts. What is
    to be said of what is let through; empty where that is nothing.

    ``copies`` of each volume are kept, in the folder ``volumes`` or in memory, where they count as if they were
    full; all of it for each of so many ``labs`` at once. Raises ``StudyError``.
    """
    available = memory.available()
    nodes, kept = (labs * each for each in topology.memory(copies))
    here = nodes if volumes else nodes + kept
    field, larger_nodes = _largest(topology, copies)
    copied = f" ({copies} of each, for copies of loaded data)" if copies > 1 else ""
    needs, smaller = f"the stack's nodes need {_gib(nodes)}", "make nodes smaller"
    if not volumes:
        needs += f" and its volumes {_gib(kept)}{copied}"
        smaller = "make nodes or volumes smaller, or put the volumes on a disk with --volumes DIR"
    if nodes > available:
        # No folder for the volumes helps.
        field, smaller = larger_nodes, "make nodes smaller"
    if here > available:
        raise StudyError(field, f"{needs} of memory, but only {_gib(available)} are available", hint=smaller)
    # The memory of a node is a file there, too, and fills up. Volumes hardly do, so their sizes refuse nothing.
    place = scratch()
    free = shutil.disk_usage(place).free
    if nodes > free:
        said = f"the stack's nodes need {_gib(nodes)} of room in {place}, but only {_gib(free)} are free there"
        raise StudyError(larger_nodes, said, hint=f"make {place} {LARGER}, or set BLOCKLAB_SCRATCH")
    if here > free:
        takes = f"the stack's nodes and full volumes would take {_gib(here)}{copied} in {place}"
        hope = (
            f"volumes take what is written to them, so it may do; if not, make it {LARGER}, or use --volumes DIR"
        )
        return f"{takes}, where {_gib(free)} are free: {hope}"
    return ""


def _largest(topology: Topology, copies: int) -> tuple[str, str]:
    """The field whose size takes the most memory, a volume's or a node's; and the largest node's."""
    node = max(topology.nodes, key=lambda name: int(topology.nodes[name].memory))
    nodes = f"nodes.{node}.memory"
    if not topology.volumes:
        return nodes, nodes
    volume = max(topology.volumes, key=lambda each: int(each.profile.size))
    more = copies * int(volume.profile.size) > int(topology.nodes[node].memory)
    return (f"stacks.{volume.stack}.layers[0].size" if more else nodes), nodes


def shortage(places: Iterable[Path]) -> str:
    """What is to be done about the first of these places that is full, or nearly; empty where there is room."""
    for place in places:
        with contextlib.suppress(OSError):
            if (free := shutil.disk_usage(place).free) <= LEAST:
                left = f"only {free >> 20} MiB are left in {place}"
                return f"{left}: make room there, make it {LARGER}, or keep volumes elsewhere with --volumes DIR"
    return ""


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
