"""Files of the agent's where others can write: a real agent, and whatever another user can have put there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blocklab.model import places
from blocklab.sites.uml import recipe
from blocklab.sites.uml.line import SerialLine
from blocklab.sites.uml.node import Node
from blocklab_node import agent, host_agent, journal, tables, verbs

# Its own folders are elsewhere, so that a test has them to itself.
SERVE = """\
import runpy, sys
module = runpy.run_path(sys.argv[1])
Agent = module["Agent"]
names = Agent.do_put.__globals__
names["RUN"], names["STATE"] = sys.argv[3] + "/run", sys.argv[3] + "/lib"
names["WORK"] = names["STATE"] + "/work"
names["FOLDER_MODES"] = {names["RUN"]: 0o755, names["STATE"]: 0o711, names["WORK"]: 0o711}
Agent(int(sys.argv[2])).serve()
"""
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files can only be made by root")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Node]:
    ours, theirs = socket.socketpair()
    line = theirs.fileno()
    argv = [sys.executable, "-c", SERVE, str(recipe.AGENT), str(line), str(tmp_path)]
    process = subprocess.Popen(argv, pass_fds=[line], stderr=subprocess.DEVNULL)
    theirs.close()
    node = Node("a1", None, SerialLine("a1", ours))  # type: ignore[arg-type]
    assert node.channel.ready.wait(30.0)
    yield node
    node.channel.close()
    process.kill()
    process.wait()


@pytest.fixture
def open_to_all(tmp_path: Path) -> Path:
    """A folder like /var/tmp."""
    tmp_path.chmod(0o755)
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_all_sides_have_the_same_folders() -> None:
    assert (agent.RUN, agent.STATE) == (places.RUN, places.STATE) and places.work("").rstrip("/") == agent.WORK
    assert tables.RUN == places.RUN and places.run("sysctl") == verbs.KEPT
    assert journal.JOURNAL.startswith(f"{places.STATE}/")
    assert places.PROGRAMS in host_agent.LEFT and Path(places.log("x")).parent.as_posix() in host_agent.LEFT
    assert all(path.startswith((f"{places.RUN}/", f"{places.STATE}/")) for path in host_agent.LEFT)


def test_a_file_and_its_folders_are_made_as_its_mode_says(host: Node, tmp_path: Path) -> None:
    host.put(f"{tmp_path}/a/b/file", b"text", 0o644)
    host.put(f"{tmp_path}/secret/file", b"text", 0o600)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b/file", "secret", "secret/file")]
    assert modes == [0o755, 0o644, 0o700, 0o600]
    host.put(f"{tmp_path}/a/b/file", b"less", 0o600)
    assert (tmp_path / "a/b/file").read_bytes() == b"less"
    assert (tmp_path / "a/b/file").stat().st_mode & 0o777 == 0o600


def test_the_administrators_links_are_followed(host: Node, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "absolute").symlink_to(tmp_path / "disk")
    (tmp_path / "relative").symlink_to("./absolute/../disk")
    host.put(f"{tmp_path}/relative/new/file", b"text")
    assert (tmp_path / "disk/new/file").read_bytes() == b"text"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        host.put(f"{tmp_path}/loop/file", b"text")


@pytest.mark.parametrize("path", ["file", "blocklab-fio/job.fio", "ours/file"])
def test_nothing_is_put_where_others_can_write(host: Node, open_to_all: Path, path: str) -> None:
    (open_to_all / "ours").mkdir()
    (open_to_all / "ours").chmod(0o777)
    with pytest.raises(PermissionError, match="others than root can write to"):
        host.put(f"{open_to_all}/{path}", b"text")
    assert [each.name for each in open_to_all.rglob("*")] == ["ours"]


def test_a_folder_of_ours_in_a_sticky_one_is_safe(host: Node, open_to_all: Path) -> None:
    (open_to_all / "ours").mkdir(mode=0o700)
    host.put(f"{open_to_all}/ours/file", b"text")
    assert (open_to_all / "ours/file").read_bytes() == b"text"
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError, match="the folder of ours"):
        host.put(f"{open_to_all}/ours/file", b"more")


def planted_link(folder: Path, victim: Path) -> None:
    (folder / "blocklab-fio").symlink_to(victim.parent)


def planted_folder(folder: Path, victim: Path) -> None:
    (folder / "blocklab-fio").mkdir()
    (folder / "blocklab-fio/victim").symlink_to(victim)
    os.chown(folder / "blocklab-fio", NOBODY, NOBODY)


@as_root
@pytest.mark.parametrize("plant", [planted_link, planted_folder])
def test_what_another_user_has_put_there_first_is_not_written_through(
    host: Node, open_to_all: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim = tmp_path / "etc/victim"
    victim.parent.mkdir()
    victim.write_text("root's own")
    plant(open_to_all, victim)
    with pytest.raises(OSError, match=r"others than root can write to|Not a directory"):
        host.put(f"{open_to_all}/blocklab-fio/victim", b"[x]\nexec_prerun=id\n")
    assert victim.read_text() == "root's own"


@as_root
def test_another_user_who_never_stops_trying_gets_nothing(host: Node, open_to_all: Path, tmp_path: Path) -> None:
    """The proof of the review: in each round a folder or a link of nobody's is there before root's file is."""
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    loop = (
        f"while :; do mkdir blocklab-fio; rmdir blocklab-fio; ln -s {tmp_path} blocklab-fio; rm blocklab-fio; done"
    )
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", loop]
    with subprocess.Popen(argv, cwd=open_to_all, stderr=subprocess.DEVNULL, start_new_session=True) as attacker:
        for _ in range(300):
            with pytest.raises(OSError, match=r"."):
                host.put(f"{open_to_all}/blocklab-fio/victim", b"[x]\nexec_prerun=id\n")
        attacker.kill()
    assert victim.read_text() == "root's own"


@as_root
@pytest.mark.parametrize("what", ["link", "hard link", "fifo", "file"])
def test_the_user_of_a_service_cannot_lead_root_elsewhere(host: Node, tmp_path: Path, what: str) -> None:
    """A server's user has a folder within blocklab's own; what root writes or reads there is still root's."""
    tmp_path.chmod(0o755)
    victim, folder = tmp_path / "victim", tmp_path / "run/one"
    victim.write_text("root's own")
    host.put(f"{folder}/first", b"text")
    os.chown(folder, NOBODY, NOBODY)
    host.put(f"{folder}/server.conf", b"text")
    host.put(f"{folder}/server.conf", b"more")
    assert (folder / "server.conf").read_bytes() == b"more"
    (folder / "server.conf").unlink()
    match what:
        case "link":
            (folder / "server.conf").symlink_to(victim)
        case "hard link":
            (folder / "server.conf").hardlink_to(victim)
        case "fifo":
            os.mkfifo(folder / "server.conf")
        case _:
            (folder / "server.conf").touch()
            os.chown(folder / "server.conf", NOBODY, NOBODY)
    with pytest.raises(OSError, match=r"symbolic links|somebody else|No such device|not a regular"):
        host.put(f"{folder}/server.conf", b"text")
    if what in ("link", "fifo"):
        with pytest.raises(OSError, match=r"symbolic links|not a regular"):
            host.get(f"{folder}/server.conf")
    assert victim.read_text() == "root's own"


