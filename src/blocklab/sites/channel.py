"""Our end of the line to an agent: orders out, output and exit codes in.

The frames are drawn in ``blocklab_node/agent.py``. What carries them is each site's own.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from blocklab.errors import BlocklabError, HostError, HostTimeout, NodeLost, StoreError

# A put goes in pieces, so that other orders get in between.
PIECE = 1 << 16
# A frame's line, and its bytes: the agent's pieces are of 64 KiB.
MOST_FRAME = 1 << 20
# What a host may answer to one order: kept in memory, and written to a file.
MOST_ANSWER = 1 << 28
MOST_FILE = 1 << 32

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_FRAME)]


class Header(msgspec.Struct):
    """The JSON line of a frame from the agent."""

    id: Annotated[int, msgspec.Meta(ge=0)] = 0
    stream: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    exit: int | None = None
    cpu: float | None = None
    done: bool = False
    errno: Annotated[int, msgspec.Meta(ge=0, le=4095)] = 0
    error: str = ""
    beat: float = 0.0
    took: Size = 0
    orderly: bool = False
    n: Size = 0


class Unreadable(NodeLost):
    """What comes over the line is none of an agent's frames: there is no next one either."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(node, f"what its agent sends cannot be read: {why}")


class TooMuch(HostError):
    """The answer to an order is larger than anybody wants to keep."""

    def __init__(self, node: str, most: int) -> None:
        super().__init__(node, f"it answers with more than {most >> 20} MiB, which nobody needs")


class Call:
    """One order under way. ``sink`` gets (stream, bytes) on the reader's thread, and raises ``StoreError`` where
    it cannot keep them: ``most`` bytes, then the order fails. ``wait`` blocks for the end."""

    def __init__(self, channel: Channel, number: int, sink: Callable[[int, bytes], None], most: int) -> None:
        self._channel = channel
        self.node = channel.node
        self.number = number
        self.sink = sink
        self.most = most
        self.size = 0
        self.end: Header | None = None
        self.lost: BlocklabError | None = None
        self.ended = threading.Event()

    def finish(self, end: Header | None, lost: BlocklabError | None = None) -> None:
        """Wake up whoever waits: with the last frame, or with why there is none."""
        self.end = end
        self.lost = lost
        self.ended.set()

    def wait(self, timeout: float) -> Header:
        """The last frame of the answer. Raises ``HostTimeout``, ``TooMuch``, and
        what ``Channel.fail`` was called with."""
        if not self._channel.wait(self.ended, timeout):
            raise HostTimeout(self.node, timeout)
        if self.lost is not None:
            raise self.lost
        assert self.end is not None
        return self.end


