"""The answer in plain words, made from the values: no sentence here knows what the values will be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from blocklab.model.layer import Mirror, Paired
from blocklab.model.metrics import metric as metric_of
from blocklab.model.protocols import Imported
from blocklab.model.units import enc_hook
from blocklab.stats.analysis import Analysis
from blocklab.stats.carried import carried_lead, needs, scheduled
from blocklab.stats.caveats import caveats, without_interval
from blocklab.stats.claims import expectations
from blocklab.stats.compare import Family, Item, families, plain_items, verb
from blocklab.stats.drill_answer import drill_lead
from blocklab.stats.format import capital, exact, listed, plus_minus, quantity
from blocklab.stats.ratio import ratio
from blocklab.stats.ratio import verdict as verdict_of
from blocklab.stats.shares import clear, of_baseline, share_text, throughout
from blocklab.stats.sweeps import share_of, shared, sweep_lead, sweep_points
from blocklab.study.types import Stack

# Shares of one stack that differ by less than this are told as a range, not as a contrast.
CONTRAST = 1.25
# Of more workloads or shares than this a sentence tells the range.
MOST_WORKLOADS, MOST_SHARES = 4, 6
# More points than this nobody reads; the tables have the rest.
MOST_POINTS = 5
# Of more sweeps than this the charts tell.
MOST_SWEEPS = 3
# Two workloads that differ in more fields than this are just different workloads.
MOST_FIELDS = 3


class Findings(msgspec.Struct, frozen=True):
    """``lead`` is the answer in a sentence or two, ``points`` what supports it, ``caveats`` what limits it."""

    lead: str
    points: tuple[str, ...]
    caveats: tuple[str, ...]


def findings(analysis: Analysis) -> Findings:
    """The answer to the study's question, as far as the values go: a lead, and five points at most."""
    compared = [item for item in plain_items(analysis) if item.shares]
    swept = families(analysis)
    leading = [family for family in swept if family.transactions] or (list(swept) if not compared else [])
    main = [item for item in compared if item.transactions] or ([] if leading else compared)
    points = [*sweep_points(analysis, leading), *_contrasts(analysis, main)]
    if leading and main:
        points += _ranges(analysis, main, "Without factors")
    points += _ranges(analysis, [item for item in compared if item not in main])
    rest = [family for family in swept if family not in leading]
    points += [text for family in rest[:MOST_SWEEPS] if (text := sweep_lead(analysis, [family]))]
    # With levels there are too many mirrors, each with a round trip of its own.
    if not any(side.levels for side in analysis.stacks.values()):
        points += _added_latency(analysis)
    lead = sweep_lead(analysis, leading[:MOST_SWEEPS]) or _lead(analysis, main)
    if held := carried_lead(needs(analysis), len(analysis.workloads)):
        # Who asks for a rate asks first whether it is carried.
        lead, points = held[0], [*held[1:], *([lead] if main or leading else []), *points]
    if lost := drill_lead(analysis):
        # Who lets a primary die asks first what is lost, then what it costs.
        lead, points = lost[0], [*lost[1:], lead, *points]
    last = [*_uncertain(analysis, compared, swept), *expectations(analysis.verdicts)]
    return Findings(lead, (*points[: MOST_POINTS - len(last)], *last), tuple(caveats(analysis)))


def describe(stack: Stack, links: Any) -> str:
    """What tells a stack from others in a few words: ``mirror on a2, 0.5 ms away``; empty for one node."""
    for layer in stack.layers:
        if isinstance(layer, Imported):
            return layer.says
        if isinstance(layer, Paired) and layer.one_copy:
            return f"volume shared with {layer.peer}"
        if isinstance(layer, Mirror) and not layer.connected:
            return f"mirror on {layer.peer}, disconnected"
        if isinstance(layer, Mirror) and layer.link in links:
            return f"mirror on {layer.peer}, {exact(links[layer.link].rtt, 's')} away"
    return ""


def _lead(analysis: Analysis, main: Sequence[Item]) -> str:
    if not main:
        if not analysis.rows:
            return "There is no answer yet: no cell of this study has a usable value."
        if len(analysis.study.stacks) == 1:
            return f"There is one layout, {analysis.baseline}, and nothing beside it: its values are below."
        return f"There is nothing to compare yet: values of {analysis.baseline} and of another stack are needed."
    names = [
        f"{stack} ({said})" if (said := _described(analysis, stack)) else stack
        for stack in analysis.others
        if any(stack in item.shares for item in main)
    ]
    unit = _noun(main)
    parts = []
    for number, item in enumerate(main):
        shares = [
            f"{name} {f'{verb([item])} ' if not index else ''}{share_text(share)}"
            for index, (name, share) in enumerate(item.shares.items())
        ]
        of = f" of {analysis.baseline}'s {unit}" if not number else ""
        parts.append(f"in {item.label}, {listed(shares)}{of}")
    text = f"{capital('; '.join(parts))}."
    if len(main) > MOST_WORKLOADS or sum(len(item.shares) for item in main) > MOST_SHARES:
        text = _range_sentence(analysis, main, unit)
    return f"Compared with {analysis.baseline}: {listed(names)}. {text}"


def _described(analysis: Analysis, stack: str) -> str:
    side = analysis.stacks[stack]
    return describe(side.stack, side.study.links)


def _noun(chosen: Sequence[Item]) -> str:
    if verb(chosen) != "keeps":
        words = {metric_of(item.metric).words for item in chosen}
        return words.pop() if len(words) == 1 else "values"
    if not all(item.transactions for item in chosen):
        return "I/O rate"
    # New orders a minute are no transactions a second: of both there is only the general word.
    metrics = {item.metric for item in chosen}
    if len(metrics) > 1:
        return "throughput"
    return "tpmC" if metrics == {"tpmc"} else "transactions per second"


