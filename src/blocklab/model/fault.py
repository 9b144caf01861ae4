"""What a fault must offer, and what only some can do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from blocklab.model.capability import Capability
from blocklab.model.ground import Ground, LinkSpec
from blocklab.model.plan import Port, Step


class Scene(msgspec.Struct, frozen=True):
    """Where a fault strikes: the stack's active node and its other ones in their order, its name and number, the
    ground, the links by name, and the ports of each of its hosts, the lowest first."""

    stack: str
    number: int
    active: str
    peers: tuple[str, ...]
    ground: Ground
    links: Mapping[str, LinkSpec]
    ports: Mapping[str, tuple[Port, ...]]

    @property
    def peer(self) -> str:
        """The first of the other ones, which a study calls ``peer``; empty without any."""
        return next(iter(self.peers), "")

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them, the active one first."""
        return (self.active, *self.peers)


class Fault(Protocol):
    """Something that breaks."""

    @property
    def at(self) -> str:
        """When it strikes, as the study says it."""

    @property
    def when(self) -> str:
        """What must be so before ``at`` counts; empty for the workload's start."""

    @property
    def lasts(self) -> float | None:
        """After so long (s) it is mended; None for the end of the drill."""

    def moments(self) -> tuple[float, float]:
        """The earliest and the latest time (s) at which it strikes. Raises ``ValueError``."""

    def moment(self, dice: random.Random) -> float:
        """A time (s) in that range."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """What it names that the stack lacks: (field, problem and hint) pairs."""

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that break it."""


@runtime_checkable
class NeedsOfSite(Capability, Protocol):
    """A fault that not every site can do."""

    needs: ClassVar[tuple[type, ...]]
    """What the site must offer for it (``model.site``)."""


@runtime_checkable
class Mended(Capability, Protocol):
    """A fault that does not stay: a crashed node does, which is booted again anyway."""

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that mend it."""


@runtime_checkable
class InData(Capability, Protocol):
    """A fault that lies in the data, and goes to the survivor with them."""

    def mend_data(self, scene: Scene, host: str) -> tuple[Step, ...]:
        """Steps that mend it on ``host``, where the stack's data are in use now."""


@runtime_checkable
class Outdates(Capability, Protocol):
    """A fault after which a mirror goes on without one of its copies."""

    def stale(self, scene: Scene) -> str:
        """The node whose copy that is."""
