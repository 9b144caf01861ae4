"""Tables as Parquet files, by DuckDB: a run's samples and transactions, and whatever is exported."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from blocklab.errors import StoreError, Unreadable
from blocklab.model import outside
from blocklab.model.points import Points
from blocklab.model.sample import Parsed, Sample, Transaction

# To import it takes a third of a second, which commands that read no runs do not need: hence in the functions.
if TYPE_CHECKING:
    import duckdb

    from blocklab.model.watched import Values, Watched

SAMPLES = {
    "metric": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "layer": "VARCHAR", "host": "VARCHAR",
    "phase": "VARCHAR", "time": "DOUBLE",
}  # fmt: skip
# Otherwise a folder like host=db1 above the file would be a column of it, with that value in every row.
AS_IS = "hive_partitioning = false"
_ROWS = 50_000
# A Parquet file begins with these bytes, and ends with the length of what describes it and with them.
_MAGIC = b"PAR1"
_FOOT = struct.Struct("<I4s")
# A run with more samples is read series by series.
_LARGE = 500_000
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
    """A series of values in ``unit``."""

    unit: str
    points: Points


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
    to_parquet(folder / "samples.parquet", parsed.samples, SAMPLES, said, parsed.watched)
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


def series_by_name(
    folder: Path, groups: Iterable[tuple[Any, ...]] | None = None
) -> tuple[tuple[Sample, ...], dict[Key, Series]]:
    """The values of a run, and its series by host, layer, metric and phase. Raises ``StoreError``.

    For those who read many runs: a ``Sample`` for each point would take most of the time and of the memory.
    ``groups``: what ``ahead`` has of it.
    """
    path = folder / "samples.parquet"
    if groups is None:
        large = _large([path], path)
        groups = _one_by_one(path) if large else _grouped([path], _GROUPED, path)
    values: list[tuple[int, Sample]] = []
    found: dict[Key, Series] = {}
    times_of: dict[tuple[str, str, str], Values] = {}
    for metric, unit, layer, host, phase, whole, mine, times, places in groups:
        if whole:
            sample = Sample(metric, 0.0, unit, layer, host, phase)
            pairs = zip(places.tolist(), mine.tolist(), strict=True)
            values += [(place, msgspec.structs.replace(sample, value=value)) for place, value in pairs]
        else:
            key = (host, layer, metric, phase)
            before = found.get(key)
            points = _in_order(times, mine, before.points if before else None)
            # The metrics of a layer are mostly of the same times: these are kept once.
            known = times_of.setdefault((host, layer, phase), points.times)
            if len(known) == len(points) and (known == points.times).all():
                points = Points(known, points.values)
            found[key] = Series(before.unit if before else unit, points)
    return tuple(each for _, each in sorted(values, key=lambda pair: pair[0])), found


def _in_order(times: Values, values: Values, before: Points | None) -> Points:
    import numpy as np

    if before is not None:
        times, values = np.concatenate([before.times, times]), np.concatenate([before.values, values])
    order = np.lexsort((values, times))
    return Points(np.asarray(times)[order], np.asarray(values)[order])


def ahead(folders: Sequence[Path]) -> Mapping[Path, Groups]:
    """What ``series_by_name`` reads of these runs, by one query: for one each DuckDB takes longer than for what is
    in it. Without those that are large.

    Nothing of any where one of them cannot be read: which one it is, and why, ``series_by_name`` says.
    """
    paths = {str(path): path.parent for folder in folders if (path := folder / "samples.parquet").is_file()}
    found: dict[Path, Groups] = {}
    try:
        for large in _large(list(map(Path, paths))) if paths else ():
            del paths[large]
        for name, *group in _grouped(list(map(Path, paths)), f"filename, {_GROUPED}") if paths else ():
            found.setdefault(paths[name], []).append(tuple(group))
    except (StoreError, KeyError):
        return {}
    return found


def _large(paths: Sequence[Path], one: Path | None = None) -> list[str]:
    """Those with so many rows that they are read series by series. Raises ``StoreError``."""
    import duckdb

    files = ", ".join(quoted(str(path)) for path in paths)
    query = f"SELECT file_name FROM parquet_file_metadata([{files}]) WHERE num_rows > {_LARGE}"
    try:
        return [name for (name,) in _own().execute(query).fetchall()]
    except duckdb.Error as error:
        path = one or paths[0]
        raise StoreError(f"{path} cannot be read: {first_line(error)}", hint=again(path)) from error


def _grouped(paths: Sequence[Path], select: str, one: Path | None = None) -> Groups:
    """Rows whose lists are arrays. Raises ``StoreError``."""
    import duckdb

    try:
        return _rows([str(path) for path in paths], select, "GROUP BY ALL")
    except duckdb.Error as error:
        path = one or paths[0]
        raise StoreError(f"{path} cannot be read: {first_line(error)}", hint=again(path)) from error


def _one_by_one(path: Path) -> Iterator[tuple[Any, ...]]:
    """The same of a large run, each series by a query of its own: all at once they would be in memory twice."""
    import duckdb

    source = _source([str(path)])
    names = ("metric", "unit", "layer", "host", "phase")
    try:
        every = _own().execute(f"SELECT {', '.join(names)}, time IS NULL FROM {source} GROUP BY ALL").fetchall()
        for *texts, whole in every:
            told = [f"{name}={quoted(text)}" for name, text in zip(names, texts, strict=True)]
            mine = " AND ".join(told) + f" AND (time IS NULL) = {whole}"
            query = f"SELECT value, time, file_row_number FROM {source} WHERE {mine}"
            lists = _own().execute(query).fetchnumpy()
            yield (*texts, whole, lists["value"], lists["time"], lists["file_row_number"])
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be read: {first_line(error)}", hint=again(path)) from error


def transactions(folder: Path) -> tuple[Transaction, ...]:
    """The transactions of a run. Raises ``StoreError``."""
    return tuple(itertools.starmap(Transaction, _read(folder / "transactions.parquet", '"end", latency')))


def check(folder: Path) -> None:
    """Raises ``StoreError`` for a run whose Parquet files are not whole, by their first and last bytes: DuckDB
    would take longer."""
    for name in ("samples.parquet", "transactions.parquet"):
        path = folder / name
        try:
            with outside.opened(path) as file:
                start = file.read(len(_MAGIC))
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _FOOT.size))
                end = file.read()
        except Unreadable as error:
            raise StoreError(f"{path} cannot be read: {error.problem}", hint=again(path)) from error
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}", hint=again(path)) from error
        length, magic = _FOOT.unpack(end) if len(end) == _FOOT.size else (0, b"")
        if start != _MAGIC or magic != _MAGIC or not 0 < length <= size - _FOOT.size - len(_MAGIC):
            raise StoreError(f"{path} cannot be read: it is not whole, or no Parquet file", hint=again(path))


def again(path: Path) -> str:
    """The hint for a run's file that cannot be read. An import has no cell that could be measured again."""
    if (path.parent / "files.json").exists():
        return "`blocklab import` of the logs makes the run again"
    return "the next `blocklab run` or `resume` of the study measures the cell again"


