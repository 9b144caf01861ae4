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
    DASHES,
    PALETTE,
    PAPER,
    PREDICTED,
    SHAPES,
    Panel,
    ink,
    legend,
    named,
    numbers,
    ramp,
    rows_of,
    text,
    titled,
    tooltip,
)
from blocklab.charts.plan import STACK, Arrangement, Dot, Group, columns, line_label
from blocklab.model.shown import shown
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

Line = tuple[str, tuple[tuple[str, str], ...]]


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
        if dot.predicted:
            return PREDICTED
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


def curve_panel(group: Group, made: Arrangement, dimensions: Mapping[str, Sequence[str]], frame: Frame) -> Panel:
    """One panel."""
    everything = group.everything
    looks = looks_of(group, made, dimensions)
    lines = lines_of(made, dimensions, everything)
    bases = {dot.stack for dot in everything if dot.base}
    short = len({dot.stack for dot in everything if not dot.base}) < 2
    names = {line: line_label(line, short=short and line[0] not in bases) for line in lines}
    direct = max(map(len, names.values())) <= LONGEST_NAME
    if not direct:
        names = {line: line_label(line, short=False) for line in lines}
    axis = _axis(
        [frame.value(dot) for dot in group.beside], [frame.half(dot) or 0.0 for dot in group.beside], frame
    )
    x = _x(made, max(map(len, names.values())) if direct and len(lines) > 1 else 0)
    y = _y(axis, frame)
    own = None if direct else legend([names[line] for line in looks], "bottom", symbolSize=90)
    colour, dash, shape = channels(looks, names, own)
    compared = any(dot.share is not None for dot in everything)
    told = tooltip(["what", "value", *(["share"] if compared else [])], ["note"])
    base = rows_of("dots")
    layers: list[Any] = []
    datasets: dict[str, list[dict[str, Any]]] = {"dots": _rows(group.dots, made, names, frame, axis.low)}
    if frame.shares:
        # As far as the lines go: the names at their ends would be struck through.
        layers.append(
            rows_of("whole").mark_rule(strokeDash=[4, 3]).encode(x=x, x2=alt.X2("end:Q"), y=alt.Y("v:Q"))
        )
        datasets["whole"] = [{"x": made.x.places[0], "end": made.x.places[-1], "v": 100}]
    layers += [
        base.mark_line(strokeWidth=2 if made.x.measured else 1).encode(x=x, y=y, color=colour, strokeDash=dash),
        base.transform_filter("datum.foot < datum.high").mark_rule(strokeWidth=1, clip=True).encode(
            x=x, y=alt.Y("foot:Q"), y2=alt.Y2("high:Q"), color=colour
        ),
        # Of a level line only the limited ones have points, at its ends.
        *points(base, "datum.point", told, datasets["dots"], x=x, y=y, color=colour, shape=shape),
    ]  # fmt: skip
    if direct and len(looks) > 1:
        mark = {"align": "left", "dx": 9, "fontSize": 11, "fontWeight": 600}
        plain = alt.Color("ink:N", scale=None)
        layers += text(rows_of("ends"), mark, x=alt.X("x:Q"), y=alt.Y("v:Q"), text=alt.Text("line:N"), color=plain)
        inks = {names[line]: ink(shade) for line, (shade, _) in looks.items()}
        datasets["ends"] = [{**row, "ink": inks[row["line"]]} for row in _ends(datasets["dots"], axis)]
    table = columns(dimensions, v=frame.axis, low="from", high="to", value="value", share="share")
    return titled(group.title, f"{frame.axis} over {made.x.name}", layers, datasets, HEIGHT, ("dots", table))


def looks_of(
    group: Group, made: Arrangement, dimensions: Mapping[str, Sequence[str]]
) -> dict[Line, tuple[str, int]]:
    """The colour of each line of a panel and the number of its dash and shape, the same in all panels."""
    bases = {made.line(dot) for dot in group.everything if dot.base}
    shades = shades_of(lines_of(made, dimensions, group.everything), bases, made.color)
    shown = {made.line(dot) for dot in group.dots}
    return {line: shade for line, shade in shades.items() if line in shown}


def channels(
    looks: Mapping[Line, tuple[str, int]], names: Mapping[Line, str], legend: Any
) -> tuple[Any, Any, Any]:
    """Colour, dash and shape of such lines."""
    shades = {names[line]: shade for line, (shade, _) in looks.items()}
    dashes = {names[line]: DASHES[at % 5] for line, (_, at) in looks.items()}
    shapes = {names[line]: SHAPES[at % 5] for line, (_, at) in looks.items()}
    return (
        named(alt.Color, "line", shades, legend),
        named(alt.StrokeDash, "line", dashes, legend),
        named(alt.Shape, "line", shapes, legend),
    )


def points(base: Any, shown: str, told: Any, rows: Sequence[Mapping[str, Any]], **channels: Any) -> list[Any]:
    """Points, hollow where a row has a note: what is shown is the lab's."""
    layers = [
        base.transform_filter(f"{shown} && !datum.note").mark_point(filled=True, size=40, opacity=1, tooltip=told)
    ]
    if any("note" in row for row in rows):
        hollow = {"filled": False, "size": 48, "strokeWidth": 1.75, "opacity": 1, "fill": PAPER, "tooltip": told}
        layers.append(base.transform_filter("datum.note").mark_point(**hollow))
    return [layer.encode(**channels) for layer in layers]


def lines_of(made: Arrangement, dimensions: Mapping[str, Sequence[str]], dots: Sequence[Dot]) -> list[Line]:
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
    ticks = {}
    if frame.shares:
        step = 25 if axis.high < 250 else 100 * math.ceil(axis.high / 800)
        ticks = {"values": list(range(0, int(axis.high) + 1, step))}
    title = frame.axis + (" (log)" if axis.log else "")
    return numbers(alt.Y, "v", title, [axis.low, axis.high], log=axis.log, axis=ticks)


def _x(made: Arrangement, longest: int) -> Any:
    """The levels at their places, and room for names at the end of lines."""
    places = made.x.places
    span = max(places[-1] - places[0], 1.0)
    part = min(0.45, (longest * _CHARACTER + 12) / _NARROWEST) if longest else 0.04
    domain = [places[0] - 0.04 * span, places[-1] + span * part / (1 - part)]
    texts, stands = json.dumps([shown(level) for level in made.x.levels]), json.dumps(places)
    words = f"{texts}[indexof({stands}, datum.value)]"
    axis = {"values": list(places), "labelExpr": words, "grid": False, "labelOverlap": "greedy"}
    return numbers(alt.X, "x", made.x.name, domain, axis=axis)


def _rows(
    dots: Sequence[Dot], made: Arrangement, names: Mapping[Line, str], frame: Frame, least: float
) -> list[dict[str, Any]]:
    """A row for each dot, of a level line two. ``low`` and ``high`` are the bounds of its interval where it has
    one, and ``foot`` is where that is drawn from: an axis may begin above it."""
    rows = []
    for dot in dots:
        value, half = frame.value(dot), frame.half(dot)
        low = max(0.0, value - (half or 0.0))
        row = {
            "v": _short(value), **({"low": _short(low), "high": _short(value + half)} if half is not None else {}),
            "line": names[made.line(dot)], **dot.row(frame.limited(dot)),
            "value": plus_minus(dot.value, dot.half, frame.unit, frame.metric),
            "share": percent(dot.share.value, dot.share.half) if dot.share is not None else "–",
        }  # fmt: skip
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
