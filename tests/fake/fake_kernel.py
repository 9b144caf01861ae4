"""A node's kernel as the program that keeps virtual time sees it, without a kernel: User Mode Linux's time
protocol with shared memory (include/uapi/linux/um_timetravel.h) and the driver's side of vhost-user with
notifications in band."""

from __future__ import annotations

import mmap
import os
import select
import socket
import struct
from pathlib import Path

ACK, START, _, WAIT, _, _, RUN, _, TIME_OF_DAY = range(9)
# Places in the shared memory: its version and length, until when the one that runs may go on, the time, who runs;
# then for each what it can, whether it wants to run, and when.
_FREE, _NOW, _RUNNING, _HEAD, _PLACE = 8, 16, 24, 4096, 128
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
        """Since the lab began; a kernel counts from its own beginning."""
        self._time = socket.socket(socket.AF_UNIX)
        self._time.connect(str(folder / "time"))
        self.devices: list[FakeDevice] = []
        try:
            self._join(number)
        except BaseException:
            self.close()
            raise

    def _join(self, number: int) -> None:
        self._time.sendall(struct.pack("=IIQ", START, 1, number))
        raw, files, _, _ = socket.recv_fds(self._time, 16, 2)
        if not raw:
            raise EOFError
        op, seq, place = struct.unpack("=IIQ", raw)
        assert (op, seq, len(files)) == (ACK, 1, 2)
        self._shared = mmap.mmap(files[0], 0)
        for file in files:
            os.close(file)
        version, length = struct.unpack_from("=II", self._shared)
        assert (version, length) == (2, len(self._shared)) and length >= _HEAD + _PLACE * (place + 1)
        assert struct.unpack_from("=H", self._shared, _RUNNING)[0] == place, "not the one that runs"
        self._place = _HEAD + _PLACE * place
        struct.pack_into("=I", self._shared, self._place, 1)
        self._began = self.now = self._common()

    @property
    def free(self) -> int:
        """Until when it may go on by itself."""
        return int(struct.unpack_from("=Q", self._shared, _FREE)[0])

    def _common(self) -> int:
        return int(struct.unpack_from("=Q", self._shared, _NOW)[0])

    def _read(self) -> tuple[int, int, int]:
        raw = b""
        while len(raw) < 16:
            if not (more := self._time.recv(16 - len(raw))):
                raise EOFError
            raw += more
        op, seq, time = struct.unpack("=IIQ", raw)
        return op, seq, time

    def _request(self, time: int) -> None:
        struct.pack_into("=IQ", self._shared, self._place + 4, 1, time)

    def time_of_day(self) -> int:
        """What the clock on the wall says (ns since 1970)."""
        self._time.sendall(struct.pack("=IIQ", TIME_OF_DAY, 7, 0))
        op, seq, time = self._read()
        assert (op, seq) == (ACK, 7)
        return time

    def wait(self, until: int) -> None:
        """Ask to run at ``until`` (ns) and wait for the turn, heeding calls of devices meanwhile."""
        self._request(until)
        self._time.sendall(struct.pack("=IIQ", WAIT, 2, 0))
        lines = {self._time: None, **{device.back: device for device in self.devices}}
        while True:
            ready, _, _ = select.select(list(lines), [], [])
            if self._time in ready:
                op, _, time = self._read()
                assert op == RUN and self._began + time >= self.now, "time goes backwards"
                self.now = self._began + time
                assert self.now == self._common()
                struct.pack_into("=I", self._shared, self._place + 4, 0)
                return
            device = lines[ready[0]]
            assert device is not None
            # As the kernel does: what time it is, a turn for the interrupt, and only then the answer.
            if not (head := device.back.recv(20)):
                raise EOFError
            assert struct.unpack("=I", head[:4])[0] == _CALL
            assert struct.unpack_from("=H", self._shared, _RUNNING)[0] == 0, "called while a node runs"
            assert self._common() >= self.now, "time goes backwards"
            self.now = self._common()
            self._request(self.now)
            device.calls.append(self.now)
            device.back.sendall(head[:4] + struct.pack("=II", 1 | 4, 8) + struct.pack("=Q", 0))

    def propagate(self, now: int) -> None:
        """Say what time it is here, as before each kick."""
        self.now = now
        struct.pack_into("=Q", self._shared, _NOW, now)

    def device(self, name: str, queues: int) -> FakeDevice:
        """Find the device at a socket."""
        found = FakeDevice(self.folder / name, queues)
        self.devices.append(found)
        return found

    def close(self) -> None:
        """End, as a power cut does."""
        self._time.close()
        for device in self.devices:
            device.close()


class FakeDevice:
    """The driver's side of one device: its memory, its queues."""

    def __init__(self, path: Path, queues: int) -> None:
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
