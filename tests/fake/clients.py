"""Clients of drills on the fake site."""

from __future__ import annotations

from pathlib import Path

from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.types import Study
from tests.fake.answers import Answers
from tests.fake.runs import Silent

COUNT = {"time": 1.0, "scheduled": 1, "acknowledged": 1, "refused": 0, "in_doubt": 0, "server": 0}


def go(study: Study, tmp_path: Path, answers: Answers) -> tuple[Silent, FakeSite, int]:
    grid = cells(study)
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    progress, site = Silent(), FakeSite(answers)
    return progress, site, run_study(site, study, grid, folder, progress)
