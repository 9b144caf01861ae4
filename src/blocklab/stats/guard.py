"""``--fail-on "tps < 0.95"``: a condition on ratios, decided by their intervals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from blocklab.errors import StudyError
from blocklab.stats.naming import CellKey, cell_label
from blocklab.stats.summary import Estimate
from blocklab.stats.versus import Pair, Versus, metrics_of

Outcome = Literal["fails", "passes", "undecided"]
# tps < 0.95 stack=mirror workload=tpcc rtt=10ms     tps < 0.95 commits="waited for"
_FORM = re.compile(r"\s*([\w.]+)\s*(<=|>=|<|>)\s*(\d+(?:\.\d+)?|\.\d+)(?:\s+(\S.*))?\s*", re.DOTALL)
_FILTER = re.compile(r"[\w-]+=.+")
_FILTERS = ("stack", "workload", "phase")
_QUOTED = "put a level with blanks in quotes: 'tps < 0.95 commits=\"waited for\"'"
_EXAMPLE = 'write METRIC < RATIO or METRIC > RATIO, e.g. "tps < 0.95" or "write.latency.p99 > 1.2 stack=mirror"'


class Condition(msgspec.Struct, frozen=True):
    """A ratio B / A on this side of ``bound`` is a failure. ``only``: stack, workload, phase or a factor of the
    study to the name or level that it is about."""

    text: str
    metric: str
    below: bool
    bound: float
    only: dict[str, str] = {}

    def takes(self, cell: CellKey, phase: str | None = None) -> bool:
        """Whether the filters let a cell through; without ``phase`` whichever it has."""
        here = {**dict(cell[2]), "stack": cell[0], "workload": cell[1], "phase": phase}
        asked = self.only if phase is not None else {k: v for k, v in self.only.items() if k != "phase"}
        return all(here.get(name) == wanted for name, wanted in asked.items())

    def judge(self, share: Estimate | None) -> Outcome:
        """``fails`` where all of the 95 % interval is on the wrong side of the bound, ``passes`` where none of it
        is, ``undecided`` where the bound is in it, there is no ratio, each side is of one build, or they are of
        unlike machines."""
        if share is None or share.half is None or share.doubt == "unlike machines":
            return "undecided"
        low, high = share.value - share.half, share.value + share.half
        worse, better = (
            (high < self.bound, low >= self.bound) if self.below else (low > self.bound, high <= self.bound)
        )
        return "fails" if worse else "passes" if better else "undecided"


class Judged(msgspec.Struct, frozen=True):
    """What a condition says of one value, or of a cell that has none on side B."""

    condition: str
    outcome: Outcome
    label: str
    share: Estimate | None
    why: str


def condition(text: str) -> Condition:
    """Read an expression. Raises ``StudyError`` that says what it should look like."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise StudyError("", f"--fail-on {text!r} is not a metric, < or >, and a ratio of B to A", hint=_EXAMPLE)
    metric, sign, bound, rest = match.groups(default="")
    only = dict(word.split("=", 1) for word in _filters(text, rest))
    if float(bound) == 0:
        raise StudyError("", f"--fail-on {text!r}: no ratio is below 0", hint=_EXAMPLE)
    return Condition(" ".join(text.split()), metric, sign[0] == "<", float(bound), only)


def _filters(text: str, rest: str) -> list[str]:
    """What stands behind the ratio, split as a shell does: a level may have blanks. Raises ``StudyError``."""
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise StudyError("", f"--fail-on {text!r}: {str(error).lower()}", hint=_QUOTED) from error
    for word in words:
        if not _FILTER.fullmatch(word):
            raise StudyError("", f"--fail-on {text!r}: {word!r} is no filter, like stack=mirror", hint=_QUOTED)
    return words


def judge(conditions: Sequence[Condition], found: Versus) -> tuple[Judged, ...]:
    """Every condition on every value that it is about. Raises ``StudyError`` when it is about none."""
    return tuple(judged for each in conditions for judged in _judge(each, found))


def _judge(condition: Condition, found: Versus) -> Iterator[Judged]:
    _known_filters(condition, found)
    named = [pair for pair in found.pairs if pair.metric == condition.metric]
    # The workload's own value where there is one: probes have metrics of the same name.
    named = [pair for pair in named if pair.own] or named
    mine = [pair for pair in named if condition.takes(pair.cell, pair.phase)]
    lone = [
        each
        for each in found.lone
        if each.side == "a" and condition.metric in each.metrics and condition.takes(each.cell)
    ]
    if not mine and not any(each.gap for each in lone):
        raise StudyError(
            "", f"--fail-on {condition.text!r} is about no value that both have", hint=_there_is(found, named)
        )
    for pair in mine:
        yield Judged(condition.text, condition.judge(pair.ratio), pair.label, pair.ratio, _why(pair))
    for each in lone:
        # A candidate that crashed must not pass because it has no value; one that was not asked has not passed.
        outcome: Outcome = "fails" if each.gap else "undecided"
        why = f"B has no values: {each.gap}" if each.gap else "B does not have this cell"
        yield Judged(condition.text, outcome, cell_label(each.cell), None, why)
    for value in found.lone_values:
        if (value.side, value.metric) == ("a", condition.metric) and condition.takes(value.cell, value.phase):
            yield Judged(condition.text, "undecided", value.label, None, "B's run does not have this value")


def _known_filters(condition: Condition, found: Versus) -> None:
    cells = [each.cell for side in (found.pairs, found.lone) for each in side]
    known = dict.fromkeys([*_FILTERS, *(name for cell in cells for name, _ in cell[2])])
    for name in condition.only:
        if name not in known:
            raise StudyError(
                "", f"--fail-on {condition.text!r}: {name} is no filter", hint=f"there are {', '.join(known)}"
            )


def _why(pair: Pair) -> str:
    if pair.ratio is None:
        return "A's value is 0, so there is no ratio"
    if pair.verdict == "unlike machines":
        return "a volume or a link took more than 25 % longer on one side"
    return "one build on a side: how much another would differ is not known" if pair.ratio.half is None else ""


def _there_is(found: Versus, named: Sequence[Pair]) -> str:
    if named:
        places = ", ".join(dict.fromkeys(pair.place for pair in named))
        return f"{named[0].metric} is there of {places}"
    return f"metrics that both have: {', '.join(metrics_of(pair for pair in found.pairs if pair.own))}"
