"""Reads, writes and flushes at given rates, each when it is due: an open loop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from blocklab.model import places
from blocklab.model.node_programs import program
from blocklab.model.plan import Fact, Kind, Port, Put, Run, Step
from blocklab.model.sample import Parsed
from blocklab.model.units import Duration, Size
from blocklab.model.workload import Asked, Command
from blocklab.workloads import open_loop_output
from blocklab.workloads.base import WorkloadBase, no_target_yet, target, version

FOLDER = places.work("open-loop")
PLAN = f"{FOLDER}/plan.json"
MOST = "most"
"""The phase without a rate."""
MIB = 2**20
# Direct I/O needs whole sectors, and most devices have such.
PAGE = 4096
MOST_SIZE = Size("1MiB")
MOST_UNDER_WAY = 4096
# Each request of a phase is in memory: 17 bytes before, 8 after.
MOST_REQUESTS = 10_000_000
LEAST_BANDWIDTH = float(MIB)
# What is under way when a phase ends, and Python's own start.
_DRAIN = 12.0
_SPARE = 60.0


def _size(text: str) -> Size:
    return msgspec.field(default_factory=lambda: Size(text))


class OpenLoop(WorkloadBase, frozen=True, tag="open-loop"):
    """Block I/O at given rates: does this layout carry so much?

    Requests come when they are due, whatever became of those before, as those of many users do. Their latency
    counts from then, so a volume that stalls or is too slow shows in every request that had to wait.

    Example::

        need:
          workload: open-loop
          size: 4GiB
          reads: 1400
          writes: 600
          flushes: 80
          read_size: 16KiB
          write_size: 16KiB
          time: 30s

    Each of ``levels`` is a phase, ``need-100``, ``need-120`` and ``need-150``: all rates times that. The last
    phase is ``most``: the same mix as fast as it goes, ``depth`` requests at once, each after another.

    Places are random. The times of a phase's requests are random too and independent of each other (a Poisson
    process), but their number is exactly the rate times the ``time``. Requests are direct and asynchronous (the
    kernel's ``io_submit``), flushes are ``fdatasync``. Where more than ``in_flight`` requests would be under way,
    further ones wait in line, and that is part of their latency. Requests that are still in line when a phase ends
    are dropped; they count as unfinished, with a latency of at least the time that they waited.

    The report says of each layout whether it carried the rates, see [open-loop
    workloads](../../workloads.md#open-loop-workloads).

    Values of each phase: ``read.``, ``write.`` and ``sync.``, as far as there was any, with ``iops`` (1/s;
    completed before the phase's end), ``ios``, ``bandwidth`` (B/s) and ``bytes`` (not of flushes),
    ``latency.mean``, ``latency.stddev``, ``latency.max``, ``latency.p50``, ``latency.p95``, ``latency.p99``,
    ``latency.p99.9`` (s); ``unfinished`` (requests that were due and not completed), ``errors``, ``lag.mean`` and
    ``lag.max`` (s: by how much requests left late although the volume had little to do, which is the node's own).
    Time series: ``iops``, ``bandwidth`` and ``latency.mean`` of each direction.
    """

    size: Size
    """Of the file, or of the part of the device: whole MiB."""
    reads: float = 0.0
    """Requests per second, at a level of 100."""
    writes: float = 0.0
    """Requests per second, at a level of 100."""
    flushes: float = 0.0
    """Flushes per second, at a level of 100."""
    read_size: Size = _size("8KiB")
    """The mean of a read, 4KiB to 1MiB; requests are whole pages of 4KiB, of the two sizes around it."""
    write_size: Size = _size("8KiB")
    """The mean of a write, likewise."""
    levels: tuple[int, ...] = (100, 120, 150)
    """In percent of the rates, rising; each is a phase."""
    time: Duration = msgspec.field(default_factory=lambda: Duration("30s"))
    """Of each phase, in whole seconds."""
    depth: int = 32
    """Of the phase ``most``: so many requests at once. 0: without that phase."""
    in_flight: int = 128
    """So many requests at most are given to the device at once, 16 to 4096."""
    fill: bool = True
    """Write the file or part once before the measurement, so that no read meets a hole and no write allocates."""
    seed: int = 1
    """Of the random places and times."""

    takes: ClassVar[tuple[Kind, ...]] = ("dir", "block")
    metrics: ClassVar[tuple[str, ...]] = open_loop_output.METRICS
    refused: ClassVar[tuple[str, ...]] = ("from",)

    def problems(self) -> list[tuple[str, str]]:
        """Rates and levels that ask for nothing, sizes that direct I/O cannot do."""
        return [*self._rate_problems(), *self._size_problems(), *self._time_problems()]

    def _rate_problems(self) -> Iterator[tuple[str, str]]:
        for name in ("reads", "writes", "flushes"):
            if not 0 <= getattr(self, name) <= MOST_REQUESTS:
                yield name, f"must be from 0 to {MOST_REQUESTS:,} per second"
        if not self.reads and not self.writes:
            yield "reads", "give reads or writes or both, in requests per second"
        if not self.levels or list(self.levels) != sorted(set(self.levels)) or self.levels[0] < 1:
            yield "levels", "give at least one level in percent, rising, like [100, 120, 150]"
        elif self._total() * self.levels[-1] / 100 * self.time > MOST_REQUESTS:
            yield "time", f"a phase would have more than {MOST_REQUESTS:,} requests, which it keeps in memory"

    def _size_problems(self) -> Iterator[tuple[str, str]]:
        for name in ("read_size", "write_size"):
            size = getattr(self, name)
            if not PAGE <= size <= MOST_SIZE:
                yield name, "must be from 4KiB to 1MiB"
        if self.size <= 0 or self.size % MIB:
            yield "size", "must be a whole number of MiB, above 0; write it like 1GiB"

    def _time_problems(self) -> Iterator[tuple[str, str]]:
        if self.time < 1 or self.time % 1:
            yield "time", f"{self.time}: must be whole seconds, at least 1s"
        if not 0 <= self.depth <= self.in_flight:
            yield "depth", "must be from 0 to in_flight"
        if not 16 <= self.in_flight <= MOST_UNDER_WAY:
            yield "in_flight", f"must be from 16 to {MOST_UNDER_WAY}"
        if self.seed < 0:
            yield "seed", "must be at least 0"

    def _total(self) -> float:
        return self.reads + self.writes + self.flushes

    @property
    def room(self) -> int:
        """Of the file, or of the part of the device."""
        return int(self.size)

    @property
    def phases(self) -> tuple[str, ...] | None:
        return tuple(self.asked_rates())

    @property
    def phase_count(self) -> int:
        return len(self.asked_rates())

    def queue_depths(self) -> dict[str, int | None]:
        """As many as wait at once: a rate that is not reached has a long line."""
        return dict.fromkeys(self.asked_rates(), self.in_flight)

    def asked_rates(self) -> Mapping[str, Asked]:
        """Of each level its rates; of ``most`` none."""
        each = {"read.iops": self.reads, "write.iops": self.writes, "sync.iops": self.flushes}
        seconds = float(self.time)
        found = {
            f"need-{level}": Asked(
                {metric: rate * level / 100 for metric, rate in each.items() if rate}, seconds, True, level
            )
            for level in self.levels
        }
        return found | ({MOST: Asked(seconds=seconds)} if self.depth else {})

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """As fio would say it: direct I/O, all of which it counts."""
        return ({"ioengine": "libaio", "direct": "1"},)

    def lasts(self) -> float | None:
        return len(self.asked_rates()) * (float(self.time) + 0.5)

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """The target written once from end to end: what runs on it leaves it as long as it is."""
        where = target(port, "open_loop")
        steps = no_target_yet(port, "open_loop")
        if port.kind == "dir" and not self.fill:
            steps.append(Run(port.host, ("truncate", f"--size={int(self.size)}", where)))
        if self.fill:
            copy = (
                "dd", "if=/dev/urandom", f"of={where}", "bs=1M", f"count={int(self.size) // MIB}", "oflag=direct",
                "iflag=fullblock", "conv=fsync,notrunc", "status=none",
            )  # fmt: skip
            steps.append(Run(port.host, copy, timeout=self.size / LEAST_BANDWIDTH + _SPARE))
        return tuple(steps)

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """Nothing: ``lasting`` made the target."""
        return ()

    def arm(self, port: Port) -> tuple[Step, ...]:
        return (
            Run(port.host, ("rm", "-rf", FOLDER), undo=("rm", "-rf", FOLDER)),
            Put(port.host, PLAN, self.plan(target(port, "open_loop")), mode=0o600),
        )

    def plan(self, where: str) -> str:
        """What the program reads: see ``blocklab_node.open_loop.Job``."""
        phases = []
        for name, asked in self.asked_rates().items():
            of = asked.rates or {"read.iops": self.reads, "write.iops": self.writes, "sync.iops": self.flushes}
            rates = [of.get(f"{way}.iops", 0.0) for way in open_loop_output.WAYS]
            depth = 0 if asked.rates else self.depth
            phases.append({"name": name, "seconds": int(self.time), "rates": rates, "depth": depth})
        return json.dumps(
            {
                "path": where, "size": int(self.size), "read_size": int(self.read_size),
                "write_size": int(self.write_size), "slots": self.in_flight, "seed": self.seed, "phases": phases,
            },
            indent=1,
        )  # fmt: skip

    def command(self, port: Port) -> Command:
        seconds = len(self.asked_rates()) * (float(self.time) + _DRAIN) + _SPARE
        return Command(port.host, program("open_loop", PLAN), seconds)

    def facts(self, port: Port) -> tuple[Fact, ...]:
        # Python 3.13.5
        return (version(port.host, "python", ("python3", "--version"), lambda text: text.strip()[7:]),)

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """See the class for the values. Raises ``ParseError``."""
        sizes = {"read": int(self.read_size), "write": int(self.write_size), "sync": 0}
        return open_loop_output.parse(
            raw["stdout"], raw.get("stderr", b""), host, sizes, tuple(self.asked_rates())
        )
