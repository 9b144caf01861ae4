"""The answer in plain words, made from the figures: no sentence here knows what the figures will be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from blocklab.layers import ImportedLayer
from blocklab.model.units import enc_hook
from blocklab.stats.analysis import Analysis
from blocklab.stats.caveats import caveats
from blocklab.stats.compare import Item, families, plain_items, verb
from blocklab.stats.drill_answer import drill_lead
from blocklab.stats.expect import Verdict
from blocklab.stats.format import capital, exact, listed, percent, quantity, shortened, spelled
from blocklab.stats.ratio import ratio
from blocklab.stats.ratio import verdict as verdict_of
from blocklab.stats.rounds import is_mean
from blocklab.stats.sweeps import sweep_lead, sweep_points
from blocklab.study.types import Stack

# Shares of one stack that differ by less than this are told as a range, not as a contrast.
CONTRAST = 1.25
# Of more sweeps than this the charts tell.
MOST_SWEEPS = 3


class Findings(msgspec.Struct, frozen=True):
    """``lead`` is the answer in a sentence or two, ``points`` what supports it, ``caveats`` what limits it."""

    lead: str
    points: tuple[str, ...]
    caveats: tuple[str, ...]


def findings(analysis: Analysis) -> Findings:
    """The answer to the study's question, as far as the figures go."""
    compared = [item for item in plain_items(analysis) if item.shares]
    swept = families(analysis)
    leading = [family for family in swept if family.transactions] or (list(swept) if not compared else [])
    main = [item for item in compared if item.transactions] or ([] if leading else compared)
    told: list[Verdict] = []
    points = [*sweep_points(analysis, leading), *_contrasts(analysis, main, told)]
    if leading and main:
        points += _ranges(analysis, main, "Without factors")
    points += _ranges(analysis, [item for item in compared if item not in main])
    points += _sure(analysis, compared)
    rest = [family for family in swept if family not in leading]
    points += [text for family in rest[:MOST_SWEEPS] if (text := sweep_lead(analysis, [family]))]
    # With levels there are too many mirrors, each with a round trip of its own.
    if not any(side.levels for side in analysis.stacks.values()):
        points += _added_latency(analysis)
    points += drill_lead(analysis)
    points += _claims(analysis.verdicts, told)
    lead = sweep_lead(analysis, leading[:MOST_SWEEPS]) or _lead(analysis, main)
    return Findings(lead, tuple(points), tuple(caveats(analysis)))


def describe(stack: Stack, links: Any) -> str:
    """What tells a stack from others in a few words: ``mirror on a2, 0.5 ms away``; empty for one node."""
    for layer in stack.layers:
        if isinstance(layer, ImportedLayer):
            return layer.says
        peer, link = getattr(layer, "peer", None), getattr(layer, "link", None)
        if peer is None:
            continue
        if link is None:
            return f"volume shared with {peer}"
        if getattr(layer, "standalone", False):
            return f"mirror on {peer}, disconnected"
        if link in links:
            return f"mirror on {peer}, {exact(links[link].rtt, 's')} away"
    return ""


def _lead(analysis: Analysis, main: Sequence[Item]) -> str:
    if not main:
        if not analysis.rows:
            return "There is no answer yet: no cell of this study has a usable figure."
        if len(analysis.study.stacks) == 1:
            return f"There is one layout, {analysis.baseline}, and nothing beside it: its figures are below."
        return f"There is nothing to compare yet: figures of {analysis.baseline} and of another stack are needed."
    names = [
        f"{stack} ({said})" if (said := _described(analysis, stack)) else stack
        for stack in analysis.others
        if any(stack in item.shares for item in main)
    ]
    unit = _noun(main)
    parts = []
    for number, item in enumerate(main[:4]):
        shares = [
            f"{name} {f'{verb([item])} ' if not index else ''}{percent(share.value)}"
            for index, (name, share) in enumerate(item.shares.items())
        ]
        of = f" of {analysis.baseline}'s {unit}" if not number else ""
        parts.append(f"in {item.label}, {listed(shares)}{of}")
    text = f"{capital('; '.join(parts))}."
    if len(main) > 4:
        text = _range_sentence(analysis.baseline, analysis.others, main, unit)
    return f"Compared with {analysis.baseline}: {listed(names)}. {text}"


