"""A node's kernel as the program that keeps virtual time sees it, without a kernel: User Mode Linux's time
protocol (include/uapi/linux/um_timetravel.h) and the driver's side of vhost-user with notifications in band."""

from __future__ import annotations

import mmap
import os
import select
import socket
import struct
from pathlib import Path

ACK, START, REQUEST, WAIT, GET, UPDATE, RUN, FREE_UNTIL, TIME_OF_DAY = range(9)
_SIZE = 8  # of each queue
_MEMORY = 1 << 20
_BASE = 0x1000_0000
_KICK, _CALL = 35, 4
_NEED_REPLY = 8


class FakeKernel:
    """One node. It runs while its caller does, and ``wait`` gives the turn away."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.now = 0
        self.free = 0
        self._seq = 0
        self._time = socket.socket(socket.AF_UNIX)
        self._time.connect(str(folder / "time"))
        self.devices: list[FakeDevice] = []
        try:
            self._ask(START, number)
        except BaseException:
            self.close()
            raise

    def _read(self) -> tuple[int, int, int]:
        raw = b""
        while len(raw) < 16:
            if not (more := self._time.recv(16 - len(raw))):
                raise EOFError
            raw += more
        op, seq, time = struct.unpack("=IIQ", raw)
        return op, seq, time

    def _heed(self) -> tuple[int, int, int]:
        """The next message; what asks for an answer gets it."""
        op, seq, time = self._read()
        if op in (RUN, FREE_UNTIL):
            if op == RUN:
                assert time >= self.now, "time goes backwards"
                self.now = time
            else:
                self.free = time
            self._time.sendall(struct.pack("=IIQ", ACK, seq, 0))
        return op, seq, time

    def _ask(self, op: int, time: int = 0) -> int:
        self._seq += 1
        self._time.sendall(struct.pack("=IIQ", op, self._seq, time))
        while (got := self._heed())[0] != ACK:
            pass
        assert got[1] == self._seq
        return got[2]

    def wait(self, until: int) -> None:
        """Ask to run at ``until`` (ns) and wait for the turn, heeding calls of devices meanwhile."""
        self._ask(REQUEST, until)
        self._ask(WAIT)
        lines = {self._time: None, **{device.back: device for device in self.devices}}
        while True:
            ready, _, _ = select.select(list(lines), [], [])
            if self._time in ready:
                if self._heed()[0] == RUN:
                    return
                continue
            device = lines[ready[0]]
            assert device is not None
            # As the kernel does: what time it is, a turn for the interrupt, and only then the answer.
            if not (head := device.back.recv(20)):
                raise EOFError
            assert struct.unpack("=I", head[:4])[0] == _CALL
            self.now = max(self.now, self._ask(GET))
            self._ask(REQUEST, self.now)
            device.calls.append(self.now)
            device.back.sendall(head[:4] + struct.pack("=II", 1 | 4, 8) + struct.pack("=Q", 0))

    def propagate(self, now: int) -> None:
        """Say what time it is here, as before each kick."""
        self.now = now
        self._ask(UPDATE, now)

    def heed(self, connection: socket.socket) -> None:
        """Heed the clock until there is something on ``connection``."""
        while True:
            ready, _, _ = select.select([connection, self._time], [], [])
            if self._time in ready:
                self._heed()
                continue
            return

    def device(self, name: str, queues: int) -> FakeDevice:
        """Find the device at a socket."""
        found = FakeDevice(self, self.folder / name, queues)
        self.devices.append(found)
        return found

    def close(self) -> None:
        """End, as a power cut does."""
        self._time.close()
        for device in self.devices:
            device.close()


class FakeDevice:
    """The driver's side of one device: its memory, its queues."""

    def __init__(self, kernel: FakeKernel, path: Path, queues: int) -> None:
        self.kernel = kernel
        self.calls: list[int] = []
        self._file = os.memfd_create("guest")
        os.truncate(self._file, _MEMORY)
        self.memory = mmap.mmap(self._file, _MEMORY)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._next = [0] * queues
        self.back, theirs = socket.socketpair()
        assert self.ask(15, reply=True) & (1 << 14), "no notifications in band"
        self.ask(2, struct.pack("=Q", 1 << 32 | 1 << 30))
        with theirs:
            self.ask(21, fds=[theirs.fileno()])
        region = struct.pack("=IIQQQQ", 1, 0, _BASE, _MEMORY, _BASE, 0)
        self.ask(5, region, fds=[self._file])
        for queue in range(queues):
            at = _BASE + self._place(queue)
            self.ask(8, struct.pack("=II", queue, _SIZE))
            self.ask(10, struct.pack("=II", queue, 0))
            self.ask(9, struct.pack("=IIQQQQ", queue, 0, at, at + 512, at + 256, 0))
            self.ask(18, struct.pack("=II", queue, 1))

    def _place(self, queue: int) -> int:
        # Descriptors at 0, available at 256, used at 512 of each queue's page; buffers after the pages.
        return queue * 4096

    def ask(self, request: int, body: bytes = b"", fds: list[int] | None = None, *, reply: bool = False) -> int:
        """A message and its answer, a whole number."""
        flags = 1 | (0 if reply else _NEED_REPLY)
        socket.send_fds(self._socket, [struct.pack("=III", request, flags, len(body)) + body], fds or [])
        self.kernel.heed(self._socket)
        if len(raw := self._socket.recv(20)) != 20:
            raise EOFError
        return int(struct.unpack("=Q", raw[12:])[0])

    def offer(self, queue: int, pieces: list[tuple[int, int, bool]]) -> None:
        """Offer a buffer of (place, bytes, whether the device writes) pieces, and kick."""
        place, first = self._place(queue), (self._next[queue] * 4) % _SIZE
        for number, (at, size, write) in enumerate(pieces):
            last = number == len(pieces) - 1
            flags = (0 if last else 1) | (2 if write else 0)
            entry = struct.pack("=QIHH", _BASE + at, size, flags, first + number + 1)
            where = place + 16 * (first + number)
            self.memory[where : where + 16] = entry
        slot = place + 256 + 4 + 2 * (self._next[queue] % _SIZE)
        self.memory[slot : slot + 2] = struct.pack("=H", first)
        self._next[queue] += 1
        self.memory[place + 258 : place + 260] = struct.pack("=H", self._next[queue])
        self.ask(_KICK, struct.pack("=II", queue, 0))

    def given(self, queue: int) -> int:
        """How many buffers were given back."""
        place = self._place(queue)
        return int(struct.unpack("=H", self.memory[place + 514 : place + 516])[0])

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self.back.close()
        self.memory.close()
        os.close(self._file)
