"""A sweep in words: the range of what the stacks keep, where it is best and worst, and what each factor does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial

from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Family
from blocklab.stats.format import is_throughput, listed, noun, percent, plus_minus, quantity
from blocklab.stats.grid import levels_of, number_of
from blocklab.stats.ratio import NOTABLE
from blocklab.stats.shares import clear, of_baseline, share_text, throughout
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row


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
    numbers = sorted((number, level) for level in levels if (number := number_of(level)) is not None)
    if len(numbers) == len(levels):
        # In whatever order the study has them, this is read as from the least to the most.
        levels = [level for _, level in numbers]
    return f"{factor} ({levels[0]} {'and' if len(levels) == 2 else 'to'} {levels[-1]})"


def ranges(analysis: Analysis, rows: Sequence[Row]) -> str:
    """``mirror keeps from 3.2 % ± 0.4 (rtt=20ms) to 95 % ± 2 (rtt=0.5ms) of local's tpmC``; without shares the
    values."""
    compared = shared(analysis, rows)
    if not compared:
        return "; ".join(_values(analysis, mine) for mine in _by_stack(rows))
    said, noisy = [], {}
    for mine in _by_stack(compared):
        ranked, name = clear(mine, share_of), mine[0].stack_name
        noisy[name] = (len(mine) - len(ranked), len(mine))
        if not ranked:
            continue
        low, high = ranked[0], ranked[-1]
        keeps = share_of(high).value <= 1 and is_throughput(rows[0].metric)
        does = f"{name} {'keeps' if keeps else 'has'}"
        if alike := throughout([share_of(row) for row in ranked]):
            said.append(f"{does} {alike}{' throughout' if len(ranked) > 1 else ''}")
        else:
            worst, best = _ends(analysis, mine, (low, high), shares=True)
            said.append(f"{does} from {share_text(share_of(low))}{worst} to {share_text(share_of(high))}{best}")
    return of_baseline(said, noisy, f"{analysis.baseline}'s {noun(rows[0].unit, rows[0].metric)}")


def _by_stack(rows: Sequence[Row]) -> Iterator[list[Row]]:
    for name in dict.fromkeys(row.stack_name for row in rows):
        yield [row for row in rows if row.stack_name == name]


def _values(analysis: Analysis, mine: Sequence[Row]) -> str:
    low, high = (extreme(mine, key=lambda row: row.value) for extreme in (min, max))
    least, most = (plus_minus(row.value, row.half, row.unit, row.metric) for row in (low, high))
    if quantity(low.value, low.unit, low.metric) == quantity(high.value, high.unit, high.metric):
        return f"{low.stack_name} has {least} throughout"
    worst, best = _ends(analysis, mine, (low, high), shares=False)
    return f"{low.stack_name} has from {least}{worst} to {most}{best}"


def _ends(analysis: Analysis, mine: Sequence[Row], ends: Sequence[Row], *, shares: bool) -> list[str]:
    told = _mattering(analysis, mine, shares=shares)
    return [f" ({at})" if (at := where(row, mine, told)) else "" for row in ends]


def shared(analysis: Analysis, rows: Sequence[Row]) -> list[Row]:
    """The rows that have a share of another one's."""
    return [row for row in rows if row.stack in analysis.others and row.relative is not None]


def share_of(row: Row) -> Estimate:
    """The row's share of the baseline's, of a row that has one."""
    assert row.relative is not None
    return row.relative


def _mattering(analysis: Analysis, rows: Sequence[Row], *, shares: bool) -> set[str]:
    """The factors whose levels move the median by more than what is notable; all where none does."""
    names = dict.fromkeys(name for row in rows for name in row.levels)
    medians = {name: _medians(_common(analysis, rows, name, shares=shares)) for name in names}
    # One that nothing can be said of may matter.
    found = {name for name, levels in medians.items() if not levels or _spread(levels) > NOTABLE}
    return found if any(_spread(medians[name]) > NOTABLE for name in found) else set(names)


def _spread(medians: Mapping[str, Estimate]) -> float:
    """By how much of the least the largest is larger."""
    values = [each.value for each in medians.values()]
    low, high = min(values, default=1.0), max(values, default=1.0)
    return high / low - 1 if low > 0 else float(high > low)


def where(row: Row, among: Sequence[Row], factors: Collection[str]) -> str:
    """The levels of a row, of those factors, that differ among rows."""
    differ = [name for name in row.levels if name in factors and len({o.levels.get(name) for o in among}) > 1]
    return ", ".join(f"{name}={row.levels[name]}" for name in differ)


def sweep_points(analysis: Analysis, swept: Sequence[Family]) -> Iterator[str]:
    """What each factor does to the share, or to the value where there is none: the median over all the others."""
    # Once for all of them.
    bare = " (a median of several has no interval)"
    for family in swept[:2]:
        compared = shared(analysis, family.rows)
        rows = compared or list(family.rows)
        common = {
            name: found
            for name in family.factors
            if len(found := _common(analysis, rows, name, shares=bool(compared))) > 1
        }
        medians = {name: _medians(found) for name, found in common.items()}
        if len(medians) < 2 and not compared:
            continue
        kind = f"share of {analysis.baseline}" if compared else "value"
        idle = [name for name, levels in medians.items() if _spread(levels) <= NOTABLE]
        if len(medians) > 1 and idle:
            yield (
                f"{family.label} by {listed(idle)}: the median {kind} changes by at most "
                f"{percent(max(_spread(medians[name]) for name in idle))}."
            )
        for name, levels in medians.items():
            if len(medians) > 1 and name in idle:
                continue
            told = _told(levels, share_text if compared else partial(_value, rows[0]))
            # Of one value at each level nothing was taken the median of.
            single = all(len(values) == 1 for values in common[name].values())
            over = "" if len(medians) == 1 or single else ", over all other levels"
            what, none = (kind, "") if single else (f"median {kind}", bare)
            yield f"{family.label} by {name}: the {what} is {told}{over}{none}."
            bare = bare if single else ""


def _value(row: Row, value: Estimate) -> str:
    return plus_minus(value.value, value.half, row.unit, row.metric)


def _common(analysis: Analysis, rows: Sequence[Row], factor: str, *, shares: bool) -> dict[str, list[Estimate]]:
    """The values at each level, of what was measured at all: else they would tell of other factors too."""
    found: dict[str, dict[Hashable, Estimate]] = {}
    for row in rows:
        if factor in row.levels:
            others = frozenset((name, level) for name, level in row.levels.items() if name != factor)
            at = (row.stack_name, row.workload_name, row.phase, row.metric, others)
            found.setdefault(row.levels[factor], {})[at] = share_of(row) if shares else row.estimate
    everywhere = set.intersection(*(set(values) for values in found.values())) if found else set()
    return {
        level: [found[level][at] for at in everywhere]
        for level in levels_of(analysis.study)[factor]
        if level in found and everywhere
    }


def _medians(common: Mapping[str, Sequence[Estimate]]) -> dict[str, Estimate]:
    """The median at each level; it has an interval where it is that of one value."""
    return {
        level: values[0] if len(values) == 1 else Estimate(statistics.median(each.value for each in values))
        for level, values in common.items()
    }


def _told(levels: Mapping[str, Estimate], text: Callable[[Estimate], str]) -> str:
    names = list(levels)
    shown = dict.fromkeys([names[0], names[-1]])
    # What lies outside of both ends is worth a word.
    for extreme in (min, max):
        shown[extreme(names, key=lambda name: levels[name].value)] = None
    return listed([f"{text(levels[name])} at {name}" for name in names if name in shown])
