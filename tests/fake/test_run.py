"""Whole studies on the fake site: what is stored, what fails, what resumes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import HostTimeout, NodeLost, StoreError
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeLab, FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.fake.answers import Answers
from tests.fake.runs import Silent, go, io


@pytest.fixture
def study(small: dict[str, Any]) -> Study:
    small["workloads"] = {"io": io(small)}
    return build(small)


def test_a_good_study_stores_everything(study: Study, tmp_path: Path) -> None:
    folder, progress, bad, site = go(study, tmp_path, Answers())
    assert bad == 0 and {outcome.status for outcome in progress.outcomes.values()} == {"ok"}
    runs = folder.runs()
    assert [run.cell.label for run in runs] == ["local/io", "mirror/io"]
    for run in runs:
        assert run.values() and run.series()
        assert any(record.part == "workload" for record in run.records)
        assert (run.folder / "raw" / "workload" / "stdout").stat().st_size > 0
        assert all(knob.in_force for knob in run.knobs)
    assert {knob.name for knob in runs[1].knobs} >= {
        "net.protocol",
        "net.max-buffers",
        "disk.disk-flushes",
        "delay",
    }
    assert folder.missing(cells(study)) == ()
    assert all(lab.closed for lab in site.labs) and len(site.labs) == 2
    assert not list(folder.cells.glob(".*"))


def test_how_busy_the_machine_was_is_stored_with_each_cell(study: Study, tmp_path: Path) -> None:
    folder, _, _, _ = go(study, tmp_path, Answers())
    for run in folder.runs():
        known = {"busy": 25.0, "steal": 0.0, "foreign": 0.0, "pressure": 50.0}
        assert run.stack.machine == pytest.approx(known, abs=0.1)


def test_every_second_repeat_is_the_other_way_round(study: Study, tmp_path: Path) -> None:
    three = msgspec.structs.replace(study, repeats=3)
    _, progress, bad, _ = go(three, tmp_path, Answers())
    assert bad == 0
    order = ["local", "mirror", "mirror", "local", "local", "mirror"]
    assert [label.partition("/")[0] for label in progress.outcomes] == order


def test_a_knob_not_in_force_makes_the_cell_invalid(study: Study, tmp_path: Path) -> None:
    answers = Answers()
    answers.override["drbdsetup"] = Result(0, b"resource mirror {\n net {\n protocol A;\n }\n}\n", b"")
    folder, progress, bad, _ = go(study, tmp_path, answers)
    assert bad == 1
    outcome = progress.outcomes["mirror/io"]
    assert outcome.status == "invalid"
    assert "net.protocol should be C, but the running system says A" in outcome.error
    assert progress.outcomes["local/io"].status == "ok"
    assert [cell.label for cell in folder.missing(cells(study))] == ["mirror/io"]


def test_an_unreadable_knob_is_not_in_force(study: Study, tmp_path: Path) -> None:
    answers = Answers()
    answers.override["blockdev"] = Result(1, b"", b"no such device\n")
    _, progress, bad, _ = go(study, tmp_path, answers)
    assert bad == 2 and "unreadable" in progress.outcomes["local/io"].error


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([b"8C:0:0:0:1:1:1:1:0:0:0\n", b"9D:0:8C:0:1:1:1:1:0:0:0\n"], "changed"),
        ([b"8C:0:0:0:1:1:1:1:0:0:0\n", b""], "unreadable"),
        ([b"", b""], "unreadable"),
    ],
)
def test_a_mirror_that_broke_and_healed_during_the_load_makes_the_cell_invalid(
    study: Study, tmp_path: Path, told: list[bytes], said: str
) -> None:
    """It is connected and up to date, before and after; but for a while the workload ran without it."""
    answers, left = Answers(), list(told)

    def answer(host: str, argv: Argv) -> Result:
        return Result(0, left.pop(0), b"") if argv[:2] == ("drbdadm", "get-gi") else answers(host, argv)

    folder, progress, bad, _ = go(study, tmp_path, answer)
    outcome = progress.outcomes["mirror/io"]
    assert bad == 1 and not left and outcome.status == "invalid"
    assert f"data generation should be unchanged, but the running system says {said}" in outcome.error
    # It was measured, and is kept to look at.
    assert folder.runs()[1].values()


def test_a_generation_is_not_stored_since_each_build_has_its_own(study: Study, tmp_path: Path) -> None:
    folder, _, _, _ = go(study, tmp_path, Answers())
    found = [knob for knob in folder.runs()[1].knobs if knob.name == "data generation"]
    assert [(knob.wanted, knob.value) for knob in found] == [("unchanged", "unchanged")]


def test_a_load_that_fails_names_command_host_and_output_and_the_others_go_on(
    study: Study, tmp_path: Path
) -> None:
    answers = Answers()

    def answer(host: str, argv: Argv) -> Result:
        fails = "--output-format=json+" in argv and "/mnt/local" in answers.mounted.get(host, "")
        return Result(1, b"", b"fio: no space left\n") if fails else answers(host, argv)

    folder, progress, bad, _ = go(study, tmp_path, answer)
    assert bad == 1
    failed, good = progress.outcomes["local/io"], progress.outcomes["mirror/io"]
    assert failed.status == "failed" and good.status == "ok"
    assert "a1: exit code 1" in failed.error and "fio" in failed.error and "no space left" in failed.error
    stored = folder.runs()[0]
    assert (stored.folder / "raw" / "workload" / "stderr").read_text() == "fio: no space left\n"


def test_garbage_from_a_load_is_failed_and_kept(study: Study, tmp_path: Path) -> None:
    answers = Answers()
    answers.override["--output-format=json+"] = Result(0, b"half a { line", b"")
    folder, _, bad, _ = go(study, tmp_path, answers)
    assert bad == 2
    assert (folder.runs()[0].folder / "raw" / "workload" / "stdout").read_bytes() == b"half a { line"


def test_garbage_from_a_probe_is_a_warning(study: Study, tmp_path: Path) -> None:
    answers = Answers()
    answers.override["sampler"] = Result(0, b"<html>", b"")
    _, progress, bad, _ = go(study, tmp_path, answers)
    assert bad == 0 and any("probe disks" in warning for warning in progress.warnings)


def test_a_stack_that_cannot_be_built_fails_its_cells_only(study: Study, tmp_path: Path) -> None:
    answers = Answers()
    answers.override["mkfs.ext4"] = Result(1, b"", b"mkfs.ext4: bad\n")
    folder, progress, bad, site = go(study, tmp_path, answers)
    assert bad == 1 and progress.outcomes["local/io"].status == "ok"
    assert "mkfs.ext4: bad" in progress.outcomes["mirror/io"].error
    assert folder.runs()[1].outcome.status == "failed"
    assert all(lab.closed for lab in site.labs)


def test_a_node_lost_in_one_cell_costs_only_that_cell(small: dict[str, Any], tmp_path: Path) -> None:
    small["workloads"] = {"one": io(small), "two": {**io(small), "size": "32MiB"}}
    study = build(small)
    answers = Answers()
    lost: list[str] = []

    def answer(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv and not lost:
            lost.append(host)
            raise NodeLost(host, "its kernel panicked", "Kernel panic - not syncing: test")
        return answers(host, argv)

    _, progress, bad, site = go(study, tmp_path, answer)
    assert bad == 1 and "Kernel panic" in progress.outcomes["local/one"].error
    assert [progress.outcomes[name].status for name in ("local/two", "mirror/one", "mirror/two")] == ["ok"] * 3
    assert len(site.labs) == 3  # the local stack was built again for its second cell


def test_resume_measures_only_what_is_missing(study: Study, tmp_path: Path) -> None:
    grid = cells(study)
    folder, *_ = go(study, tmp_path, Answers(), grid[:1])
    before = (folder.cells / grid[0].key / "result.json").stat().st_mtime_ns
    missing = folder.missing(grid)
    assert missing == grid[1:]
    _, progress, bad, _ = go(study, tmp_path, Answers(), missing)
    assert bad == 0 and list(progress.outcomes) == ["mirror/io"]
    assert (folder.cells / grid[0].key / "result.json").stat().st_mtime_ns == before
    assert folder.missing(grid) == ()


def test_a_draft_of_a_dead_process_is_swept(study: Study, tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    dead = folder.cells / ".abc.4194304.partial"  # above the highest process id that Linux gives
    dead.mkdir()
    StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    assert not dead.exists()


@pytest.mark.parametrize("fits", [0, 1])
def test_a_disk_that_fills_up_ends_the_study_and_leaves_missing_what_is_not_measured(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int
) -> None:
    """Without the draft there is room again, so that failed cells could be stored instead."""
    small["workloads"] = {"one": io(small), "two": {**io(small), "size": "32MiB"}}
    study = build(small)
    folder, site = StudyFolder.create(tmp_path, Manifest(study, cells(study))), FakeSite(Answers())
    write = Draft.write
    written: list[Any] = []

    def full(*args: Any, **more: Any) -> None:
        written.append(args)
        if len(written) == fits + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(*args, **more)

    monkeypatch.setattr(Draft, "write", full)
    with pytest.raises(StoreError, match=r"cannot write the run .*No space left") as caught:
        run_study(site, study, cells(study), folder, Silent())
    assert "make room" in caught.value.hint and len(written) == fits + 1
    assert [run.outcome.status for run in folder.runs()] == ["ok"] * fits
    assert not list(folder.cells.glob(".*")) and all(lab.closed for lab in site.labs)


def test_output_that_cannot_be_kept_ends_the_study(study: Study, tmp_path: Path) -> None:
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    answers = Answers()

    def answer(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            raise StoreError(f"{host}: what a command prints cannot be written")
        return answers(host, argv)

    with pytest.raises(StoreError, match="a1: what a command prints"):
        run_study(FakeSite(answer), study, cells(study), folder, Silent())
    assert folder.runs() == ()


@pytest.mark.parametrize("fails", ["--output-format=json+", "mkfs.xfs"])
def test_what_fails_where_there_is_no_room_left_says_so(study: Study, tmp_path: Path, fails: str) -> None:
    class Full(FakeSite):
        def start(self, topology: Topology) -> FakeLab:
            lab = super().start(topology)
            lab.lacks = "only 3 MiB are left in /dev/shm"
            return lab

    answers, progress = Answers(), Silent()
    answers.override[fails] = Result(1, b"", b"Input/output error\n")
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    run_study(Full(answers), study, cells(study), folder, progress)
    outcome = progress.outcomes["local/io"]
    assert outcome.status == "failed" and "Input/output error" in outcome.error
    assert outcome.hint == "only 3 MiB are left in /dev/shm"


def test_a_file_that_cannot_be_fetched_is_said_of_the_host_and_keeps_the_rest(
    study: Study, tmp_path: Path
) -> None:
    answers = Answers()

    def answer(host: str, argv: Argv) -> Result:
        if argv[0] == "get":
            raise FileNotFoundError(2, "No such file or directory")
        return answers(host, argv)

    folder, progress, bad, _ = go(study, tmp_path, answer)
    assert bad == 2
    assert "a1: cannot read" in progress.outcomes["local/io"].error
    assert (folder.runs()[0].folder / "raw" / "workload" / "stdout").stat().st_size > 0


def test_a_clock_that_cannot_be_read_costs_no_figures(study: Study, tmp_path: Path) -> None:
    answers = Answers()

    def answer(host: str, argv: Argv) -> Result:
        if argv[0] == "date":
            raise HostTimeout(host, 1.0)
        return answers(host, argv)

    folder, _, bad, _ = go(study, tmp_path, answer)
    assert bad == 0 and folder.runs()[0].stack.clocks == {"a1": ()}


def test_what_a_cell_left_broken_is_built_anew_for_the_next_and_costs_no_load(
    small: dict[str, Any], tmp_path: Path
) -> None:
    small["workloads"] = {"io": io(small), "more": {**io(small), "size": "64MiB"}}
    small["stacks"] = {"mirror": small["stacks"]["mirror"]}
    small["baseline"] = "mirror"
    answers = Answers()
    answers.override["drbdsetup"] = Result(0, b"resource mirror {\n net {\n protocol A;\n }\n}\n", b"")
    _, progress, bad, site = go(build(small), tmp_path, answers)
    assert bad == 2 and {outcome.status for outcome in progress.outcomes.values()} == {"invalid"}
    log = [argv for lab in site.labs for host, argv in lab.log if host == "a1"]
    assert log.count(("drbdadm", "up", "mirror")) == 2
    assert not [argv for argv in log if "--output-format=json+" in argv], "nothing is measured on another layout"
    assert "nothing was measured" in progress.outcomes["mirror/io"].hint


def test_a_build_that_fails_on_used_nodes_is_tried_again_on_new_ones(
    small: dict[str, Any], tmp_path: Path
) -> None:
    """What an earlier layout left on them is not this layout's."""
    small["workloads"] = {"io": io(small)}
    small["stacks"] = {"mirror": small["stacks"]["mirror"]}
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]}}
    small["baseline"] = "mirror"

    class Left(Answers):
        made = 0

        def __call__(self, host: str, argv: Argv) -> Result:
            if argv[0] == "mkfs.ext4":
                self.made += 1
                if self.made == 2:
                    return Result(1, b"", b"mkfs.ext4: /dev/drbd0 is apparently in use\n")
            return super().__call__(host, argv)

    _, progress, bad, site = go(build(small), tmp_path, Left())
    assert bad == 0 and len(site.labs) == 2
    assert any("apparently in use" in each and "built again" in each for each in progress.warnings)
