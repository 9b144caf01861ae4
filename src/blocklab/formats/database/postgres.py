"""PostgreSQL's statistics views as psql prints them: which of them a table is, and what its rows hold as numbers.

Columns: https://www.postgresql.org/docs/18/monitoring-stats.html and the same page of 14 to 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from blocklab.formats.clock import Clock, Stamp
from blocklab.formats.database.psql import Table, TextRow, moment, tables
from blocklab.formats.found import MOST_BAD, Dump, Found
from blocklab.formats.text import Refused, Text

IO, WAL, WRITER, CHECKPOINTER, DATABASE = (
    "pg_stat_io", "pg_stat_wal", "pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_database",
)  # fmt: skip
DIRECT = "debug_io_direct"
# The columns that are counted, by view.
COLUMNS: Mapping[str, frozenset[str]] = {
    IO: frozenset({
        "reads", "read_bytes", "read_time", "writes", "write_bytes", "write_time", "extends", "extend_bytes",
        "extend_time", "op_bytes", "fsyncs", "fsync_time",
    }),
    WAL: frozenset({"wal_bytes", "wal_buffers_full", "wal_write", "wal_sync", "wal_write_time", "wal_sync_time"}),
    WRITER: frozenset({"buffers_checkpoint", "buffers_clean", "buffers_backend", "buffers_backend_fsync"}),
    CHECKPOINTER: frozenset({"buffers_written"}),
    DATABASE: frozenset({
        "xact_commit", "xact_rollback", "blks_read", "blk_read_time", "blk_write_time", "temp_bytes",
    }),
}  # fmt: skip
# One of these and the table is of that view.
_SIGNS: Mapping[str, frozenset[str]] = {
    IO: frozenset({"op_bytes", "extends", "extend_bytes", "read_bytes", "write_bytes", "writebacks", "reuses"}),
    WAL: frozenset({"wal_bytes", "wal_write", "wal_sync"}),
    WRITER: frozenset({"buffers_checkpoint", "buffers_clean", "buffers_backend"}),
    CHECKPOINTER: COLUMNS[CHECKPOINTER],
    DATABASE: frozenset({"xact_commit", "xact_rollback"}),
}
# Views of one statement, session or table have some of these columns too.
_FOREIGN = frozenset({"queryid", "query", "calls", "pid", "relname", "userid", "relid"})
_SINGLE = (WAL, WRITER, CHECKPOINTER)
# Times in milliseconds; all other columns are whole numbers.
_REAL = ("_time",)
_WAY = (
    "psql -X --csv -c 'SELECT now(), * FROM pg_stat_io' -c 'SELECT now(), * FROM pg_stat_wal' "
    "-c 'SELECT now(), * FROM pg_stat_database'"
)
_RESETS = ("stats_reset", "checksum_last_failure")
# now   clock_timestamp   current_timestamp   at   snap_time   extract (of the epoch)
_TIMES = re.compile(
    r"(now|at|ts|time|\w{0,30}timestamp|\w{0,30}_at|\w{0,30}_ts|snap\w{0,20}|sample\w{0,20}|date|date_part|extract|"
    r"epoch|localtime\w{0,6}|collect\w{0,20}|captur\w{0,20}|timeofday)"
)
# client backend|relation|bulkread|0   and the same aligned, in tabs, in CSV: rows of pg_stat_io without a header
NO_HEADER = re.compile(
    r"client backend\"?[ |│\t,;]{1,30}\"?(?:temp )?relation\"?[ |│\t,;]{1,30}\"?(?:bulk|normal|vacuum)"
)
# 1,234,567   1.234.567   1 234 567   1'234'567
_GROUPED = re.compile(r"\d{1,3}(?:([,.'\u00a0\u202f\u2019 ])\d{3})(?:\1\d{3})*")
_NULLS = frozenset(
    {"", "null", "(null)", "<null>", "[null]", "none", "n/a", "nil", "\\n", "-", "∅", "¤", "⊥", "␀", "ø"}
)


class _Part(msgspec.Struct, frozen=True):
    """One view at one moment. ``rows``: the columns of ``COLUMNS``, None for NULL; ``keys`` tells the rows of
    ``pg_stat_io`` apart; ``labels`` are their backend type, object and context, or the database's name.

    ``resets``: the ``stats_reset``; ``unset``: whether one is NULL in a row that counts something. ``wrong``: why
    it cannot be used.
    """

    view: str
    table: Table
    line: int
    rows: tuple[Mapping[str, float | None], ...]
    labels: tuple[tuple[str, ...], ...]
    stamp: Stamp | None = None
    resets: tuple[Stamp, ...] = ()
    unset: bool = False
    wrong: str = ""

    @property
    def keys(self) -> frozenset[tuple[str, ...]]:
        """Of ``pg_stat_io``, where the rows are distinguished."""
        return (
            frozenset(self.labels) if self.view == IO and any(any(each) for each in self.labels) else frozenset()
        )


class View(Dump, frozen=True, kw_only=True):
    """One view at one moment; ``counters`` are over all of its rows. ``rows``: None for NULL; ``labels`` are their
    backend type, object and context, or the database's name.

    ``own``: whether its own column tells the time, else it is that of the line ``above``. ``resets``: the
    ``stats_reset``; ``unset``: whether one is NULL in a row that counts something. ``wrong``: why it cannot be
    used.
    """

    view: str
    rows: tuple[Mapping[str, float | None], ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    own: bool = False
    above: int = 0
    resets: tuple[Stamp, ...] = ()
    unset: bool = False
    wrong: str = ""


def fits(start: str) -> bool:
    """Whether the head of a file has such a table, or the rows of one without its header."""
    if not any(each in start for each in _known()):
        return NO_HEADER.search(start) is not None
    whole, _, cut = start.rpartition("\n")
    text = Text(Path(), tuple(whole.split("\n")), cut)
    try:
        found, _ = tables(text, _known())
    except Refused:
        return True
    return any(True for _ in _parts(found)) or NO_HEADER.search(start) is not None


def read(text: Text) -> Found:
    """The counters of each view at each moment; ``settings`` have ``debug_io_direct`` where it is shown. Raises
    ``Refused``."""
    found, bad = tables(text, _known())
    every = list(_parts(found))
    if not every:
        raise Refused(_why_not(text))
    said = _truncated(every)
    if all(each.wrong for each in every):
        raise Refused("; ".join(dict.fromkeys(f"line {each.line}: {each.wrong}" for each in every)))
    stamps: list[Stamp] = []
    dumps = tuple(_view(each, stamps) for each in every)
    direct = [
        row.cells[each.columns.index(DIRECT)] for each in found if DIRECT in each.columns for row in each.rows
    ]
    return Found(
        kind="postgres-stats", path=text.path, rows=sum(len(each.rows) for each in dumps), bad=len(bad),
        bad_rows=tuple(bad[:MOST_BAD]), clock=Clock(tuple(stamps)) if stamps else None, dumps=dumps,
        settings={DIRECT: ", ".join(direct)} if direct else {}, remarks=(*text.remarks, *said),
    )  # fmt: skip


def _view(part: _Part, stamps: list[Stamp]) -> View:
    """With its time as a place among the ``stamps``: its own column's, else that of the line before it."""
    above = part.table.at
    stamp = part.stamp if part.stamp is not None else above.stamp if above is not None else None
    stamps += [stamp] if stamp is not None else []
    counters: dict[str, float] = {}
    for row in part.rows:
        for name, value in row.items():
            if value is not None:
                counters[name] = counters.get(name, 0.0) + value
    return View(
        view=part.view, counters=counters, units={name: _unit(name) for name in counters}, line=part.line,
        time=len(stamps) - 1 if stamp is not None else None, own=part.stamp is not None,
        above=above.line if above is not None else 0, rows=part.rows, labels=part.labels, resets=part.resets,
        unset=part.unset, wrong=part.wrong,
    )  # fmt: skip


