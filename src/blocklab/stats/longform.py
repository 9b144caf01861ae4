"""Everything that was measured as flat tables: the schema of ``blocklab export`` and ``blocklab query``.

``docs/export.md`` says the same; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from blocklab.model.drill import Drill
from blocklab.stats.ratio import verdict
from blocklab.stats.source import Piece, Source
from blocklab.stats.values import Row
from blocklab.store.floor import machine_of
from blocklab.store.run import load

Type = Literal["VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"]
FACTOR = "factor."


class Column(msgspec.Struct, frozen=True):
    """``type`` is DuckDB's; ``says`` what the value is, its unit, and when there is none."""

    name: str
    type: Type
    says: str


@dataclass(frozen=True)
class Table:
    """Rows in the order of the study; each has every column's name, None where there is no value."""

    name: str
    columns: tuple[Column, ...]
    rows: Iterable[Mapping[str, Any]]


# Which run, in every table.
WHERE = (
    Column("study", "VARCHAR", "the study's name; empty for a run that was copied out of its study"),
    Column("run", "VARCHAR", "the cell's key, which names the run's folder"),
    Column("repeat", "BIGINT", "which of the study's `repeats`, from 1"),
    Column("stack", "VARCHAR", "the stack's name in the study"),
    Column("workload", "VARCHAR", "the workload's name in the study"),
)
_MACHINE = (
    Column("started", "DOUBLE", "when the cell began, in seconds since the epoch"),
    Column("site", "VARCHAR", "where the nodes ran; null where not known, as all of the following"),
    Column("kernel", "VARCHAR", "the host's kernel"),
    Column("cpu", "VARCHAR", "the host's CPU model"),
    Column("cpus", "BIGINT", "CPUs that the run could use"),
    Column("image", "VARCHAR", "the node image's key, which stands for the versions of all programs in it"),
    Column("seed", "BIGINT", "of the order of the cells; null for the order of the file"),
    Column("blocklab", "VARCHAR", "blocklab's version"),
)
_STATUS = Column("status", "VARCHAR", "`ok`, `invalid`, `suspect` or `failed`; only `ok` ones are compared")
METRICS = (
    *WHERE,
    Column("phase", "VARCHAR", "the part of the workload; empty for a workload without parts"),
    Column("metric", "VARCHAR", "e.g. `tps`, `write.iops`, `write.latency.p99`"),
    Column("value", "DOUBLE", "the value, in `unit`"),
    Column("unit", "VARCHAR", "`s`, `1/s`, `1/min`, `B/s`, `B`, `%` or `1`"),
    Column("half_width", "DOUBLE", "of the 95 % interval within the run, in `unit`; null where there is none"),
    _STATUS,
    Column("relative", "DOUBLE", "the ratio to the baseline's value in the same repeat; null without one"),
    Column("relative_half_width", "DOUBLE",
           "of the ratio's 95 % interval; null where there is none or it has no end"),
    Column("verdict", "VARCHAR",
           "`differs`, `no difference shown`, `too noisy to say` or `no interval`; null for the baseline itself"),
    Column("limited", "VARCHAR", "why the value is the lab's own; empty when it is not, null where not known"),
    Column("layer", "VARCHAR", "who measured: the workload, or a device, interface or CPU"),
    Column("host", "VARCHAR", "the node"),
    Column("own", "BOOLEAN", "whether the workload itself says so, rather than a probe or the kernel's counters"),
    Column("top", "BOOLEAN", "whether it is of the highest block device of the stack on its active node"),
    *_MACHINE,
)  # fmt: skip
RUNS = (
    *WHERE, _STATUS,
    Column("error", "VARCHAR", "why it is not `ok`; empty when it is"),
    Column("seconds", "DOUBLE", "how long the whole cell took"),
    *_MACHINE,
    Column("folder", "VARCHAR", "the run's folder"),
)  # fmt: skip
KNOBS = (
    *WHERE,
    Column("host", "VARCHAR", "the node"),
    Column("layer", "VARCHAR", "what was asked"),
    Column("name", "VARCHAR", "the knob's name"),
    Column("value", "VARCHAR", "what the running system said"),
    Column("wanted", "VARCHAR", "what the study set; null where it set nothing"),
    Column("in_force", "BOOLEAN", "whether the system has what the study set; true where it set nothing"),
)
SERIES = (
    *WHERE,
    Column("phase", "VARCHAR", "the part of the workload whose series it is; empty for probes"),
    Column("metric", "VARCHAR", "as in `metrics`"),
    Column("host", "VARCHAR", "the node"),
    Column("layer", "VARCHAR", "who measured"),
    Column("time", "DOUBLE", "seconds since the epoch; the value is of the second (or interval) that ended then"),
    Column("value", "DOUBLE", "in `unit`"),
    Column("unit", "VARCHAR", "as in `metrics`"),
)
TRANSACTIONS = (
    *WHERE,
    Column("end", "DOUBLE", "when it ended, in seconds since the epoch"),
    Column("latency", "DOUBLE", "how long it took, in seconds"),
)
DRILLS = (
    *WHERE, _STATUS,
    Column("verdict", "VARCHAR", "`ok`, `lost` or `unknown`"),
    Column("why", "VARCHAR", "what is wrong; empty for `ok`"),
    Column("fault", "VARCHAR", "the faults' names in the study"),
    Column("took_over", "BOOLEAN", "whether the survivor took over"),
    Column("acknowledged", "BIGINT", "transactions that the client was told are committed"),
    Column("refused", "BIGINT", "those whose COMMIT was never sent"),
    Column("in_doubt", "BIGINT", "those whose COMMIT had no answer"),
    Column("in_doubt_found", "BIGINT", "of these, those whose row is there"),
    Column("missing", "BIGINT", "acknowledged ones whose row is gone: the RPO in commits"),
    Column("unexpected", "BIGINT", "rows that nobody can have committed"),
    Column("torn", "BIGINT", "workers whose counter does not agree with their rows"),
    Column("rpo", "DOUBLE", "seconds of commits that are gone; null where not known"),
    Column("rto", "DOUBLE", "seconds without an acknowledgement; null where none came any more"),
    Column("rate", "DOUBLE", "acknowledged transactions per second until the fault"),
    Column("binlog", "VARCHAR", "the binary log and the tables: `level`, `differs`, `unknown`; null without"),
    Column("behind", "BIGINT", "rows that the binary log lacks; null without one"),
    Column("ahead", "BIGINT", "rows that only the binary log has; null without one"),
    Column("mirror", "VARCHAR",
           "both sides afterwards: `in sync`, `differs`, `split brain`, `unknown`; null without a mirror"),
)  # fmt: skip
# Which tables get a column for each factor of the studies in them.
WITH_FACTORS = ("metrics", "runs", "drills")
FACTORS = Column(
    f"{FACTOR}NAME", "VARCHAR",
    "for each factor of a study: its level; null where it makes no difference to the cell, or the study lacks it",
)  # fmt: skip
SCHEMA: Mapping[str, tuple[Column, ...]] = {
    "metrics": METRICS, "runs": RUNS, "knobs": KNOBS, "series": SERIES, "transactions": TRANSACTIONS,
    "drills": DRILLS,
}  # fmt: skip


