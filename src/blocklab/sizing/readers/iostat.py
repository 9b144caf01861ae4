"""iostat of a host as series, one for each device: read by ``blocklab.imports.iostat``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from blocklab.imports import found as imported
from blocklab.imports import iostat
from blocklab.imports.clock import resolve
from blocklab.imports.device_names import named
from blocklab.imports.json_documents import can_be
from blocklab.imports.text import Refused, Text
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found, Interval, Rates, Series, Trust

SOURCE = "iostat"
_FIELDS = {
    "read.iops": "reads", "write.iops": "writes", "read.bandwidth": "read_bytes", "write.bandwidth": "write_bytes",
    "iops": "requests", "flush.iops": "flushes", "read.await": "read_latency", "write.await": "write_latency",
}  # fmt: skip
_OF_RATES = ("reads", "writes", "read_bytes", "write_bytes", "requests")
# A step that is so much longer than the others is a pause between two runs of iostat.
_PAUSE = 1.5
# How ``imports.iostat`` says that there is no other report.
_ONLY = "its only report"

_Row = dict[str, float]


def read(text: Text, reading: Reading) -> Found:
    """The text of iostat as series. Raises ``Refused``, and ``StudyError`` for dates that may mean several
    days."""
    return _series(iostat.read(text), text, reading)


def read_json(text: Text, reading: Reading) -> Found:
    """The JSON of ``iostat -o JSON`` as series. Raises ``Refused`` and ``StudyError``."""
    return _series(iostat.read_json(text), text, reading)


def _series(found: imported.Found, text: Text, reading: Reading) -> Found:
    assert found.clock is not None
    if all(sample.layer == "cpu" for sample in found.samples):
        raise Refused("iostat -c has no disks; take iostat -t -x 10")
    times, said = resolve(found.clock, str(text.path), zone=reading.zone, order=reading.order, anchors=())
    remarks = [*found.remarks, *said]
    if found.untimed:
        remarks.append(
            "how long its intervals are is not known: its rates count, its duration does not; use iostat -t"
        )
    spans = _spans(times, remarks)
    rows = _rows(found, remarks)
    # iostat without -y, run once: an average since the boot, unless the user knows better.
    only = any(remark.startswith(_ONLY) for remark in found.remarks)
    series = []
    for device, mine in rows.items():
        intervals = tuple(_interval(mine[place], *spans[place]) for place in sorted(mine) if place in spans)
        series.append(
            Series(
                system=found.host, host=found.host, device=device, source=SOURCE, trust=Trust.DEVICE,
                files=(text.path,), intervals=intervals, untimed=found.untimed, since_start=only,
            )
        )  # fmt: skip
    series = [one for one in series if one.intervals]
    if not series:
        raise Refused("its reports have no times that can be read; print it again with iostat -t -x 10")
    bad = (found.first_bad,) if found.first_bad is not None else ()
    return Found(series=tuple(series), bad=bad, lost=found.bad, remarks=tuple(dict.fromkeys(remarks)))


def _spans(times: Sequence[float | None], remarks: list[str]) -> dict[int, tuple[float, float]]:
    """Start and length (s) of what each report covers: the time before its stamp, back to the report before it.

    The first report is as long as the step after it. A pause is not covered by the report that follows it.
    """
    known = [(place, at) for place, at in enumerate(times) if at is not None]
    if len(known) < len(times):
        remarks.append(f"{len(times) - len(known)} reports left out: their times cannot be")
    steps = [after - before for (_, before), (_, after) in pairwise(known) if after > before]
    if not steps:
        if len(known) > 1:
            remarks.append("all its reports are of one time: only the first one counts")
        if known:
            remarks.append("how long its only report is is not known: put at 1 s")
        return {place: (at - 1.0, 1.0) for place, at in known[:1]}
    usual = median(steps)
    found: dict[int, tuple[float, float]] = {}
    latest: float | None = None
    back = 0
    for number, (place, at) in enumerate(known):
        if latest is None:
            step = known[1][1] - at if len(known) > 1 else usual
        else:
            step = at - latest
            if step <= 0:
                back += 1
                continue
        length = step if 0 < step <= _PAUSE * usual else usual
        if number == 0 or latest is None or at - length >= latest - 1e-6:
            found[place] = (at - length, length)
        latest = at
    if back:
        remarks.append(f"{back} reports left out: they are not later than the ones before them")
    return found


def _rows(found: imported.Found, remarks: list[str]) -> dict[str, dict[int, _Row]]:
    """Of each device and report its values by the names of ``_FIELDS``."""
    rows: dict[str, dict[int, _Row]] = {}
    left: Counter[str] = Counter()
    for sample in found.samples:
        field = _FIELDS.get(sample.metric)
        if field is None or sample.time is None:
            continue
        row = rows.setdefault(named(sample.layer), {}).setdefault(int(sample.time), {})
        value = can_be(sample.value)
        if value is None:
            left[f"values of {sample.layer} that cannot be ({sample.metric} {sample.value:g})"] += 1
        elif row.setdefault(field, value) != value:
            left[f"values of {sample.layer}: a second row of one report"] += 1
    remarks += [f"{count} {what}: left out" for what, count in left.most_common(3)]
    return rows


def _interval(row: Mapping[str, float], start: float, seconds: float) -> Interval:
    rates = Rates(**{name: row.get(name) for name in _OF_RATES})
    return Interval(
        start=start, seconds=seconds, rates=rates, flushes=row.get("flushes"),
        read_latency=row.get("read_latency"), write_latency=row.get("write_latency"),
    )  # fmt: skip


KINDS: Mapping[str, Kind] = {
    "iostat": Kind("iostat", iostat.fits, read),
    "iostat-json": Kind("iostat -o JSON", iostat.fits_json, read_json),
}
"""The kinds of this module by name."""