class Channel:
    """Speaks to one agent. Orders may come from any thread; one thread of the site's takes the answers.

    ``window``: bytes that may be under way to the agent, see ``took`` in its docstring. An agent that does not
    take orders for ``patience`` seconds is not coming back.
    """

    def __init__(self, node: str, *, window: int, patience: float) -> None:
        self.node = node
        self.last_beat = time.monotonic()
        self.ready = threading.Event()
        self.orderly = threading.Event()
        """Whether the agent was told that its host shuts down."""
        self._window = window
        self._patience = patience
        self._calls: dict[int, Call] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._took = threading.Condition(self._lock)
        self._under_way = 0
        self._lost: BlocklabError | None = None
        self._decoder = msgspec.json.Decoder(Header)

    @property
    def lost(self) -> bool:
        """Whether the other side is of no more use."""
        return self._lost is not None

    def _write(self, part: bytes) -> None:
        """Have the line carry ``part``, after all that was written before. Raises ``NodeLost``."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the line; safe to call twice."""
        raise NotImplementedError

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait so long, by the host's time, for what only an answer can set; whether it is set."""
        return event.wait(seconds)

    # -- orders --------------------------------------------------------------------------------------

    def order(
        self,
        op: str,
        sink: Callable[[int, bytes], None],
        payload: bytes = b"",
        *,
        most: int = MOST_ANSWER,
        **fields: Any,
    ) -> Call:
        """Send an order whose answer comes as frames, of ``most`` bytes together. Raises ``NodeLost``."""
        call = Call(self, next(self._numbers), sink, most)
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._calls[call.number] = call
        if op == "put":
            pieces = [payload[at : at + PIECE] for at in range(0, len(payload), PIECE)] or [b""]
            for piece in pieces[:-1]:
                self._send({"op": op, "id": call.number, "more": True, **fields}, piece)
            payload = pieces[-1]
        self._send({"op": op, "id": call.number, **fields}, payload)
        return call

    def tell(self, op: str, call: Call, payload: bytes = b"", **fields: Any) -> None:
        """Send an order about a call under way: no answer. Raises ``NodeLost``."""
        self._send({"op": op, "id": call.number, **fields}, payload)

    def _send(self, header: dict[str, Any], payload: bytes) -> None:
        if payload:
            header["n"] = len(payload)
        frame = msgspec.json.encode(header) + b"\n" + payload
        with self._sending:
            for at in range(0, len(frame), self._window):
                part = frame[at : at + self._window]
                self._make_room(len(part))
                self._write(part)

    def _make_room(self, size: int) -> None:
        """Wait until the agent has room for so many bytes. Raises ``NodeLost``, or what ``fail`` was called
        with."""
        with self._lock:
            room = self._took.wait_for(
                lambda: self._lost is not None or self._under_way + size <= self._window, self._patience
            )
            if self._lost is not None:
                raise self._lost
            if not room:
                raise NodeLost(self.node, f"its agent accepted no command for {self._patience:g} s")
            self._under_way += size

    # -- answers -------------------------------------------------------------------------------------

    def _frames(self, buffer: bytearray) -> None:
        """Take whole frames out of ``buffer``. Raises ``Unreadable``, once everybody who waits has got it."""
        try:
            self._take_frames(buffer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            buffer.clear()
            lost = Unreadable(self.node, str(error) or type(error).__name__)
            self.fail(lost)
            raise lost from error

    def _take_frames(self, buffer: bytearray) -> None:
        at = 0
        while (end := buffer.find(b"\n", at, at + MOST_FRAME + 1)) >= 0:
            line = bytes(buffer[at:end])
            # Until a node's agent has made its line raw, the terminal may echo or say something of its own.
            noise = not line.startswith(b"{") and not self.ready.is_set()
            header = Header() if noise else self._decoder.decode(line)
            if len(buffer) < end + 1 + header.n:
                break
            payload = bytes(buffer[end + 1 : end + 1 + header.n])
            at = end + 1 + header.n
            self._frame(header, payload)
        else:
            if len(buffer) - at > MOST_FRAME:
                raise ValueError(f"a line of more than {MOST_FRAME} bytes")
        del buffer[:at]

    def _frame(self, header: Header, payload: bytes) -> None:
        # Whatever it says is a sign of life: an agent that passes on a large file has no time for its heart.
        self.last_beat = time.monotonic()
        if header.beat:
            self.ready.set()
            return
        if header.orderly:
            self.orderly.set()
            return
        if header.took:
            self._took_bytes(header.took)
            return
        call = self._calls.get(header.id)
        if call is None:
            return
        if header.stream:
            self._sink(call, header.stream, payload)
        else:
            self._calls.pop(call.number, None)
            call.finish(header)

    def _sink(self, call: Call, stream: int, payload: bytes) -> None:
        call.size += len(payload)
        if call.size > call.most:
            # The rest of it has nobody to go to.
            self._calls.pop(call.number, None)
            call.finish(None, TooMuch(self.node, call.most))
            return
        try:
            call.sink(stream, payload)
        except StoreError as error:
            # The reader goes on; whoever waits for anything of this node is told at once.
            self.fail(error)

    def _took_bytes(self, count: int) -> None:
        with self._lock:
            if count > self._under_way:
                raise ValueError(f"it took {count} bytes of {self._under_way}")
            self._under_way -= count
            self._took.notify_all()

    # -- the end ---------------------------------------------------------------------------------------

    def fail(self, lost: BlocklabError) -> None:
        """The node is of no more use: every call under way and every later one raises ``lost``. The first reason
        stays."""
        with self._lock:
            if self._lost is not None:
                return
            self._lost = lost
            self._took.notify_all()
            calls = list(self._calls.values())
            self._calls.clear()
        for call in calls:
            call.finish(None, lost)


def collect() -> tuple[list[bytes], list[bytes], Callable[[int, bytes], None]]:
    """Lists for the two streams and the sink that fills them."""
    out: list[bytes] = []
    err: list[bytes] = []

    def sink(stream: int, data: bytes) -> None:
        (out if stream == 1 else err).append(data)

    return out, err, sink


def argv_list(argv: Sequence[str]) -> list[str]:
    """An argv as a list of strings; refuses an empty one and NUL bytes, which no kernel can take."""
    if not argv or any("\0" in part for part in argv):
        raise ValueError(f"not a command: {argv!r}")
    return list(argv)
