"""What a layout costs against what it loses: a mark for each cell that has drills."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import (
    BASELINE,
    SHAPES,
    Chart,
    Panel,
    colours,
    constant,
    legend,
    log_ticks,
    named,
    numbers,
    rows_of,
    text,
    titled,
)
from blocklab.stats.analysis import Analysis
from blocklab.stats.drills import Summary, losing_text, rate_text, recovered_text, rto_text, summaries
from blocklab.stats.format import listed, number, percent, quantity, shortened
from blocklab.stats.grid import label_of

COST = "cost"
"""The name of the chart."""
HEIGHT = 230
# The band at the bottom in which nothing was lost: a logarithm has no place for 0. Pixels.
BAND, LANE = 30, 13
# Marks nearer to each other than this part of the axis stand on lanes of their own there: 14 of 300 pixels.
_NEAR = 0.05
MOST_PANELS = 6
# What is told of each.
_TOLD = ("throughput", "lost", "drills", "RPO", "RTO", "90 % of the rate")
# Of a cell to which the factor of the shapes makes no difference.
_NO_LEVEL = "any"


def cost(analysis: Analysis) -> Chart | str:
    """Throughput relative to the baseline against lost commits a drill; a note where no drill has both."""
    known = [each for each in summaries(analysis) if _known(each)]
    # A database that is damaged has lost something, but no number of commits.
    damaged = [each for each in known if each.losses.lost and not each.losses.missing]
    found = [each for each in known if each not in damaged and _x(each, True) is not None]
    shares = bool(found)
    if not shares:
        found = [each for each in known if each not in damaged and _x(each, False) is not None]
    if not found:
        return "cost against loss: no drill has both a rate before its fault and a verdict"
    shape, panels = _plan(analysis, found)
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for each in found:
        groups.setdefault(tuple(each.point.levels.get(name, "") for name in panels), []).append(each)
    chosen = list(groups.items())[:MOST_PANELS]
    frame = _Frame(analysis, found, shares, shape)
    placed = [_rows(frame, mine) for _, mine in chosen]
    # One height and one legend for all, so that they can be read beside each other.
    band = max(BAND, LANE * max(lanes for _, lanes in placed) + 26)
    drawn = tuple(
        _panel(frame, {name: at for name, at in zip(panels, levels, strict=True) if at}, rows, band, number)
        for number, ((levels, _), (rows, _)) in enumerate(zip(chosen, placed, strict=True))
    )
    caption = (
        f"Each mark is a stack{' at levels of the factors' if analysis.grid.factors else ''}, over all of its "
        "drills whose verdict is known. Along the axis: acknowledged transactions per second until the fault"
        f"{f', as a share of {analysis.baseline}' if shares else ''}, with the 95 % interval where there are "
        "several drills. Upwards, on a logarithmic scale: acknowledged transactions that were gone, for each "
        "drill. The band at the bottom is 0: no crash lost anything. Each mark says of how many, and the share of "
        "crashes that may lose something all the same (95 %); the height within it means nothing."
    )
    if other := [each.label for each in known if each not in damaged and each not in found]:
        whose = f", their own or {analysis.baseline}'s" if shares else ""
        caption += f" Not shown, no rate before the fault{whose}: {shortened(other)}."
    if damaged:
        caption += f" Not shown, since damaged without a missing row: {listed([each.label for each in damaged])}."
    if len(groups) > MOST_PANELS:
        caption += f" {len(groups) - MOST_PANELS} more panels are left out; the table has all."
    return Chart(COST, _title(found), caption, drawn, min(len(drawn), 3), "drills")


def _known(each: Summary) -> int:
    return each.losses.ok + each.losses.lost


def _per_drill(each: Summary) -> float:
    return each.losses.missing / _known(each)


def _x(each: Summary, shares: bool) -> float | None:
    estimate = each.relative if shares else each.rate
    return None if estimate is None else estimate.value * (100 if shares else 1)


def _half(each: Summary, shares: bool) -> float:
    estimate = each.relative if shares else each.rate
    half = 0.0 if estimate is None else estimate.half or 0.0
    return half * (100 if shares else 1)


def _plan(analysis: Analysis, found: Sequence[Summary]) -> tuple[str, list[str]]:
    """The factor that the marks' shapes tell, and those that make panels."""
    several = {
        name: len({each.point.levels[name] for each in found if name in each.point.levels})
        for name in analysis.grid.factors
    }
    several = {name: count for name, count in several.items() if count > 1}
    fit = [name for name, count in several.items() if count <= len(SHAPES)]
    shape = max(fit, key=lambda name: (several[name], name), default="")
    return shape, [name for name in several if name != shape]


