"""Room for nodes and volumes on this machine: what is refused before, and what is said when there is none left."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.errors import SetupError, StudyError
from blocklab.model.ground import NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.units import Size
from blocklab.sites.uml import site as uml
from blocklab.sites.uml.processes import PREFIX, UNBORN_SECONDS, Folder, sweep
from blocklab.sites.uml.site import UmlLab, UmlSite, check_room
from blocklab.study.estimate import hardwares
from blocklab.study.grid import cells
from blocklab.study.read import build

GIB = 2**30
SHAPE = Topology(
    {"a1": NodeSpec(memory=Size("1GiB"))}, {}, (VolumeSpec("s", ("a1",), Profile(size=Size("4GiB"))),)
)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[Path, int]:
    """GiB free in a folder; plenty of memory, and plenty anywhere else."""
    free: dict[Path, int] = {}
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path))
    monkeypatch.setattr(uml, "memory_available", lambda: 64 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free.get(Path(place), 999) * GIB))
    return free


def test_a_place_in_memory_that_is_too_small_is_refused(room: dict[Path, int], tmp_path: Path) -> None:
    room[tmp_path] = 5
    check_room(SHAPE)
    with pytest.raises(StudyError) as refused:
        check_room(SHAPE, copies=2)
    said = str(refused.value)
    assert "1.0 GiB" in said and "8.0 GiB" in said and "5.0 GiB are free" in said and str(tmp_path) in said
    assert "stacks.s.layers[0].size" in said and "--volumes DIR" in said and "--shm-size" in said


def test_a_disk_that_is_too_small_is_refused(room: dict[Path, int], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    # The nodes alone stay in memory.
    room |= {disk: 12, tmp_path: 1}
    check_room(SHAPE, volumes=disk, copies=3)
    with pytest.raises(StudyError) as refused:
        check_room(SHAPE, volumes=disk, copies=4)
    said = str(refused.value)
    assert "may grow to 16.0 GiB (4 of each" in said and f"12.0 GiB are free in {disk}" in said
    room[tmp_path] = 0
    with pytest.raises(StudyError, match=r"nodes need 1\.0 GiB") as refused:
        check_room(SHAPE, volumes=disk)
    assert "--volumes" not in refused.value.hint


def test_each_set_of_data_that_a_lab_keeps_counts(small: dict[str, Any]) -> None:
    small["factors"] = {
        "warehouses": {"field": "workloads.orders.warehouses", "values": [1, 2, 3]},
        "threads": {"field": "workloads.orders.threads", "values": [1, 2]},
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]},
    }
    small["workloads"]["orders"] = {"load": "tpcc"}
    study = build(small)
    grid = cells(study)
    # The local stack and the mirror; neither threads nor round trips make other data.
    assert [copies for _, copies in hardwares(study, grid)] == [4, 4]
    assert [copies for _, copies in hardwares(study, [each for each in grid if each.workload == "io"])] == [1, 1]


# -- copies --------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[UmlLab]:
    """Two volumes with data on them, and no nodes."""
    volumes = tuple(VolumeSpec("s", ("a1",), Profile(size=Size("1MiB")), index) for index in range(2))
    made = UmlLab(None, Topology({}, {}, volumes), tmp_path, None)  # type: ignore[arg-type]
    for number in range(2):
        file = made.volume("s", "a1", number)
        assert file is not None
        with file.open("r+b") as stream:
            stream.write(b"data of %d" % number)
    yield made
    made.close()
    assert not list(tmp_path.glob(f"{PREFIX}*"))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place fills up at the second volume."""
    sendfile, sent = os.sendfile, []

    def limited(*args: Any) -> int:
        sent.append(args)
        if len(sent) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return sendfile(*args)

    monkeypatch.setattr(os, "sendfile", limited)


@pytest.mark.usefixtures("full")
def test_a_copy_for_which_there_is_no_room_is_no_copy(lab: UmlLab, tmp_path: Path) -> None:
    with pytest.raises(SetupError) as refused:
        lab.save("some")
    assert "No space left on device" in refused.value.message and str(tmp_path) in refused.value.message
    assert "--volumes DIR" in refused.value.hint
    assert not lab.saved("some") and not list(lab.folder.glob("saved-*"))


def test_a_copy_that_cannot_be_put_back_is_said(lab: UmlLab, request: pytest.FixtureRequest) -> None:
    lab.save("some")
    lab.restore("some")
    request.getfixturevalue("full")
    with pytest.raises(SetupError, match="No space left on device"):
        lab.restore("some")
    assert lab.saved("some")


# -- the folder of the volumes -------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="no such folder"):
        UmlSite(tmp_path / "none")
    UmlSite(tmp_path)
    # Root may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (tmp_path, os.W_OK | os.X_OK))
    with pytest.raises(SetupError, match="cannot be written to"):
        UmlSite(tmp_path)


def test_a_place_that_takes_no_folder_is_said() -> None:
    with pytest.raises(SetupError, match="no folder can be made in /proc"):
        Folder(Path("/proc"))


def test_a_run_says_where_its_volumes_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uml, "environment", lambda image: {"site": "uml"})
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path))
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    image: Any = object()
    assert UmlSite(image=image).environment() == {"site": "uml", "volumes": str(tmp_path)}
    assert UmlSite(Path("disk"), image).environment()["volumes"] == str(tmp_path / "disk")


# -- what is left of labs ------------------------------------------------------------------------------------


def folder(base: Path, name: str, age: float, *files: str, mode: int = 0o700) -> Path:
    made = base / f"{PREFIX}{name}"
    made.mkdir()
    for file in files:
        (made / file).write_text("")
    made.chmod(mode)
    os.utime(made, (time.time() - age,) * 2)
    return made


def test_a_folder_that_never_had_a_janitor_is_swept_and_nothing_else(tmp_path: Path) -> None:
    old, young = 2 * UNBORN_SECONDS, 0.0
    gone = [folder(tmp_path, "abcdef01", old), folder(tmp_path, "abcdef02", old, "groups")]
    kept = [
        folder(tmp_path, "abcdef03", young),
        # These may be the user's own.
        folder(tmp_path, "results", old, "table.csv"),
        folder(tmp_path, "empty", old, mode=0o755),
    ]
    sweep(tmp_path)
    assert not [path for path in gone if path.exists()]
    assert [path for path in kept if path.exists()] == kept


def test_a_lab_that_runs_is_not_swept(tmp_path: Path) -> None:
    running = Folder(tmp_path)
    try:
        os.utime(running.path, (0, 0))
        sweep(tmp_path)
        assert running.path.exists()
    finally:
        running.close()
    assert not running.path.exists()
