"""Whole studies on the fake site: progress that is remembered, and how one is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blocklab.model.drill import Drill
from blocklab.model.sample import Parsed
from blocklab.runner.run import run_study
from blocklab.runner.strikes import Count
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, Rate
from blocklab.study.grid import cells
from blocklab.study.types import Cell, Study


class Silent:
    """Progress that is only remembered."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.warnings: list[str] = []
        self.drills: list[Drill] = []
        self.values: list[tuple[str, str, int, tuple[Rate, ...]]] = []

    def stack(self, name: str, text: str) -> None: ...

    def cell(self, number: int, count: int, cell: Cell) -> None: ...

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        self.values.append((cell.label, phase, rounds, tuple(rates)))

    def counters(self, cell: Cell, count: Count) -> None: ...

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: object) -> None:
        self.outcomes[cell.label] = outcome

    def drilled(self, cell: Cell, drill: Drill) -> None:
        self.drills.append(drill)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


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
