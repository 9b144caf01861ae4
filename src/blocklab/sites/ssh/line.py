"""The line to a host's agent: one connection at a time, made again when it breaks."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Annotated

import msgspec

from blocklab.errors import BlocklabError, NodeLost
from blocklab.sites.channel import Channel, Unreadable
from blocklab.sites.ssh.connect import Connection, Unreachable

# Under way to the agent: some tens of ms at 100 Mbit/s.
WINDOW = 1 << 20
# A connection that broke is made again within this time; only then is the host lost. The agent waits longer.
AGAIN_SECONDS = 20.0
# The agent's heart beats twice a second: a connection that is this silent is none.
SILENT_SECONDS = 6.0
# So often, or after so many bytes, the agent hears what has arrived: it keeps the rest.
GOT_SECONDS, GOT_BYTES = 2.0, 1 << 18
RETRY_SECONDS = 0.5
HELLO_SECONDS = 10.0
MOST_HELLO = 4096
READ = 1 << 18


class _Hello(msgspec.Struct):
    hello: Annotated[int, msgspec.Meta(ge=0)]


class HeldLine(Channel):
    """``connect(new)`` makes a connection: to a new agent, or to the one that is there.

    One thread of its own reads, writes and connects again. What the agent has not taken yet is kept until it has.
    """

    def __init__(self, node: str, connect: Callable[[bool], Connection]) -> None:
        super().__init__(node, window=WINDOW, patience=AGAIN_SECONDS + 10.0)
        self._connect = connect
        self._connection = connect(True)
        self._kept = bytearray()
        self._sent = 0
        self._base = 0
        self._received = self._told = 0
        self._told_at = time.monotonic()
        self._buffer = bytearray()
        self._closing = threading.Event()
        self.expected = threading.Event()
        """Whether the host is about to go, so that a broken connection is the end of it."""
        self.breaks = 0
        """How often a connection was made again."""
        self._wake, self._poke = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._poke, False)
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    # -- what the channel needs -------------------------------------------------------------------------

    def _write(self, part: bytes) -> None:
        with self._lock:
            self._kept += part
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._poke, b"!")

    def close(self) -> None:
        """End the connection; the agent ends when it was told to."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._nudge()
        self._thread.join(5.0)
        self._connection.close()
        for fd in (self._wake, self._poke):
            os.close(fd)

    # -- the thread ---------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._closing.is_set():
            try:
                self._greet()
                why = self._carry()
            except Unreadable:
                self._connection.close()
                return
            except (OSError, BlocklabError) as error:
                why = str(error)
            if self._closing.is_set():
                return
            self._connection.close()
            if lost := self._again(why):
                self.fail(lost)
                return

    def _again(self, why: str) -> NodeLost | None:
        """Connect again; why that cannot be, None once it is."""
        until = time.monotonic() + AGAIN_SECONDS
        while not self._closing.is_set() and not self.expected.is_set():
            try:
                self._connection = self._connect(False)
                self.breaks += 1
                return None
            except Unreachable as error:
                if not error.again:
                    return NodeLost(self.node, error.message, hint=error.hint)
                why = error.message
            if time.monotonic() > until:
                return NodeLost(self.node, f"no connection for {AGAIN_SECONDS:g} s: {why}")
            self._closing.wait(RETRY_SECONDS)
        return NodeLost(self.node, "it was ended on purpose" if self.expected.is_set() else "its line was closed")

    def _greet(self) -> None:
        """Tell the agent what has arrived, hear what it has, and go on there."""
        end = self._connection.end
        end.sendall(msgspec.json.encode(_Hello(self._received)) + b"\n")
        data = bytearray(self._connection.rest)
        until = time.monotonic() + HELLO_SECONDS
        while b"\n" not in data:
            if not select.select([end], [], [], max(0.0, until - time.monotonic()))[0]:
                raise OSError("its agent does not answer")
            if not (piece := end.recv(READ)):
                raise OSError("the connection was closed")
            data += piece
            if b"\n" not in data[:MOST_HELLO] and len(data) > MOST_HELLO:
                raise self._unreadable("its first line has no end")
        line, _, rest = bytes(data).partition(b"\n")
        try:
            taken = msgspec.json.decode(line, type=_Hello).hello
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from error
        with self._lock:
            # What the agent took but could not say so yet will be said again.
            sent, most = taken - self._base, len(self._kept)
            self._sent = min(max(0, sent), most)
        if sent != self._sent:
            raise self._unreadable(f"it took {taken} bytes, and has got {taken - sent + most}")
        self._told, self._told_at, self.last_beat = self._received, time.monotonic(), time.monotonic()
        self._take(rest)

    def _unreadable(self, why: str) -> Unreadable:
        lost = Unreadable(self.node, why)
        self.fail(lost)
        return lost

    def _carry(self) -> str:
        """Read and write until the connection breaks; why it did."""
        end = self._connection.end
        while not self._closing.is_set():
            with self._lock:
                pending = bytes(self._kept[self._sent : self._sent + READ])
            there = end.fileno()
            readable, writable, _ = select.select([there, self._wake], [there] if pending else [], [], 0.5)
            if self._wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            if writable:
                sent = end.send(pending)
                with self._lock:
                    self._sent += sent
            if there in readable:
                if not (data := end.recv(READ)):
                    return "the connection was closed"
                self._take(data)
            now = time.monotonic()
            if now - self.last_beat > SILENT_SECONDS:
                return f"silent for {SILENT_SECONDS:g} s"
            if self._received - self._told > GOT_BYTES or now - self._told_at > GOT_SECONDS:
                self._tell_got(now)
        return ""

    def _take(self, data: bytes) -> None:
        self._received += len(data)
        self._buffer += data
        self._frames(self._buffer)

    def _took_bytes(self, count: int) -> None:
        with self._lock:
            if count > len(self._kept):
                raise ValueError(f"it took {count} bytes of {len(self._kept)}")
            del self._kept[:count]
            self._base += count
            self._sent -= count
        super()._took_bytes(count)

    def _tell_got(self, now: float) -> None:
        """Not through the window, being what makes room in the other direction; but not into another frame either:
        while one is sent, the next look does it."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            frame = msgspec.json.encode({"op": "got", "id": 0, "n_got": self._received}) + b"\n"
            with self._lock:
                self._under_way += len(frame)
                self._kept += frame
            self._told, self._told_at = self._received, now
        finally:
            self._sending.release()
