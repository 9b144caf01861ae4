"""fio's options as they stand in its job files and its JSON: times, sizes, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SHAPING = frozenset({"rw", "readwrite", "rwmixread", "rwmixwrite", "bs", "blocksize", "iodepth", "numjobs"})
"""The options by which jobs are laid out among others."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_TIME = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
# fio itself takes no more.
_MOST_JOBS = 4096


def seconds(text: str) -> float:
    """A fio time (a plain number is in seconds) in seconds. Raises ``ValueError``."""
    match = _NUMBER.fullmatch(text)
    factor = _TIME.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a time that fio accepts; write it like 60 or 60s")
    return float(match[1]) * factor


def size(text: str) -> float:
    """A fio size in bytes, never too small (64KiB counts as 65,536 here). Raises ``ValueError``."""
    match = _NUMBER.fullmatch(text)
    unit = match[2].lower().removesuffix("b").removesuffix("i") if match else ""
    if match is None or unit not in _POWER:
        raise ValueError(f"{text!r} is not a size; write it like 64k or 1g")
    return float(match[1]) * 1024.0 ** _POWER[unit]


def runtime(options: Mapping[str, str]) -> float | None:
    """How long a job takes (s) where that is given; None where its size ends it."""
    time = seconds(options.get("runtime", options.get("timeout", "0")))
    return time + seconds(options.get("ramp_time", "0")) if time else None


def numjobs(options: Mapping[str, str]) -> int:
    """How many clones of a job there are."""
    said = options.get("numjobs", "1")
    return min(int(said), _MOST_JOBS) if said.isdecimal() else 1


def shaping(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a job's options that tell where it stands among others."""
    return {name: value for name, value in options.items() if name in SHAPING}


def sizes_text(sizes: Sequence[tuple[int, int]]) -> str:
    """Sizes of reads and writes as fio's options have them: ``4k``, ``4k-16k``, ``4k,64k``."""
    ends = [size_text(low) if low == high else f"{size_text(low)}-{size_text(high)}" for low, high in sizes[:2]]
    return ",".join(ends[:1] if len(set(ends)) == 1 else ends)


def size_text(size: int) -> str:
    """4096 as fio's options have it: ``4k``."""
    for power, letter in ((3, "g"), (2, "m"), (1, "k")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{letter}"
    return str(size)


# What fio takes for a queue depth of 1 whatever iodepth says: these engines wait for each I/O.
_WAITING = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")


def queue_depth(options: Mapping[str, str]) -> int | None:
    """How many I/Os a job has under way at once; None for I/O through the page cache, and where it cannot tell."""
    direct = options.get("direct", "1" if options.get("buffered") == "0" else "0")
    if direct == "0" or options.get("ioengine") == "null":
        return None
    try:
        # fio's own default engine waits.
        waits = options.get("ioengine", "psync") in _WAITING
        deep = 1 if waits else int(options.get("iodepth", "1"))
        return deep * int(options.get("numjobs", "1"))
    except ValueError:
        return None
