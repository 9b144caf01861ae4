"""A flat table as CSV, as JSON lines, or as Parquet."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import msgspec

from blocklab.errors import StoreError
from blocklab.model.files import whole
from blocklab.model.shown import cell
from blocklab.model.terminal import json_for
from blocklab.report.hint import hint
from blocklab.stats.longform import Table
from blocklab.store.tables import batches, to_parquet


class Format(StrEnum):
    """How a table is written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


def export(table: Table, form: Format, path: Path | None) -> None:
    """Write a table, to standard output without a path (not Parquet). Raises ``StoreError``."""
    try:
        if form is Format.PARQUET:
            assert path is not None
            to_parquet(path, table.rows, {column.name: column.type for column in table.columns})
            return
        with _out(path) as file:
            if form is Format.CSV:
                _csv(table, file)
            else:
                encoder = msgspec.json.Encoder()
                for some in batches(table.rows):
                    text = encoder.encode_lines(some).decode()
                    file.write(text if path else json_for(file, text))
    except BrokenPipeError:
        # Whoever reads has seen enough: blocklab export ... | head. The interpreter would say it again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if path is None:
            # Of standard output the command line says it.
            raise
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", hint=hint(path, error)) from error


@contextmanager
def _out(path: Path | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with whole(path) as half, half.open("w", encoding="utf-8", newline="") as file:
        yield file


def as_csv(table: Table) -> str:
    """A table as the text of a CSV file."""
    out = io.StringIO()
    _csv(table, out)
    return out.getvalue()


def _csv(table: Table, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([cell(column.name) for column in table.columns])
    writer.writerows([_text(value) for value in row.values()] for row in table.rows)


def _text(value: Any) -> Any:
    """Numbers with all of their digits; nothing for null; no formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return cell(value)
    return "" if value is None else value
