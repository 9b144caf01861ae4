"""When a workload has been measured long enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from blocklab.model.units import Duration, Share

# "3..15"
_ROUNDS = re.compile(r"(\d{1,4})\.\.(\d{1,4})")
LEAST_ROUNDS, MOST_ROUNDS, EACH = 3, 15, 4.0
AT_LEAST, AT_MOST = 5.0, 60.0
# SNIA's Performance Test Specification: a window of five rounds, and 25 of them at most.
SNIA_WINDOW, SNIA_MOST, SNIA_EACH = 5, 25, 5.0
# A part of any rate: what no spread within a run tells of, at 95 %. A capped volume gives 0.17 % more in a minute
# with its saved-up start than without it, and one I/O in 3,000 at the edge of a round is 0.03 %, while rounds and
# seconds agree to 0.00 % (ADR 15).
SYSTEMATIC = 0.003


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stopping rule of a workload: short rounds, one long run, or a fixed time.

    Several short rounds, of which each is a run of the workload by itself (the default)::

        stop: {rounds: 3..15, each: 4s, half_width: 2%}

    A workload with phases (the jobs of ``fio``) runs its phases in a shuffled order in each round; a phase whose
    values are sure enough is left out of further rounds. Every value gets an interval from its values in the
    rounds, and none is narrower than 0.3 %, since rounds that agree may be wrong together. IOPS and bandwidth of
    ``fio`` are those after a round's first second, in which a capped volume gives what it has saved up.

    One long run, whose values are read while it goes::

        stop: {half_width: 2%, at_least: 5s, at_most: 60s}

    The warm-up is cut off (MSER-5) of IOPS, bandwidth, TPS and tpmC; latencies and counts are those of the whole
    run. It ends when the interval of the mean is narrow enough. sysbench cannot be ended early, so it goes in
    rounds only.

    Always the same time::

        stop: {fixed: 60s}

    ``stop: snia`` takes rounds of 5 s until five in a row are in the steady state of SNIA's Performance Test
    Specification, or there are 25.
    """

    half_width: Share | None = None
    """Of the 95 % interval, relative to the mean; 2 % unless given. A workload ends when the rate that it is known
    by (IOPS, transactions a second) is as sure as that: in rounds reads and writes together, in one long run each.
    Above 0.3 %."""
    rounds: str = ""
    """The least and the most rounds, as ``3..15``."""
    each: Duration | None = None
    """How long a round takes, in whole seconds."""
    at_least: Duration | None = None
    """The least time of one long run, without the warm-up."""
    at_most: Duration | None = None
    """The most time of one long run, in whole seconds."""
    fixed: Duration | None = None
    """Neither less nor more, in whole seconds."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """(field, problem and hint) pairs."""
        given = [name for name in ("rounds", "each", "at_least", "at_most", "fixed") if getattr(self, name)]
        if self.fixed is not None and (len(given) > 1 or self.half_width is not None):
            yield "fixed", "stands alone: a fixed time needs nothing else"
        if {"rounds", "each"} & set(given) and {"at_least", "at_most"} & set(given):
            yield "rounds", "give rounds and each, or at_least and at_most, not both"
        if self.half_width is not None and not SYSTEMATIC < self.half_width < 0.5:
            least = f"{SYSTEMATIC:.1%}, to which a rate is known at best"
            yield "half_width", f"{self.half_width}: must be above {least}, and below 50%"
        match = _ROUNDS.fullmatch(self.rounds)
        if self.rounds and (match is None or not 2 <= int(match[1]) <= int(match[2])):
            yield "rounds", f"{self.rounds!r}: give the least and the most, at least 2, like 3..15"
        for name in ("each", "at_most", "fixed"):
            value = getattr(self, name)
            if value is not None and (value < 1 or value % 1):
                yield name, f"{value}: give whole seconds, at least 1s"
        rule = self.rule() if not self.rounds or match else None
        if rule is not None and rule.kind == "long" and not 0 < rule.at_least <= rule.at_most:
            yield "at_least", "must be above 0s and not above at_most"

    def rule(self) -> Rule:
        """The rule with everything that is not given filled in."""
        half = float(self.half_width) if self.half_width is not None else 0.02
        if self.fixed is not None:
            return Rule("fixed", at_most=float(self.fixed))
        if self.at_least is not None or self.at_most is not None:
            most = float(self.at_most) if self.at_most is not None else AT_MOST
            least = float(self.at_least) if self.at_least is not None else min(AT_LEAST, most)
            return Rule("long", half, at_least=least, at_most=most)
        match = _ROUNDS.fullmatch(self.rounds)
        least_rounds, most_rounds = (int(match[1]), int(match[2])) if match else (LEAST_ROUNDS, MOST_ROUNDS)
        each = float(self.each) if self.each is not None else EACH
        return Rule("rounds", half, least_rounds, most_rounds, each)


class Rule(msgspec.Struct, frozen=True):
    """What a stopping rule comes down to: times in seconds, ``half_width`` as a part of the mean."""

    kind: Literal["rounds", "long", "snia", "fixed"]
    half_width: float = 0.02
    least: int = LEAST_ROUNDS
    most: int = MOST_ROUNDS
    each: float = EACH
    at_least: float = AT_LEAST
    at_most: float = AT_MOST

    @property
    def seconds(self) -> float:
        """How long (s) one start of the workload takes at most."""
        return self.at_most if self.kind in ("long", "fixed") else self.each

    @property
    def longest(self) -> float:
        """The longest time (s) that one phase is measured."""
        return self.at_most if self.kind in ("long", "fixed") else self.most * self.each

    @property
    def shortest(self) -> float:
        """The shortest time (s) that one phase is measured."""
        if self.kind == "fixed":
            return self.at_most
        return self.at_least if self.kind == "long" else self.least * self.each


AnyStop: TypeAlias = Stop | Literal["snia"]
DEFAULT = Stop()
SNIA = Rule("snia", least=SNIA_WINDOW, most=SNIA_MOST, each=SNIA_EACH)


def rule_of(stop: AnyStop) -> Rule:
    """The rule that a study's ``stop`` stands for."""
    return SNIA if isinstance(stop, str) else stop.rule()
