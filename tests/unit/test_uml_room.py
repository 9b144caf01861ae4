"""Room for nodes and volumes on this machine: what is refused before, and what is said when there is none left."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.errors import SetupError, StudyError
from blocklab.model.ground import NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.units import Size
from blocklab.sites.uml import memory, processes
from blocklab.sites.uml import site as uml
from blocklab.sites.uml.processes import PREFIX, Folder, Process, scratch, sweep
from blocklab.sites.uml.room import check_room, shortage
from blocklab.sites.uml.site import UmlLab, UmlSite
from blocklab.sites.uml.volumes import Volume
from blocklab.study.grid import cells, topology
from blocklab.study.read import build
from blocklab.study.room import hardwares

GIB = 2**30
SHAPE = Topology(
    {"a1": NodeSpec(memory=Size("1GiB"))}, {}, (VolumeSpec("s", ("a1",), Profile(size=Size("4GiB"))),)
)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[Path, int]:
    """GiB free in a folder; plenty of memory, and plenty anywhere else."""
    free: dict[Path, int] = {}
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path))
    monkeypatch.setattr(memory, "available", lambda: 64 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free.get(Path(place), 999) * GIB))
    return free


def test_a_place_in_memory_that_is_too_small_for_the_nodes_is_refused(
    room: dict[Path, int], tmp_path: Path
) -> None:
    # Volumes are sparse, and a file system in memory is half of it: the volumes' sizes are no reason.
    room[tmp_path] = 2
    assert "9.0 GiB (2 of each" in (note := check_room(SHAPE, copies=2)) and "--volumes DIR" in note
    assert check_room(SHAPE, volumes=tmp_path / "disk") == ""
    room[tmp_path] = 0
    with pytest.raises(StudyError) as refused:
        check_room(SHAPE, volumes=tmp_path / "disk")
    said = str(refused.value)
    assert "nodes need 1.0 GiB of room" in said and "0.0 GiB are free" in said and str(tmp_path) in said
    assert "--shm-size" in said


def test_a_place_that_is_full_is_named_with_its_cure(room: dict[Path, int], tmp_path: Path) -> None:
    assert shortage([tmp_path, tmp_path / "disk"]) == ""
    room[tmp_path / "disk"] = 0
    said = shortage([tmp_path, tmp_path / "disk"])
    assert f"0 MiB are left in {tmp_path / 'disk'}:" in said and "--volumes DIR" in said


def test_the_machines_memory_must_hold_what_is_kept_there(
    room: dict[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 8 * GIB)
    check_room(SHAPE)
    with pytest.raises(StudyError) as refused:
        check_room(SHAPE, copies=2)
    said = str(refused.value)
    assert "its volumes 8.0 GiB (2 of each" in said and "8.0 GiB are available" in said and "--volumes DIR" in said
    check_room(SHAPE, copies=9, volumes=tmp_path)
    # Labs in parallel need all of it each.
    with pytest.raises(StudyError, match=r"nodes need 3.0 GiB and its volumes 12.0 GiB"):
        check_room(SHAPE, labs=3)


def test_what_takes_the_most_memory_is_what_is_named(
    room: dict[Path, int], small: dict[str, Any], tmp_path: Path
) -> None:
    """A node of 512GiB was blamed on the volume, and `--volumes` offered, which does not help."""
    small["nodes"]["a1"]["memory"] = "512GiB"
    shape = topology(build(small), ["local"])
    for volumes in (None, tmp_path):
        with pytest.raises(StudyError) as refused:
            check_room(shape, volumes=volumes)
        assert refused.value.path == "nodes.a1.memory" and refused.value.hint == "make nodes smaller"
    small["nodes"]["a1"]["memory"] = "512MiB"
    small["stacks"]["local"]["layers"][0]["size"] = "512GiB"
    with pytest.raises(StudyError) as refused:
        check_room(topology(build(small), ["local"]))
    assert refused.value.path == "stacks.local.layers[0].size" and "--volumes DIR" in refused.value.hint


def test_each_set_of_data_that_a_lab_keeps_counts(small: dict[str, Any]) -> None:
    small["factors"] = {
        "warehouses": {"field": "workloads.orders.warehouses", "values": [1, 2, 3]},
        "threads": {"field": "workloads.orders.clients", "values": [1, 2]},
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]},
    }
    small["workloads"]["orders"] = {"workload": "tpcc"}
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
    assert not list(lab.folder.glob("saved-*"))


def test_a_copy_that_cannot_be_put_back_is_said(lab: UmlLab, request: pytest.FixtureRequest) -> None:
    lab.save("some")
    lab.restore("some")
    request.getfixturevalue("full")
    with pytest.raises(SetupError, match="No space left on device"):
        lab.restore("some")
    assert list(lab.folder.glob("saved-some")), "it is there for a later try"


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


# blocklab is killed as soon as its folder is there.
KILLED = """
import os, signal, sys
from pathlib import Path
from blocklab.sites.uml.processes import Folder
made = Path.mkdir
def mkdir(path, *more, **options):
    made(path, *more, **options)
    print(path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
Path.mkdir = mkdir
Folder(Path(sys.argv[1]))
"""


def test_whoever_kills_blocklab_at_its_first_step_leaves_no_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    made = Path(done.stdout.strip())
    assert made.name.startswith(PREFIX)
    deadline = time.monotonic() + 30
    while made.exists():
        assert time.monotonic() < deadline, "the janitor left it"
        time.sleep(0.01)


def test_a_lab_that_runs_is_not_swept(tmp_path: Path) -> None:
    running = Folder(tmp_path)
    try:
        os.utime(running.path, (0, 0))
        sweep(tmp_path)
        assert running.path.exists()
    finally:
        running.close()
    assert not running.path.exists()


def test_a_lab_that_runs_is_not_swept_by_another_name_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    running = Folder(Path("real"))
    try:
        for name in ("real", "link", "link/../real"):
            sweep(Path(name))
            assert running.path.exists(), name
    finally:
        running.close()
    assert not running.path.exists()


def test_a_lab_of_another_container_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its janitor is not among the processes that can be seen here. Of one that was killed the lock is free."""
    monkeypatch.setattr(processes, "_is_janitor", lambda *_: False)
    killed = tmp_path / f"{PREFIX}killed"
    killed.mkdir()
    (killed / "janitor").write_text("1")
    (killed / processes.ALIVE).touch()
    running = Folder(tmp_path)
    try:
        sweep(tmp_path)
        assert running.path.exists() and not killed.exists()
    finally:
        running.close()
    assert not running.path.exists()


@pytest.mark.parametrize("what", ["fifo", "folder", "device", "link", "nothing"])
def test_what_others_have_put_there_is_neither_waited_for_nor_removed(tmp_path: Path, what: str) -> None:
    """Another user's FIFO, called ``janitor``, hung everybody's ``run``."""
    theirs = tmp_path / f"{PREFIX}x"
    theirs.mkdir()
    match what:
        case "fifo":
            os.mkfifo(theirs / "janitor")
        case "folder":
            (theirs / "janitor").mkdir()
        case "device":
            (theirs / "janitor").symlink_to("/dev/zero")
        case "link":
            mine = tmp_path / "mine"
            mine.mkdir()
            (mine / "janitor").write_text("4194304")
            theirs.rmdir()
            theirs.symlink_to(mine)
    assert list(processes.stale(tmp_path)) == []
    sweep(tmp_path)
    assert theirs.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's folder can only be made by root")
def test_another_users_folder_is_not_looked_into(tmp_path: Path) -> None:
    theirs = tmp_path / f"{PREFIX}x"
    theirs.mkdir()
    (theirs / "janitor").write_text("4194304")
    assert list(processes.stale(tmp_path)) == [theirs]
    os.chown(theirs, 65534, 65534)
    assert list(processes.stale(tmp_path)) == []


# The last two have in UTF-8 a byte that the kernel takes for a blank.
SPLIT = ["My Disk", "a,b", "a:b", 'a"b', "Attivit\u00e0", "\u0420"]


@pytest.mark.parametrize("name", SPLIT)
def test_a_path_that_the_kernel_would_split_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(SetupError, match=r"--volumes .* treats .* in a path as a separator"):
        UmlSite(tmp_path / name)
    monkeypatch.setenv("BLOCKLAB_SCRATCH", str(tmp_path / name))
    with pytest.raises(SetupError, match=r"BLOCKLAB_SCRATCH.* treats .* in a path as a separator"):
        scratch()


def test_the_temporary_folder_is_looked_at_where_it_is_the_place_of_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.delenv("BLOCKLAB_SCRATCH", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path("/dev/shm") and access(path, mode))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert scratch() == tmp_path
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "My Disk"))
    with pytest.raises(SetupError, match=r"My Disk, where nodes live without /dev/shm: .* treats ' '") as refused:
        scratch()
    assert "BLOCKLAB_SCRATCH" in refused.value.hint


