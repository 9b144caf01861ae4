"""What an order says when the node is gone: why, if that is known within a moment."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import HostError, NodeLost, StoreError
from blocklab.sites import agented
from blocklab.sites.ssh.line import HeldLine
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


# -- what no agent sends -------------------------------------------------------------------------------------


UNREADABLE = {
    "negative": b'{"id":1,"stream":1,"n":-32}\n',
    "4 EiB": b'{"id":1,"stream":1,"n":4611686018427387904}\n',
    "beyond any": b'{"id":1,"stream":1,"n":99999999999999999999999999}\n',
    "no UTF-8": b'{"id":1,"error":"\xff\xfe"}\n',
    "no JSON": b'{"id":1\n',
    "no object": b"[1]\n",
    "a text for a number": b'{"id":"1"}\n',
    "a third stream": b'{"id":1,"stream":3,"n":1}\nx',
    "deep": b'{"x":' + b"[" * 100_000 + b"\n",
    "took what was not sent": b'{"took":1000000}\n',
    "no end": b'{"id":1,"error":"' + b"x" * (1 << 20),
    "noise once it has booted": b"Debian GNU/Linux\n",
}


@pytest.mark.parametrize("frame", UNREADABLE.values(), ids=UNREADABLE)
def test_a_frame_that_cannot_be_read_ends_the_connection_and_wakes_everybody(frame: bytes) -> None:
    ours, theirs = socket.socketpair()
    line = SerialLine("a1", ours)
    try:
        theirs.sendall(b'noise of a terminal\r\n{"beat": 1.0}\n')
        assert line.ready.wait(30.0)
        call = line.order("spawn", lambda *_: None, argv=["true"])
        feeder = threading.Thread(target=send, args=(theirs, frame))
        feeder.start()
        with pytest.raises(NodeLost, match=r"a1: node lost: what its agent sends cannot be read: ."):
            call.wait(30.0)
        with pytest.raises(NodeLost, match="cannot be read"):
            line.order("spawn", lambda *_: None, argv=["true"])
        line._reader.join(30.0)
        assert not line._reader.is_alive()
    finally:
        line.close()
        theirs.close()
        feeder.join()


def test_the_largest_frame_is_read() -> None:
    ours, theirs = socket.socketpair()
    line, said = SerialLine("a1", ours), bytearray()
    try:
        call = line.order("get", lambda _, data: said.extend(data), path="/x")
        head = b'{"id": 1, "stream": 1, "n": 1048576}\n'
        data = head + b"\n" * (1 << 20) + b'{"id": 1, "done": true}\n'
        feeder = threading.Thread(target=theirs.sendall, args=(data,))
        feeder.start()
        assert call.wait(30.0).done and said == b"\n" * (1 << 20)
        feeder.join()
    finally:
        line.close()
        theirs.close()


def test_an_answer_without_an_end_is_given_up_and_its_command_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agented, "MOST_FILE", 4)
    ours, theirs = socket.socketpair()
    node = Node("a1", None, SerialLine("a1", ours))  # type: ignore[arg-type]
    try:
        proc = node.spawn(["yes"], tmp_path / "stdout", tmp_path / "stderr")
        theirs.sendall(b'{"id": 1, "stream": 1, "n": 3}\nabc' * 2)
        with pytest.raises(HostError, match="a1: it answers with more than 0 MiB"):
            proc.wait(30.0)
        orders = theirs.recv(1 << 16)
        assert b'"op":"signal"' in orders and b'"number":9' in orders
        # What still comes has nobody to go to; the host is as good as before.
        theirs.sendall(b'{"id": 1, "stream": 1, "n": 3}\nabc{"beat": 1.0}\n')
        assert node.channel.ready.wait(30.0) and not node.channel.lost
        assert (tmp_path / "stdout").read_bytes() == b"abc"
    finally:
        node.channel.close()
        theirs.close()


class Wire:
    """A connection to an agent on a host, whose other end is the test's."""

    rest = b""

    def __init__(self) -> None:
        self.end, self.theirs = socket.socketpair()
        self.end.setblocking(False)

    def close(self) -> None:
        self.end.close()


@pytest.mark.parametrize("frame", [UNREADABLE["negative"], UNREADABLE["no UTF-8"], UNREADABLE["no end"]])
def test_a_host_whose_frames_cannot_be_read_is_lost_at_once(frame: bytes) -> None:
    """It is not connected again: what its agent would send from there on is no better."""
    wire, made = Wire(), []

    def connect(new: bool) -> Any:
        made.append(new)
        return wire

    line = HeldLine("a1", connect)
    try:
        wire.theirs.sendall(b'{"hello": 0}\n{"beat": 1.0}\n')
        assert line.ready.wait(30.0)
        call = line.order("spawn", lambda *_: None, argv=["true"])
        feeder = threading.Thread(target=send, args=(wire.theirs, frame))
        feeder.start()
        with pytest.raises(NodeLost, match="what its agent sends cannot be read"):
            call.wait(30.0)
        feeder.join()
        assert made == [True]
    finally:
        line.close()
        wire.theirs.close()


@pytest.mark.parametrize(
    "hello", [b'{"hello": -5}\n', b'{"hello": 5}\n', b'{"hello": "\xff"}\n', b"{}\n", b"x" * 5000]
)
def test_a_first_line_that_cannot_be_read_is_the_end_too(hello: bytes) -> None:
    wire = Wire()
    line = HeldLine("a1", lambda _: wire)  # type: ignore[arg-type, return-value]
    try:
        send(wire.theirs, hello)
        line._thread.join(30.0)
        with pytest.raises(NodeLost, match="what its agent sends cannot be read"):
            line.order("spawn", lambda *_: None, argv=["true"])
    finally:
        line.close()
        wire.theirs.close()


def send(end: socket.socket, data: bytes) -> None:
    """As far as the other side takes it."""
    with contextlib.suppress(OSError):
        end.sendall(data)
