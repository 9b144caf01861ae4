"""Database servers as workloads see them: how to ask them, how to load much data fast, what they counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.database import mysql_status
from blocklab.model import outside
from blocklab.model.access import mysql_client
from blocklab.model.dsn import Dsn
from blocklab.model.plan import Argv, Kind, Port, Run, Step, Wait
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.units import Duration
from blocklab.workloads.base import Stoppable

# Slower than this a page a second is written back nowhere.
_SETTLE_SECONDS = 900.0
# Pages that are dirty again as soon as they are clean: the server's own notes.
_FEW_PAGES = 16

_KEPT = "blocklab_kept"
# What a bulk load has no use for: a sync for each of its commits. And what MySQL refuses unless it is told.
_RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0, "local_infile": 1}
# In this order, and put back in the opposite one: a capacity is never above its maximum.
_CLEANING = {"innodb_max_dirty_pages_pct": 0, "innodb_io_capacity_max": 100_000, "innodb_io_capacity": 100_000}


def sql(port: Port, text: str) -> Argv:
    """The command that runs SQL and prints bare rows (columns apart by tabs); the first error ends it."""
    if port.kind == "postgresql":
        program = "psql"
        return (program, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", port.where, "-c", text)
    dsn = Dsn.of(port.where)
    where = (
        (f"--socket={dsn.socket}",)
        if dsn.socket
        else ("--protocol=tcp", f"--host={dsn.address}", f"--port={dsn.port}")
    )
    options = (f"--user={dsn.user}", f"--database={dsn.database}", "--batch", "--skip-column-names")
    return (*mysql_client(dsn.passfile), *where, *options, f"--execute={text}")


def relax(port: Port) -> tuple[Step, ...]:
    """Steps before a bulk load: commits of MySQL that wait for no sync. ``settle`` puts it back.

    In PostgreSQL there is nothing to do: each table is loaded in one transaction.
    """
    if port.kind == "postgresql":
        return ()
    # A table, since a user's variable would end with its connection; never in the binary log.
    kept = ", ".join(f"@@GLOBAL.{name} AS {name}" for name in (*_RELAXED, *_CLEANING))
    statements = [
        "SET SESSION sql_log_bin = 0",
        f"CREATE TABLE {_KEPT} AS SELECT {kept}",
        *(f"SET GLOBAL {name} = {value}" for name, value in _RELAXED.items()),
    ]
    return (Run(port.host, sql(port, "; ".join(statements))),)


def settle(port: Port, tables: tuple[str, ...]) -> tuple[Step, ...]:
    """Steps after a bulk load: statistics of its tables, and all of it written back, so that nothing of it is left
    for the workload or for a recovery."""
    if port.kind == "postgresql":
        return tuple(
            Run(port.host, sql(port, text), timeout=_SETTLE_SECONDS) for text in ("VACUUM ANALYZE", "CHECKPOINT")
        )
    analyze = f"ANALYZE NO_WRITE_TO_BINLOG TABLE {', '.join(tables)}"
    clean = "; ".join(f"SET GLOBAL {name} = {value}" for name, value in _CLEANING.items())
    # Prints the counter only where there are few.
    ask = f"SHOW GLOBAL STATUS WHERE Variable_name = '{_DIRTY}' AND Value < {_FEW_PAGES}"
    back = [f"SET GLOBAL {name} = (SELECT {name} FROM {_KEPT})" for name in reversed([*_RELAXED, *_CLEANING])]
    return (
        Run(port.host, sql(port, analyze), timeout=_SETTLE_SECONDS),
        Run(port.host, sql(port, clean)),
        Wait(port.host, sql(port, ask), until=_DIRTY, seconds=_SETTLE_SECONDS),
        Run(port.host, sql(port, "; ".join(["SET SESSION sql_log_bin = 0", *back, f"DROP TABLE {_KEPT}"]))),
    )


_DIRTY = "Innodb_buffer_pool_pages_dirty"

_POSTGRES_COUNTERS = """\
SELECT json_build_object(
 'commits', xact_commit, 'rollbacks', xact_rollback, 'deadlocks', deadlocks,
 'wal_syncs', wal_sync, 'wal_bytes', wal_bytes, 'checkpoints', num_timed + num_requested)
FROM pg_stat_database, pg_stat_wal, pg_stat_checkpointer WHERE datname = current_database()"""


def counters(port: Port) -> Mapping[str, Argv]:
    """The command around a workload that asks for the server's counters."""
    text = _POSTGRES_COUNTERS if port.kind == "postgresql" else "SHOW GLOBAL STATUS"
    return {"status": sql(port, text)}


