"""``blocklab sh`` from end to end, with a real agent that has this machine for a node."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from blocklab.errors import SetupError
from blocklab.sites import standing_lab
from blocklab.sites.uml import recipe
from blocklab.sites.uml.line import SerialLine
from blocklab.sites.uml.node import Node

AGENT = recipe.AGENT
SERVE = "import runpy, sys; runpy.run_path(sys.argv[1])['Agent'](int(sys.argv[2])).serve()"
BLOCKLAB = (sys.executable, "-m", "blocklab.cli.main")
PROMPTS = (b"# ", b"$ ")
FOREVER = "echo $$; while echo more; do sleep 0.01; done"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """The node a1 of a lab that stands."""
    ours, theirs = socket.socketpair()
    line = theirs.fileno()
    agent = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(AGENT), str(line)], pass_fds=[line], stderr=subprocess.DEVNULL
    )
    theirs.close()
    node = Node("a1", None, SerialLine("a1", ours))  # type: ignore[arg-type]
    assert node.channel.ready.wait(30.0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    # Only a main thread may have a handler.
    handlers: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda _, handler: handlers.append(handler))
    gate = standing_lab.Door({})
    serving = threading.Thread(target=gate.serve, args=({"a1": node},))
    serving.start()
    yield node
    handlers[0]()
    serving.join()
    gate.close()
    node.channel.close()
    agent.kill()
    agent.wait()


def sh(*argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*BLOCKLAB, "sh", "a1", *argv], capture_output=True, timeout=60, **more)


def begun(*argv: str, **more: Any) -> subprocess.Popen[bytes]:
    given = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "bufsize": 0,
        **more,
    }
    return subprocess.Popen([*BLOCKLAB, "sh", "a1", *argv], **given)


def line_of(stream: IO[bytes] | None) -> bytes:
    """The next line; fails when none comes."""
    assert stream is not None
    ready, _, _ = select.select([stream], [], [], 30.0)
    assert ready, "nothing was printed"
    return stream.readline()


def until(stream: IO[bytes] | None, *ends: bytes) -> bytes:
    """What is shown until it ends so; fails when that takes half a minute."""
    assert stream is not None
    shown, deadline = b"", time.monotonic() + 30.0
    while not shown.endswith(ends):
        ready, _, _ = select.select([stream], [], [], 1.0)
        shown += os.read(stream.fileno(), 1 << 16) if ready else b""
        assert time.monotonic() < deadline, f"it shows {shown[-200:]!r}"
    return shown


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 30.0
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} runs on"
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Exit code, and what it said on its standard error."""
    said = process.stderr.read() if process.stderr is not None else b""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return process.wait(30.0), said


@pytest.mark.usefixtures("node")
def test_a_command_gets_what_is_piped_and_both_its_streams_and_its_code_come_back() -> None:
    text = b"select 1;\n" * 3000
    done = sh("sh", "-c", "cat; echo bad >&2; exit 3", input=text)
    assert (done.returncode, done.stdout, done.stderr) == (3, text, b"bad\n")
    done = sh("cat", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = sh("no-such-command", input=b"")
    assert (done.returncode, done.stderr) == (127, b"no-such-command: No such file or directory\n")


@pytest.mark.usefixtures("node")
def test_output_comes_while_the_command_runs(tmp_path: Path) -> None:
    script = 'echo first; while ! test -e "$0"; do sleep 0.05; done; echo second'
    process = begun("sh", "-c", script, str(tmp_path / "go"))
    assert line_of(process.stdout) == b"first\n"
    (tmp_path / "go").touch()
    assert line_of(process.stdout) == b"second\n"
    assert end(process) == (0, b"")


def test_ctrl_c_ends_the_command_too(node: Node) -> None:
    process = begun("sh", "-c", FOREVER)
    pid = int(line_of(process.stdout))
    process.send_signal(signal.SIGINT)
    code, _ = end(process)
    assert code == 130
    wait_gone(pid)
    assert node.run(["echo", "well"], timeout=30.0).out == b"well\n"


@pytest.mark.usefixtures("node")
def test_a_reader_that_has_enough_ends_the_command_as_a_pipe_does() -> None:
    process = begun("sh", "-c", FOREVER)
    pid = int(line_of(process.stdout))
    assert process.stdout is not None
    process.stdout.close()
    assert end(process) == (128 + signal.SIGPIPE, b"")
    wait_gone(pid)


@pytest.mark.usefixtures("node")
def test_output_that_cannot_be_written_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = end(begun("echo", "lost", stdout=full))
    assert code == 1 and b"No space left on device; the command was ended" in said


@pytest.mark.usefixtures("node")
def test_input_without_an_end_is_said_and_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_lab, "PATIENCE", 0.1)
    process = begun("cat", stdin=subprocess.PIPE)
    assert b"waiting for the end of standard input" in line_of(process.stderr)
    assert process.stdin is not None
    process.stdin.write(b"late\n")
    process.stdin.close()
    assert line_of(process.stdout) == b"late\n"
    assert end(process) == (0, b"")
    monkeypatch.setattr(standing_lab, "MOST_INPUT", 1 << 20)
    done = sh("cat", input=b"x" * (2 << 20))
    assert done.returncode == 1 and b"standard input has more than 1 MiB" in done.stderr


