"""The block devices, from /proc/diskstats. https://docs.kernel.org/admin-guide/iostats.html"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from blocklab.formats.host.proc import DISKSTATS, SECTOR, Field, disks
from blocklab.model.metrics import each_of
from blocklab.model.sample import Sample
from blocklab.probes.points import points

# Where the requests, sectors and milliseconds of a direction are.
_WAYS = {
    "read": (Field.READS, Field.READ_SECTORS, Field.READ_TIME),
    "write": (Field.WRITES, Field.WRITE_SECTORS, Field.WRITE_TIME),
}


class Disks:
    """Block devices, from ``/proc/diskstats``: see
    [the kernel's documentation](https://docs.kernel.org/admin-guide/iostats.html).

    The layer is the device's name. A device that has done no I/O since the node's boot is left out.

    | metric | unit | meaning |
    | --- | --- | --- |
    | ``read.iops``, ``write.iops``, ``flush.iops`` | 1/s | Requests. |
    | ``read.bandwidth``, ``write.bandwidth`` | B/s | |
    | ``read.await``, ``write.await``, ``flush.await`` | s | Mean time of a request, queue included. |
    | ``queue`` | 1 | Mean number of requests under way. |
    | ``util`` | % | Share of the time in which any was under way. |

    They are what sysstat's ``iostat -x`` shows. The waits have no point for a second without a request.
    """

    name: ClassVar[str] = "disks"
    path: ClassVar[str] = DISKSTATS
    device: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (
        *each_of(_WAYS, ("iops", "bandwidth", "await")), "flush.iops", "flush.await", "queue", "util",
    )  # fmt: skip

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """Rates and means of each interval in which the device was there at both ends, none where a counter went
        back. Raises ``ParseError``."""
        times = [(point.t, disks(point.text)) for point in points(text, self.path)]
        samples = []
        for (start, before), (end, after) in pairwise(times):
            for disk in sorted(before.keys() & after.keys()):
                change = [new - old for old, new in zip(before[disk], after[disk], strict=True)]
                # What is in flight is the one number that may fall.
                change[Field.IN_FLIGHT] = 0
                if end > start and min(change) >= 0 and any(after[disk]):
                    samples += [
                        Sample(metric, value, unit, disk, host, time=end)
                        for metric, value, unit in _values(change, end - start)
                    ]
        return tuple(samples)


def _values(change: Sequence[int], seconds: float) -> Iterator[tuple[str, float, str]]:
    for way, (ios, sectors, milliseconds) in _WAYS.items():
        yield f"{way}.iops", change[ios] / seconds, "1/s"
        yield f"{way}.bandwidth", change[sectors] * SECTOR / seconds, "B/s"
        if change[ios]:
            yield f"{way}.await", change[milliseconds] / change[ios] / 1000, "s"
    yield "queue", change[Field.WEIGHTED_TIME] / seconds / 1000, "1"
    # The kernel counts in ticks of its clock, so a second may hold a little more.
    yield "util", min(100.0, change[Field.BUSY_TIME] / seconds / 10), "%"
    if len(change) > Field.FLUSH_TIME:
        yield "flush.iops", change[Field.FLUSHES] / seconds, "1/s"
        if change[Field.FLUSHES]:
            yield "flush.await", change[Field.FLUSH_TIME] / change[Field.FLUSHES] / 1000, "s"
