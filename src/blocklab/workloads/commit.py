"""pg_test_fsync: what a commit costs by each way to make 8 kB durable.
https://www.postgresql.org/docs/17/pgtestfsync.html"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load import pg_test_fsync
from blocklab.formats.load.stamped import lines
from blocklab.model.metrics import each_of
from blocklab.model.plan import Fact, Kind, Port, Step
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.units import Duration
from blocklab.model.workload import Command
from blocklab.workloads.base import WorkloadBase, no_target_yet, stamped, target, version

LAYER = pg_test_fsync.TOOL
# Four methods twice, five sizes, two orders of write and close, and writes without a sync.
_TESTS = 16
_SPARE = 60.0


class Commit(WorkloadBase, frozen=True, tag="commit"):
    """How often 8 kB, a page of a log, can be made durable, by each way that PostgreSQL knows: its pg_test_fsync.

    One writer writes, one after the other, in a file of 16 MiB that exists. See
    [pg_test_fsync](https://www.postgresql.org/docs/17/pgtestfsync.html) of PostgreSQL 17; no server is needed.

    Example::

        commit: {workload: commit, time: 5s}

    A phase is a method: ``open_datasync``, ``fdatasync`` (PostgreSQL's default on Linux), ``fsync``,
    ``open_sync``; each again with two writes to a sync (``fdatasync-2x8k``); and ``unsynced``, writes into memory
    that nobody waits for. ``open_datasync`` and ``open_sync`` write past the page cache. What a file system cannot
    do is left out.

    Values of each phase: ``sync.iops`` (1/s: syncs, each of one or two writes) and ``sync.latency.mean`` (s); of
    ``unsynced`` ``write.iops`` and ``write.latency.mean``.
    """

    time: Duration = msgspec.field(default_factory=lambda: Duration("2s"))
    """For each of 16 tests, in whole seconds."""

    takes: ClassVar[tuple[Kind, ...]] = ("dir",)
    metrics: ClassVar[tuple[str, ...]] = each_of(("sync", "write"), ("iops", "latency.mean"))
    refused: ClassVar[tuple[str, ...]] = ("from",)

    def problems(self) -> list[tuple[str, str]]:
        """A time that is no whole second."""
        if self.time < 1 or self.time % 1:
            return [("time", f"{self.time}: pg_test_fsync counts in whole seconds, at least 1s")]
        return []

    @property
    def phases(self) -> tuple[str, ...] | None:
        """Which methods there are decides the file system."""
        return None

    @property
    def phase_count(self) -> int:
        return _TESTS

    def lasts(self) -> float | None:
        return float(self.time) * _TESTS

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """No file yet."""
        return tuple(no_target_yet(port, "fsync"))

    def command(self, port: Port) -> Command:
        argv = (
            "pg_test_fsync",
            f"--filename={target(port, 'fsync')}",
            f"--secs-per-test={int(self.time)}",
        )
        # Each operation of the last test may take long.
        return Command(port.host, stamped(("env", "LC_ALL=C", *argv)), 2 * (self.lasts() or 0) + _SPARE)

    def facts(self, port: Port) -> tuple[Fact, ...]:
        # pg_test_fsync (PostgreSQL) 17.11 (Debian 17.11-0+deb13u1)
        ask = ("pg_test_fsync", "--version")
        return (version(port.host, LAYER, ask, lambda text: text.partition(") ")[2].strip()),)

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """For each phase ``sync.iops`` (1/s: syncs, each of one or two writes) and ``sync.latency.mean`` (s); for
        ``unsynced`` ``write.iops`` and ``write.latency.mean``. Raises ``ParseError``.
        """
        found = list(pg_test_fsync.rates(lines(raw["stdout"])))
        # fdatasync and fsync work everywhere; the writes without a sync are the last test.
        missing = {"fdatasync", "fsync", "fdatasync-2x8k", "fsync-2x8k", "unsynced"} - {name for name, *_ in found}
        if missing:
            said = (raw["stdout"] + raw.get("stderr", b"")).decode(errors="replace")
            raise ParseError(LAYER, f"no {min(missing)} in its output", said)
        samples = []
        for name, rate, _ in found:
            if not rate:
                raise ParseError(LAYER, f"no {name} was completed", hint="give it more time")
            what = "write" if name == "unsynced" else "sync"
            samples.append(Sample(f"{what}.iops", rate, "1/s", LAYER, host, name))
            # 1 / rate, since what it prints is cut to microseconds
            samples.append(Sample(f"{what}.latency.mean", 1 / rate, "s", LAYER, host, name))
        phases = (Phase(name, end - self.time, end) for name, _, end in found)
        return Parsed(tuple(samples), tuple(phases))