def _described(analysis: Analysis, stack: str) -> str:
    side = analysis.stacks[stack]
    return describe(side.stack, side.study.links)


def _noun(chosen: Sequence[Item]) -> str:
    if verb(chosen) != "keeps":
        words = {spelled(item.metric) for item in chosen}
        return words.pop() if len(words) == 1 else "figures"
    if all(item.metric == "tpmc" for item in chosen):
        return "tpmC"
    return "transactions per second" if all(item.transactions for item in chosen) else "I/O rate"


def _range_sentence(baseline: str, others: Sequence[str], chosen: Sequence[Item], unit: str) -> str:
    said, does = [], verb(chosen)
    for stack in others:
        shares = sorted((item.shares[stack].value, item.label) for item in chosen if stack in item.shares)
        if not shares:
            continue
        (low, worst), (high, best) = shares[0], shares[-1]
        if percent(low) == percent(high):
            said.append(
                f"{stack} {does} {percent(low)} throughout" if len(shares) > 1 else f"{stack} {percent(low)}"
            )
        else:
            said.append(f"{stack} {does} from {percent(low)} ({worst}) to {percent(high)} ({best})")
    return f"{'; '.join(said)} of {baseline}'s {unit}." if said else ""


def _ranges(analysis: Analysis, chosen: Sequence[Item], what: str = "") -> Iterator[str]:
    if not chosen:
        return
    # Reads and writes, and what else a block device does, come with their direction.
    what = what or ("Block I/O" if all("." in item.metric for item in chosen) else "Besides")
    yield f"{what}: {_range_sentence(analysis.baseline, analysis.others, chosen, _noun(chosen))}"


def _sure(analysis: Analysis, chosen: Sequence[Item]) -> Iterator[str]:
    """Of which shares it is not sure that they differ from the baseline."""
    said: dict[str, list[str]] = {}
    for item in chosen:
        for stack, share in item.shares.items():
            word = "no interval" if share.half is None else verdict_of(share)
            said.setdefault(word, []).append(f"{stack} in {item.label}")
    if alike := said.get("no difference shown"):
        yield f"No difference from {analysis.baseline} was shown: {shortened(alike)}."
    if noisy := said.get("too noisy to say"):
        yield f"Too noisy to say whether it differs from {analysis.baseline}: {shortened(noisy)}."
    if unsure := said.get("no interval"):
        short = all(is_mean(item.metric) for item in chosen)
        why = "Too short for an interval" if short else "Without an interval"
        yield f"{why}, so nothing is said of how sure it is: {shortened(unsure)}."


def _contrasts(analysis: Analysis, main: Sequence[Item], told: list[Verdict]) -> Iterator[str]:
    """Where the same layout costs much more under one load than under another, and what claims say of that.

    ``told`` gets the verdicts whose claims are in the text.
    """
    if verb(main) != "keeps":
        # A layout costs throughput; a latency that grows under one load more than under another is another matter.
        return
    for stack in analysis.others:
        ranked = sorted((item for item in main if stack in item.shares), key=lambda item: item.shares[stack].value)
        if len(ranked) < 2:
            continue
        worst, best = ranked[0], ranked[-1]
        low, high = worst.shares[stack].value, best.shares[stack].value
        if low <= 0 or high / low < CONTRAST:
            continue
        times = ratio(best.shares[stack], worst.shares[stack])
        # Without an interval there is the factor to go by.
        if times is None or (times.half is not None and verdict_of(times) != "differs"):
            continue
        text = (
            f"What {stack} costs depends on the load: it keeps {high / low:.1f} times as large a share in "
            f"{best.label} ({percent(high)}) as in {worst.label} ({percent(low)})."
        )
        if differs := _difference(analysis, worst.workload, best.workload):
            text += f" The two differ in {differs}."
        for verdict in analysis.verdicts:
            if _explains(verdict, stack, {analysis.workloads[each.workload].name for each in (worst, best)}):
                told.append(verdict)
                text += f" {claim_text(verdict)}"
        yield text


