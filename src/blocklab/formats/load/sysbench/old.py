"""The OLTP output of sysbench 0.4 and 0.5."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from blocklab.formats.found import Found, found_in
from blocklab.formats.text import Bad, Refused, Text, has_commas, points
from blocklab.model.sample import Phase, Sample

LAYER = "sysbench"
_N = r"(\d+(?:\.\d+)?)"
# [  10s] threads: 4, tps: 37.99, reads: 883.14, writes: 166.80, response time: 303.33ms (95%), errors: 0.00, ...
_SECOND = re.compile(
    rf"^\[ *(\d+)s\] threads: \d+, tps: {_N}, reads(?:/s)?: {_N}, writes(?:/s)?: {_N}, "
    rf"response time: {_N}ms \((\d+)%\)(?:, errors: {_N}, reconnects: +{_N})?$"
)
_BEGUN = re.compile(r"^\[ *\d+s\] threads: ")
#     transactions:                        176895 (147.41 per sec.)
#     deadlocks:                           0      (0.00 per sec.)          (0.4)
#     total time:                          1200.0146s
#          avg:                                 13.57ms
#          approx.  99 percentile:              17.60ms
_SUMMARY: Mapping[str, re.Pattern[str]] = {
    "transactions": re.compile(rf"^ +transactions: +(\d+) +\({_N} per sec\.\)$"),
    "queries": re.compile(r"^ +total: +(\d+)$"),
    "errors": re.compile(rf"^ +(?:ignored errors|deadlocks): +(\d+) +\({_N} per sec\.\)$"),
    "reconnects": re.compile(rf"^ +reconnects: +(\d+) +\({_N} per sec\.\)$"),
    "seconds": re.compile(rf"^ +total time: +{_N}s$"),
    "min": re.compile(rf"^ +min: +{_N}ms$"),
    "mean": re.compile(rf"^ +avg: +{_N}ms$"),
    "max": re.compile(rf"^ +max: +{_N}ms$"),
}
_PERCENTILE = re.compile(rf"^ +approx\. +(\d+)(?:th)? percentile: +{_N}ms$")
_NEEDED = ("transactions", "seconds", "mean")


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` for one that has no summary of OLTP."""
    remarks: list[str] = []
    bad: list[Bad] = []
    found: dict[str, float] = {}
    series: list[Sample] = []
    rank = 0
    for number, each in enumerate(text.lines, 1):
        line = each.rstrip()
        if has_commas(line) and (_BEGUN.match(line) or line.startswith("  ")):
            line = points(line)
            remarks = ["decimal commas, read as points"]
        if match := _SECOND.match(line):
            series += _second([float(part) for part in match.groups(default="0")])
        elif _BEGUN.match(line):
            bad.append(Bad(number, each))
        elif match := _PERCENTILE.match(line):
            rank, found["percentile"] = int(match[1]), float(match[2])
        else:
            found |= {name: float(it[1]) for name, known in _SUMMARY.items() if (it := known.match(line))}
    missing = [name for name in _NEEDED if not found.get(name)]
    if missing:
        raise Refused(f"sysbench before 1.0: no {missing[0]} in its output; the OLTP tests are known")
    return found_in(
        text, "sysbench", bad=bad, remarks=remarks, rows=len(series) or 1, tool="sysbench",
        undated=f"it has no times: {'its time series' if series else 'it'} is put on 1970-01-01",
        samples=(*_values(found, rank), *series), phases=(Phase("sysbench", 0.0, found["seconds"]),),
    )  # fmt: skip


def _second(row: list[float]) -> Iterator[Sample]:
    at, tps, _, _, latency, rank, errors, _ = row
    yield Sample("tps", tps, "1/s", LAYER, "", time=at)
    if tps and rank:
        yield Sample(f"latency.p{rank:.0f}", latency / 1e3, "s", LAYER, "", time=at)
    yield Sample("errors", errors, "1/s", LAYER, "", time=at)


def _values(found: Mapping[str, float], rank: int) -> Iterator[Sample]:
    yield Sample("tps", found["transactions"] / found["seconds"], "1/s", LAYER, "")
    if "queries" in found:
        yield Sample("qps", found["queries"] / found["seconds"], "1/s", LAYER, "")
    for name in ("min", "mean", "max"):
        if name in found:
            yield Sample(f"latency.{name}", found[name] / 1e3, "s", LAYER, "")
    if rank:
        yield Sample(f"latency.p{rank}", found["percentile"] / 1e3, "s", LAYER, "")
    for name in ("transactions", "errors", "reconnects"):
        if name in found:
            yield Sample(name, found[name], "1", LAYER, "")
