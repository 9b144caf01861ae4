"""The raw volume at the bottom of every stack."""

from __future__ import annotations

from typing import ClassVar

from blocklab.layers.base import Base
from blocklab.layers.figures import LATENCIES, NAMES, Figures, bad_limits, given
from blocklab.model.ground import Profile
from blocklab.model.plan import Fact, Kind, Plan, Port, Wait
from blocklab.model.protocols import Map, Place
from blocklab.model.units import Bandwidth, Duration, Size

# mkfs.ext4 and DRBD's own notes still fit; xfs wants 300 MB and says so itself.
LEAST_SIZE = Size("16MiB")
MOST_VOLUMES = 8


class Volume(Base, frozen=True, tag="volume"):
    """A raw volume, or ``count`` (1 to 8) alike, with the manners of a cloud disk. Without latency and limits it
    is memory.

    ``size`` is what the lab provides. ``read_latency`` and ``write_latency``: what one request takes at queue
    depth 1; the way to the volume takes about 0.23 ms itself, so that shorter ones end there. ``iops``: I/Os per
    second, reads and writes together. ``bandwidth``: bytes per second, both directions together. ``read_iops``,
    ``write_iops``, ``read_bandwidth`` and ``write_bandwidth`` limit one direction alone. Each of several volumes
    has all of it for itself. The limits are those of QEMU's throttle group below the node's kernel, so they hold
    for a mirror's writes too.

    ``burst_iops`` and ``burst_seconds`` make a bucket of ``burst_iops`` * ``burst_seconds`` I/Os, full at first
    and refilled at ``iops`` per second; while it lasts, ``burst_iops`` is the limit. A full burst from a full
    bucket so lasts ``burst_iops`` * ``burst_seconds`` / (``burst_iops`` - ``iops``) seconds: AWS gp2's 5.4 million
    I/O credits are 3000 I/Os per second for 1800 s.

    ``profile``: a volume's kind by its name, e.g. gp2, gp3, io2, azure-p10 or one of the study's own ``profiles``;
    it gives the figures that are not given here (a 0 here is given: no limit). ``provisioned``: the size that
    size-dependent figures come from, when the lab provides less of it (default: ``size``). ``figures`` is what
    the profile said, filled in by blocklab for the record; it cannot be given.
    """

    size: Size
    count: int = 1
    profile: str = ""
    provisioned: Size | None = None
    read_latency: Duration | None = None
    write_latency: Duration | None = None
    iops: int | None = None
    burst_iops: int | None = None
    burst_seconds: int | None = None
    bandwidth: Bandwidth | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    read_bandwidth: Bandwidth | None = None
    write_bandwidth: Bandwidth | None = None
    figures: Figures | None = None

    takes: ClassVar[Kind | None] = None
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Sizes that no file system fits in, latencies of over 10 s, limits of nothing, a burst below the cap."""
        found = []
        if self.size < LEAST_SIZE:
            found.append(("size", f"{self.size} is too small for a file system; give at least 16MiB"))
        if self.size % 4096:
            found.append(("size", f"{self.size} is not a whole number of 4096-byte blocks"))
        if not 1 <= self.count <= MOST_VOLUMES:
            found.append(("count", f"must be from 1 to {MOST_VOLUMES}"))
        if self.provisioned is not None and not self.profile:
            found.append(("provisioned", "only a profile's figures come from it; give profile too"))
        for name in LATENCIES:
            if (given(self, name) or 0) > 10:
                found.append((name, "over 10 s; a volume that slow counts as hung"))
        found += bad_limits(self, tuple(name for name in NAMES if name not in LATENCIES), least=0)
        for name in ("iops", "bandwidth"):
            if given(self, name) and (given(self, f"read_{name}") or given(self, f"write_{name}")):
                found.append(
                    (f"read_{name}", f"{name} caps both directions together; give either it or one cap each")
                )
        return found + self._bad_burst()

    def _bad_burst(self) -> list[tuple[str, str]]:
        found = []
        iops, burst, seconds = (given(self, name) or 0 for name in ("iops", "burst_iops", "burst_seconds"))
        if burst and not iops:
            found.append(("burst_iops", "a burst needs the cap that it bursts over; give iops too"))
        if burst and burst <= iops:
            found.append(("burst_iops", f"must be more than iops ({iops})"))
        if seconds < 0 or bool(burst) != bool(seconds):
            found.append(("burst_seconds", "burst_iops and burst_seconds go together, both 1 or more"))
        return found

    def width(self, below: int) -> int:
        """As many ports as volumes."""
        return self.count

    def profiles(self) -> tuple[Profile, ...]:
        """The volumes that the site must give."""
        values = {name: given(self, name) for name in NAMES}
        told = {name: value for name, value in values.items() if value is not None}
        return (Profile(size=self.size, **told),) * self.count

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
