"""PostgreSQL's statistics views as psql prints them become snapshots of counters, one for each moment.

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

Columns: https://www.postgresql.org/docs/18/monitoring-stats.html and the same page of 14 to 17.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.formats.clock import Clock, Stamp, resolve
from blocklab.formats.text import Refused, Text
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.postgres_counters import Counted, counted
from blocklab.sizing.readers.postgres_views import DIRECT, NO_HEADER, Part, known, parts
from blocklab.sizing.readers.psql import At, Table, tables
from blocklab.sizing.series import Snapshot, Statistics, Trust

# The views of one moment are asked for one after the other; further apart they are of two.
_TOGETHER = 10.0
_WAY = (
    "psql -X --csv -c 'SELECT now(), * FROM pg_stat_io' -c 'SELECT now(), * FROM pg_stat_wal' "
    "-c 'SELECT now(), * FROM pg_stat_database'"
)
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

    def __init__(self, part: Part, time: float | None, line: At | None) -> None:
        self.parts = {part.view: part}
        self.time, self.line = time, line

    def takes(self, part: Part, time: float | None) -> bool:
        near = time is None or self.time is None or abs(time - self.time) <= _TOGETHER
        return near and part.view not in self.parts

    def add(self, part: Part, time: float | None) -> None:
        self.parts[part.view] = part
        self.time = time if self.time is None else self.time


def fits(start: str) -> bool:
    """Whether the head of a file has such a table, or the rows of one without its header."""
    if not any(each in start for each in known()):
        return NO_HEADER.search(start) is not None
    whole, _, cut = start.rpartition("\n")
    text = Text(Path(), tuple(whole.split("\n")), cut)
    try:
        found, _ = tables(text, known())
    except Refused:
        return True
    return any(True for _ in parts(found)) or NO_HEADER.search(start) is not None


def read(text: Text, reading: Reading) -> Statistics:
    """Snapshots with the counters of all views at each moment. Raises ``Refused``, and ``StudyError`` for dates
    that may mean several days."""
    found, bad = tables(text, known())
    every = list(parts(found))
    if not every:
        raise Refused(_why_not(text))
    said = _truncated(every)
    usable = [each for each in every if not each.wrong]
    if not usable:
        raise Refused("; ".join(dict.fromkeys(f"line {each.line}: {each.wrong}" for each in every)))
    times, remarks = _times(text, every, reading)
    said += remarks
    moments = list(_moments(every, times))
    direct = any(_direct(each) for each in found)
    resets = _resets(every, reading)
    snapshots = [each for moment in moments if (each := _snapshot(text, moment, resets, direct, said)) is not None]
    if not snapshots:
        raise Refused(f"no counters that can be used: {'; '.join(dict.fromkeys(said))}")
    return Statistics(
        snapshots=tuple(snapshots), bad=tuple(bad), lost=len(bad), remarks=(*text.remarks, *dict.fromkeys(said))
    )


def _why_not(text: Text) -> str:
    if NO_HEADER.search(text.text):
        return f"rows without the names of their columns: print them without -t (\\t): {_WAY}"
    return f"no table of pg_stat_io, pg_stat_wal, pg_stat_bgwriter or pg_stat_database with its header: {_WAY}"


def _truncated(every: list[Part]) -> list[str]:
    """Marks the tables that end too early, and says which are left out."""
    footers = any(each.table.counted for each in every)
    rows = {(each.view, each.keys): len(each.rows) for each in every if each.keys}
    for number, each in enumerate(every):
        if each.wrong:
            continue
        more = [keys for view, keys in rows if view == "pg_stat_io" == each.view and each.keys < keys]
        alone = len(every) == 1 and each.view in ("pg_stat_io", "pg_stat_database")
        if each.table.counted is False and (footers or alone):
            why = "it has no '(N rows)' at its end: cut? (or print it with \\pset footer on)"
        elif more and each.keys:
            why = f"it has {len(each.rows)} rows, another one here has {len(more[0])}: cut?"
        else:
            continue
        every[number] = msgspec.structs.replace(each, wrong=why, line=each.table.line)
    return [f"line {each.line}: {each.view} left out: {each.wrong}" for each in every if each.wrong]


def _times(text: Text, every: Sequence[Part], reading: Reading) -> tuple[dict[int, float | None], list[str]]:
    """The time of each part by its place in ``every``: its own column's, else that of the line before it."""
    stamps: list[tuple[int, Stamp]] = []
    for number, part in enumerate(every):
        stamp = (
            part.stamp if part.stamp is not None else part.table.at.stamp if part.table.at is not None else None
        )
        if stamp is not None:
            stamps.append((number, stamp))
    if not stamps:
        return {}, [
            "its tables have no time: print it with them (SELECT now(), * FROM ...), or say how far dumps are "
            "apart (--every 60s)"
        ]
    clock = Clock(tuple(stamp for _, stamp in stamps))
    found, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    lost = [every[number].line for (number, _), time in zip(stamps, found, strict=True) if time is None]
    said += [f"line {line}: its time is of no calendar: left out" for line in lost]
    return {number: time for (number, _), time in zip(stamps, found, strict=True)}, said


def _moments(every: Sequence[Part], times: Mapping[int, float | None]) -> Iterator[_Moment]:
    now: _Moment | None = None
    for number, part in enumerate(every):
        time = times.get(number)
        own = part.stamp is not None
        if now is not None and now.takes(part, time):
            now.add(part, time)
            continue
        if now is not None:
            yield now
            # One line with a time above two dumps is that of the first.
            if not own and part.table.at is not None and part.table.at == now.line:
                time = None
        now = _Moment(part, time, part.table.at)
    if now is not None:
        yield now


def _direct(table: Table) -> bool:
    """Whether ``SHOW debug_io_direct`` says that relation data goes past the page cache."""
    return DIRECT in table.columns and any("data" in row.cells[table.columns.index(DIRECT)] for row in table.rows)


def _resets(every: Sequence[Part], reading: Reading) -> Mapping[Stamp, float]:
    """Seconds since the epoch of each ``stats_reset``; those whose order of day and month is not known are left
    out."""
    stamps = tuple(dict.fromkeys(stamp for part in every for stamp in part.resets))
    found: dict[Stamp, float] = {}
    for each in stamps:
        try:
            times, _ = resolve(Clock((each,)), "", zone=reading.zone, order=reading.order, anchors=())
        except StudyError:
            continue
        if times[0] is not None:
            found[each] = times[0]
    return found


def _snapshot(
    text: Text, moment: _Moment, resets: Mapping[Stamp, float], direct: bool, said: list[str]
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
        system="", source=f"PostgreSQL {', '.join(found.views)}", file=text.path, counters=found.counters,
        time=moment.time, trust=trust, product="postgresql",
        line=min(part.line for part in views.values()), uptime=_counting(moment, views, found, since),
        counting_since=max(since, default=None),
    )  # fmt: skip


def _counting(moment: _Moment, views: Mapping[str, Part], found: Counted, since: Sequence[float]) -> float | None:
    """Seconds that all the counters cover, where each view says that it was reset at one and the same time. A
    database that was never reset does not say since when it counts."""
    if moment.time is None or not since or max(since) - min(since) > _TOGETHER:
        return None
    told = all(views[view].resets and not views[view].unset for view in found.views)
    return moment.time - max(since) if told and moment.time > max(since) else None


KINDS: Mapping[str, Kind] = {
    "postgres-stats": Kind(
        "PostgreSQL's pg_stat_io, pg_stat_wal, pg_stat_bgwriter, pg_stat_database as psql prints them", fits, read
    )
}
