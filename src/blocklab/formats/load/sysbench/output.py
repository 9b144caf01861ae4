"""What sysbench prints (a line each second, a histogram, a summary), each line stamped, as samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from blocklab.errors import ParseError
from blocklab.formats.load.stamped import lines
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


def read(raw: Mapping[str, bytes], host: str, *, histogram: bool = True) -> Parsed:
    """Values, series and the one phase. Raises ``ParseError``.

    ``histogram``: whether there has to be one (``--histogram``); without it only the percentile that sysbench
    prints is known.
    """
    said = raw["stdout"].decode(errors="replace")[-2000:] + raw.get("stderr", b"").decode(errors="replace")
    start: float | None = None
    found: dict[str, float] = {}
    buckets: list[tuple[float, int]] = []
    ranks: dict[int, float] = {}
    series: list[Sample] = []
    for time, line in lines(raw["stdout"]):
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
