"""``sadf -j`` (JSON) and ``sadf -d`` (CSV) of sar's files as series: read by ``blocklab.imports.sadf``."""

from __future__ import annotations

from collections.abc import Mapping

from blocklab.imports import sadf
from blocklab.imports.clock import Clock, resolve
from blocklab.imports.text import Bad, Refused, Text
from blocklab.sizing.readers import sar
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found

# The end of one interval and the start of the next are rounded to seconds, and so is the length.
_ROUNDING = 1.5


def read_json(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -j``, of several put together, or of the start of a cut one.

    Raises ``Refused`` for a file without a whole report of disks.
    """
    return _done(sadf.json_rows(text), text, reading)


def read_csv(text: Text, reading: Reading) -> Found:
    """The series of a file of ``sadf -d``. Raises ``Refused`` for one without a whole row of disks."""
    found = sadf.csv_rows(text)
    if text.cut.strip():
        found.bad.append(Bad(len(text.lines) + 1, text.cut[:200]))
    return _done(found, text, reading)


def _done(got: sadf.Rows, text: Text, reading: Reading) -> Found:
    rows = [(at, row) for at, row in zip(got.stamps, got.rows, strict=True) if row.kind != "u"]
    if not rows:
        raise Refused(f"sadf, but without a whole report of disks; {sadf.AGAIN}")
    clock = Clock(tuple(at for at, _ in rows))
    times, said = resolve(clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    ends: dict[tuple[str, str], float] = {}
    reports = []
    for at, (_, row) in zip(times, rows, strict=True):
        if at is None:
            got.bad.append(Bad(row.line, "its time cannot be"))
            continue
        start, before = at - row.seconds, ends.get((row.host, row.device))
        if before is not None and abs(before - start) <= _ROUNDING and before < at:
            start = before
        ends[row.host, row.device] = at
        reports.append(sar.Report(row.host, row.device, start, at, row.values, row.line))
    remarks = [*text.remarks, *got.remarks(), *said]
    return sar.found(reports, text, remarks, tuple(got.bad[: sar.MOST_BAD]), len(got.bad))


KINDS: Mapping[str, Kind] = {
    "sadf-json": Kind("sadf -j FILE -- -d -b", sadf.fits_json, read_json),
    "sadf-csv": Kind("sadf -d FILE -- -d", sadf.fits_csv, read_csv),
}
"""The kinds of this module by name."""
