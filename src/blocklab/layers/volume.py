"""The raw volume at the bottom of every stack."""

from __future__ import annotations

from typing import Any, ClassVar

from blocklab.layers.base import LayerBase
from blocklab.layers.performance import (
    BURST,
    CAPS,
    LATENCIES,
    MOST_LATENCY,
    QUANTILES,
    bad_behaviour,
    bad_limits,
    given,
)
from blocklab.model.ground import Performance, Profile, Topology
from blocklab.model.latency import requests
from blocklab.model.layer import Place
from blocklab.model.plan import Fact, Kind, Plan, Port, Wait
from blocklab.model.units import Size

# mkfs.ext4 and DRBD's own notes still fit.
LEAST_SIZE = Size("16MiB")
# More of a second is no limit.
MOST_LIMIT = 10**15
MOST_VOLUMES = 8
# What is read before and after each workload, to know what a read takes then.
READS, LEAST_READS = 40, 10


class Volume(Performance, LayerBase, frozen=True, kw_only=True, omit_defaults=False, tag="volume"):
    """A raw volume, or several alike, that behave like a cloud disk: a sparse file in memory.

    With ``--volumes`` the file is in the folder that it names.

    Example::

        - {layer: volume, size: 8GiB, write_latency: 450us, iops: 100, burst_iops: 3000, burst_seconds: 1800}

    Example, by a profile, for a stripe of two::

        - {layer: volume, size: 1GiB, count: 2, profile: gp2, provisioned: 200GiB}

    Example, with a distribution and slow spells instead of one latency::

        - {layer: volume, size: 1GiB, iops: 3000, read_latency: 500us, write_quantiles: {p50: 0.5ms, p99: 3ms},
           slow: {times: 8, for: 2s, every: 60s}}

    Without latency and caps the node opens the file directly. Otherwise a server of blocklab's own has the file
    and makes both, below everything in the node; so a cap also holds for what a mirror's peer writes. A request's
    latency begins when the caps let it start. Requests may overtake each other, and any number may be under way.
    The [way between node and server](../../how-it-works.md#volumes) takes some 0.1 ms; it is measured and taken
    off, so a shorter latency is not reached.

    Between two quantiles the logarithm of the latency is linear; below the first and above the last it is
    constant. Tuning shifts all quantiles by as much as the median. What a volume draws follows from ``seed``, the
    node and the volume's number, and begins again with each cell: two stacks on one node meet the same latencies,
    request by request.

    A burst is a bucket of ``burst_iops`` × ``burst_seconds`` I/Os, full when a cell begins and refilled at
    ``iops`` per second; while it lasts, ``burst_iops`` is the limit. A full burst from a full bucket so lasts
    ``burst_iops`` × ``burst_seconds`` / (``burst_iops`` - ``iops``) seconds: AWS gp2's 5.4 million I/O credits are
    3000 I/Os per second for 1800 s. What a workload prepares first, e.g. fio's files, comes out of the same
    bucket, and so does each of its phases and rounds.

    What is discarded (by fstrim, by the mount option ``discard``) reads as zeroes. Caps count a discard as one
    write of its size, whatever ``io_most`` says.

    Read back: the size of each block device. Latencies and caps are made outside of the node, so there is nothing
    in it to ask.
    """

    size: Size
    """What the lab provides: at least 16MiB (under xfs 300MiB), whole blocks of 4096 bytes."""
    count: int = 1
    """So many volumes, 1 to 8, each with all of the latencies and caps for itself. Join them with a ``stripe``,
    ``lvm-stripe`` or ``raid10``."""
    profile: str = ""
    """A kind of volume by its name, e.g. ``gp2``, ``gp3``, ``io2``, ``azure-p10`` or one of the study's own: it
    gives the values that are not given here (a 0 here is given: no cap). See ``profiles``."""
    provisioned: Size | None = None
    """The size that a profile's size-dependent values come from, when the lab provides less of it. Without it
    ``size``."""
    performance: Performance | None = None
    """What the profile said; blocklab fills it in for the record. It cannot be given."""

    takes: ClassVar[Kind | None] = None
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Sizes that no file system fits in, latencies of over 10 s, limits of nothing, a burst below the cap."""
        found = []
        if self.size < LEAST_SIZE:
            found.append(("size", f"{self.size} is too small for a file system; give at least 16MiB"))
        if self.size % 4096:
            odd = f"{self.size} is not a whole number of 4096-byte blocks"
            found.append(("size", f"{odd}; write {_binary(self.size)}"))
        if not 1 <= self.count <= MOST_VOLUMES:
            found.append(("count", f"must be from 1 to {MOST_VOLUMES}"))
        if self.provisioned is not None and not self.profile:
            found.append(("provisioned", "only a profile's values come from it; give profile too"))
        for name in LATENCIES:
            if (given(self, name) or 0) > MOST_LATENCY:
                found.append((name, "over 10 s; a volume that slow counts as hung"))
        found += bad_limits(self, (*CAPS, *BURST), least=0)
        for name in ("iops", "bandwidth"):
            if given(self, name) and (given(self, f"read_{name}") or given(self, f"write_{name}")):
                found.append(
                    (f"read_{name}", f"{name} caps both directions together; give either it or one cap each")
                )
        return found + self._beyond() + self._bad_burst() + self._bad_behaviour()

    def _beyond(self) -> list[tuple[str, str]]:
        return [
            (name, f"must be at most {MOST_LIMIT:,} a second; leave it out for no limit")
            for name in (*CAPS, "burst_iops")
            if (given(self, name) or 0) > MOST_LIMIT
        ]

    def _bad_behaviour(self) -> list[tuple[str, str]]:
        found = list(bad_behaviour(lambda name: given(self, name)))
        for latency, table in zip(LATENCIES, QUANTILES, strict=True):
            if getattr(self, latency) and getattr(self, table):
                found.append((table, f"replaces {latency}; give one of the two"))
        profile = self.profiles()[0]
        if profile.degrade is not None and not any(getattr(profile, name) for name in CAPS):
            found.append(("degrade", "lowers caps, and there is none; give iops or bandwidth too"))
        if profile.slow is not None and not any(getattr(profile, name) for name in (*LATENCIES, *QUANTILES)):
            found.append(
                ("slow", "multiplies a latency, and there is none; give read_latency or write_latency too")
            )
        return found

    def _bad_burst(self) -> list[tuple[str, str]]:
        found = []
        iops, burst, seconds = (given(self, name) or 0 for name in ("iops", "burst_iops", "burst_seconds"))
        if burst and not iops:
            found.append(("burst_iops", "a burst needs the cap that it bursts over; give iops too"))
        if burst and burst <= iops:
            found.append(("burst_iops", f"must be more than iops ({iops})"))
        if seconds < 0 or bool(burst) != bool(seconds):
            found.append(("burst_seconds", "burst_iops and burst_seconds go together, both 1 or more"))
        if burst * seconds > MOST_LIMIT:
            found.append(
                ("burst_seconds", f"a bucket of {burst * seconds:,} I/Os; at most {MOST_LIMIT:,} can be had")
            )
        return found

    def width(self, below: int) -> int:
        return self.count

    @property
    def title(self) -> str:
        return "Volume" if self.count == 1 else f"{self.count} volumes"

    def details(self) -> dict[str, Any]:
        """The size needs no name."""
        found = super().details()
        first = {name: found.pop(name) for name in ("profile", "provisioned") if name in found}
        return {"": found.pop("size")} | first | {name: value for name, value in found.items() if name != "count"}

    def profiles(self) -> tuple[Profile, ...]:
        values = {name: given(self, name) for name in Performance.__struct_fields__}
        for latency, table in zip(LATENCIES, QUANTILES, strict=True):
            # The layer's own latency replaces its profile's quantiles.
            if getattr(self, latency) is not None and getattr(self, table) is None:
                values[table] = None
        known = {name: value or None for name, value in values.items()}
        return (Profile(size=self.size, **known),) * self.count

    def _spare(self) -> int:
        """How many reads before and after a workload tell what the volume takes and use none of its cap up."""
        caps = [value for name in ("iops", "read_iops") if (value := given(self, name))]
        # A cap lets a tenth of a second's I/Os through at once.
        most = min(READS, *(value // 20 for value in caps)) if caps else READS
        return most if most >= LEAST_READS else 0

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Wait for the devices that the site attached and check that they are some, and as big as asked."""
        host, devices = place.host, place.devices
        return Plan(
            # A missing device would let a tool write to a plain file of that name: insist on a block device.
            steps=tuple(Wait(host, ("test", "-b", device), seconds=5.0) for device in devices),
            facts=(
                *(self._fact(host, device) for device in devices),
                *(requests(host, device, "read", most=count) for device in devices if (count := self._spare())),
            ),
            ports=tuple(Port(host, "block", device) for device in devices),
        )

    def _fact(self, host: str, device: str) -> Fact:
        # One volume's size has no need of a name beside it.
        name = "size" if self.count == 1 else f"size of {device}"
        wanted = {name: str(self.size)}
        return Fact(
            host, "volume", ("blockdev", "--getsize64", device), lambda text: {name: f"{text.strip()}B"}, wanted
        )


def _binary(size: int) -> str:
    """A size that was most likely meant: 1 GiB for 1 GB."""
    for unit, decimal in (("GiB", 10**9), ("MiB", 10**6)):
        if size >= decimal and size % decimal == 0:
            return f"{size // decimal}{unit}"
    return f"{max(1, -(-size // 2**20))}MiB"
