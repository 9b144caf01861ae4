"""What each stack keeps of the baseline, in %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import (
    HOLLOW,
    PAPER,
    Chart,
    flush_right,
    legend,
    named,
    numbers,
    palette_of,
    panel,
    rows_of,
    text,
    tooltip,
)
from blocklab.lang import term
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Item, plain_items, rate_label, verb
from blocklab.stats.finding import clear
from blocklab.stats.format import listed, percent
from blocklab.stats.overview import alike
from blocklab.stats.ratio import verdict

BAR = 20
NEXT_LINE = "\n("
# With more rows than this each is thin, and its values are in the tooltip.
MANY = 30
# A wider interval (a part of the baseline's value) is drawn as far as that; the table has all of it.
WIDEST = 4.0
# Pixels that the names of the workloads may have, and all that stands beside the plot.
_NAMES, _BESIDE = 150, 180


def bars(analysis: Analysis, skip: Sequence[str] = ()) -> Chart | str:
    """One bar for each stack and workload or phase, but for the workloads that ``skip`` names; a note instead
    where nothing can be compared."""
    compared = [item for item in plain_items(analysis) if analysis.workloads[item.workload].name not in skip]
    # What no layout changes is said beside the table.
    same = {name for each in alike(analysis) for name in each.names}
    compared = [item for item in compared if item.label not in same] or compared
    rows = _rows(analysis, compared)
    if not rows:
        return f"bars: no stack has a value beside one of {analysis.baseline}"
    shown = [stack for stack in analysis.others if any(row["stack"] == stack for row in rows)]
    labels = list(dict.fromkeys(row["item"] for row in rows))
    many = len(labels) > MANY
    if many:
        labels = list(dict.fromkeys(row["what"] for row in rows))
        rows = [{**row, "item": row["what"]} for row in rows]
    longest = max(100.0, *(row["edge"] for row in rows))
    palette = palette_of(analysis)
    base = rows_of("shares")
    # A second line under each name says what 100 % is.
    axis = alt.Axis(title=None, ticks=False, domain=False, labelExpr="split(datum.label, '\\n')", labelPadding=8,
                    labelLimit=_NAMES)  # fmt: skip
    y = alt.Y("item:N", sort=labels, axis=axis, scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1))
    offset = alt.YOffset("stack:N", sort=shown, scale=alt.Scale(paddingInner=0.15))
    step = 25 * max(1, math.ceil(longest / 250))
    ticks = [tick for tick in range(0, int(longest) + step + 1, step) if tick <= max(100, longest)]
    plain = {"values": ticks, "grid": True, "domain": False, "ticks": False}
    x = numbers(alt.X, "share", f"share of {analysis.baseline}, %", [0, longest * 1.3], axis=plain)
    own = legend(shown, beside=_BESIDE, symbolType="square")
    colour = named(alt.Color, "stack", {stack: palette[stack] for stack in shown}, own)
    hollow = any("note" in row for row in rows)
    told = tooltip(["what", "stack", "value", "baseline", "keeps", "verdict"], ["note"])
    # Where the page is narrow there is room for the share only.
    wording = alt.expr("width > 330 ? datum.long : datum.keeps")
    label = {"align": "left", "dx": 7, "fontSize": 12, "text": wording}
    bar = base.transform_filter("!datum.note") if hollow else base
    empty = base.transform_filter("datum.note").mark_bar(filled=False, strokeWidth=1.5, fill=PAPER, tooltip=told)
    layers: list[Any] = [
        bar.mark_bar(cornerRadiusEnd=2, tooltip=told).encode(y=y, yOffset=offset, x=x, color=colour),
        *([empty.encode(y=y, yOffset=offset, x=x, color=colour)] if hollow else []),
        base.mark_rule(strokeWidth=1.5).encode(y=y, yOffset=offset, x=alt.X("low:Q"), x2=alt.X2("edge:Q")),
        rows_of("whole").mark_rule(strokeDash=[4, 3]).encode(x=alt.X("share:Q")),
        *([] if many else text(base, label, y=y, yOffset=offset, x=alt.X("edge:Q"))),
    ]
    height = len(labels) * (len(shown) * 8 + 8 if many else len(shown) * (BAR + 4) + 10)
    data = {"shares": rows, "whole": [{"share": 100}]}
    spec = panel("share of the baseline", alt.layer(*layers), data, height, ("shares", _columns(analysis)))
    spec.spec["config"] = flush_right(shown, _BESIDE)
    known = any(share.half is not None for item in compared for share in item.shares.values())
    caption = (
        f"Each bar is the value of a stack in % of {analysis.baseline}'s"
        f"{'' if many else ', which stands under the name'} (dashed line = 100 %). "
    ) + (
        f"The thin line is the 95 % interval {analysis.spread}, where one is known."
        if known
        else "There are no intervals: each is of one build."
    )
    title = _title(analysis, shown, compared)
    return Chart("bars", title, caption + (HOLLOW if hollow else ""), (spec,), section="bars")


def _columns(analysis: Analysis) -> dict[str, str]:
    return {
        "what": "workload", "stack": "stack", "value": "value", "baseline": f"of {analysis.baseline}",
        "share": f"share of {analysis.baseline}, %", "low": "from, %", "high": "to, %", "verdict": "verdict",
        "note": "note",
    }  # fmt: skip


def _rows(analysis: Analysis, compared: Sequence[Item]) -> list[dict[str, Any]]:
    rows = []
    for item in compared:
        for stack, share in item.shares.items():
            half = share.half or 0.0
            keeps, value = percent(share.value), rate_label(item, stack)
            said = analysis.share_limit(item.rows[stack])
            rows.append(
                {
                    **({"note": said} if said else {}),
                    # What is in brackets (reads, writes) has no room beside a long name.
                    "item": f"{item.label.replace(' (', NEXT_LINE)}\n{rate_label(item, analysis.baseline)}",
                    "what": item.label,
                    "stack": stack,
                    "share": round(100 * share.value, 3),
                    "low": round(100 * max(0.0, share.value - half), 3),
                    "high": round(100 * (share.value + half), 3),
                    "edge": round(100 * (share.value + min(half, WIDEST)), 3),
                    "keeps": keeps,
                    "long": f"{keeps}  ({value})",
                    "value": value,
                    "baseline": rate_label(item, analysis.baseline),
                    "verdict": verdict(share),
                }
            )
    return rows


def _title(analysis: Analysis, shown: list[str], compared: Sequence[Item]) -> str:
    said = []
    for stack in shown:
        shares = [item.shares[stack] for item in compared if stack in item.shares]
        # What is too noisy to say is no end of a range, unless there is nothing else.
        told = [share.value for share in clear(shares, lambda share: share) or shares]
        low, high = percent(min(told)), percent(max(told))
        said.append(f"{stack} {term(verb(compared))} {high if low == high else f'{low} to {high}'}")
    what = f"what {analysis.baseline} does" if verb(compared) == "keeps" else f"{analysis.baseline}'s values"
    return f"{listed(said)} of {what}"
