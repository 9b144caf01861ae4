"""What the ledger's writer keeps on its node: the history of every transaction, and lines of counters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from blocklab.errors import ParseError
from blocklab.model import outside
from blocklab.model.drill import Answer, Attempt
from blocklab.model.sample import Parsed, Phase, Sample, Transaction

LAYER = "ledger"
FORM = 1
CUT = "no answer: the writer was ended"
# Who would have done a transaction that was never begun.
NOBODY = -1

_ANSWERS: dict[bytes, Answer] = {b"a": "acknowledged", b"r": "refused", b"d": "in doubt"}


class History(msgspec.Struct, frozen=True):
    """What a history says of itself. ``rate``: transactions due a second, None for one after the other.
    ``servers``: the addresses, by which an attempt's ``server`` counts. ``start``, ``stop``: from when until when
    transactions were due (seconds since the epoch), None where the writer was ended before. ``whole``: it ended by
    itself."""

    kind: str
    rate: float | None
    connections: int
    servers: tuple[str, ...]
    opened: float
    start: float | None = None
    stop: float | None = None
    whole: bool = False


class _Begun(msgspec.Struct):
    worker: int
    server: int
    scheduled: float
    sent: float


def attempts(text: bytes) -> tuple[list[Attempt], History]:
    """Every transaction of a history by the time when it was due, and what the history says of itself.

    The lines are (``blocklab-ledger``, fields apart by tabs, microseconds since the epoch)::

        ledger  1  postgresql  500  8  10.77.0.1:5432,10.77.1.1:5432  1795232995283000
        s  1795232995301000  1795233005301000
        b  1795232995283000  3  0  1795232995301000  1795232995301042
        a  1795232995283000  1795232995303377
        n  1795232995283700  1795232996701000  1795232997701512  no connection

    ``b`` is written before a transaction is sent; ``a``, ``r`` and ``d`` when it was acknowledged, refused or in
    doubt, ``n`` when one was never begun; ``e`` at the end. One that was begun and has no end is in doubt. A last
    line cut in the middle is dropped. Raises ``ParseError`` with the line's number.
    """
    lines = text.split(b"\n")
    # The piece after the last newline: empty, or a line that was cut.
    lines.pop()
    if not lines:
        raise ParseError(LAYER, "the history is empty", hint="was the file fetched, and did the writer start?")
    history = _head(lines[0])
    begun: dict[int, _Begun] = {}
    found: list[Attempt] = []
    number = 1
    try:
        for line in lines[1:]:
            number += 1
            history = _line(line.split(b"\t"), history, begun, found)
    except (ValueError, KeyError) as error:
        said = "an end without a beginning" if isinstance(error, KeyError) else str(error)
        shown = lines[number - 1][:200].decode(errors="replace")
        raise ParseError(LAYER, f"line {number} of the history cannot be read: {said}", shown) from error
    found += [
        Attempt(key, each.worker, each.scheduled, each.sent, None, "in doubt", each.server, CUT)
        for key, each in begun.items()
    ]
    found.sort(key=lambda each: (each.scheduled, each.id))
    if len({each.id for each in found}) != len(found):
        raise ParseError(LAYER, "an id occurs twice in the history")
    return found, history


def _line(fields: list[bytes], history: History, begun: dict[int, _Begun], found: list[Attempt]) -> History:
    """Take one line in; what the history says of itself then."""
    what = fields[0]
    if history.whole:
        raise ValueError("a line after the end")
    if what == b"b":
        _, key, worker, server, scheduled, sent = fields
        if int(key) in begun:
            raise ValueError("an id that was begun already")
        begun[int(key)] = _Begun(int(worker), int(server), int(scheduled) / 1e6, int(sent) / 1e6)
    elif what in _ANSWERS:
        _, key, ended, *why = fields
        found.append(_ended(int(key), begun.pop(int(key)), int(ended) / 1e6, _ANSWERS[what], why))
    elif what == b"n":
        _, key, scheduled, ended, because = fields
        times = int(scheduled) / 1e6, int(ended) / 1e6
        text = because.decode(errors="replace")
        found.append(Attempt(int(key), NOBODY, times[0], None, times[1], "refused", NOBODY, text))
    elif what == b"s":
        _, start, stop = fields
        return msgspec.structs.replace(history, start=int(start) / 1e6, stop=int(stop) / 1e6)
    elif what == b"e":
        _, _, stop = fields
        return msgspec.structs.replace(history, stop=int(stop) / 1e6, whole=True)
    else:
        raise ValueError("no such kind of line")
    return history


def _ended(key: int, each: _Begun, ended: float, answer: Answer, why: Sequence[bytes]) -> Attempt:
    if len(why) != (answer != "acknowledged"):
        raise ValueError("a wrong number of fields")
    text = why[0].decode(errors="replace") if why else ""
    return Attempt(key, each.worker, each.scheduled, each.sent, ended, answer, each.server, text)


def _head(line: bytes) -> History:
    try:
        what, form, kind, rate, connections, servers, opened = line.decode().split("\t")
        if what != "ledger" or int(form) != FORM:
            raise ValueError(f"not a history of form {FORM}")
        many = None if rate == "max" else float(rate)
        return History(kind, many, int(connections), tuple(servers.split(",")), int(opened) / 1e6)
    except ValueError as error:
        shown = line[:200].decode(errors="replace")
        raise ParseError(LAYER, f"line 1 of the history cannot be read: {error}", shown) from error


def values(tried: Sequence[Attempt], history: History, host: str) -> tuple[list[Sample], list[Transaction]]:
    """``tps`` (1/s), ``latency.mean|p50|p95|p99|max`` (s, from when each was due), ``acknowledged``, ``refused``,
    ``in_doubt`` (1), ``tps`` of each second, and the acknowledged transactions. Raises ``ParseError``."""
    done = [
        Transaction(each.ended, each.ended - each.scheduled)
        for each in tried
        if each.answer == "acknowledged" and each.ended is not None
    ]
    done.sort(key=lambda each: each.end)
    phase = phase_of(tried, history)
    if not done or phase is None:
        why = "; ".join(sorted({each.why for each in tried if each.why})[:3])
        raise ParseError(LAYER, "no transaction was acknowledged", why, hint="could the client reach the server?")
    seconds = phase.end - phase.start
    ordered = sorted(each.latency for each in done)
    rows = [
        ("tps", sum(each.end <= phase.end for each in done) / seconds, "1/s"),
        ("latency.mean", math.fsum(ordered) / len(ordered), "s"),
        *(
            (f"latency.{name}", ordered[math.ceil(len(ordered) * rank) - 1], "s")
            for name, rank in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
        ),
        *((name.replace(" ", "_"), float(sum(each.answer == name for each in tried)), "1") for name in _COUNTED),
    ]
    samples = [Sample(metric, value, unit, LAYER, host) for metric, value, unit in rows]
    counts = [0] * math.floor(seconds)
    for each in done:
        index = math.floor(each.end - phase.start)
        if index < len(counts):
            counts[index] += 1
    samples += [
        Sample("tps", float(count), "1/s", LAYER, host, time=phase.start + index + 1)
        for index, count in enumerate(counts)
    ]
    return samples, done


_COUNTED: tuple[Answer, ...] = ("acknowledged", "refused", "in doubt")
# All that a run may report.
METRICS = (
    "tps", *(f"latency.{name}" for name in ("mean", "p50", "p95", "p99", "max")), "acknowledged", "refused",
    "in_doubt", "late.max",
)  # fmt: skip


def phase_of(tried: Sequence[Attempt], history: History) -> Phase | None:
    """When transactions were due; of a writer that was killed, until the last sign of it. None where it was ended
    before any were."""
    if history.start is None or history.stop is None:
        return None
    stop = history.stop
    if not history.whole:
        seen = (time for each in tried for time in (each.sent, each.ended) if time is not None)
        stop = min(stop, max(seen, default=stop))
    return Phase(LAYER, history.start, stop) if stop > history.start else None


def before(attempts: Sequence[Attempt], history: History, struck: float | None, host: str) -> Parsed:
    """The workload's values until the fault struck: what it does on this layout in peace. Empty where nothing was
    acknowledged by then."""
    stop = min(filter(None, (history.stop, struck)), default=None)
    calm = msgspec.structs.replace(history, stop=stop, whole=True)
    tried = [
        each
        for each in attempts
        if (stop is None or each.scheduled < stop)
        # What was still under way when it struck had to do with it.
        and (struck is None or (each.ended is not None and each.ended <= struck))
    ]
    try:
        samples, done = values(tried, calm, host)
    except ParseError:
        # The verdict says so.
        return Parsed()
    phase = phase_of(tried, calm)
    return Parsed(tuple(samples), (phase,) if phase else (), tuple(done))


def latest(out: bytes) -> float:
    """How late (s) the writer began what was due while a connection was free, at worst; of its counters::

        {"time": 1795232995.403112, "scheduled": 50, "acknowledged": 49, "refused": 0, "in_doubt": 0,
         "server": 0, "connected": 8, "late": 0.000113}

    (one line). Raises ``ParseError``.
    """
    lines = out.split(b"\n")[:-1]
    try:
        return float(max(outside.as_json(line, "")["late"] for line in lines))
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(
            LAYER, f"the writer's counters cannot be read: {error}", out[-500:].decode(errors="replace")
        ) from error
