"""The program of the workload ``open_loop``, which runs on the node: asynchronous direct I/O on a schedule.

It is read as text and put on the node, so it needs nothing but Python's own library (3.9 or newer). It asks the
kernel itself (``io_submit``, ``man 7 aio``) by ``ctypes``, since one thread that waits for the next due request
*and* for completions needs neither a pool of threads nor a lock.

Input: the path of a JSON file, see ``Plan``. Output: one line of JSON with every phase.
"""

from __future__ import annotations

import array
import collections
import ctypes
import errno
import gc
import json
import math
import mmap
import os
import platform
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any

READ, WRITE, FLUSH = 0, 1, 2
WAYS = ("read", "write", "sync")
# IOCB_CMD_PREAD, IOCB_CMD_PWRITE, IOCB_CMD_FDSYNC of linux/aio_abi.h
_COMMANDS = (0, 1, 3)
# struct iocb and struct io_event of linux/aio_abi.h, little-endian
_IOCB = struct.Struct("<QIIHhIQQqQII")
_EVENT = struct.Struct("<QQqq")
# Numbers of io_setup, io_destroy, io_submit, io_getevents.
_CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
# At once from the kernel, and to it.
_BATCH = 256
_NOISE = 2**20
_PAGE = 4096
# With fewer requests under way than this, one that leaves late was held up by the node and not by the volume.
_FEW = 16
# So long (s) at most it waits for what is under way when a phase is over.
DRAIN = 10.0
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


class Aio:
    """A queue of at most ``slots`` requests to one file. Raises ``OSError``."""

    def __init__(self, path: str, slots: int, sizes: tuple[int, int], seed: int) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.syscall.restype = ctypes.c_long
        numbers = _CALLS.get(platform.machine())
        if numbers is None:
            raise OSError(errno.ENOSYS, f"no asynchronous I/O known on {platform.machine()}")
        self.setup, self.destroy, self.submits, self.gets = (ctypes.c_long(number) for number in numbers)
        self.context = ctypes.c_ulong(0)
        self._call(self.setup, ctypes.c_long(slots), ctypes.byref(self.context))
        self.reads = mmap.mmap(-1, sizes[READ] + _PAGE)
        # Reads may all go to one place; writes come from random bytes, which no storage can shrink.
        self.noise = mmap.mmap(-1, _NOISE + sizes[WRITE] + _PAGE)
        self.noise[:] = random.Random(seed).randbytes(len(self.noise))
        self.read_at, self.noise_at = _address(self.reads), _address(self.noise)
        self.blocks = bytearray(_IOCB.size * slots)
        self.blocks_at = ctypes.addressof(ctypes.c_char.from_buffer(self.blocks))
        self.pointers = (ctypes.c_ulong * _BATCH)()
        self.events = bytearray(_EVENT.size * _BATCH)
        self.events_at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.events)))
        self.wait = (ctypes.c_long * 2)()

    def _call(self, number: Any, *args: Any) -> int:
        done = self.libc.syscall(number, *args)
        if done < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return int(done)

    def prepare(self, slot: int, way: int, offset: int, size: int, noise: int) -> None:
        """A request in a slot; ``noise`` is where in the random bytes a write begins, in pages."""
        buffer = self.read_at if way == READ else self.noise_at + noise * _PAGE if way == WRITE else 0
        _IOCB.pack_into(
            self.blocks, slot * _IOCB.size, slot, 0, 0, _COMMANDS[way], 0, self.file, buffer, size, offset,
            0, 0, 0,
        )  # fmt: skip

    def submit(self, slots: list[int]) -> int:
        """Hands over requests, at most ``_BATCH``; how many of them the kernel took."""
        for number, slot in enumerate(slots):
            self.pointers[number] = self.blocks_at + slot * _IOCB.size
        try:
            return self._call(self.submits, self.context, ctypes.c_long(len(slots)), self.pointers)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return 0
            raise

    def completed(self, least: int, seconds: float) -> list[tuple[int, int]]:
        """(slot, result) of what has ended, waiting for at most so long for ``least`` of them."""
        seconds = max(0.0, seconds)
        self.wait[0], self.wait[1] = int(seconds), int(seconds % 1 * 1e9)
        try:
            count = self._call(
                self.gets, self.context, ctypes.c_long(least), ctypes.c_long(_BATCH), self.events_at, self.wait
            )
        except OSError as error:
            if error.errno == errno.EINTR:
                return []
            raise
        found = []
        for number in range(count):
            slot, _, result, _ = _EVENT.unpack_from(self.events, number * _EVENT.size)
            found.append((slot, result))
        return found


def _address(held: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(held))


