"""sysbench's OLTP output of 1.0 and later: a line each second, a histogram, a summary, each line with its time.
What has no times is brought into that form, and so are its reports in CSV and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from blocklab.errors import ParseError
from blocklab.formats.found import Found
from blocklab.formats.load.one_phase import of_one_phase
from blocklab.formats.load.stamped import Printed
from blocklab.formats.load.sysbench import old
from blocklab.formats.text import Bad, Refused, Text, has_commas, one_run, points
from blocklab.model import outside
from blocklab.model.sample import Parsed, Phase, Sample

LAYER = "sysbench"
PERCENTILES = (50, 95, 99)
# All that a run may report.
METRICS = (
    "tps", "qps", "latency.mean", *(f"latency.p{rank}" for rank in PERCENTILES), "latency.max", "transactions",
    "errors", "reconnects",
)  # fmt: skip
_N = r"(\d+(?:\.\d+)?)"

# Threads started!
_STARTED = "Threads started!"
# [ 1s ] thds: 4 tps: 37.99 qps: 1151.88 (r/w/o: 883.14/166.80/101.94) lat (ms,99%): 303.33 err/s: 22.24 ...
_SECOND = re.compile(
    rf"^\[ \d+s \] thds: \d+ tps: {_N} qps: {_N} \(r/w/o: \S+\) lat \(ms,(\d+)%\): {_N} err/s:? {_N} "
    rf"reconn/s: {_N}$"
)
#          99th percentile:                      164.45
_PERCENTILE = re.compile(r"^ +(\d+)(?:st|nd|rd|th) percentile: +(\d+\.\d\d)$")
#     302.654 |********                                 1
_BUCKET = re.compile(rf"^ +{_N} \|\** +(\d+)$")
#     transactions:                        162    (39.36 per sec.)
#     queries:                             4927   (1197.09 per sec.)
#     ignored errors:                      107    (26.00 per sec.)
#     total time:                          4.1105s
#     total number of events:              162
#          avg:                                   98.96
_SUMMARY: Mapping[str, re.Pattern[str]] = {
    name: re.compile(line)
    for name, line in {
        "transactions": r"^ +transactions: +(\d+) +\(.* per sec\.\)$",
        "queries": r"^ +queries: +(\d+) +\(.* per sec\.\)$",
        "errors": r"^ +ignored errors: +(\d+) +\(.* per sec\.\)$",
        "reconnects": r"^ +reconnects: +(\d+) +\(.* per sec\.\)$",
        "events": r"^ +total number of events: +(\d+)$",
        # "time elapsed" since 1.1, which has no "total time".
        "seconds": rf"^ +(?:total time|time elapsed): +{_N}s$",
        "mean": r"^ +avg: +(\d+\.\d\d)$",
        "max": r"^ +max: +(\d+\.\d\d)$",
    }.items()
}

# Of foreign files.
# [ 10s ] thds: 4 tps: 37.99 qps: 1151.88 (r/w/o: 883.14/166.80/101.94) lat (ms,95%): 303.33 err/s: 0.00 ...
_AT_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ")
_WHOLE = re.compile(r" reconn/s: \d+\.\d+$")
# 10,4,37.99,1151.88,883.14,166.80,101.94,303.33,0.00,0.00                  (sysbench.report_csv)
_CSV_LIKE = re.compile(r"^\d+,\d+,\d+\.\d\d,[\d.,]*$")
_CSV = re.compile(r"^(\d+),(\d+)((?:,\d+\.\d\d){8})$")
#   {
#     "time":   10,
#     "threads": 4,
#     "tps": 37.99,
#     "qps": {
#       "total": 1151.88, ... "other": 101.94
#     },
#     "latency": 303.33, "errors": 0.00, "reconnects": 0.00
#   },                                                                        (sysbench.report_json)
_JSON_BEGINS, _JSON_ENDS = re.compile(r"^ *\{$"), re.compile(r"^ *\},?$")
_MOST_LINES = 40
#          95th percentile:                      303.33
_RANK = re.compile(r"^ +(\d+)(?:st|nd|rd|th) percentile: ")
# sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
# sysbench 0.5:  multi-threaded system evaluation benchmark
_VERSION = re.compile(r"(?:\d{9,}\.\d{3} )?sysbench (\d+)\.(\d+)")
# Threads started!     not what it begins with: that has a call that prepares the tables, too
_RUN = re.compile(r"(?:\d{9,}\.\d{3} )?Threads started!")
# What is no value of OLTP, and how it is called. "[ 10s ] queue length: 0, concurrency: 1"
_OTHER_LINES = (
    ("lines of its queue length (--rate)", re.compile(r"^\[ \d+s \] queue length: ")),
    ("reports in between (--report-checkpoints)", re.compile(r"^\[ \d+s \] Checkpoint report:")),
    ("errors (FATAL)", re.compile(r"^FATAL: ")),
)
_OTHER_TESTS = {"CPU speed:": "cpu", "File operations:": "fileio", "Total operations:": "memory"}
_FITS = re.compile(r"^(?:\d{9,}\.\d{3} )?(?:sysbench \d+\.\d+|\[ *\d+s *\] (?:thds|threads): \d)", re.MULTILINE)
# It has no times, so they start here; the stamps of our own workloads have ten digits.
_START = 1_000_000_000.0


def fits(head: str) -> bool:
    """Whether this is sysbench's output."""
    return _FITS.search(head) is not None


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` for one that has no summary, or several runs."""
    one_run(text.lines, _RUN)
    for said, test in _OTHER_TESTS.items():
        if any(line.startswith(said) for line in text.lines):
            raise Refused(f"sysbench's {test} test: only its OLTP scripts are read; of disks blocklab reads fio")
    version = next((match for line in text.lines if (match := _VERSION.match(line))), None)
    if version is not None and int(version[1]) < 1:
        return old.read(text)
    remarks: list[str] = []
    lines = list(text.lines)
    if any(_AT_SECOND.match(line) and has_commas(line.partition("lat (ms")[0]) for line in lines):
        remarks.append("decimal commas, read as points")
        lines = [points(line) for line in lines]
    for name, pattern in _OTHER_LINES:
        if count := sum(pattern.match(line) is not None for line in lines):
            remarks.append(f"{count:,} {name} are left out")
    read_own = partial(parsed, host="", histogram=False)
    return of_one_phase(text, "sysbench", read_own, lambda bad: _stamped(lines, bad), remarks)


def _stamped(lines: Sequence[str], bad: list[Bad]) -> Iterator[tuple[float, str]]:
    at = _START
    ranks = [match[1] for line in lines if (match := _RANK.match(line))]
    for number, line in _reports(lines, ranks[0] if ranks else "0", bad):
        if any(pattern.match(line) for _, pattern in _OTHER_LINES):
            continue
        if match := _AT_SECOND.match(line):
            if not _WHOLE.search(line):
                bad.append(Bad(number, line))
                continue
            at = _START + float(match[1])
        yield at, line


def _reports(lines: Sequence[str], rank: str, bad: list[Bad]) -> Iterator[tuple[int, str]]:
    """The lines by their numbers, with the reports of CSV and JSON as sysbench prints them without; ``rank`` is
    that of their percentile, which only the summary tells."""
    number = 0
    while number < len(lines):
        line, number = lines[number], number + 1
        if _CSV_LIKE.match(line):
            match = _CSV.match(line)
            if match is None:
                bad.append(Bad(number, line))
            else:
                yield number, _usual(match[1], match[2], match[3].split(",")[1:], rank)
        elif _JSON_BEGINS.match(line) and (end := _end(lines, number)):
            block = "\n".join(lines[number - 1 : end])
            if (usual := _of_json(block, rank)) is None:
                bad.append(Bad(number, line))
            else:
                yield number, usual
            number = end
        else:
            yield number, line


def _end(lines: Sequence[str], start: int) -> int:
    """The number of the line that closes what line ``start`` opened; 0 where none does."""
    deep = 1
    for number, line in enumerate(lines[start : start + _MOST_LINES], start + 1):
        deep += line.count("{") - line.count("}")
        if deep <= 0:
            return number if _JSON_ENDS.match(line) else 0
    return 0


def _of_json(block: str, rank: str) -> str | None:
    try:
        row = outside.as_json(block.rstrip(", \n"), "")
        of = row["qps"]
        values = (row["tps"], of["total"], of["reads"], of["writes"], of["other"], row["latency"], row["errors"],
                  row["reconnects"])  # fmt: skip
        return _usual(str(int(row["time"])), str(int(row["threads"])), [f"{value:.2f}" for value in values], rank)
    except (ValueError, KeyError, TypeError):
        return None


def _usual(second: str, threads: str, values: Sequence[str], rank: str) -> str:
    tps, qps, reads, writes, other, latency, errors, reconnects = values
    return (
        f"[ {second}s ] thds: {threads} tps: {tps} qps: {qps} (r/w/o: {reads}/{writes}/{other}) "
        f"lat (ms,{rank}%): {latency} err/s: {errors} reconn/s: {reconnects}"
    )


def parsed(printed: Printed[str], host: str, *, histogram: bool = True) -> Parsed:
    """Values, series and the one phase. Raises ``ParseError``.

    ``histogram``: whether there has to be one (``--histogram``); without it only the percentile that sysbench
    prints is known.
    """
    said = printed.tail + printed.err
    start: float | None = None
    found: dict[str, float] = {}
    buckets: list[tuple[float, int]] = []
    ranks: dict[int, float] = {}
    series: list[Sample] = []
    for time, line in printed.lines:
        if line == _STARTED:
            start = time
        elif line.startswith("[ "):
            # With --rate a second line: "[ 1s ] queue length: 0, concurrency: 1"
            series += [] if "queue length:" in line else _second(line, time, host)
        elif match := _BUCKET.match(line):
            buckets.append((float(match[1]), int(match[2])))
        elif match := _PERCENTILE.match(line):
            ranks[int(match[1])] = float(match[2])
        else:
            found |= {name: float(match[1]) for name, each in _SUMMARY.items() if (match := each.match(line))}
    missing = [name for name in _SUMMARY if name not in found]
    if start is None or missing:
        raise ParseError("sysbench", f"no {(missing or [_STARTED])[0]} in its output", said)
    if not found["transactions"] or (histogram and not buckets):
        raise ParseError("sysbench", "no transaction was completed", said, hint="give it more time")
    seconds = found["seconds"]
    if not histogram and sum(count for _, count in buckets) != found["events"]:
        # One of somebody else's may have lost lines.
        buckets = []
    if buckets:
        ranks = {p: percentile(buckets, p) for p in PERCENTILES}
    samples = [
        Sample("tps", found["transactions"] / seconds, "1/s", LAYER, host),
        Sample("qps", found["queries"] / seconds, "1/s", LAYER, host),
        Sample("latency.mean", found["mean"] / 1e3, "s", LAYER, host),
        *(Sample(f"latency.p{p}", value / 1e3, "s", LAYER, host) for p, value in ranks.items()),
        Sample("latency.max", found["max"] / 1e3, "s", LAYER, host),
        *(Sample(name, found[name], "1", LAYER, host) for name in ("transactions", "errors", "reconnects")),
    ]
    return Parsed((*samples, *series), (Phase("sysbench", start, start + seconds),))


def percentile(buckets: Sequence[tuple[float, int]], percent: float) -> float:
    """The value of the bucket that holds the transaction of this rank (nearest rank)."""
    rank = percent / 100 * sum(count for _, count in buckets)
    for value, count in sorted(buckets):
        rank -= count
        if rank <= 1e-9:
            return value
    raise ValueError("a histogram without a count")


def _second(line: str, time: float, host: str) -> Iterator[Sample]:
    match = _SECOND.match(line)
    if match is None:
        raise ParseError("sysbench", "a line of its report has an unknown form", line)
    tps, qps, rank, latency, errors = (float(part) for part in match.groups()[:5])
    yield Sample("tps", tps, "1/s", LAYER, host, time=time)
    yield Sample("qps", qps, "1/s", LAYER, host, time=time)
    # --percentile=0 is none.
    if tps and rank:
        yield Sample(f"latency.p{rank:.0f}", latency / 1e3, "s", LAYER, host, time=time)
    yield Sample("errors", errors, "1/s", LAYER, host, time=time)
