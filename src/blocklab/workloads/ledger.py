"""The ledger: transactions of which the client keeps what became of each, so that one can tell what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from blocklab.model import access, places
from blocklab.model.dsn import Dsn
from blocklab.model.plan import Argv, Fact, Kind, Port, Run, Step
from blocklab.model.sample import Parsed, Sample
from blocklab.model.units import Duration
from blocklab.model.workload import Checker, Command, Way
from blocklab.workloads import ledger_output, servers
from blocklab.workloads.base import WorkloadBase, version
from blocklab.workloads.ledger_checker import LedgerChecker

PROGRAM = "blocklab-ledger"
HISTORY = places.work("blocklab-ledger.tsv")
LAYER = ledger_output.LAYER

# A server takes about 100 connections unless it is told otherwise.
_MOST = 1000
# An id is the start in microseconds plus a number: a later run's are above these only below a million a second.
_MOST_RATE = 999_999
_LEAST_PATIENCE, _MOST_PATIENCE = 0.05, 60.0
_MOST_AFTER = 600.0
_SPARE = 30.0
# netem's jitter is normally distributed: an answer is hardly ever earlier than that.
_SPREADS = 4


class Ledger(WorkloadBase, frozen=True, tag="ledger"):
    """Transactions on PostgreSQL, MariaDB or MySQL that stay on record on the client if the server dies.

    It runs on a node of its own, which no fault ends, and is the workload that a study's faults strike.
    It is blocklab's own program, in the image.

    Example::

        writes:
          workload: ledger
          from: app
          clients: 8
          rate: 500
          time: 10s

    Each transaction inserts a row with an id of its own into one table and counts it in another, in two round
    trips: all but the COMMIT, then the COMMIT. On record are when it was due, when it was sent and when it was
    answered: ``acknowledged``; ``refused`` where its COMMIT was never sent; ``in doubt`` where it was, and no
    success came back. Nothing is sent twice. A connection that failed is made again.

    With a ``rate`` transactions are due at even intervals, whatever became of earlier ones (an open loop); one
    that finds no free connection within ``patience`` is refused. With ``max`` each connection has one after the
    other (a closed loop), so that nothing is due during an outage.

    The tables are made once for each layout and restored from a copy before each cell. A rate beyond half of what
    the client's node can send and record is refused before the workload starts.

    Stored: the program's version, and how many rows there were before.

    Values: ``tps`` (1/s, acknowledged), ``latency.mean``, ``latency.p50``, ``latency.p95``, ``latency.p99``,
    ``latency.max`` (s, of acknowledged ones, from when they were due), ``acknowledged``, ``refused``,
    ``in_doubt``, and ``late.max`` (s): how late the client itself was at worst, though a connection was free.
    Time series: ``tps``. What the server counted meanwhile: as of ``sysbench``.
    """

    clients: int = 8
    """Connections, each with one transaction at a time."""
    rate: int | Literal["max"] = "max"
    """So many transactions are due a second, 999,999 at most, and no more than the connections can have over the
    client's link; ``max``: each connection does one after the other."""
    time: Duration = msgspec.field(default_factory=lambda: Duration("10s"))
    """How long transactions are due, in whole seconds; where faults strike, they and ``after`` decide instead."""
    patience: Duration = msgspec.field(default_factory=lambda: Duration("1s"))
    """A transaction that is due waits so long for a free connection, and one that was sent for its answer; from
    50 ms to 60 s, and more than the two round trips that it takes."""
    after: Duration = msgspec.field(default_factory=lambda: Duration("3s"))
    """Where a fault strikes: how long it goes on after writes are accepted again; at most 10 min."""

    takes: ClassVar[tuple[Kind, ...]] = ("postgresql", "mysql")
    metrics: ClassVar[tuple[str, ...]] = ledger_output.METRICS
    by_tcp: ClassVar[bool] = True
    checker: ClassVar[Checker] = LedgerChecker()

    def problems(self) -> list[tuple[str, str]]:
        """No client's node, counts below 1, times that are no whole seconds."""
        return list(self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        if not self.client:
            yield "from", "is needed: the node that it runs on, which must survive the server's crash"
        if not 1 <= self.clients <= _MOST:
            yield "clients", f"{self.clients}: give 1 to {_MOST}"
        if self.rate != "max" and self.rate < 1:
            yield "rate", f"{self.rate}: give at least 1 a second, or max"
        if self.rate != "max" and self.rate > _MOST_RATE:
            yield "rate", f"{self.rate}: give {_MOST_RATE:,} a second at most; nodes send some ten thousand"
        if self.time < 1 or self.time % 1:
            yield "time", f"{self.time}: give whole seconds, at least 1s"
        if not _LEAST_PATIENCE <= self.patience <= _MOST_PATIENCE:
            yield "patience", f"{self.patience}: give {_LEAST_PATIENCE:g}s to {_MOST_PATIENCE:g}s"
        if self.after > _MOST_AFTER:
            yield "after", f"{self.after}: give {_MOST_AFTER:g}s at most; all of it is under load"

    @property
    def sessions(self) -> int:
        return self.clients

    def lasts(self) -> float | None:
        return float(self.time)

    def data(self, port: Port) -> tuple[Step, ...]:
        """The tables, empty, with nothing left to write back."""
        engine = "" if port.kind == "postgresql" else " ENGINE=InnoDB"
        row = "id bigint PRIMARY KEY, worker int NOT NULL, pad varchar(64) NOT NULL"
        count = "worker int PRIMARY KEY, n bigint NOT NULL, last bigint NOT NULL"
        workers = ", ".join(f"({worker}, 0, 0)" for worker in range(self.clients))
        make = (
            f"CREATE TABLE ledger ({row}){engine}",
            f"CREATE TABLE tally ({count}){engine}",
            f"INSERT INTO tally(worker, n, last) VALUES {workers}",
        )
        return (
            *servers.relax(port),
            *(Run(port.host, servers.sql(port, text)) for text in make),
            *servers.settle(port, ("ledger", "tally")),
        )

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """Nothing of an earlier history; whether this node can send as much as it is asked for."""
        remove = ("rm", "-f", HISTORY)
        steps = [Run(port.host, remove, undo=remove)]
        if self.rate != "max":
            steps.append(Run(port.host, can(self.rate, self.clients)))
        return tuple(steps)

    def command(self, port: Port) -> Command:
        """The writer on the one server, with the server's counters around it."""
        command = self.writer(port, (Dsn.of(port.where).address,), float(self.time))
        return msgspec.structs.replace(command, around=servers.counters(port))

    def writer(self, port: Port, addresses: Sequence[str], seconds: float) -> Command:
        """The writer on ``port.host``, for ``seconds`` or until SIGTERM, on whichever of ``addresses`` accepts
        writes: ``10.77.0.1`` for a server at the port of ``port``'s own, or ``10.77.0.1:5433``. It leaves
        ``HISTORY`` behind, for ``ledger_output.attempts``, and prints counters, a JSON line every 100 ms."""
        dsn = Dsn.of(port.where)
        reach = (each if ":" in each else f"{each}:{dsn.port}" for each in addresses)
        argv = (
            PROGRAM, f"--kind={port.kind}", *(f"--server={each}" for each in reach), f"--user={dsn.user}",
            f"--database={dsn.database}", f"--connections={self.clients}", f"--rate={self.rate}",
            f"--seconds={seconds:g}", f"--patience={float(self.patience):g}s", f"--history={HISTORY}",
            *((f"--password-file={access.PASSWORD}",) if dsn.passfile else ()),
        )  # fmt: skip
        return Command(port.host, argv, seconds + 2 * self.patience + _SPARE, (HISTORY,))

    def late(self, stack: str, ways: Sequence[Way]) -> list[tuple[str, str]]:
        """A rate that its connections cannot have, and answers that all come too late: a transaction takes two
        round trips."""
        found = []
        first = ways[0] if ways else None
        if first is not None and self.rate != "max" and first.link.rtt:
            most = self.clients / (2 * float(first.link.rtt))
            if self.rate > most:
                said = (
                    f"stack {stack} cannot sustain {self.rate}/s: the link {first.name} has an rtt of "
                    f"{first.link.rtt}, and with two round trips each {self.clients} connections make "
                    f"{most:,.6g} at most; give more connections or a lower rate"
                )
                found.append(("rate", said))
        for host, name, link in ways:
            if self.patience <= 2 * (link.rtt - _SPREADS * link.jitter):
                said = (
                    f"{self.patience} are over before an answer can be there: a transaction takes two round "
                    f"trips, and the link {name} to {host} has an rtt of {link.rtt}; give more than "
                    f"{2 * link.rtt:g}s"
                )
                found.append(("patience", said))
                break
        return found

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """The program's version, and how many rows there are."""
        return (
            # "blocklab-ledger 3f0c52d1a9be"
            version(port.host, LAYER, (PROGRAM, "--version"), lambda text: text.split()[1]),
            Fact(
                port.host,
                LAYER,
                servers.sql(port, "SELECT count(*) FROM ledger"),
                lambda text: {"rows": text.strip()},
            ),
        )

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``tps`` (1/s, acknowledged), ``latency.mean|p50|p95|p99|max`` (s, from when each was due),
        ``acknowledged``, ``refused``, ``in_doubt`` (1), ``late.max`` (s), ``tps`` as a series. And what the server
        counted: see ``servers.counted``. Raises ``ParseError``.
        """
        tried, history = ledger_output.attempts(raw.get(HISTORY.rpartition("/")[2], b""))
        samples, done = ledger_output.values(tried, history, host)
        late = Sample("late.max", ledger_output.latest(raw["stdout"]), "s", LAYER, host)
        phase = ledger_output.phase_of(tried, history)
        counted = servers.counted(raw, host, phase) if phase else []
        return Parsed((*samples, late, *counted), (phase,) if phase else (), tuple(done))


def can(rate: int, connections: int) -> Argv:
    """The command that fails, and says why, where the node could not send ``rate`` a second and record them."""
    return (PROGRAM, f"--can={rate}", f"--connections={connections}", f"--history={HISTORY}")
