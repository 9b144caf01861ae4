"""Labs in parallel: real processes that take cell after cell, with the fake site in them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from blocklab.campaign.labs import MODULE, Labs, Waiting
from blocklab.campaign.lines import received, send
from blocklab.campaign.needs import at_once
from blocklab.errors import SetupError, StudyError
from blocklab.lang import catalogue
from blocklab.model.drill import Drill, Verdict
from blocklab.model.ground import Topology
from blocklab.model.sample import Parsed, Sample
from blocklab.model.site import OwnTime, Room
from blocklab.runner.events import AnyEvent, Begun, Counted, Done, Event, Interim, Judged, OnStack, Warned
from blocklab.runner.run import run_study
from blocklab.runner.strikes import Count
from blocklab.sites.fake import FakeSite
from blocklab.sites.own import Own
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, Rate, Stopped
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.fake.answers import Answers
from tests.fake.dasked import environment
from tests.fake.runs import io

CPU = min(os.sched_getaffinity(0))
DRILL = Drill("7 abc", "kill", "a1", "a2", True, ("a1", "a2"), (), (), Verdict("ok"), rate=100.0, struck=1.5)


E = TypeVar("E", bound=Event)


class Heard:
    """All events; ``then`` is called after each."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def __call__(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.then(event)

    def then(self, event: AnyEvent) -> None: ...


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


def labs(folder: StudyFolder, heard: Heard) -> Labs:
    manifest = folder.manifest()
    return Labs(folder, folder.missing(manifest.cells), heard, None)


