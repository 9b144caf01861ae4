"""Tables as Parquet files, by DuckDB: a run's samples and transactions, and whatever is exported."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from blocklab.errors import StoreError, Unreadable
from blocklab.model import outside
from blocklab.model.sample import Parsed, Sample, Transaction

# To import it takes a third of a second, which commands that read no runs do not need: hence in the functions.
if TYPE_CHECKING:
    import duckdb

SAMPLES = {
    "metric": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "layer": "VARCHAR", "host": "VARCHAR",
    "phase": "VARCHAR", "time": "DOUBLE",
}  # fmt: skip
# Otherwise a folder like host=db1 above the file would be a column of it, with that value in every row.
AS_IS = "hive_partitioning = false"
_ROWS = 50_000
T = TypeVar("T")
# Host, layer, metric, phase.
Key = tuple[str, str, str, str]
# A row for each value's name and each series of a run, with what ``_GROUPED`` selects.
Groups = list[tuple[Any, ...]]
# Where a point of a series stood in the file matters to nobody.
_GROUPED = (
    "metric, unit, layer, host, phase, time IS NULL, list(value), list(time), "
    "list(file_row_number) FILTER (WHERE time IS NULL)"
)


class Series(msgspec.Struct, frozen=True):
    """A series: (seconds since the epoch, value in ``unit``), by time."""

    unit: str
    points: list[tuple[float, float]]


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database in memory with one thread, which installs and loads nothing by itself."""
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_file_cache": False,
        },
    )


@functools.cache
def _own() -> duckdb.DuckDBPyConnection:
    # To connect takes longer than to read a small file.
    return connect()


def write(folder: Path, parsed: Parsed) -> None:
    """``samples.parquet`` and ``transactions.parquet`` of a run. Raises ``OSError``."""
    # What is left out in a line (msgspec's omit_defaults) comes as NULL.
    phase = {**dict.fromkeys(SAMPLES, ""), "phase": "coalesce(phase, '')"}
    said = ", ".join(f'{text or name} AS "{name}"' for name, text in phase.items())
    to_parquet(folder / "samples.parquet", parsed.samples, SAMPLES, said)
    pair = 'json[1] AS "end", json[2] AS latency'
    to_parquet(folder / "transactions.parquet", parsed.transactions, {"json": "DOUBLE[]"}, pair)


def samples(folder: Path) -> tuple[Sample, ...]:
    """The samples of a run. Raises ``StoreError``."""
    # Grouped, since a run has thousands of points and few names: a text for each would take most of the time.
    names = "metric, unit, layer, host, phase"
    lists = "list(value), list(time), list(file_row_number)"
    groups = _read(folder / "samples.parquet", f"{names}, {lists}", "GROUP BY ALL")
    found: list[Any] = [None] * sum(len(values) for *_, values in groups)
    for metric, unit, layer, host, phase, values, times, places in groups:
        for value, time, place in zip(values, times, places, strict=True):
            found[place] = Sample(metric, value, unit, layer, host, phase, time)
    return tuple(found)


def series_by_name(folder: Path, groups: Groups | None = None) -> tuple[tuple[Sample, ...], dict[Key, Series]]:
    """The values of a run, and its series by host, layer, metric and phase. Raises ``StoreError``.

    For those who read many runs: a ``Sample`` for each point would take most of the time and of the memory.
    ``groups``: what ``ahead`` has of it.
    """
    if groups is None:
        groups = _read(folder / "samples.parquet", _GROUPED, "GROUP BY ALL")
    found: dict[Key, Series] = {}
    for metric, unit, layer, host, phase, whole, values, times, _ in groups:
        if not whole:
            series = found.setdefault((host, layer, metric, phase), Series(unit, []))
            series.points.extend(zip(times, values, strict=True))
    placed = [
        (place, Sample(metric, value, unit, layer, host, phase))
        for metric, unit, layer, host, phase, whole, values, _, places in groups
        if whole
        for value, place in zip(values, places, strict=True)
    ]
    values = [each for _, each in sorted(placed, key=lambda pair: pair[0])]
    for series in found.values():
        series.points.sort()
    return tuple(values), found


def ahead(folders: Sequence[Path]) -> Mapping[Path, Groups]:
    """What ``time series`` reads of these runs, by one query: for one each DuckDB takes longer than for what is in
    it.

    Nothing of any where one of them cannot be read: which one it is, and why, ``time series`` says.
    """
    import duckdb

    paths = {str(path): path.parent for folder in folders if (path := folder / "samples.parquet").is_file()}
    found: dict[Path, Groups] = {}
    try:
        for name, *group in _rows(list(paths), f"filename, {_GROUPED}", "GROUP BY ALL") if paths else ():
            found.setdefault(paths[name], []).append(tuple(group))
    except (duckdb.Error, KeyError):
        return {}
    return found


def transactions(folder: Path) -> tuple[Transaction, ...]:
    """The transactions of a run. Raises ``StoreError``."""
    return tuple(itertools.starmap(Transaction, _read(folder / "transactions.parquet", '"end", latency')))


def again(path: Path) -> str:
    """The hint for a run's file that cannot be read. An import has no cell that could be measured again."""
    if (path.parent / "files.json").exists():
        return "remove the folder, and `blocklab import` the logs again"
    return "remove the folder; the next `blocklab run` or `resume` of the study measures the cell again"


def to_parquet(path: Path, rows: Iterable[Any], columns: Mapping[str, str], select: str = "*") -> None:
    """Write rows (structs or dicts) as Parquet. ``columns`` has DuckDB's types; ``select`` what becomes of them.

    Raises ``OSError``.
    """
    import duckdb

    draft = path.with_name(f".{path.name}.{os.getpid()}.jsonl")
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        encoder = msgspec.json.Encoder()
        with draft.open("wb") as file:
            for some in batches(rows):
                file.write(encoder.encode_lines(some))
        types = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns.items())
        source = (
            f"read_json({quoted(str(draft))}, {AS_IS}, format='newline_delimited', records={'json' not in columns}"
        )
        _own().execute(
            f"COPY (SELECT {select} FROM {source}, columns={{{types}}})) TO {quoted(str(made))} "
            "(FORMAT parquet, COMPRESSION zstd)"
        )
        made.replace(path)
    except duckdb.Error as error:
        raise OSError(f"{path}: {first_line(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
            made.unlink(missing_ok=True)


def batches(rows: Iterable[T]) -> Iterator[list[T]]:
    """Rows in lists that are short beside the memory of a machine."""
    source = iter(rows)
    while some := list(itertools.islice(source, _ROWS)):
        yield some


def _read(path: Path, select: str, more: str = "") -> list[tuple[Any, ...]]:
    import duckdb

    try:
        # DuckDB would wait for a FIFO's writer.
        outside.opened(path).close()
        return _rows([str(path)], select, more)
    except Unreadable as error:
        raise StoreError(f"{path} cannot be read: {error.problem}", hint=again(path)) from error
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be read: {first_line(error)}", hint=again(path)) from error


def _rows(paths: Sequence[str], select: str, more: str) -> list[tuple[Any, ...]]:
    files = ", ".join(map(quoted, paths))
    source = f"read_parquet([{files}], {AS_IS}, file_row_number = true, filename = true)"
    return _own().execute(f"SELECT {select} FROM {source} {more}").fetchall()


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def first_line(error: duckdb.Error) -> str:
    """What DuckDB says, without the place in a statement that the user did not write."""
    return str(error).partition("\n")[0]
