"""The answer to a study's question, as findings: what supports it, what is uncertain, what limits it."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.model.imported import Imported
from blocklab.model.metrics import metric as metric_of
from blocklab.model.spans import Copies, Spans
from blocklab.stats.analysis import Analysis
from blocklab.stats.carried import KINDS, Need, needs, scheduled
from blocklab.stats.caveats import caveats
from blocklab.stats.compare import Family, Item, families, plain_items, verb
from blocklab.stats.drill_findings import drill_findings
from blocklab.stats.finding import Finding, Name, Number, number_of, share_range
from blocklab.stats.format import exact, is_throughput, listed, noun
from blocklab.stats.grid import levels_of
from blocklab.stats.grid import number_of as level_number
from blocklab.stats.ratio import OPEN, verdict
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.study.grid import peers_of
from blocklab.study.types import Stack

# More points than this nobody reads; the tables have the rest.
MOST_POINTS = 5
# Of more sweeps, or layouts with a rate, than this the charts and the table tell.
MOST_SWEEPS, MOST_NEEDS = 3, 6
# Findings of these kinds about one thing are one sentence.
_TOGETHER = ("range", "latency", "lost by")

Group = tuple[Finding, ...]


class Findings(msgspec.Struct, frozen=True):
    """``lead`` is the answer, ``points`` support it (findings that make one sentence are together), ``caveats``
    limit it."""

    lead: Group
    points: tuple[Group, ...]
    caveats: Group


def findings(analysis: Analysis) -> Findings:
    """The answer to the study's question, as far as the values go: a lead, and five points at most."""
    compared = [item for item in plain_items(analysis) if item.shares]
    swept = families(analysis)
    leading = [family for family in swept if family.transactions] or (list(swept) if not compared else [])
    main = [item for item in compared if item.transactions] or ([] if leading else compared)
    cost = [each for family in leading[:MOST_SWEEPS] for each in sweep_ranges(analysis, family.rows, family)]
    lead = [tuple(cost or _item_ranges(analysis, main, described=True) or [_nothing(analysis)])]
    support = [each for family in leading[:2] for each in _effects(analysis, family)]
    support += _item_ranges(analysis, main, "Without factors") if leading else []
    others = [item for item in compared if item not in main]
    block = all(metric_of(item.metric).of for item in others)
    support += _item_ranges(analysis, others, "Block I/O" if block else "Other workloads")
    rest = [family for family in swept if family not in leading]
    support += [each for family in rest[:MOST_SWEEPS] for each in sweep_ranges(analysis, family.rows, family)]
    # With levels there are too many mirrors, each with a round trip of its own.
    if not any(side.levels for side in analysis.stacks.values()):
        support += _latencies(analysis)
    points = grouped(support)
    # Who asks for a rate asks first whether it is carried; who crashes a primary, what is lost.
    for first in (grouped(_carried(analysis)), grouped(drill_findings(analysis))):
        if first:
            known = bool(main or leading) or lead[0][0].kind != "nothing"
            lead, points = first[:1], [*first[1:], *(lead if known else []), *points]
    last = grouped([*_comparisons(analysis, compared, swept), *_expectations(analysis)])
    points = [*points[: MOST_POINTS - len(last)], *last]
    return Findings(lead[0], tuple(points), tuple(caveats(analysis)))


def grouped(found: Sequence[Finding]) -> list[Group]:
    """Neighbours that make one sentence together."""
    numbered = enumerate(found)
    groups = itertools.groupby(
        numbered, lambda each: (each[1].kind, each[1].about) if each[1].kind in _TOGETHER else each[0]
    )
    return [tuple(each for _, each in group) for _, group in groups]


def describe(stack: Stack, links: Any) -> str:
    """What tells a stack from others in a few words: ``mirror on a2, 0.5 ms away``; empty for one node."""
    for layer in stack.layers:
        if isinstance(layer, Imported):
            return layer.says
        if isinstance(layer, Spans) and (said := _described(layer, stack.on, links)):
            return said
    return ""


def _described(layer: Spans, on: str, links: Any) -> str:
    peers = peers_of(layer, on, links)
    peer = listed(list(peers))
    if not isinstance(layer, Copies):
        return f"volume shared with {peer}"
    if not layer.connected:
        return f"mirror on {peer}, disconnected"
    rtts = dict.fromkeys(exact(links[link].rtt, "s") for link in peers.values() if link)
    if not rtts:
        return ""
    rtt = listed(list(rtts))
    return f"mirror on {peer}, {rtt} away" if layer.exact else f"replica on {peer}, {rtt} away"


