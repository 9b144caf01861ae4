"""sysbench's OLTP output: brought into the form that blocklab's own workloads leave, and read as that."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from blocklab.errors import ParseError
from blocklab.imports.found import Found
from blocklab.imports.text import Bad, Refused, Text, has_commas, one_run, points, refusal
from blocklab.model.sample import Sample
from blocklab.workloads import sysbench_output
from blocklab.workloads.stamp import lines as stamped_lines

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
    old = next((match for line in text.lines if (match := _VERSION.match(line))), None)
    if old is not None and int(old[1]) < 1:
        raise Refused(f"of sysbench {old[1]}.{old[2]}: the output of 1.0 and later is known")
    one_run(text.lines, _STARTED)
    stamped = any(stamped_lines("".join(f"{line}\n" for line in text.lines[:5]).encode()))
    bad: list[Bad] = []
    remarks = list(text.remarks)
    lines = list(text.lines)
    if any(_SECOND.match(line) and has_commas(line.partition("lat (ms")[0]) for line in lines):
        remarks.append("decimal commas, read as points")
        lines = [points(line) for line in lines]
    out = text.text if stamped else "".join(_stamped(lines, bad))
    if text.cut.strip():
        bad.append(Bad(len(text.lines) + 1, text.cut))
    try:
        parsed = sysbench_output.read({"stdout": out.encode()}, "", histogram=False)
    except ParseError as error:
        raise refusal(error) from error
    (phase,) = parsed.phases
    if not stamped:
        remarks.append("it has no times: its time series is put on 1970-01-01")
        phase = msgspec.structs.replace(phase, start=0.0, end=phase.end - _START)
        parsed = msgspec.structs.replace(parsed, samples=tuple(_shifted(each) for each in parsed.samples))
    return Found(
        kind="sysbench", path=text.path, rows=len(parsed.samples), tool="sysbench", bad=len(bad),
        first_bad=bad[0] if bad else None, samples=parsed.samples, phases=(phase,),
        start=phase.start if stamped else None, end=phase.end if stamped else None, remarks=tuple(remarks),
    )  # fmt: skip


def _shifted(sample: Sample) -> Sample:
    return sample if sample.time is None else msgspec.structs.replace(sample, time=sample.time - _START)


def _stamped(lines: list[str], bad: list[Bad]) -> Iterator[str]:
    at = _START
    for number, line in enumerate(lines, 1):
        if match := _SECOND.match(line):
            if not _WHOLE.search(line):
                bad.append(Bad(number, line))
                continue
            at = _START + float(match[1])
        yield f"{at:.3f} {line}\n"
