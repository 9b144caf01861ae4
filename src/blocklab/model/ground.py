"""The ground that a stack is built on: nodes, links and raw volumes, and their names once a site gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from blocklab.model.units import Bandwidth, BitRate, Duration, Share, Size


class Slow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Slow spells of a volume that come at random: it is in one of two states, normal and slow, and stays in each
    for an exponentially distributed time.

    Example::

        profiles:
          uneven: {iops: 3000, write_latency: 600us, slow: {times: 8, for: 2s, every: 60s}}
    """

    times: float
    """What latencies are multiplied with in the slow state; more than 1."""
    lasts: Duration = msgspec.field(name="for")
    """How long a spell lasts on average, at least 1 ms."""
    every: Duration
    """How long both states together last on average."""


class Degrade(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Times at which a volume has less than its limits, by a schedule that begins with each cell.

    Example::

        profiles:
          tired: {iops: 3000, bandwidth: 125MiB/s, degrade: {to: 10%, for: 5min, every: 2h}}
    """

    to: Share
    """The part of ``iops``, ``bandwidth`` and the other limits that is left, e.g. ``10%``; at least 0.1%."""
    lasts: Duration = msgspec.field(name="for")
    """How long, at the end of each ``every``."""
    every: Duration
    """The period."""


class Performance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a raw volume behaves; None where nothing is said, and 0 is no limit."""

    read_latency: Duration | None = None
    """What a read request takes at queue depth 1, at most 10 s, beside the way to the volume."""
    write_latency: Duration | None = None
    """What a write request takes at queue depth 1, at most 10 s."""
    iops: int | None = None
    """I/Os per second, reads and writes together. 0: no cap."""
    burst_iops: int | None = None
    """More than ``iops``; together with ``burst_seconds``."""
    burst_seconds: int | None = None
    """How long the burst can last from a full bucket that nothing refills."""
    bandwidth: Bandwidth | None = None
    """Bytes per second, reads and writes together, at least 4096B/s. ``0B/s``: no cap."""
    read_iops: int | None = None
    """I/Os per second of reads alone, in place of ``iops``."""
    write_iops: int | None = None
    """I/Os per second of writes alone, in place of ``iops``."""
    read_bandwidth: Bandwidth | None = None
    """Bytes per second of reads alone, in place of ``bandwidth``."""
    write_bandwidth: Bandwidth | None = None
    """Bytes per second of writes alone, in place of ``bandwidth``."""
    read_quantiles: dict[str, Duration] | None = None
    """What reads take at queue depth 1, by quantiles, e.g. ``{p50: 0.5ms, p99: 3ms, p99.9: 12ms}``, in place of
    ``read_latency``."""
    write_quantiles: dict[str, Duration] | None = None
    """What writes take at queue depth 1, by quantiles, in place of ``write_latency``."""
    read_latency_per_mib: Duration | None = None
    """Added to what a read takes, for each MiB of it."""
    write_latency_per_mib: Duration | None = None
    """Added to what a write takes, for each MiB of it."""
    io_most: Size | None = None
    """A request that is larger counts as several I/Os of at most this size against ``iops``: 256KiB on AWS EBS and
    on Azure. ``0B``: each request counts once."""
    slow: Slow | None = None
    """Slow spells that come at random: ``times``, ``for`` and ``every``; see ``profiles``."""
    degrade: Degrade | None = None
    """A schedule of times at which less than the caps is left: ``to``, ``for`` and ``every``."""
    seed: int | None = None
    """Another one gives other draws of the latencies and slow spells. 0 without it."""


class Profile(Performance, frozen=True, kw_only=True):
    """A raw volume that a site is to give. Without any limit or latency it is as fast as the site can make it."""

    size: Size

    @property
    def plain(self) -> bool:
        """Whether the volume is just space: no latency, no limit."""
        # These do nothing by themselves.
        idle = ("size", "seed", "io_most")
        return not any(getattr(self, name) for name in self.__struct_fields__ if name not in idle)


class CpuCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """CPU cost of system calls and page faults in virtual time (``run --clock virtual``); else they cost nothing.

    A program's own code takes nothing all the same: what it does between two system calls is not counted.
    ``blocklab calibrate --cpu`` measures what a machine's kernel takes. Or choose costs that give one known
    value, e.g. the rate of one client on a local disk. Run the study at half and at double too: what changes with
    them is a statement about the CPU.

    Example::

        nodes:
          a1: {memory: 1GiB, cpu: {syscall: 2us, fault: 1us}}

    In force on the kernel's command line.
    """

    syscall: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    """Of each system call, at most 1 ms."""
    fault: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    """Of each page fault, at most 1 ms."""
    source: str = ""
    """Which machine they are of, as the report is to name it."""


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node: one Linux kernel, as a process on this machine, with one CPU.

    Example::

        nodes:
          a1: {memory: 1GiB, sysctl: {net.ipv4.tcp_rmem: 4096 131072 6291456, vm.dirty_ratio: 10}}
          a2: {memory: 384MiB}

    Read back: each kernel parameter, by ``sysctl -n``.
    """

    memory: Size = msgspec.field(default_factory=lambda: Size("512MiB"))
    """What the node's kernel may use (``mem=`` on its command line), at least 128MiB. Database caches, and files
    outside of the volumes (at most three quarters of it), live there."""
    sysctl: dict[str, int | str] = {}
    """Kernel parameters by their own names, set by sysctl(8) once after the boot: those of memory (``vm.``), of
    the network (``net.core.``, ``net.ipv4.tcp_``, ...), limits of files, MD's speeds and the scheduler. Refused is
    what runs a program (``kernel.core_pattern``, ``kernel.modprobe``) or weakens what guards the host. Several
    numbers are one text with blanks between, as in the example. Kept as long as the node runs: it is booted again
    for a level of a factor that changes one. The path of such a factor has the name in brackets:
    ``nodes.a1.sysctl[net.ipv4.tcp_rmem]``."""
    # Unset, and so in no key, where nobody wants it.
    cpu: CpuCost | msgspec.UnsetType = msgspec.UNSET
    """In virtual time, what its CPU takes for its work; nothing without it. In real time this machine's CPU takes
    what it takes, whatever stands here."""

    @property
    def cpu_costs(self) -> dict[str, Duration]:
        """By the names of ``CpuCost``; empty where nothing has a cost."""
        return {"syscall": self.cpu.syscall, "fault": self.cpu.fault} if isinstance(self.cpu, CpuCost) else {}


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link between two nodes: one network interface at each end, or several bonded into one.

    Nothing else is on it. A cell gets the links that its layers name, and the first one to a node that a workload
    runs ``from``. Delay, jitter and rate are made by
    [netem](https://man7.org/linux/man-pages/man8/tc-netem.8.html), the delay by the first end of ``between``
    alone.

    Example::

        links:
          zone: {between: [a1, a2], rtt: 0.5ms}
          cross: {between: [a1, b1], rtt: 2.7ms, jitter: 0.2ms, rate: 100Mbit/s, mtu: 9000}
          two: {between: [a1, a2], rtt: 0.5ms, rate: 400Mbit/s, lanes: 2, bond: balance-rr}

    Read back at both ends: ``mtu``, by ``ip -j link show``; ``rtt``, ``jitter`` and ``rate``, by ``tc -j qdisc
    show``; ``lanes`` and ``bond``, in ``/proc/net/bonding/``. What pings take is measured before and after each
    workload and stored with the run.
    """

    between: tuple[str, str]
    """Two different nodes."""
    rtt: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    """The round trip that a ping of 4 KiB shows, at most 5 s. blocklab measures what the link takes by itself once
    the layout is built, and sets netem's ``delay`` so that the median is within 5 % or 50 us. A machine that takes
    longer by itself is the limit: the report says so. netem's queue is 100,000 packets long, so that it does not
    drop any."""
    jitter: Duration = msgspec.field(default_factory=lambda: Duration("0ms"))
    """The standard spread of the round trip, normally distributed; not more than ``rtt``. netem's ``delay ...
    distribution normal``, with a ``rate`` of 1 Tbit/s where the link has none: so the packets of a lane stay in
    order, as on a network where all of a connection takes one path."""
    rate: BitRate | None = None
    """Bits per second in each direction, of each lane, at least 1kbit/s: netem's ``rate`` at both ends. No limit
    without it."""
    mtu: int = 1500
    """Bytes, 576 to 65521. ``ip link set ... mtu``."""
    lanes: int = 1
    """Interfaces at each end, 1 to 8. Two or more are joined by the kernel's bonding driver; each has the whole
    ``rtt`` and ``rate`` for itself."""
    bond: Literal["balance-rr", "active-backup", "balance-xor"] = "balance-rr"
    """How two or more lanes share the packets (the bonding driver's ``mode``,
    https://docs.kernel.org/networking/bonding.html): ``balance-rr`` sends them over all lanes in turn, so that one
    TCP stream gets the rate of all, with packets out of order; ``balance-xor`` keeps each stream on one lane;
    ``active-backup`` uses one lane only."""


class VolumeSpec(msgspec.Struct, frozen=True):
    """One raw volume that the site must give.

    ``nodes`` are the nodes that it is attached to: one, or several for a shared disk. ``index`` numbers the
    volumes of a stack on a node, from 0. ``alike``: it has to be as empty as its twin on another node, to the last
    byte, since they will be copies of each other.
    """

    stack: str
    nodes: tuple[str, ...]
    profile: Profile
    index: int = 0
    alike: bool = False


class Topology(msgspec.Struct, frozen=True):
    """What a site is asked for.

    ``nodes``: the first one is what is measured; the others are to take nothing from it. ``addons``: what a node's
    image must have beyond its usual programs.
    """

    nodes: Mapping[str, NodeSpec]
    links: Mapping[str, LinkSpec]
    volumes: tuple[VolumeSpec, ...]
    addons: tuple[str, ...] = ()

    def memory(self, copies: int) -> tuple[int, int]:
        """Bytes that the nodes take, and that the volumes take where they are kept in memory, so often each."""
        nodes = sum(int(node.memory) for node in self.nodes.values())
        return nodes, copies * sum(int(volume.profile.size) for volume in self.volumes)


class End(msgspec.Struct, frozen=True):
    """One end of a link: its interface and its IPv4 address on that node.

    ``lanes`` are the interfaces below a bond; just the interface itself without one. ``given``: it was there
    before and stays as it is, address, MTU and all. ``shaped``: netem may be put on it.
    """

    nic: str
    address: str
    lanes: tuple[str, ...]
    given: bool = False
    shaped: bool = True


class Ground(msgspec.Struct, frozen=True):
    """The names that a site gives to what was asked for; known before any node starts.

    ``ends[link][node]`` is that end; ``devices[stack][node]`` are the volumes' block devices by their index.
    ``delays[link]`` is what netem adds (s) to a link whose round trip was tuned on this machine (``study.links``);
    one that is not in it gets the whole ``rtt``.

    On hosts with a life of their own: ``prefix`` stands before the names of what stacks make there, numbers of
    devices and ports count from ``first``, and ``hostnames`` says what a host calls itself. ``guarded``: they may
    have other users, so servers and mirrors ask for a secret (``model.access``). ``mapped``: the volumes are
    device-mapper's mappings of the hosts' disks.
    """

    ends: Mapping[str, Mapping[str, End]]
    devices: Mapping[str, Mapping[str, tuple[str, ...]]]
    delays: Mapping[str, float] = {}
    prefix: str = ""
    first: int = 0
    hostnames: Mapping[str, str] = {}
    guarded: bool = False
    mapped: bool = False

    def hostname(self, host: str) -> str:
        """What ``uname -n`` prints there."""
        return self.hostnames.get(host, host)
