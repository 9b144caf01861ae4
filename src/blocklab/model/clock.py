"""What time it is for a lab's hosts, and a host's clock as far as one exchange tells."""

from __future__ import annotations

import time
from typing import Protocol

from blocklab.model.host import Host, must
from blocklab.model.stack_map import Clock

# The shortest of so many round trips tells most (Cristian, Probabilistic clock synchronization, 1989).
EXCHANGES = 20


class Timer(Protocol):
    """The time that a lab's hosts live in: the machine's own, or one that is only computed."""

    def now(self) -> float:
        """Seconds since some moment; nobody sets it."""

    def today(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass. Raises ``HostError`` where it cannot."""


class MachineTimer:
    """This machine's own time."""

    def now(self) -> float:
        """By the clock that nobody sets."""
        return time.monotonic()

    def today(self) -> float:
        """By the machine's clock."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


MACHINE = MachineTimer()


class Stretch:
    """Something that lasts, since now."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._began, self._cpu = timer.now(), time.process_time()

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self._timer.now() - self._began

    @property
    def own(self) -> float | None:
        """CPU seconds that this process took meanwhile; None in a time that they have no part in."""
        return time.process_time() - self._cpu if self._timer is MACHINE else None


def clock(host: Host, timer: Timer = MACHINE) -> Clock:
    """The host's clock less ours. Raises ``HostError``, ``ValueError``."""
    # In this order: a pause between the two is part of the error.
    asked, before = timer.now(), timer.today()
    there = float(must(host, ("date", "+%s.%N")))
    took = timer.now() - asked
    return Clock(there - (before + took / 2), took / 2)
