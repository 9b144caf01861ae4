"""``--fail-on "tps < 0.95"``: a condition on ratios, decided by their intervals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import msgspec

from blocklab.errors import StudyError
from blocklab.model.knobs import nearest
from blocklab.stats.naming import CellKey, cell_label
from blocklab.stats.summary import Estimate
from blocklab.stats.versus import Broken, Pair, Unpaired, Versus, metrics_of

Outcome = Literal["fails", "passes", "undecided"]
_WORST_FIRST: tuple[Outcome, ...] = ("fails", "undecided", "passes")
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
    """What a condition says of one value, or of a cell or a value that a side lacks."""

    condition: str
    outcome: Outcome
    label: str
    share: Estimate | None
    why: str


def gate(judged: Sequence[Judged]) -> Outcome | None:
    """The worst outcome, which is that of all conditions together; None without any."""
    found = {each.outcome for each in judged}
    return next((outcome for outcome in _WORST_FIRST if outcome in found), None)


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
    named = [each for each in found.values if each.metric == condition.metric]
    # The workload's own value where there is one: probes have metrics of the same name.
    named = [each for each in named if each.own] or named
    mine = [each for each in named if condition.takes(each.cell, each.phase)]
    if not mine:
        raise StudyError(
            "", f"--fail-on {condition.text!r} is about no value that A or B has",
            hint=_there_is(condition.metric, found, named),
        )  # fmt: skip
    broken = {each.cell: each for each in found.broken if each.side == "b"}
    for pair in mine:
        if isinstance(pair, Pair):
            yield _paired(condition, pair, broken.get(pair.cell))
    lacking = (_lacking(condition, each) for each in mine if isinstance(each, Unpaired))
    # Of a cell that a side lacks as a whole one line says it, however many phases it has.
    yield from dict.fromkeys(lacking)
    yield from _on_neither(condition, found, {each.cell[1] for each in named})


def _paired(condition: Condition, pair: Pair, broken: Broken | None) -> Judged:
    outcome, why = condition.judge(pair.ratio), _why(pair)
    if outcome == "passes" and broken is not None:
        # Those builds that ended well are no sample of all of them.
        outcome, why = "undecided", f"B's repeat {broken.repeat} has no values: {broken.gap}"
    return Judged(condition.text, outcome, pair.label, pair.ratio, why)


def _lacking(condition: Condition, value: Unpaired) -> Judged:
    """A candidate that crashed must not pass because it has no value; what was not measured has not passed."""
    other = "B" if value.side == "a" else "A"
    if not value.absent:
        label = " ".join(filter(None, [cell_label(value.cell), value.phase, value.metric]))
        return Judged(condition.text, "undecided", label, None, f"{other}'s run does not have this value")
    outcome: Outcome = "fails" if value.gap and value.side == "a" else "undecided"
    why = f"{other} has no values: {value.gap}" if value.gap else f"{other} does not have this cell"
    return Judged(condition.text, outcome, cell_label(value.cell), None, why)


def _on_neither(condition: Condition, found: Versus, workloads: Collection[str]) -> Iterator[Judged]:
    """Cells, of workloads that have the metric elsewhere, whose runs ended badly on both sides."""
    has = {each.cell for each in found.values}
    gone = {each.cell: each for each in reversed(found.broken) if each.cell not in has}
    for cell, each in gone.items():
        if cell[1] in workloads and condition.takes(cell):
            why = f"neither side has values: {each.side.upper()} is {each.gap}"
            yield Judged(condition.text, "undecided", cell_label(cell), None, why)


def _known_filters(condition: Condition, found: Versus) -> None:
    cells = [each.cell for each in found.values]
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


def _there_is(name: str, found: Versus, named: Sequence[Pair | Unpaired]) -> str:
    if named:
        places = dict.fromkeys(f"{cell_label(each.cell)} {each.phase}".strip() for each in named)
        return f"{named[0].metric} is there of {', '.join(places)}"
    known = metrics_of(pair for pair in found.pairs if pair.own)
    return f"metrics that both have: {', '.join(known)}{nearest(name, known)}"
