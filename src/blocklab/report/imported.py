"""The files that imported values were made from."""

from __future__ import annotations

from datetime import UTC, datetime

from blocklab.stats.analysis import Analysis
from blocklab.store.imported import ImportedFile


def file_rows(analysis: Analysis) -> list[tuple[str, ImportedFile, list[str]]]:
    """(stack, file, workloads that were made of it): the files of each stack, once."""
    found: dict[tuple[str, str], tuple[str, ImportedFile, list[str]]] = {}
    for (stack, workload), run in analysis.runs.items():
        for file in run.files:
            found.setdefault((stack, file.file), (stack, file, []))[2].append(workload)
    return list(found.values())


def span(start: float | None, end: float | None) -> str:
    """From when to when in UTC; how long where the file does not tell when."""
    if start is None or end is None:
        return "–"
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    if first.year == 1970:
        return f"{end - start:.0f} s"
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f"{first:%Y-%m-%d %H:%M:%S} to {until}"
