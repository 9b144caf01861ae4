"""A finding as data: about what, by which numbers, how often, how sure. ``stats.sentences`` says it in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

import msgspec

from blocklab.stats.ratio import verdict
from blocklab.stats.summary import Estimate

T = TypeVar("T")
# What such a ratio is nobody knows: it is no end of a range. One that differs by itself, if not among all, is.
UNCLEAR = ("too noisy to say", "unlike machines")
FindingKind = Literal[
    "nothing", "range", "factor", "latency", "need", "needs", "comparisons", "expectations",
    "lost by", "safe", "unsafe", "lost", "rto", "drills",
    "imported", "cpu", "other work", "own cpu", "limited", "unlike", "unsteady", "warm-up",
    "floor", "repeats", "precision", "part", "quick", "gaps",
    "repeat gaps", "machines disagree", "machines unfit", "no baseline",
]  # fmt: skip
# Which number of a finding it is; of comparisons and expectations it is what they decided.
Name = Literal[
    "", "acknowledged", "missing", "worst", "torn", "unexpected", "crashes, at least", "crashes, at most", "RPO",
    "newest lost", "RTO", "recovered", "not recovered", "stage",
    "asked", "p99", "p99, at least", "baseline", "latency", "RTT", "mine",
    "for", "of", "by", "whole", "steady", "skipped",
    "differs", "no difference shown", "too noisy to say", "one build", "unlike machines",
    "ok", "failed", "unknown",
]  # fmt: skip


class Number(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number in ``unit``, which is empty for a ratio; ``half`` is that of its 95 % interval, ``low`` and
    ``high`` are the ends of one that is not symmetric. ``name`` says which number of the finding it is, ``at``
    where it was found."""

    value: float
    half: float | None = None
    unit: str = ""
    metric: str = ""
    name: Name = ""
    at: str = ""
    low: float | None = None
    high: float | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. ``stack`` is the layout, ``about`` the workload, the factor or the metric; ``beside`` what the
    numbers are a share of. ``count`` of ``of`` cells, drills or comparisons are ``names``; ``verdict`` is what the
    numbers decide, ``level`` the factor's level, ``note`` a reason or a description in words."""

    kind: FindingKind
    about: str = ""
    stack: str = ""
    beside: str = ""
    numbers: tuple[Number, ...] = ()
    count: int = 0
    of: int = 0
    names: tuple[str, ...] = ()
    verdict: str = ""
    level: str = ""
    note: str = ""

    def all(self, name: Name) -> list[Number]:
        """The numbers of that name."""
        return [each for each in self.numbers if each.name == name]

    def value(self, name: Name) -> float | None:
        """The first number of that name; None without one."""
        return next((each.value for each in self.numbers if each.name == name), None)

    def needed(self, name: Name) -> float:
        """The same of one that every finding of its kind has. Raises ``LookupError`` without one."""
        if (found := self.value(name)) is None:
            raise LookupError(f"a finding of the kind {self.kind} has no {name}")
        return found


def number_of(found: Estimate, unit: str = "", metric: str = "", name: Name = "", at: str = "") -> Number:
    """An estimate as a number of a finding."""
    return Number(found.value, found.half, unit, metric, name, at)


def clear(every: Iterable[T], share: Callable[[T], Estimate]) -> list[T]:
    """Those whose shares are neither too noisy to say nor of unlike machines, the smallest first."""
    kept = [each for each in every if verdict(_alone(share(each))) not in UNCLEAR]
    return sorted(kept, key=lambda each: share(each).value)


def _alone(share: Estimate) -> Estimate:
    """As if it were the only comparison."""
    return msgspec.structs.replace(share, doubt="") if share.doubt == "chance" else share


def share_range(
    stack: str,
    shares: Sequence[tuple[Estimate, str]],
    beside: str,
    *,
    throughput: bool,
    about: str = "",
    note: str = "",
) -> Finding:
    """What a stack keeps of the baseline, or has: the least and the most of its shares, each with its place.
    ``count`` of them are too noisy to say, and no end of the range; without numbers all are. ``verdict`` is
    ``keeps`` of throughput that is not above the baseline's."""
    ranked = clear(shares, lambda each: each[0])
    ends = [ranked[0], ranked[-1]] if len(ranked) > 1 else ranked
    keeps = throughput and all(share.value <= 1 for share, _ in ends)
    return Finding(
        "range", about, stack, beside, tuple(number_of(share, at=at) for share, at in ends),
        count=len(shares) - len(ranked), of=len(shares), verdict="keeps" if keeps else "has", note=note,
    )  # fmt: skip