def test_other_letters_do_no_harm(tmp_path: Path) -> None:
    place = tmp_path / "Gr\u00f6\u00dfe"
    place.mkdir()
    UmlSite(place)


def test_a_path_that_is_too_long_for_a_volumes_sockets_is_refused(tmp_path: Path) -> None:
    spec = VolumeSpec("s", ("a1",), Profile(size=Size("1MiB"), iops=100))
    volume = Volume(spec, tmp_path, tmp_path / ("x" * 100))
    with pytest.raises(
        SetupError, match=r"socket .*a1-s-0\.vhost has .* bytes, and the system takes 107"
    ) as refused:
        volume.serve(None, lambda *_: pytest.fail("started"))  # type: ignore[arg-type]
    assert "BLOCKLAB_SCRATCH" in refused.value.hint


# -- the start -----------------------------------------------------------------------------------------------


def test_nodes_are_watched_before_they_get_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[object] = []
    monkeypatch.setattr(UmlLab, "_boot", lambda *_: None)
    monkeypatch.setattr(UmlLab, "_ready", lambda lab, *_: watched.append(lab._watch))
    shape = Topology({"a1": NodeSpec(memory=Size("1GiB"))}, {}, ())
    UmlLab(None, shape, tmp_path, None).close()  # type: ignore[arg-type]
    assert len(watched) == 1 and watched[0] is not None


