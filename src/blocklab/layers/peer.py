"""What layers on two nodes ask alike: whether the other node and the link to it exist."""

from __future__ import annotations

from typing import ClassVar, Self

import msgspec

from blocklab.layers.base import Base
from blocklab.model.ground import Topology
from blocklab.model.plan import Kind


class OnTwoNodes(Base, frozen=True):
    """A block device on two nodes that is active on one of them."""

    peer: str
    """The other node."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    @property
    def survivor(self) -> str:
        return self.peer

    def failed_over(self, peer: str) -> Self:
        return msgspec.structs.replace(self, peer=peer)


def peer_problems(peer: str, host: str, lab: Topology) -> list[tuple[str, str]]:
    """A ``peer`` that is not another known node."""
    if peer == host:
        return [("peer", f"{peer!r} is the node that the stack is active on; name another node")]
    if peer not in lab.nodes:
        return [("peer", f"there is no node {peer!r}; there are {', '.join(lab.nodes)}")]
    return []


def link_problems(link: str, peer: str, host: str, lab: Topology) -> list[tuple[str, str]]:
    """A ``link`` that does not join ``host`` and ``peer``."""
    if link not in lab.links:
        return [("link", f"there is no link {link!r}; there are {', '.join(lab.links) or 'none'}")]
    if set(lab.links[link].between) != {host, peer}:
        return [("link", f"{link} joins {' and '.join(lab.links[link].between)}, not {host} and {peer}")]
    return []
