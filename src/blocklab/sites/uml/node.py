"""One node: a User Mode Linux kernel as a pinned process, and the ``Host`` that its agent makes of it."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import socket
import threading
import time
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from queue import SimpleQueue

from blocklab.errors import HostTimeout, NodeLost, StoreError
from blocklab.model.host import Result
from blocklab.model.units import Size
from blocklab.sites.uml.channel import Call, Channel, Header, argv_list, collect
from blocklab.sites.uml.processes import Process

# What a shell says of a command that it cannot find; CommandError then reads as everybody expects.
NOT_FOUND = 127
# Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
PANIC = "Kernel panic"


def kernel_argv(
    kernel: Path,
    *,
    node: str,
    memory: Size,
    rootfs: Path,
    folder: Path,
    disks: Sequence[tuple[Path, bool]],
    sockets: Sequence[Path],
    nics: Sequence[tuple[int, int]],
    line: int,
) -> list[str]:
    """The kernel's command line.

    ``disks`` (and whether another node has it too) become ubdb, ubdc, ...; ``sockets`` (vhost-user) become vda,
    vdb, ...; ``nics`` are descriptors of socketpair ends, each with the largest MTU that it will take, that become
    vec0, vec1, ...; ``line`` is the descriptor of the control channel.
    """
    return [
        str(kernel),
        f"mem={int(memory) // 2**20}M",
        "seccomp=on",
        # r: read-only; c: shared, so that the file is not locked; d: do not look for a COW header.
        f"ubd0r={rootfs}",
        "root=/dev/ubda", "ro", "rootfstype=ext4", "init=/usr/lib/blocklab/init", f"node={node}",
        *(f"ubd{number}{'c' if shared else ''}={disk}" for number, (disk, shared) in enumerate(disks, 1)),
        *(f"virtio_uml.device={path}:2" for path in sockets),
        *(
            f"vec{number}:transport=fd,fd={fd},depth=64,mtu={mtu},mac={mac_of(node, number)}"
            for number, (fd, mtu) in enumerate(nics)
        ),
        f"ssl0=fd:{line},fd:{line}",
        "con=null", "con0=null,fd:1", "ssl=null", "quiet", "loglevel=4",
        # A panicked kernel must end its process, not wait for somebody to look.
        "panic=-1", "oops=panic",
        f"umid={node}", f"uml_dir={folder}/uml/",
    ]  # fmt: skip


def mac_of(node: str, number: int) -> str:
    """The address of a node's n-th interface, the same after each boot: the others go on sending to the one that
    they know, for half a minute if nobody answers there."""
    # 02: locally administered, one interface
    return "02:" + hashlib.sha256(f"{node} {number}".encode()).digest()[:5].hex(":")


class NodeProc:
    """A command that runs on a node by itself; its output streams into local files."""

    def __init__(self, node: Node, argv: Sequence[str], out: Path, err: Path) -> None:
        self._node = node
        self._argv = argv
        self._files: dict[int, BufferedWriter] = {1: out.open("wb"), 2: err.open("wb")}
        self._call = node.order("spawn", self._write, argv=argv_list(argv))

    def _write(self, stream: int, data: bytes) -> None:
        file = self._files[stream]
        try:
            file.write(data)
            file.flush()
        except OSError as error:
            # With what is still to be written: ``close`` would try that once more.
            file.raw.close()
            raise StoreError(
                f"{self._node.name}: what a command prints cannot be written to {file.name}: {error}",
                hint="make room, or use --runs DIR",
            ) from error

    def poll(self) -> int | None:
        """The exit code, or None while it runs. Raises ``NodeLost``, ``StoreError``."""
        return self.wait(0.0) if self._call.ended.is_set() else None

    def wait(self, timeout: float) -> int:
        """The exit code. Raises ``HostTimeout``, ``NodeLost``; ``StoreError`` where its output cannot be kept."""
        try:
            end = self._call.wait(timeout)
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
        """The seconds of the node's CPU that it took, with what it waited for; None while it runs."""
        return self._call.end.cpu if self._call.end is not None else None

    def signal(self, number: int) -> None:
        """Signal the command's process group on the node; nothing when it has ended."""
        if not self._call.ended.is_set():
            self._node.tell("signal", self._call, number=number)


