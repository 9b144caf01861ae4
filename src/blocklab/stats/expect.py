"""A study's expectations against the values: ``ok``, ``failed``, or ``unknown`` with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from blocklab.stats.format import exact, listed, percent, plus_minus, quantity
from blocklab.stats.grid import Point, label_of
from blocklab.stats.inputs import Apart, At, Inputs, arithmetic, taken, unlike
from blocklab.stats.ratio import ratio
from blocklab.stats.repeats import Repeats
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row, find
from blocklab.study.factors import level_text
from blocklab.study.types import Expectation, Level

Status = Literal["ok", "failed", "unknown"]
NOT_DECIDED = "Not decided: "


class Verdict(msgspec.Struct, frozen=True):
    """What became of one expectation.

    ``found`` is the number that was compared with ``low`` and ``high`` (a value in its base unit, or a ratio);
    None when there is none. ``sentence`` says it in words. It is ``ok`` where the whole 95 % interval lies between
    the bounds, ``failed`` where all of it lies outside of them, else ``unknown``; so is a number of a single build
    of the layout, whatever its interval within the run. ``inside``: whether the number itself lies between the
    bounds; None without one. ``builds``: over how many of the layout it is; 0 without a number.
    """

    claim: Expectation
    status: Status
    sentence: str
    expected: str
    found: float | None = None
    half: float | None = None
    low: float = 0.0
    high: float = 0.0
    inside: bool | None = None
    builds: int = 0

    @property
    def word(self) -> str:
        """The verdict in a word or two: ``ok``, ``failed``, ``unknown``, ``one build: inside``."""
        if self.status == "unknown" and self.builds == 1:
            return f"one build: {'inside' if self.inside else 'outside'}"
        return self.status


class _Unknown(Exception):
    """Why there is no number."""


Cells = Sequence[Point]
Gaps = Mapping[tuple[str, str], str]


def judge(
    claim: Expectation,
    table: Sequence[Row],
    cells: Cells,
    gaps: Gaps,
    repeats: Repeats | None = None,
    inputs: Inputs | None = None,
) -> Verdict:
    """One verdict. ``gaps`` says of (stack, workload), by their labels, whether it failed, is missing, ...;
    ``repeats`` has the values of each repeat, of which ``table`` has the means; ``inputs`` what the cells stood
    on: with what the machine did not achieve no claim fails, nor where others used the machine meanwhile; none
    holds where that is far from what was asked for, or where two compared cells did not stand on the same."""
    low, high = claim.bounds
    expected = _expected(claim, table)
    values = _Values(claim, table, cells, gaps)
    try:
        found, said = _number(claim, values, repeats or Repeats())
    except _Unknown as reason:
        return Verdict(claim, "unknown", f"{NOT_DECIDED}{reason}.", expected, low=low, high=high)
    inside = low <= found.value <= high
    status = _status(found, low, high)
    why = []
    if status == "unknown" and found.builds > 1:
        why.append("its interval reaches over a bound")
    known = inputs or Inputs({})
    untrue = max(
        map(known.untrue, values.used),
        key=lambda found: sum(abs(each.achieved - each.asked) for each in found), default=(),
    )  # fmt: skip
    if untrue and (status != "ok" or any(each.far for each in untrue)):
        status = "unknown"
        why.append(arithmetic(untrue))
    elif apart := _apart(values.used, known):
        status = "unknown"
        why.append(unlike(apart))
    elif status == "failed" and (busy := max(filter(None, map(known.busy, values.used)), default=None)):
        status = "unknown"
        why.append(taken(busy))
    if found.builds < 2:
        said = "; ".join([said, *why])
    elif why:
        place = "inside" if inside else "outside of"
        said = f"{NOT_DECIDED}{said}, {place} what is expected, {expected}, but {'; and '.join(why)}"
    return Verdict(claim, status, f"{said}.", expected, found.value, found.half, low, high, inside, found.builds)


def _apart(used: Sequence[At], inputs: Inputs) -> Apart | None:
    """Of a ratio each value and its base are looked up one after the other."""
    found = (inputs.apart(at, base) for at, base in zip(used[::2], used[1::2], strict=False))
    return next((each for each in found if each is not None), None)


def _status(found: Estimate, low: float, high: float) -> Status:
    """Missing uncertainty makes a verdict weaker, never stronger."""
    if found.half is None or found.builds < 2:
        return "unknown"
    least, most = found.value - found.half, found.value + found.half
    if low <= least and most <= high:
        return "ok"
    return "failed" if most < low or least > high else "unknown"


def _number(claim: Expectation, values: _Values, repeats: Repeats) -> tuple[Estimate, str]:
    mine = values.find(claim.stack, claim.workload, claim.at)
    on = f" on {claim.host}" if claim.host else ""
    what = f"{claim.metric} of {mine.stack}{on} in {_place(mine.workload, claim.phase)}"
    if not claim.relative_to:
        if mine.unit != "s" and any(isinstance(bound, str) for bound in claim.between):
            raise _Unknown(f"{claim.metric} is in {mine.unit}, and the bounds of the claim are times")
        said = plus_minus(mine.value, mine.half, mine.unit, mine.metric, claim.bounds)
        return mine.estimate, f"{what} is {said}"
    base = values.find(claim.relative_to, claim.workload, {**claim.at, **claim.relative_at})
    share = _share(mine, base, repeats)
    if not claim.against and not claim.against_at:
        numbers = " of ".join(quantity(row.value, row.unit, row.metric) for row in (mine, base))
        where = "" if base.workload == mine.workload else f" in {base.workload}"
        said = percent(share.value, share.half, claim.bounds)
        return share, f"{what} is {said} of {base.stack}'s{where} ({numbers})"
    against = claim.against or claim.workload
    other = values.find(claim.stack, against, {**claim.at, **claim.against_at})
    # What is set for the ratio's lower value holds there in both ratios.
    levels = {**claim.at, **claim.against_at, **claim.relative_at}
    other_base = values.find(claim.relative_to, against, levels)
    other_share = _share(other, other_base, repeats)
    times = repeats.times(mine, base, other, other_base) or ratio(share, other_share)
    if times is None:
        raise _Unknown(f"the share of {other.stack} in {other.workload} is 0, so there is no ratio to it")
    there = other.workload
    if (other.stack, other_base.stack) != (mine.stack, base.stack):
        there = f"{other.workload} ({other.stack} of {other_base.stack}'s)"
    said = (
        f"{mine.stack} has {percent(share.value, share.half)} of {base.stack}'s {claim.metric} in "
        f"{_place(mine.workload, claim.phase)} and {percent(other_share.value, other_share.half)} in {there}: "
        f"{plus_minus(times.value, times.half, '', beside=claim.bounds)} times the share"
    )
    return times, said


def _share(mine: Row, base: Row, repeats: Repeats) -> Estimate:
    share = repeats.share([mine], [base]) or ratio(mine.estimate, base.estimate)
    if share is None:
        raise _Unknown(f"{base.metric} of {base.stack} in {base.workload} is 0, so there is no ratio to it")
    return share


@dataclass(frozen=True)
class _Values:
    """Where a claim's values are looked up."""

    claim: Expectation
    table: Sequence[Row]
    cells: Cells
    gaps: Gaps
    used: list[tuple[str, str]] = field(default_factory=list)
    """The cells that were looked at, by their labels."""

    def find(self, stack: str, workload: str, at: Mapping[str, Level]) -> Row:
        """The one value of the claim's metric in the one cell that is meant. Raises ``_Unknown``."""
        claim = self.claim
        cell = self._cell(stack, workload, at)
        place = (cell.stack, cell.workload)
        if reason := self.gaps.get(place):
            state = "was never measured" if reason == "missing" else f"is {reason}"
            raise _Unknown(f"the cell {cell.label} {state}")
        mine = [row for row in self.table if (row.stack, row.workload) == place]
        row = find(mine, *place, claim.metric, claim.phase, claim.host)
        if row is not None:
            self.used.append(place)
            return row
        named = [row for row in mine if row.metric == claim.metric]
        phases = [phase for phase in dict.fromkeys(row.phase for row in named) if phase]
        if phases and not claim.phase:
            raise _Unknown(f"{claim.metric} of {cell.label} needs a phase: {listed(phases, 'or')}")
        hosts = list(dict.fromkeys(row.host for row in named if row.phase == claim.phase))
        if hosts and not claim.host:
            raise _Unknown(f"{claim.metric} of {cell.label} needs a host: {listed(hosts, 'or')}")
        on = f" on {claim.host}" if claim.host else ""
        raise _Unknown(f"{_place(cell.label, claim.phase)} has no value {claim.metric}{on}")

    def _cell(self, stack: str, workload: str, at: Mapping[str, Level]) -> Point:
        # A factor that makes no difference to a cell is not among its levels: any of them is meant then.
        wanted = {name: level_text(level) for name, level in at.items()}
        found = [
            cell
            for cell in self.cells
            if (cell.stack_name, cell.workload_name) == (stack, workload)
            and all(cell.at.get(name, level) == level for name, level in wanted.items())
        ]
        said = label_of(f"{stack}/{workload}", wanted)
        if not found:
            raise _Unknown(f"no cell {said} was measured")
        if len(found) > 1:
            names = dict.fromkeys(name for cell in found for name in cell.levels)
            open_ = [name for name in names if len({cell.levels.get(name) for cell in found}) > 1]
            raise _Unknown(f"{said} is {len(found)} cells; name the level of {listed(open_)}")
        return found[0]


def _place(workload: str, phase: str) -> str:
    return f"{workload}, {phase}" if phase else workload


def _expected(claim: Expectation, table: Sequence[Row]) -> str:
    """The bounds in words: a share in %, a ratio of shares as times, else in the metric's unit."""
    low, high = claim.bounds
    if claim.against or claim.against_at:
        return f"{low:g} to {high:g} times"
    if claim.relative_to:
        return f"{percent(low)} to {percent(high)}"
    timed = any(isinstance(bound, str) for bound in claim.between)
    unit = "s" if timed else next((row.unit for row in table if row.metric == claim.metric), "")
    if unit == "s":
        return f"{exact(low, unit)} to {exact(high, unit)}"
    return f"{quantity(low, unit, claim.metric)} to {quantity(high, unit, claim.metric)}"
