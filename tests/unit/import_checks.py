"""An import, with what holds for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from blocklab import imports
from blocklab.imports import Imported, ImportFile, Options
from blocklab.store.folder import StudyFolder


def take(
    file: ImportFile, source: Path | None, stacks: Mapping[str, Sequence[str]], runs: Path, options: Options
) -> Imported:
    """The import; each file that was taken belongs to a run, and no run has one that was not."""
    done = imports.take(file, source, stacks, runs, options)
    stored: dict[str, set[str]] = {}
    for run in StudyFolder(done.folder).runs():
        stored.setdefault(run.cell.stack, set()).update(each.file for each in run.files if each.kind)
    for stack, files in done.files.items():
        taken = {each.file for each in files if each.kind}
        assert taken == stored[stack], (stack, taken ^ stored[stack])
    return done