def to_parquet(
    path: Path, rows: Iterable[Any], columns: Mapping[str, str], select: str = "*", watched: Iterable[Watched] = ()
) -> None:
    """Write rows (structs or dicts) as Parquet. ``columns`` has DuckDB's types; ``select`` what becomes of them.
    ``watched``: further samples, as columns.

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
        with _registered(watched) as more:
            every = " UNION ALL ".join([f"SELECT {select} FROM {source}, columns={{{types}}})", *more])
            _own().execute(f"COPY ({every}) TO {quoted(str(made))} (FORMAT parquet, COMPRESSION zstd)")
        made.replace(path)
    except duckdb.Error as error:
        raise OSError(f"{path}: {first_line(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
            made.unlink(missing_ok=True)


@contextlib.contextmanager
def _registered(watched: Iterable[Watched]) -> Iterator[list[str]]:
    """A selection of the samples of each series; its columns are known to DuckDB within the block."""
    selections: list[str] = []
    names: list[str] = []
    try:
        for each in watched:
            names.append(f"watched_{len(names)}")
            columns = {"time": each.times, **{f"v{at}": values for at, values in enumerate(each.values.values())}}
            _own().register(names[-1], columns)
            for at, metric in enumerate(each.values):
                texts = {"metric": metric, "unit": each.units[metric], "layer": each.layer, "host": each.host,
                         "phase": each.phase}  # fmt: skip
                told = {**{name: quoted(text) for name, text in texts.items()}, "value": f"v{at}", "time": "time"}
                columns_of = ", ".join(f'{told[name]} AS "{name}"' for name in SAMPLES)
                selections.append(f"SELECT {columns_of} FROM {names[-1]} WHERE NOT isnan(v{at})")
        yield selections
    finally:
        for name in names:
            _own().unregister(name)


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
        return _own().execute(_query([str(path)], select, more)).fetchall()
    except Unreadable as error:
        raise StoreError(f"{path} cannot be read: {error.problem}", hint=again(path)) from error
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be read: {first_line(error)}", hint=again(path)) from error


def _rows(paths: Sequence[str], select: str, more: str) -> Groups:
    return list(zip(*_own().execute(_query(paths, select, more)).fetchnumpy().values(), strict=True))


def _query(paths: Sequence[str], select: str, more: str) -> str:
    return f"SELECT {select} FROM {_source(paths)} {more}"


def _source(paths: Sequence[str]) -> str:
    files = ", ".join(map(quoted, paths))
    return f"read_parquet([{files}], {AS_IS}, file_row_number = true, filename = true)"


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def first_line(error: duckdb.Error) -> str:
    """What DuckDB says, without the place in a statement that the user did not write."""
    return str(error).partition("\n")[0]
