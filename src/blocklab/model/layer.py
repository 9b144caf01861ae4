"""What a layer must offer, and what only some layers can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import msgspec

from blocklab.model.capability import Capability
from blocklab.model.drill import Replicas
from blocklab.model.ground import Ground, Profile, Topology
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Step


class Place(msgspec.Struct, frozen=True):
    """Where a layer is planned: the name of its stack there (mount points, resources), the host it is active on, a
    number unique to the stack there (DRBD minors, TCP ports), and the ground.

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
class Linked(Capability, Protocol):
    """A layer that sends data over a link."""

    @property
    def link(self) -> str:
        """The link's name."""


@runtime_checkable
class Paired(Capability, Protocol):
    """A layer on two nodes that is active on one: a mirror, or a disk that both nodes have.

    The layers below are built on both nodes.
    """

    one_copy: ClassVar[bool]
    """Whether both nodes have the same volumes, rather than a copy each."""

    @property
    def peer(self) -> str:
        """The other node."""

    @property
    def survivor(self) -> str:
        """The node that can take over when the active one is gone; empty where none can."""

    def failed_over(self, peer: str) -> Self:
        """The same layer once ``survivor`` is active, with ``peer`` as the other node."""

    def takeover(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Of a failed-over layer: steps on ``place.host`` that make it active there, the other node being gone or
        cut off. The layers below it stand there."""

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Steps that make it active on ``place.host`` again, by itself, after its nodes were all rebooted. The
        layers below it stand there; ``rejoin`` takes the other node in."""

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """What holds on ``place.host`` between ``takeover`` and ``rejoin``. It asks no other node."""

    def rejoin(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Steps that take the other node in again, which has just booted, while this layer is active on
        ``place.host``; at their end both sides have the same data."""


@runtime_checkable
class Mirror(Paired, Linked, Protocol):
    """A layer that keeps a copy of the data on another node."""

    @property
    def connected(self) -> bool:
        """Whether it sends each write to its peer; not where it is measured with the peer cut off."""

    def split_brain(self, place: Place) -> tuple[str, Argv]:
        """(host, argv) that prints something where the two sides were written to apart from each other, so that
        neither has all."""

    def replicas(self, place: Place, below: tuple[Port, ...]) -> Replicas | None:
        """How its two sides are compared; None where the peer is cut off."""


@runtime_checkable
class DrbdResource(Capability, Protocol):
    """A mirror of whose connection DRBD tells: the monitor of a takeover listens to it beside its pings."""

    def resource(self, stack: str) -> str:
        """The resource's name."""


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
