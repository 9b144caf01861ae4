"""The ground that a stack is built on: nodes, links and raw volumes, and their names once a site gives them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from blocklab.model.units import Bandwidth, BitRate, Duration, Size


class Profile(msgspec.Struct, frozen=True):
    """How a raw volume behaves. Without any limit or latency it is as fast as the site can make it.

    ``iops`` counts reads and writes together. ``burst_iops`` may be used instead of ``iops`` for
    ``burst_seconds`` (a leaky bucket, as of AWS gp2) until the bucket is empty.
    """

    size: Size
    read_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    write_latency: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    iops: int = 0
    burst_iops: int = 0
    burst_seconds: int = 0
    bandwidth: Bandwidth = msgspec.field(default_factory=lambda: Bandwidth("0B/s"))

    @property
    def plain(self) -> bool:
        """Whether the volume is just space: no latency, no limit."""
        return not (self.read_latency or self.write_latency or self.iops or self.bandwidth)


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node. ``memory`` is what its kernel may use, database cache and writable root included."""

    memory: Size = msgspec.field(default_factory=lambda: Size("512MiB"))


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link between two nodes: one network interface at each end.

    ``rtt`` is the round trip that a ping shows, ``jitter`` its standard spread, ``rate`` holds in each
    direction, ``mtu`` is in bytes. By netem: https://man7.org/linux/man-pages/man8/tc-netem.8.html
    """

    between: tuple[str, str]
    rtt: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    jitter: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    rate: BitRate | None = None
    mtu: int = 1500


class VolumeSpec(msgspec.Struct, frozen=True):
    """One raw volume that the site must give: of which stack, on which node."""

    stack: str
    node: str
    profile: Profile


class Topology(msgspec.Struct, frozen=True):
    """What a site is asked for."""

    nodes: Mapping[str, NodeSpec]
    links: Mapping[str, LinkSpec]
    volumes: tuple[VolumeSpec, ...]


class End(msgspec.Struct, frozen=True):
    """One end of a link: its interface and its IPv4 address on that node."""

    nic: str
    address: str


class Ground(msgspec.Struct, frozen=True):
    """The names that a site gives to what was asked for; known before any node starts.

    ``ends[link][node]`` is that end; ``devices[stack][node]`` is the volume's block device.
    """

    ends: Mapping[str, Mapping[str, End]]
    devices: Mapping[str, Mapping[str, str]]
