"""When a silent node is taken for hung, and what a lab's janitor ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.errors import NodeLost
from blocklab.sites.uml import janitor, watch
from blocklab.sites.uml.processes import group_use


class Silent:
    """A node whose heart stopped beating long ago; ``lost`` is set once it is given up."""

    name = "a1"

    def __init__(self) -> None:
        self.doomed, self.frozen, self.lost = threading.Event(), threading.Event(), threading.Event()
        ready = threading.Event()
        ready.set()
        self.process = SimpleNamespace(pid=4711, poll=lambda: None)
        self.channel = SimpleNamespace(ready=ready, last_beat=time.monotonic() - 60, fail=self._fail)

    def _fail(self, error: NodeLost) -> None:
        assert "hung" in str(error)
        self.lost.set()

    def console(self) -> str:
        return ""


def given_up(monkeypatch: pytest.MonkeyPatch, uses: Iterator[tuple[bool, float]], seconds: float) -> bool:
    monkeypatch.setattr(watch, "group_use", lambda _pid: next(uses))
    monkeypatch.setattr(watch.Watch, "TICK", 0.01)
    silent: Any = Silent()
    watching = watch.Watch({"a1": silent})
    try:
        return bool(silent.lost.wait(seconds))
    finally:
        watching.close()


def used(each_tick: float) -> Iterator[tuple[bool, float]]:
    seconds = 0.0
    while True:
        seconds += each_tick
        yield True, seconds


def idle() -> Iterator[tuple[bool, float]]:
    while True:
        yield False, 1.0


def test_a_silent_node_that_spins_or_sleeps_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_up(monkeypatch, used(0.01), 30.0)
    assert given_up(monkeypatch, idle(), 30.0)


def test_a_node_that_wants_a_cpu_and_gets_none_is_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not given_up(monkeypatch, used(0.0), 1.0)


class Beating(Silent):
    """A node that is well, by its heart; ``error`` is why it was given up all the same."""

    def __init__(self, name: str, *codes: int | None) -> None:
        super().__init__()
        self.name = name
        self.error: NodeLost | None = None
        left = iter(codes)
        self.process = SimpleNamespace(pid=4711, poll=lambda: next(left, codes[-1] if codes else None))
        self.channel.last_beat = time.monotonic() + 1e6

    def _fail(self, error: NodeLost) -> None:
        self.error = self.error or error
        self.lost.set()


def watched(monkeypatch: pytest.MonkeyPatch, nodes: list[Beating], *more: Any) -> None:
    """Until the first one of them is given up."""
    monkeypatch.setattr(watch.Watch, "TICK", 0.01)
    every: Any = {each.name: each for each in nodes}
    watching = watch.Watch(every, *more)
    try:
        assert nodes[0].lost.wait(30.0)
    finally:
        watching.close()


def test_the_end_of_a_volumes_daemon_is_said_of_the_nodes_that_have_the_volume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = "    blocklab-volume: cannot allocate memory"
    daemon = SimpleNamespace(name="volume s of a1", poll=lambda: 1, last_words=lambda: words)
    mine, other = Beating("a1"), Beating("b1")
    watched(monkeypatch, [mine, other], [(daemon, ("a1",))])
    assert mine.error is not None and other.error is None
    assert "a1: node lost: volume s of a1 ended with exit code 1" in mine.error.message
    assert words in mine.error.message and "console" not in mine.error.message


def test_a_node_that_ended_where_there_was_no_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it went what it had of that room, so that there is some again."""
    lacks = iter(["only 3 MiB are left in /dev/shm"])
    ended = Beating("a1", None, -7)
    watched(monkeypatch, [ended], (), lambda: next(lacks, ""))
    assert ended.error is not None and "ended with exit code -7" in ended.error.message
    assert ended.error.hint == "only 3 MiB are left in /dev/shm"


def test_what_a_group_takes_of_a_cpu_is_counted() -> None:
    spin = "import time\nwhile True: pass"
    with contextlib.closing(Group([sys.executable, "-c", spin])) as group:
        deadline = time.monotonic() + 60
        while group_use(group.pid)[1] < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(group.pid, signal.SIGSTOP)
        while group_use(group.pid)[0]:
            assert time.monotonic() < deadline, "it is stopped, so it wants no CPU"
            time.sleep(0.02)


class Group:
    """A command that leads a session of its own."""

    def __init__(self, argv: list[str], **environment: str) -> None:
        self._popen = subprocess.Popen(argv, start_new_session=True, env={**os.environ, **environment})
        self.pid = self._popen.pid

    def gone(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode is not None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()


def test_the_janitor_ends_what_blocklab_had_no_time_to_note(tmp_path: Path) -> None:
    """It ends what was started for the lab and is not in its list, but nobody who looks into the folder, though it
    leads a session of its own, as tmux does."""
    lab, other = tmp_path / "blocklab-1", tmp_path / "blocklab-10"
    lab.mkdir()
    (lab / "a1.log").touch()
    tail = ["tail", "-f", f"{lab}/a1.log"]
    watched, hold = os.pipe()
    with contextlib.ExitStack() as stack:
        orphan = stack.enter_context(contextlib.closing(Group(["sleep", "600"], **{janitor.MARK: str(lab)})))
        beside = stack.enter_context(contextlib.closing(Group(["sleep", "600"], **{janitor.MARK: str(other)})))
        tmux, noted = (stack.enter_context(contextlib.closing(Group(tail))) for _ in range(2))
        # Its number was somebody else's when the lab noted it.
        (lab / "groups").write_text(f"{noted.pid}\n")
        sweeper = subprocess.Popen([sys.executable, "-I", "-S", janitor.__file__, str(lab)], stdin=watched)
        stack.callback(sweeper.wait)
        stack.callback(sweeper.kill)
        os.close(watched)
        os.close(hold)
        assert orphan.gone(60) and sweeper.wait(60) == 0
        assert not any(each.gone(0) for each in (beside, tmux, noted)) and not lab.exists()


def test_the_janitor_ends_a_group_whose_leader_has_ended_and_was_not_reaped(tmp_path: Path) -> None:
    lab = tmp_path / "blocklab-3"
    lab.mkdir()
    with contextlib.closing(Group(["sh", "-c", "sleep 600 &"], **{janitor.MARK: str(lab)})) as group:
        os.waitid(os.P_PID, group.pid, os.WEXITED | os.WNOWAIT)
        assert janitor.ours(group.pid, lab)


def test_a_lab_that_ended_as_it_should_does_not_wait_for_its_janitor(tmp_path: Path) -> None:
    lab = tmp_path / "blocklab-2"
    done = subprocess.run(
        [sys.executable, "-I", "-S", janitor.__file__, str(lab)], stdin=subprocess.DEVNULL, timeout=60, check=False
    )
    assert done.returncode == 0
