"""A sweep in words: the range of what the stacks keep, where it is best and worst, and what each factor does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial

from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Family
from blocklab.stats.figures import Row
from blocklab.stats.format import is_throughput, listed, noun, percent, quantity
from blocklab.stats.grid import levels_of
from blocklab.stats.ratio import NOTABLE


def sweep_lead(analysis: Analysis, swept: Sequence[Family]) -> str:
    """One sentence for each headline; empty when there is none."""
    sentences, before = [], ""
    for family in swept:
        over = listed([_span(analysis, family, name) for name in family.factors])
        if said := ranges(analysis, family.rows):
            # Once for those that are swept alike.
            sentences.append(f"{family.label}{f' over {over}' if over != before else ''}: {said}.")
            before = over
    return " ".join(sentences)


def _span(analysis: Analysis, family: Family, factor: str) -> str:
    seen = {row.levels[factor] for row in family.rows if factor in row.levels}
    levels = [level for level in levels_of(analysis.study)[factor] if level in seen]
    return f"{factor} ({levels[0]} {'and' if len(levels) == 2 else 'to'} {levels[-1]})"


def ranges(analysis: Analysis, rows: Sequence[Row]) -> str:
    """``mirror keeps from 3.2 % (rtt=20ms) to 95 % (rtt=0.5ms) of local's tpmC``; without shares the figures."""
    compared = shared(analysis, rows)
    said = []
    for name in dict.fromkeys(row.stack_name for row in compared or rows):
        mine = [row for row in compared or rows if row.stack_name == name]
        ranked = sorted(mine, key=share_of if compared else lambda row: row.value)
        low, high = ranked[0], ranked[-1]
        if compared:
            worst, best = percent(share_of(low)), percent(share_of(high))
            keeps = share_of(high) <= 1 and is_throughput(rows[0].unit, rows[0].metric)
            verb = "keeps" if keeps else "has"
        else:
            worst, best = (quantity(row.value, row.unit, row.metric) for row in (low, high))
            verb = "has"
        if worst == best:
            said.append(f"{name} {verb} {worst} throughout")
        else:
            told = _mattering(analysis, ranked, shares=bool(compared))
            ends = [f" ({at})" if (at := where(row, ranked, told)) else "" for row in (low, high)]
            said.append(f"{name} {verb} from {worst}{ends[0]} to {best}{ends[1]}")
    if not said:
        return ""
    what = noun(rows[0].unit, rows[0].metric)
    return f"{'; '.join(said)} of {analysis.baseline}'s {what}" if compared else "; ".join(said)


def shared(analysis: Analysis, rows: Sequence[Row]) -> list[Row]:
    """The rows that have a share of another one's."""
    return [row for row in rows if row.stack in analysis.others and row.relative is not None]


def share_of(row: Row) -> float:
    """The row's share of the baseline's, of a row that has one."""
    assert row.relative is not None
    return row.relative.value


def _mattering(analysis: Analysis, rows: Sequence[Row], *, shares: bool) -> set[str]:
    """The factors whose levels move the median by more than what is notable; all where none does."""
    names = dict.fromkeys(name for row in rows for name in row.levels)
    medians = {name: _medians(analysis, rows, name, shares=shares) for name in names}
    # One that nothing can be said of may matter.
    found = {name for name, levels in medians.items() if not levels or _spread(levels) > NOTABLE}
    return found if any(_spread(medians[name]) > NOTABLE for name in found) else set(names)


def _spread(medians: Mapping[str, float]) -> float:
    """By how much of the least the largest is larger."""
    low, high = min(medians.values(), default=1.0), max(medians.values(), default=1.0)
    return high / low - 1 if low > 0 else float(high > low)


def where(row: Row, among: Sequence[Row], factors: Collection[str]) -> str:
    """The levels of a row, of those factors, that differ among rows."""
    differ = [name for name in row.levels if name in factors and len({o.levels.get(name) for o in among}) > 1]
    return ", ".join(f"{name}={row.levels[name]}" for name in differ)


def sweep_points(analysis: Analysis, swept: Sequence[Family]) -> Iterator[str]:
    """What each factor does to the share, or to the figure where there is none: the median over all the others."""
    for family in swept[:2]:
        compared = shared(analysis, family.rows)
        rows = compared or list(family.rows)
        medians = {
            name: found
            for name in family.factors
            if len(found := _medians(analysis, rows, name, shares=bool(compared))) > 1
        }
        if len(medians) < 2 and not compared:
            continue
        kind = f"share of {analysis.baseline}" if compared else "figure"
        idle = [name for name, levels in medians.items() if _spread(levels) <= NOTABLE]
        if len(medians) > 1 and idle:
            yield (
                f"{family.label} by {listed(idle)}: the median {kind} changes by at most "
                f"{percent(max(_spread(medians[name]) for name in idle))}."
            )
        for name, levels in medians.items():
            if len(medians) > 1 and name in idle:
                continue
            told = _told(levels, percent if compared else partial(_figure, rows[0]))
            over = "" if len(medians) == 1 else ", over all other levels"
            yield f"{family.label} by {name}: the median {kind} is {told}{over}."


def _figure(row: Row, value: float) -> str:
    return quantity(value, row.unit, row.metric)


def _medians(analysis: Analysis, rows: Sequence[Row], factor: str, *, shares: bool) -> dict[str, float]:
    """The median at each level, over what was measured at all of them: else it would tell of other factors too."""
    found: dict[str, dict[Hashable, float]] = {}
    for row in rows:
        if factor in row.levels:
            others = frozenset((name, level) for name, level in row.levels.items() if name != factor)
            at = (row.stack_name, row.workload_name, row.phase, row.metric, others)
            found.setdefault(row.levels[factor], {})[at] = share_of(row) if shares else row.value
    everywhere = set.intersection(*(set(values) for values in found.values())) if found else set()
    return {
        level: statistics.median(found[level][at] for at in everywhere)
        for level in levels_of(analysis.study)[factor]
        if level in found and everywhere
    }


def _told(levels: Mapping[str, float], text: Callable[[float], str]) -> str:
    names = list(levels)
    shown = dict.fromkeys([names[0], names[-1]])
    # What lies outside of both ends is worth a word.
    for extreme in (min(names, key=lambda name: levels[name]), max(names, key=lambda name: levels[name])):
        shown[extreme] = None
    return listed([f"{text(levels[name])} at {name}" for name in names if name in shown])
