"""The verdict of a drill: what the client was told against what the database has. Pure, so that it can be made
again from stored files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from blocklab.model.drill import Attempt, Binlog, Ledger, Missing, Verdict

# Writes that are accepted leave no longer silence (s) at the end of a workload: a drill ends while some came in
# the last half second, as the client's counters say each tenth.
STILL_SECONDS = 0.75


def check(
    attempts: Sequence[Attempt] | None,
    ledger: Ledger | None,
    fault: float | None,
    why_unread: str = "",
    *,
    until: float | None = None,
    binlog_unread: str = "",
) -> Verdict:
    """What was lost, and how long nothing was acknowledged. Never raises for what a history may hold.

    ``fault`` and ``until`` (when the workload was over) are seconds by the client's clock; None where unknown.
    ``ledger`` is of one snapshot of the database; None where it could not be read, and ``why_unread`` says why;
    ``binlog_unread`` does so for a binary log that should be there.

    An acknowledged transaction without its row is *missing*. One in doubt may be there or not: neither is a loss.
    A row is *unexpected* where its transaction was refused (COMMIT was never sent) or is not in the history.

    *Torn*: each transaction inserts its row and does ``UPDATE tally SET n = n + 1, last = id`` for its worker, so
    whatever was committed in whatever order, a worker's ``n`` is the number of its rows, and its ``last`` is one
    of them. Which one is certain only so far: a transaction that was sent after another one had been acknowledged
    was committed after it, so ``last`` cannot be acknowledged while a row of a later one is there. No more is
    asked of the order, since one in doubt may be committed long after, behind its worker's next one.

    ``unknown``, and never ``ok``: without a history, with one that contradicts itself, without a ledger, and where
    nothing was acknowledged that could be missing.
    """
    if not attempts:
        return Verdict("unknown", "there is no history" if attempts is None else "the history is empty")
    counts = Counter(attempt.answer for attempt in attempts)
    verdict = Verdict(
        "unknown",
        attempted=len(attempts),
        acknowledged=counts["acknowledged"],
        refused=counts["refused"],
        in_doubt=counts["in doubt"],
    )
    if said := _contradiction(attempts):
        return msgspec.structs.replace(verdict, why=said)
    last, first, rto = _outage(attempts, fault, until)
    verdict = msgspec.structs.replace(verdict, last=last, first=first, rto_seconds=rto)
    if ledger is None:
        return msgspec.structs.replace(verdict, why=why_unread or "the ledger could not be read")
    return _compared(verdict, attempts, ledger, binlog_unread)


def _compared(verdict: Verdict, attempts: Sequence[Attempt], ledger: Ledger, binlog_unread: str) -> Verdict:
    by_id = {attempt.id: attempt for attempt in attempts}
    rows = ledger.rows
    missing = sorted(
        (
            Missing(attempt.id, attempt.ended)
            for attempt in attempts
            if attempt.answer == "acknowledged" and attempt.ended is not None and attempt.id not in rows
        ),
        key=lambda each: (each.acknowledged, each.id),
    )
    unexpected = tuple(sorted(id for id in rows if id not in by_id or by_id[id].answer == "refused"))
    torn = _torn(by_id, ledger)
    behind = _behind(attempts)
    stale = sum(each.id in behind for each in missing)
    defects = _defects(verdict.acknowledged, (len(missing), stale), len(unexpected), torn)
    nothing = "" if verdict.acknowledged else "nothing was acknowledged, so nothing could be lost"
    return msgspec.structs.replace(
        verdict,
        status="lost" if defects else "unknown" if nothing else "ok",
        why=defects or nothing,
        found=len(rows),
        in_doubt_found=sum(attempt.answer == "in doubt" and attempt.id in rows for attempt in attempts),
        missing=tuple(missing),
        unexpected=unexpected,
        torn=torn,
        rpo_seconds=_rpo(missing, attempts, verdict.last) if verdict.acknowledged else None,
        binlog=_binlog(by_id, ledger, binlog_unread),
    )


def _contradiction(attempts: Sequence[Attempt]) -> str:
    """What makes a history unfit to judge by; empty where nothing does."""
    seen: set[int] = set()
    for attempt in attempts:
        if attempt.id in seen:
            return f"the history has transaction {attempt.id} twice"
        seen.add(attempt.id)
        if attempt.answer == "acknowledged" and attempt.ended is None:
            return f"the history does not say when transaction {attempt.id} was acknowledged"
        if not all(math.isfinite(time) for time in _times(attempt)):
            return f"the history has a time of transaction {attempt.id} that is none"
    return ""


def _defects(acknowledged: int, gone: tuple[int, int], unexpected: int, torn: Sequence[str]) -> str:
    said = []
    missing, stale = gone
    if missing:
        verb = "is" if missing == 1 else "are"
        text = f"{missing:,} of {acknowledged:,} acknowledged transactions {verb} gone"
        if stale:
            text += f", {stale:,} of them acknowledged by a server whose successor had already begun"
        said.append(text)
    if torn:
        more = f" and {len(torn) - 1} more" if len(torn) > 1 else ""
        said.append(f"torn: {torn[0]}{more}")
    if unexpected:
        rows = "row is there that nobody" if unexpected == 1 else "rows are there that nobody"
        said.append(f"{unexpected:,} {rows} can have committed")
    return "; ".join(said)


def _torn(by_id: Mapping[int, Attempt], ledger: Ledger) -> tuple[str, ...]:
    mine: dict[int, list[int]] = {}
    for id, worker in ledger.rows.items():
        mine.setdefault(worker, []).append(id)
    said = []
    for worker in sorted({*mine, *ledger.tally}):
        count, last = ledger.tally.get(worker, (0, 0))
        ids = mine.get(worker, [])
        if count != len(ids):
            said.append(f"worker {worker} has {len(ids):,} rows, and its tally counts {count:,}")
        elif ids and ledger.rows.get(last) != worker:
            said.append(f"the tally of worker {worker} ends with {last}, which is no row of its own")
        elif ids and (later := _after(by_id, last, ids)) is not None:
            said.append(f"the tally of worker {worker} ends with {last}, but {later} was committed after it")
    for id, worker in ledger.rows.items():
        if id in by_id and by_id[id].worker != worker:
            said.append(f"row {id} says worker {worker}, but worker {by_id[id].worker} wrote it")
    return tuple(said)


def _after(by_id: Mapping[int, Attempt], last: int, ids: Sequence[int]) -> int | None:
    """A row whose transaction was surely committed after that of ``last``, None where there is none."""
    told = by_id.get(last)
    if told is None or told.answer != "acknowledged" or told.ended is None:
        return None
    for id in ids:
        other = by_id.get(id)
        if other is not None and id != last and other.sent is not None and other.sent > told.ended:
            return id
    return None


def _rpo(missing: Sequence[Missing], attempts: Sequence[Attempt], last: float | None) -> float:
    """``last``: the last acknowledgement before the longest silence."""
    if not missing:
        return 0.0
    gone = {each.id for each in missing}
    losers = {attempt.server for attempt in attempts if attempt.id in gone}
    served = [attempt for attempt, behind in _in_turn(attempts) if not behind]
    heir = served[-1].server
    # What ended a server that another one succeeded need not be the longest silence.
    ends = [each.ended for each in served if each.ended is not None and each.server in losers - {heir}]
    if last is not None and heir in losers:
        ends.append(last)
    # With two primaries the old one goes on acknowledging what is lost after the outage.
    return max([missing[-1].acknowledged, *ends]) - missing[0].acknowledged


def _binlog(by_id: Mapping[int, Attempt], ledger: Ledger, unread: str) -> Binlog | None:
    if ledger.binlog is None:
        return Binlog("unknown", why=unread) if unread else None
    rows = ledger.rows.keys() & by_id.keys()
    logged = ledger.binlog & by_id.keys()
    behind, ahead = len(rows - logged), len(logged - rows)
    said = []
    if behind:
        said.append(f"a replica would lack {behind:,} rows that the tables have")
    if ahead:
        said.append(f"a replica would have {ahead:,} rows that the tables lack")
    return Binlog("differs" if said else "level", behind, ahead, "; ".join(said))


def _outage(
    attempts: Sequence[Attempt], fault: float | None, until: float | None
) -> tuple[float | None, float | None, float | None]:
    """The last acknowledgement before the longest silence that ends after the fault, the first one after it, and
    how long it was.

    Once another server has acknowledged something, its predecessor's acknowledgements are those of a second
    primary and end no silence. A silence that lasts until the end, with transactions in it that should have been
    done, has no end, even where an earlier one was longer: then there is only the last one. Before the first
    acknowledgement of all it counts from when the first transaction was due.
    """
    times = _served(attempts)
    if not times:
        return None, None, None
    if fault is None:
        return times[-1], None, None
    begin = min(attempt.scheduled for attempt in attempts)
    gaps: list[tuple[float, float | None, float]] = []
    if times[0] > fault:
        gaps.append((max(0.0, times[0] - begin), None, times[0]))
    gaps += [(after - before, before, after) for before, after in pairwise(times) if after > fault]
    longest = max(gaps, key=lambda gap: gap[0], default=(-1.0, None, 0.0))
    begun = any(
        attempt.answer == "acknowledged" and attempt.sent is not None and attempt.sent > fault
        for attempt in attempts
    )
    # What had been sent before the fault and was acknowledged after it was only on its way.
    if not gaps or not begun or _endless(attempts, times, fault, longest[0], until):
        return times[-1], None, None
    return longest[1], longest[2], longest[0]


def _served(attempts: Sequence[Attempt]) -> list[float]:
    """When something was acknowledged, by time, by the server that nobody had succeeded yet."""
    return [attempt.ended for attempt, behind in _in_turn(attempts) if not behind and attempt.ended is not None]


def _behind(attempts: Sequence[Attempt]) -> set[int]:
    """The ids of what a server acknowledged whose successor had already begun."""
    return {attempt.id for attempt, behind in _in_turn(attempts) if behind}


def _in_turn(attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, bool]]:
    """The acknowledged ones by time, and whether another server had begun after theirs."""
    answered = sorted(
        (attempt for attempt in attempts if attempt.answer == "acknowledged" and attempt.ended is not None),
        key=lambda attempt: (attempt.ended or 0.0, attempt.server),
    )
    begun: dict[int, int] = {}
    for attempt in answered:
        turn = begun.setdefault(attempt.server, len(begun))
        yield attempt, turn < len(begun) - 1


def _endless(
    attempts: Sequence[Attempt], times: Sequence[float], fault: float, longest: float, until: float | None
) -> bool:
    """Whether nothing came any more, though something was to be done: the silence at the end is longer than the
    longest one before, or, when the workload was over, was longer than any that there had been in peace."""
    last = times[-1]
    open_ = [
        attempt
        for attempt in attempts
        if attempt.answer != "acknowledged" and (attempt.ended is None or attempt.ended > last)
    ]
    if not open_:
        return False
    end = max(time for attempt in open_ for time in _times(attempt))
    over = last if until is None else until
    calm = max((after - before for before, after in pairwise(times) if after <= fault), default=0.0)
    return max(end, over) - last > longest or over - last > max(STILL_SECONDS, calm)


def _times(attempt: Attempt) -> list[float]:
    return [time for time in (attempt.scheduled, attempt.sent, attempt.ended) if time is not None]
