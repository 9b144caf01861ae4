"""The network interfaces, from /proc/net/dev."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from blocklab.formats.host.proc import NICS, interfaces
from blocklab.model.sample import Sample
from blocklab.probes.points import points, rate

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
    path: ClassVar[str] = NICS
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
