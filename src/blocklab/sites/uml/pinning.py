"""Which CPUs nodes run on: measured once on each machine, since what it costs to wake another CPU decides.

A node of its own CPU takes nothing from the others, but each packet between two nodes then wakes an idle CPU. That
takes 30 us on some virtual machines and 350 us on others; there everything on one CPU is faster and truer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from blocklab.model.cache import cache_folder
from blocklab.model.files import write_whole

Choice = Literal["cores", "siblings", "one"]
# Seconds of ping-pong for each way.
SECONDS = 0.3
# Round trips that are measured at least, on a machine that is too busy for more.
LEAST = 20
# A round trip between two processes (s) that takes longer is worse than a CPU that is shared: the peer's part of a
# mirror's write takes 60 to 150 us of CPU.
MOST = 300e-6
_MESSAGE = b"ping"
_END = b"end"


@dataclass(frozen=True)
class Pinning:
    """``choice``: nodes on CPUs of different ``cores``, on ``siblings`` (two threads of one core), or all on
    ``one``. ``trips``: the median round trip (s) between two processes on each of these that there is."""

    choice: Choice
    trips: dict[str, float]


def pinning() -> Pinning:
    """How nodes are pinned on this machine: as measured before, else measured now, in about a second."""
    return _pinning(tuple(sorted(os.sched_getaffinity(0))))


@functools.cache
def _pinning(cpus: tuple[int, ...]) -> Pinning:
    if len(cpus) == 1:
        return Pinning("one", {})
    file = cache_folder() / "pinning" / f"{_key(cpus)}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Pinning(**json.loads(file.read_bytes()))
    trips = measured(cpus)
    found = Pinning(chosen(trips), trips)
    # Without a cache it is measured again the next time.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(found)).encode())
    return found


def cpus_of(choice: Choice, cpus: Sequence[int]) -> list[int]:
    """The CPUs for nodes in their order: the first one's own, then those that the others take in turn."""
    first, *rest = sorted(cpus)
    beside = [cpu for cpu in rest if cpu in siblings(first)]
    if choice == "one" or not rest:
        return [first]
    if choice == "siblings":
        return [first, *beside]
    return [first, *([cpu for cpu in rest if cpu not in beside] or rest)]


def chosen(trips: dict[str, float]) -> Choice:
    """The first of cores and siblings whose round trip is short enough; else one CPU."""
    for choice in ("cores", "siblings"):
        if trips.get(choice, MOST) < MOST:
            return choice
    return "one"


def measured(cpus: Sequence[int]) -> dict[str, float]:
    """The median round trip (s) on one CPU, between cores, and between siblings, as far as there are such."""
    first, *rest = sorted(cpus)
    beside = siblings(first)
    others = {"one": [first], "cores": [cpu for cpu in rest if cpu not in beside]}
    others["siblings"] = [cpu for cpu in rest if cpu in beside]
    return {name: round_trip(first, there[0]) for name, there in others.items() if there}


def siblings(cpu: int, folder: Path = Path("/sys/devices/system/cpu")) -> frozenset[int]:
    """The threads of the core that a CPU is of, itself too."""
    try:
        # "0,2" or "0-1"
        text = (folder / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except (OSError, ValueError):
        return frozenset({cpu})
    return frozenset(each for low, *high in ends for each in range(low, (high or [low])[0] + 1))


def round_trip(here: int, there: int, seconds: float = SECONDS) -> float:
    """The median time (s) that a message takes from a process on one CPU to another one and back, as packets go
    between two nodes. Returns to the CPUs that this process may use."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    allowed = os.sched_getaffinity(0)
    child = os.fork()
    if child == 0:
        _echo(ours, theirs, there)
    times: list[float] = []
    with ours, theirs:
        try:
            os.sched_setaffinity(0, {here})
            end = time.monotonic() + seconds
            # The first one waits for the child's start.
            while len(times) <= LEAST or time.monotonic() < end:
                began = time.monotonic()
                ours.send(_MESSAGE)
                ours.recv(len(_MESSAGE))
                times.append(time.monotonic() - began)
        finally:
            os.sched_setaffinity(0, allowed)
            ours.send(_END)
            os.waitpid(child, 0)
    return statistics.median(times[1:])


def _echo(ours: socket.socket, theirs: socket.socket, cpu: int) -> None:
    """In the child: send back what comes, until the end. Never returns."""
    try:
        ours.close()
        os.sched_setaffinity(0, {cpu})
        while (message := theirs.recv(len(_MESSAGE))) not in (b"", _END):
            theirs.send(message)
    finally:
        os._exit(0)


def _key(cpus: Sequence[int]) -> str:
    model = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    # Its speed differs from one look to the next.
    lines = [line for line in model.splitlines() if not line.startswith(("cpu MHz", "bogomips"))]
    said = f"{platform.node()} {platform.release()} {list(cpus)} {lines}"
    return hashlib.sha256(said.encode()).hexdigest()[:12]