class Shell:
    """A command for ``blocklab sh``: with ``size`` (rows, columns) on a terminal of its own, else with ``input``.

    What it prints waits in ``said`` as (stream, bytes): who looks at it may be slow, or gone, and the node's only
    reader must go on.
    """

    def __init__(self, node: Node, argv: Sequence[str], size: tuple[int, int] | None, input: bytes = b"") -> None:
        self.said: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        tty = {} if size is None else {"tty": list(size)}
        self._node = node
        self._argv = argv_list(argv)
        self._call = node.order("spawn", self._take, input, argv=self._argv, **tty)

    def _take(self, stream: int, data: bytes) -> None:
        self.said.put((stream, data))

    def type(self, data: bytes) -> None:
        """Send what the user typed."""
        self._node.tell("input", self._call, data)

    def end(self, number: int) -> None:
        """Signal its process group; nothing when it has ended, or its node has."""
        if not self._call.ended.is_set():
            with contextlib.suppress(NodeLost):
                self._node.tell("signal", self._call, number=number)

    def poll(self) -> int | None:
        """The exit code, or None while it runs; then ``said`` has all of it. Raises ``NodeLost``."""
        if not self._call.ended.is_set():
            return None
        end = self._call.wait(0.0)
        if end.errno:
            self._take(2, f"{self._argv[0]}: {end.error}\n".encode())
            return NOT_FOUND
        return end.exit or 0


class Node:
    """A started node. Every method raises ``NodeLost`` once the node is gone."""

    def __init__(self, name: str, process: Process, end: socket.socket) -> None:
        self.name = name
        self.process = process
        self.channel = Channel(name, end)
        self.doomed = threading.Event()
        self.frozen = threading.Event()

    # -- Host ------------------------------------------------------------------------------------------

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0) -> Result:
        """Run a command to its end; ``HostTimeout`` kills it."""
        out, err, sink = collect()
        call = self.order("spawn", sink, input, argv=argv_list(argv))
        try:
            end = call.wait(timeout)
        except HostTimeout:
            self.tell("signal", call, number=signal.SIGKILL)
            raise
        if end.errno:
            return Result(NOT_FOUND, b"", f"{argv[0]}: {end.error}\n".encode())
        return Result(end.exit or 0, b"".join(out), b"".join(err))

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file. Raises ``OSError`` as the node's kernel said it."""
        self._done(self.order("put", lambda *_: None, data, path=path, mode=mode), path)

    def get(self, path: str) -> bytes:
        """A file's content. Raises ``OSError`` as the node's kernel said it."""
        out, _, sink = collect()
        self._done(self.order("get", sink, path=path), path)
        return b"".join(out)

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> NodeProc:
        """Start a command; its output streams into ``out`` and ``err``."""
        return NodeProc(self, argv, out, err)

    def crash(self) -> None:
        """SIGKILL to all of the node's processes, as a power cut."""
        self.doomed.set()
        self.frozen.clear()
        self.process.kill()
        self.process.wait_gone()
        self.channel.fail(NodeLost(self.name, "crashed on purpose"))

    def freeze(self) -> None:
        """SIGSTOP to all of the node's processes."""
        self.frozen.set()
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT to all of the node's processes."""
        # Its heart has yet to beat again.
        self.channel.last_beat = time.monotonic()
        self.process.signal(signal.SIGCONT)
        self.frozen.clear()

    # -- what the lab and the shell need ---------------------------------------------------------------

    def order(self, op: str, sink: object, payload: bytes = b"", **fields: object) -> Call:
        """An order to the agent; see ``Channel.order``."""
        return self.channel.order(op, sink, payload, **fields)  # type: ignore[arg-type]

    def tell(self, op: str, call: Call, payload: bytes = b"", **fields: object) -> None:
        """An order about a call under way."""
        self.channel.tell(op, call, payload, **fields)

    def _done(self, call: Call, path: str) -> Header:
        end = call.wait(600.0)
        if end.errno:
            raise OSError(end.errno, end.error, path)
        return end

    def wait_ready(self, deadline: float) -> None:
        """Until the agent's first heartbeat. Raises ``NodeLost``."""
        while not self.channel.ready.wait(0.02):
            if self.process.poll() is not None:
                raise NodeLost(self.name, "its kernel ended during the boot", self.console())
            if time.monotonic() > deadline:
                raise NodeLost(self.name, "it did not boot in time", self.console())

    def console(self) -> str:
        """What its kernel printed; of a panic the lines around it, since a stack dump follows."""
        try:
            text = self.process.log.read_text(errors="replace")
        except OSError:
            return ""
        before, panic, after = text.partition(PANIC)
        if not panic:
            return text
        return "\n".join([*before.splitlines()[-6:], panic + after.split("\n", 1)[0]])
