"""iostat of a host as series, one for each device: read by ``blocklab.imports.iostat``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blocklab.formats import found as imported
from blocklab.formats.clock import resolve
from blocklab.formats.json_documents import MOST
from blocklab.formats.text import Refused, Text
from blocklab.imports import iostat, iostat_json
from blocklab.imports.cpu import CPU
from blocklab.model.watched import Values, Watched
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Columns, Found, Series, Trust

SOURCE = "iostat"
_FIELDS = {
    "read.iops": "reads", "write.iops": "writes", "read.bandwidth": "read_bytes", "write.bandwidth": "write_bytes",
    "iops": "requests", "bandwidth": "total_bytes", "flush.iops": "flushes", "read.await": "read_latency",
    "write.await": "write_latency", "queue": "in_flight",
}  # fmt: skip
# A step that is so much longer than the others is a pause between two runs of iostat.
_PAUSE = 1.5


def read(text: Text, reading: Reading) -> Found:
    """The text of iostat as series. Raises ``Refused``, and ``StudyError`` for dates that may mean several
    days."""
    return _series(iostat.read(text), text, reading)


def read_json(text: Text, reading: Reading) -> Found:
    """The JSON of ``iostat -o JSON`` as series. Raises ``Refused`` and ``StudyError``."""
    return _series(iostat_json.read(text), text, reading)


def _series(found: imported.Found, text: Text, reading: Reading) -> Found:
    assert found.clock is not None
    if all(each.layer == CPU for each in found.watched):
        raise Refused("iostat -c has no disks; take iostat -t -x 10")
    times, said = resolve(found.clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    remarks = [*found.remarks, *said]
    if found.untimed:
        remarks.append(
            "how long its intervals are is not known: its rates count, its duration does not; use iostat -t"
        )
    starts, seconds = spans(times, remarks)
    series = []
    for each in found.watched:
        intervals = intervals_of(each, starts, seconds, _FIELDS, remarks)
        if each.layer == CPU or not len(intervals):
            continue
        series.append(
            Series(
                system=found.host, host=found.host, device=each.layer, source=SOURCE, trust=Trust.DEVICE,
                files=(text.path,), intervals=intervals, untimed=found.untimed, since_start=found.since_boot,
            )
        )  # fmt: skip
    if not series:
        raise Refused("its reports have no times that can be read; print it again with iostat -t -x 10")
    bad = (found.first_bad,) if found.first_bad is not None else ()
    return Found(series=tuple(series), bad=bad, lost=found.bad, remarks=tuple(dict.fromkeys(remarks)))


def intervals_of(
    watched: Watched, starts: Values, seconds: Values, fields: Mapping[str, str], remarks: list[str]
) -> Columns:
    """The reports of a device as intervals: ``starts`` and ``seconds`` by place, NaN for what does not count;
    ``fields`` are the names of its metrics."""
    at = watched.times.astype(np.intp)
    values = {}
    for metric, field in fields.items():
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
    return Columns(starts[at], seconds[at], values).at(~np.isnan(starts[at]))


def spans(times: Sequence[float | None], remarks: list[str]) -> tuple[Values, Values]:
    """Start and length (s) of what each report covers: the time before its stamp, back to the report before it.
    NaN for reports that do not count.

    The first report is as long as the step after it. A pause is not covered by the report that follows it.
    """
    every = np.array([np.nan if at is None else at for at in times], dtype=float)
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


KINDS: Mapping[str, Kind] = {
    "iostat": Kind("iostat", iostat.fits, read, lines=True),
    "iostat-json": Kind("iostat -o JSON", iostat_json.fits, read_json, lines=True),
}
"""The kinds of this module by name."""
