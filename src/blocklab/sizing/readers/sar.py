"""``sar -d`` and ``sar -b`` as series: text of sysstat 9 to 12, of several days, and across restarts.

https://man7.org/linux/man-pages/man1/sar.1.html. ``sar -d`` tells reads and writes apart in bytes only;
``sar -b`` in requests too, for all disks of the host together (not for md or dm, nor for partitions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from blocklab.formats.clock import Clock, Stamp, readings, resolve
from blocklab.formats.text import Bad, Refused, Text
from blocklab.imports.iostat_columns import put_right
from blocklab.imports.sar import ALL, BANNER, DEVICES, DISKS, Rows
from blocklab.imports.watched import twice
from blocklab.model.watched import Values, Watched
from blocklab.sizing.devices import SAR_B, SAR_D
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.iostat import intervals_of
from blocklab.sizing.series import Columns, Found, Series, Trust, joined

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "d": {
        "iops": "requests", "read.bandwidth": "read_bytes", "write.bandwidth": "write_bytes", "queue": "in_flight",
    },
    "b": {
        "disk.read.iops": "reads", "disk.write.iops": "writes", "disk.read.bandwidth": "read_bytes",
        "disk.write.bandwidth": "write_bytes",
    },
}  # fmt: skip
MOST_BAD = 8
# 02:57:25        CPU     %user     %nice   %system ...   (sar without -d or -b)
_OTHER = re.compile(r"^[ \t]*\d{1,2}\D{1,2}\d\d?\D.{0,24}[ \t](?:CPU\s+%usr?|proc/s\s+cswch/s|pgpgin/s\s)", re.M)


def fits_d(head: str) -> bool:
    """Whether this is text of ``sar -d``, perhaps with ``-b`` too, or of ``sar`` without either."""
    if DEVICES.search(head):
        return True
    return (
        BANNER.match(head.partition("\n")[0]) is not None
        and _OTHER.search(head) is not None
        and not DISKS.search(head)
    )


def fits_b(head: str) -> bool:
    """Whether this is text of ``sar -b`` without ``-d``."""
    return DISKS.search(head) is not None and not DEVICES.search(head)


def read(text: Text, reading: Reading) -> Found:
    """The series of each device (``-d``), and that of the host (``-b``).

    Raises ``Refused`` for a text without a good row, ``StudyError`` for dates that may mean several days.
    """
    got = Rows(text)
    got.check("db")
    remarks = [*text.remarks, *got.remarks()]
    order = _order(got, reading)
    series: dict[tuple[str, str], list[Columns]] = {}
    lost = 0
    for (block, kind), table in got.tables.items():
        if kind == "u":
            continue
        clock = Clock(tuple(table.stamps), got.days[block - 1])
        times, said = resolve(clock, str(text.path), zone=reading.zone, order=order, anchors=())
        remarks += said
        ends = array(times)
        starts = array([None if before is None else times[before] for before in table.before])
        going = np.where(ends > starts, ends - starts, np.nan)
        watched, said = put_right(table.collector.watched(), table.meaning.sizes)
        remarks += [*said, *twice(table.collector)]
        for each in watched:
            at = each.times.astype(int)
            lost += int(np.isnan(going[at]).sum())
            found = columns_of(each, kind, starts[at], going[at], table.meaning.discards, remarks)
            series.setdefault((got.hosts[block - 1], each.layer), []).append(found)
    if lost:
        remarks.append(f"{lost} rows left out: they are not later than the ones before them")
    return whole(
        series, text, remarks, got.bad, discards=any(each.meaning.discards for each in got.tables.values())
    )


def _order(got: Rows, reading: Reading) -> str:
    """The order of day and month in which the dates of all banners follow each other, where there is just one."""
    days = tuple(Stamp(day, 0.0, day[0] > 31) for day in got.days if day is not None)
    if reading.order or len(set(days)) < 2:
        return reading.order
    possible = readings(Clock(days), "", 1970)
    return next(iter(possible)) if len(possible) == 1 else ""


def columns_of(
    watched: Watched, kind: str, starts: Values, seconds: Values, discards: bool, remarks: list[str]
) -> Columns:
    """The rows of a device (``d``) or of the host (``b``) as intervals; ``seconds`` are NaN for those that do not
    count."""
    places = msgspec.structs.replace(watched, times=np.arange(len(starts), dtype=float))
    starts = np.where(np.isnan(seconds), np.nan, starts)
    found = intervals_of(places, starts, seconds, _FIELDS[kind], remarks)
    if kind == "d" and not discards and "await" in watched.values:
        # One wait for all requests: it is of those of which there were any.
        wait = watched.values["await"][~np.isnan(starts)]
        read, written = found.told("read_bytes"), found.told("write_bytes")
        latencies = {
            "read_latency": np.where((read > 0) & (written == 0), wait, np.nan),
            "write_latency": np.where((written > 0) & (read == 0), wait, np.nan),
        }
        found = Columns(found.starts, found.seconds, {**found.values, **latencies})
    return found


def whole(
    series: Mapping[tuple[str, str], Sequence[Columns]], text: Text, remarks: list[str], bad: Sequence[Bad],
    *, discards: bool,
) -> Found:  # fmt: skip
    """The series of each host and layer. Raises ``Refused`` where nothing is left."""
    made = []
    for (host, layer), several in series.items():
        intervals = _each_once(joined(several), layer, remarks)
        device = "" if layer == ALL else layer
        if len(intervals):
            made.append(
                Series(
                    system=host, host=host, device=device, source=SAR_D if device else SAR_B, trust=Trust.DEVICE,
                    files=(text.path,), intervals=intervals,
                )
            )  # fmt: skip
    if not made:
        raise Refused("no interval: its times do not go on, or it has one report only")
    if discards:
        remarks.append("its requests (tps) count discards (TRIM) too: sar -d does not tell those apart")
    return Found(
        series=tuple(made), bad=tuple(bad[:MOST_BAD]), lost=len(bad), remarks=tuple(dict.fromkeys(remarks))
    )


def _each_once(intervals: Columns, layer: str, remarks: list[str]) -> Columns:
    """Those of a time that was there before are left out."""
    _, first = np.unique(intervals.ends, return_index=True)
    if left := len(intervals) - len(first):
        name = SAR_B if layer == ALL else layer
        remarks.append(f"{name}: {left} reports of a time that was there before: left out")
        intervals = intervals.at(np.sort(first))
    return intervals


def array(times: Sequence[float | None]) -> Values:
    """Times, NaN for those that are not known."""
    return np.array([np.nan if at is None else at for at in times], dtype=float)


KINDS: Mapping[str, Kind] = {
    "sar-d": Kind("sar -d", fits_d, read, lines=True),
    "sar-b": Kind("sar -b", fits_b, read, lines=True),
}
"""The kinds of this module by name; those of ``sadf`` are in ``blocklab.sizing.readers.sadf``."""
