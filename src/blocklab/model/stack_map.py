"""Where a stack stood while it was measured: its devices on each host, its wires, and the hosts' clocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from blocklab.model.plan import Port


def device_of(port: Port) -> str:
    """The kernel's name of a block device. Every layer sees to it that the last part of its path is that name."""
    return port.where.rpartition("/")[2]


def folders_of(ports: Iterable[Port]) -> tuple[Port, ...]:
    """The file systems among what a stack's layers give."""
    return tuple(port for port in ports if port.kind == "dir")


class Level(msgspec.Struct, frozen=True):
    """What one layer gives on one host. ``number`` counts a stack's layers from 0, the lowest; ``devices`` are the
    kernel's names of its block devices, as probes and counters have them."""

    number: int
    layer: str
    host: str
    devices: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()


class Took(msgspec.Struct, frozen=True):
    """What pings over a link, or single requests to a volume, took in seconds. ``low`` and ``high`` are the 95 %
    interval of the median, None where it is not known; ``lost`` is the share of them without an answer, 0 to 1."""

    least: float
    median: float
    mean: float
    most: float
    low: float | None = None
    high: float | None = None
    lost: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the median (s); where it is not known, the median alone."""
        return self.median if self.low is None else self.low, self.median if self.high is None else self.high

    @property
    def noise(self) -> float:
        """How far the median may be off at 95 % (s); 0 where that is not known."""
        low, high = self.interval
        return max(self.median - low, high - self.median)

    @classmethod
    def of(cls, times: Sequence[float], sent: int) -> Took:
        """Of at least one answer. The interval is by order statistics: the answers ranked n/2 -+ 0.98 sqrt(n)
        (the normal approximation of the binomial; Conover, Practical Nonparametric Statistics, 3.2)."""
        ranked = sorted(times)
        count = len(ranked)
        reach = 0.98 * math.sqrt(count)
        low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
        known = low >= 0 and high < count
        return cls(
            ranked[0], statistics.median(ranked), statistics.fmean(ranked), ranked[-1],
            ranked[low] if known else None, ranked[high] if known else None, 1 - count / max(sent, count),
        )  # fmt: skip


class Setting(msgspec.Struct, frozen=True):
    """What was added to a link's round trip or a volume's latency (s), and what it took with that."""

    added: float
    took: Took


class Tuned(msgspec.Struct, frozen=True):
    """How a link's round trip, or a volume's latency, was tuned on this machine. ``asked`` is the study's (s),
    ``added`` what netem or the volume's server adds (s), ``reached`` what it takes then. ``earlier``: the settings
    of this layout that a probe before a cell found off, oldest first; each was corrected then."""

    asked: float
    added: float
    reached: Took
    given: bool = False
    """Whether it is what it is, on hosts of one's own: ``asked`` is what the study expects of it."""
    earlier: tuple[Setting, ...] = ()

    @property
    def floor(self) -> float:
        """What the machine takes by itself (s)."""
        return max(0.0, self.reached.median - self.added)

    @property
    def true(self) -> bool:
        """Whether it is what was asked for, as far as its noise tells."""
        return abs(self.reached.median - self.asked) <= max(tolerance(self.asked), self.reached.noise)

    def off(self, took: Took) -> bool:
        """Whether ``took`` is not what was asked for, noise aside, and adding more or less could change that."""
        low, high, most = *took.interval, tolerance(self.asked)
        apart = low > self.asked + most or high < self.asked - most
        return apart and not self.given and (took.median < self.asked or self.added > 0)


def fields(times: Sequence[float], sent: int) -> dict[str, str]:
    """``Took.of`` as the answers of a fact; nothing without a time."""
    values = msgspec.to_builtins(Took.of(times, sent)) if times else {}
    return {name: repr(value) for name, value in values.items()}


def tolerance(asked: float) -> float:
    """How far (s) from what was asked for an emulated time may be, beside the noise of measuring it."""
    return 0.05 * asked


class Clock(msgspec.Struct, frozen=True):
    """A host's clock less blocklab's own, in seconds; ``error`` is the most that it can be wrong by: half of the
    round trip of the command that asked."""

    offset: float
    error: float


class StackMap(msgspec.Struct, frozen=True):
    """``active`` is the host that the stack is used on. ``wires``: the interfaces of the replication links on each
    of their ends, empty without one; older runs have the name of one. ``clocks`` by host: before the workload, and
    after it; so ``times``, by what took it (``link zone``, ``reads of vda on a1``). ``tuned``, by the same names:
    what was set by measuring.
    ``machine``: of the hosts' one machine, while the cell lasted: its CPU time that was ``busy``, ``steal`` and
    taken by programs that are not the lab's (``foreign``), and the time in which a program waited for a CPU
    (``pressure``), in per cent; empty where it is not known. ``mapped``: the lowest devices are mappings of disks
    (``Ground``)."""

    active: str = ""
    levels: tuple[Level, ...] = ()
    wires: Mapping[str, tuple[str, ...] | str] = {}
    times: Mapping[str, tuple[Took, ...]] = {}
    tuned: Mapping[str, Tuned] = {}
    machine: Mapping[str, float] = {}
    clocks: Mapping[str, tuple[Clock, ...]] = {}
    mapped: bool = False

    def nics(self) -> dict[str, tuple[str, ...]]:
        """``wires``, however they were stored."""
        return {host: (nics,) if isinstance(nics, str) else nics for host, nics in self.wires.items()}

    def devices(self, host: str) -> tuple[tuple[str, ...], ...]:
        """The block devices of a host by level, bottom to top. A layer that gives its device on as it is (a cap)
        adds no level, neither does one that gives no device."""
        return tuple(dict.fromkeys(each.devices for each in self.levels if each.host == host and each.devices))

    @property
    def folders(self) -> tuple[Port, ...]:
        """The file systems."""
        return folders_of(port for each in self.levels for port in each.ports)

    def shift(self, host: str, to: str) -> float:
        """What to add to a time by one host's clock to have it by another's (s); 0 where the clocks are not known
        to differ."""
        here, there = (self.clocks.get(name, ()) for name in (host, to))
        if not here or not there:
            return 0.0
        mine, other = (min(known, key=lambda each: each.error) for known in (here, there))
        apart = other.offset - mine.offset
        return apart if abs(apart) > mine.error + other.error else 0.0