def processes(folder: StudyFolder) -> list[int]:
    """The ids of those that measure for this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = process.read_bytes().split(b"\0")
            if MODULE.encode() in line and str(folder.path).encode() in line:
                found.append(int(process.parent.name))
    return found


def test_each_lab_has_its_cpu(folder: StudyFolder) -> None:
    class Watching(Heard):
        cpus: set[str] = set()

        def then(self, event: AnyEvent) -> None:
            for pid in processes(folder) if isinstance(event, Done) else ():
                # Cpus_allowed_list:\t0-1
                found = re.search(r"^Cpus_allowed_list:\t(.*)$", Path(f"/proc/{pid}/status").read_text(), re.M)
                self.cpus.add(found[1] if found else "")

    progress = Watching()
    assert labs(folder, progress).run([CPU]) == 0
    assert progress.cpus == {str(CPU)}


def test_progress_is_that_of_one_lab(folder: StudyFolder, tmp_path: Path) -> None:
    manifest = folder.manifest()
    grid = manifest.cells
    alone, beside = Heard(), Heard()
    other = StudyFolder.create(tmp_path / "alone", manifest)
    assert run_study(FakeSite(Answers()), manifest.study, grid, other, alone, 1) == 0
    assert labs(folder, beside).run([CPU, CPU]) == 0
    assert [(cell.number, cell.of) for cell in beside.all(Begun)] == [(at, 6) for at in range(1, 7)]
    assert Counter(cell.key for cell in beside.all(Begun)) == Counter(cell.key for cell in grid)

    def results(heard: Heard) -> dict[str, Any]:
        """Without what its processes took themselves."""
        return {
            cell.key: (cell.status, [one for one in cell.values if one.layer == "fio"]) for cell in heard.all(Done)
        }

    assert results(beside) == results(alone) and all(values for _, values in results(alone).values())
    assert len(beside.all(Interim)) == len(alone.all(Interim))
    assert {event.text.rpartition(" (lab ")[2] for event in beside.all(OnStack)} == {"1)", "2)"}
    assert {event.text.rpartition(" (lab ")[0].split(" in ")[0] for event in beside.all(OnStack)} == {
        event.text.split(" in ")[0] for event in alone.all(OnStack)
    }
    assert all(folder.has(cell) for cell in grid) and processes(folder) == []


def test_what_a_lab_sends_arrives_as_it_was(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = folder.manifest().cells[0]
    values = (
        Sample("latency.max", math.inf, "s", "fio", "a1"), Sample("tps", 1.0, "1/s", "fio", "a1", time=3.0),
        Sample("tps", 5.0, "1/s", "fio", "a1"),
    )  # fmt: skip
    rates, stops = (Rate("tps", 1.5, None),), (Stopped("w", "capped", (Rate("tps", 1.5, None),)),)
    outcome = Outcome("suspect", "said", "hint", 1.0, 2.0)
    told: tuple[AnyEvent, ...] = (
        Begun(cell.key, cell.label, 4, 7), Interim(cell.key, "w", 3, rates),
        Counted(cell.key, Count(1.0, 2, 3, 4, 5)), Done.of(cell, outcome, Parsed(values), stops),
        Judged(cell.key, cell.label, DRILL), Warned("watch out \u00b1"), OnStack("one", "building"),
    )  # fmt: skip
    lines = BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=lines))
    for event in told:
        send(event)
    heard = Heard()
    parallel = labs(folder, heard)
    for line in lines.getvalue().splitlines():
        parallel._pass_on(2, received(line))
    assert heard.events == [
        Begun(cell.key, cell.label, 1, 6), *told[1:6], OnStack("one", "building (lab 2)"),
    ]  # fmt: skip
    assert told[3] == Done(cell.key, cell.label, "suspect", 2.0, "said", "hint", values[2:], stops)


def test_a_load_that_fails_is_stored_and_counted(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILING", "mirror")
    progress = Heard()
    assert labs(folder, progress).run([CPU, CPU]) == 3
    failed = [cell for cell in progress.all(Done) if cell.status != "ok"]
    assert [each.error for each in failed] == 3 * ["a1: it fails on purpose"]
    assert sum(map(folder.has, folder.manifest().cells)) == 3


def test_a_killed_process_ends_the_others_and_the_rest_is_measured_later(folder: StudyFolder) -> None:
    class Killing(Heard):
        def then(self, event: AnyEvent) -> None:
            for pid in processes(folder) if isinstance(event, Done) else ():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(SetupError, match=r"^the process of a lab ended with exit code -9\n") as caught:
        labs(folder, Killing()).run([CPU, CPU])
    assert "resume --parallel N" in caught.value.hint
    assert processes(folder) == []
    progress = Heard()
    left = folder.missing(folder.manifest().cells)
    assert 0 < len(left) < 6
    assert labs(folder, progress).run([CPU, CPU]) == 0
    assert sorted(cell.label for cell in progress.all(Done)) == sorted(cell.label for cell in left)


def test_why_a_lab_cannot_go_on_is_said_in_the_users_language(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for language in ("en", "ja"):
        monkeypatch.setattr(catalogue, "language", lambda language=language: language)
        made[language] = labs(folder, Heard())
    (folder.path / "study.json").write_text("{}")
    for language, said in (("en", ": format None, but this"), ("ja", ": 形式 None です")):
        with pytest.raises(SetupError) as caught:
            made[language].run([CPU, CPU])
        assert said in caught.value.message and "blocklab run" in caught.value.hint


def test_ctrl_c_ends_every_lab_in_good_order(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "30")
    codes = []

    class Interrupted(Heard):
        def then(self, event: AnyEvent) -> None:
            if len(self.all(Begun)) == 2:
                raise KeyboardInterrupt

    end = Own.end
    monkeypatch.setattr(Own, "end", lambda own: codes.append(end(own)))
    with pytest.raises(KeyboardInterrupt):
        labs(folder, Interrupted()).run([CPU, CPU])
    # Not killed, after their time of grace.
    assert codes == [130, 130] and processes(folder) == []
    assert list(folder.cells.glob(".*")) == []


@pytest.mark.parametrize(
    ("depths", "labs_", "expected"),
    [
        # A lab has a layout to itself as long as there are enough of them, and part of one then.
        (4, 2, [("local", 4), ("mirror", 2), ("mirror", 1), ("mirror", 1)]),
        (4, 3, [("local", 2), ("mirror", 2), ("local", 1), ("mirror", 1), ("local", 1), ("mirror", 1)]),
        (1, 9, [("local", 1), ("mirror", 1)]),
    ],
)
def test_a_layout_is_built_by_one_lab_while_there_are_enough(
    depths: int, labs_: int, expected: list[tuple[str, int]], small: dict[str, Any]
) -> None:
    small["workloads"] = {"io": io(small)}
    values = [2**power for power in range(depths)]
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": values}}
    study = build(small)
    waiting = Waiting(study, cells(study), labs_)
    at: dict[int, tuple[str, str]] = {}
    found, turn = [], 0
    while True:
        others = [place for other, place in at.items() if other != turn]
        at[turn], share = waiting.next(at.get(turn, ("", "")), others)
        if not share:
            break
        found.append((share[0].stack, len(share)))
        turn = (turn + 1) % min(labs_, 2)
    assert found == expected and waiting.next(("", ""), ()) == (("", ""), ())


class Limited(FakeSite):
    """In a time of its own, with memory for so many labs at once, the last one with a note."""

    def __init__(self, fitting: int) -> None:
        super().__init__(Answers())
        self.offers = frozenset({OwnTime, Room})
        self.fitting = fitting

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        if labs > self.fitting:
            raise StudyError("nodes", "they do not fit")
        return "it may do" if labs == self.fitting else ""


@pytest.mark.parametrize(
    ("most", "cpus", "fit", "expected"),
    [
        (None, {3, 5, 7}, 9, [3, 5, 7]),
        (2, {3, 5, 7}, 9, [3, 5]),
        (1, {3, 5, 7}, 9, []),
        # What may do for three is not tried.
        (None, {3, 5, 7}, 3, [3, 5]),
        (None, {3, 5, 7}, 2, []),
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
