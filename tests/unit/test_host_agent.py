"""A real agent of a host, in a process of its own, and our end of the connection to it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import HostError, NodeLost
from blocklab.sites.ssh import host as hosts
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import HostEntry

# Its files are elsewhere, and no file of its may have more bytes than it is given.
SERVE = """\
import resource, socket, sys
from blocklab_node import host_agent, journal
host_agent.Journal = lambda: journal.Journal(sys.argv[1] + "/journal.jsonl")
host_agent.LEFT, host_agent.LOCK = (sys.argv[1] + "/left",), ""
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1] + "/agent.sock")
listener.listen(2)
if sys.argv[2] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
print(flush=True)
host_agent.Held(listener, dict(host_agent.ENVIRONMENT)).serve()
"""


class Wire:
    """A connection to it, as OpenSSH would have made it."""

    rest, address = b"", ""

    def __init__(self, path: Path) -> None:
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.end.connect(str(path))
        self.end.setblocking(False)

    def close(self) -> None:
        self.end.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hosts, "connect", lambda *_: Wire(tmp_path / "agent.sock"))
    return tmp_path


@pytest.fixture
def agents(folder: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[bytes]] = []
    connected: list[SshHost] = []

    def start(room: int = 0) -> SshHost:
        (folder / "agent.sock").unlink(missing_ok=True)
        argv = [sys.executable, "-c", SERVE, str(folder), str(room)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        assert started[-1].stdout is not None and started[-1].stdout.readline() == b"\n"
        connected.append(SshHost("a1", HostEntry("a1"), folder / "known_hosts"))
        return connected[-1]

    start.pid = lambda: started[-1].pid  # type: ignore[attr-defined]
    yield start
    for host in connected:
        host.close()
    for process in started:
        process.kill()
        process.communicate()


def test_a_journal_as_an_earlier_version_left_it_on_a_full_disk_is_undone_and_reported(
    folder: Path, agents: Any
) -> None:
    """Every later run, ``down`` and ``resume`` found a dead agent."""
    glued = b'{"number": 2, "argv": ["umo{"number": 100, "argv": ["true"], "boot": "x"}\n'
    host = agents()
    host.note(1, ["touch", f"{folder}/undone"])
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(glued)
    assert [due.number for due in host.left()] == [1] and host.damaged == [glued.decode().strip()]
    said = host.replay()
    assert said.startswith("a1: lines in its journal of undos that cannot be read: 1, ") and "umo{" in said
    assert (folder / "undone").exists() and not (folder / "journal.jsonl").exists()
    assert host.replay() == "" and host.run(["echo", "on"]).out == b"on\n"


def test_an_agent_goes_on_with_a_disk_that_is_full(folder: Path, agents: Any) -> None:
    host = agents(room=120)
    host.note(1, ["true"])
    with pytest.raises(HostError, match="its journal of undos cannot be written: File too large") as caught:
        host.note(2, ["umount", "/mnt/" + "x" * 300])
    assert "make room" in caught.value.hint
    assert [due.number for due in host.left()] == [1] and host.damaged == []
    host.done([1])
    assert not (folder / "journal.jsonl").exists()


def test_many_undos_come_in_frames_of_a_usual_size(agents: Any) -> None:
    host = agents()
    for number in range(12):
        host.note(number, ["true", "x" * 100_000])
    assert [due.number for due in host.left()] == list(range(11, -1, -1))
    host.done(list(range(12)))


def test_an_end_with_a_journal_that_cannot_be_read_is_an_end(folder: Path, agents: Any) -> None:
    host = agents()
    (folder / "left").mkdir()
    (folder / "journal.jsonl").mkdir()
    with pytest.raises(HostError, match="its journal of undos cannot be read"):
        host.left()
    host.close()
    assert (folder / "left").exists(), "what undos may need stays"
    assert not (folder / "agent.sock").exists()


@pytest.mark.parametrize("order", [b"x\n", b"\xff\n", b'{"op": "put", "id": 1, "n": -5}\n'])
def test_an_order_that_cannot_be_read_ends_the_agent_as_it_should(folder: Path, agents: Any, order: bytes) -> None:
    host = agents()
    proc = host.spawn(["sleep", "600"], folder / "out", folder / "err")
    (pid,) = host.run(["pgrep", "-x", "-P", f"{agents.pid()}", "sleep"]).text.split()
    host.channel.expected.set()
    with host.channel._lock:
        host.channel._under_way += len(order)
    host.channel._write(order)
    host.channel._thread.join(30.0)
    # On its way out the agent ends it, and may yet say so.
    with contextlib.suppress(NodeLost):
        assert proc.wait(30.0) != 0
    assert not (folder / "agent.sock").exists()
    # Whoever inherits it may not have reaped it.
    with contextlib.suppress(FileNotFoundError):
        assert ") Z " in Path(f"/proc/{pid}/stat").read_text()
