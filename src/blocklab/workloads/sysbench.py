"""sysbench: its OLTP scripts on MariaDB, MySQL and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeAlias

from blocklab.formats.load.stamped import printed
from blocklab.formats.load.sysbench import oltp
from blocklab.model import access
from blocklab.model.allowed import LABEL, NUMBER, PLAIN, WORD, Allowed, Shape, entries, words
from blocklab.model.dsn import Dsn
from blocklab.model.plan import Argv, Fact, Port, Run, Step
from blocklab.model.sample import Parsed
from blocklab.model.workload import Asked, Command
from blocklab.workloads import servers
from blocklab.workloads.base import stamped, version

OptionValue: TypeAlias = str | int | float | bool

SCRIPTS = (
    "oltp_read_write", "oltp_read_only", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index",
)  # fmt: skip

_OURS = "blocklab sets it from the fields of this workload"
_SERVER = "the stack says which server"
_A_LINE = "it prints a line for each event"
_TABLE_OPTION = (
    r"(?i:ROW_FORMAT|KEY_BLOCK_SIZE|COMPRESSION|PAGE_COMPRESSED|PAGE_COMPRESSION_LEVEL|ENCRYPTED|ENCRYPTION|CHECKSUM|"
    r"STATS_PERSISTENT|STATS_AUTO_RECALC|STATS_SAMPLE_PAGES|(?:DEFAULT )?CHARSET|COLLATE|MAX_ROWS|AVG_ROW_LENGTH|"
    r"PACK_KEYS|DELAY_KEY_WRITE|TRANSACTIONAL) ?= ?(?:[A-Za-z0-9_]+|'[A-Za-z0-9_]*')"
)
# sysbench puts it behind CREATE TABLE (...): "DATA DIRECTORY=" would lead away from the stack.
_TABLE = Shape(
    "options of a table like ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8, or WITH (fillfactor=70)",
    rf"{_TABLE_OPTION}(?:,? {_TABLE_OPTION})*|(?i:WITH) ?\([a-z_]+ ?= ?[A-Za-z0-9_.]+\)|",
)
_ERRORS = Shape("all, or numbers of errors", r"all|none|\d+(?:,\d+)*")
# By their names with dashes, since sysbench takes one for the other. Of 1.0.20 and its OLTP scripts.
_OPTIONS = Allowed(
    "sysbench",
    {
        **entries(words("uniform", "gaussian", "special", "pareto", "zipfian"), "rand-type"),
        **entries(NUMBER, """
            rand-seed rand-spec-iter rand-spec-pct rand-spec-res rand-pareto-h rand-zipfian-exp rate
            thread-stack-size thread-init-timeout warmup-time point-selects simple-ranges sum-ranges order-ranges
            distinct-ranges range-size index-updates non-index-updates delete-inserts reconnect bulk-inserts
        """),
        **entries(PLAIN, "auto-inc create-secondary skip-trx range-selects forced-shutdown mysql-compression"),
        **entries(WORD, "secondary"),
        **entries(words("auto", "disable"), "db-ps-mode"),
        **entries(_ERRORS, "mysql-ignore-errors"),
        **entries(LABEL, "mysql-storage-engine pgsql-variant"),
        **entries(_TABLE, "create-table-options"),
    },
    {
        **dict.fromkeys(("threads", "time", "tables", "table-size", "report-interval", "percentile"), _OURS),
        **dict.fromkeys(("histogram", "db-driver", "num-threads", "max-time"), _OURS),
        **dict.fromkeys(("events", "max-requests"), "a workload here ends by its time"),
        "config-file": "write the options here",
        "luajit-cmd": "it is for sysbench's own developers",
        "verbosity": "the parser reads what the usual one prints",
        **dict.fromkeys(("debug", "db-debug"), _A_LINE),
        "validate": "it stops the workload at the first difference",
        "report-checkpoints": "blocklab reports each second",
        **dict.fromkeys(("help", "version"), "it ends sysbench before the workload"),
        **{
            f"{server}-{name}": _SERVER
            for server in ("mysql", "pgsql")
            for name in ("host", "port", "socket", "user", "password", "db", "dry-run", "ssl", "debug")
        },
    },
    names=(r"[a-z][a-z0-9-]+", "write an option by its own name, without dashes before it, e.g. rand-type"),
)  # fmt: skip
# Options of oltp_common.lua that decide what the tables look like.
_TABLES = (
    "auto_inc", "create_secondary", "secondary", "create_table_options", "mysql_storage_engine", "pgsql_variant",
)  # fmt: skip

# Bytes of a row at the least: its two texts are 180, and a server may compress them.
_LEAST = 100
# Rows a second, loaded on a slow and busy machine.
_SLOWEST = 500.0
_SPARE = 60.0


class Sysbench(servers.OltpBench, frozen=True, tag="sysbench"):
    """OLTP transactions by [sysbench](https://manpages.debian.org/trixie/sysbench/) 1.0.20.

    It works over the server's socket, and over the network from another node.

    Example::

        oltp:
          workload: sysbench
          script: oltp_write_only
          tables: 4
          table_size: 100000
          clients: 16
          time: 60s
          options: {rand-type: uniform}

    The tables are loaded once for each layout and restored from a copy before each cell. Errors that sysbench
    ignores (deadlocks, MariaDB's error 1020, see its variable ``innodb_snapshot_isolation``) are counted in
    ``errors``; their transactions begin again.

    Stored: sysbench's version, and how many rows its last table has.

    Values: ``tps`` and ``qps`` (1/s), ``latency.mean``, ``latency.p50``, ``latency.p95``, ``latency.p99``,
    ``latency.max`` (s), ``transactions``, ``errors``, ``reconnects``. The percentiles are of sysbench's histogram,
    whose buckets are 2 % of the value wide. Time series: ``tps``, ``qps``, ``latency.p99`` and ``errors`` (1/s).

    What the server counted meanwhile: of MariaDB and MySQL ``fsyncs`` (1/s; InnoDB's, without the binary log's),
    ``log.bytes`` (B/s, the redo log), ``lock.waits`` (1/s, for a row), ``lock.wait.time`` (s, the mean of one),
    ``deadlocks`` (MariaDB) and, with a binary log, ``commit.group`` (commits that shared a sync of it; MariaDB);
    of PostgreSQL ``commits`` (1/s; to prepare a statement is one too), ``log.syncs`` (1/s) and ``log.bytes`` (B/s)
    of the WAL, ``deadlocks`` and ``checkpoints``.
    """

    script: str = "oltp_read_write"
    """One of sysbench's own: ``oltp_read_write``, ``oltp_read_only``, ``oltp_write_only``, ``oltp_point_select``,
    ``oltp_insert``, ``oltp_delete``, ``oltp_update_index``, ``oltp_update_non_index``."""
    tables: int = 1
    """So many tables, each with an index."""
    table_size: int = 10_000
    """Rows of each table, about 0.25 kB each."""
    options: dict[str, OptionValue] = {}
    """Further options of sysbench and of the script by their own names: ``rand-...``, ``rate``, ``range_size``,
    ``point_selects`` and the other counts, ``skip_trx``, ``auto_inc``, ``secondary``, ``create_secondary``,
    ``create_table_options`` (such as ``ROW_FORMAT=COMPRESSED``), ``mysql_storage_engine``, ``db-ps-mode``,
    ``mysql-ignore-errors``, ... Refused are those that the fields or the stack decide, ``events``, what the parser
    could not read, and what could lead away from the stack."""

    metrics: ClassVar[tuple[str, ...]] = (*oltp.METRICS, *servers.COUNTED)

    def problems(self) -> list[tuple[str, str]]:
        """Counts below 1, times that are no whole seconds, unknown scripts, options that are blocklab's."""
        return list(self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from self._counts_problems("tables", "table_size")
        if self.script not in SCRIPTS:
            yield "script", f"{self.script!r} is not one of {', '.join(SCRIPTS)}"
        for name, value in self.options.items():
            if problem := _option_problem(name, value):
                yield f"options.{name}", problem

    @property
    def room(self) -> int:
        """Of the tables' rows, at the least."""
        return self.tables * self.table_size * _LEAST

    def asked_rates(self) -> Mapping[str, Asked]:
        """The option ``rate``: sysbench's own schedule, a Poisson process; its latencies have the time in its
        queue (``sb_timer.h`` of 1.0.20)."""
        rate = self.options.get("rate", 0)
        try:
            wanted = float(rate)
        except ValueError:
            return {}
        seconds = None if self.time is None else float(self.time)
        return {"": Asked({"tps": wanted}, seconds)} if wanted > 0 else {}

    def data(self, port: Port) -> tuple[Step, ...]:
        """The tables, with nothing left to write back."""
        seconds = 120.0 + self.tables * self.table_size / _SLOWEST
        tables = tuple(f"sbtest{number}" for number in range(1, self.tables + 1))
        # One script's tables are every script's, so that they share a copy.
        made = (f"--{name}={_text(value)}" for name, value in self.options.items() if _kind(name) in _TABLES)
        command = (*self._tool(port), *made, "oltp_common", "prepare")
        return (*servers.relax(port), Run(port.host, command, timeout=seconds), *servers.settle(port, tables))

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """What stamps sysbench's lines with the time, and the run that warms up."""
        steps: list[Step] = []
        if self.warmup:
            warm = (*self._run(port), f"--time={int(self.warmup)}", self.script, "run")
            steps.append(Run(port.host, warm, timeout=self.warmup + _SPARE))
        return tuple(steps)

    def command(self, port: Port) -> Command:
        """sysbench with a line each second, and the server's counters around it."""
        time = self.time or 0
        argv = (
            *self._run(port), f"--time={int(time)}", "--report-interval=1", "--percentile=99",
            "--histogram=on", self.script, "run",
        )  # fmt: skip
        return Command(port.host, stamped(argv), time + _SPARE, around=servers.counters(port))

    def _tool(self, port: Port) -> Argv:
        dsn = Dsn.of(port.where)
        where: Argv
        if port.kind == "postgresql":
            kind, where = "pgsql", (f"--pgsql-host={dsn.host}", f"--pgsql-port={dsn.port}")
        elif dsn.socket:
            kind, where = "mysql", (f"--mysql-socket={dsn.socket}",)
        else:
            kind, where = "mysql", (f"--mysql-host={dsn.address}", f"--mysql-port={dsn.port}")
        env: Argv = ()
        if dsn.passfile and kind == "pgsql":
            env = (f"PGPASSFILE={dsn.passfile}",)
        elif dsn.passfile:
            where = (f"--config-file={access.SYSBENCH}", *where)
        return (
            "env", "LC_ALL=C", *env, "sysbench", f"--db-driver={kind}", *where, f"--{kind}-user={dsn.user}",
            f"--{kind}-db={dsn.database}", f"--tables={self.tables}", f"--table-size={self.table_size}",
        )  # fmt: skip

    def _run(self, port: Port) -> Argv:
        own = (f"--{name}={_text(value)}" for name, value in self.options.items())
        return (*self._tool(port), f"--threads={self.clients}", *own)

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """sysbench's version, and how many rows its last table has."""
        return (
            # "sysbench 1.0.20"
            version(port.host, "sysbench", ("sysbench", "--version"), lambda text: text.split()[1]),
            Fact(
                port.host,
                "sysbench",
                servers.sql(port, f"SELECT MAX(id) FROM sbtest{self.tables}"),
                lambda text: {"rows": text.strip()},
            ),
        )

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``tps``, ``qps`` (1/s), ``latency.mean|p50|p95|p99|max`` (s), ``transactions``, ``errors``,
        ``reconnects`` (1); ``tps``, ``qps``, ``latency.p99`` and ``errors`` (1/s) as series too. And what the
        server counted: see ``servers.counted``.

        The percentiles are of sysbench's histogram, whose buckets are 2 % of the value wide. ``ParseError``.
        """
        return servers.with_counted(oltp.parsed(printed(raw), host), raw, host)


def _option_problem(name: str, value: OptionValue) -> str | None:
    return _OPTIONS.problem(name.replace("_", "-"), _text(value))


def _kind(name: str) -> str:
    """An option's name as sysbench has it: it takes dashes for underscores."""
    return name.replace("-", "_")


def _text(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
