"""What an answer is worth, in two lines at most, and the command that makes it worth more."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.caveats import caveats
from blocklab.stats.compare import items
from blocklab.stats.drills import summaries
from blocklab.stats.expect import Verdict as Claim
from blocklab.stats.finding import Finding, FindingKind
from blocklab.stats.format import shortened
from blocklab.stats.ratio import OPEN, Verdict, verdict
from blocklab.stats.sentences import sentence

# Of so few crashes an interval says little.
FEW_CRASHES = 20
# Caveats that are short enough as they are.
_AS_THEY_ARE: tuple[FindingKind, ...] = ("unsteady", "warm-up", "machines disagree", "own cpu")
# Of more names than this only the first.
_MOST_NAMED = 3


class Step(msgspec.Struct, frozen=True):
    """What to do next: why, and the command."""

    why: str
    command: str


def worth(analysis: Analysis) -> tuple[str, ...]:
    """How sure the values are, and what limits them most; nothing of a study without values."""
    found = {each.kind: each for each in caveats(analysis)}
    lines = [_sureness(analysis), *_limits(analysis, found)] if analysis.rows else []
    return tuple(lines[:2])


def _sureness(analysis: Analysis) -> str:
    most, machines = analysis.times[1], len(analysis.machines)
    if analysis.imported:
        return "These values come from logs, which do not say how often a layout was built."
    if most <= 1 and analysis.virtual:
        return "One seed of each layout: a first look. Another seed can give other values."
    if most <= 1:
        return "One build of each layout: a first look. Another build can give other values."
    if analysis.virtual:
        text = f"{most} seeds of each layout; ± is the 95 % interval over them."
    elif machines > 1:
        text = f"{most} builds of each layout, on {machines} machines; ± is the 95 % interval over them."
    else:
        text = f"{most} builds of each layout; ± is the 95 % interval over them."
    shares = [share for item in items(analysis) for share in item.shares.values()]
    return f"{text} {_decided(Counter(map(verdict, shares)), len(shares))}" if shares else text


def _decided(counts: Counter[Verdict], count: int) -> str:
    differ, undecided = counts["differs"], sum(counts[each] for each in OPEN)
    if undecided:
        return f"{differ} of {count} differences are significant, {undecided} are undecided."
    return f"{differ} of {count} differences are significant."


def _limits(analysis: Analysis, found: Mapping[FindingKind, Finding]) -> Iterator[str]:
    """What limits the values, the worst first."""
    if (gaps := found.get("gaps")) is not None:
        yield f"{gaps.count} of {gaps.of} cells have no results: {shortened(gaps.names, _MOST_NAMED)}."
    if (other := found.get("other work")) is not None:
        yield (
            f"The machine was busy with other work in {other.count} of {other.of} cells: their values are worse "
            "and noisier than the layouts' own."
        )
    if (unlike := found.get("unlike")) is not None:
        yield (
            f"In {unlike.count} of {unlike.of} cells a volume or a link was not as fast as the baseline's: their "
            "ratios say nothing."
        )
    if (cpu := found.get("cpu")) is not None:
        yield (
            f"A CPU was saturated in {cpu.count} of {cpu.of} cells: costs marked ≥ are higher than shown, those "
            "marked ≤ lower, those marked ? either."
        )
    if (limited := found.get("limited")) is not None:
        yield (
            f"{limited.count} of {limited.of} values are near what this lab itself can do: costs marked ≥ are "
            "higher than shown, those marked ≤ lower, those marked ? either."
        )
    for kind in _AS_THEY_ARE:
        if (other := found.get(kind)) is not None:
            yield sentence([other])


def next_step(analysis: Analysis, source: str) -> Step | None:
    """What makes the answer surer; None where nothing is missing. ``source``: the study's file, or the name of a
    shipped one."""
    if analysis.imported:
        return None
    study = source or analysis.study.name
    run = ["run", study, *(["--clock", "virtual"] if analysis.virtual else [])]
    if analysis.unmeasured:
        return _step("Measure the cells without results", ["resume"])
    if analysis.quick:
        return _step("Measure the full study", run)
    crashes = max((each.losses.drills for each in summaries(analysis)), default=0)
    if analysis.drills and crashes < FEW_CRASHES:
        return _step("Crash more often, for a narrower interval", ["drill", study, "--times", str(FEW_CRASHES)])
    if analysis.times[1] <= 1:
        return _step("Build each layout several times, to decide what differs", [*run, "--repeats", "3"])
    if any(verdict(share) == "too noisy to say" for item in items(analysis) for share in item.shares.values()):
        more = str(2 * analysis.study.repeats)
        return _step("Repeat more often, to decide what is too noisy", [*run, "--repeats", more])
    return None


def _step(why: str, words: Sequence[str]) -> Step:
    return Step(why, shlex.join(["blocklab", *words]))


def expected_line(verdicts: Sequence[Claim]) -> str:
    """How many expectations hold, fail and are undecided; of these, how many values are in the expected range."""
    hold, fail = (sum(each.status == status for each in verdicts) for status in ("ok", "failed"))
    left = [each for each in verdicts if each.status == "unknown"]
    inside = sum(each.inside is True for each in left)
    if not left:
        return f"Expectations: {hold} hold, {fail} fail."
    if len(left) == len(verdicts):
        return f"Expectations: {len(left)} undecided, {inside} of them with a value in the expected range."
    return (
        f"Expectations: {hold} hold, {fail} fail, {len(left)} undecided, {inside} of them with a value in the "
        "expected range."
    )