def _nothing(analysis: Analysis) -> Finding:
    """Why nothing is compared."""
    why = "no values" if not analysis.rows else "one layout" if len(analysis.study.stacks) == 1 else "no pair"
    return Finding("nothing", stack=analysis.baseline, verdict=why)


def _item_ranges(
    analysis: Analysis, chosen: Sequence[Item], about: str = "", *, described: bool = False
) -> list[Finding]:
    """What each stack keeps of the baseline over some workloads and phases."""
    found = []
    for stack in analysis.others:
        mine = [item for item in chosen if stack in item.shares]
        shares = [(item.shares[stack], item.label if len(chosen) > 1 else "") for item in mine]
        side = analysis.stacks[stack]
        note = describe(side.stack, side.study.links) if described else ""
        if shares:
            beside = f"{analysis.baseline}'s {items_noun(chosen)}"
            throughput = verb(chosen) == "keeps"
            found.append(share_range(stack, shares, beside, throughput=throughput, about=about, note=note))
    return found


def items_noun(chosen: Sequence[Item]) -> str:
    """What the values of some comparisons are called together."""
    known = {(item.metric, row.unit) for item in chosen for row in item.rows.values()}
    if len(known) == 1:
        ((metric, unit),) = known
        return noun(unit, metric)
    if verb(chosen) != "keeps":
        return "values"
    # New orders a minute are no transactions a second.
    return "throughput" if all(item.transactions for item in chosen) else "I/O rate"


def sweep_ranges(analysis: Analysis, rows: Sequence[Row], family: Family | None = None) -> list[Finding]:
    """What each stack keeps of the baseline over the levels of factors; without shares the values that it has.
    ``family``: the sweep that the findings name."""
    compared = shared(analysis, rows)
    about = ""
    if family is not None:
        about = f"{family.label} over {listed([_span(analysis, family, name) for name in family.factors])}"
    found = []
    for name in dict.fromkeys(row.stack_name for row in compared or rows):
        mine = [row for row in compared or rows if row.stack_name == name]
        if compared:
            beside = f"{analysis.baseline}'s {noun(rows[0].unit, rows[0].metric)}"
            shares = [(share_of(row), _where(row, mine)) for row in mine]
            throughput = is_throughput(rows[0].metric)
            found.append(share_range(name, shares, beside, throughput=throughput, about=about))
            continue
        ends = (min(mine, key=lambda row: row.value), max(mine, key=lambda row: row.value))
        values = tuple(
            number_of(row.estimate, unit=row.unit, metric=row.metric, at=_where(row, mine)) for row in ends
        )
        found.append(Finding("range", about, name, "", values, of=len(mine), verdict="has"))
    return found


def _span(analysis: Analysis, family: Family, factor: str) -> str:
    """``rtt (0.5ms to 20ms)``, from the least level to the most."""
    seen = {row.levels[factor] for row in family.rows if factor in row.levels}
    levels = [level for level in levels_of(analysis.study)[factor] if level in seen]
    numbers = sorted((number, level) for level in levels if (number := level_number(level)) is not None)
    if len(numbers) == len(levels):
        levels = [level for _, level in numbers]
    return f"{factor} ({levels[0]} {'and' if len(levels) == 2 else 'to'} {levels[-1]})"


def shared(analysis: Analysis, rows: Sequence[Row]) -> list[Row]:
    """The rows that have a share of another one's."""
    return [row for row in rows if row.stack in analysis.others and row.relative is not None]


def share_of(row: Row) -> Estimate:
    """The row's share of the baseline's, of a row that has one."""
    assert row.relative is not None
    return row.relative


def _where(row: Row, among: Sequence[Row]) -> str:
    """The levels of a row that differ among rows."""
    differ = [name for name in row.levels if len({other.levels.get(name) for other in among}) > 1]
    return ", ".join(f"{name}={row.levels[name]}" for name in differ)


def _effects(analysis: Analysis, family: Family) -> Iterator[Finding]:
    """What each factor does to the share, or to the value where there is none: at each level the median over all
    other levels. ``count`` is how many values a median is of."""
    compared = shared(analysis, family.rows)
    found = {
        name: _common(analysis, compared or family.rows, name, shares=bool(compared)) for name in family.factors
    }
    several = {name: levels for name, levels in found.items() if len(levels) > 1}
    if len(several) < 2 and not compared:
        return
    unit, metric = ("", "") if compared else (family.rows[0].unit, family.metric)
    for name, levels in several.items():
        medians = tuple(
            number_of(
                values[0] if len(values) == 1 else Estimate(statistics.median(each.value for each in values)),
                unit=unit, metric=metric, at=level,
            )
            for level, values in levels.items()
        )  # fmt: skip
        most = max(len(values) for values in levels.values())
        beside = f"share of {analysis.baseline}" if compared else "value"
        yield Finding("factor", family.label, beside=beside, numbers=medians, count=most, level=name)


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


