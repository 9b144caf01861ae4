"""The program that keeps a lab's virtual time: its one connection, and the control lines of nodes that go over it.

Virtual time passes only while somebody here waits for it or for an answer, and stands still otherwise. So a
study that gives the same orders in the same order gets the same answers at the same moments, however fast the
machine is.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blocklab.errors import BlocklabError, NodeLost, SetupError
from blocklab.sites.channel import Channel, Unreadable
from blocklab.sites.uml.processes import Process

# The time of day when a lab starts, in seconds since 1970: 2026-01-01. Programs print it.
EPOCH = 1_767_225_600
# What a frame is under way on a wire, in nanoseconds; links get their round trip by netem.
WIRE = 500
# A node that runs for so many real seconds without asking for time has hung. None of this is virtual.
PATIENCE = 120
# How often, in real nanoseconds, it is looked whether a node that does not come has ended.
LOOK = 200_000_000
# Unread bytes that a node's console takes at once; a terminal has 4096.
WINDOW = 2048
_NANO = 1_000_000_000


class Simulator:
    """A lab's time (``model.clock.Timer``): hands on what nodes say, and tells ``lost`` of those that ended.

    Raises ``SetupError`` where the program does not answer."""

    def __init__(self, process: Process, control: Path) -> None:
        self._process = process
        self._now = 0
        self._lines: dict[str, VirtualLine] = {}
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(str(control))
        self._answers = self._connection.makefile("rb")
        self._broken = False
        self.lost: Callable[[str, str], None] = lambda _node, _why: None

    def line(self, node: str) -> VirtualLine:
        """The control line of a node that was started."""
        self._lines[node] = line = VirtualLine(node, self)
        return line

    # -- time ------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Virtual seconds since the lab was started."""
        return self._now / _NANO

    def today(self) -> float:
        """As the nodes' clocks have it."""
        return EPOCH + self.now()

    def sleep(self, seconds: float) -> None:
        """Let that much virtual time pass. Raises ``SetupError``."""
        self._until(lambda: False, seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let virtual time pass until the event is set, but no longer than that. Raises ``SetupError``."""
        return self._until(event.is_set, seconds)

    def _until(self, done: Callable[[], bool], seconds: float) -> bool:
        # Whoever waits for less than a nanosecond would ask again and again.
        end = self._now + max(round(seconds * _NANO), int(seconds > 0))
        while not done():
            # What has come to be at this very moment is heard even with no time to wait.
            why = self._run(end)
            if why == "time" or (why == "nothing" and not done()):
                self._now = max(self._now, end)
                break
        return done()

    def _run(self, end: int) -> str:
        answer, said = self._ask("run", until=end)
        self._now = int(answer["now"])
        at = 0
        for node, size in answer["said"]:
            self._lines[node].hear(said[at : at + size])
            at += size
        why = str(answer["why"])
        if why in ("gone", "hung"):
            self.lost(str(answer["node"]), why)
        return why

    # -- orders ----------------------------------------------------------------------------------------------

    def expect(self, node: str, process: Process) -> None:
        """Wait, in real time, for a node that was started. Raises ``SetupError``."""
        deadline = time.monotonic() + PATIENCE
        while not self._ask("expect", node=node, within=LOOK)[0]["come"]:
            if process.poll() is not None:
                self.lost(node, "gone")
                return
            if time.monotonic() > deadline:
                self.lost(node, "hung")
                return

    def freeze(self, node: str, *, frozen: bool) -> None:
        """Give a node no turns for a while, or let it go on."""
        self._ask("freeze" if frozen else "thaw", node=node)

    def type(self, node: str, data: bytes) -> None:
        """Have a node's control line carry bytes."""
        self._ask("type", data, node=node)

    def bury(self, node: str) -> None:
        """Forget a node that was ended."""
        self._ask("bury", node=node)

    def order(self, volume: int, op: str, **fields: Any) -> dict[str, Any]:
        """An order to a volume (``volume/control.rs``); what it answers. Raises ``SetupError``."""
        return self._ask("volume", volume=volume, order={"op": op, **fields})[0]

    def _ask(self, op: str, data: bytes = b"", **fields: Any) -> tuple[dict[str, Any], bytes]:
        """An order and its answer, with the bytes that follow it (``volume/lab_control.rs``)."""
        if self._broken:
            raise SetupError("the program that keeps virtual time was interrupted")
        self._broken = True
        try:
            head = json.dumps({"op": op, **fields, **({"n": len(data)} if data else {})}).encode()
            self._connection.sendall(head + b"\n" + data)
            # {"node": null, "now": 77045000, "ok": true, "said": [["a1", 14]], "why": "said"}
            answer: dict[str, Any] = json.loads(self._answers.readline())
            said = self._answers.read(sum(size for _, size in answer.get("said", ())))
        except (OSError, ValueError) as error:
            words = self._process.last_words()
            raise SetupError(
                "the program that keeps virtual time has ended" + (f"; its last lines:\n{words}" if words else ""),
                hint="run again; `blocklab doctor` looks at this machine",
            ) from error
        self._broken = False
        if not answer["ok"]:
            raise SetupError(f"the program that keeps virtual time did not carry out {op}: {answer['error']}")
        return answer, said

    def close(self) -> None:
        """Let the program go; safe to call twice."""
        self._answers.close()
        self._connection.close()


class VirtualLine(Channel):
    """A node's control line in virtual time: nothing moves on it unless somebody waits."""

    def __init__(self, node: str, simulator: Simulator) -> None:
        super().__init__(node, window=WINDOW, patience=600.0)
        self._simulator = simulator
        self._buffer = bytearray()

    def hear(self, data: bytes) -> None:
        """Take what the node's agent said."""
        self._buffer += data
        # Everybody has been told.
        with contextlib.suppress(Unreadable):
            self._frames(self._buffer)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """By letting virtual time pass."""
        try:
            return self._simulator.wait(event, seconds)
        except BlocklabError as error:
            self.fail(error)
            return event.is_set()

    def _make_room(self, size: int) -> None:
        taken = threading.Event()
        end = self._simulator.now() + self._patience
        while self._lost is None and self._under_way + size > self._window:
            left = end - self._simulator.now()
            if left <= 0:
                raise NodeLost(self.node, f"its agent accepted no command for {self._patience:g} s")
            # Each frame that comes may be the one that makes room.
            self._simulator.wait(taken, min(left, 0.01))
        if self._lost is not None:
            raise self._lost
        self._under_way += size

    def _write(self, part: bytes) -> None:
        self._simulator.type(self.node, part)

    def close(self) -> None:
        """It ends with the lab."""
