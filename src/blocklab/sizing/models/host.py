"""The reports of what watched a host (iostat, sar, sadf) as series, one for each device, and its counters
(/proc/diskstats) as snapshots of each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blocklab.formats.clock import Clock, Stamp, readings
from blocklab.formats.found import Found, Table
from blocklab.formats.host import sadf
from blocklab.formats.host.cpu import CPU
from blocklab.formats.host.sar import ALL
from blocklab.formats.json_documents import MOST
from blocklab.formats.text import Refused
from blocklab.model.watched import Values, Watched
from blocklab.sizing.devices import SAR_B, SAR_D
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Columns, Series, Snapshot, Statistics, Trust, joined

IOSTAT, DISKSTATS = "iostat", "diskstats"
# The metrics of a device, and of all disks together, by the names that intervals have for them.
_FIELDS = {
    "read.iops": "reads", "write.iops": "writes", "read.bandwidth": "read_bytes", "write.bandwidth": "write_bytes",
    "iops": "requests", "bandwidth": "total_bytes", "flush.iops": "flushes", "read.await": "read_latency",
    "write.await": "write_latency", "queue": "in_flight", "disk.read.iops": "reads", "disk.write.iops": "writes",
    "disk.read.bandwidth": "read_bytes", "disk.write.bandwidth": "write_bytes",
}  # fmt: skip
# A step that is so much longer than the others is a pause between two runs of iostat.
_PAUSE = 1.5
# The end of one interval and the start of the next are rounded to seconds, and so is the length.
_ROUNDING = 1.5


def iostat(found: Found, reading: Reading) -> Statistics:
    """The reports of iostat, text or JSON. Raises ``Refused``, and ``StudyError`` for dates that may mean several
    days."""
    remarks: list[str] = []
    series = []
    for table in _of_disks(found):
        times = _times(found, table, reading, remarks)
        if table.untimed:
            remarks.append(
                "how long its intervals are is not known: its rates count, its duration does not; use iostat -t"
            )
        starts, seconds = spans(times, remarks)
        for watched in _disks(table):
            at = watched.times.astype(np.intp)
            intervals = intervals_of(watched, starts[at], seconds[at], remarks)
            if len(intervals):
                series.append(
                    Series(
                        system=table.host, host=table.host, device=watched.layer, source=IOSTAT,
                        trust=Trust.DEVICE, files=(found.path,), intervals=intervals, untimed=table.untimed,
                        since_start=table.since_boot,
                    )
                )  # fmt: skip
    if not series:
        raise Refused("its reports have no times that can be read; print it again with iostat -t -x 10")
    return Statistics(series=tuple(series), remarks=tuple(dict.fromkeys(remarks)))


def sar(found: Found, reading: Reading) -> Statistics:
    """The reports of sar, each of which goes on from the one before it. Raises ``Refused`` and ``StudyError``."""
    remarks: list[str] = []
    tables = _of_disks(found)
    order = _order(tables, reading)
    series: dict[tuple[str, str], list[Columns]] = {}
    lost = 0
    for table in tables:
        times = _times(found, table, reading, remarks, order)
        starts = np.array([np.nan if place is None else times[place] for place in table.before], dtype=float)
        seconds = np.where(times > starts, times - starts, np.nan)
        for watched in _disks(table):
            at = watched.times.astype(np.intp)
            lost += int(np.isnan(seconds[at]).sum())
            intervals = _with_latencies(watched, starts[at], seconds[at], table.discards, remarks)
            series.setdefault((table.host, watched.layer), []).append(intervals)
    if lost:
        remarks.append(f"{lost} rows left out: they are not later than the ones before them")
    return _of_sar(found, series, remarks)


def sar_files(found: Found, reading: Reading) -> Statistics:
    """The reports of sadf, each of which tells how long its interval is. Raises ``Refused`` and ``StudyError``."""
    remarks: list[str] = []
    series: dict[tuple[str, str], list[Columns]] = {}
    for table in _of_disks(found):
        ends = _times(found, table, reading, remarks)
        if lost := int(np.isnan(ends).sum()):
            remarks.append(f"{lost} of its times are of no day that exists: what stands there is left out")
        lengths = np.array(table.seconds)
        for watched in _disks(table):
            at = watched.times.astype(np.intp)
            starts = _starts(ends[at], lengths[at])
            intervals = _with_latencies(watched, starts, ends[at] - starts, table.discards, remarks)
            series.setdefault((table.host, watched.layer), []).append(intervals)
    return _of_sar(found, series, remarks)


def diskstats(found: Found, reading: Reading) -> Statistics:
    """The counters of each device at each dump. Raises ``StudyError`` for dates that may mean several days."""
    times: list[float | None] = []
    said: list[str] = []
    if found.clock is not None:
        times, said = reading.times(found.clock, found.path)
    snapshots = tuple(
        Snapshot(
            system="", device=dump.device, source=DISKSTATS, file=found.path, counters=dump.counters,
            trust=Trust.DEVICE, time=times[dump.time] if dump.time is not None else None, uptime=dump.uptime,
            line=dump.line,
        )
        for dump in found.dumps
    )  # fmt: skip
    return Statistics(snapshots=snapshots, remarks=tuple(dict.fromkeys(said)))


def _of_disks(found: Found) -> list[Table]:
    """The tables that have anything of disks. Raises ``Refused`` for none."""
    tables = [table for table in found.tables if _disks(table)]
    if tables:
        return tables
    if found.kind == "sar":
        options = "-d -b"
        raise Refused(f"sar, but none of {options}; print it again: sar {options} -f FILE")
    if found.kind.startswith("sadf"):
        raise Refused(f"sadf, but without a whole report of disks; {sadf.AGAIN}")
    raise Refused("iostat -c has no disks; take iostat -t -x 10")


def _disks(table: Table) -> list[Watched]:
    return [watched for watched in table.watched if watched.layer != CPU]


def _times(found: Found, table: Table, reading: Reading, remarks: list[str], order: str = "") -> Values:
    """The ends of a table's reports, NaN for those that are not known."""
    assert table.clock is not None
    times, said = reading.times(table.clock, found.path, order)
    remarks += said
    return np.array([np.nan if at is None else at for at in times], dtype=float)


