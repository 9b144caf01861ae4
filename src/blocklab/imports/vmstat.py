"""vmstat's table (procps): CPUs and block I/O of a host, with times (``-t``) and without, also ``-w``, ``-a``."""

from __future__ import annotations

import re

from blocklab.imports import cpu
from blocklab.imports.clock import Clock, Stamp, stamp
from blocklab.imports.found import Found, found_in
from blocklab.imports.sar import ALL
from blocklab.imports.text import Bad, Refused, Text
from blocklab.model.sample import Sample

# procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
#  r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 PDT
#  2  0      0 2794716 295968 312724    0    0     1     3   29   57  0  0 99  0  0 2021-09-16 20:33:13
#  r  b   swpd   free  inact active   si   so    bi    bo   in   cs us sy id wa st gu            (-a, 4.0)
_HEADER = re.compile(
    r"^[ \t]*(?P<names>r\s+b\s+swpd\s+free\s+\S+\s+\S+\s+si\s+so\s+bi\s+bo\s+in\s+cs"
    r"\s+us\s+sy\s+id(?:\s+(?:wa|st|gu))*)"
    r"(?P<zone>\s+[A-Z]{2,5}|\s+[+-]\d\d)?[ \t]*$",
    re.MULTILINE,
)
_TITLES = re.compile(r"^[ \t]*-*procs-*\s+-*memory-*")
_ROW = re.compile(r"\s*(?P<values>\d+(?:\s+\d+){14,17})(?P<time>\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?\s*")
# bi and bo are in KiB, whatever -S says.
_BLOCK = 1024.0
_LONGEST = 1000


def fits(head: str) -> bool:
    """Whether this is vmstat's table."""
    return _HEADER.search(head) is not None


def read(text: Text) -> Found:
    """The series of the CPUs, and of all disks together. Raises ``Refused``."""
    names: list[str] = []
    zone = ""
    stamps: list[Stamp] = []
    samples: list[Sample] = []
    bad: list[Bad] = []
    first: str | None = None
    for number, line in enumerate(text.lines, 1):
        if match := _HEADER.match(line):
            names, zone = match["names"].split(), (match["zone"] or "").strip()
            continue
        if not line.strip() or _TITLES.match(line):
            continue
        row = _ROW.fullmatch(line) if len(line) < _LONGEST else None
        values = dict(zip(names, map(float, row["values"].split()), strict=False)) if row else {}
        timed = stamp(f"{row['time'].strip()} {_offset(zone)}") if row and row["time"] else None
        whole = row is not None and len(row["values"].split()) == len(names) and bool(row["time"]) == bool(zone)
        if not whole or (zone and timed is None) or not cpu.is_whole(_shares(values).values()):
            bad.append(Bad(number, line[:_LONGEST]))
        elif first is None:
            # It counts from the boot on.
            first = line
        else:
            samples += _samples(values, len(stamps))
            stamps.append(timed or Stamp((), float(len(stamps)), offset=0.0))
    if not stamps:
        besides = " but its first, which counts from the boot on" if first else ""
        raise Refused(f"looks like vmstat, but has no complete row{besides}")
    remarks = ["its first row counts from the boot on: left out"]
    if not zone:
        remarks.append("it has no times (vmstat -t): its rows are put one second apart, on 1970-01-01")
    elif not _offset(zone):
        remarks.append(f"its times are of the zone {zone}, which may mean several: --zone tells which")
    return found_in(
        text, "vmstat", bad=bad, remarks=remarks, rows=len(stamps), samples=tuple(samples),
        clock=Clock(tuple(stamps)), untimed=not zone,
    )  # fmt: skip


def _offset(zone: str) -> str:
    """The zone as ``clock.stamp`` knows it; empty for a name that may mean several."""
    return "UTC" if zone in ("UTC", "GMT") else f"{zone}00" if zone[:1] in ("+", "-") and zone else ""


def _shares(values: dict[str, float]) -> dict[str, float]:
    return {name: values[name] for name in ("us", "sy", "id", "wa", "st", "gu") if name in values}


def _samples(values: dict[str, float], place: int) -> list[Sample]:
    moved = [(f"disk.{way}.bandwidth", values[name] * _BLOCK, "B/s", ALL)
             for way, name in (("read", "bi"), ("write", "bo"))]  # fmt: skip
    shares = [(*each, "cpu") for each in cpu.shares(_shares(values))]
    return [
        Sample(metric, value, unit, layer, "", time=float(place))
        for metric, value, unit, layer in (*moved, *shares)
    ]
