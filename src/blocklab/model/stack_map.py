"""Where a stack stood while it was measured: its devices on each host, its wires, and the hosts' clocks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from blocklab.model.plan import Port


def device_of(port: Port) -> str:
    """The kernel's name of a block device. Every layer sees to it that the last part of its path is that name."""
    return port.where.rpartition("/")[2]


class Level(msgspec.Struct, frozen=True):
    """What one layer gives on one host. ``number`` counts a stack's layers from 0, the lowest; ``devices`` are the
    kernel's names of its block devices, as probes and counters have them."""

    number: int
    layer: str
    host: str
    devices: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()


class RoundTrip(msgspec.Struct, frozen=True):
    """What pings over a link took, in seconds."""

    least: float
    mean: float
    most: float
    deviation: float


class Clock(msgspec.Struct, frozen=True):
    """A host's clock less blocklab's own, in seconds; ``error`` is the most that it can be wrong by: half of the
    round trip of the command that asked."""

    offset: float
    error: float


class StackMap(msgspec.Struct, frozen=True):
    """``active`` is the host that the stack is used on. ``wires``: the interface of the replication link on each
    of its ends, empty without one. ``pings`` by link. ``clocks`` by host: before the workload, and after it."""

    active: str = ""
    levels: tuple[Level, ...] = ()
    wires: Mapping[str, str] = {}
    pings: Mapping[str, RoundTrip] = {}
    clocks: Mapping[str, tuple[Clock, ...]] = {}

    def devices(self, host: str) -> tuple[tuple[str, ...], ...]:
        """The block devices of a host by level, bottom to top. A layer that gives its device on as it is (a cap)
        adds no level, neither does one that gives no device."""
        return tuple(dict.fromkeys(each.devices for each in self.levels if each.host == host and each.devices))

    @property
    def folders(self) -> tuple[Port, ...]:
        """The file systems."""
        return tuple(port for each in self.levels for port in each.ports if port.kind == "dir")

    def shift(self, host: str, to: str) -> float:
        """What to add to a time by one host's clock to have it by another's (s); 0 where the clocks are not known
        to differ."""
        here, there = (self.clocks.get(name, ()) for name in (host, to))
        if not here or not there:
            return 0.0
        mine, other = (min(known, key=lambda each: each.error) for known in (here, there))
        apart = other.offset - mine.offset
        return apart if abs(apart) > mine.error + other.error else 0.0