def _latencies(analysis: Analysis) -> Iterator[Finding]:
    """What a mirror adds to the fastest write, beside its link's round trip."""
    # Of an open loop no write is by itself.
    paced = {workload for workload, _ in scheduled(analysis)}
    base = [
        row
        for row in analysis.rows
        if row.own
        and row.stack in analysis.grid.baselines
        and row.metric == "write.latency.mean"
        and row.workload not in paced
    ]
    if not base:
        return
    fastest = min(base, key=lambda row: row.value)
    for stack in analysis.others:
        row = analysis.find(stack, fastest.workload, fastest.metric, fastest.phase)
        if row is None:
            continue
        numbers = [
            number_of(fastest.estimate, unit="s", name="baseline", at=analysis.baseline),
            number_of(row.estimate, unit="s", name="latency"),
        ]
        for layer in analysis.stacks[stack].stack.layers:
            if not (isinstance(layer, Spans) and isinstance(layer, Copies)) or not layer.connected:
                continue
            for peer, link in peers_of(layer, analysis.stacks[stack].stack.on, analysis.study.links).items():
                ping = analysis.ping(stack, fastest.workload, link) if link else None
                if ping is not None:
                    numbers.append(Number(ping, unit="s", name="RTT", at=peer))
        yield Finding("latency", fastest.phase or fastest.workload, stack, numbers=tuple(numbers))


def _carried(analysis: Analysis) -> list[Finding]:
    """Of each layout whether it carries the rate that was asked of it; of many layouts only their counts."""
    found = needs(analysis)
    several = len(analysis.workloads) > 1
    names = [f"{need.stack} ({need.workload})" if several else need.stack for need in found]
    if len(found) <= MOST_NEEDS:
        return [_need(need, name) for need, name in zip(found, names, strict=True)]
    by: dict[str, list[str]] = {}
    for need, name in zip(found, names, strict=True):
        by.setdefault(need.base.verdict, []).append(name)
    return [
        Finding("needs", names=tuple(by[said]), count=len(by[said]), of=len(found), verdict=said)
        for said in ("carried", "not carried", "unknown")
        if said in by
    ]


def _need(need: Need, name: str) -> Finding:
    """Of the need itself; the table has the other levels, and where it saturates."""
    base = need.base
    kinds = [(kind, KINDS.get(kind.metric, kind.metric)) for kind in base.kinds]
    numbers = [Number(kind.asked, unit="1/s", name="asked", at=at) for kind, at in kinds]
    tail: Name = "p99, at least" if base.at_least else "p99"
    numbers += [Number(kind.p99, unit="s", name=tail, at=at) for kind, at in kinds if kind.p99 is not None]
    return Finding("need", stack=name, numbers=tuple(numbers), verdict=base.verdict, note=base.why)


def _comparisons(analysis: Analysis, items: Sequence[Item], swept: Sequence[Family]) -> Iterator[Finding]:
    """What the comparisons decide, of all of them; nothing where each differs and there is but one."""
    rows = [row for family in swept for row in shared(analysis, family.rows)]
    shares = [*(share for item in items for share in item.shares.values()), *map(share_of, rows)]
    counts = Counter(str(verdict(share)) for share in shares)
    words = ("differs", "no difference shown", *OPEN)
    numbers = tuple(Number(counts[word], unit="1", name=word) for word in words if counts[word])
    if len(shares) > 1 or (numbers and not counts["differs"]):
        tested = sum(share.builds > 1 for share in shares)
        yield Finding("comparisons", numbers=numbers, count=tested, of=len(shares))


def _expectations(analysis: Analysis) -> Iterator[Finding]:
    """How many of the study's expectations hold; their table has each of them."""
    counts: Mapping[str, int] = Counter(each.status for each in analysis.verdicts)
    if counts:
        numbers = tuple(
            Number(counts[status], unit="1", name=status)
            for status in ("ok", "failed", "unknown")
            if counts.get(status)
        )
        inside = sum(each.status == "unknown" and each.inside is True for each in analysis.verdicts)
        yield Finding("expectations", numbers=numbers, count=inside, of=len(analysis.verdicts))
