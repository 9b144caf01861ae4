"""Runs with more samples."""

from __future__ import annotations

from typing import Any

from blocklab.model.sample import Parsed
from blocklab.store import tables
from blocklab.store.folder import StudyFolder


def with_samples(folder: StudyFolder, label: str, change: Any) -> None:
    for cell in folder.manifest().cells:
        if cell.label == label:
            under = folder.cells / cell.key
            tables.write(under, Parsed(tuple(change(list(tables.samples(under))))))
