"""The raw volume at the bottom of every stack."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from blocklab.model.ground import Profile
from blocklab.model.plan import Fact, Kind, Plan, Port, Wait
from blocklab.model.protocols import Map, Place
from blocklab.model.units import Bandwidth, Duration, Size

# mkfs.ext4 and DRBD's own notes still fit; xfs wants 300 MB and says so itself.
LEAST_SIZE = Size("16MiB")


class Volume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layer", tag="volume"):
    """A raw volume with the manners of a cloud disk. Without latency and limits it is plain memory.

    ``read_latency`` and ``write_latency``: what one request takes at queue depth 1. ``iops``: I/Os per
    second, reads and writes together; ``burst_iops`` for ``burst_seconds`` until the bucket is empty;
    ``bandwidth``: bytes per second, both directions together.
    """

    size: Size
    read_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    write_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    iops: int = 0
    burst_iops: int = 0
    burst_seconds: int = 0
    bandwidth: Bandwidth = msgspec.field(default_factory=lambda: Bandwidth("0B/s"))

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
        if self.iops < 0:
            found.append(("iops", "must be 1 or more; leave it out for no cap"))
        if self.burst_iops and not self.iops:
            found.append(("burst_iops", "a burst needs the cap that it bursts over; give iops too"))
        if self.burst_iops and self.burst_iops <= self.iops:
            found.append(("burst_iops", f"must be more than iops ({self.iops})"))
        if bool(self.burst_iops) != bool(self.burst_seconds):
            found.append(("burst_seconds", "burst_iops and burst_seconds go together"))
        return found

    def spans(self, host: str) -> tuple[str, ...]:
        """Just the host itself."""
        return (host,)

    def profile(self) -> Profile | None:
        """The volume that the site must give."""
        return Profile(
            size=self.size,
            read_latency=self.read_latency,
            write_latency=self.write_latency,
            iops=self.iops,
            burst_iops=self.burst_iops,
            burst_seconds=self.burst_seconds,
            bandwidth=self.bandwidth,
        )

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Wait for the device that the site attached and check that it is one, and as big as asked."""
        device = place.ground.devices[place.stack][place.host]
        return Plan(
            # A missing device would let a tool write to a plain file of that name: insist on a block device.
            steps=(Wait(place.host, ("test", "-b", device), seconds=5.0),),
            facts=(
                Fact(
                    place.host,
                    "volume",
                    ("blockdev", "--getsize64", device),
                    lambda text: {"size": f"{text.strip()}B"},
                    {"size": str(self.size)},
                ),
            ),
            ports=(Port(place.host, "block", device),),
        )