def metrics(sources: Sequence[Source]) -> Table:
    """A row for each value of each run, also of those that are not ``ok``."""
    names = factors(piece for source in sources for piece in source.pieces)

    def rows() -> Iterator[dict[str, Any]]:
        for source in sources:
            for piece in source.pieces:
                common = {**where(piece), **_machine(piece), **_levels(piece, names)}
                for row in piece.rows:
                    limited = source.limited(row) if source.limited is not None else None
                    yield {**common, **_metric(row, piece, source.baselines), "limited": limited}

    return Table("metrics", (*METRICS, *_columns(names)), rows())


def runs(pieces: Sequence[Piece]) -> Table:
    """A row for each run."""
    names = factors(pieces)

    def rows() -> Iterator[dict[str, Any]]:
        for piece in pieces:
            outcome = piece.run.outcome
            yield {
                **where(piece), "status": outcome.status, "error": outcome.error, "seconds": outcome.seconds,
                **_machine(piece), "folder": str(piece.run.folder), **_levels(piece, names),
            }  # fmt: skip

    return Table("runs", (*RUNS, *_columns(names)), rows())


def knobs(pieces: Sequence[Piece]) -> Table:
    """A row for each knob of each run."""
    return Table("knobs", KNOBS, _each(pieces, _knobs))


