"""The block devices, from /proc/diskstats. https://docs.kernel.org/admin-guide/iostats.html"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from blocklab.errors import ParseError
from blocklab.model.metrics import each_of
from blocklab.model.sample import Sample
from blocklab.probes.points import points

#   98      16 ubdb 101 0 629 3 1899 0 398990 2682 0 320 2685 0 0 0 0 6 0
# major minor name, reads merged sectors ms, writes merged sectors ms, in flight, ms, weighted ms,
# since Linux 4.18 discards merged sectors ms, since 5.5 flushes ms
_DISK = re.compile(r"^ *\d+ +\d+ (?P<name>\S+) (?P<fields>\d+(?: \d+){10,})$")
SECTOR = 512
_WITH_FLUSHES = 17

# Where the requests, sectors and milliseconds of a direction are.
_WAYS = {"read": (0, 2, 3), "write": (4, 6, 7)}
_IN_FLIGHT, _BUSY, _WEIGHTED, _FLUSHES, _FLUSH_TIME = 8, 9, 10, 15, 16


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
    path: ClassVar[str] = "/proc/diskstats"
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
                change[_IN_FLIGHT] = 0
                if end > start and min(change) >= 0 and any(after[disk]):
                    samples += [
                        Sample(metric, value, unit, disk, host, time=end)
                        for metric, value, unit in _values(change, end - start)
                    ]
        return tuple(samples)


def disks(text: str | None) -> dict[str, list[int]]:
    """The numbers of each device in /proc/diskstats's text, at least 11. Raises ``ParseError``."""
    found = {}
    for line in (text or "").splitlines():
        match = _DISK.match(line)
        if match is None:
            raise ParseError(Disks.path, "a line is not a device with at least 11 numbers", line)
        found[match["name"]] = [int(field) for field in match["fields"].split()]
    if not found:
        raise ParseError(Disks.path, "not one device in it", text or "", hint="is /proc mounted on the node?")
    return found


def _values(change: Sequence[int], seconds: float) -> Iterator[tuple[str, float, str]]:
    for way, (ios, sectors, milliseconds) in _WAYS.items():
        yield f"{way}.iops", change[ios] / seconds, "1/s"
        yield f"{way}.bandwidth", change[sectors] * SECTOR / seconds, "B/s"
        if change[ios]:
            yield f"{way}.await", change[milliseconds] / change[ios] / 1000, "s"
    yield "queue", change[_WEIGHTED] / seconds / 1000, "1"
    # The kernel counts in ticks of its clock, so a second may hold a little more.
    yield "util", min(100.0, change[_BUSY] / seconds / 10), "%"
    if len(change) >= _WITH_FLUSHES:
        yield "flush.iops", change[_FLUSHES] / seconds, "1/s"
        if change[_FLUSHES]:
            yield "flush.await", change[_FLUSH_TIME] / change[_FLUSHES] / 1000, "s"
