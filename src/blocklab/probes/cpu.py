"""The CPU's time, from /proc/stat. https://man7.org/linux/man-pages/man5/proc_stat.5.html"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from blocklab.formats.host.proc import STAT, ticks
from blocklab.model.sample import OWN, Sample
from blocklab.probes.points import points

# Guests' time is in user and nice already.
_PARTS = {"user": (0, 1), "system": (2, 5), "idle": (3,), "iowait": (4,), "softirq": (6,), "steal": (7,)}


class Cpu:
    """The node's one CPU, from ``/proc/stat``: see
    [proc_stat(5)](https://man7.org/linux/man-pages/man5/proc_stat.5.html).

    The parts add up to 100.

    | metric | unit | meaning |
    | --- | --- | --- |
    | ``cpu.user`` | % | Programs, nice ones too. |
    | ``cpu.system`` | % | The kernel, hard interrupts too. |
    | ``cpu.softirq`` | % | Soft interrupts: network and block completion. |
    | ``cpu.iowait`` | % | Idle while I/O was under way. |
    | ``cpu.steal`` | % | Taken by the machine that the node runs on, as far as the node's kernel sees it. |
    | ``cpu.idle`` | % | |

    The report adds ``cpu.busy``: all but idle and iowait.
    """

    name: ClassVar[str] = "cpu"
    path: ClassVar[str] = STAT
    device: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = (*(f"cpu.{part}" for part in _PARTS), "cpu.busy", OWN)

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """Shares of each interval; none where a counter went back (iowait may). Raises ``ParseError``."""
        times = [(point.t, ticks(point.text)) for point in points(text, self.path)]
        samples = []
        for (_, before), (time, after) in pairwise(times):
            spent = [new - old for old, new in zip(before, after, strict=True)]
            total = sum(spent)
            if min(spent) < 0 or not total:
                continue
            for name, fields in _PARTS.items():
                share = 100 * sum(spent[field] for field in fields) / total
                samples.append(Sample(f"cpu.{name}", share, "%", "cpu", host, time=time))
        return tuple(samples)
