"""pgbench: transactions on PostgreSQL. https://www.postgresql.org/docs/17/pgbench.html"""

from __future__ import annotations

import math
import re
import signal
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self, TypeAlias

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load.pgbench import summary
from blocklab.model import places
from blocklab.model.allowed import NOTHING, NUMBER, Allowed, Shape, entries, words
from blocklab.model.plan import Argv, Fact, Kind, Port, Put, Run, Step
from blocklab.model.programs import AS_POSTGRES
from blocklab.model.sample import Parsed, Phase, Sample, Transaction
from blocklab.model.units import Duration
from blocklab.model.workload import Asked, Command
from blocklab.workloads.base import Stoppable, version

FOLDER = places.work("pgbench")
# Only in this one the user of the database can write.
LOGS = f"{FOLDER}/logs"
BUILTINS = ("tpcb-like", "simple-update", "select-only")
# Its numbers and words are those that the parser knows only without a locale.
PLAIN = ("env", "LC_ALL=C")
# A backend that builds an index waits for its workers in a loop (WaitForParallelWorkersToAttach). On a node's one
# CPU that keeps them from starting, and in virtual time it stops the clock.
_ALONE = "PGOPTIONS=-c max_parallel_maintenance_workers=0"

OptionValue: TypeAlias = str | int | float | bool

_OURS = "blocklab sets it from the fields of this workload"
_SERVER = "the stack says which server"
_NO_WORKLOAD = "it ends pgbench before the workload"
_SEED = Shape("a number, or one of time, rand", f"{NUMBER.form}|time|rand")
_VARIABLE = Shape("a variable and a number like scale=10", rf"[A-Za-z_]\w*={NUMBER.form}")
_STEPS = Shape("steps of dtgGvpf", r"[dtgGvpf]+")
# Of pgbench 18 and before.
_OPTIONS = Allowed(
    "pgbench",
    {
        **entries(words("simple", "extended", "prepared"), "protocol"),
        **entries(NUMBER, "rate latency-limit max-tries sampling-rate"),
        **entries(_SEED, "random-seed"),
        **entries(_VARIABLE, "define"),
        **entries(NOTHING, """
            connect no-vacuum vacuum-all report-per-command report-latencies failures-detailed verbose-errors
            exit-on-abort
        """),
    },
    {
        **dict.fromkeys(("client", "jobs", "time", "transactions", "log", "log-prefix", "progress"), _OURS),
        **dict.fromkeys(("progress-timestamp", "scale", "builtin", "file", "initialize"), _OURS),
        **dict.fromkeys(("host", "port", "username", "dbname"), _SERVER),
        **dict.fromkeys(("help", "version", "show-script"), _NO_WORKLOAD),
        "debug": "it prints a line for each statement, which costs more than the workload",
        # Beside the script that blocklab gives, each of them would be half of the workload.
        "select-only": "give script: select-only", "skip-some-updates": "give script: simple-update",
        "aggregate-interval": "blocklab needs the whole log and aggregates it itself",
    },
)  # fmt: skip
_INIT = Allowed(
    "pgbench --initialize",
    {
        **entries(NUMBER, "fillfactor partitions"),
        **entries(words("range", "hash"), "partition-method"),
        **entries(_STEPS, "init-steps"),
        **entries(NOTHING, "foreign-keys no-vacuum quiet unlogged-tables"),
    },
    _OPTIONS.refused,
)
_OPTION = re.compile(r"[a-z][a-z0-9-]+")
_SCRIPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# pgbench's meta commands that run a program: "\shell command", "\setshell variable command". They may follow SQL
# on its line, and blanks or a continued line may stand behind the backslash: "SELECT 1; \ SHELL command".
_SHELL = re.compile(r"\\(set)?shell\b", re.IGNORECASE)

# Bytes of a branch's 100,000 accounts, without their index.
_LEAST = 12 * 2**20
# Seconds a transaction takes on the slowest stack worth a study, when all clients queue for one row.
_SLOWEST = 0.1
_SPARE = 60.0


