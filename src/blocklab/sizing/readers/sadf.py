"""``sadf -j`` (JSON) and ``sadf -d`` (CSV) of sar's files as series: read by ``blocklab.imports.sadf``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blocklab.formats.clock import Clock, resolve
from blocklab.formats.text import Refused, Text
from blocklab.imports import sadf
from blocklab.model.watched import Values
from blocklab.sizing.readers import sar
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Columns, Found

# The end of one interval and the start of the next are rounded to seconds, and so is the length.
_ROUNDING = 1.5


def read_json(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -j``, of several put together, or of the start of a cut one.

    Raises ``Refused`` for a file without a whole report of disks.
    """
    return _done(sadf.json_rows(text), text, reading)


def read_csv(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -d``. Raises ``Refused`` for one without a whole row of disks."""
    return _done(sadf.csv_rows(text), text, reading)


def _done(got: sadf.Rows, text: Text, reading: Reading) -> Found:
    if all(kind == "u" for _, kind in got.tables):
        raise Refused(f"sadf, but without a whole report of disks; {sadf.AGAIN}")
    clock = Clock(tuple(got.stamps))
    times, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    if lost := times.count(None):
        said.append(f"{lost} of its times are of no day that exists: what stands there is left out")
    remarks = [*text.remarks, *got.remarks(), *said]
    ends, seconds = sar.array(times), np.array(got.seconds)
    series: dict[tuple[str, str], list[Columns]] = {}
    trimmed = False
    for host, kind, discards, watched in got.watched(remarks):
        trimmed = trimmed or discards
        for each in watched if kind != "u" else ():
            at = each.times.astype(int)
            starts = _starts(ends[at], seconds[at])
            found = sar.columns_of(each, kind, starts, ends[at] - starts, discards, remarks)
            series.setdefault((host, each.layer), []).append(found)
    return sar.whole(series, text, remarks, got.bad, discards=trimmed)


def _starts(ends: Values, seconds: Values) -> Values:
    """Where each interval starts: where the one before it ends, but for rounding."""
    starts = ends - seconds
    before = np.concatenate([[np.nan], ends[:-1]])
    return np.where((np.abs(before - starts) <= _ROUNDING) & (before < ends), before, starts)


KINDS: Mapping[str, Kind] = {
    "sadf-json": Kind("sadf -j FILE -- -d -b", sadf.fits_json, read_json, lines=True),
    "sadf-csv": Kind("sadf -d FILE -- -d", sadf.fits_csv, read_csv, lines=True),
}
"""The kinds of this module by name."""
