"""Ratios of two runs with their intervals, one line a value: a forest plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import (
    BASELINE,
    PALETTE,
    PAPER,
    Chart,
    Panel,
    constant,
    named,
    numbers,
    panel,
    rows_of,
    text,
)
from blocklab.stats.across import agreement
from blocklab.stats.format import percent, plus_minus
from blocklab.stats.naming import cell_label
from blocklab.stats.ratio import NOTABLE, OPEN
from blocklab.stats.versus import Pair

ROW = 24
# More lines than this in one panel are a page to scroll through.
MOST = 60
# Wider than this, an interval is drawn to the edge only.
WIDEST = 4.0
_COLOURS: dict[str, str] = {
    "differs": PALETTE[1], "no difference shown": PALETTE[0], **dict.fromkeys(OPEN, BASELINE),
    "differ": PALETTE[1], "agree": PALETTE[0], "unknown": BASELINE,
}  # fmt: skip


def forest(pairs: Sequence[Pair], a: str, b: str, title: str, within: float | None = None) -> Chart | str:
    """One panel for the pairs that have a ratio, in their order; a note instead where none has. ``within``: they
    are of shares, which agree if they are that close."""
    known = [pair for pair in pairs if pair.ratio is not None]
    if not pairs:
        return "ratios: the workloads have no value in common"
    if not known:
        return "ratios: no value of A is above 0"
    shown = known[:MOST]
    more = f" {len(known) - MOST} more are in the table." if len(known) > MOST else ""
    what = "value" if within is None else "share"
    band = NOTABLE if within is None else within
    caption = f"Each point is the {what} of {b} divided by that of {a} (dashed line: the same)"
    if any(pair.ratio is not None and pair.ratio.half is not None for pair in shown):
        says = "shows that there is no difference to speak of" if within is None else "lets two shares agree"
        caption += (
            "; the line is its 95 % interval. Filled: the interval leaves 1 out. The grey band is "
            f"±{percent(band)}: an interval around 1 that is no wider {says}."
        )
    else:
        caption += f"; each is of one build, and has no interval. The grey band is ±{percent(band)}."
    caption += more
    drawn = _panel([_row(pair, within) for pair in shown], f"{b} / {a}", band)
    return Chart("forest" if within is None else "shares", title, caption, (drawn,))


def _panel(rows: Sequence[dict[str, Any]], axis: str, within: float) -> Panel:
    labels = [row["item"] for row in rows]
    low, high = min(1 - within, *(row["low"] for row in rows)), max(1 + within, *(row["high"] for row in rows))
    room = 0.06 * (high - low)
    base = rows_of("ratios")
    # Cell, then phase and metric in a second line: there is little room beside the plot on a phone.
    axis_y = alt.Axis(title=None, ticks=False, domain=False, labelExpr="split(datum.label, '\\n')", labelLimit=190,
                      labelPadding=8)  # fmt: skip
    y = alt.Y("item:N", sort=labels, axis=axis_y)
    ticks = {"format": ".2~f", "tickCount": alt.expr("width / 70"), "grid": True, "domain": False, "ticks": False}
    x = numbers(alt.X, "ratio", axis, [low - room, high + room], axis=ticks, zero=False)
    said = {each: shade for each, shade in _COLOURS.items() if any(row["verdict"] == each for row in rows)}
    # One below the other: beside each other they are wider than a phone.
    legend = alt.Legend(title=None, orient="top", direction="vertical", symbolType="circle")
    shared: dict[str, Any] = {
        "color": named(alt.Color, "verdict", said, legend),
        "tooltip": [f"{name}:N" for name in ("what", "A", "B", "said", "verdict")],
        "y": y,
    }
    band = rows_of("band")
    dot: dict[str, Any] = {"size": 70, "opacity": 1}
    full = base.transform_filter("datum.differs").mark_point(**dot, filled=True)
    hollow = base.transform_filter("!datum.differs").mark_point(**dot, filled=False, strokeWidth=2, fill=PAPER)
    layers: list[Any] = [
        band.mark_rect(opacity=0.12).encode(
            x=alt.X("from:Q"), x2=alt.X2("to:Q"), y=constant(alt.YValue, 0), y2=constant(alt.Y2Value, "height")
        ),
        band.mark_rule(strokeDash=[4, 3]).encode(x=alt.X("one:Q")),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), **shared),
        full.encode(x=x, **shared),
        hollow.encode(x=x, **shared),
        *text(base, {"align": "center", "dy": -10, "fontSize": 11}, y=y, x=x, text=alt.Text("short:N")),
    ]
    data = {"ratios": rows, "band": [{"from": 1 - within, "to": 1 + within, "one": 1}]}
    return panel("ratios with their 95 % intervals", alt.layer(*layers), data, max(70, len(labels) * (ROW + 8)))


def _row(pair: Pair, within: float | None) -> dict[str, Any]:
    assert pair.ratio is not None
    half = pair.ratio.half
    said = pair.verdict if within is None else agreement(pair.ratio, within)
    # A share has no unit.
    unit = (pair.unit, pair.metric) if within is None else ("", "")
    cell = cell_label(pair.cell)
    drawn = min(half or 0.0, WIDEST)
    return {
        "item": f"{cell}\n{pair.label.removeprefix(cell).strip()}", "what": pair.label,
        "ratio": round(pair.ratio.value, 5),
        "low": round(max(0.0, pair.ratio.value - drawn), 5), "high": round(pair.ratio.value + drawn, 5),
        "short": f"{pair.ratio.value:.2f}",
        "said": f"{pair.ratio.value:.3f}" + (f" ± {half:.3f}" if half is not None else f", {pair.verdict}"),
        "A": plus_minus(pair.a.value, pair.a.half, *unit), "B": plus_minus(pair.b.value, pair.b.half, *unit),
        "verdict": said, "differs": said in ("differs", "differ"),
    }  # fmt: skip