class Pgbench(Stoppable, frozen=True, tag="pgbench"):
    """Transactions on PostgreSQL, by [pgbench](https://www.postgresql.org/docs/17/pgbench.html).

    Example::

        tx:
          workload: pgbench
          scale: 50
          clients: 10
          time: 60s
          init: {fillfactor: 90}
          options: {protocol: prepared}

    Before each workload the tables are made and a checkpoint is done.

    Options that the fields or the stack decide are refused, in shortened form too (``select-only`` and
    ``skip-some-updates`` are scripts).

    Values: ``tps`` (1/s; without the time to connect), ``latency.mean`` and ``latency.stddev`` (s),
    ``transactions``, ``failed``, ``skipped``, ``connect`` (s), and with ``log`` ``latency.p50``, ``latency.p95``,
    ``latency.p99`` and ``latency.max`` (s). Time series: ``tps`` and ``latency.mean``.
    """

    scale: int = 1
    """Branches in the tables, about 15 MiB each. With fewer branches than clients, clients wait for the same
    rows."""
    clients: int = 1
    """Connections that work at the same time."""
    jobs: int = 1
    """Threads of pgbench, at most one for each client."""
    transactions: int | None = None
    """For each client. At most one of ``transactions`` and ``time``. Rate and latencies are those until the first
    client is through: with fewer clients at work it is another workload. They need ``log``."""
    time: Duration | None = None
    """Whole seconds. Without it and ``transactions``, ``stop`` decides."""
    script: str | None = None
    """One of pgbench's own: ``tpcb-like``, ``simple-update``, ``select-only``. Without it ``tpcb-like``."""
    scripts: dict[str, str] = {}
    r"""Your own scripts instead: name to text, run with equal weight; ``:scale`` is the scale. ``\shell`` and
    ``\setshell`` are refused. On hosts of your own they run as a user who is no superuser: the server refuses
    ``COPY`` to and from files and programs."""
    log: bool = True
    """Keep a line for each transaction; percentiles need it."""
    options: dict[str, OptionValue] = {}
    """Further long options of pgbench by their names; ``true`` for one without a value: ``protocol``, ``rate``,
    ``latency-limit``, ``max-tries``, ``random-seed``, ``sampling-rate``, ``define`` (``name=number``),
    ``connect``, ``no-vacuum``, ``vacuum-all``, ``report-per-command``, ``failures-detailed``, ``verbose-errors``,
    ``exit-on-abort``."""
    init: dict[str, OptionValue] = {}
    """Further long options of ``pgbench --initialize``, likewise: ``fillfactor``, ``foreign-keys``,
    ``init-steps``, ``no-vacuum``, ``partitions``, ``partition-method``, ``unlogged-tables``."""

    takes: ClassVar[tuple[Kind, ...]] = ("postgresql",)
    metrics: ClassVar[tuple[str, ...]] = summary.METRICS
    rates: ClassVar[tuple[str, ...]] = ("tps",)
    # The alarm by which it ends itself; it has a handler for no other signal.
    ends_on: ClassVar[int] = signal.SIGALRM

    def problems(self) -> list[tuple[str, str]]:
        """Counts below 1, no end or two, unknown scripts, those that run programs, options that are blocklab's."""
        found = [
            (name, "must be at least 1")
            for name in ("scale", "clients", "jobs", "transactions")
            if getattr(self, name) is not None and getattr(self, name) < 1
        ]
        if self.transactions is not None and self.time is not None:
            found.append(("transactions", "give transactions (for each client) or time, not both"))
        found += self._stop_problems()
        if self.time is not None and (self.time < 1 or self.time % 1):
            found.append(("time", f"{self.time}: pgbench counts in whole seconds, at least 1s"))
        if self.jobs > self.clients:
            found.append(("jobs", f"{self.jobs} threads for {self.clients} clients; give at most one for each"))
        found += self._script_problems()
        for where, options, allowed in (("options", self.options, _OPTIONS), ("init", self.init, _INIT)):
            found += (
                (f"{where}.{name}", why)
                for name, value in options.items()
                if (why := _option_problem(name, value, allowed))
            )
        if not _is_rate(rate := self.options.get("rate", False)):
            found.append(("options.rate", f"{rate}: give transactions a second of all clients, a number above 0"))
        return found

    def _script_problems(self) -> Iterator[tuple[str, str]]:
        if self.script is not None and self.script not in BUILTINS:
            yield "script", f"{self.script!r} is not one of {', '.join(BUILTINS)}; your own go into scripts"
        if self.script is not None and self.scripts:
            yield "scripts", "give script or scripts, not both"
        for name, text in self.scripts.items():
            if _SCRIPT.fullmatch(name) is None:
                yield "scripts", f"{name!r} is not a name for a script; use letters, digits and . _ -"
            if _SHELL.search(_close(text)):
                yield f"scripts.{name}", "\\shell and \\setshell run programs; blocklab never does"

    def lasts(self) -> float | None:
        """``time``; unknown for a number of transactions."""
        return None if self.time is None else float(self.time)

    def _timed(self) -> bool:
        return self.time is not None or self.transactions is not None

    @property
    def sessions(self) -> int:
        return self.clients

    @property
    def room(self) -> int:
        """Of the accounts; nothing where ``init`` says by itself which steps make the tables."""
        return 0 if any(name.startswith("init") for name in self.init) else self.scale * _LEAST

    def asked_rates(self) -> Mapping[str, Asked]:
        """The option ``rate``: pgbench's own schedule, a Poisson process; its latencies count from that."""
        rate = self.options.get("rate", False)
        seconds = None if self.time is None else float(self.time)
        return {"": Asked({"tps": float(rate)}, seconds)} if rate else {}

    def trials(self, seconds: float) -> Mapping[str, Self]:
        return {"": msgspec.structs.replace(self, time=Duration(f"{seconds}s"), stop=None)}

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """``tps`` of each second so far."""
        series = summary.series(err[: err.rfind(b"\n") + 1], "", 0.0)
        return {"tps": [each.value for each in series if each.metric == "tps"]}

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """The tables (which ends with a VACUUM), and a checkpoint, so that a workload starts with nothing left to
        write back."""
        tables = (
            *AS_POSTGRES, *PLAIN, _ALONE, "pgbench", "--initialize", "--quiet", f"--scale={self.scale}",
            *_arguments(self.init), port.where,
        )  # fmt: skip
        checkpoint = (*AS_POSTGRES, "psql", "-X", "-q", "-c", "CHECKPOINT", port.where)
        return (
            # 15 MiB of tables and as much of log for each unit of scale, at 1 MiB/s
            Run(port.host, tables, timeout=300.0 + 30.0 * self.scale),
            Run(port.host, checkpoint, timeout=300.0 + 15.0 * self.scale),
        )

    def arm(self, port: Port) -> tuple[Step, ...]:
        """An empty folder for the log, and the scripts."""
        owned = ("install", "-d", "-m", "700", "-o", "postgres", "-g", "postgres", LOGS)
        return (
            Run(port.host, ("rm", "-rf", FOLDER), undo=("rm", "-rf", FOLDER)),
            Run(port.host, owned),
            *(Put(port.host, _path(name), text) for name, text in self.scripts.items()),
        )

    def command(self, port: Port) -> Command:
        """pgbench with a progress line each second; each of its threads logs into a file of its own."""
        if self.time is not None:
            length, seconds = f"--time={int(self.time)}", float(self.time)
        else:
            each = self.transactions or 0
            # A rate is for all clients together.
            rate = self.options.get("rate", 0)
            slowest = max(_SLOWEST, 2 / float(rate) if rate else 0.0)
            length, seconds = f"--transactions={each}", each * self.clients * slowest
        argv = [
            *AS_POSTGRES, *PLAIN, "pgbench", f"--client={self.clients}", f"--jobs={self.jobs}", length,
            "--progress=1", "--progress-timestamp",
        ]  # fmt: skip
        if self.log:
            argv += ["--log", f"--log-prefix={LOGS}/log"]
        if self.scripts:
            # pgbench would clean up tables that these scripts may not use
            # and :scale is known by itself only to its own scripts.
            argv += ["--no-vacuum", f"--scale={self.scale}", *(f"--file={_path(name)}" for name in self.scripts)]
        else:
            argv.append(f"--builtin={self.script or BUILTINS[0]}")
        argv += [*_arguments(self.options), port.where]
        return Command(port.host, tuple(argv), seconds + _SPARE, (f"{LOGS}/log.*",) if self.log else ())

    def facts(self, port: Port) -> tuple[Fact, ...]:
        # "pgbench (PostgreSQL) 17.11 (Debian 17.11-0+deb13u1)"
        ask = ("pgbench", "--version")
        return (version(port.host, "pgbench", ask, lambda text: text.partition(") ")[2].strip()),)

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``tps`` (1/s), ``latency.mean``, ``latency.stddev``, with a log ``latency.p50|p95|p99|max`` (s),
        ``transactions``, ``failed``, ``skipped`` (1), ``connect`` (s), and ``tps`` and ``latency.mean`` as series.

        Raises ``ParseError`` for a summary that is missing or incomplete, or a log that is not one.
        """
        # It needs numpy, which a command that parses nothing should not have to wait for.
        from blocklab.formats.load.pgbench import single

        logs = [text for name, text in raw.items() if re.fullmatch(r"log\.\d+(\.\d+)?", name)]
        transactions = single.transactions(logs)
        samples = summary.values(raw["stdout"], raw.get("stderr", b""), host)
        start = min((each.end - each.latency for each in transactions), default=None)
        series = summary.series(raw.get("stderr", b""), host, start)
        if self.transactions is not None and self.clients > 1 and start is not None:
            through = single.first_through(logs)
            transactions = tuple(each for each in transactions if each.end <= through)
            series = [each for each in series if each.time is None or each.time <= through]
            samples = _until(samples, transactions, start)
        if self.log:
            samples += percentiles(transactions, host)
        times = [each.time for each in series if each.time is not None]
        if transactions and start is not None:
            phases: tuple[Phase, ...] = (Phase("pgbench", start, transactions[-1].end),)
        else:
            # A progress line is printed at the end of its second.
            phases = (Phase("pgbench", times[0] - 1, times[-1]),) if times else ()
        return Parsed((*samples, *series), phases, transactions)


def _until(samples: Sequence[Sample], done: Sequence[Transaction], start: float) -> list[Sample]:
    """A summary with the rate and the latencies of those that are ``done`` alone, of which the first began at
    ``start``; counts stay those of the whole run."""
    times = [each.latency for each in done]
    known = {
        "tps": len(done) / (done[-1].end - start), "latency.mean": statistics.fmean(times),
        "latency.stddev": statistics.pstdev(times),
    }  # fmt: skip
    return [msgspec.structs.replace(each, value=known.get(each.metric, each.value)) for each in samples]


def percentiles(done: Sequence[Transaction], host: str) -> list[Sample]:
    """``latency.p50|p95|p99|max`` (s), each the latency of a transaction (nearest rank). Raises ``ParseError``."""
    if not done:
        raise ParseError(
            "pgbench", "no transaction in its log", hint="was the log fetched? set log: false without"
        )
    ordered = sorted(each.latency for each in done)
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return [
        Sample(f"latency.{name}", ordered[math.ceil(len(ordered) * rank) - 1], "s", summary.LAYER, host)
        for name, rank in ranks.items()
    ]


def _path(script: str) -> str:
    return f"{FOLDER}/{script}.sql"


def _close(text: str) -> str:
    """A script without the blanks and line ends around its backslashes."""
    return "\\".join(part.strip() for part in text.split("\\"))


def _option_problem(name: str, value: OptionValue, allowed: Allowed) -> str | None:
    if _OPTION.fullmatch(name) is None:
        return "write a long option by its own name, without dashes before it, e.g. protocol"
    # getopt takes "prog" for "progress"
    whole = next((other for other in (*allowed.shapes, *allowed.refused) if other.startswith(name)), name)
    shape = allowed.shape(name)
    if isinstance(value, bool) and (shape is None or shape is NOTHING or not value):
        return allowed.problem(whole, "") if shape is None else None
    return allowed.problem(name if shape else whole, str(value))


def _is_rate(value: OptionValue) -> bool:
    if isinstance(value, bool):
        return not value
    try:
        return 0 < float(value) < math.inf
    except ValueError:
        return False


def _arguments(options: Mapping[str, OptionValue]) -> Argv:
    """Long options as arguments; ``False`` leaves one out."""
    return tuple(
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in options.items()
        if value is not False
    )
