"""The raw volume at the bottom of every stack."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from blocklab.layers.base import Base
from blocklab.model.ground import Profile
from blocklab.model.plan import Fact, Kind, Plan, Port, Wait
from blocklab.model.protocols import Map, Place
from blocklab.model.units import Bandwidth, Duration, Size

# mkfs.ext4 and DRBD's own notes still fit; xfs wants 300 MB and says so itself.
LEAST_SIZE = Size("16MiB")
MOST_VOLUMES = 8


class Volume(Base, frozen=True, tag="volume"):
    """A raw volume, or ``count`` alike, with the manners of a cloud disk. Without latency and limits it is memory.

    ``read_latency`` and ``write_latency``: what one request takes at queue depth 1. ``iops``: I/Os per
    second, reads and writes together; ``burst_iops`` for ``burst_seconds`` until the bucket is empty;
    ``bandwidth``: bytes per second, both directions together. ``read_iops``, ``write_iops``, ``read_bandwidth``
    and ``write_bandwidth`` limit one direction alone. Each of several volumes has all of it for itself.
    """

    size: Size
    count: int = 1
    read_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    write_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    iops: int = 0
    burst_iops: int = 0
    burst_seconds: int = 0
    bandwidth: Bandwidth = msgspec.field(default_factory=lambda: Bandwidth("0B/s"))

    read_iops: int = 0
    write_iops: int = 0
    read_bandwidth: Bandwidth = msgspec.field(default_factory=lambda: Bandwidth("0B/s"))
    write_bandwidth: Bandwidth = msgspec.field(default_factory=lambda: Bandwidth("0B/s"))

    takes: ClassVar[Kind | None] = None
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Sizes that no file system fits in, latencies of over 10 s, a burst below the cap."""
        found = []
        if self.size < LEAST_SIZE:
            found.append(("size", f"{self.size} is too small for a file system; give at least 16MiB"))
        if self.size % 4096:
            found.append(("size", f"{self.size} is not a whole number of 4096-byte blocks"))
        for name in ("read_latency", "write_latency"):
            if getattr(self, name) > 10:
                found.append((name, "over 10 s; a volume that slow counts as hung"))
        for name in ("iops", "read_iops", "write_iops"):
            if getattr(self, name) < 0:
                found.append((name, "must be 1 or more; leave it out for no cap"))
        for name in ("iops", "bandwidth"):
            if getattr(self, name) and (getattr(self, f"read_{name}") or getattr(self, f"write_{name}")):
                found.append(
                    (f"read_{name}", f"{name} caps both directions together; give either it or one cap each")
                )
        if not 1 <= self.count <= MOST_VOLUMES:
            found.append(("count", f"must be from 1 to {MOST_VOLUMES}"))
        if self.burst_iops and not self.iops:
            found.append(("burst_iops", "a burst needs the cap that it bursts over; give iops too"))
        if self.burst_iops and self.burst_iops <= self.iops:
            found.append(("burst_iops", f"must be more than iops ({self.iops})"))
        if bool(self.burst_iops) != bool(self.burst_seconds):
            found.append(("burst_seconds", "burst_iops and burst_seconds go together"))
        return found

    def width(self, below: int) -> int:
        """As many ports as volumes."""
        return self.count

    def profiles(self) -> tuple[Profile, ...]:
        """The volumes that the site must give."""
        names = Profile.__struct_fields__
        return (Profile(**{name: getattr(self, name) for name in names}),) * self.count

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Wait for the devices that the site attached and check that they are some, and as big as asked."""
        host, devices = place.host, place.ground.devices[place.stack][place.host]
        return Plan(
            # A missing device would let a tool write to a plain file of that name: insist on a block device.
            steps=tuple(Wait(host, ("test", "-b", device), seconds=5.0) for device in devices),
            facts=tuple(self._fact(host, device) for device in devices),
            ports=tuple(Port(host, "block", device) for device in devices),
        )

    def _fact(self, host: str, device: str) -> Fact:
        # One volume's size has no need of a name beside it.
        name = "size" if self.count == 1 else f"size of {device}"
        wanted = {name: str(self.size)}
        return Fact(
            host, "volume", ("blockdev", "--getsize64", device), lambda text: {name: f"{text.strip()}B"}, wanted
        )
