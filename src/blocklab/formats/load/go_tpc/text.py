"""go-tpc's output, as text or as JSON: brought into the form that blocklab's own workloads leave, and read as
that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from blocklab.formats.found import Found
from blocklab.formats.load.go_tpc import output
from blocklab.formats.load.one_phase import of_one_phase
from blocklab.formats.text import Bad, Refused, Text, one_run
from blocklab.model import outside

# [Current] NEW_ORDER - Takes(s): 9.9, Count: 4713, TPM: 28462.0, Sum(ms): 158263.9, Avg(ms): 33.6, 50th(ms): 31.5,
#   90th(ms): 50.3, 95th(ms): 56.6, 99th(ms): 71.3, 99.9th(ms): 96.5, Max(ms): 130.0
# [Summary] DELIVERY - Takes(s): 59.9, Count: 2265, TPM: 2270.2, ...
_ROW = re.compile(r"^\[(?P<prefix>Current|Summary)\] (?P<kind>[A-Z_]+) - (?P<fields>Takes\(s\): .*)$")
# before 1.0.8:
# [Summary] NEW_ORDER - Takes(s): 59.4, Count: 359, TPM: 362.5, Sum(ms): 33008, Avg(ms): 91, 90th(ms): 192,
#   99th(ms): 512, 99.9th(ms): 1000
# tpmC: 28434.2, tpmTotal: 63098.1, efficiency: 2211.1%
_SCORE = re.compile(r"^tpmC: (?P<tpmc>\d+(?:\.\d+)?)(?:, .*)?$")
_OLD = {"Takes(s)", "Count", "TPM", "Sum(ms)", "Avg(ms)", "90th(ms)", "99th(ms)", "99.9th(ms)"}
_WHOLE = re.compile(r"\.\d$")
_FIELDS = (_OLD, _OLD | {"50th(ms)", "95th(ms)", "Max(ms)"})
# [Current] Q12    - Count: 1, Sum(ms): 9945.8, Avg(ms): 9944.7         of CH-benCHmark, whose other part is TPC-C
_QUERY = re.compile(r"^\[(?:Current|Summary)\] Q\d+ +- ")
_QUERIES = re.compile(r"Q\d+")
_SCORE_OF_QUERIES = re.compile(r"^QphH: \d")
# The same as text or JSON, once a run
_ENDED = re.compile(r'(?:\d{9,}\.\d{3} )?(?:tpmC: \d|\[\{"efficiency")')


class _Timed(output.OperationRow, kw_only=True):
    """A row, and how long it was counted (s)."""

    takes: float = msgspec.field(name="Takes(s)")


_FITS = re.compile(
    r'^(?:\d{9,}\.\d{3} )?(?:\[(?:Current|Summary)\] NEW_ORDER - |\[\{.*"Operation": ?"NEW_ORDER")', re.MULTILINE
)
# The kinds of transactions of one interval.
Part: TypeAlias = list[_Timed]
# Seconds by which go-tpc prints an interval too late.
_LATE = 0.3
# It has no times, so they start here; the stamps of our own workloads have ten digits.
_START = 1_000_000_000.0


def fits(head: str) -> bool:
    """Whether this is go-tpc's output, of either form, with or without our own stamps."""
    return _FITS.search(head) is not None


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` for one that has no summary, or several."""
    one_run(text.lines, _ENDED)
    remarks = []
    if damaged := _damaged_summary(text.lines):
        raise Refused(f"go-tpc: its summary is damaged: {damaged}")
    if (score := _old_score(text.lines)) is not None:
        text = msgspec.structs.replace(text, lines=(*text.lines, f"tpmC: {score}"))
        remarks.append("it has no tpmC, as the first versions of go-tpc: that is the TPM of its new orders")
    if queries := sum(_of_queries(line) for line in text.lines):
        remarks.append(f"{queries:,} lines of the queries of CH-benCHmark (Q1 to Q22, QphH) are left out")
    found = of_one_phase(text, "go-tpc", partial(output.parsed, host=""), lambda bad: _stamped(text, bad), remarks)
    if not found.bad:
        return found
    # An interval without one of its rows has too low a rate, and the next one too long a time.
    return msgspec.structs.replace(
        found, samples=tuple(sample for sample in found.samples if sample.time is None),
        remarks=(*found.remarks, "rows of its time series are damaged: its summary alone is taken"),
    )  # fmt: skip


def _damaged_summary(lines: Sequence[str]) -> str:
    """What the text of a summary lacks: each kind that was counted meanwhile has a row in it."""
    kinds: dict[str, set[str]] = {"Current": set(), "Summary": set()}
    for number, line in enumerate(lines, 1):
        if match := _ROW.match(line):
            kinds[match["prefix"]].add(match["kind"])
            if match["prefix"] == "Summary" and not _rows(0, line, []):
                return f"line {number}"
    lost = kinds["Current"] - kinds["Summary"] if kinds["Summary"] else set()
    return f"no row of {', '.join(sorted(lost))}" if lost else ""


def _old_score(lines: Sequence[str]) -> str | None:
    """The TPM of new orders in a whole summary without tpmC behind it; None where tpmC is there, or was lost."""
    if any(_SCORE.match(line) for line in lines):
        return None
    summary = [match for line in lines if (match := _ROW.match(line)) and match["prefix"] == "Summary"]
    whole = any(match["kind"] == "STOCK_LEVEL" for match in summary)
    rows = [row for match in summary if match["kind"] == "NEW_ORDER" for row in _rows(0, match[0], [])]
    return f"{rows[0].tpm:f}" if whole and rows and rows[0].max is None else None


def _stamped(text: Text, bad: list[Bad]) -> Iterator[tuple[float, output.Line]]:
    """Each interval as the rows of one line with the time of its end, as our own workloads leave it."""
    parts = list(_parts(text, bad))
    # Each row counts from the end of the first transaction in its interval: a little less than the interval.
    takes = [_takes(each) for each in parts if not isinstance(each, str) and _current(each)]
    step = max(1, math.ceil(max(takes, default=0.0) - _LATE))
    at, begun, finished = _START, False, False
    for part in parts:
        if isinstance(part, str):
            yield round(at, 3), part
            continue
        if _current(part):
            # From the end of the very first transaction, as the summary does.
            at += step if begun else _takes(part)
            begun = True
        elif not finished:
            finished = True
            # An interval in which nothing was done has no row.
            at = max(at, _START + _takes(part))
            yield round(at, 3), "Finished"
        yield round(at, 3), part


def _current(rows: Part) -> bool:
    return rows[0].prefix.startswith("[Current")


def _takes(rows: Part) -> float:
    return max(row.takes for row in rows)


def _parts(text: Text, bad: list[Bad]) -> Iterator[Part | str]:
    """The rows of each interval, and of the summary; between them failures and tpmC, as JSON."""
    last = ""
    rows: Part = []
    for number, line in enumerate(text.lines, 1):
        found = _rows(number, line, bad)
        kinds = {row.kind for row in rows}
        other = bool(found) and (found[0].prefix != last or any(row.kind in kinds for row in found))
        said = line.startswith('[{"efficiency"') or "] execute run failed, err " in line or _SCORE.match(line)
        if rows and (other or said):
            yield rows
            rows = []
        if found:
            rows, last = rows + found, found[0].prefix
        elif match := _SCORE.match(line):
            yield f'[{{"efficiency":"","tpmC":"{match["tpmc"]}"}}]'
        elif line.startswith('[{"efficiency"') or "] execute run failed, err " in line:
            yield line
    if rows:
        yield rows


def _rows(number: int, line: str, bad: list[Bad]) -> Part:
    """The kinds of transactions of a line; nothing of another one."""
    if match := _ROW.match(line):
        pairs = (pair.partition(": ") for pair in match["fields"].split(", "))
        row = {name: value for name, _, value in pairs}
        rows = _sound([{**row, "Operation": match["kind"], "Prefix": f"[{match['prefix']}] "}])
        # The last number, too, has a decimal, but in the first versions.
        if rows and (row.keys() == _OLD or _WHOLE.search(line)):
            return rows
        bad.append(Bad(number, line))
        return []
    if line.startswith("[{") and '"Operation"' in line and '"Avg(s)"' not in line:
        try:
            found = outside.as_json(line, "")
            found = [row for row in found if not _QUERIES.fullmatch(str(row.get("Operation", "")))]
        except (ValueError, AttributeError):
            found = []
        if not found and _of_queries(line):
            return []
        if rows := _sound(found):
            return rows
        bad.append(Bad(number, line))
        return []
    if line.startswith(("[Current]", "[Summary]")) and "ERR" not in line and not _QUERY.match(line):
        bad.append(Bad(number, line))
    return []


def _of_queries(line: str) -> bool:
    """Whether a line tells of CH-benCHmark's queries, and of nothing that is read."""
    if line.startswith("[{"):
        return '"Operation":"Q' in line.replace(" ", "") and '"Takes(s)"' not in line
    return _QUERY.match(line) is not None or _SCORE_OF_QUERIES.match(line) is not None


def _sound(rows: Any) -> Part:
    """The rows, where each has all that one of go-tpc's has; else none."""
    try:
        found = msgspec.convert(rows, Part, strict=False)
        whole = all(row.keys() - {"Operation", "Prefix"} in _FIELDS for row in rows)
        whole = whole and not any(value.startswith("-") for row in rows for value in row.values())
        return found if whole and all(math.isfinite(row.takes) for row in found) else []
    except msgspec.ValidationError:
        return []