def _order(tables: Sequence[Table], reading: Reading) -> str:
    """The order of day and month in which the dates of several outputs follow each other, where there is just one;
    else empty."""
    known = [table.clock.day for table in tables if table.clock is not None and table.clock.day is not None]
    days = tuple(Stamp(day, 0.0, day[0] > 31) for day in known)
    if reading.order or len(set(days)) < 2:
        return ""
    possible = readings(Clock(days), "", 1970)
    return next(iter(possible)) if len(possible) == 1 else ""


def intervals_of(watched: Watched, starts: Values, seconds: Values, remarks: list[str]) -> Columns:
    """The reports of a device as intervals, which start at ``starts`` and last ``seconds``; those without either
    do not count."""
    values = {}
    for metric, field in _FIELDS.items():
        if metric not in watched.values:
            continue
        column = watched.values[metric]
        strange = (column < 0) | (column >= MOST) | np.isinf(column)
        if strange.any():
            remarks.append(
                f"{int(strange.sum())} values of {watched.layer} that cannot be ({metric} "
                f"{column[strange][0]:g}): left out"
            )
            column = np.where(strange, np.nan, column)
        values[field] = column
    return Columns(starts, seconds, values).at(~np.isnan(starts) & ~np.isnan(seconds))


def _with_latencies(
    watched: Watched, starts: Values, seconds: Values, discards: bool, remarks: list[str]
) -> Columns:
    """The same of sar, whose one wait for all requests is of those of which there were any."""
    found = intervals_of(watched, starts, seconds, remarks)
    if discards or "await" not in watched.values:
        return found
    wait = watched.values["await"][~np.isnan(starts) & ~np.isnan(seconds)]
    read, written = found.told("read_bytes"), found.told("write_bytes")
    latencies = {
        "read_latency": np.where((read > 0) & (written == 0), wait, np.nan),
        "write_latency": np.where((written > 0) & (read == 0), wait, np.nan),
    }
    return Columns(found.starts, found.seconds, {**found.values, **latencies})


def _of_sar(found: Found, series: Mapping[tuple[str, str], Sequence[Columns]], remarks: list[str]) -> Statistics:
    """The series of each host and layer. Raises ``Refused`` where nothing is left."""
    made = []
    for (host, layer), several in series.items():
        intervals = _each_once(joined(several), layer, remarks)
        device = "" if layer == ALL else layer
        if len(intervals):
            made.append(
                Series(
                    system=host, host=host, device=device, source=SAR_D if device else SAR_B, trust=Trust.DEVICE,
                    files=(found.path,), intervals=intervals,
                )
            )  # fmt: skip
    if not made:
        raise Refused("no interval: its times do not go on, or it has one report only")
    if any(table.discards for table in found.tables):
        remarks.append("its requests (tps) count discards (TRIM) too: sar -d does not tell those apart")
    return Statistics(series=tuple(made), remarks=tuple(dict.fromkeys(remarks)))


def _each_once(intervals: Columns, layer: str, remarks: list[str]) -> Columns:
    """Those of a time that was there before are left out."""
    _, first = np.unique(intervals.ends, return_index=True)
    if left := len(intervals) - len(first):
        name = SAR_B if layer == ALL else layer
        remarks.append(f"{name}: {left} reports of a time that was there before: left out")
        intervals = intervals.at(np.sort(first))
    return intervals


def _starts(ends: Values, seconds: Values) -> Values:
    """Where each interval starts: where the one before it ends, but for rounding."""
    starts = ends - seconds
    before = np.concatenate([[np.nan], ends[:-1]])
    return np.where((np.abs(before - starts) <= _ROUNDING) & (before < ends), before, starts)


def spans(every: Values, remarks: list[str]) -> tuple[Values, Values]:
    """Start and length (s) of what each report covers: the time before its stamp, back to the report before it.
    NaN for reports that do not count.

    The first report is as long as the step after it. A pause is not covered by the report that follows it.
    """
    starts, seconds = np.full(len(every), np.nan), np.full(len(every), np.nan)
    places = np.flatnonzero(~np.isnan(every))
    known = every[places]
    if len(known) < len(every):
        remarks.append(f"{len(every) - len(known)} reports left out: their times cannot be")
    steps = np.diff(known)
    if not (steps > 0).any():
        if len(known) > 1:
            remarks.append("all its reports are of one time: only the first one counts")
        if len(known):
            remarks.append("how long its only report is is not known: put at 1 s")
            starts[places[0]], seconds[places[0]] = known[0] - 1.0, 1.0
        return starts, seconds
    usual = float(np.median(steps[steps > 0]))
    # What goes back does not count, nor does what follows it until the time goes on.
    latest = np.concatenate([[-np.inf], np.maximum.accumulate(known)[:-1]])
    on = known > latest
    if back := int((~on).sum()):
        remarks.append(f"{back} reports left out: they are not later than the ones before them")
    step = known - latest
    step[0] = steps[0] if steps[0] > 0 else usual
    length = np.where((step > 0) & (step <= _PAUSE * usual), step, usual)
    on &= known - length >= latest - 1e-6
    starts[places[on]] = (known - length)[on]
    seconds[places[on]] = length[on]
    return starts, seconds
