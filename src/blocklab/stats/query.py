"""SQL over all runs by DuckDB: those of the tables of ``stats.longform`` that a query names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from blocklab.errors import StoreError, StudyError
from blocklab.stats import longform
from blocklab.stats.longform import SCHEMA, Table
from blocklab.stats.source import Piece, heads, sources, studies
from blocklab.store.tables import AS_IS, connect, quoted, to_parquet

T = TypeVar("T")
_FILES = {"series": "samples.parquet", "transactions": "transactions.parquet"}

if TYPE_CHECKING:
    import duckdb


class Answer(NamedTuple):
    """What a query gave: the names of the columns, and the rows. ``left_out`` says which studies and runs are not
    in it, and why."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    left_out: Sequence[str]


def query(sql: str, runs: Path, scratch: Path) -> Answer:
    """Run one SELECT over all studies below ``runs``; ``scratch`` is an empty folder for what it needs meanwhile.

    The database is in memory, installs nothing, and sees no file but those of the tables. Raises ``StudyError``
    for what DuckDB does not take, ``StoreError`` when ``runs`` holds no runs.
    """
    import duckdb

    with connect() as database:
        database.execute("SET python_enable_replacements = false")
        wanted = _tables(database, sql)
        known = Tables(runs)
        files = [file for name in SCHEMA if name in wanted for file in _make(database, known, name, scratch)]
        if files:
            database.execute(f"SET allowed_paths = [{', '.join(quoted(file) for file in files)}]")
        for setting in ("enable_external_access = false", "lock_configuration = true"):
            database.execute(f"SET {setting}")
        try:
            done = database.execute(sql)
            return Answer([each[0] for each in done.description or ()], done.fetchall(), known.left_out)
        except (duckdb.Error, RuntimeError) as error:
            raise _refused(str(error)) from error


def _tables(database: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """The tables that one SELECT may mean: those whose names are words of it. Raises ``StudyError`` for anything
    that is no single SELECT."""
    import duckdb

    try:
        kinds = [each.type for each in database.extract_statements(sql)]
    except (duckdb.Error, RuntimeError) as error:
        raise _refused(str(error)) from error
    if kinds != [duckdb.StatementType.SELECT]:
        raise _refused("one SELECT at a time, and nothing else: the runs are read only")
    # DuckDB's own list of the names takes a query for wrong whose tables are not there yet (JOIN ... USING).
    return SCHEMA.keys() & {word.lower() for word in re.findall(r"\w+", sql)}


def _refused(said: str) -> StudyError:
    text = " ".join(said.partition("\n")[0].split())
    return StudyError(
        "", f"SQL: {text}", hint=f"tables: {', '.join(SCHEMA)}; `blocklab query --tables` has their columns"
    )


class Tables:
    """The tables of the studies below a folder, or of one study or run, each read at most once for its runs.
    ``left_out`` says which studies and runs are not in them, and why. Raises ``StoreError`` without any."""

    def __init__(self, path: Path) -> None:
        alone = (path / "study.json").is_file() or (path / "cell.json").is_file()
        self._folders = [path] if alone else studies(path)
        self._pieces: list[Piece] | None = None
        self.left_out: list[str] = []

    def table(self, name: str) -> Table:
        """One table of the schema."""
        if name == "metrics":
            every = [source for found in self._each(sources) for source in found]
            self._leave_out(text for source in every for text in source.unreadable)
            return longform.metrics(every)
        return longform.of_runs(name, self.pieces())

    def pieces(self) -> list[Piece]:
        """The runs without their values."""
        if self._pieces is None:
            every = self._each(heads)
            self._leave_out(text for _, unreadable in every for text in unreadable)
            self._pieces = [piece for pieces, _ in every for piece in pieces]
        return self._pieces

    def _each(self, read: Callable[[Path], T]) -> list[T]:
        found = []
        for folder in self._folders:
            try:
                found.append(read(folder))
            except StoreError as error:
                if len(self._folders) == 1:
                    raise
                self._leave_out([error.message])
        return found

    def _leave_out(self, texts: Iterable[str]) -> None:
        self.left_out += [text for text in dict.fromkeys(texts) if text not in self.left_out]


def _make(database: duckdb.DuckDBPyConnection, known: Tables, name: str, scratch: Path) -> list[str]:
    """Make a table, or a view of the runs' own files; the files that the view reads."""
    if name not in _FILES:
        _load(database, known.table(name), scratch, name)
        return []
    files = {str(piece.run.folder / _FILES[name]): piece for piece in known.pieces()}
    _load(database, longform.table(name, ()), scratch, f"no_{name}")
    view = f'SELECT * FROM "no_{name}"'
    if files:
        where = [{"file": file, **longform.where(piece)} for file, piece in files.items()]
        types = {"file": "VARCHAR"} | {column.name: column.type for column in longform.WHERE}
        _insert(database, scratch, f"files_of_{name}", where, types)
        own = [column.name for column in SCHEMA[name]]
        picked = ", ".join(f'{"f" if each in types else "s"}."{each}"' for each in own)
        keep = " WHERE s.time IS NOT NULL" if name == "series" else ""
        view += (
            f" UNION ALL SELECT {picked} FROM read_parquet([{', '.join(quoted(file) for file in files)}], "
            f"{AS_IS}, filename = true) s JOIN files_of_{name} f ON s.filename = f.file{keep}"
        )
    database.execute(f'CREATE VIEW "{name}" AS {view}')
    return list(files)


def _load(database: duckdb.DuckDBPyConnection, table: Table, scratch: Path, name: str) -> None:
    _insert(database, scratch, name, table.rows, {column.name: column.type for column in table.columns})


def _insert(
    database: duckdb.DuckDBPyConnection, scratch: Path, name: str, rows: Any, types: Mapping[str, str]
) -> None:
    file = scratch / f"{name}.parquet"
    try:
        to_parquet(file, rows, types)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error}", hint="make room, or set TMPDIR") from error
    database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_parquet({quoted(str(file))}, {AS_IS})')
