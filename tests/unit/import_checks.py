"""An import, with what holds for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path

import numpy as np

from blocklab import imports
from blocklab.formats.clock import Clock, resolve
from blocklab.formats.found import Found
from blocklab.imports import Imported, ImportFile, Options, collect
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


def clock_of(found: Found) -> Clock:
    """The times of a file as they stand in it, of the first table where it has tables."""
    known = found.tables[0].clock if found.tables else found.clock
    assert known is not None
    return known


def times(found: Found) -> list[float]:
    """The times in a file, each once, in seconds since the epoch: of all reports of what watched a host, or of
    what a workload's log has."""
    known, *_ = collect.dated(found, partial(resolve, where="x", zone=UTC, order="", anchors=()))
    own = {sample.time for sample in known.samples if sample.time is not None}
    own |= {at for phase in known.phases for at in (phase.start, phase.end)}
    return sorted(own | {at for series in known.watched for at in series.times.tolist()})


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
    series: dict[tuple[str, str], dict[str, tuple[str, dict[float, float]]]] = {}
    for sample in every:
        if sample.time is not None:
            metrics = series.setdefault((sample.host, sample.layer), {})
            metrics.setdefault(sample.metric, (sample.unit, {}))[1].setdefault(sample.time, sample.value)
    return tuple(_columns(layer, host, metrics) for (host, layer), metrics in series.items())


def _columns(layer: str, host: str, metrics: Mapping[str, tuple[str, Mapping[float, float]]]) -> Watched:
    times = sorted({time for _, points in metrics.values() for time in points})
    values = {
        metric: np.array([points.get(time, np.nan) for time in times], dtype=float)
        for metric, (_, points) in metrics.items()
    }
    units = {metric: unit for metric, (unit, _) in metrics.items()}
    return Watched(layer, host, np.array(times, dtype=float), values, units)
