"""sysbench's OLTP output: brought into the form that blocklab's own workloads leave, and read as that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from blocklab.imports import sysbench_old
from blocklab.imports.found import Found, of_one_phase
from blocklab.imports.text import Bad, Text, has_commas, one_run, points
from blocklab.workloads import sysbench_output

# [ 10s ] thds: 4 tps: 37.99 qps: 1151.88 (r/w/o: 883.14/166.80/101.94) lat (ms,95%): 303.33 err/s: 0.00 ...
_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ")
_WHOLE = re.compile(r" reconn/s: \d+\.\d+$")
# sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
# sysbench 0.5:  multi-threaded system evaluation benchmark
_VERSION = re.compile(r"(?:\d{9,}\.\d{3} )?sysbench (\d+)\.(\d+)")
# Threads started!     not what it begins with: that has a call that prepares the tables, too
_STARTED = re.compile(r"(?:\d{9,}\.\d{3} )?Threads started!")
# It has no times, so they start here; the stamps of our own workloads have ten digits.
_START = 1_000_000_000.0


def fits(head: str) -> bool:
    """Whether this is sysbench's output."""
    return re.search(r"^(?:\d{9,}\.\d{3} )?sysbench \d+\.\d+", head, re.MULTILINE) is not None


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` for one that has no summary, or several runs."""
    one_run(text.lines, _STARTED)
    old = next((match for line in text.lines if (match := _VERSION.match(line))), None)
    if old is not None and int(old[1]) < 1:
        return sysbench_old.read(text)
    remarks: list[str] = []
    lines = list(text.lines)
    if any(_SECOND.match(line) and has_commas(line.partition("lat (ms")[0]) for line in lines):
        remarks.append("decimal commas, read as points")
        lines = [points(line) for line in lines]
    read_own = partial(sysbench_output.read, histogram=False)
    return of_one_phase(text, "sysbench", read_own, lambda bad: _stamped(lines, bad), remarks)


def _stamped(lines: list[str], bad: list[Bad]) -> Iterator[str]:
    at = _START
    for number, line in enumerate(lines, 1):
        if match := _SECOND.match(line):
            if not _WHOLE.search(line):
                bad.append(Bad(number, line))
                continue
            at = _START + float(match[1])
        yield f"{at:.3f} {line}\n"
