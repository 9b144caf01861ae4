"""A drill: what the client saw, what was done to the nodes, what was found afterwards, and the verdict. Plain
data.

Times are seconds since the epoch by the client's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

# A workload has recovered at this part of its rate before the fault, over so many seconds.
RECOVERED, WINDOW = 0.9, 1.0

Answer: TypeAlias = Literal["acknowledged", "refused", "in doubt"]
Status: TypeAlias = Literal["ok", "lost", "unknown"]
Back: TypeAlias = Literal["rate", "writes", "never"]


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One transaction that the ledger's client was to do.

    ``scheduled``: when it was due; ``sent``: when it began, None if it never did; ``ended``: when the client knew
    its ``answer``, None if it never did. ``refused`` only where its COMMIT was never sent; ``in doubt`` where it
    was and no answer came. ``server`` counts the addresses that the client knows, from 0.
    """

    id: int
    worker: int
    scheduled: float
    sent: float | None
    ended: float | None
    answer: Answer
    server: int
    why: str = ""


class Ledger(msgspec.Struct, frozen=True):
    """What the database had afterwards: ``rows`` (id -> worker), and ``tally`` (worker -> how many it counted, the
    last id), which each transaction updates along with its row.

    ``binlog`` holds the ids in the binary log since the ledger was made; None where the server has none or it was
    not asked for.
    """

    rows: Mapping[int, int]
    tally: Mapping[int, tuple[int, int]]
    binlog: frozenset[int] | None = None


class Missing(msgspec.Struct, frozen=True):
    """An acknowledged transaction that is gone, and when it was acknowledged."""

    id: int
    acknowledged: float


class Binlog(msgspec.Struct, frozen=True):
    """The binary log against the tables: a replica that follows it would lack ``behind`` rows that the tables
    have, and have ``ahead`` rows that they lack. ``level``: neither."""

    status: Literal["level", "differs", "unknown"]
    behind: int = 0
    ahead: int = 0
    why: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What the history and the database say together.

    ``lost`` where acknowledged rows are missing, transactions are torn, or there are rows that nobody can have
    committed; ``unknown`` where it could not be told. ``found``: rows in the table, of whatever answer.
    ``rpo_seconds``: from the acknowledgement of the oldest missing row to the last acknowledgement before the
    outage that lost it; 0 where nothing is missing, and where only the very last one is. ``rto_seconds``: the
    longest time without an acknowledgement that ends after the fault, which is from ``last`` to ``first``; None
    where none came any more.
    """

    status: Status
    why: str = ""
    attempted: int = 0
    acknowledged: int = 0
    refused: int = 0
    in_doubt: int = 0
    found: int = 0
    in_doubt_found: int = 0
    missing: tuple[Missing, ...] = ()
    unexpected: tuple[int, ...] = ()
    torn: tuple[str, ...] = ()
    rpo_seconds: float | None = None
    rto_seconds: float | None = None
    last: float | None = None
    first: float | None = None
    binlog: Binlog | None = None


class Bin(msgspec.Struct, frozen=True, array_like=True):
    """What the client saw in a short time from ``time`` on: how many transactions were due, and how many of each
    answer it got. ``p50`` and ``longest``: the latency (s) of those acknowledged, from when they were due; None
    where there were none."""

    time: float
    scheduled: int = 0
    acknowledged: int = 0
    refused: int = 0
    in_doubt: int = 0
    p50: float | None = None
    longest: float | None = None


class Event(msgspec.Struct, frozen=True):
    """Something that happened at a moment: a fault, what the monitor noticed."""

    time: float
    what: str
    said: str = ""


class Stage(msgspec.Struct, frozen=True):
    """A part of the outage. Each begins where the one before it ended."""

    name: str
    start: float
    end: float


class MirrorState(msgspec.Struct, frozen=True):
    """The two sides of a mirror after the old primary was taken in again.

    ``copies``: a checksum of each host's data, made past the mirror; ``verified``: bytes that the mirror's own
    comparison found to differ, None where it was not asked, since the checksums are the same.
    """

    status: Literal["in sync", "differs", "split brain", "unknown"]
    verified: int | None = None
    copies: Mapping[str, str] = {}
    seconds: float = 0.0
    why: str = ""


class Drill(msgspec.Struct, frozen=True):
    """One drill. ``servers``: the hosts at the addresses that the client knows, in its order. ``survivor`` is
    empty where nothing could take over. ``stages`` add up to the verdict's ``rto_seconds``; there are none where
    nothing took over, and where the longest silence is not the takeover's."""

    seed: str
    fault: str
    active: str
    survivor: str
    took_over: bool
    servers: tuple[str, ...]
    events: tuple[Event, ...]
    stages: tuple[Stage, ...]
    verdict: Verdict
    mirror: MirrorState | None = None
    rate: float | None = None
    """Acknowledged transactions per second until the fault."""
    struck: float | None = None
    """When the (first) fault struck; None where none did."""
    until: float | None = None
    """When the client's load was over."""
    bins: tuple[Bin, ...] = ()
    """The whole history in short times of equal length, without a gap."""
    width: float = 0.1
    """How long each of them is (s)."""
    after: float | None = None
    """How long after its start, or after the rate was steady, the study's first fault was due (s)."""

    @property
    def never(self) -> bool:
        """Whether no write was accepted again after the fault, as far as the client's history tells."""
        verdict = self.verdict
        return self.struck is not None and verdict.last is not None and verdict.rto_seconds is None

    @property
    def newest_lost(self) -> float | None:
        """How long (s) before the fault the newest lost transaction had been acknowledged; below 0 where that was
        after it: its answer was on its way (a few ms), or a second primary gave it. None where none was lost."""
        missing = self.verdict.missing
        return None if not missing or self.struck is None else self.struck - missing[-1].acknowledged

    @property
    def recovered(self) -> float | None:
        """How long (s) it took from the last acknowledgement before the outage until the client had ``RECOVERED``
        of its rate again, for ``WINDOW``: to the start of that second, at most ``width`` too late. None where it
        had not while it was watched, or that is not known."""
        verdict = self.verdict
        if verdict.first is None or verdict.rto_seconds is None or not self.rate:
            return None
        steps = max(1, round(WINDOW / self.width))
        end = math.inf if self.until is None else self.until
        after = [each for each in self.bins if each.time + self.width > verdict.first]
        for at in range(len(after) - steps + 1):
            window = after[at : at + steps]
            if window[-1].time > end:
                break
            if sum(each.acknowledged for each in window) >= RECOVERED * self.rate * steps * self.width:
                start = max(window[0].time, verdict.first)
                return verdict.rto_seconds + start - verdict.first
        return None

    @property
    def came_back(self) -> Back | None:
        """What came back after the fault, while it was watched: ``RECOVERED`` of the rate before it, writes at
        less than that or where no rate before it is known, or no write at all. None where that is not known."""
        if self.never:
            return "never"
        if self.verdict.rto_seconds is None:
            return None
        return "writes" if self.recovered is None else "rate"
