"""Whole studies on the fake site: progress that is remembered, and how one is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blocklab.model.drill import Drill
from blocklab.runner.events import AnyEvent, Begun, Done, Interim, Judged, Warned
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Rate
from blocklab.study.grid import cells
from blocklab.study.types import Cell, Study


class Silent:
    """Events that are only remembered."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Done] = {}
        self.warnings: list[str] = []
        self.drills: list[Drill] = []
        self.values: list[tuple[str, str, int, tuple[Rate, ...]]] = []
        self._labels: dict[str, str] = {}

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case Begun():
                self._labels[event.key] = event.label
            case Interim():
                self.values.append((self._labels[event.key], event.phase, event.rounds, event.rates))
            case Done():
                self.outcomes[event.label] = event
            case Judged():
                self.drills.append(event.drill)
            case Warned():
                self.warnings.append(event.text)


def io(small: dict[str, Any]) -> dict[str, Any]:
    """The small study's fio workload, with the jobs of the golden output that the fake hosts print."""
    jobs = {name: {"rw": "write"} for name in ("seq-write-1m", "rand-rw-4k", "fsync-4k")}
    return {**small["workloads"]["io"], "jobs": jobs}


def go(
    study: Study, tmp_path: Path, answers: Any, wanted: Sequence[Cell] | None = None
) -> tuple[StudyFolder, Silent, int, FakeSite]:
    grid = cells(study)
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    progress, site = Silent(), FakeSite(answers)
    bad = run_study(site, study, grid if wanted is None else wanted, folder, progress)
    return folder, progress, bad, site