def test_a_terminal_that_is_closed_under_output_costs_the_node_nothing(node: Node) -> None:
    looks, shows = os.pipe()
    typed, types = os.pipe()
    request = {"op": "sh", "node": "a1", "argv": ["sh", "-c", FOREVER], "tty": [24, 80]}
    with standing_lab._call(request, [typed, shows, shows]):
        os.close(shows)
        with os.fdopen(looks, "rb") as shown:
            pid = int(line_of(shown))
        # Its output has nowhere to go now, and the caller is still there.
        wait_gone(pid)
    for fd in (typed, types):
        os.close(fd)
    beat = node.channel.last_beat
    assert node.run(["echo", "well"], timeout=30.0).out == b"well\n"
    deadline = time.monotonic() + 30
    while node.channel.last_beat <= beat:
        assert time.monotonic() < deadline, "its reader has ended"
        time.sleep(0.05)


@pytest.mark.usefixtures("node")
def test_what_a_shell_shows_may_go_elsewhere_than_to_its_terminal() -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    process = begun(stdin=slave)
    os.close(slave)
    # What is typed before its prompt may be thrown away.
    until(process.stdout, *PROMPTS)
    os.write(master, b"stty size; yes\n")
    assert b"33 77" in until(process.stdout, b"y\r\ny\r\n")
    # Ctrl-C gets through while it prints.
    os.write(master, b"\x03")
    until(process.stdout, *PROMPTS)
    os.write(master, b"exit 7\n")
    assert end(process)[0] == 7
    os.close(master)


def test_one_lab_at_a_time_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it stands, and by the process that goes on to hold it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(standing_lab, "LEAVING", 0.0)
    held = standing_lab.claim()
    # Whoever has the descriptor holds it on.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[held]) as holder:
        os.close(held)
        with pytest.raises(SetupError, match="another `blocklab up` is at work"):
            standing_lab.claim()
        holder.communicate()
    os.close(standing_lab.claim())


def test_a_place_whose_socket_would_have_too_long_a_path_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    assert standing_lab.standing_lab() is None
    for call in (standing_lab.claim, lambda: standing_lab.ask({"op": "about"})):
        with pytest.raises(SetupError, match=r"up\.sock has .* bytes, and the system takes 107") as refused:
            call()
        assert "XDG_RUNTIME_DIR" in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_door_that_is_not_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert standing_lab.standing_lab() is None
    path = standing_lab.door_path()
    path.parent.mkdir()
    # No socket, which nobody can connect to either: refused, as by a lab that was killed.
    path.touch()
    with pytest.raises(SetupError, match="no lab is running"):
        standing_lab.ask({"op": "about"})
    assert path.exists(), "whoever makes a new one clears it away"

    def closed(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "socket", lambda *_: Closed(closed))
    with pytest.raises(SetupError, match="cannot be reached: Permission denied"):
        standing_lab.ask({"op": "about"})
    assert path.exists()


class Closed:
    """A socket that cannot connect."""

    def __init__(self, connect: Callable[..., None]) -> None:
        self.connect = connect

    def __enter__(self) -> Closed:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def test_a_relative_runtime_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the XDG specification says: it would be another one in each folder."""
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    for given in ("run", "./run", "~/run", ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", given)
        assert standing_lab.door_path() == tmp_path / "up.sock" and standing_lab.log_path() == tmp_path / "up.log"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert standing_lab.door_path() == Path("/run/user/7/blocklab/up.sock")