def _unit(column: str) -> str:
    return "ms" if column.endswith(_REAL) else "B" if column.endswith("_bytes") else "1"


def _why_not(text: Text) -> str:
    if NO_HEADER.search(text.text):
        return f"rows without the names of their columns: print them without -t (\\t): {_WAY}"
    return f"no table of pg_stat_io, pg_stat_wal, pg_stat_bgwriter or pg_stat_database with its header: {_WAY}"


def _truncated(every: list[_Part]) -> list[str]:
    """Marks the tables that end too early, and says which are left out."""
    footers = any(each.table.counted for each in every)
    rows = {(each.view, each.keys): len(each.rows) for each in every if each.keys}
    for number, each in enumerate(every):
        if each.wrong:
            continue
        more = [keys for view, keys in rows if view == "pg_stat_io" == each.view and each.keys < keys]
        alone = len(every) == 1 and each.view in ("pg_stat_io", "pg_stat_database")
        if each.table.counted is False and (footers or alone):
            why = "it has no '(N rows)' at its end: cut? (or print it with \\pset footer on)"
        elif more and each.keys:
            why = f"it has {len(each.rows)} rows, another one here has {len(more[0])}: cut?"
        else:
            continue
        every[number] = msgspec.structs.replace(each, wrong=why, line=each.table.line)
    return [f"line {each.line}: {each.view} left out: {each.wrong}" for each in every if each.wrong]


def _known() -> frozenset[str]:
    """The columns by which a table is worth a look."""
    return frozenset({DIRECT}).union(*_SIGNS.values())


