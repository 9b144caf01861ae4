"""One panel of a sweep: lines with points and whiskers over a scale of levels, each named at its end."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from blocklab.charts.base import (
    BASELINE,
    PALETTE,
    PAPER,
    Panel,
    heading,
    ink,
    legend,
    log_ticks,
    panel,
    ramp,
    text,
    tooltip,
)
from blocklab.charts.plan import STACK, Dot, Plan, line_label
from blocklab.stats.format import percent, plus_minus

HEIGHT = 280
# Above this ratio of the largest to the smallest value the small ones lie on a linear axis's floor.
LOG_FROM = 20.0
# No interval makes the axis longer than so many times the largest value.
WIDEST = 2.0
# A name at the end of a line may have as many characters; longer ones go into a legend.
LONGEST_NAME = 14
# Pixels of a character of such a name, of the narrowest plot that it has to fit in, and between two names.
_CHARACTER, _NARROWEST, _GAP = 7.0, 235.0, 14.0
_DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2], [1, 2])
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

Line = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Curves:
    """The dots of one panel under its heading."""

    title: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Frame:
    """What the y axis shows: values times ``factor``, or shares in %."""

    axis: str
    factor: float
    unit: str
    metric: str
    shares: bool

    def value(self, dot: Dot) -> float:
        """Where a dot stands."""
        if self.shares:
            return 100.0 * dot.share.value if dot.share is not None else math.nan
        return dot.value * self.factor

    def limited(self, dot: Dot) -> str:
        """Why what is shown of a dot is the lab's; empty when it is not."""
        return dot.share_limited if self.shares else dot.limited

    def half(self, dot: Dot) -> float | None:
        """The half width of its interval; None without one."""
        if self.shares:
            return None if dot.share is None or dot.share.half is None else 100.0 * dot.share.half
        return None if dot.half is None else dot.half * self.factor


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool

    def part(self, value: float) -> float:
        """0 at the bottom, 1 at the top."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, part: float) -> float:
        """The opposite of ``part``."""
        if self.log:
            return float(self.low * (self.high / self.low) ** part)
        return self.low + part * (self.high - self.low)


def curve_panel(
    curves: Curves,
    made: Plan,
    dimensions: Mapping[str, Sequence[str]],
    everything: Sequence[Dot],
    frame: Frame,
    beside: Sequence[Dot],
) -> Panel:
    """One panel; ``everything`` are the dots of all panels of the chart, which share colours and the x axis, and
    ``beside`` those of the panels that share its y axis."""
    lines = lines_of(made, dimensions, everything)
    short = len({dot.stack for dot in everything if not dot.base}) < 2
    names = {line: line_label(line, short=short and line[0] not in _bases(everything)) for line in lines}
    shades = shades_of(lines, {made.line(dot) for dot in everything if dot.base}, made.color)
    shown = {made.line(dot) for dot in curves.dots}
    mine = [line for line in lines if line in shown]
    direct = max(len(name) for name in names.values()) <= LONGEST_NAME
    if not direct:
        names = {line: line_label(line, short=False) for line in lines}
    axis = _axis([frame.value(dot) for dot in beside], [frame.half(dot) or 0.0 for dot in beside], frame)
    x = _x(made, max(len(name) for name in names.values()) if direct and len(lines) > 1 else 0)
    y = _y(axis, frame)
    domain = [names[line] for line in mine]
    own = None if direct else legend(domain, "bottom", symbolSize=90)
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=domain, range=[shades[line][0] for line in mine]), legend=own
    )
    dash = alt.StrokeDash(
        "line:N",
        scale=alt.Scale(domain=domain, range=[_DASHES[shades[line][1] % 5] for line in mine]),
        legend=own,
    )
    shape = alt.Shape(
        "line:N",
        scale=alt.Scale(domain=domain, range=[_SHAPES[shades[line][1] % 5] for line in mine]),
        legend=own,
    )
    compared = any(dot.share is not None for dot in everything)
    told = tooltip(["what", "value", *(["share"] if compared else [])], ["note"])
    hollow = any(frame.limited(dot) for dot in curves.dots)
    base = alt.Chart(alt.NamedData(name="dots"))
    layers: list[Any] = []
    datasets: dict[str, list[dict[str, Any]]] = {"dots": _rows(curves.dots, made, names, frame, axis.low)}
    if frame.shares:
        # As far as the lines go: the names at their ends would be struck through.
        whole = alt.Chart(alt.NamedData(name="whole")).mark_rule(strokeDash=[4, 3])
        layers.append(whole.encode(x=x, x2=alt.X2("end:Q"), y=alt.Y("v:Q")))
        datasets["whole"] = [{"x": made.x.places[0], "end": made.x.places[-1], "v": 100}]
    layers += [
        base.mark_line(strokeWidth=2 if made.x.measured else 1).encode(x=x, y=y, color=colour, strokeDash=dash),
        base.transform_filter("datum.foot < datum.high").mark_rule(strokeWidth=1, clip=True).encode(
            x=x, y=alt.Y("foot:Q"), y2=alt.Y2("high:Q"), color=colour
        ),
        base.transform_filter("datum.point && !datum.note")
        .mark_point(filled=True, size=38, opacity=1, tooltip=told)
        .encode(x=x, y=y, color=colour, shape=shape),
    ]  # fmt: skip
    if hollow:
        layers.append(
            # Those of a level line stand at its ends.
            base.transform_filter("datum.note")
            .mark_point(filled=False, size=48, strokeWidth=1.75, opacity=1, fill=PAPER, tooltip=told)
            .encode(x=x, y=y, color=colour, shape=shape)
        )
    if direct and len(mine) > 1:
        ends = alt.Chart(alt.NamedData(name="ends"))
        mark = {"align": "left", "dx": 9, "fontSize": 11, "fontWeight": 600}
        own = alt.Color("ink:N", scale=None)
        layers += text(ends, mark, x=alt.X("x:Q"), y=alt.Y("v:Q"), text=alt.Text("line:N"), color=own)
        inks = {names[line]: ink(shades[line][0]) for line in mine}
        datasets["ends"] = [{**row, "ink": inks[row["line"]]} for row in _ends(datasets["dots"], axis)]
    chart = alt.layer(*layers)
    if curves.title:
        chart.title = heading(curves.title)
    label = f"{curves.title}: {frame.axis}" if curves.title else frame.axis
    columns = {
        "stack": "stack", **{f"of {name}": name for name in dimensions},
        "v": frame.axis, "low": "from", "high": "to", "value": "value", "share": "share", "note": "note",
    }  # fmt: skip
    return panel(f"{label} over {made.x.name}", chart, datasets, HEIGHT, ("dots", columns))


def _bases(everything: Sequence[Dot]) -> set[str]:
    return {dot.stack for dot in everything if dot.base}


def lines_of(made: Plan, dimensions: Mapping[str, Sequence[str]], dots: Sequence[Dot]) -> list[Line]:
    """The lines in the order of the study, those of the baseline first."""
    found = dict.fromkeys(made.line(dot) for dot in dots)
    bases = {made.line(dot) for dot in dots if dot.base}
    stacks = list(dict.fromkeys(line[0] for line in found))

    def rank(line: Line) -> tuple[bool, int, list[int]]:
        levels = [list(dimensions[name]).index(level) for name, level in line[1]]
        return line not in bases, stacks.index(line[0]), levels

    return sorted(found, key=rank)


def shades_of(lines: Sequence[Line], bases: set[Line], color: str = "") -> dict[Line, tuple[str, int]]:
    """Each line's colour, and the number of its dash and shape.

    Levels with an order get a ramp, and stacks a dash; a few lines get a colour each. With ``color`` the colours
    tell that dimension, and dashes the rest.
    """
    bases = bases if any(line not in bases for line in lines) else set()
    if color:
        return _told(lines, bases, color)
    others = [line for line in lines if line not in bases]
    found = {line: (BASELINE, at) for at, line in enumerate(line for line in lines if line in bases)}
    levels = list(dict.fromkeys(line[1] for line in others))
    stacks = list(dict.fromkeys(line[0] for line in others))
    if len(levels) > 2:
        colours = dict(zip(levels, ramp(len(levels)), strict=True))
        return found | {line: (colours[line[1]], stacks.index(line[0])) for line in others}
    # Where the colours start over the dashes must not, or two lines would look the same.
    return found | {line: (PALETTE[at % len(PALETTE)], at + at // len(PALETTE)) for at, line in enumerate(others)}


def _told(lines: Sequence[Line], bases: set[Line], color: str) -> dict[Line, tuple[str, int]]:
    def level(line: Line) -> str:
        if color == STACK:
            return "" if line in bases else line[0]
        return dict(line[1]).get(color, "")

    def rest(line: Line) -> Line:
        return "" if color == STACK else line[0], tuple(pair for pair in line[1] if pair[0] != color)

    levels = list(dict.fromkeys(found for line in lines if (found := level(line))))
    shades = ramp(len(levels)) if len(levels) > len(PALETTE) or (color != STACK and len(levels) > 2) else PALETTE
    # Where the dimension makes no difference there is no level to tell.
    colours = {"": BASELINE, **dict(zip(levels, shades, strict=False))}
    others = list(dict.fromkeys(rest(line) for line in lines))
    return {line: (colours[level(line)], others.index(rest(line))) for line in lines}


def _axis(values: Sequence[float], halves: Sequence[float], frame: Frame) -> _Axis:
    # Of two blocks that disagree the interval is enormous: it is cut off, and the table has all of it.
    whole = max(value + half for value, half in zip(values, halves, strict=True))
    high = min(whole, WIDEST * max(values)) if max(values) > 0 else whole
    low = min(values)
    if frame.shares:
        return _Axis(0.0, max(100.0, high) * 1.06, False)
    if low > 0 and max(values) / low > LOG_FROM:
        return _Axis(low * 0.8, high * 1.2, True)
    return _Axis(0.0, (high or 1.0) * 1.06, False)


def _y(axis: _Axis, frame: Frame) -> Any:
    kind: Any = {"type": "log", "nice": False} if axis.log else {"nice": False, "zero": True}
    ticks: Any = {"tickCount": 5}
    if axis.log:
        ticks = {"values": log_ticks(axis.low, axis.high), "format": ",.3~r", "labelOverlap": "greedy"}
    elif frame.shares:
        step = 25 if axis.high < 250 else 100 * math.ceil(axis.high / 800)
        ticks = {"values": list(range(0, int(axis.high) + 1, step))}
    title = frame.axis + (" (log)" if axis.log else "")
    return alt.Y("v:Q", title=title, scale=alt.Scale(domain=[axis.low, axis.high], **kind), axis=alt.Axis(**ticks))


def _x(made: Plan, longest: int) -> Any:
    """The levels at their places, and room for names at the end of lines."""
    places = made.x.places
    span = max(places[-1] - places[0], 1.0)
    part = min(0.45, (longest * _CHARACTER + 12) / _NARROWEST) if longest else 0.04
    domain = [places[0] - 0.04 * span, places[-1] + span * part / (1 - part)]
    texts, stands = json.dumps(made.x.levels), json.dumps(places)
    axis = alt.Axis(
        values=list(places),
        labelExpr=f"{texts}[indexof({stands}, datum.value)]",
        grid=False,
        labelOverlap="greedy",
    )
    return alt.X("x:Q", title=made.x.name, scale=alt.Scale(domain=domain, nice=False, zero=False), axis=axis)


def _rows(
    dots: Sequence[Dot], made: Plan, names: Mapping[Line, str], frame: Frame, least: float
) -> list[dict[str, Any]]:
    """A row for each dot, of a level line two. ``low`` and ``high`` are the bounds of its interval where it has
    one, and ``foot`` is where that is drawn from: an axis may begin above it."""
    rows = []
    for dot in dots:
        value, half = frame.value(dot), frame.half(dot)
        low = max(0.0, value - (half or 0.0))
        row = {
            "v": _short(value), **({"low": _short(low), "high": _short(value + half)} if half is not None else {}),
            "line": names[made.line(dot)], "stack": dot.stack,
            **{f"of {name}": level for name, level in dot.levels.items()},
            "what": " ".join([dot.stack, *(f"{name}={level}" for name, level in dot.levels.items())]),
            "value": plus_minus(dot.value, dot.half, frame.unit, frame.metric),
            "share": percent(dot.share.value, dot.share.half) if dot.share is not None else "–",
        }  # fmt: skip
        if said := frame.limited(dot):
            row["note"] = said
        own = dot.level(made.x.name)
        if own is not None:
            rows.append({"x": made.x.at(own), "point": True, "foot": _short(max(least, low)), **row})
            continue
        # The factor makes no difference to it: a level line, without points where nothing was measured.
        rows += [{"x": place, "point": False, **row} for place in (made.x.places[0], made.x.places[-1])]
    return rows


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _ends(rows: Sequence[Mapping[str, Any]], axis: _Axis) -> list[dict[str, Any]]:
    """The lines' names beside their last points, moved apart where they would lie on each other."""
    last: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["line"] not in last or row["x"] >= last[row["line"]]["x"]:
            last[row["line"]] = row
    # Lines that end at the same place keep the order that they have before it, or else that of the study.
    means = {name: _short(statistics.fmean(row["v"] for row in rows if row["line"] == name)) for name in last}
    order = list(last)
    ends = sorted(last.values(), key=lambda row: (row["v"], means[row["line"]], -order.index(row["line"])))
    heights = [HEIGHT * axis.part(max(row["v"], axis.low)) for row in ends]
    for at in range(1, len(heights)):
        heights[at] = max(heights[at], heights[at - 1] + _GAP)
    # What was pushed over the top pushes the others down again.
    for at in range(len(heights) - 1, -1, -1):
        most = HEIGHT if at == len(heights) - 1 else heights[at + 1] - _GAP
        heights[at] = min(heights[at], most)
    return [
        {"x": row["x"], "v": _short(axis.value(height / HEIGHT)), "line": row["line"]}
        for row, height in zip(ends, heights, strict=True)
    ]
