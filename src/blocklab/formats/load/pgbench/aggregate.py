"""pgbench's log of intervals (``--aggregate-interval``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from blocklab.formats.found import MOST_BAD, Found
from blocklab.formats.load.pgbench import single
from blocklab.formats.load.pgbench.summary import LAYER
from blocklab.formats.text import Bad, Refused, Text, mostly
from blocklab.model.sample import Phase, Sample

# 1345828501 5601 1542744 483552416 61 2573          interval's start (s), transactions; of the latencies (us) sum,
#                                                    sum of squares, least, greatest
# 1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866 64 7564 28340 4148 0     (since 15)
_INTERVAL = re.compile(r"[1-9]\d{9}(?: \d+){5,}")
# What stands behind these six: lag (--rate) since 9.4, skipped (--latency-limit) since 9.5, the rest since 15,
# when all of them are there, with 0 for what was not asked for.
_LAG, _SKIPPED = slice(6, 10), 10
_MORE = {"skipped": (10,), "retried": (11,), "retries": (12,), "failed": (13, 14)}
_COLUMNS = (6, 10, 11, 15)


def fits(head: str) -> bool:
    """Whether these are intervals."""
    return mostly(_INTERVAL, head) and not single.fits(head)


def read(texts: Sequence[Text]) -> Found:
    """The values and time series of intervals, of all files (one for each thread); no percentiles, which they do
    not tell. Raises ``Refused``."""
    read = [_intervals(text) for text in texts]
    bad = [each for _, bad in read for each in bad]
    steps = [after[0] - before[0] for rows, _ in read for before, after in pairwise(rows) if after[0] > before[0]]
    every = sorted(row for rows, _ in read for row in rows)
    done = sum(row[1] for row in every)
    if not steps or not done:
        raise Refused("looks like pgbench --aggregate-interval, but without two complete intervals of work")
    step, start = min(steps), every[0][0]
    # Threads may begin in two seconds, so that the same interval begins at two times.
    parts: dict[int, list[list[int]]] = {}
    for row in every:
        parts.setdefault((2 * (row[0] - start) + step) // (2 * step), []).append(row)
    # The last interval is seldom whole, nor is one that some thread lacks.
    whole = [rows for at, rows in parts.items() if at < max(parts) and len(rows) >= len(texts)]
    if not whole:
        raise Refused("looks like pgbench --aggregate-interval, but has no interval of all threads")
    counts = [sum(row[1] for row in rows) for rows in whole]
    samples = [
        Sample("tps", sum(counts) / (step * len(whole)), "1/s", LAYER, ""),
        Sample("transactions", float(done), "1", LAYER, ""),
        Sample("latency.mean", sum(row[2] for row in every) / done / 1e6, "s", LAYER, ""),
        Sample("latency.max", max(row[5] for row in every) / 1e6, "s", LAYER, ""),
        *_more(every, done),
    ]
    for rows, count in zip(whole, counts, strict=True):
        at = float(rows[0][0] + step)
        samples.append(Sample("tps", count / step, "1/s", LAYER, "", time=at))
        if count:
            mean = sum(row[2] for row in rows) / count / 1e6
            samples.append(Sample("latency.mean", mean, "s", LAYER, "", time=at))
    first, end = float(start), float(every[-1][0] + step)
    return Found(
        kind="pgbench-aggregate", path=texts[0].path, rows=len(every), tool=LAYER, bad=len(bad),
        bad_rows=tuple(bad[:MOST_BAD]), samples=tuple(samples), phases=(Phase(LAYER, first, end),), start=first,
        end=end, remarks=(*texts[0].remarks, *_interval_remarks(every, step, len(whole), len(parts))),
    )  # fmt: skip


def _more(rows: Sequence[Sequence[int]], done: int) -> Iterator[Sample]:
    """What was not done at once, or waited for its turn. A count of 0 may be one that was not asked for."""
    for name, columns in _MORE.items():
        if count := sum(row[column] for row in rows for column in columns if column < len(row)):
            yield Sample(name, float(count), "1", LAYER, "")
    lags = [row[_LAG] for row in rows if len(row) > _SKIPPED - 1]
    if any(sum(lag) for lag in lags):
        yield Sample("lag.mean", sum(lag[0] for lag in lags) / done / 1e6, "s", LAYER, "")
        yield Sample("lag.max", max(lag[3] for lag in lags) / 1e6, "s", LAYER, "")


def _interval_remarks(rows: Sequence[Sequence[int]], step: int, whole: int, parts: int) -> Iterator[str]:
    yield f"intervals of {step} s: percentiles are not known"
    yield f"TPS is the mean over {whole:,} whole intervals, all other values are of all {parts:,}"
    kinds = zip(("serialization", "deadlock"), _MORE["failed"], strict=True)
    failed = {kind: sum(row[column] for row in rows if column < len(row)) for kind, column in kinds}
    if any(failed.values()):
        yield f"failed transactions: {', '.join(f'{count:,} {kind}' for kind, count in failed.items() if count)}"
    if odd := {len(row) for row in rows} - {*_COLUMNS}:
        unknown = max(odd) - max(count for count in _COLUMNS if count <= max(odd))
        yield f"{unknown} of its columns are not known, and left out"


def _intervals(text: Text) -> tuple[list[list[int]], list[Bad]]:
    """The whole rows by time, and the others."""
    rows: list[list[int]] = []
    bad: list[Bad] = []
    votes = Counter(line.count(" ") for line in text.lines)
    fields = votes.most_common(1)[0][0] if votes else 0
    for number, line in enumerate(text.lines, 1):
        match = _INTERVAL.fullmatch(line)
        if match is None or line.count(" ") != fields:
            bad.append(Bad(number, line))
        else:
            rows.append([int(part) for part in line.split(" ")])
    if text.cut:
        bad.append(Bad(len(text.lines) + 1, text.cut, True))
    return sorted(rows), bad
