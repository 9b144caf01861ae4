"""``kill -9`` of ``blocklab run`` on real nodes, then ``blocklab resume``: nothing is lost, run again or left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.sites.uml.processes import PREFIX
from blocklab.store.folder import StudyFolder
from tests.lab.conftest import leftovers

BLOCKLAB = [sys.executable, "-m", "blocklab.cli.main"]
GONE_SECONDS = 30.0
CELLS = 3

# Of a process that works in a folder, told by what is there by then.
Moment = Callable[[Path, int], bool]


def finished(runs: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each finished cell's result."""
    found = {path.parent.name: path.stat() for path in runs.glob("*/cells/[!.]*/result.json")}
    return {key: (stat.st_ino, stat.st_mtime_ns) for key, stat in found.items()}


def under_load(runs: Path, process: int, cells: int) -> bool:
    """Whether the cell after so many finished ones is under load; drafts of earlier processes may lie there."""
    return len(finished(runs)) >= cells and any(runs.glob(f"*/cells/.*.{process}.partial/raw/workload/stdout"))


MOMENTS: dict[str, tuple[Moment, int]] = {
    "nodes starting": (lambda runs, process: any(f"/{PREFIX}" in each for each in leftovers()), 0),
    "first workload": (lambda runs, process: under_load(runs, process, 0), 0),
    "first cell stored": (lambda runs, process: len(finished(runs)) >= 1, 1),
    "second workload": (lambda runs, process: under_load(runs, process, 1), 1),
    "last workload": (lambda runs, process: under_load(runs, process, 2), 2),
}


@pytest.fixture
def study(small: dict[str, Any], tmp_path: Path) -> Path:
    """One node, one volume, three cells of a second."""
    small["stacks"] = {"plain": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB"}]}}
    small["nodes"] = {"a1": {"memory": "256MiB"}}
    small["baseline"] = "plain"
    del small["links"]
    jobs = {"write-4k": {"rw": "randwrite", "bs": "4k"}}
    options = {"direct": 1, "runtime": 1, "time_based": True}
    small["workloads"] = {
        "io": {"workload": "fio", "size": "16MiB", "fill": False, "options": options, "jobs": jobs}
    }
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 2, 4]}}
    file = tmp_path / "study.yaml"
    YAML().dump(small, file)
    return file


def wait_until(what: Callable[[], bool], seconds: float, why: str) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.01)


def begun(said: str) -> list[str]:
    """``00:04 cell 2 of 3: plain/io depth=2`` -> ``plain/io depth=2``"""
    return re.findall(r"cell \d+ of \d+: (.*)", said)


@pytest.mark.long
def test_a_study_killed_at_five_moments_is_resumed(study: Path, tmp_path: Path) -> None:
    """One after the other, each a resume of what the one before left; the last resume comes to the end."""
    runs, before = tmp_path / "runs", leftovers()
    kept: dict[str, tuple[int, int]] = {}
    argv = ["run", str(study), "--seed", "1"]
    for name, (there, least) in MOMENTS.items():
        killed(argv, runs, tmp_path / name, there)
        wait_until(lambda: leftovers() == before, GONE_SECONDS, f"{name}: left: {leftovers()}")
        kept = still_there(runs, kept, (tmp_path / name).read_text())
        assert least <= len(kept)
        argv = ["resume"]

    last = subprocess.run([*BLOCKLAB, "resume", "--runs", str(runs)], capture_output=True, text=True, timeout=100)
    assert last.returncode == 0, last.stderr
    assert len(begun(last.stderr)) == CELLS - len(kept)
    assert len(still_there(runs, kept, last.stderr)) == CELLS
    folder = StudyFolder(runs / "small")
    assert {run.outcome.status for run in folder.runs()} == {"ok"} and all(run.values() for run in folder.runs())
    assert not list(folder.cells.glob(".*")) and (folder.path / "report.html").exists()
    assert leftovers() == before


def killed(argv: list[str], runs: Path, log: Path, there: Moment) -> None:
    """Start blocklab, and kill it, and nothing else, at a moment."""
    with log.open("wb") as stream:
        process = subprocess.Popen([*BLOCKLAB, *argv, "--runs", str(runs)], stdout=stream, stderr=stream)
    try:
        wait_until(
            lambda: there(runs, process.pid) or process.poll() is not None,
            60,
            f"{log.name}: it was never that far",
        )
        assert process.poll() is None, log.read_text()
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def still_there(runs: Path, kept: dict[str, tuple[int, int]], said: str) -> dict[str, tuple[int, int]]:
    """What is finished now: all that was before, which was not even begun again, and whole."""
    now, folder = finished(runs), StudyFolder(runs / "small")
    assert {key: now[key] for key in kept} == kept
    cells = folder.manifest().cells
    assert not {cell.label for cell in cells if cell.key in kept} & set(begun(said))
    assert {cell.key for cell in cells} - {cell.key for cell in folder.missing(cells)} == now.keys()
    return now
