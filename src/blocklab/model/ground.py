"""The ground that a stack is built on: nodes, links and raw volumes, and their names once a site gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from blocklab.model.units import Bandwidth, BitRate, Duration, Size


class Profile(msgspec.Struct, frozen=True):
    """How a raw volume behaves. Without any limit or latency it is as fast as the site can make it.

    ``iops`` and ``bandwidth`` count reads and writes together; ``read_iops``, ``write_iops``,
    ``read_bandwidth`` and ``write_bandwidth`` one direction alone. ``burst_iops`` may be used instead of ``iops``
    for ``burst_seconds`` (a leaky bucket, as of AWS gp2) until the bucket is empty.
    """

    size: Size
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

    @property
    def plain(self) -> bool:
        """Whether the volume is just space: no latency, no limit."""
        return not any(getattr(self, name) for name in self.__struct_fields__ if name != "size")


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node.

    ``memory`` is what its kernel may use, database cache and writable root included. ``sysctl``: kernel
    parameters by their own names, e.g. ``net.ipv4.tcp_rmem: 4096 131072 6291456``, as sysctl(8) sets them.
    """

    memory: Size = msgspec.field(default_factory=lambda: Size("512MiB"))
    sysctl: dict[str, int | str] = {}


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link between two nodes: one network interface at each end, or ``lanes`` of them bonded into one.

    ``rtt`` is the round trip that a ping shows, ``jitter`` its standard spread, ``rate`` holds in each
    direction of each lane, ``mtu`` is in bytes. By netem: https://man7.org/linux/man-pages/man8/tc-netem.8.html
    ``bond`` is how the kernel's bonding driver spreads packets over two lanes or more:
    https://docs.kernel.org/networking/bonding.html
    """

    between: tuple[str, str]
    rtt: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    jitter: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    rate: BitRate | None = None
    mtu: int = 1500
    lanes: int = 1
    bond: Literal["balance-rr", "active-backup", "balance-xor"] = "balance-rr"


class VolumeSpec(msgspec.Struct, frozen=True):
    """One raw volume that the site must give.

    ``nodes`` are the nodes that it is attached to: one, or several for a shared disk. ``index`` numbers the
    volumes of a stack on a node, from 0.
    """

    stack: str
    nodes: tuple[str, ...]
    profile: Profile
    index: int = 0


class Topology(msgspec.Struct, frozen=True):
    """What a site is asked for. ``addons``: what a node's image must have beyond its usual programs."""

    nodes: Mapping[str, NodeSpec]
    links: Mapping[str, LinkSpec]
    volumes: tuple[VolumeSpec, ...]
    addons: tuple[str, ...] = ()


class End(msgspec.Struct, frozen=True):
    """One end of a link: its interface and its IPv4 address on that node.

    ``lanes`` are the interfaces below a bond; just the interface itself without one.
    """

    nic: str
    address: str
    lanes: tuple[str, ...]


class Ground(msgspec.Struct, frozen=True):
    """The names that a site gives to what was asked for; known before any node starts.

    ``ends[link][node]`` is that end; ``devices[stack][node]`` are the volumes' block devices by their index.
    """

    ends: Mapping[str, Mapping[str, End]]
    devices: Mapping[str, Mapping[str, tuple[str, ...]]]