def _range_sentence(analysis: Analysis, chosen: Sequence[Item], unit: str) -> str:
    said, noisy, does = [], {}, verb(chosen)
    for stack in analysis.others:
        shares = [(item.shares[stack], item.label) for item in chosen if stack in item.shares]
        if not shares:
            continue
        ranked = clear(shares, lambda each: each[0])
        noisy[stack] = (len(shares) - len(ranked), len(shares))
        if not ranked:
            continue
        (low, worst), (high, best) = ranked[0], ranked[-1]
        if alike := throughout([share for share, _ in ranked]):
            said.append(f"{stack} {does} {alike}{' throughout' if len(ranked) > 1 else ''}")
        else:
            said.append(f"{stack} {does} from {share_text(low)} ({worst}) to {share_text(high)} ({best})")
    text = of_baseline(said, noisy, f"{analysis.baseline}'s {unit}")
    return f"{text}." if text else ""


def _ranges(analysis: Analysis, chosen: Sequence[Item], what: str = "") -> Iterator[str]:
    if not chosen:
        return
    # Reads and writes, and what else a block device does, come with their direction.
    what = what or ("Block I/O" if all(metric_of(item.metric).of for item in chosen) else "Other workloads")
    if text := _range_sentence(analysis, chosen, _noun(chosen)):
        yield f"{what}: {text}"


def _uncertain(analysis: Analysis, items: Sequence[Item], swept: Sequence[Family]) -> Iterator[str]:
    """How many comparisons are not sure, in one sentence."""
    rows = [row for family in swept for row in shared(analysis, family.rows)]
    shares = [*(share for item in items for share in item.shares.values()), *map(share_of, rows)]
    counts = Counter(str(verdict_of(share)) for share in shares)
    said = [f"{counts[word]:,} {word}" for word in ("no difference shown", "too noisy to say") if counts[word]]
    if bare := counts["no interval"]:
        metrics = [*(item.metric for item in items), *(row.metric for row in rows)]
        said.append(f"{bare:,} no interval ({without_interval(analysis, metrics)})")
    if said:
        yield f"Of {len(shares):,} comparison{'s' if len(shares) > 1 else ''}: {', '.join(said)}."


def _contrasts(analysis: Analysis, main: Sequence[Item]) -> Iterator[str]:
    """Where the same layout costs much more under one workload than under another."""
    if verb(main) != "keeps":
        # A layout costs throughput; a latency that grows under one workload more than under another is another
        # matter.
        return
    for stack in analysis.others:
        ranked = clear(((item.shares[stack], item) for item in main if stack in item.shares), lambda each: each[0])
        if len(ranked) < 2:
            continue
        (low, worst), (high, best) = ranked[0], ranked[-1]
        if low.value <= 0 or high.value / low.value < CONTRAST:
            continue
        times = ratio(high, low)
        # Where neither has an interval there is the factor to go by.
        bare = low.half is None and high.half is None
        if times is None or (not bare and verdict_of(times) != "differs"):
            continue
        text = (
            f"What {stack} costs depends on the workload: it keeps "
            f"{plus_minus(times.value, times.half, '')} times as large a share in {best.label} "
            f"({share_text(high)}) as in {worst.label} ({share_text(low)})."
        )
        if differs := _difference(analysis, worst, best):
            text += f" The two differ in {differs}."
        yield text


def _difference(analysis: Analysis, one: Item, other: Item) -> str:
    """The fields in which two workloads of one kind differ: ``scale (1 and 50)``. Empty where that is not all in
    which the two items differ, or more than a sentence holds: a part of it would be taken for the whole."""
    first, second = (
        msgspec.to_builtins(analysis.workloads[each.workload].workload, enc_hook=enc_hook) for each in (one, other)
    )
    if (
        one.workload == other.workload
        or one.phase != other.phase
        or first.get("workload") != second.get("workload")
    ):
        return ""
    pairs = {
        name: (first.get(name), second.get(name)) for name in first | second if first.get(name) != second.get(name)
    }
    long = "jobtext" in pairs or any(isinstance(value, (dict, list)) for pair in pairs.values() for value in pair)
    if long or len(pairs) > MOST_FIELDS:
        return ""
    return listed([f"{name} ({_field(a)} and {_field(b)})" for name, (a, b) in pairs.items()])


def _field(value: object) -> str:
    """A field's value; ``default`` for one that the study leaves empty."""
    return "default" if value in (None, "") else str(value)


def _added_latency(analysis: Analysis) -> Iterator[str]:
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
    said = []
    for stack in analysis.others:
        row = analysis.find(stack, fastest.workload, fastest.metric, fastest.phase)
        if row is None:
            continue
        more = "more" if row.value >= fastest.value else "less"
        text = f"{plus_minus(row.value, row.half, 's')} on {stack} "
        text += f"({quantity(abs(row.value - fastest.value), 's')} {more}"
        for layer in analysis.stacks[stack].stack.layers:
            if isinstance(layer, Mirror) and layer.connected and layer.link in analysis.study.links:
                wanted = exact(analysis.study.links[layer.link].rtt, "s")
                ping = analysis.ping(stack, fastest.workload, layer.link)
                took = f"took {quantity(ping, 's')}" if ping is not None else f"takes {wanted}"
                text += f"; a round trip to {layer.peer} {took}"
        said.append(text + ")")
    if said:
        place = fastest.phase or fastest.workload
        least = f"{plus_minus(fastest.value, fastest.half, 's')} on {analysis.baseline}"
        yield f"A single write in {place} takes {least}, {listed(said)}."
