"""Everything that was measured as flat tables: the one schema of values, for ``export``, ``query``, ``compare``,
and the CSV and JSON of a report.

``docs/export.md`` says the same; a test holds the two together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.predicted import PREDICTED, rows_of
from blocklab.stats.ratio import verdict
from blocklab.stats.source import Piece, Source
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.stats.versus import Pair
from blocklab.store.floor import Machine, machine_of
from blocklab.store.run import Run, load

Type = Literal["VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"]
FACTOR = "factor."


class Entry(NamedTuple):
    """What a row is made of: where it belongs, its run, and the thing itself (a ``Row``, ``Pair``, drill, ...)."""

    study: str
    stack: str
    workload: str
    levels: Mapping[str, str]
    run: Run | None = None
    item: Any = None
    judged: str | None = None
    limited: str | None = None

    @property
    def repeat(self) -> int | None:
        """From 1."""
        return None if self.run is None else self.run.cell.repeat + 1

    @property
    def environment(self) -> Mapping[str, Any]:
        """That of the run."""
        return {} if self.run is None else self.run.environment

    @property
    def machine(self) -> Machine:
        """What the run's floor would hold for."""
        return machine_of(self.environment)


class Column(msgspec.Struct, frozen=True):
    """``type`` is DuckDB's; ``says`` what the value is, its unit, and when there is none. ``of`` takes it from an
    ``Entry``: a function, or a path (``run.cell.key``) at whose end there may be nothing; without one it is the
    item's field of the column's name."""

    name: str
    type: Type
    says: str
    of: Callable[[Entry], Any] | str = ""

    @property
    def get(self) -> Callable[[Entry], Any]:
        """The function."""
        return self.of if callable(self.of) else _path(self.of or f"item.{self.name}")


def _path(path: str) -> Callable[[Entry], Any]:
    names = path.split(".")

    def get(entry: Entry) -> Any:
        found: Any = entry
        for name in names:
            found = None if found is None else getattr(found, name)
        return found

    return get