def stack_colours(found: Sequence[Summary]) -> Mapping[str, str]:
    """A colour for each stack by its name, at whatever levels."""
    names = list(dict.fromkeys(each.point.stack_name for each in found))
    return colours(names, {each.point.stack_name for each in found if each.base})


class _Frame:
    """What the panels share: axes, colours, shapes."""

    def __init__(self, analysis: Analysis, found: Sequence[Summary], shares: bool, shape: str) -> None:
        self.analysis, self.found, self.shares, self.shape = analysis, found, shares, shape
        self.palette = stack_colours(found)
        own = dict.fromkeys(each.point.levels[shape] for each in found if shape in each.point.levels)
        other = [_NO_LEVEL] if shape and any(shape not in each.point.levels for each in found) else []
        self.levels = [*other, *own]
        lost = [_per_drill(each) for each in found if each.losses.missing]
        self.low = 10 ** math.floor(math.log10(min(lost, default=1.0)))
        self.high = max(10 ** math.ceil(math.log10(max(lost, default=1.0))), 10 * self.low)
        tops = [(_x(each, shares) or 0.0) + _half(each, shares) for each in found]
        self.most = max([100.0 if shares else 0.0, *tops]) * 1.06

    def height(self, value: float) -> float:
        """Where a number of lost commits stands, in pixels from above; only above 0."""
        span = math.log(self.high / self.low)
        return (HEIGHT - 8) * (1 - math.log(value / self.low) / span) + 4


def _panel(frame: _Frame, levels: Mapping[str, str], rows: list[dict[str, Any]], band: int, number: int) -> Panel:
    height = HEIGHT + band
    title = f"throughput, share of {frame.analysis.baseline}, %" if frame.shares else "acknowledged a second"
    x = numbers(alt.X, "x", title, [0, frame.most])
    # The axis is in pixels, so that the band for 0 can stand below the logarithm.
    raw = alt.Scale(domain=[height, 0], range=[height, 0], nice=False, zero=False)
    axis = _axis(frame, HEIGHT + band / 2)
    y: Any = alt.Y("y:Q", scale=raw, axis=axis)
    channels = _channels(frame, apart=bool(levels), told=number == 0)
    tooltip = [alt.Tooltip(f"{field}:N") for field in ("what", *_TOLD)]
    base, nothing = rows_of("cells"), rows_of("zero")
    layers: list[Any] = [
        nothing.mark_rect(opacity=0.12).encode(y=alt.Y("top:Q", scale=raw, axis=axis), y2=alt.Y2("end:Q")),
        *text(nothing, {"align": "left", "baseline": "bottom", "dx": 4, "dy": -2, "fontSize": 11},
              x=constant(alt.XValue, 0), y=alt.Y("end:Q", scale=raw, axis=axis), text=alt.Text("said:N")),
        base.transform_filter("datum.low < datum.high").mark_rule().encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=channels["color"]
        ),
        base.mark_point(filled=True, size=62, opacity=1).encode(x=x, y=y, **channels, tooltip=tooltip),
    ]  # fmt: skip
    where = label_of("", levels).strip()
    data = {"cells": rows, "zero": [{"top": HEIGHT, "end": height, "said": "nothing lost"}]}
    table = {"what": "cell"} | {name: name for name in _TOLD}
    found = titled(where, "cost against loss", layers, data, height, ("cells", table))
    # Beside each other two legends are wider than a phone.
    found.spec["config"] = {"legend": {"layout": {"bottom": {"direction": "vertical", "anchor": "start"}}}}
    return found


