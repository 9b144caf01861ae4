"""The network interfaces, from /proc/net/dev."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import ClassVar

from blocklab.errors import ParseError
from blocklab.model.sample import Sample
from blocklab.probes.points import points, rate

# Inter-|   Receive                                                |  Transmit
#  face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls ...
#     lo: 2076526    3602    0    0    0     0          0         0  2076526    3602    0    0    0     0  0  0
_INTERFACE = re.compile(r"^ *([^\s:]+): *(\d+(?: +\d+){15}) *$")

_COUNTERS = {
    "rx.bandwidth": (0, "B/s"), "rx.packets": (1, "1/s"), "rx.drops": (3, "1/s"),
    "tx.bandwidth": (8, "B/s"), "tx.packets": (9, "1/s"), "tx.drops": (11, "1/s"),
}  # fmt: skip


class Net:
    """Network interfaces, from ``/proc/net/dev``.

    The layer is the interface's name.

    | metric | unit | meaning |
    | --- | --- | --- |
    | ``rx.bandwidth``, ``tx.bandwidth`` | B/s | Received and sent. |
    | ``rx.packets``, ``tx.packets`` | 1/s | |
    | ``rx.drops``, ``tx.drops`` | 1/s | |
    """

    name: ClassVar[str] = "net"
    path: ClassVar[str] = "/proc/net/dev"
    device: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = tuple(_COUNTERS)

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """Rates of each interval in which the interface was there at both ends. Raises ``ParseError``."""
        times = [(point.t, interfaces(point.text)) for point in points(text, self.path)]
        samples = []
        for (start, before), (end, after) in pairwise(times):
            for nic in before.keys() & after.keys():
                for metric, (field, unit) in _COUNTERS.items():
                    value = rate(before[nic][field], after[nic][field], end - start)
                    if value is not None:
                        samples.append(Sample(metric, value, unit, nic, host, time=end))
        return tuple(sorted(samples, key=lambda each: (each.time or 0.0, each.layer, each.metric)))


def interfaces(text: str | None) -> dict[str, list[int]]:
    """The 16 numbers of each interface in /proc/net/dev's text. Raises ``ParseError``."""
    lines = (text or "").splitlines()
    if len(lines) < 3 or not lines[0].startswith("Inter-|"):
        raise ParseError("/proc/net/dev", "not a table of interfaces", text or "")
    found = {}
    for line in lines[2:]:
        match = _INTERFACE.match(line)
        if match is None:
            raise ParseError("/proc/net/dev", "a line is not an interface with 16 numbers", line)
        found[match[1]] = [int(field) for field in match[2].split()]
    return found
