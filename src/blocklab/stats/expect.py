"""A study's expectations against the figures: ``ok``, ``failed``, or ``unknown`` with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from blocklab.stats.figures import Row, find
from blocklab.stats.format import exact, listed, percent, plus_minus, quantity
from blocklab.stats.ratio import ratio
from blocklab.stats.summary import Estimate
from blocklab.study.types import Expectation

Status = Literal["ok", "failed", "unknown"]


class Verdict(msgspec.Struct, frozen=True):
    """What became of one expectation.

    ``found`` is the number that was compared with ``low`` and ``high`` (a figure in its base unit, or a ratio);
    None when it is unknown. ``sentence`` says it in words; ``close`` is set when the interval within the run
    reaches over a bound, so that another run may decide otherwise.
    """

    claim: Expectation
    status: Status
    sentence: str
    expected: str
    found: float | None = None
    half: float | None = None
    low: float = 0.0
    high: float = 0.0
    close: bool = False


class _Unknown(Exception):
    """Why there is no number."""


def judge(claim: Expectation, table: Sequence[Row], gaps: Mapping[tuple[str, str], str]) -> Verdict:
    """One verdict. ``gaps`` says of (stack, workload) without figures whether it failed, is missing, ..."""
    low, high = claim.bounds
    expected = _expected(claim, table)
    try:
        found, said = _number(claim, table, gaps)
    except _Unknown as reason:
        return Verdict(claim, "unknown", f"Not decided: {reason}.", expected, low=low, high=high)
    status: Status = "ok" if low <= found.value <= high else "failed"
    half = found.half or 0.0
    close = any(abs(found.value - bound) <= half for bound in (low, high)) and half > 0
    return Verdict(claim, status, f"{said}.", expected, found.value, found.half, low, high, close)


def _number(claim: Expectation, table: Sequence[Row], gaps: Mapping[tuple[str, str], str]) -> tuple[Estimate, str]:
    mine = _figure(claim, claim.stack, claim.workload, table, gaps)
    what = f"{claim.metric} of {claim.stack} in {_place(claim.workload, claim.phase)}"
    if not claim.relative_to:
        return mine.estimate, f"{what} is {plus_minus(mine.value, mine.half, mine.unit, mine.metric)}"
    base = _figure(claim, claim.relative_to, claim.workload, table, gaps)
    share = _share(mine, base)
    if not claim.against:
        figures = [quantity(row.value, row.unit, row.metric) for row in (mine, base)]
        of = f"{claim.relative_to}'s ({' of '.join(figures)})"
        return share, f"{what} is {percent(share.value, share.half)} of {of}"
    other = _share(
        _figure(claim, claim.stack, claim.against, table, gaps),
        _figure(claim, claim.relative_to, claim.against, table, gaps),
    )
    times = ratio(share, other)
    if times is None:
        raise _Unknown(f"the share of {claim.stack} in {claim.against} is 0, so there is no ratio to it")
    said = (
        f"{claim.stack} has {percent(share.value)} of {claim.relative_to}'s {claim.metric} in "
        f"{_place(claim.workload, claim.phase)} and {percent(other.value)} in {claim.against}: "
        f"{times.value:.2f} times the share"
    )
    return times, said


def _share(mine: Row, base: Row) -> Estimate:
    share = ratio(mine.estimate, base.estimate)
    if share is None:
        raise _Unknown(f"{base.metric} of {base.stack} in {base.workload} is 0, so there is no ratio to it")
    return share


def _figure(
    claim: Expectation, stack: str, workload: str, table: Sequence[Row], gaps: Mapping[tuple[str, str], str]
) -> Row:
    row = find(table, stack, workload, claim.metric, claim.phase)
    if row is not None:
        return row
    if reason := gaps.get((stack, workload)):
        state = "was never measured" if reason == "missing" else f"is {reason}"
        raise _Unknown(f"the cell {stack}/{workload} {state}")
    mine = [row for row in table if (row.stack, row.workload) == (stack, workload) and row.load]
    phases = [phase for phase in dict.fromkeys(row.phase for row in mine if row.metric == claim.metric) if phase]
    if phases and not claim.phase:
        raise _Unknown(f"{claim.metric} of {stack}/{workload} needs a phase: {listed(phases, 'or')}")
    where = _place(f"{stack}/{workload}", claim.phase)
    raise _Unknown(f"{where} has no figure {claim.metric}")


def _place(workload: str, phase: str) -> str:
    return f"{workload}, {phase}" if phase else workload


def _expected(claim: Expectation, table: Sequence[Row]) -> str:
    """The bounds in words: a share in %, a ratio of shares as times, else in the metric's unit."""
    low, high = claim.bounds
    if claim.against:
        return f"{low:g} to {high:g} times"
    if claim.relative_to:
        return f"{percent(low)} to {percent(high)}"
    timed = any(isinstance(bound, str) for bound in claim.between)
    unit = "s" if timed else next((row.unit for row in table if row.metric == claim.metric), "")
    if unit == "s":
        return f"{exact(low, unit)} to {exact(high, unit)}"
    return f"{quantity(low, unit, claim.metric)} to {quantity(high, unit, claim.metric)}"