def _views(columns: Sequence[str]) -> list[str]:
    """The views that a table has columns of: several where they were joined."""
    if _FOREIGN.intersection(columns):
        return []
    return [view for view, signs in _SIGNS.items() if signs.intersection(columns)]


def _parts(found: Sequence[Table]) -> Iterator[_Part]:
    """The views in the tables, moment by moment, in their order."""
    for table in found:
        of = _views(table.columns)
        if not of:
            continue
        if table.wrong or not table.rows:
            why = table.wrong or "it has no rows"
            yield from (_Part(view, table, table.line, (), (), wrong=why) for view in of)
            continue
        at = _time_column(table)
        style = _style(table)
        rows = [(None if at is None else moment(row.cells[at]), row) for row in table.rows]
        for stamp, group in groupby(rows, key=lambda each: each[0]):
            some = [row for _, row in group]
            yield from (_part(view, table, some, stamp, style) for view in of)


def _time_column(table: Table) -> int | None:
    """The first column with a time in each row, the likely names first."""
    free = [
        number for number, name in enumerate(table.columns)
        if name not in _RESETS and not any(name in counted for counted in COLUMNS.values())
    ]  # fmt: skip
    likely = [number for number in free if _TIMES.fullmatch(table.columns[number])]
    for number in (*likely, *free):
        stamps = [moment(row.cells[number]) for row in table.rows]
        dated = number in likely or all(stamp is not None and stamp.numbers for stamp in stamps)
        if dated and all(stamp is not None for stamp in stamps):
            return number
    return None


def _style(table: Table) -> str:
    """What separates thousands, by the columns of whole numbers; empty where nothing does."""
    every = frozenset[str]().union(*COLUMNS.values())
    for number, name in enumerate(table.columns):
        if name not in every or name.endswith(_REAL):
            continue
        for row in table.rows:
            match = _GROUPED.fullmatch(row.cells[number])
            if match and match[1]:
                return match[1]
    return ""


def _number(cell: str, style: str) -> float | None:
    """Raises ``ValueError`` for what is no number at or above 0."""
    if cell.strip().lower() in _NULLS:
        return None
    plain = cell.strip()
    if style:
        plain = plain.replace(style, "")
    elif "," in plain and "." in plain:
        plain = plain.replace(min(",.", key=plain.rindex), "")
    if "," in plain:
        # The decimal comma, where the comma is not for thousands.
        plain = plain.replace(",", ".")
    if not re.fullmatch(r"\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?", plain):
        raise ValueError(f"{cell!r} is no number")
    return float(plain)


def _part(view: str, table: Table, rows: Sequence[TextRow], stamp: Stamp | None, style: str) -> _Part:
    columns = {name: number for number, name in reversed(list(enumerate(table.columns))) if name in COLUMNS[view]}
    values: list[dict[str, float | None]] = []
    for row in rows:
        try:
            values.append({name: _number(row.cells[number], style) for name, number in columns.items()})
        except ValueError as error:
            return _Part(view, table, row.line, (), (), stamp, wrong=str(error))
    labels = [_labels(view, table, row) for row in rows]
    wrong, values, labels = _single(view, values, labels)
    resets, unset = _resets(table, rows, values)
    return _Part(
        view, table, rows[0].line, tuple(values), tuple(labels), stamp, tuple(dict.fromkeys(resets)), unset, wrong
    )


def _labels(view: str, table: Table, row: TextRow) -> tuple[str, ...]:
    names = {IO: ("backend_type", "object", "context"), DATABASE: ("datname",)}.get(view, ())
    return tuple(row.cells[table.columns.index(name)] if name in table.columns else "" for name in names)


def _single(
    view: str, values: list[dict[str, float | None]], labels: list[tuple[str, ...]]
) -> tuple[str, list[dict[str, float | None]], list[tuple[str, ...]]]:
    """Rows that are there twice: of a join with a view of many rows, or damage."""
    if view in _SINGLE:
        same = all(each == values[0] for each in values)
        return ("" if same else "it has several rows without a time of their own"), values[:1], labels[:1]
    named = [each for each in labels if any(each)]
    if len(set(named)) < len(named) and all(all(each) for each in named):
        return "it has a row twice", values, labels
    return "", values, labels


def _resets(
    table: Table, rows: Sequence[TextRow], values: Sequence[Mapping[str, float | None]]
) -> tuple[list[Stamp], bool]:
    at = [number for number, name in enumerate(table.columns) if name == "stats_reset"]
    resets: list[Stamp] = []
    unset = not at
    for row, counted in zip(rows, values, strict=False):
        stamps = [moment(row.cells[number]) for number in at]
        resets += [stamp for stamp in stamps if stamp is not None]
        unset = unset or (None in stamps and any(counted.values()))
    return resets, unset
