"""A host's clock, as far as one exchange tells."""

from __future__ import annotations

import time

from blocklab.model.host import Host, must
from blocklab.model.stack_map import Clock

# The shortest of so many round trips tells most (Cristian, Probabilistic clock synchronization, 1989).
EXCHANGES = 20


def clock(host: Host) -> Clock:
    """The host's clock less ours. Raises ``HostError``, ``ValueError``."""
    before, asked = time.time(), time.monotonic()
    there = float(must(host, ("date", "+%s.%N")))
    took = time.monotonic() - asked
    return Clock(there - (before + took / 2), took / 2)
