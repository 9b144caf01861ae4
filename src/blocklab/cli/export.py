"""``blocklab export`` and ``blocklab query``: the values for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from blocklab.errors import StudyError
from blocklab.model.shown import cell
from blocklab.model.terminal import Console, Text, echo, echo_json
from blocklab.report.export import Format
from blocklab.report.export import export as write
from blocklab.stats.longform import SCHEMA, WITH_FACTORS, factor_column
from blocklab.stats.query import Answer, Tables
from blocklab.stats.query import query as ask

# More rows than this nobody reads in a terminal.
MOST_ROWS = 200


def export(
    path: Annotated[
        Path, typer.Argument(metavar="RUNS", help="A study's folder, a run's, or a folder of studies.")
    ],
    form: Annotated[Format | None, typer.Option("--format", help="csv, jsonl, parquet; else by name.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write to this file, not to stdout.")
    ] = None,
    series: Annotated[bool, typer.Option("--series", help="Write the time series.")] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Write the transactions that workloads logged.")
    ] = False,
    drills: Annotated[bool, typer.Option("--drills", help="Write a row for each drill.")] = False,
    knobs: Annotated[bool, typer.Option("--knobs", help="Write the settings that were read back.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="Write a row for each run.")] = False,
) -> None:
    """Write every value as a row of CSV, JSON lines or Parquet, with its interval, its factors and where it ran.

    docs/export.md has the columns.
    """
    form = form_of(form, output)
    picked = {"series": series, "transactions": transactions, "drills": drills, "knobs": knobs, "runs": runs}
    names = [name for name, wanted in picked.items() if wanted] or ["metrics"]
    if len(names) > 1:
        raise StudyError("", f"--{' and --'.join(names)} are {len(names)} tables", hint="export them one by one")
    known = Tables(path)
    table = known.table(names[0])
    _say_left_out(known.left_out)
    write(table, form, output)


def _say_left_out(texts: Iterable[str]) -> None:
    """To standard error, for the rows are on standard output."""
    console = Console(stderr=True)
    for text in texts:
        console.print(f"left out: {text}", style="yellow", soft_wrap=True)


def form_of(form: Format | None, output: Path | None) -> Format:
    """The format asked for, or by the file's name, or CSV. Raises ``StudyError`` where it cannot be."""
    if output is not None and output.is_dir():
        file = output / f"metrics.{form or Format.CSV}"
        raise StudyError("", f"-o {output} is a folder", hint=f"name a file: -o {file}")
    if form is None and output is not None:
        ending = output.suffix.removeprefix(".").lower()
        if ending not in set(Format):
            raise StudyError(
                "", f"-o {output}: {ending or 'no ending'!r} is no format", hint="--format csv, jsonl or parquet"
            )
        form = Format(ending)
    if form is Format.PARQUET and output is None:
        raise StudyError("", "Parquet is no text for a terminal or a pipe", hint="add -o FILE.parquet")
    return form or Format.CSV


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, in DuckDB's SQL.")] = "",
    runs: Annotated[
        Path, typer.Option("--runs", help="Where the runs are: all studies, or one study's folder.")
    ] = Path("runs"),
    tables: Annotated[bool, typer.Option("--tables", help="List the tables and their columns.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Ask all runs a question in SQL: tables metrics, runs, knobs, series, transactions, drills.

    Changes nothing."""
    if tables:
        _print(Answer(("table", "column", "type", "meaning"), listing(), ()), as_csv=as_csv, as_json=as_json)
        return
    if not sql.strip():
        raise StudyError("", "there is no SQL", hint='blocklab query "SELECT ... FROM metrics", or --tables')
    with tempfile.TemporaryDirectory(prefix="blocklab-query-") as scratch:
        found = ask(sql, runs, Path(scratch))
    _say_left_out(found.left_out)
    _print(found, as_csv=as_csv, as_json=as_json)


def listing() -> list[tuple[str, str, str, str]]:
    """Every column of every table."""
    found = []
    for name, columns in SCHEMA.items():
        more = (factor_column("NAME"),) if name in WITH_FACTORS else ()
        found += [(name, column.name, column.type, column.says) for column in (*columns, *more)]
    return found


def _print(found: Answer, *, as_csv: bool, as_json: bool) -> None:
    if as_csv and as_json:
        raise StudyError("", "--csv and --json are two forms", hint="give one of them")
    if as_json:
        _names_apart(found.columns)
        rows = [
            {name: _plain(value) for name, value in zip(found.columns, row, strict=True)} for row in found.rows
        ]
        echo_json(json.dumps(rows, indent=1, default=str, allow_nan=False))
        return
    if as_csv:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(cell, found.columns))
        writer.writerows([_in_csv(value) for value in row] for row in found.rows)
        echo(out.getvalue(), nl=False)
        return
    table = Grid(box=None, pad_edge=False)
    numeric = [
        bool(found.rows) and all(_number(row[at]) for row in found.rows) for at in range(len(found.columns))
    ]
    for name, right in zip(found.columns, numeric, strict=True):
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in found.rows[:MOST_ROWS]:
        table.add_row(*(Text(_text(value)) for value in row))
    Console().print(table)
    if (more := len(found.rows) - MOST_ROWS) > 0:
        echo(f"{more} more rows; --csv and --json have all of them")


def _names_apart(columns: Sequence[str]) -> None:
    """Raises ``StudyError`` where an object of JSON would have room for one of two columns only."""
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise StudyError(
            "", f"--json: several columns are called {', '.join(twice)}",
            hint="name them apart, as in SELECT a.value AS a_value, b.value AS b_value; or ask for --csv",
        )  # fmt: skip


def _plain(value: Any) -> Any:
    """JSON has no infinity, and no number that is none; a number with a point is DuckDB's decimal."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    value = float(value) if isinstance(value, Decimal) else _bytes(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bytes(value: Any) -> Any:
    """A BLOB as DuckDB's own text of it: ``x\\AB``; all else as it is."""
    if not isinstance(value, bytes):
        return value
    return "".join(chr(x) if 32 <= x < 127 and x not in b"\\'\"" else f"\\x{x:02X}" for x in value)


def _in_csv(value: Any) -> Any:
    value = str(value) if isinstance(value, list | tuple | dict) else _bytes(value)
    return cell(value) if isinstance(value, str) else value


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return (
        f"{value:.6g}"
        if isinstance(value, float) and abs(value) < 1e6
        else f"{value:.2f}"
        if isinstance(value, float)
        else str(_bytes(value))
    )