@dataclass(frozen=True)
class Table:
    """Rows in the order of the study; each has every column's name, None where there is no value."""

    name: str
    columns: tuple[Column, ...]
    entries: Iterable[Entry]

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, by the names of the columns."""
        getters = {column.name: column.get for column in self.columns}
        for entry in self.entries:
            yield {name: get(entry) for name, get in getters.items()}


_STUDY = Column("study", "VARCHAR", "the study's name; empty for a run that was copied out of its study", "study")
_PLACE = (
    Column("stack", "VARCHAR", "the stack's name in the study", "stack"),
    Column("workload", "VARCHAR", "the workload's name in the study", "workload"),
)
# Which run, in every table of runs.
WHERE = (
    _STUDY,
    Column("run", "VARCHAR", "the cell's key, which names the run's folder", "run.cell.key"),
    Column("repeat", "BIGINT", "which of the study's `repeats`, from 1", "repeat"),
    Column("machine", "VARCHAR", "identifies the machine, or all machines of the site; null where not known",
           lambda e: e.environment.get("machine") or None),
    *_PLACE,
)  # fmt: skip
_MACHINE = (
    Column("started", "DOUBLE", "when the cell began, in seconds since the epoch", "run.outcome.started"),
    Column("site", "VARCHAR", "where the nodes ran; null where not known, as all of the following",
           lambda e: e.machine.site or None),
    Column("machine_name", "VARCHAR", "the machine's name for people, which others may have too",
           lambda e: e.environment.get("name") or None),
    Column("kernel", "VARCHAR", "the host's kernel", lambda e: e.machine.kernel or None),
    Column("cpu", "VARCHAR", "the host's CPU model", lambda e: e.machine.cpu or None),
    Column("cpus", "BIGINT", "CPUs that the run could use", lambda e: e.machine.cpus or None),
    Column("image", "VARCHAR", "the node image's key, which stands for the versions of all programs in it",
           lambda e: e.machine.image or None),
    Column("seed", "BIGINT", "of the order of the cells; null for the order of the file",
           lambda e: e.environment.get("seed")),
    Column("blocklab", "VARCHAR", "blocklab's version", lambda e: e.environment.get("blocklab")),
)  # fmt: skip
STATUS = Column(
    "status",
    "VARCHAR",
    "`ok`, `invalid`, `suspect` or `failed`; only `ok` ones are compared",
    "run.outcome.status",
)
_WHAT = (
    Column("phase", "VARCHAR", "the part of the workload; empty for a workload without parts"),
    Column("metric", "VARCHAR", "e.g. `tps`, `write.iops`, `write.latency.p99`"),
)
_UNIT = Column("unit", "VARCHAR", "`s`, `1/s`, `1/min`, `B/s`, `B`, `%` or `1`")
_VALUE = (
    Column("value", "DOUBLE", "the value, in `unit`"),
    _UNIT,
    Column("half_width", "DOUBLE", "of its 95 % interval, in `unit`; null where there is none", "item.half"),
)
_RATIO = (
    Column("relative", "DOUBLE", "the ratio to the baseline's value, in `compare` to A's; null without one",
           "item.relative.value"),
    Column("relative_half_width", "DOUBLE",
           "of the ratio's 95 % interval; null where there is none or it has no end", "item.relative.half"),
    Column("verdict", "VARCHAR",
           "`differs`, `no difference shown`, `too noisy to say`, `one build` or `unlike machines`; null for the "
           "baseline itself",
           "judged"),
    Column("limited", "VARCHAR", "why the value is the lab's own; empty when it is not, null where not known; "
           "`predicted`: not measured, with a 90 % interval", "limited"),
)  # fmt: skip
_WHO = (
    Column("layer", "VARCHAR", "who measured: the workload, or a device, interface or CPU"),
    Column("host", "VARCHAR", "the node"),
    Column("own", "BOOLEAN", "whether the workload itself says so, rather than a probe or the kernel's counters"),
)  # fmt: skip
_MACHINES = Column(
    "machines",
    "BIGINT",
    "on how many machines it was measured; of several the intervals are over these",
    "item.machines",
)
_TOP = Column("top", "BOOLEAN", "whether it is of the highest block device of the stack on its active node")
METRICS = (*WHERE, *_WHAT, *_VALUE, STATUS, *_RATIO, *_WHO, _TOP, *_MACHINE)
REPORT = (_STUDY, *_PLACE, *_WHAT, *_VALUE, *_RATIO, _MACHINES, *_WHO, _TOP)
COMPARE = (
    *_PLACE, *_WHAT, _UNIT,
    Column("a", "DOUBLE", "A's value, in `unit`", "item.a.value"),
    Column("a_half_width", "DOUBLE", "of its 95 % interval; null where there is none", "item.a.half"),
    Column("b", "DOUBLE", "B's value, in `unit`", "item.b.value"),
    Column("b_half_width", "DOUBLE", "of its 95 % interval; null where there is none", "item.b.half"),
    *_RATIO, *_WHO,
    Column("repeats", "BIGINT", "in how many repeats the ratio was taken; 0: it is the ratio of the two values",
           "item.pairs"),
)  # fmt: skip
RUNS = (
    *WHERE, STATUS,
    Column("error", "VARCHAR", "why it is not `ok`; empty when it is", "run.outcome.error"),
    Column("seconds", "DOUBLE", "how long the whole cell took", "run.outcome.seconds"),
    *_MACHINE,
    Column("folder", "VARCHAR", "the run's folder", lambda e: str(e.run.folder) if e.run else None),
)  # fmt: skip
KNOBS = (
    *WHERE,
    Column("host", "VARCHAR", "the node"),
    Column("layer", "VARCHAR", "what was asked"),
    Column("name", "VARCHAR", "the knob's name"),
    Column("value", "VARCHAR", "what the running system said"),
    Column("wanted", "VARCHAR", "what the study set; null where it set nothing"),
    Column("in_force", "BOOLEAN", "whether the system has what the study set; true where it set nothing"),
)  # fmt: skip
SERIES = (
    *WHERE,
    Column("phase", "VARCHAR", "the part of the workload whose series it is; empty for probes"),
    Column("metric", "VARCHAR", "as in `metrics`"),
    Column("host", "VARCHAR", "the node"),
    Column("layer", "VARCHAR", "who measured"),
    Column("time", "DOUBLE", "seconds since the epoch; the value is of the second (or interval) that ended then",
           "item.time"),
    Column("value", "DOUBLE", "in `unit`"),
    Column("unit", "VARCHAR", "as in `metrics`"),
)  # fmt: skip
TRANSACTIONS = (
    *WHERE,
    Column("end", "DOUBLE", "when it ended, in seconds since the epoch"),
    Column("latency", "DOUBLE", "how long it took, in seconds"),
)


def _log(entry: Entry, name: str) -> int | None:
    log = entry.item.verdict.binlog
    return None if log is None or log.status == "unknown" else getattr(log, name)


def _stages(entry: Entry) -> str:
    stages = entry.item.stages
    return " ".join(f"{each.name.replace(' ', '-')}={each.end - each.start:.6f}" for each in stages)


DRILLS = (
    *WHERE, STATUS,
    Column("verdict", "VARCHAR", "`ok`, `lost` or `unknown`", "item.verdict.status"),
    Column("why", "VARCHAR", "what is wrong; empty for `ok`", "item.verdict.why"),
    Column("fault", "VARCHAR", "the faults' names in the study"),
    Column("fault_seed", "VARCHAR", "of the moment of the fault", "item.seed"),
    Column("survivor", "VARCHAR", "the node that was to take over"),
    Column("took_over", "BOOLEAN", "whether the survivor took over"),
    Column("attempted", "BIGINT", "transactions that were due", "item.verdict.attempted"),
    Column("acknowledged", "BIGINT", "transactions whose COMMIT was answered",
           "item.verdict.acknowledged"),
    Column("refused", "BIGINT", "those whose COMMIT was never sent", "item.verdict.refused"),
    Column("in_doubt", "BIGINT", "those whose COMMIT had no answer", "item.verdict.in_doubt"),
    Column("in_doubt_found", "BIGINT", "of these, those whose row is there", "item.verdict.in_doubt_found"),
    Column("missing", "BIGINT", "acknowledged ones whose row is gone: the RPO in commits",
           lambda e: len(e.item.verdict.missing)),
    Column("unexpected", "BIGINT", "rows that nobody can have committed",
           lambda e: len(e.item.verdict.unexpected)),
    Column("torn", "BIGINT", "workers whose counter does not agree with their rows",
           lambda e: len(e.item.verdict.torn)),
    Column("rpo", "DOUBLE", "seconds of commits that are gone, from the oldest one on; null where not known",
           "item.verdict.rpo_seconds"),
    Column("newest_lost", "DOUBLE", "how long before the fault the newest lost commit had been acknowledged, in "
           "seconds; null where none was lost"),
    Column("came_back", "VARCHAR", "after the fault, while watched: `rate` (90 % of that before), `writes` (less "
           "than that, or the rate before is not known), `never` (no write); null where not known"),
    Column("rto", "DOUBLE", "seconds without an acknowledgement; null where `came_back` is `never` or null",
           "item.verdict.rto_seconds"),
    Column("recovered", "DOUBLE", "seconds from the last acknowledgement before the outage to 90 % of the rate "
           "before the fault; null where `came_back` is not `rate`"),
    Column("rate", "DOUBLE", "acknowledged transactions per second until the fault"),
    Column("stages", "VARCHAR", "of the takeover, `name=seconds` with blanks between", _stages),
    Column("binlog", "VARCHAR", "the binary log and the tables: `level`, `differs`, `unknown`; null without",
           "item.verdict.binlog.status"),
    Column("behind", "BIGINT", "rows that the binary log lacks; null without one", lambda e: _log(e, "behind")),
    Column("ahead", "BIGINT", "rows that only the binary log has; null without one", lambda e: _log(e, "ahead")),
    Column("mirror", "VARCHAR",
           "both sides afterwards: `in sync`, `differs`, `split brain`, `unknown`; null without a mirror",
           "item.mirror.status"),
)  # fmt: skip
# Which tables get a column for each factor of the studies in them.
WITH_FACTORS = ("metrics", "runs", "drills", "report", "compare")
FACTORS_SAY = (
    "for each factor of a study: its level; null where it makes no difference to the cell, or the study lacks it"
)
# The tables that a query can name.
SCHEMA: Mapping[str, tuple[Column, ...]] = {
    "metrics": METRICS, "runs": RUNS, "knobs": KNOBS, "series": SERIES, "transactions": TRANSACTIONS,
    "drills": DRILLS,
}  # fmt: skip
EVERY = {**SCHEMA, "report": REPORT, "compare": COMPARE}


def factor_column(name: str) -> Column:
    """The column of a factor."""
    return Column(FACTOR + name, "VARCHAR", FACTORS_SAY, lambda entry: entry.levels.get(name))


def table(name: str, entries: Iterable[Entry], factors: Iterable[str] = ()) -> Table:
    """A table of ``EVERY`` with the columns of its factors."""
    more = map(factor_column, dict.fromkeys(factors)) if name in WITH_FACTORS else ()
    return Table(name, (*EVERY[name], *more), entries)


def metrics(sources: Sequence[Source]) -> Table:
    """A row for each value of each run, also of those that are not ``ok``."""

    def entries() -> Iterator[Entry]:
        for source in sources:
            for piece in source.pieces:
                for row in piece.rows:
                    limited = source.limited(row) if source.limited is not None else None
                    yield _of(piece)._replace(item=row, judged=_judged(row, source.baselines), limited=limited)

    return table(
        "metrics", entries(), (name for each in sources for piece in each.pieces for name in piece.levels)
    )


def of_runs(name: str, pieces: Sequence[Piece]) -> Table:
    """Any other table of runs. Raises ``StoreError`` while series and transactions are read."""
    return table(name, _entries(name, pieces), (factor for piece in pieces for factor in piece.levels))


def report(analysis: Analysis) -> Table:
    """A row for each value of a study, of all repeats together."""
    entries = (
        Entry(
            analysis.study.name, row.stack_name, row.workload_name, row.levels, None, row,
            _judged(row, analysis.grid.baselines), analysis.limit(row),
        )
        for row in analysis.rows
    )  # fmt: skip
    guessed = (
        Entry(analysis.study.name, row.stack_name, row.workload_name, row.levels, None, row, None, PREDICTED)
        for fit in analysis.fits
        for row in rows_of(fit)
    )
    return table("report", itertools.chain(entries, guessed), analysis.grid.factors)


def compare(pairs: Sequence[Pair]) -> Table:
    """A row for each value that two sides have."""
    entries = (
        Entry("", each.stack, each.workload, each.levels, None, each, each.verdict, each.limited) for each in pairs
    )
    return table("compare", entries, (name for each in pairs for name in each.levels))


def where(piece: Piece) -> dict[str, Any]:
    """The values of the columns that say which run it is."""
    return {column.name: column.get(_of(piece)) for column in WHERE}


def _of(piece: Piece) -> Entry:
    return Entry(piece.study, piece.cell.stack, piece.cell.workload, piece.levels, piece.run)


def _entries(name: str, pieces: Iterable[Piece]) -> Iterator[Entry]:
    for piece in pieces:
        items: Iterable[Any] = (None,)
        if name == "drills":
            items = (piece.run.drill,) if piece.run.drill is not None else ()
        elif name == "knobs":
            items = piece.run.knobs
        elif name == "series":
            items = load(piece.run.folder).series()
        elif name == "transactions":
            items = load(piece.run.folder).transactions
        entry = _of(piece)
        for item in items:
            yield entry._replace(item=item)


def _judged(row: Row, baselines: Sequence[str]) -> str | None:
    """What a ratio says; the baseline beside itself is no finding."""
    share: Estimate | None = row.relative
    return None if share is None or row.stack in baselines else verdict(share)
