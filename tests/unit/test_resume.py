"""``resume`` goes on with a study as it was started: its volumes, its part of the grid, measured again or not."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab import report
from blocklab.campaign import here as campaign
from blocklab.campaign import start
from blocklab.cli.main import main
from blocklab.cli.progress import INTERRUPTED
from blocklab.model.sample import Parsed
from blocklab.model.site import EmulatedLinks, EmulatedVolumes, Pauses, Power
from blocklab.predict import cells as predicting
from blocklab.store.folder import Manifest, StudyFolder, claimed
from blocklab.store.identity import identity
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell, Study


class Site:
    """Told where the volumes are to be."""

    offers = frozenset({Power, Pauses, EmulatedLinks, EmulatedVolumes})

    def __init__(self, volumes: Path | None, machine: str) -> None:
        self.volumes = volumes
        self.machine = machine

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"site": "uml", "machine": self.machine} if self.machine else {}


class Lab:
    """Plays ``run_study``: stores a good run of each cell, until Ctrl-C after so many."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._most = 99
        self.begun: list[str] = []
        self.volumes: Path | None = None
        self.machine = "here"

    def __call__(self, site: Site, study: Study, todo: Sequence[Cell], folder: StudyFolder, *_: Any) -> int:
        self.volumes = site.volumes
        for number, cell in enumerate(todo):
            if number == self._most:
                raise KeyboardInterrupt
            self.begun.append(cell.label)
            # Not before the study began, by the same clock.
            outcome = Outcome("ok", started=time.time())
            with draft(folder.cells, cell.key) as here:
                here.write(cell, outcome, environment=site.environment(), records=[], knobs=[], parsed=Parsed())
        return 0

    def do(self, *argv: str, most: int = 99) -> list[str]:
        """The labels of the cells that a command measured, before Ctrl-C or its end."""
        code = self.code(*argv, most=most)
        assert code == (INTERRUPTED if most < 99 else 0)
        return self.begun

    def code(self, *argv: str, most: int = 99) -> int:
        """How a command ends."""
        self._most, self.begun = most, []
        sys.argv = ["blocklab", *argv, "--runs", str(self._runs)]
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path / "runs")
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(
        start, "open_site", lambda name, volumes=None, hosts=None, seed=0: Site(volumes, made.machine)
    )
    monkeypatch.setattr(campaign, "run_study", made)
    # Reports are others' affair.
    monkeypatch.setattr(predicting, "analysed", lambda folder: None)
    monkeypatch.setattr(report, "render", lambda folder, analysis: "page")
    monkeypatch.setattr(report, "terminal_table", lambda folder, analysis, **_: "")
    return made


@pytest.fixture
def file(small: dict[str, Any], tmp_path: Path) -> str:
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 8]}}
    del small["workloads"]["tx"]
    path = tmp_path / "small.yaml"
    YAML().dump(small, path)
    return str(path)


ONE, EIGHT = "local/io depth=1", "local/io depth=8"
MIRROR = ["mirror/io depth=1", "mirror/io depth=8"]


def test_volumes_stay_where_they_were(
    lab: Lab, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, other = tmp_path / "disk", tmp_path / "other"
    disk.mkdir()
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    assert lab.do("run", file, "--volumes", "disk", most=1) == [ONE]
    monkeypatch.chdir("/")
    assert lab.do("resume", most=1) == [EIGHT] and lab.volumes == disk
    assert lab.do("resume", "--volumes", str(other), most=1) == MIRROR[:1] and lab.volumes == other
    assert lab.do("resume") == MIRROR[1:] and lab.volumes == disk
    assert lab.do("run", file, "--again") == [ONE, EIGHT, *MIRROR] and lab.volumes is None


def test_only_what_was_asked_for_is_measured(lab: Lab, file: str) -> None:
    assert lab.do("run", file, "--stack", "mirror", most=1) == MIRROR[:1]
    assert lab.do("resume") == MIRROR[1:]
    assert lab.do("resume") == []
    assert lab.do("run", file, "--at", "depth=8", most=0) == []
    assert lab.do("resume") == [EIGHT]
    assert lab.do("run", file) == [ONE]


def test_what_is_measured_again_is_measured_again_once(lab: Lab, file: str) -> None:
    every = [ONE, EIGHT, *MIRROR]
    assert lab.do("run", file) == every
    assert lab.do("run", file, "--again", most=1) == [ONE]
    assert lab.do("resume", most=2) == [EIGHT, MIRROR[0]]
    assert lab.do("resume") == MIRROR[1:]
    assert lab.do("resume") == [] == lab.do("run", file)


def test_drills_are_resumed_the_same_way(lab: Lab, small: dict[str, Any], tmp_path: Path) -> None:
    small["stacks"] = {"plain": small["stacks"]["local"]}
    small["workloads"] = {"writes": {"workload": "ledger", "from": "b1"}, "tx": small["workloads"]["tx"]}
    small["faults"], small["baseline"] = {"pause": {"fault": "freeze", "at": "1s", "for": "1s"}}, "plain"
    path, disk = tmp_path / "drilled.yaml", tmp_path / "disk"
    disk.mkdir()
    YAML().dump(small, path)
    drills = ["plain/writes", "plain/writes (repeat 2)", "plain/writes (repeat 3)"]
    assert lab.do("drill", str(path), "--times", "3", "--volumes", str(disk)) == drills
    assert lab.do("drill", str(path), "--times", "3", "--volumes", str(disk), "--again", most=1) == drills[:1]
    assert lab.do("resume") == drills[1:] and lab.volumes == disk


@pytest.mark.parametrize("command", ["drill", "run"])
def test_drills_of_an_earlier_call_stay_in_the_report(
    lab: Lab, small: dict[str, Any], tmp_path: Path, command: str
) -> None:
    small["stacks"] = {"plain": small["stacks"]["local"]}
    small["workloads"] = {"writes": {"workload": "ledger", "from": "b1"}, "tx": small["workloads"]["tx"]}
    small["faults"], small["baseline"] = {"pause": {"fault": "freeze", "at": "1s", "for": "1s"}}, "plain"
    path = tmp_path / "drilled.yaml"
    YAML().dump(small, path)
    assert len(lab.do("drill", str(path), "--times", "4")) == 4
    assert lab.do(command, str(path)) == (["plain/tx"] if command == "run" else [])
    [folder] = [StudyFolder(file.parent) for file in tmp_path.rglob("study.json")]
    labels = [cell.label for cell in folder.manifest().cells]
    assert sorted(labels) == [
        "plain/tx", "plain/writes", *(f"plain/writes (repeat {number})" for number in (2, 3, 4))
    ]  # fmt: skip
    assert folder.manifest().study.repeats == 4 and lab.do("resume") == []
    # Of another study, they are none of its own.
    small["faults"]["pause"]["at"] = "2s"
    YAML().dump(small, path)
    assert lab.do("drill", str(path)) == ["plain/writes"]
    assert len(folder.manifest().cells) == 2 and folder.manifest().study.repeats == 1


def test_a_selection_without_any_cell_is_no_success(
    lab: Lab, small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 8]}}
    small["exclude"] = [{"stack": "mirror", "depth": 8}, {"stack": "mirror", "workload": "tx"}]
    path = tmp_path / "small.yaml"
    YAML().dump(small, path)
    assert lab.do("run", str(path), "--stack", "local", most=1)
    for command in (["run", str(path)], ["plan", "--cells", str(path)]):
        asked = [*command, "--stack", "mirror", "--at", "depth=8"]
        sys.argv = ["blocklab", *asked, *(["--runs", str(tmp_path / "runs")] if command[0] == "run" else [])]
        with pytest.raises(SystemExit) as end:
            main()
        said = " ".join(capsys.readouterr().err.split())
        assert end.value.code == 2 and "leaves none of the cells that are asked for" in said
    # What was begun before can still be resumed.
    assert lab.do("resume") != []


