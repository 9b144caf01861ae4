"""The files that imported values were made from."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.store.imported import ImportedFile


class FileRow(msgspec.Struct, frozen=True):
    """One file; ``stack`` is a label, ``used`` whether anything was made of it."""

    stack: str
    name: str
    kind: str
    rows: str
    time: str
    host: str
    workloads: str
    used: bool


def file_rows(analysis: Analysis) -> tuple[FileRow, ...]:
    """The files of each stack, once, with the workloads that they are of."""
    found: dict[tuple[str, str], tuple[ImportedFile, list[str]]] = {}
    for (stack, workload), run in analysis.runs.items():
        for file in run.files:
            found.setdefault((stack, file.file), (file, []))[1].append(workload)
    return tuple(
        FileRow(
            stack, file.name, file.kind or file.remarks[0], _rows(file), span(file.start, file.end),
            file.host or "–", ", ".join(workloads) if file.kind else "–", bool(file.kind),
        )
        for (stack, _), (file, workloads) in found.items()
    )  # fmt: skip


def _rows(file: ImportedFile) -> str:
    if not file.kind:
        return "–"
    return f"{file.rows:,}" + (f" ({file.bad:,} left out)" if file.bad else "")


def span(start: float | None, end: float | None) -> str:
    """From when to when in UTC; how long where the file does not tell when."""
    if start is None or end is None:
        return "–"
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    if first.year == 1970:
        return f"{end - start:.0f} s"
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S}"
