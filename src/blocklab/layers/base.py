"""What layers have in common: most stand on one port of one host, some on two nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from blocklab.model.ground import Topology
from blocklab.model.layer import Garbled, Layer
from blocklab.model.plan import Kind
from blocklab.model.spans import Side

# A database's crash recovery reads its log and goes through a slow volume or mirror.
START_SECONDS = 180.0
# What a takeover of a block device is called.
PROMOTION = "promotion"
# Fields that a diagram shows by themselves, whatever their layer: the nodes and lines that it draws.
_DRAWN = ("peer", "link")


def max_connections_of(settings: Mapping[str, Any], usual: int) -> int | None:
    """A server's ``max_connections``, or its usual number; None for a value that only the server can read."""
    value = str(settings.get("max_connections", usual))
    return int(value) if value.isdigit() else None


class LayerBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layer"):
    """A layer on one port of one host (``model.layer.Layer`` without its plan)."""

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Nothing beyond what the types say."""
        return []

    def width(self, below: int) -> int:
        """One port above one below."""
        if below != 1:
            raise ValueError(f"takes one device, but there are {below} below it; join them with a stripe first")
        return 1

    @property
    def tag(self) -> str:
        """The layer's name in a study."""
        return str(self.__struct_config__.tag)

    @property
    def title(self) -> str:
        """The same with blanks."""
        return self.tag.replace("_", " ")

    def details(self) -> dict[str, Any]:
        """Every field that is not empty and not at its default."""
        found = {}
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            # An explicit no says something; other empty values do not.
            if field.name not in _DRAWN and (value or value is False) and value != default:
                found[field.name.replace("_", " ")] = value
        return found


class WithPeer(LayerBase, frozen=True):
    """A block device on two nodes that is active on one of them."""

    peer: str
    """The other node."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def sides(self, on: str) -> tuple[Side, ...]:
        return Side(on, "primary"), Side(self.peer, "replica")

    @property
    def survivors(self) -> tuple[str, ...]:
        return (self.peer,)

    def failed_over(self, old: str, new: str) -> Self:
        return msgspec.structs.replace(self, peer=old)


def copies_misplaced(below: Sequence[Layer]) -> list[tuple[str, str]]:
    """What keeps two copies from staying the same on these layers, the lowest first."""
    return [
        (
            "",
            f"layers[{index}] ({layer.tag}) passes discards on, so that the two sides would not stay the same; "
            "set its discards to false",
        )
        for index, layer in enumerate(below)
        if isinstance(layer, Garbled) and layer.garbage == "discarded"
    ]


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