def _axis(frame: _Frame, zero: float) -> Any:
    """The axis of lost commits, with 0 at ``zero`` in the band."""
    ticks = log_ticks(frame.low, frame.high)
    if len(ticks) > 7:
        ticks = [tick for tick in ticks if f"{tick:e}".startswith("1")]
    names = {round(frame.height(tick), 2): f"{tick:,g}" for tick in ticks}
    names[zero] = "0"
    words = "".join(f"abs(datum.value - {place}) < 0.1 ? '{name}' : " for place, name in names.items())
    return alt.Axis(
        values=list(names),
        labelExpr=f"{words}''",
        title="lost commits a drill",
        grid=True,
        gridOpacity=alt.condition(f"datum.value > {HEIGHT}", alt.value(0), alt.value(1)),
    )


def _channels(frame: _Frame, *, apart: bool, told: bool) -> dict[str, Any]:
    """The colour of the stack, and the shape of a level. ``told``: with legends; below it, where it stands
    ``apart`` from other panels, whose plots are to be as high up."""
    names = list(frame.palette)
    stacks = legend(names, "bottom" if apart else "top", symbolType="circle")
    found = {"color": named(alt.Color, "stack", frame.palette, stacks if told else None)}
    if len(frame.levels) > 1:
        grey: dict[str, Any] = {"title": frame.shape, "symbolFillColor": BASELINE, "symbolStrokeColor": BASELINE}
        shapes = dict(zip(frame.levels, itertools.cycle(SHAPES), strict=False))
        found["shape"] = named(
            alt.Shape, "level", shapes, legend(frame.levels, "bottom", **grey) if told else None
        )
    return found


def _rows(frame: _Frame, mine: Sequence[Summary]) -> tuple[list[dict[str, Any]], int]:
    """A row for each cell, and how many lanes those need that lost nothing."""
    rows: list[dict[str, Any]] = []
    ends: list[float] = []
    for each in sorted(mine, key=lambda each: _x(each, frame.shares) or 0.0):
        x, half = _x(each, frame.shares) or 0.0, _half(each, frame.shares)
        lost = _per_drill(each)
        if lost:
            y = frame.height(lost)
        else:
            # Above the band's words; the first lane that has room.
            lane = next((number for number, end in enumerate(ends) if x - end > _NEAR * frame.most), len(ends))
            ends[lane : lane + 1] = [x]
            y = HEIGHT + 8 + LANE * lane
        rows.append(
            {"x": round(x, 3), "low": round(max(0.0, x - half), 3), "high": round(x + half, 3), "y": round(y, 2),
             "stack": each.point.stack_name, "level": each.point.levels.get(frame.shape, _NO_LEVEL),
             **_told(frame, each)}
        )  # fmt: skip
    return rows, len(ends)


def _told(frame: _Frame, each: Summary) -> dict[str, str]:
    mine = each.losses
    share = percent(each.relative.value, each.relative.half) if frame.shares and each.relative else ""
    return {
        "what": each.label,
        "throughput": " = ".join(part for part in (rate_text(each.rate), share) if part),
        "lost": f"{mine.missing:,} of {mine.acknowledged:,}",
        "drills": "" if mine.losing is None else losing_text(mine.losing),
        "RPO": f"at most {quantity(mine.rpo.most, 's')}" if mine.rpo is not None else "",
        "RTO": rto_text(each.rto) if each.rto is not None else "",
        "90 % of the rate": recovered_text(each.recovered) if each.recovered is not None else "",
    }


def _title(found: Sequence[Summary]) -> str:
    others = [each for each in found if not each.base] or list(found)
    safe = [each for each in others if not (each.losses.lost or each.void_lost)]
    lossy = [each for each in others if each.losses.missing]
    said = []
    if safe:
        best = max(safe, key=lambda each: _x(each, each.relative is not None) or 0.0)
        kept = percent(best.relative.value) if best.relative is not None else rate_text(best.rate)
        said.append(f"Without a loss {best.label} is the fastest ({kept})")
    if lossy:
        worst = max(lossy, key=_per_drill)
        said.append(f"{worst.label} loses {number(_per_drill(worst))} commits a drill")
    return listed(said) or "No layout came through without damage"
