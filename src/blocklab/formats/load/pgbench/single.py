"""pgbench's log with a line for each transaction (``-l``).
https://www.postgresql.org/docs/17/pgbench.html#id-1.9.4.11.9.7"""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklab.errors import ParseError
from blocklab.formats.found import Found
from blocklab.formats.load.logs.columns import Lines
from blocklab.formats.load.logs.reader import Reader
from blocklab.formats.load.logs.summary import Latency, LogSummary, Numbered, every_second, latency_values
from blocklab.formats.load.logs.tally import Tally, grouped
from blocklab.formats.load.pgbench.summary import LAYER
from blocklab.formats.text import Bad, Refused, mostly, refusal
from blocklab.model.sample import Latencies, Phase, Sample, Transaction

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MICROSECONDS = 1e6
# Lines of --aggregate-interval have other numbers where the time of the end should be.
_EPOCH = 10**9
_SUBSECOND_DIGITS = 6

# 0 199 2241 0 1175850568 995598              client, transaction, latency (us), script, end (s, us)
# 0 81 4621 0 1412881037 912698 3005          with the schedule lag (us): --rate
# 0 82 6173 0 1412881037 914578 4304 1        and the retries: --max-tries
# 3 0 skipped 0 1412881037 914578 5217        also: failed, serialization, deadlock
_ROW = re.compile(
    rb"(\d{1,18}) (\d{1,18}) (?:(\d{1,18})|(failed|skipped|serialization|deadlock|other)) \d+ "
    rb"([1-9]\d{9,17}) (\d{1,6})(?: -?\d+){0,2}"
)
# Of a log that lacks a greater part of the transactions than this, the rate is not known.
LACKING = 0.005
# A damaged row is a transaction, most likely, but no rate is made of so many guesses.
DAMAGED = 0.01
# So many transactions are kept each, as of a run of our own; of more the density and the percentiles.
MOST_KEPT = 20_000
FEW_SECONDS, PARTS = 30, 40
# 0 199 2241 0 1175850568 995598     2 0 skipped 0 1412881037 914578 5217
_LOGGED = re.compile(
    r"\d+ \d+ (?:\d+|failed|skipped|serialization|deadlock|other) \d+ [1-9]\d{9} \d{1,6}(?: -?\d+){0,2}"
)


def fits(head: str) -> bool:
    """Whether these are single transactions."""
    return mostly(_LOGGED, head)


class _Pgbench(Reader):
    """The rows add up in ``tally``."""

    tool = "pgbench"
    between = b" "
    row = _ROW
    fields = 6

    def __init__(self, keep: int) -> None:
        super().__init__()
        self.tally = Tally()
        self.start: float | None = None
        self.end: float | None = None
        # client -> first and last number of a transaction, rows
        self._clients: dict[int, tuple[int, int, int]] = {}
        # Single transactions (ends and latencies in us), as long as they are no more than ``keep``.
        self._keep = keep
        self._kept: list[tuple[Floats, Integers]] = []

    def done(self) -> tuple[tuple[float, float], ...]:
        """The single transactions by their ends; empty where they are too many."""
        if not self._kept:
            return ()
        ends = np.concatenate([each for each, _ in self._kept])
        latencies = np.concatenate([each for _, each in self._kept])
        order = np.argsort(ends, kind="stable")
        rows = ((column[order] / _MICROSECONDS).tolist() for column in (ends, latencies))
        return tuple(zip(*rows, strict=True))

    def clients(self) -> dict[int, Numbered]:
        """Each client's transactions."""
        return {client: Numbered(*each) for client, each in sorted(self._clients.items())}

    def plain(self, match: re.Match[bytes]) -> bytes:
        """Without script, lag and retries."""
        return b"%b %b %b 0 %b %b\n" % match.group(1, 2, 3, 5, 6)

    def without(self, match: re.Match[bytes]) -> str:
        """``failed``, ``skipped``, ...; empty for a transaction that was done."""
        if match[4] is None:
            return ""
        self._number(int(match[1]), int(match[2]), int(match[2]), 1)
        return match[4].decode()

    def _number(self, client: int, first: int, last: int, rows: int) -> None:
        low, high, count = self._clients.get(client, (first, last, 0))
        self._clients[client] = (min(low, first), max(high, last), count + rows)

    def take(self, lines: Lines) -> bool:
        """By the second in which the transaction ended."""
        if lines.widths(5).max() > _SUBSECOND_DIGITS:
            return False
        clients, numbers = lines.numbers(0), lines.numbers(1)
        latencies, ends, parts = lines.numbers(2), lines.numbers(4), lines.numbers(5)
        if clients is None or numbers is None or latencies is None or ends is None or parts is None:
            return False
        if ends.min() < _EPOCH:
            return False
        self._numbers(clients, numbers)
        # Doubles hold the microseconds of the next 200 years exactly.
        exact = ends.astype(np.float64)
        exact *= _MICROSECONDS
        exact += parts
        start, end = float((exact - latencies).min()) / _MICROSECONDS, float(exact.max()) / _MICROSECONDS
        self.start = start if self.start is None else min(start, self.start)
        self.end = end if self.end is None else max(end, self.end)
        self._keep -= len(exact)
        if self._keep >= 0:
            self._kept.append((exact, latencies))
        else:
            self._kept.clear()
        self.tally.add(ends, latencies)
        return True

    def _numbers(self, clients: Integers, numbers: Integers) -> None:
        names, keys = grouped(clients)
        counts = np.bincount(keys)
        first, last = np.full(len(counts), np.iinfo(np.int64).max), np.zeros(len(counts), np.int64)
        np.minimum.at(first, keys, numbers)
        np.maximum.at(last, keys, numbers)
        for at in np.flatnonzero(counts).tolist():
            self._number(int(names[at]), int(first[at]), int(last[at]), int(counts[at]))


