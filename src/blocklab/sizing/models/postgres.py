"""PostgreSQL's statistics views become snapshots of counters, one for each moment.

What reaches the device is estimated, since PostgreSQL goes through the kernel's page cache:

- *Relation data*: ``writes`` and ``extends`` of ``pg_stat_io``, block by block (16, 17: the counts are blocks of
  ``op_bytes``; 18: requests, with their bytes beside them). A block that is added to a file is written twice,
  empty (``extends``) and with its content (``writes``).
- *WAL* (14 to 17): a write begins in the page where the last one ended and writes whole pages, so ``wal_write``
  writes of ``wal_bytes`` in all are ``wal_bytes + 8192 x wal_write`` bytes: a run of b bytes from any place in a
  page touches 1 + b / 8192 pages. Those because of full buffers (``wal_buffers_full``) end with a page, so none is
  written twice; they are not flushed, and the kernel joins them. 18 tells the bytes itself. The first fill of new
  segments with zeros (16 MiB each, until max_wal_size is reached) is counted by 18 only.
- *Requests*: each block is one, except in runs: bulk and vacuum contexts, ``extends``, full WAL buffers. The
  kernel joins those: read as requests of 64 KiB, written as ones of 256 KiB (``checkpoint_flush_after``, and the
  most that EBS counts as one).

Measured with PostgreSQL 17 on XFS against /proc/diskstats (estimate / kernel; table in the README of the golden
samples): bytes written 1.00 to 1.01 under pgbench and inserts, 0.88 to 0.92 in a first workload, 1.15 in a VACUUM.
Requests written 1.00 to 1.08 under pgbench, but up to 2 in a checkpoint whose dirty pages are dense and far more
where tables only grow, and 0.7 in a VACUUM. Reads are exact where nothing is cached, else too many.
Latencies are those of calls. Temporary files are in none of these counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.formats.clock import Clock, Stamp
from blocklab.formats.database.postgres import DIRECT, View
from blocklab.formats.found import Found
from blocklab.formats.text import Refused
from blocklab.sizing.models.postgres_counters import Counted, counted
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Snapshot, Statistics, Trust

# The views of one moment are asked for one after the other; further apart they are of two.
_TOGETHER = 10.0
_CACHED = (
    "reads are calls into the kernel's page cache: what it has is not read from the device, so this is the most "
    "that the device may have to read; the device's counters (iostat, /proc/diskstats) tell how much it is"
)
_JOINED = (
    "written blocks are counted one by one; the kernel joins neighbours of a checkpoint, so the device may count "
    "fewer write requests, less than half where the dirty pages are neighbours (bytes are within 15 %)"
)


class _Moment:
    """Parts that were printed together. ``start``: the time of the first one, if it is told."""

    def __init__(self, part: View, time: float | None) -> None:
        self.parts = {part.view: part}
        self.time, self.above = time, part.above

    def takes(self, part: View, time: float | None) -> bool:
        near = time is None or self.time is None or abs(time - self.time) <= _TOGETHER
        return near and part.view not in self.parts

    def add(self, part: View, time: float | None) -> None:
        self.parts[part.view] = part
        self.time = time if self.time is None else self.time


def statistics(found: Found, reading: Reading) -> Statistics:
    """Snapshots with the counters of all views at each moment. Raises ``Refused``, and ``StudyError`` for dates
    that may mean several days."""
    every = [each for each in found.dumps if isinstance(each, View)]
    said: list[str] = []
    times = _times(found, every, reading, said)
    direct = "data" in found.settings.get(DIRECT, "")
    resets = _resets(every, reading)
    snapshots = [
        each
        for moment in _moments(every, times)
        if (each := _snapshot(found.path, moment, resets, direct, said)) is not None
    ]
    if not snapshots:
        said = [*found.remarks, *said]
        raise Refused(f"no counters that can be used: {'; '.join(dict.fromkeys(said))}")
    return Statistics(snapshots=tuple(snapshots), remarks=tuple(dict.fromkeys(said)))


def _times(found: Found, every: Sequence[View], reading: Reading, said: list[str]) -> list[float | None]:
    """The time of each view."""
    if found.clock is None:
        said.append(
            "its tables have no time: print it with them (SELECT now(), * FROM ...), or say how far dumps are "
            "apart (--every 60s)"
        )
        return [None] * len(every)
    known, remarks = reading.times(found.clock, found.path)
    times = [known[each.time] if each.time is not None else None for each in every]
    lost = [each.line for each, at in zip(every, times, strict=True) if at is None and each.time is not None]
    said += [*remarks, *(f"line {line}: its time is of no calendar: left out" for line in lost)]
    return times


def _moments(every: Sequence[View], times: Sequence[float | None]) -> Iterator[_Moment]:
    now: _Moment | None = None
    for part, time in zip(every, times, strict=True):
        if now is not None and now.takes(part, time):
            now.add(part, time)
            continue
        if now is not None:
            yield now
            # One line with a time above two dumps is that of the first.
            if not part.own and part.above and part.above == now.above:
                time = None
        now = _Moment(part, time)
    if now is not None:
        yield now


def _resets(every: Sequence[View], reading: Reading) -> Mapping[Stamp, float]:
    """Seconds since the epoch of each ``stats_reset``; those whose order of day and month is not known are left
    out."""
    stamps = tuple(dict.fromkeys(stamp for part in every for stamp in part.resets))
    found: dict[Stamp, float] = {}
    for each in stamps:
        try:
            times, _ = reading.times(Clock((each,)), Path())
        except StudyError:
            continue
        if times[0] is not None:
            found[each] = times[0]
    return found


def _snapshot(
    path: Path, moment: _Moment, resets: Mapping[Stamp, float], direct: bool, said: list[str]
) -> Snapshot | None:
    views = {view: part for view, part in moment.parts.items() if not part.wrong}
    found = counted(views)
    said += found.remarks
    if not found.counters:
        return None
    if "reads" in found.counters and not direct:
        said.append(_CACHED)
    if "writes" in found.counters and found.data:
        said.append(_JOINED)
    trust = Trust.CACHED if "reads" in found.counters and not direct else Trust.SERVER
    since = [resets[stamp] for view in found.views for stamp in views[view].resets if stamp in resets]
    return Snapshot(
        system="", source=f"PostgreSQL {', '.join(found.views)}", file=path, counters=found.counters,
        time=moment.time, trust=trust, product="postgresql",
        line=min(part.line for part in views.values()), uptime=_counting(moment, views, found, since),
        counting_since=max(since, default=None),
    )  # fmt: skip


def _counting(moment: _Moment, views: Mapping[str, View], found: Counted, since: Sequence[float]) -> float | None:
    """Seconds that all the counters cover, where each view says that it was reset at one and the same time. A
    database that was never reset does not say since when it counts."""
    if moment.time is None or not since or max(since) - min(since) > _TOGETHER:
        return None
    told = all(views[view].resets and not views[view].unset for view in found.views)
    return moment.time - max(since) if told and moment.time > max(since) else None
