"""The times that a collector put before the lines of a tool that itself counts from its start, or says none."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from blocklab.formats.clock import Clock, Stamp
from blocklab.formats.found import Found
from blocklab.formats.text import Text
from blocklab.model.sample import Phase, Sample

# What tells how many seconds after its start a tool printed a line.
# progress: 10.0 s, 100.0 tps, ...   [ 10s ] thds: 4 tps: ...   [  10s] threads: 4, tps: ...   Threads started!
_SINCE = re.compile(r"progress: (\d{1,7}(?:\.\d)?) s, |\[ *(\d{1,7})s *\] (?:thds|threads): |(Threads started!)$")


def anchored(found: Found, text: Text) -> Found:
    """What a text held whose lines have ``times`` before them, at these times."""
    if found.clock is not None or found.start is not None or not [*_times(found), *_ends(found)]:
        return found
    first = _first(found, text)
    if first is None:
        return found
    number, at, since = first
    places = {time: place for place, time in enumerate(sorted({*_times(found), *_ends(found)}))}
    stamps = tuple(msgspec.structs.replace(at, seconds=at.seconds + time - since) for time in places)
    return msgspec.structs.replace(
        found, clock=Clock(stamps),
        samples=tuple(_placed(sample, places) for sample in found.samples),
        phases=tuple(Phase(each.name, places[each.start], places[each.end]) for each in found.phases),
        undated="", remarks=(*found.remarks, f"its times count from the one before line {number}"),
    )  # fmt: skip


def _first(found: Found, text: Text) -> tuple[int, Stamp, float] | None:
    """The first line that tells how long after the start it was printed, with its time and that (s)."""
    for number, (line, at) in enumerate(zip(text.lines, text.times, strict=False), 1):
        if at is None:
            continue
        if match := _SINCE.match(line):
            return number, at, float(match[1] or match[2] or 0.0)
        if line.startswith("[Current]") and found.kind == "go-tpc":
            return number, at, min(_times(found), default=0.0)
    return None


def _times(found: Found) -> Iterator[float]:
    yield from (sample.time for sample in found.samples if sample.time is not None)


def _ends(found: Found) -> Iterator[float]:
    for phase in found.phases:
        yield from (phase.start, phase.end)


def _placed(sample: Sample, places: dict[float, int]) -> Sample:
    if sample.time is None:
        return sample
    return msgspec.structs.replace(sample, time=float(places[sample.time]))
