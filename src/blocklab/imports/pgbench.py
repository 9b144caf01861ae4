"""pgbench: its summary, its log with a line for each transaction, and that of ``--aggregate-interval``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from blocklab.errors import ParseError
from blocklab.formats.found import MOST_BAD, Found, found_in
from blocklab.formats.text import Bad, Refused, Text, has_commas, one_run, points, refusal
from blocklab.model.sample import Latencies, Phase, Sample, Transaction
from blocklab.workloads import logs, pgbench_output
from blocklab.workloads.logs import Latency, LogSummary, every_second

TOOL = LAYER = pgbench_output.LAYER
# Of a log that lacks a greater part of the transactions than this, the rate is not known.
LACKING = 0.005
# A damaged row is a transaction, most likely, but no rate is made of so many guesses.
DAMAGED = 0.01
# So many transactions are kept each, as of a run of our own; of more the density and the percentiles.
MOST_KEPT = 20_000
FEW_SECONDS, PARTS = 30, 40

# 0 199 2241 0 1175850568 995598     2 0 skipped 0 1412881037 914578 5217     more samples:
# workloads/logs/pgbench.py
_LOGGED = re.compile(
    r"\d+ \d+ (?:\d+|failed|skipped|serialization|deadlock|other) \d+ [1-9]\d{9} \d{1,6}(?: -?\d+){0,2}"
)
# 1345828501 5601 1542744 483552416 61 2573          interval's start (s), transactions; of the latencies (us) sum,
#                                                    sum of squares, least, greatest
# 1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866 64 7564 28340 4148 0     (since 15)
_INTERVAL = re.compile(r"[1-9]\d{9}(?: \d+){5,}")
# What stands behind these six: lag (--rate) since 9.4, skipped (--latency-limit) since 9.5, the rest since 15,
# when all of them are there, with 0 for what was not asked for.
_LAG, _SKIPPED = slice(6, 10), 10
_MORE = {"skipped": (10,), "retried": (11,), "retries": (12,), "failed": (13, 14)}
_COLUMNS = (6, 10, 11, 15)
# ... 12 failed, lag 0.128 ms, 4 skipped, 3 retried, 5 retries
_COUNTED = re.compile(r", (\d+) (failed|skipped|retried|retries)\b")
_VOTERS = 50
# Times since the epoch are above this, those since the start below it.
_DATED = 1e8
# number of transactions actually processed: 10000/10000
_SUMMARY = re.compile(r"number of transactions actually processed: ")
# progress: 5.0 s, 879.9 tps, lat 1.463 ms stddev 0.958, 0 failed
_PROGRESS = re.compile(r"^progress: \d+\.\d s, \d", re.MULTILINE)


def _most(pattern: re.Pattern[str], head: str) -> bool:
    lines = head.split("\n")[:_VOTERS]
    whole = lines[:-1] or lines
    return sum(pattern.fullmatch(line) is not None for line in whole) > len(whole) / 2


def fits_summary(head: str) -> bool:
    """Whether this is what pgbench prints at the end."""
    return (
        re.search(r"^(?:transaction type:|number of transactions actually processed:)", head, re.MULTILINE)
        is not None
    )


def fits_progress(head: str) -> bool:
    """Whether these are the lines of ``-P`` without a summary: of a cut run, or stderr alone."""
    return _PROGRESS.search(head) is not None and not fits_summary(head)


def fits_log(head: str) -> bool:
    """Whether these are single transactions."""
    return _most(_LOGGED, head)


def fits_aggregate(head: str) -> bool:
    """Whether these are intervals."""
    return _most(_INTERVAL, head) and not fits_log(head)


def summary(text: Text) -> Found:
    """The values of the whole run, and the time series of ``-P`` where it has times. Raises ``Refused``."""
    remarks = list(text.remarks)
    lines = [*text.lines, text.cut] if text.cut.strip() else list(text.lines)
    one_run(lines, _SUMMARY)
    said = [index for index, line in enumerate(lines) if re.search(r"(?:= |: )\d+,\d+ ", line)]
    if said:
        remarks.append(f"line {said[0] + 1}: decimal commas, read as points")
        lines = [points(line) if index in said else line for index, line in enumerate(lines)]
    whole = "".join(f"{line}\n" for line in lines).encode()
    try:
        samples = pgbench_output.summary(whole, b"", "", own=False)
        samples += pgbench_output.progress(whole, "", 0.0)
    except ParseError as error:
        raise refusal(error) from error
    times = [sample.time for sample in samples if sample.time is not None]
    if not any(sample.metric == "latency.mean" and sample.time is None for sample in samples):
        remarks.append("it has no latency average: this pgbench did not say it")
    timed = min(times, default=0.0) > _DATED
    if times and not timed:
        remarks.append(
            "its time series (-P) has no times (--progress-timestamp): it is put on 1970-01-01, or where the log "
            "beside it begins"
        )
    return Found(
        kind="pgbench", path=text.path, rows=len(samples), tool=TOOL, samples=tuple(samples),
        start=min(times) - 1 if timed else None, end=max(times) if timed else None, remarks=tuple(remarks),
    )  # fmt: skip


def progress(text: Text) -> Found:
    """The time series of ``-P``, and its means: there is no summary. Raises ``Refused``."""
    if any(_SUMMARY.match(line) for line in text.lines):
        # Behind more lines than are looked at to see what a file is.
        return summary(text)
    samples: list[Sample] = []
    bad: list[Bad] = []
    counted: Counter[str] = Counter()
    commas = 0
    for number, line in enumerate(text.lines, 1):
        if not line.startswith("progress: "):
            continue
        counted.update({name: int(count) for count, name in _COUNTED.findall(line)})
        if has_commas(line.replace(", ", " ")):
            commas = commas or number
            line = points(line)
        try:
            samples += pgbench_output.progress(f"{line}\n".encode(), "", 0.0)
        except ParseError:
            bad.append(Bad(number, line))
    rates = [sample for sample in samples if sample.metric == "tps"]
    waits = [sample for sample in samples if sample.metric != "tps"]
    if not rates:
        raise Refused("looks like pgbench -P, but has no complete line")
    times = [sample.time or 0.0 for sample in rates]
    remarks = [f"it has no summary: TPS and latency are means over its {len(rates)} lines of -P"]
    if commas:
        remarks.append(f"line {commas}: decimal commas, read as points")
    timed = min(times) > _DATED
    if not timed:
        remarks.append("its lines have no times (--progress-timestamp): they are put on 1970-01-01")
    # Each line stands for the same time; of the latencies one with more transactions counts more.
    done = {sample.time: sample.value for sample in rates}
    means = [Sample("tps", sum(done.values()) / len(rates), "1/s", LAYER, "")]
    if total := sum(done[sample.time] for sample in waits):
        mean = sum(sample.value * done[sample.time] for sample in waits) / total
        means.append(Sample("latency.mean", mean, "s", LAYER, ""))
    means += [Sample(name, float(count), "1", LAYER, "") for name, count in counted.items() if count]
    return found_in(
        text, "pgbench-progress", bad=bad, remarks=remarks, rows=len(rates), tool=TOOL,
        samples=(*means, *samples), start=min(times) - 1 if timed else None, end=max(times) if timed else None,
    )  # fmt: skip


def log(paths: Sequence[Path]) -> Found:
    """The values, percentiles and time series of single transactions, of all files (one for each thread).

    Raises ``Refused``.
    """
    try:
        read = logs.pgbench_log(paths, keep=MOST_KEPT)
    except ParseError as error:
        raise refusal(error) from error
    done = read.latency.get("transaction")
    if done is None or read.start is None or read.end is None:
        raise Refused("looks like pgbench -l, but has no complete row")
    remarks = [remark.removeprefix(f"{paths[0]}: ") for remark in read.remarks]
    lost = ", ".join(f"{count:,} {why}" for why, count in read.left_out.items())
    if lost:
        remarks.append(f"transactions without a latency: {lost}")
    lacking = read.numbered - read.rows - read.bad
    partly = lacking > LACKING * read.numbered or read.bad > DAMAGED * read.numbered
    if partly and lacking <= LACKING * read.numbered:
        remarks.append(f"{read.bad:,} of its rows are damaged: no TPS and no time series are made of it")
    elif lacking > 0:
        most = "so no TPS and no time series are made of it; its latencies stay" if partly else "too few to matter"
        remarks.append(
            f"its clients counted {read.numbered:,} transactions, of which it has {read.rows:,} (pgbench "
            f"--sampling-rate, or lines that are lost): {most}"
        )
    try:
        counted = [] if partly else [*_values(done, read), *_series(done, read)]
    except ParseError as error:
        raise refusal(error) from error
    first = read.first_bad
    return Found(
        kind="pgbench-log", path=paths[0], rows=done.count, tool=TOOL, bad=read.bad,
        bad_rows=(Bad(first.line, first.text, first.cut),) if first is not None else (),
        samples=(*counted, *latency_values(done, LAYER)), phases=(Phase(TOOL, read.start, read.end),),
        transactions=tuple(Transaction(*each) for each in read.done),
        latencies=Latencies(done.count, done.curve, done.tiles), start=read.start, end=read.end,
        clients=frozenset(read.clients), remarks=tuple(remarks),
    )  # fmt: skip


def _values(done: Latency, read: LogSummary) -> Iterator[Sample]:
    assert read.start is not None and read.end is not None
    if read.end > read.start:
        yield Sample("tps", done.count / (read.end - read.start), "1/s", LAYER, "")
    yield Sample("transactions", float(done.count), "1", LAYER, "")
    failed: Counter[str] = Counter()
    for why, count in read.left_out.items():
        failed["skipped" if why == "skipped" else "failed"] += count
    for metric, count in failed.items():
        yield Sample(metric, float(count), "1", LAYER, "")


def latency_values(done: Latency, layer: str, prefix: str = "", phase: str = "") -> Iterator[Sample]:
    """Mean, deviation, percentiles and the greatest one."""
    values = {"mean": done.mean, "stddev": done.stddev, **done.percentiles, "max": done.max}
    for name, value in values.items():
        yield Sample(f"{prefix}latency.{name}", value, "s", layer, "", phase)


def _series(done: Latency, read: LogSummary) -> Iterator[Sample]:
    """TPS and mean latency of each whole second: the first and the last are seldom whole.

    Of a log so short that these are too few for an interval, of as many equal parts as are enough for one. Raises
    ``ParseError`` for times that jump.
    """
    seconds = every_second(LAYER, done.series)
    if len(seconds) >= FEW_SECONDS or not read.done:
        for each in seconds[1:-1]:
            yield Sample("tps", float(each.count), "1/s", LAYER, "", time=each.time + 1.0)
            if each.count:
                yield Sample("latency.mean", each.mean, "s", LAYER, "", time=each.time + 1.0)
        return
    start, end = read.done[0][0], read.done[-1][0]
    step = (end - start) / PARTS
    parts: list[list[float]] = [[] for _ in range(PARTS)]
    for at, latency in read.done:
        parts[min(PARTS - 1, int((at - start) / step)) if step else 0].append(latency)
    for number, latencies in enumerate(parts, 1) if step else ():
        yield Sample("tps", len(latencies) / step, "1/s", LAYER, "", time=start + number * step)
        if latencies:
            mean = sum(latencies) / len(latencies)
            yield Sample("latency.mean", mean, "s", LAYER, "", time=start + number * step)


def aggregate(texts: Sequence[Text]) -> Found:
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
        kind="pgbench-aggregate", path=texts[0].path, rows=len(every), tool=TOOL, bad=len(bad),
        bad_rows=tuple(bad[:MOST_BAD]), samples=tuple(samples), phases=(Phase(TOOL, first, end),), start=first,
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
