"""What go-tpc prints with ``--output=json``, each line with the time at which it came, as samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

import msgspec

from blocklab.errors import ParseError, Unreadable
from blocklab.formats.load.rates import each_second
from blocklab.formats.load.stamped import Printed, lines
from blocklab.model import outside
from blocklab.model.metrics import each_of
from blocklab.model.sample import Parsed, Phase, Sample

T = TypeVar("T")

LAYER = "go-tpc"
KINDS = ("new_order", "payment", "order_status", "delivery", "stock_level")
_LATENCIES = tuple(f"latency.{name}" for name in ("mean", "p50", "p90", "p95", "p99", "p99.9", "max"))
# All that a run may report.
METRICS = ("tpmc", "tps", "latency.mean", "errors", *each_of(KINDS, ("count", *_LATENCIES)))

# One array each second (without the kinds that had no transaction; no line at all where none had), then the
# summary. Numbers are text.
# 1795239123.482 [{"50th(ms)":"62.9","90th(ms)":"113.2","95th(ms)":"159.4","99.9th(ms)":"192.9","99th(ms)":"192.9",
#   "Avg(ms)":"73.2","Count":"18","Max(ms)":"192.9","Operation":"NEW_ORDER","Prefix":"[Current] ",
#   "Sum(ms)":"1317.7","TPM":"1868.1","Takes(s)":"0.6"},{"...","Operation":"NEW_ORDER_ERR",...}]
# 1795239125.102 [2026-11-21 07:12:09] execute run failed, err exec UPDATE ... failed Error 1213 (40001): ...
# 1795239128.600 Finished
# 1795239128.601 [{...,"Operation":"DELIVERY","Prefix":"[Summary] ",...},...]
# 1795239128.602 [{"efficiency":"3527.3%","tpmC":"1814.4","tpmTotal":"4027.5"}]
# 1795239128.603 [{"Avg(s)":"18.0s","Operation":"KEYINGTIME-NEW_ORDER","Prefix":"[Summary] "},...]     (--wait)
_FAILED = "] execute run failed, err "
_FINISHED = "Finished"
# Seconds from its last line to its end in which nothing was done, and not only what was under way brought to an
# end.
_SILENT = 2.0
# "TPM" has one decimal.
_ROUNDED = 0.05


class OperationRow(msgspec.Struct):
    """One kind of transaction in one second or altogether; milliseconds."""

    kind: str = msgspec.field(name="Operation")
    prefix: str = msgspec.field(name="Prefix")
    count: int = msgspec.field(name="Count")
    # Counted from the end of the first one of its kind, which it counts: so too high, the more so the fewer there
    # are.
    tpm: float = msgspec.field(name="TPM")
    # Exact, where Avg is of buckets.
    total: float = msgspec.field(name="Sum(ms)")
    p90: float = msgspec.field(name="90th(ms)")
    p99: float = msgspec.field(name="99th(ms)")
    p999: float = msgspec.field(name="99.9th(ms)")
    # go-tpc before 1.0.8 has none of these.
    p50: float | None = msgspec.field(default=None, name="50th(ms)")
    p95: float | None = msgspec.field(default=None, name="95th(ms)")
    max: float | None = msgspec.field(default=None, name="Max(ms)")


Line: TypeAlias = str | Sequence[OperationRow]


class _Score(msgspec.Struct):
    tpmc: float = msgspec.field(name="tpmC")


class _Output:
    """All that go-tpc printed, sorted; lines of rows may be typed already. Raises ``ParseError``."""

    def __init__(self, lines: Iterable[tuple[float, Line]]) -> None:
        self.seconds: list[tuple[float, Sequence[OperationRow]]] = []
        self.summary: Sequence[OperationRow] = ()
        self.score: _Score | None = None
        self.end = 0.0
        self.failures: list[str] = []
        for time, line in lines:
            if not isinstance(line, str):
                self._rows(time, line)
            elif line == _FINISHED:
                self.end = time
            elif _FAILED in line:
                self.failures.append(line.partition(_FAILED)[2])
            elif line.startswith('[{"efficiency"'):
                self.score = _decode(line, list[_Score])[0]
            elif line.startswith("[{") and '"Avg(s)"' not in line:
                self._rows(time, _decode(line, list[OperationRow]))

    def _rows(self, time: float, rows: Sequence[OperationRow]) -> None:
        if rows[0].prefix.startswith("[Summary]"):
            self.summary = rows
        else:
            self.seconds.append((time, rows))


def so_far(out: bytes) -> list[float]:
    """Transactions in each second, of output that is still being written.

    A last line cut in the middle is left out. Raises ``ParseError``.
    """
    return each_second(_steps(_Output(lines(out))))


def parsed(printed: Printed[Line], host: str, *, timed: bool = False, thinks: bool = False) -> Parsed:
    """Values, series and the one phase. Raises ``ParseError``.

    ``timed``: each line has the time at which it came, so that rates need not be go-tpc's own. ``thinks``: its
    threads pause between transactions, and after the last one too.
    """
    found = _Output(printed.lines)
    if not found.end:
        raise ParseError("go-tpc", "no summary in its output", printed.tail + printed.err)
    good = {row.kind.lower(): row for row in _good(found.summary)}
    if found.score is None and "new_order" in good:
        raise ParseError("go-tpc", "no tpmC line in its output, which ends before it", printed.err)
    if found.score is None or "new_order" not in good:
        failed = found.failures
        why = f"; {len(failed)} transactions failed, the last one of: {failed[-1]}" if failed else ""
        raise ParseError(
            "go-tpc", f"no new-order transaction was completed{why}", printed.err, hint="give it more time"
        )
    # The one that began first; of a rare kind rounding leaves the time open.
    seconds = max(60.0 * row.count / (row.tpm + _ROUNDED) for row in good.values())
    total = sum(row.count for row in good.values())
    tps, tpmc = total / seconds, found.score.tpmc
    if timed:
        tps = _rate(found, total, seconds, thinks=thinks)
        tpmc = 60.0 * tps * good["new_order"].count / total
    samples = [
        Sample("tpmc", tpmc, "1/min", LAYER, host),
        Sample("tps", tps, "1/s", LAYER, host),
        Sample("latency.mean", _mean(good.values()), "s", LAYER, host),
        Sample("errors", float(max(len(found.failures), _failed(found.summary))), "1", LAYER, host),
    ]
    for kind in KINDS:
        if kind in good:
            samples += _values(kind, good[kind], host)
    # They count from the end of a first transaction, which took time too.
    begun = found.end - seconds - (_mean(good.values()) if timed else 0.0)
    phase = Phase("tpcc", begun, found.end)
    return Parsed((*samples, *_series(found.seconds, phase, host)), (phase,))


def _rate(found: _Output, total: int, seconds: float, *, thinks: bool) -> float:
    """Transactions a second, from the first of go-tpc's lines on. A time that begins or ends with a transaction
    has up to one too many of each thread: little on a fast stack, much on a slow one.

    Without two lines it is what was done in ``seconds``, after the end of the first one. Raises ``ParseError``.
    """
    steps = _steps(found, thinks=thinks)
    took, done = sum(step for step, _ in steps), sum(count for _, count in steps)
    if took <= 0:
        took, done = seconds, total - 1
    if done < 1:
        raise ParseError("go-tpc", "too few transactions were completed for a rate", hint="give it more time")
    return done / took


def _steps(found: _Output, *, thinks: bool = False) -> list[tuple[float, int]]:
    """(seconds, transactions) from each of go-tpc's lines to the next, which come whatever its threads do. Where
    nothing was done for long before its end, that time is one more: a stall has no line. But thinking has none
    either."""
    marks = [(time, sum(row.count for row in _good(rows))) for time, rows in found.seconds]
    steps = [(time - before, count) for (before, _), (time, count) in pairwise(marks)]
    if steps and found.summary and found.end - marks[-1][0] > _SILENT and not thinks:
        rest = sum(row.count for row in _good(found.summary)) - sum(count for _, count in marks)
        steps.append((found.end - marks[-1][0], rest))
    return steps


def _failed(summary: Iterable[OperationRow]) -> int:
    """With ``--silence`` go-tpc prints no line of a failure, but still counts them all."""
    return sum(row.count for row in summary if row.kind.endswith("_ERR"))


def _good(rows: Sequence[OperationRow]) -> list[OperationRow]:
    return [row for row in rows if not row.kind.endswith("_ERR") and row.count and row.tpm]


def _decode(line: str, kind: type[list[T]]) -> list[T]:
    try:
        rows = outside.typed_json(line, kind, "", strict=False)
    except Unreadable as error:
        raise ParseError("go-tpc", f"a line of its output cannot be read: {error}", line) from error
    if not rows:
        raise ParseError("go-tpc", "a line of its output is empty", line)
    return rows


def _values(kind: str, row: OperationRow, host: str) -> Iterator[Sample]:
    yield Sample(f"{kind}.count", float(row.count), "1", LAYER, host)
    values = {
        "mean": row.total / row.count, "p50": row.p50, "p90": row.p90, "p95": row.p95, "p99": row.p99,
        "p99.9": row.p999, "max": row.max,
    }  # fmt: skip
    for name, value in values.items():
        if value is None:
            continue
        yield Sample(f"{kind}.latency.{name}", value / 1e3, "s", LAYER, host)


def _mean(rows: Iterable[OperationRow]) -> float:
    """Seconds, over all kinds."""
    listed = list(rows)
    return sum(row.total for row in listed) / sum(row.count for row in listed) / 1e3


def _series(seconds: Sequence[tuple[float, Sequence[OperationRow]]], phase: Phase, host: str) -> Iterator[Sample]:
    """A second without any transaction has no line; the next one then is the mean since the one before."""
    before = phase.start
    for time, rows in seconds:
        good = _good(rows)
        count = sum(row.count for row in good)
        if time > before:
            yield Sample("tps", count / (time - before), "1/s", LAYER, host, time=time)
        if count:
            yield Sample("latency.mean", _mean(good), "s", LAYER, host, time=time)
        before = time
