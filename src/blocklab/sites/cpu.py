"""What this machine's CPU takes in the kernel for a system call of the kinds that databases make, and for a page
fault: the costs of a node in virtual time (``model.ground.CpuCost``).

System calls are in equal parts a send and a receive of 100 bytes over loopback, a write and a read of 8 KiB of a
file in memory; faults are first touches of a page. Only CPU time in the kernel counts (getrusage(2)), so what else
runs on the machine has little part in it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator

# The kernel splits CPU time by looking at it some 250 times a second: so much of it each time, in seconds.
ENOUGH = 0.8
# No more real seconds than that, whatever was got.
PATIENCE = 10.0
_BLOCK = bytes(8192)
_BLOCKS = 512
_PAGES = 4096
_MESSAGE = b"." * 100


def syscall() -> float:
    """Seconds for a system call."""
    with contextlib.ExitStack() as stack:
        near, far = stack.enter_context(_pair())
        file = os.memfd_create("blocklab")
        stack.callback(os.close, file)
        os.ftruncate(file, len(_BLOCK) * _BLOCKS)

        def work() -> int:
            for at in range(0, len(_BLOCK) * _BLOCKS, len(_BLOCK)):
                near.send(_MESSAGE)
                far.recv(len(_MESSAGE))
                os.pwrite(file, _BLOCK, at)
                os.pread(file, len(_BLOCK), at)
            return 4 * _BLOCKS

        return _each(work)


def fault() -> float:
    """Seconds for a page fault."""

    def work() -> int:
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            # One fault would give 2 MiB.
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
        return _PAGES

    return _each(work)


@contextlib.contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far = server.accept()[0]
    with near, far:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield near, far


def _each(work: Callable[[], int]) -> float:
    """Seconds in the kernel for each of what ``work`` does so many of."""
    # What is cold the first time is not counted.
    work()
    count, start, until = 0, resource.getrusage(resource.RUSAGE_THREAD), time.monotonic() + PATIENCE
    while True:
        count += work()
        now = resource.getrusage(resource.RUSAGE_THREAD)
        system = now.ru_stime - start.ru_stime
        if system + now.ru_utime - start.ru_utime >= ENOUGH or time.monotonic() > until:
            return system / count
