"""TPC-C by go-tpc: orders, payments and deliveries of warehouses."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeAlias

from blocklab.formats.load.go_tpc import output
from blocklab.formats.load.stamped import printed
from blocklab.model import access, places
from blocklab.model.allowed import NUMBER, NUMBERS, PLAIN, WORD, Allowed, Shape, entries, words
from blocklab.model.dsn import Dsn
from blocklab.model.plan import Argv, Fact, Port, Run, Step, Wait
from blocklab.model.sample import Parsed
from blocklab.model.workload import Command
from blocklab.workloads import servers, tpcc_tables
from blocklab.workloads.base import stamped, version

OptionValue: TypeAlias = str | int | float | bool

_PAIRS = Shape("parameters like innodb_lock_wait_timeout=5&autocommit=1", r"[^&=]+=[^&=]*(?:&[^&=]+=[^&=]*)*")
# Of go-tpc 1.0.12; `weight` and `wait` are looked at below.
OPTIONS = Allowed(
    "go-tpc",
    {
        **entries(words("true", "false"), "wait"),
        **entries(NUMBERS, "weight"),
        **entries(NUMBER, "isolation max-measure-latency conn-refresh-interval max-procs"),
        **entries(_PAIRS, "conn-params"),
    },
)  # fmt: skip
# What its drivers take, and variables that hold for a connection: MySQL's driver makes SET NAME = VALUE of them.
PARAMETERS = Allowed(
    "a connection",
    {
        **entries(NUMBER, "innodb_lock_wait_timeout lock_wait_timeout max_execution_time max_statement_time"),
        **entries(NUMBER, "sort_buffer_size join_buffer_size tmp_table_size max_heap_table_size"),
        **entries(PLAIN, "autocommit innodb_snapshot_isolation foreign_key_checks unique_checks sql_log_bin"),
        **entries(WORD, "transaction_isolation tx_isolation collation charset"),
        **entries(
            PLAIN, "timeout readTimeout writeTimeout interpolateParams maxAllowedPacket clientFoundRows compress"
        ),
        **entries(NUMBER, "statement_timeout lock_timeout deadlock_timeout connect_timeout work_mem commit_delay"),
        **entries(NUMBER, "idle_in_transaction_session_timeout random_page_cost effective_io_concurrency"),
        **entries(PLAIN, "jit enable_*"),
        **entries(WORD, "synchronous_commit application_name plan_cache_mode binary_parameters"),
    },
)

# Bytes for a warehouse at the least: its rows are 70 MB before any index, and a server may compress them.
_LEAST = 50 * 10**6
# Seconds for a warehouse (0.6 million rows) on a slow and busy machine.
_SLOWEST = 400.0
# Connections, prepared statements, and the transactions under way at the end.
_SPARE = 60.0
# With `wait` a thread thinks for up to 120 s and keys for 18 s before it sees that the time is over.
_THINKS = 140.0
# A few rounds of keying and thinking of each thread.
_LEAST_WAIT = 120.0


class Tpcc(servers.OltpBench, frozen=True, tag="tpcc"):
    """[TPC-C](https://www.tpc.org/tpcc/) by go-tpc 1.0.12: orders, payments and deliveries of warehouses.

    It works over TCP, by loopback on the server's own node.

    Example::

        tpcc:
          workload: tpcc
          warehouses: 10
          clients: 16
          warmup: 5s
          time: 60s

    The tables are loaded once for each layout and restored from a copy before each cell. A failed transaction (a
    deadlock, or MariaDB's error 1020, see its variable ``innodb_snapshot_isolation``) is counted in ``errors`` and
    not tried again. go-tpc has no seed: two runs are alike, not the same.

    Read back: how many warehouses the server has. go-tpc's version is stored.

    Values: ``tpmc`` (1/min, new orders), ``tps`` (1/s, transactions of all kinds; from the end of go-tpc's first
    second to that of its last whole one, since its own rates count a first transaction without its time),
    ``latency.mean`` (s, of all), ``errors``, and for each of ``new_order``, ``payment``, ``order_status``,
    ``delivery`` and ``stock_level`` that there was ``.count`` and ``.latency.mean``, ``.latency.p50``,
    ``.latency.p90``, ``.latency.p95``, ``.latency.p99``, ``.latency.p99.9``, ``.latency.max`` (s). The means are
    exact. Percentiles and maximum are go-tpc's, whose buckets are 0.5 ms wide up to 17 ms and then 3 to 6 % of the
    value; it takes what is below 1 ms for 1 ms. Time series: ``tps`` and ``latency.mean``.

    What the server counted meanwhile: of MariaDB and MySQL ``fsyncs`` (1/s; InnoDB's, without the binary log's),
    ``log.bytes`` (B/s, the redo log), ``lock.waits`` (1/s, for a row), ``lock.wait.time`` (s, the mean of one),
    ``deadlocks`` (MariaDB) and, with a binary log, ``commit.group`` (commits that shared a sync of it; MariaDB);
    of PostgreSQL ``commits`` (1/s; to prepare a statement is one too), ``log.syncs`` (1/s) and ``log.bytes`` (B/s)
    of the WAL, ``deadlocks`` and ``checkpoints``.
    """

    warehouses: int = 10
    """About 100 MB each, 0.6 million rows. All transactions of a warehouse queue for its row, so take 10 or more
    where concurrency matters."""
    options: dict[str, OptionValue] = {}
    """Further options of ``go-tpc tpcc run`` by their own names: ``wait`` (keying and thinking times; without them
    it is a stress test, and tpmC may exceed the standard's 12.86 for each warehouse; with them it takes 2min
    or more at a time, and cannot be ended early), ``weight``, ``isolation``, ``conn-params``,
    ``max-measure-latency``, ``conn-refresh-interval``, ``max-procs``."""

    ends_on: ClassVar[int] = signal.SIGINT
    metrics: ClassVar[tuple[str, ...]] = (*output.METRICS, *servers.COUNTED)
    by_tcp: ClassVar[bool] = True

    def problems(self) -> list[tuple[str, str]]:
        """Counts below 1, times that are no whole seconds, options that are not go-tpc's or are blocklab's."""
        return list(self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from self._counts_problems("warehouses")
        for name, value in self.options.items():
            if name not in OPTIONS.shapes:
                yield f"options.{name}", f"is not an option that can be set; those are {', '.join(OPTIONS.shapes)}"
            elif problem := _value_problem(name, value):
                yield f"options.{name}", problem
        if self.options.get("wait") is True:
            yield from self._wait_problems()

    def _wait_problems(self) -> Iterator[tuple[str, str]]:
        rule = self.rule()
        if rule is not None and rule.kind == "long":
            yield "stop", "go-tpc cannot be ended early while its threads wait (options.wait); give time: 10min"
            return
        at_once = float(self.time or 0) if rule is None else rule.at_most if rule.kind == "fixed" else rule.each
        if at_once < _LEAST_WAIT:
            why = "threads key for up to 18 s, think for 12 s on average, and only then see that it is over"
            yield "options.wait", f"with {at_once:g} s at a time: {why}; give time: 10min"

    @property
    def room(self) -> int:
        """Of the warehouses' rows, at the least."""
        return self.warehouses * _LEAST

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """``tps`` of each second so far."""
        return {"tps": output.so_far(out)}

    def data(self, port: Port) -> tuple[Step, ...]:
        """The tables; that all rows are there; nothing left to write back."""
        seconds = 300.0 + _SLOWEST * self.warehouses
        fill = tpcc_tables.fill(self._tool(port, "prepare"), port, servers.sql)
        return (
            *servers.relax(port),
            Run(port.host, fill, timeout=seconds),
            Wait(port.host, servers.sql(port, _counts(self.warehouses)), until="all rows", seconds=seconds / 10),
            *servers.settle(port, tpcc_tables.TABLES),
        )

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """What stamps go-tpc's lines with the time, and the run that warms up."""
        steps: list[Step] = []
        if self.warmup:
            warm = (*self._run(port), f"--time={int(self.warmup)}s")
            steps.append(Run(port.host, warm, timeout=self._seconds(self.warmup)))
        return tuple(steps)

    def command(self, port: Port) -> Command:
        """go-tpc with values each second, and the server's counters around it."""
        time = self.time or 0
        argv = (*self._run(port), f"--time={int(time)}s", "--interval=1s", "--output=json")
        return Command(port.host, stamped(argv), self._seconds(time), around=servers.counters(port))

    def _tool(self, port: Port, action: str, params: str = "") -> Argv:
        dsn = Dsn.of(port.where)
        # Both drivers would try TLS.
        driver, plain = ("postgres", "sslmode=disable") if port.kind == "postgresql" else ("mysql", "tls=false")
        params = f"{plain}&{params}" if params else plain
        return (
            *_program(port), "tpcc", action, f"--driver={driver}", f"--host={dsn.address}", f"--port={dsn.port}",
            f"--user={dsn.user}", f"--db={dsn.database}", f"--conn-params={params}",
            f"--warehouses={self.warehouses}",
        )  # fmt: skip

    def _run(self, port: Port) -> Argv:
        own = {name: value for name, value in self.options.items() if name != "conn-params"}
        # Without --ignore-error the first deadlock ends a thread, and go-tpc still ends well.
        return (
            *self._tool(port, "run", str(self.options.get("conn-params", ""))), f"--threads={self.clients}",
            "--ignore-error", *(f"--{name}={_text(value)}" for name, value in own.items()),
        )  # fmt: skip

    def _seconds(self, time: float) -> float:
        return time + _SPARE + (_THINKS if self.options.get("wait") else 0.0)

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """go-tpc's version, and how many warehouses the server has."""
        # Release version: v1.0.12
        release = re.compile(r"^Release version: *(\S+)", re.MULTILINE)
        return (
            version(port.host, "go-tpc", (*_program(port), "version"), lambda text: release.findall(text)[0]),
            Fact(
                port.host,
                "go-tpc",
                servers.sql(port, "SELECT COUNT(*) FROM warehouse"),
                lambda text: {"warehouses": text.strip()},
                {"warehouses": str(self.warehouses)},
            ),
        )

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``tpmc`` (1/min, new orders), ``tps`` (1/s, transactions of all kinds), ``latency.mean`` (s, of all),
        ``errors`` (1), and for each of new_order, payment, order_status, delivery and stock_level that there was
        ``<kind>.count`` (1) and ``<kind>.latency.mean|p50|p90|p95|p99|p99.9|max`` (s). ``tps`` and
        ``latency.mean`` as series too. And what the server counted: see ``servers.counted``.

        The means are exact. Percentiles and maximum are go-tpc's, whose buckets are 0.5 ms wide up to 17 ms
        and then 3 to 6 % of the value; it takes what is below 1 ms for 1 ms. Raises ``ParseError`` for output
        without a summary or without a new order.
        """
        thinks = bool(self.options.get("wait"))
        parsed = output.parsed(printed(raw), host, timed=True, thinks=thinks)
        return servers.with_counted(parsed, raw, host)


def _program(port: Port) -> Argv:
    """go-tpc; where there is a password the one that blocklab builds, which can take it from a file."""
    if not Dsn.of(port.where).passfile:
        return ("go-tpc",)
    return ("env", f"{access.GO_TPC_FILE}={access.PASSWORD}", f"{places.PROGRAMS}/go-tpc")


def _value_problem(name: str, value: OptionValue) -> str | None:
    if name == "wait":
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(value, bool):
        return "needs a value"
    if name == "weight":
        parts = str(value).split(",")
        if len(parts) != 5 or not all(part.isdigit() for part in parts) or sum(map(int, parts)) != 100:
            return "five whole numbers that add up to 100, for new_order, payment, order_status, delivery and " \
                   "stock_level; write it like 45,43,4,4,4"  # fmt: skip
        if int(parts[0]) == 0:
            return "without new orders there is no tpmC; give them a weight"
    if why := OPTIONS.problem(name, str(value)):
        return why
    for part in str(value).split("&") if name == "conn-params" else ():
        parameter, _, text = part.partition("=")
        if why := PARAMETERS.problem(parameter, text):
            return f"{parameter}: {why}"
    return None


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _counts(warehouses: int) -> str:
    """SQL that prints ``all rows`` where each table has what the standard says, else ``rows are missing``."""
    fixed = {
        "warehouse": warehouses, "district": 10 * warehouses, "customer": 30_000 * warehouses,
        "history": 30_000 * warehouses, "orders": 30_000 * warehouses, "new_order": 9_000 * warehouses,
        "stock": 100_000 * warehouses, "item": 100_000,
    }  # fmt: skip
    wanted = [f"(SELECT COUNT(*) FROM {table}) = {rows}" for table, rows in fixed.items()]
    # Orders have 5 to 15 lines.
    wanted.append("(SELECT COUNT(*) FROM order_line) = (SELECT SUM(o_ol_cnt) FROM orders)")
    return f"SELECT CASE WHEN {' AND '.join(wanted)} THEN 'all rows' ELSE 'rows are missing' END"
