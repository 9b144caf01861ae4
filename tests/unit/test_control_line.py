"""What an order says when the node is gone: why, if that is known within a moment."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from blocklab.errors import NodeLost, StoreError
from blocklab.sites.uml import line as serial
from blocklab.sites.uml.line import SerialLine
from blocklab.sites.uml.node import Node


@pytest.fixture
def closed() -> SerialLine:
    """A line whose other end is closed, as by a kernel that was killed."""
    ours, theirs = socket.socketpair()
    theirs.close()
    return SerialLine("a1", ours)


def test_what_became_of_the_node_is_said_rather_than_that_its_line_is_closed(
    closed: SerialLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial, "WHY_SECONDS", 30.0)
    timer = threading.Timer(0.1, closed.fail, [NodeLost("a1", "its kernel ended with exit code -9")])
    timer.start()
    with pytest.raises(NodeLost, match="a1: node lost: its kernel ended with exit code -9"):
        closed.order("ping", lambda *_: None)
    timer.join()
    closed.close()


def test_a_closed_line_is_said_when_nobody_knows_more(closed: SerialLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "WHY_SECONDS", 0.0)
    with pytest.raises(NodeLost, match=r"a1: node lost: its control line is closed \(.*Broken pipe\)"):
        closed.order("ping", lambda *_: None)
    closed.close()


def test_whatever_a_node_says_is_a_sign_of_life() -> None:
    """While it passes on a large file its agent has no time for its heart."""
    ours, theirs = socket.socketpair()
    line = SerialLine("a1", ours)
    try:
        line.last_beat = 0.0
        theirs.sendall(b'{"id": 7, "stream": 1, "n": 3}\nabc')
        deadline = time.monotonic() + 30
        while not line.last_beat:
            assert time.monotonic() < deadline, "it counts as silent"
            time.sleep(0.01)
        assert not line.ready.is_set(), "only its heart says that it has booted"
    finally:
        line.close()
        theirs.close()


def test_output_for_which_there_is_no_room_is_said_at_once_and_not_taken_for_a_hung_node(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    node = Node("a1", None, SerialLine("a1", ours))  # type: ignore[arg-type]
    try:
        proc = node.spawn(["yes"], Path("/dev/full"), tmp_path / "stderr")
        theirs.sendall(b'{"id": 1, "stream": 1, "n": 3}\nabc')
        with pytest.raises(StoreError, match=r"a1: .* cannot be written to /dev/full: .*No space left") as caught:
            proc.wait(30.0)
        assert "make room" in caught.value.hint
        with pytest.raises(StoreError, match="No space left"):
            node.run(["true"])
        # The command does not know, and goes on.
        theirs.sendall(b'{"id": 1, "stream": 1, "n": 3}\nabc{"beat": 1.0}\n')
        assert node.channel.ready.wait(30.0), "the reader has ended"
    finally:
        node.channel.close()
        theirs.close()
