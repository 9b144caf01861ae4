"""The ``Host`` that an agent makes of a machine, whatever line leads to it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from queue import SimpleQueue

from blocklab.errors import HostTimeout, NodeLost, StoreError
from blocklab.model.host import Result
from blocklab.sites.channel import MOST_FILE, Call, Channel, Header, TooMuch, argv_list, collect

# What a shell says of a command that it cannot find; CommandError then reads as everybody expects.
NOT_FOUND = 127


class Agented:
    """A machine with an agent on it. Every method raises ``NodeLost`` once it is gone."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self.channel = channel

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0) -> Result:
        """Run a command to its end; ``HostTimeout`` and ``TooMuch`` kill it."""
        out, err, sink = collect()
        call = self.order("spawn", sink, input, argv=argv_list(argv))
        try:
            end = call.wait(timeout)
        except (HostTimeout, TooMuch):
            self.tell("signal", call, number=signal.SIGKILL)
            raise
        if end.errno:
            return Result(NOT_FOUND, b"", f"{argv[0]}: {end.error}\n".encode())
        return Result(end.exit or 0, b"".join(out), b"".join(err))

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file. Raises ``OSError`` as the host's kernel said it."""
        self._done(self.order("put", lambda *_: None, data, path=path, mode=mode), path)

    def get(self, path: str) -> bytes:
        """A file's content. Raises ``OSError`` as the host's kernel said it."""
        out, _, sink = collect()
        self._done(self.order("get", sink, most=MOST_FILE, path=path), path)
        return b"".join(out)

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> AgentProc:
        """Start a command; its output streams into ``out`` and ``err``."""
        return AgentProc(self, argv, out, err)

    def order(self, op: str, sink: object, payload: bytes = b"", **fields: object) -> Call:
        """An order to the agent; see ``Channel.order``. Of ``fields``, ``most`` is the channel's."""
        return self.channel.order(op, sink, payload, **fields)  # type: ignore[arg-type]

    def tell(self, op: str, call: Call, payload: bytes = b"", **fields: object) -> None:
        """An order about a call under way."""
        self.channel.tell(op, call, payload, **fields)

    def _done(self, call: Call, path: str) -> Header:
        end = call.wait(600.0)
        if end.errno:
            raise OSError(end.errno, end.error, path)
        return end


class AgentProc:
    """A command that runs on a host by itself; its output streams into local files."""

    def __init__(self, host: Agented, argv: Sequence[str], out: Path, err: Path) -> None:
        self._host = host
        self._argv = argv
        self._files: dict[int, BufferedWriter] = {1: out.open("wb"), 2: err.open("wb")}
        self._call = host.order("spawn", self._write, most=MOST_FILE, argv=argv_list(argv))

    def _write(self, stream: int, data: bytes) -> None:
        file = self._files[stream]
        try:
            file.write(data)
            file.flush()
        except OSError as error:
            # With what is still to be written: ``close`` would try that once more.
            file.raw.close()
            raise StoreError(
                f"{self._host.name}: what a command prints cannot be written to {file.name}: {error}",
                hint="make room, or use --runs DIR",
            ) from error

    def poll(self) -> int | None:
        """The exit code, or None while it runs. Raises ``NodeLost``, ``StoreError``."""
        return self.wait(0.0) if self._call.ended.is_set() else None

    def wait(self, timeout: float) -> int:
        """The exit code. Raises ``HostTimeout``, ``NodeLost``; ``StoreError`` where its output cannot be kept,
        ``TooMuch``, which kills it."""
        try:
            end = self._call.wait(timeout)
        except TooMuch:
            self._host.tell("signal", self._call, number=signal.SIGKILL)
            raise
        finally:
            if self._call.ended.is_set():
                for file in self._files.values():
                    file.close()
        if end.errno:
            self._files[2].close()
            return NOT_FOUND
        return end.exit if end.exit is not None else 0

    @property
    def cpu(self) -> float | None:
        """The seconds of the host's CPU that it took, with what it waited for; None while it runs."""
        return self._call.end.cpu if self._call.end is not None else None

    def signal(self, number: int) -> None:
        """Signal the command's process group on the host; nothing when it has ended."""
        if not self._call.ended.is_set():
            self._host.tell("signal", self._call, number=number)


class Shell:
    """A command for ``blocklab sh``: with ``size`` (rows, columns) on a terminal of its own, else with ``input``.

    What it prints waits in ``said`` as (stream, bytes): who looks at it may be slow, or gone, and the host's only
    reader must go on.
    """

    def __init__(
        self, host: Agented, argv: Sequence[str], size: tuple[int, int] | None, input: bytes = b""
    ) -> None:
        self.said: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        tty = {} if size is None else {"tty": list(size)}
        self._host = host
        self._argv = argv_list(argv)
        # All of it goes on to the user, who may want it for days.
        self._call = host.order("spawn", self._take, input, most=sys.maxsize, argv=self._argv, **tty)

    def _take(self, stream: int, data: bytes) -> None:
        self.said.put((stream, data))

    def type(self, data: bytes) -> None:
        """Send what the user typed."""
        self._host.tell("input", self._call, data)

    def end(self, number: int) -> None:
        """Signal its process group; nothing when it has ended, or its host has."""
        if not self._call.ended.is_set():
            with contextlib.suppress(NodeLost):
                self._host.tell("signal", self._call, number=number)

    def poll(self) -> int | None:
        """The exit code, or None while it runs; then ``said`` has all of it. Raises ``NodeLost``."""
        if not self._call.ended.is_set():
            return None
        end = self._call.wait(0.0)
        if end.errno:
            self._take(2, f"{self._argv[0]}: {end.error}\n".encode())
            return NOT_FOUND
        return end.exit or 0
