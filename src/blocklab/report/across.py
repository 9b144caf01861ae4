"""The shares of two machines beside each other: for the terminal, as JSON, and for the page of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from blocklab.lang import term
from blocklab.model.terminal import Text
from blocklab.report.grid import grid
from blocklab.stats import longform
from blocklab.stats.across import SAME, Across, Share, sides
from blocklab.stats.format import NBSP, listed, percent, quantity, shortened
from blocklab.stats.inputs import Apart
from blocklab.stats.summary import Estimate
from blocklab.stats.versus import Versus

MACHINES = "Ratios of values are also those of the two machines."
_STYLES = {"differ": "bold", "agree": "", "unknown": "dim"}


def ratio_text(ratio: Estimate | None) -> str:
    """``0.80 ± 0.02``; a dash without a ratio."""
    if ratio is None:
        return "–"
    if ratio.half is None:
        return f"{ratio.value:.2f}"
    digits = 3 if ratio.half < 0.01 else 2
    return f"{ratio.value:.{digits}f}{NBSP}±{NBSP}{ratio.half:.{digits}f}"


def answer(found: Versus, laid: Across) -> str:
    """Whether the shares agree, in one line: ``7 of 9 shares agree within 10 %, 1 differs (...), 1 is unknown;
    writes of vda on a1 took 0.45 ms in A and 0.71 ms in B.``"""
    parts = [_counts(laid)]
    if lone := len(found.lone) + len(laid.lone):
        parts.append(f"{lone} cell{'s have' if lone > 1 else ' has'} no counterpart")
    most = max(laid.inputs, key=lambda each: each.times, default=None)
    if most is not None:
        parts.append(sides(most) if most.far else SAME)
    return "; ".join(parts) + "."


def _counts(laid: Across) -> str:
    if not laid.shares:
        return "A and B have no share of a baseline in common"
    count = Counter(each.verdict for each in laid.shares)
    shares = f"{len(laid.shares)} share{'s' if len(laid.shares) > 1 else ''}"
    agree = "agrees" if 1 in (count["agree"], len(laid.shares)) else "agree"
    parts = [f"{count['agree']} of {shares} {agree} within {percent(laid.within)}"]
    differ = [each for each in laid.shares if each.verdict == "differ"]
    if differ:
        most = max(differ, key=_off)
        here, there = (f"{each.value:.2f}" for each in (most.pair.a, most.pair.b))
        the_most = "the most " if len(differ) > 1 else ""
        verb = "differ" if len(differ) > 1 else "differs"
        parts.append(f"{len(differ)} {verb} ({the_most}{most.pair.label}: {here} in A, {there} in B)")
    if unknown := count["unknown"]:
        parts.append(f"{unknown} {'are' if unknown > 1 else 'is'} unknown")
    return ", ".join(parts)


def _off(share: Share) -> float:
    """How many times larger the larger of two shares is."""
    value = 1.0 if share.pair.ratio is None else share.pair.ratio.value
    return max(value, 1 / value) if value > 0 else float("inf")


def baselines(laid: Across) -> str:
    """What the shares are of: the names of the stacks."""
    return listed(list(dict.fromkeys(each.baseline.partition("/")[0] for each in laid.shares)), "or")


def terminal(laid: Across) -> Iterator[RenderableType]:
    """The shares, why any do not agree, and what the layouts stood on."""
    if laid.shares:
        rows, last = [], ""
        for each in laid.shares:
            pair, place = each.pair, each.pair.place
            a, b, ratio = map(ratio_text, (pair.a, pair.b, pair.ratio))
            said = Text(term(each.verdict), style=_STYLES[each.verdict])
            rows.append(
                (place if place != last else "", pair.metric, a, b, ratio + ("†" if pair.limited else ""), said)
            )
            last = place
        titles = (f"share of {baselines(laid)}", "metric", "A", "B", "B / A", "verdict")
        yield grid(titles, rows, left=("metric", "verdict"), whole=("B / A",))
        yield from map(Text, reasons(laid))
    yield from (Text(f"no share to compare: {lone.label} ({lone.gap})", style="yellow") for lone in laid.lone)
    yield grid(("what they stood on", "A", "B"), inputs(laid), left=("A", "B"))


def reasons(laid: Across) -> Iterator[str]:
    """Why shares differ or are unknown, those with one reason together."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in laid.shares:
        if each.why:
            found.setdefault((each.verdict, each.why), []).append(each.pair.label)
    yield from (f"{verdict}: {shortened(labels, 4)}: {why}" for (verdict, why), labels in found.items())


def inputs(laid: Across) -> Iterator[tuple[str, str, str]]:
    """What each volume and link took, and the CPUs: what, A, B."""
    for each in laid.inputs:
        yield f"{each.what}{_asked(each)}", quantity(each.mine, "s"), quantity(each.other, "s")
    yield "CPU", *laid.cpus
    for host, (a, b) in laid.busy.items():
        yield f"CPU of {host} in its busiest cell", f"{quantity(a, '%')} busy", f"{quantity(b, '%')} busy"


def _asked(apart: Apart) -> str:
    here, there = ("nothing" if asked is None else quantity(asked, "s") for asked in apart.asked)
    if here == there:
        return "" if apart.asked[0] is None else f", {here} asked"
    return f", {here} asked in A, {there} in B"


def document(found: Versus, laid: Across) -> dict[str, Any]:
    """For JSON: times in s, busy CPUs in %."""
    rows = zip(longform.compare([each.pair for each in laid.shares]).rows, laid.shares, strict=True)
    return {
        "answer": answer(found, laid),
        "within": laid.within,
        "shares": [
            row | {"baseline": e.baseline, "verdict": e.verdict, "why": e.why, "unit": "1"} for row, e in rows
        ],
        "only": [{"cell": each.label, "why": each.gap} for each in laid.lone],
        "inputs": [
            {"what": e.what, "a": e.mine, "b": e.other, "asked_a": e.asked[0], "asked_b": e.asked[1]}
            for e in laid.inputs
        ],
        "cpu": {"a": laid.cpus[0], "b": laid.cpus[1]},
        "busy": [{"host": host, "a": a, "b": b} for host, (a, b) in laid.busy.items()],
    }
