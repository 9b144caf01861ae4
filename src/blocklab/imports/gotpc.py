"""go-tpc's output, as text or as JSON: brought into the form that blocklab's own workloads leave, and read as
that."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from blocklab.imports.found import Found, of_one_phase
from blocklab.imports.text import Bad, Text, one_run
from blocklab.workloads import tpcc_output

# [Current] NEW_ORDER - Takes(s): 9.9, Count: 4713, TPM: 28462.0, Sum(ms): 158263.9, Avg(ms): 33.6, 50th(ms): 31.5,
#   90th(ms): 50.3, 95th(ms): 56.6, 99th(ms): 71.3, 99.9th(ms): 96.5, Max(ms): 130.0
# [Summary] DELIVERY - Takes(s): 59.9, Count: 2265, TPM: 2270.2, ...
_ROW = re.compile(r"^\[(?P<prefix>Current|Summary)\] (?P<kind>[A-Z_]+) - (?P<fields>Takes\(s\): .*)$")
# tpmC: 28434.2, tpmTotal: 63098.1, efficiency: 2211.1%
_SCORE = re.compile(r"^tpmC: (?P<tpmc>\d+(?:\.\d+)?)(?:, .*)?$")
# The same as text or JSON, once a run
_ENDED = re.compile(r'(?:\d{9,}\.\d{3} )?(?:tpmC: \d|\[\{"efficiency")')


class _Timed(tpcc_output.Row, kw_only=True):
    """A row as ``workloads.tpcc_output`` reads it, and how long it was counted (s)."""

    takes: float = msgspec.field(name="Takes(s)")


# The kinds of transactions of one interval.
Part: TypeAlias = list[dict[str, str]]
# Seconds by which go-tpc prints an interval too late.
_LATE = 0.3
# It has no times, so they start here; the stamps of our own workloads have ten digits.
_START = 1_000_000_000.0


def fits(head: str) -> bool:
    """Whether this is go-tpc's output, of either form, with or without our own stamps."""
    return re.search(r'\[(?:Current|Summary)\] NEW_ORDER - |"Operation": ?"NEW_ORDER"', head) is not None


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` for one that has no summary, or several."""
    one_run(text.lines, _ENDED)
    return of_one_phase(text, "go-tpc", tpcc_output.read, lambda bad: _stamped(text, bad))


def _stamped(text: Text, bad: list[Bad]) -> Iterator[str]:
    """Each interval as one line of JSON behind the time of its end, as our own workloads leave it."""
    parts = list(_parts(text, bad))
    # Each row counts from the end of the first transaction in its interval: a little less than the interval.
    takes = [_takes(each) for each in parts if not isinstance(each, str) and _current(each)]
    step = max(1, math.ceil(max(takes, default=0.0) - _LATE))
    at, begun, finished = _START, False, False
    for part in parts:
        if isinstance(part, str):
            yield f"{at:.3f} {part}\n"
            continue
        if _current(part):
            # From the end of the very first transaction, as the summary does.
            at += step if begun else _takes(part)
            begun = True
        elif not finished:
            finished = True
            # An interval in which nothing was done has no row.
            at = max(at, _START + _takes(part))
            yield f"{at:.3f} Finished\n"
        yield f"{at:.3f} {json.dumps(part)}\n"


def _current(rows: Part) -> bool:
    return rows[0]["Prefix"].startswith("[Current")


def _takes(rows: Part) -> float:
    return max(float(row["Takes(s)"]) for row in rows)


def _parts(text: Text, bad: list[Bad]) -> Iterator[Part | str]:
    """The rows of each interval, and of the summary; between them failures and tpmC, as JSON."""
    last = ""
    rows: Part = []
    for number, line in enumerate(text.lines, 1):
        prefix, found = _rows(number, line, bad)
        kinds = {row["Operation"] for row in rows}
        if rows and (not found or prefix != last or any(row["Operation"] in kinds for row in found)):
            yield rows
            rows = []
        if found:
            rows, last = rows + found, prefix
        elif match := _SCORE.match(line):
            yield f'[{{"efficiency":"","tpmC":"{match["tpmc"]}"}}]'
        elif line.startswith('[{"efficiency"') or "] execute run failed, err " in line:
            yield line
    if rows:
        yield rows


def _rows(number: int, line: str, bad: list[Bad]) -> tuple[str, Part]:
    """The prefix, and the kinds of transactions of a line; nothing of another one."""
    if match := _ROW.match(line):
        pairs = (pair.partition(": ") for pair in match["fields"].split(", "))
        row = {name: value for name, _, value in pairs}
        prefix = f"[{match['prefix']}] "
        rows = [{**row, "Operation": match["kind"], "Prefix": prefix}]
        if _sound(rows):
            return prefix, rows
        bad.append(Bad(number, line))
        return "", []
    if line.startswith("[{") and '"Operation"' in line and '"Avg(s)"' not in line:
        try:
            found = json.loads(line)
        except ValueError:
            found = []
        if _sound(found):
            return str(found[0]["Prefix"]), found
        bad.append(Bad(number, line))
        return "", []
    if line.startswith(("[Current]", "[Summary]")) and "ERR" not in line:
        bad.append(Bad(number, line))
    return "", []


def _sound(rows: Any) -> bool:
    """Whether each row has all that one of go-tpc's has."""
    try:
        found = msgspec.convert(rows, list[_Timed], strict=False)
        return bool(found) and all(math.isfinite(row.takes) for row in found)
    except msgspec.ValidationError:
        return False
