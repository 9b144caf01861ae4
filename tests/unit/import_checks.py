"""An import, with what holds for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from blocklab import imports
from blocklab.formats.found import Found, in_columns
from blocklab.imports import Imported, ImportFile, Options
from blocklab.model.sample import Sample
from blocklab.model.watched import Watched
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


def samples(found: Found) -> list[Sample]:
    """All that a file told: values, and series by time, those that are kept as columns too."""
    return [*found.samples, *points(found.watched)]


def points(watched: Sequence[Watched]) -> list[Sample]:
    """A sample for each point of series, by time."""
    every = [
        Sample(metric, value, each.units[metric], each.layer, each.host, each.phase, time)
        for each in watched
        for metric in each.values
        for time, value in zip(*(side.tolist() for side in each.points(metric)), strict=True)
    ]
    return sorted(every, key=lambda sample: sample.time or 0.0)


def watched(every: Sequence[Sample]) -> tuple[Watched, ...]:
    """Samples as what watched a workload has them."""
    return in_columns(Found(kind="x", path=Path("x"), rows=1, samples=tuple(every))).watched