def _explains(verdict: Verdict, stack: str, loads: set[str]) -> bool:
    """Whether a claim says why a stack's share differs between two loads."""
    claim = verdict.claim
    return bool(claim.says) and claim.stack == stack and {claim.workload, claim.against} == loads


def _difference(analysis: Analysis, one: str, other: str) -> str:
    """The fields in which two workloads of one kind differ: ``scale (1 and 50)``."""
    first, second = (
        msgspec.to_builtins(analysis.workloads[name].workload, enc_hook=enc_hook) for name in (one, other)
    )
    if one == other or first.get("load") != second.get("load"):
        return ""
    fields = [
        f"{name} ({first.get(name, 'default')} and {second.get(name, 'default')})"
        for name in first | second
        if first.get(name) != second.get(name) and not isinstance(first.get(name), dict)
    ]
    return listed(fields) if len(fields) <= 3 else ""


def _added_latency(analysis: Analysis) -> Iterator[str]:
    """What a mirror adds to the fastest write, beside its link's round trip."""
    base = [
        row
        for row in analysis.rows
        if row.load and row.stack in analysis.grid.baselines and row.metric == "write.latency.mean"
    ]
    if not base:
        return
    fastest = min(base, key=lambda row: row.value)
    said = []
    for stack in analysis.others:
        row = analysis.find(stack, fastest.workload, fastest.metric, fastest.phase)
        if row is None:
            continue
        text = f"{quantity(row.value, 's')} on {stack} ({quantity(row.value - fastest.value, 's')} more"
        if row.value < fastest.value:
            text = f"{quantity(row.value, 's')} on {stack} ({quantity(fastest.value - row.value, 's')} less"
        for layer in analysis.stacks[stack].stack.layers:
            name, peer = getattr(layer, "link", ""), getattr(layer, "peer", "its peer")
            if name in analysis.study.links and not getattr(layer, "standalone", False):
                wanted = exact(analysis.study.links[name].rtt, "s")
                ping = analysis.ping(stack, fastest.workload, name)
                took = f"took {quantity(ping, 's')}" if ping is not None else f"takes {wanted}"
                text += f"; a round trip to {peer} {took}"
        said.append(text + ")")
    if said:
        place = fastest.phase or fastest.workload
        least = f"{quantity(fastest.value, 's')} on {analysis.baseline}"
        yield f"A single write in {place} takes {least}, {listed(said)}."


def claim_text(verdict: Verdict) -> str:
    """A claim's own words with what became of it; never the bare claim when it does not hold."""
    says = verdict.claim.says.strip().rstrip(".")
    if verdict.status == "ok":
        return f"Confirmed: {says}."
    if verdict.status == "failed":
        found = verdict.sentence.rstrip(".")
        return f"Not confirmed: “{says}”. Instead, {found}; expected {verdict.expected}."
    return f"Undecided: “{says}”. {verdict.sentence}"


def _claims(verdicts: Sequence[Verdict], told: Sequence[Verdict]) -> Iterator[str]:
    if not verdicts:
        return
    counted = {status: sum(v.status == status for v in verdicts) for status in ("ok", "failed", "unknown")}
    words = {"ok": "confirmed", "failed": "not confirmed", "unknown": "undecided"}
    said = listed([f"{count} {words[status]}" for status, count in counted.items() if count])
    if len(verdicts) == 1:
        yield f"The one expectation of the study is {words[verdicts[0].status]}."
    elif counted["ok"] == len(verdicts):
        yield f"All {len(verdicts)} expectations of the study are confirmed."
    else:
        yield f"Of the study's {len(verdicts)} expectations: {said}."
    for verdict in verdicts:
        # What is confirmed stands in the table of expectations; what is not must be met here too.
        if verdict.status == "failed" and verdict not in told:
            if verdict.claim.says:
                yield claim_text(verdict)
            else:
                yield f"Not confirmed: {verdict.sentence.rstrip('.')}; expected {verdict.expected}."