class Job:
    """What to do: the JSON file's fields.

    ``path``; ``size`` in bytes; ``read_size``, ``write_size``: means of a request; ``slots``: requests under way
    at once; ``seed``; ``phases``: each with ``name``, ``seconds``, ``rates`` (reads, writes, flushes per second)
    and ``depth``: 0 for an open loop at these rates, else so many at once in the same mix, each after another.
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self.path: str = raw["path"]
        self.size: int = raw["size"]
        self.sizes: tuple[int, int] = (raw["read_size"], raw["write_size"])
        self.slots: int = raw["slots"]
        self.seed: int = raw["seed"]
        self.phases: list[dict[str, Any]] = raw["phases"]


def schedule(rates: list[float], seconds: float, chance: random.Random) -> tuple[array.array[float], bytearray]:
    """When each request is due (s from the start), by time, and which way it goes.

    Of each way there are exactly rate x seconds, at times that are independent of each other: a Poisson process
    given its count. So two runs ask for the same amount, and a rate that was reached needs no allowance for luck.
    """
    due: list[tuple[float, int]] = []
    for way, rate in enumerate(rates):
        due += [(chance.random() * seconds, way) for _ in range(round(rate * seconds))]
    due.sort()
    return array.array("d", [at for at, _ in due]), bytearray(way for _, way in due)


class Phase:
    """One phase and what it counts. Times are of ``time.monotonic``; latencies are in seconds."""

    def __init__(self, aio: Aio, plan: Job, spec: dict[str, Any], chance: random.Random) -> None:
        self.aio, self.plan, self.spec, self.chance = aio, plan, spec, chance
        self.seconds = float(spec["seconds"])
        self.free = list(range(plan.slots))
        # Of each slot: when its request was due, and its way.
        self.begun = array.array("d", bytes(8 * plan.slots))
        self.way = bytearray(plan.slots)
        self.size = array.array("q", bytes(8 * plan.slots))
        # Of reads and writes: by how much of a page the requests so far were smaller than the mean, together.
        self.short = [0.0, 0.0]
        self.ready: list[int] = []
        self.latencies = tuple(array.array("d") for _ in WAYS)
        self.in_time = [0, 0, 0]
        self.errors: dict[str, int] = {}
        self.lag = self.most_lag = 0.0
        self.lagged = self.most_under_way = 0
        # From when to when the layout held this program up, in order.
        self.excused: collections.deque[tuple[float, float]] = collections.deque()
        steps = math.ceil(self.seconds)
        self.counts = [[0] * steps for _ in WAYS]
        self.sums = [[0.0] * steps for _ in WAYS]
        self.start = 0.0

    def _request(self, way: int, due: float) -> None:
        """Prepares a request in a free slot; it is not submitted yet."""
        slot = self.free.pop()
        unit, size = self._sizes(way)
        places = (self.plan.size - size) // unit + 1 if size else 1
        offset = int(self.chance.random() * places) * unit
        self.aio.prepare(slot, way, offset, size, int(self.chance.random() * (_NOISE // _PAGE)))
        self.begun[slot], self.size[slot] = due, size
        self.way[slot] = way
        self.ready.append(slot)

    def _sizes(self, way: int) -> tuple[int, int]:
        """(what its place is a multiple of, its size): whole pages, of the two sizes around the mean, in turn so
        that the mean is exact."""
        if way == FLUSH:
            return 0, 0
        pages, more = divmod(self.plan.sizes[way], _PAGE)
        self.short[way] += more / _PAGE
        if self.short[way] < 1:
            return pages * _PAGE, pages * _PAGE
        self.short[way] -= 1
        return pages * _PAGE, (pages + 1) * _PAGE

    def _hand_over(self) -> None:
        began = time.monotonic()
        while self.ready:
            taken = self.aio.submit(self.ready[:_BATCH])
            del self.ready[:taken]
            if not taken:
                break
        self._excuse(began)
        self.most_under_way = max(self.most_under_way, self.plan.slots - len(self.free) - len(self.ready))

    def _collect(self, least: int, seconds: float) -> None:
        events = self.aio.completed(least, seconds)
        now = time.monotonic()
        for slot, result in events:
            way, latency = self.way[slot], now - self.begun[slot]
            self.free.append(slot)
            if result != self.size[slot]:
                said = os.strerror(-result) if result < 0 else "fewer bytes than asked for"
                self.errors[said] = self.errors.get(said, 0) + 1
                continue
            self.latencies[way].append(latency)
            second = now - self.start
            if second < self.seconds:
                self.in_time[way] += 1
                self.counts[way][int(second)] += 1
                self.sums[way][int(second)] += latency

    def _excuse(self, began: float) -> None:
        ended = time.monotonic()
        if ended > began:
            self.excused.append((began, ended))

    def _late(self, due: float, now: float) -> None:
        """A request that leaves later than it was due, although few are under way. The time in which no slot was
        free, or the kernel held ``io_submit`` up, as it does for a device that takes no more, is the layout's."""
        while self.excused and self.excused[0][1] <= due:
            self.excused.popleft()
        seconds = max(0.0, now - due - sum(ended - max(began, due) for began, ended in self.excused))
        self.lag += seconds
        self.lagged += 1
        self.most_lag = max(self.most_lag, seconds)

    def _under_way(self) -> int:
        return self.plan.slots - len(self.free)

    def open_loop(self) -> list[int]:
        """Every request when it is due, whatever became of the others; how many never left, of each way."""
        due, ways = schedule(self.spec["rates"], self.seconds, self.chance)
        at, every = 0, len(due)
        self.start = time.monotonic()
        end = self.start + self.seconds
        while (now := time.monotonic()) < end:
            while at < every and self.start + due[at] <= now and self.free:
                if self._under_way() < _FEW:
                    self._late(self.start + due[at], now)
                self._request(ways[at], self.start + due[at])
                at += 1
            self._hand_over()
            waiting = at < every and self.start + due[at] <= now
            until = end if waiting or at >= every else min(end, self.start + due[at])
            began = time.monotonic()
            self._collect(1, until - began)
            if waiting:
                self._excuse(began)
        never = [0, 0, 0]
        for number in range(at, every):
            never[ways[number]] += 1
            # At least so long.
            self.latencies[ways[number]].append(self.seconds - due[number])
        return never

    def closed_loop(self) -> list[int]:
        """``depth`` requests at once, each after another, in the mix of the rates."""
        rates = self.spec["rates"]
        self.start = time.monotonic()
        end = self.start + self.seconds
        while (now := time.monotonic()) < end:
            for way in self.chance.choices((READ, WRITE, FLUSH), rates, k=self.spec["depth"] - self._under_way()):
                self._request(way, now)
            self._hand_over()
            self._collect(1, end - time.monotonic())
        return [0, 0, 0]

    def run(self) -> dict[str, Any]:
        """The phase from start to end, and what it found."""
        began = time.time()
        never = self.closed_loop() if self.spec["depth"] else self.open_loop()
        late = time.monotonic() + DRAIN
        while self._under_way() and time.monotonic() < late:
            self._hand_over()
            self._collect(1, late - time.monotonic())
        lost = [0, 0, 0]
        if self._under_way():
            now = time.monotonic()
            for slot in set(range(self.plan.slots)) - set(self.free):
                lost[self.way[slot]] += 1
                self.latencies[self.way[slot]].append(now - self.begun[slot])
        return {
            "name": self.spec["name"],
            "start": began,
            "seconds": self.seconds,
            "rates": self.spec["rates"],
            "depth": self.spec["depth"],
            "lag": {"mean": self.lag / self.lagged if self.lagged else 0.0, "max": self.most_lag},
            "under_way": self.most_under_way,
            "errors": self.errors,
            "ways": {
                name: self._way(way, never[way], lost[way]) for way, name in enumerate(WAYS) if self.latencies[way]
            },
        }

    def _way(self, way: int, never: int, lost: int) -> dict[str, Any]:
        found = sorted(self.latencies[way])
        count, mean = len(found), math.fsum(found) / len(found)
        return {
            "done": count - never - lost,
            "in_time": self.in_time[way],
            "never": never,
            "lost": lost,
            "mean": mean,
            "stddev": math.sqrt(math.fsum((each - mean) ** 2 for each in found) / count),
            "max": found[-1],
            "percentiles": {f"{p:g}": found[max(0, math.ceil(count * p / 100) - 1)] for p in PERCENTILES},
            "counts": self.counts[way],
            "sums": self.sums[way],
        }


def main() -> None:
    """Every phase, one after the other."""
    plan = Job(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    gc.disable()
    aio = Aio(plan.path, plan.slots, plan.sizes, plan.seed)
    found = []
    for number, spec in enumerate(plan.phases):
        phase = Phase(aio, plan, spec, random.Random(plan.seed * 1000 + number))
        found.append(phase.run())
        if phase._under_way():
            # The slots are not ours yet, and what is in them would be counted in the next phase.
            break
        time.sleep(0.5)
    print(json.dumps({"python": platform.python_version(), "phases": found}), flush=True)
    # io_destroy waits for whatever is under way, perhaps for ever; the end of the process does not.
    os._exit(0)


if __name__ == "__main__":
    main()