def pgbench_log(paths: Iterable[str | Path], *, keep: int = 0) -> LogSummary:
    """The values of a transaction log, of all its files (one for each thread); ``count`` of a second is its TPS.

    The lines of a file have as many fields as most of its first 1000 rows; one with fewer was cut. The last line
    needs its newline. ``keep``: up to so many single transactions are kept as well. Raises ``ParseError`` for a
    file that cannot be read.
    """
    log = _Pgbench(keep)
    log.read(paths)
    latency = log.tally.latency(_MICROSECONDS)
    return LogSummary(
        {"transaction": latency} if latency is not None else {},
        dict(log.left_out), log.bad, log.first_bad, tuple(log.remarks),
        log.start, log.end, log.done(), log.clients(),
    )  # fmt: skip


def transactions(logs: Iterable[bytes]) -> tuple[Transaction, ...]:
    """The transactions of whole logs (one for each thread), by their ends; failed and skipped ones are left out,
    and so is a last line that was cut. Raises ``ParseError`` for any other line that is no transaction."""
    log = _Pgbench(sys.maxsize)
    log.mixed = True
    for text in logs:
        log.add(io.BytesIO(text[: text.rfind(b"\n") + 1]))
    if log.first_bad is not None:
        raise ParseError("pgbench", "a line of its log is not a transaction", log.first_bad.text)
    return tuple(Transaction(*each) for each in log.done())


def first_through(logs: Iterable[bytes]) -> float:
    """When the first of the clients had its last transaction (seconds since the epoch), by logs as
    ``transactions`` takes them. Each client does the same number, so from then on fewer and fewer are at work."""
    last: dict[bytes, float] = {}
    for log in logs:
        for line in log.split(b"\n")[:-1]:
            fields = line.split(b" ", 6)
            last[fields[0]] = int(fields[4]) + int(fields[5]) / 1e6
    return min(last.values())


def read(paths: Sequence[Path]) -> Found:
    """The values, percentiles and time series of single transactions, of all files (one for each thread).

    Raises ``Refused``.
    """
    try:
        read = pgbench_log(paths, keep=MOST_KEPT)
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
        kind="pgbench-log", path=paths[0], rows=done.count, tool=LAYER, bad=read.bad,
        bad_rows=(Bad(first.line, first.text, first.cut),) if first is not None else (),
        samples=(*counted, *latency_values(done, LAYER)), phases=(Phase(LAYER, read.start, read.end),),
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