def counted(raw: Mapping[str, bytes], host: str, phase: Phase) -> list[Sample]:
    """The workload's part of the server's counters, if they were asked for; rates are those of its ``phase``.
    Raises ``ParseError``.

    MariaDB and MySQL (layer ``mysql``): ``fsyncs`` (1/s, InnoDB's, without the binary
    log's), ``log.bytes`` (B/s, the redo log), ``lock.waits`` (1/s,
    for a row), ``lock.wait.time`` (s, the mean of one), ``deadlocks`` (1, MariaDB) and, with a binary log,
    ``commit.group`` (commits that shared a sync of it; MariaDB). PostgreSQL (layer ``postgresql``): ``commits``
    (1/s; to prepare a statement is one too), ``log.syncs`` (1/s) and ``log.bytes`` (B/s) of the WAL, ``deadlocks``
    and ``checkpoints`` (1).
    """
    if "status.before" not in raw:
        return []
    before, after = (_read(raw[f"status.{when}"]) for when in ("before", "after"))
    # From the one reading to the other is longer: programs start, connect and print meanwhile.
    seconds = phase.end - phase.start

    def grown(name: str) -> float:
        if name not in before or name not in after:
            raise ParseError("status", f"the server has no counter {name}")
        if after[name] < before[name]:
            raise ParseError("status", f"{name} went backwards: the server was started again during the workload")
        return after[name] - before[name]

    if "commits" in before:
        rows = [
            ("commits", grown("commits") / seconds, "1/s"),
            ("log.syncs", grown("wal_syncs") / seconds, "1/s"),
            ("log.bytes", grown("wal_bytes") / seconds, "B/s"),
            ("deadlocks", grown("deadlocks"), "1"),
            ("checkpoints", grown("checkpoints"), "1"),
        ]
        return [Sample(metric, value, unit, "postgresql", host) for metric, value, unit in rows]
    waits = grown("Innodb_row_lock_waits")
    rows = [
        ("fsyncs", grown("Innodb_data_fsyncs") / seconds, "1/s"),
        ("log.bytes", grown("Innodb_os_log_written") / seconds, "B/s"),
        ("lock.waits", waits / seconds, "1/s"),
    ]
    if waits:
        # in milliseconds, of all waits together
        rows.append(("lock.wait.time", grown("Innodb_row_lock_time") / waits / 1e3, "s"))
    if "Innodb_deadlocks" in before:
        rows.append(("deadlocks", grown("Innodb_deadlocks"), "1"))
    if "Binlog_group_commits" in before and (groups := grown("Binlog_group_commits")):
        rows.append(("commit.group", grown("Binlog_commits") / groups, "1"))
    return [Sample(metric, value, unit, "mysql", host) for metric, value, unit in rows]


def _read(text: bytes) -> dict[str, float]:
    """Counters by name: PostgreSQL's are one JSON object, MySQL's what SHOW GLOBAL STATUS prints."""
    plain = text.decode(errors="replace")
    if plain.startswith("{"):
        try:
            return {name: float(value) for name, value in outside.as_json(plain, "").items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise ParseError("status", f"its JSON cannot be read: {error}", plain) from error
    found = mysql_status.counters(plain)
    if not found:
        raise ParseError("status", "the server printed no counters", plain)
    return found


# All that servers count, MySQL's and PostgreSQL's.
COUNTED = (
    "commits", "log.syncs", "log.bytes", "deadlocks", "checkpoints", "fsyncs", "lock.waits", "lock.wait.time",
    "commit.group",
)  # fmt: skip


class OltpBench(Stoppable, frozen=True, kw_only=True):
    """A program with connections that each do one transaction at a time, for whole seconds, on a server whose
    counters are read before and after."""

    time: Duration | None = None
    """How long it is measured, in whole seconds; without it ``stop`` decides."""
    clients: int = 1
    """Connections, each with one transaction at a time."""
    warmup: Duration = msgspec.field(default_factory=lambda: Duration("0s"))
    """Whole seconds. A run of its own of this length goes before the measured one, which then meets warm caches
    but opens new connections."""

    takes: ClassVar[tuple[Kind, ...]] = ("mysql", "postgresql")
    rates: ClassVar[tuple[str, ...]] = ("tps",)

    def _timed(self) -> bool:
        return self.time is not None

    def _counts_problems(self, *names: str) -> Iterator[tuple[str, str]]:
        for name in (*names, "clients"):
            if getattr(self, name) < 1:
                yield name, "must be at least 1"
        if self.time is not None and (self.time < 1 or self.time % 1):
            yield "time", f"{self.time}: give whole seconds, at least 1s"
        yield from self._stop_problems()
        if self.warmup % 1:
            yield "warmup", f"{self.warmup}: give whole seconds"

    def lasts(self) -> float | None:
        """``time`` and ``warmup``."""
        return None if self.time is None else float(self.time) + float(self.warmup)

    @property
    def sessions(self) -> int:
        return self.clients

    def trials(self, seconds: float) -> Mapping[str, Self]:
        return {"": msgspec.structs.replace(self, time=Duration(f"{seconds}s"), stop=None)}


def with_counted(parsed: Parsed, raw: Mapping[str, bytes], host: str) -> Parsed:
    """A workload's one phase, and what the server counted meanwhile. Raises ``ParseError``."""
    (phase,) = parsed.phases
    return msgspec.structs.replace(parsed, samples=(*parsed.samples, *counted(raw, host, phase)))