def test_no_way_out_of_our_own_folders(host: Node, open_to_all: Path, tmp_path: Path) -> None:
    host.put(f"{tmp_path}/run/one/file", b"text")
    with pytest.raises(OSError, match="Invalid argument"):
        host.put(f"{tmp_path}/run/one/../../tmp/file", b"text")
    (tmp_path / "run/two").symlink_to(open_to_all)
    with pytest.raises(NotADirectoryError):
        host.put(f"{tmp_path}/run/two/file", b"text")
    assert list(open_to_all.iterdir()) == []


def test_what_is_no_file_is_not_read(host: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            host.get(str(path))
    assert host.run(["echo", "on"]).out == b"on\n"


def test_programs_are_put_where_they_can_be_started() -> None:
    """Debian mounts /run noexec."""
    assert not places.PROGRAMS.startswith("/run/")


def test_what_is_left_is_removed_within_our_own_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run/lock", "run/agent.log", "run/one/server.conf", "lib/work/fio/job", "lib/bin/go",
                 "lib/journal", "tmp/blocklab-0-d17sc0gx/rootfs", "log/blocklab-theirs.log"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "run/link").symlink_to(tmp_path / "tmp")
    patterns = [each.replace("/run/blocklab", f"{tmp_path}/run") for each in host_agent.LEFT]
    patterns = [each.replace("/var/lib/blocklab", f"{tmp_path}/lib") for each in patterns]
    monkeypatch.setattr(host_agent, "LEFT", patterns)
    monkeypatch.setattr(host_agent, "LOCK", f"{tmp_path}/run/lock")
    host_agent.remove_left()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "lib/journal", "log/blocklab-theirs.log", "run/lock", "tmp/blocklab-0-d17sc0gx/rootfs",
    ]  # fmt: skip