def series(pieces: Sequence[Piece]) -> Table:
    """A row for each point of each series. Raises ``StoreError`` while it is read."""
    return Table("series", SERIES, _each(pieces, _points))


def transactions(pieces: Sequence[Piece]) -> Table:
    """A row for each transaction that a workload logged. Raises ``StoreError`` while it is read."""
    return Table("transactions", TRANSACTIONS, _each(pieces, _ends))


def drills(pieces: Sequence[Piece]) -> Table:
    """A row for each drill."""
    names = factors(pieces)
    rows = (
        {**where(piece), "status": piece.run.outcome.status, **_drill(piece.run.drill), **_levels(piece, names)}
        for piece in pieces
        if piece.run.drill is not None
    )
    return Table("drills", (*DRILLS, *_columns(names)), rows)


def _drill(drill: Drill) -> dict[str, Any]:
    verdict, log = drill.verdict, drill.verdict.binlog
    known = log is not None and log.status != "unknown"
    return {
        "verdict": verdict.status, "why": verdict.why, "fault": drill.fault, "took_over": drill.took_over,
        "acknowledged": verdict.acknowledged, "refused": verdict.refused, "in_doubt": verdict.in_doubt,
        "in_doubt_found": verdict.in_doubt_found, "missing": len(verdict.missing),
        "unexpected": len(verdict.unexpected), "torn": len(verdict.torn), "rpo": verdict.rpo_seconds,
        "rto": verdict.rto_seconds, "rate": drill.rate, "binlog": log.status if log else None,
        "behind": log.behind if log and known else None, "ahead": log.ahead if log and known else None,
        "mirror": drill.mirror.status if drill.mirror else None,
    }  # fmt: skip


def _each(pieces: Iterable[Piece], what: Callable[[Piece], Iterable[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        common = where(piece)
        for row in what(piece):
            yield {**common, **row}


def _knobs(piece: Piece) -> Iterator[dict[str, Any]]:
    for knob in piece.run.knobs:
        yield {**msgspec.structs.asdict(knob), "in_force": knob.in_force}


def _points(piece: Piece) -> Iterator[dict[str, Any]]:
    for sample in load(piece.run.folder).series():
        yield msgspec.structs.asdict(sample)


def _ends(piece: Piece) -> Iterator[dict[str, Any]]:
    for each in load(piece.run.folder).transactions:
        yield {"end": each.end, "latency": each.latency}


def factors(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """The factors of all runs, in the order in which they come."""
    return tuple(dict.fromkeys(name for piece in pieces for name in piece.levels))


def _columns(names: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(FACTOR + name, "VARCHAR", FACTORS.says) for name in names)


def _levels(piece: Piece, names: Sequence[str]) -> dict[str, str | None]:
    return {FACTOR + name: piece.levels.get(name) for name in names}


def where(piece: Piece) -> dict[str, Any]:
    """The values of the columns that say which run it is."""
    cell = piece.cell
    return {
        "study": piece.study, "run": cell.key, "repeat": cell.repeat + 1, "stack": cell.stack,
        "workload": cell.workload,
    }  # fmt: skip


def _machine(piece: Piece) -> dict[str, Any]:
    environment = piece.run.environment
    machine = machine_of(environment)
    return {
        "started": piece.run.outcome.started, "site": machine.site or None, "kernel": machine.kernel or None,
        "cpu": machine.cpu or None, "cpus": machine.cpus or None, "image": machine.image or None,
        "seed": environment.get("seed"), "blocklab": environment.get("blocklab"),
    }  # fmt: skip


def _metric(row: Row, piece: Piece, baselines: Sequence[str]) -> dict[str, Any]:
    share = row.relative
    # The baseline beside itself is no finding.
    judged = None if share is None or row.stack in baselines else verdict(share)
    return {
        "phase": row.phase, "metric": row.metric, "value": row.value, "unit": row.unit, "half_width": row.half,
        "status": piece.run.outcome.status, "relative": None if share is None else share.value,
        "relative_half_width": None if share is None else share.half,
        "verdict": judged,
        "layer": row.layer, "host": row.host, "own": row.own, "top": row.top,
    }  # fmt: skip
