"""What a layer must offer, and what only some layers can do; of those on several nodes see ``model.spans``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from blocklab.model.capability import Capability
from blocklab.model.ground import Ground, Profile, Topology
from blocklab.model.plan import Kind, Plan, Port

Role: TypeAlias = Literal["primary", "replica"]
"""What a node is to the layer that stands on several: ``primary`` where it is active, as a layer is by itself; a
``replica`` gets its data from what is above it."""


class Place(msgspec.Struct, frozen=True):
    """Where a layer is planned: the name of its stack there (mount points, resources), the host it is active on, a
    number unique to the stack there (DRBD minors, TCP ports), and the ground.

    ``role``: what the node is to the layer above that stands on several. A server that is to be a replica makes no
    data of its own and is not started: that layer does both. ``joined``: on each link of that layer to another of
    its nodes, this node's address and the other one's: a server that is replicated listens there.

    ``devices``: the stack's raw volumes on that host. ``listen``: addresses at which workloads on other nodes want
    to reach a database, beside its own socket, and ``callers``: those nodes' own ones. ``loopback``: whether it is
    to be reached by TCP on its own host. ``alike``: whether fresh devices below are all zero, and so the same on
    every side; ``Garbled`` says what they are else.
    """

    stack: str
    host: str
    number: int
    ground: Ground
    listen: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    loopback: bool = True
    alike: bool = True
    role: Role = "primary"
    joined: tuple[tuple[str, str], ...] = ()


class Layer(Protocol):
    """One level of a stack. What only some layers can do is a protocol of its own, below."""

    takes: ClassVar[Kind | None]
    gives: ClassVar[Kind]

    @property
    def tag(self) -> str:
        """The layer's name in a study."""

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """What is wrong with this layer on ``host`` of the study's nodes and links: (field, problem and hint)
        pairs; empty when all is well."""

    def width(self, below: int) -> int:
        """How many ports it gives on a host where the layer below gives ``below`` of them.

        Raises ``ValueError`` with problem and hint when it cannot stand on so many.
        """

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Steps, facts and the ports above, given the ports below (those of ``place.host`` first)."""


@runtime_checkable
class RawVolumes(Capability, Protocol):
    """The lowest layer, where the site has to give it volumes."""

    def profiles(self) -> tuple[Profile, ...]:
        """The raw volumes that the site must give on each host."""


@runtime_checkable
class Staged(Capability, Protocol):
    """A layer that takes a while until it can be used on another node: a part of the outage by itself. What has no
    stage belongs to that of the layer below it."""

    stage: ClassVar[str]
    """The stage's name: ``mount``."""


@runtime_checkable
class Database(Capability, Protocol):
    """A layer that is a database server."""

    @property
    def max_connections(self) -> int | None:
        """How many connections it takes at once; None where only the server itself can tell."""

    def memory(self) -> Mapping[str, tuple[str, float]]:
        """The settings that give it memory: field -> (its value in the study, bytes; 0 where only the server can
        read it)."""


@runtime_checkable
class Sized(Capability, Protocol):
    """A block device or a file system that needs some of what is below it for itself."""

    def holds(self, below: Sequence[int]) -> list[int]:
        """Bytes of each port above, given those below. Raises ``ValueError`` with problem and hint where these are
        too few."""


@runtime_checkable
class Garbled(Capability, Protocol):
    """A block device that, where nothing was written, does not read as zero, even if what is below does. So two of
    them differ, and what keeps copies above them has to make these equal first (``Place.alike``)."""

    @property
    def garbage(self) -> Literal["fresh", "discarded"]:
        """Where it is: only where nothing was written yet, or also where data were discarded, so that sides that
        were the same do not stay it."""


@runtime_checkable
class Choosy(Capability, Protocol):
    """A layer that not every layer of the right kind may be below."""

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """What keeps it from standing on these layers, the lowest first: (field, problem and hint) pairs."""


@runtime_checkable
class Drawn(Capability, Protocol):
    """A layer that says what the diagram of its stack shows."""

    @property
    def title(self) -> str:
        """Its name for people."""

    def details(self) -> Mapping[str, Any]:
        """What the study sets of it: label -> value. The label of what needs none is empty."""


@runtime_checkable
class Equipped(Capability, Protocol):
    """A layer that needs more of its node's image than what every image has."""

    needs: ClassVar[tuple[str, ...]]
    """The add-ons, as in ``blocklab image build --with``."""