def test_what_cannot_be_started_is_named(lab: UmlLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uml, "Process", lambda name, argv, log, lab: log.open("ab"))
    with pytest.raises(SetupError, match=r"node a1 cannot be started: .*No such file or directory.*console"):
        lab._process("node a1", ["true"], tmp_path / "none" / "console")


def test_the_limits_of_a_container_count(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   8388608 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("12:memory:/old\n0::/user.slice/one\n")
    inner = tmp_path / "cgroup/user.slice/one"
    inner.mkdir(parents=True)

    def limit(folder: Path, most: str, used: int, idle: int) -> None:
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(
            f"anon 5\ninactive_file {idle - 7}\nactive_file 4\nslab_reclaimable 3\n"
        )

    def found() -> int:
        return memory.available(tmp_path / "proc", tmp_path / "cgroup")

    assert found() == 8 * 2**30
    limit(inner, "max", 100, 7)
    assert found() == 8 * 2**30
    # That of an outer one holds as well.
    limit(inner.parent, str(2**30), 700 * 2**20, 100 * 2**20)
    assert found() == (1024 - 600) * 2**20
    limit(inner, str(2**20), 2**20, 7)
    assert found() == 7


def test_a_unit_test_that_starts_a_node_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="would start node a1"):
        Process("node a1", ["true"], tmp_path / "a1.console")