def test_a_study_of_an_earlier_version_is_resumed_as_ever(lab: Lab, small: dict[str, Any], tmp_path: Path) -> None:
    study = build(small)
    folder = StudyFolder.create(tmp_path / "runs", Manifest(study, cells(study)))
    path = folder.path / "study.json"
    old = {name: value for name, value in json.loads(path.read_text()).items() if name in
           ("study", "cells", "quick", "source", "seed", "format")}  # fmt: skip
    path.write_text(json.dumps(old))
    assert lab.do("resume", most=1) == ["local/io"]
    assert lab.do("resume") == ["local/tx", "mirror/io", "mirror/tx"]
    assert lab.volumes is None


def test_a_folder_of_somebody_else_is_resumed_only_as_far_as_a_study_may_go(
    lab: Lab, small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = build(small)
    folder = StudyFolder.create(tmp_path / "runs", Manifest(study, cells(study)))
    path = folder.path / "study.json"
    plain = json.loads(path.read_text())
    plain["study"]["stacks"]["local"]["layers"][1]["mkfs"] = ["-l", "logdev=/dev/sdb"]
    path.write_text(json.dumps(plain))
    assert lab.code("resume") == 2 and lab.begun == []
    assert "stacks.local.layers[1].mkfs[0]: -l logdev: refused" in " ".join(capsys.readouterr().err.split())


def test_two_do_not_measure_for_one_folder_at_once(
    lab: Lab, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.do("run", file, most=1) == [ONE]
    [folder] = [path.parent for path in tmp_path.rglob("study.json")]
    with claimed(folder):
        for command in (["run", file], ["resume"]):
            with pytest.raises(AssertionError):
                lab.do(*command)
            assert "another blocklab measures for" in capsys.readouterr().err and lab.begun == []
    assert lab.do("resume") == [EIGHT, *MIRROR]


def test_runs_of_two_machines_never_pass_for_each_other(
    lab: Lab, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.do("run", file, most=2) == [ONE, EIGHT]
    lab.machine = "elsewhere"
    for argv in (("resume",), ("run", file)):
        assert lab.code(*argv) == 1 and lab.begun == []
        said = " ".join(capsys.readouterr().err.split())
        assert "runs of another machine" in said and "machine here" in said and "machine elsewhere" in said
        assert "--again" in said and "--runs" in said
    # All of it here, or in a folder of its own.
    assert lab.do("run", file, "--again") == [ONE, EIGHT, *MIRROR]
    lab.machine = "here"
    lab._runs = tmp_path / "others"
    assert lab.do("run", file) == [ONE, EIGHT, *MIRROR]


def test_runs_that_do_not_say_where_they_were_measured_are_resumed(lab: Lab, file: str) -> None:
    """Those of earlier versions."""
    lab.machine = ""
    assert lab.do("run", file, most=2) == [ONE, EIGHT]
    lab.machine = "here"
    assert lab.do("resume") == MIRROR


def test_two_clouds_of_one_cpu_model_are_told_apart() -> None:
    host = {"cpu": "Xeon", "cpus": 2}
    one, other = (identity({"site": "uml", "machine": name, "host": host}) for name in ("a", "b"))
    unnamed = identity({"site": "uml", "host": host})
    assert one.may_be(one) and not one.may_be(other) and one.may_be(unnamed)
    assert not unnamed.may_be(identity({"site": "uml", "host": {**host, "cpu": "EPYC"}}))
