"""What most layers have in common: they stand on one port of one host and need no volume of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from blocklab.model.drill import Twins
from blocklab.model.ground import Profile
from blocklab.model.plan import Argv, Fact, Plan, Port, Step, again
from blocklab.model.protocols import Map, Place

# A database's crash recovery reads its log and goes through a slow volume or mirror.
START_SECONDS = 180.0


def seats_of(settings: Mapping[str, Any], usual: int) -> int | None:
    """A server's ``max_connections``, or its usual number; None for a value that only the server can read."""
    value = str(settings.get("max_connections", usual))
    return int(value) if value.isdigit() else None


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layer"):
    """A layer on one port of one host. Each layer overrides what is different for it.

    ``needs``: what the image of the nodes that it stands on must have beyond its usual programs.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Nothing beyond what the types say."""
        return []

    def spans(self, host: str) -> tuple[str, ...]:
        """Just the host itself."""
        return (host,)

    def links(self) -> tuple[str, ...]:
        """The links that it sends data over: none."""
        return ()

    @property
    def seats(self) -> int | None:
        """None: it is no database, or does not tell how many connections it takes."""
        return None

    def profiles(self) -> tuple[Profile, ...]:
        """None: it stands on another layer."""
        return ()

    def width(self, below: int) -> int:
        """One port above one below."""
        if below != 1:
            raise ValueError(f"takes one device, but there are {below} below it; join them with a stripe first")
        return 1

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Each layer has its own."""
        raise NotImplementedError

    @property
    def survivor(self) -> str:
        """None: it is on one node."""
        return ""

    def moved(self, peer: str) -> Self:
        """The same: it has no peer."""
        return self

    def takeover(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Build it over its data."""
        return again(self.plan(place, below).steps)

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Build it over its data."""
        return again(self.plan(place, below).steps)

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """The same as ever."""
        return tuple(fact for fact in self.plan(place, below).facts if fact.host == place.host)

    def rejoin(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Nothing: it is on one node."""
        return ()

    def parted(self, place: Place) -> tuple[str, Argv] | None:
        """It cannot be: there is one side only."""
        return None

    def twins(self, place: Place, below: tuple[Port, ...]) -> Twins | None:
        """There is one side only."""
        return None
