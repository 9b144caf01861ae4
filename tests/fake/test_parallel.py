"""Labs in parallel: real processes that take cell after cell, with the fake site in them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from blocklab.cli.carry import at_once
from blocklab.cli.parallel import MODULE, Parallel
from blocklab.errors import SetupError, StudyError
from blocklab.model.ground import Topology
from blocklab.model.sample import Parsed
from blocklab.model.site import OwnTime, Room
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell
from tests.fake.answers import Answers
from tests.fake.dasked import environment
from tests.fake.runs import Silent, io

CPU = min(os.sched_getaffinity(0))


class Told(Silent):
    """In what order cells begin and end, and with how many values; ``when_done`` is called at each end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Cell] = []
        self.numbers: list[tuple[int, int]] = []
        self.values_of: dict[str, int] = {}

    def cell(self, number: int, count: int, cell: Cell) -> None:
        self.begun.append(cell)
        self.numbers.append((number, count))

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: object) -> None:
        super().done(cell, outcome, parsed, stops)
        self.values_of[cell.label] = len(parsed.samples)
        self.when_done(cell)

    def when_done(self, cell: Cell) -> None: ...


@pytest.fixture
def folder(tmp_path: Path, small: dict[str, Any]) -> StudyFolder:
    """A study of two stacks, each at three depths, for processes that know the fake site."""
    small["workloads"] = {"io": io(small)}
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 2, 4]}}
    study = build(small)
    return StudyFolder.create(tmp_path / "runs", Manifest(study, cells(study), seed=1, site="fake"))


@pytest.fixture(autouse=True)
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)


def labs(folder: StudyFolder, progress: Silent) -> Parallel:
    manifest = folder.manifest()
    return Parallel(folder, folder.missing(manifest.cells), progress, None)


def processes(folder: StudyFolder) -> list[int]:
    """The ids of those that measure for this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = process.read_bytes().split(b"\0")
            if MODULE.encode() in line and str(folder.path).encode() in line:
                found.append(int(process.parent.name))
    return found


def test_each_cell_is_measured_once_and_those_of_a_stack_by_one_process(folder: StudyFolder) -> None:
    progress = Told()
    assert labs(folder, progress).run([CPU, CPU]) == 0
    grid = folder.manifest().cells
    assert Counter(cell.key for cell in progress.begun) == Counter(cell.key for cell in grid)
    assert progress.numbers == [(number, 6) for number in range(1, 7)]
    assert {label: each.status for label, each in progress.outcomes.items()} == {cell.label: "ok" for cell in grid}
    assert all(folder.has(cell) for cell in grid) and all(progress.values_of.values())
    # Two begin at once: not with the same stack, which would be built and loaded twice.
    assert {cell.stack for cell in progress.begun[:2]} == set(folder.manifest().study.stacks)
    assert processes(folder) == [] and folder.missing(grid) == ()


def test_a_load_that_fails_is_stored_and_counted(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILING", "mirror")
    progress = Told()
    assert labs(folder, progress).run([CPU, CPU]) == 3
    failed = {label: each for label, each in progress.outcomes.items() if each.status != "ok"}
    assert len(failed) == 3 and all(each.error == "a1: it fails on purpose" for each in failed.values())
    assert sum(map(folder.has, folder.manifest().cells)) == 3


def test_a_killed_process_ends_the_others_and_the_rest_is_measured_later(folder: StudyFolder) -> None:
    class Killing(Told):
        def when_done(self, cell: Cell) -> None:
            for pid in processes(folder):
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(SetupError, match="a lab's process ended with -9") as caught:
        labs(folder, Killing()).run([CPU, CPU])
    assert caught.value.hint == "blocklab resume goes on"
    assert processes(folder) == []
    progress = Told()
    left = folder.missing(folder.manifest().cells)
    assert 0 < len(left) < 6
    assert labs(folder, progress).run([CPU, CPU]) == 0
    assert sorted(progress.outcomes) == sorted(cell.label for cell in left)


def test_ctrl_c_leaves_no_process(folder: StudyFolder) -> None:
    class Interrupted(Told):
        def when_done(self, cell: Cell) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        labs(folder, Interrupted()).run([CPU, CPU])
    assert processes(folder) == []
    assert [cell.label for cell in folder.manifest().cells if folder.has(cell)]


class Limited(FakeSite):
    """In a time of its own, with memory for so many labs at once."""

    def __init__(self, fitting: int) -> None:
        super().__init__(Answers())
        self.offers = frozenset({OwnTime, Room})
        self.fitting = fitting

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        if labs > self.fitting:
            raise StudyError("nodes", "they do not fit")
        return ""


@pytest.mark.parametrize(
    ("most", "cpus", "fit", "expected"),
    [
        (None, {3, 5, 7}, 9, [3, 5, 7]),
        (2, {3, 5, 7}, 9, [3, 5]),
        (1, {3, 5, 7}, 9, []),
        (None, {3, 5, 7}, 2, [3, 5]),
        (None, {3, 5, 7}, 1, []),
        (9, {3}, 9, []),
        (None, set(range(100)), 100, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_as_many_labs_as_there_are_cpus_cells_and_memory(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch, most: int | None, cpus: set[int], fit: int,
    expected: Sequence[int],
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cpus)
    manifest = folder.manifest()
    assert at_once(Limited(fit), manifest.study, manifest.cells, most) == expected


def test_labs_that_share_this_machines_time_never_run_at_once(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    manifest = folder.manifest()
    assert at_once(FakeSite(Answers()), manifest.study, manifest.cells, None) == []
