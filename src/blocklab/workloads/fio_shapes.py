"""What fio's jobs differ in: the axes on which their phases can stand in a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from blocklab.formats.load.fio.options import size

# fio's own names where it has one. ``rw`` is two of them: what is read, and in which order.
DEPTH, BLOCK, READS, ACCESS, JOBS = "iodepth", "bs", "reads", "access", "numjobs"
_SHARES = {"read": 100, "randread": 100, "write": 0, "randwrite": 0}
# Of an option that a job does not set.
UNSET = "–"


def axes(shapes: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """The axes on which jobs stand at several levels, and those in rising order."""
    every = list(shapes)
    found = {}
    for name in dict.fromkeys(name for shape in every for name in shape):
        levels = dict.fromkeys(shape[name] for shape in every)
        if len(levels) > 1:
            found[name] = tuple(sorted(levels, key=_rank))
    return found


def distinguished(shapes: Iterable[Mapping[str, str]]) -> bool:
    """Whether no two jobs stand at the same place, so that each is a point of its own."""
    places = [tuple(shape.items()) for shape in shapes]
    return len(set(places)) == len(places)


def shape(options: Mapping[str, str]) -> dict[str, str]:
    """What a job does, axis -> level: ``{"iodepth": "32", "bs": "16k", "reads": "90%", ...}``."""
    # "randrw:8" does eight requests for each place.
    kind = options.get("rw", options.get("readwrite", "read")).partition(":")[0]
    return {
        DEPTH: options.get("iodepth", "1"),
        READS: f"{_SHARES[kind]}%" if kind in _SHARES else _mix(options),
        BLOCK: options.get("bs", options.get("blocksize", "4k")),
        ACCESS: "random" if kind.startswith("rand") else "sequential",
        JOBS: options.get("numjobs", "1"),
    }


def _mix(options: Mapping[str, str]) -> str:
    if "rwmixwrite" in options and "rwmixread" not in options:
        return f"{100 - int(options['rwmixwrite'])}%" if options["rwmixwrite"].isdigit() else "?"
    return f"{options.get('rwmixread', '50')}%"


def _rank(level: str) -> tuple[float, str]:
    try:
        return size(level.removesuffix("%")), level
    except ValueError:
        return math.inf, level
