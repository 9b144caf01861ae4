"""One drill as a time line: what the client saw each tenth of a second, how long it waited, and what was done
meanwhile, all on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from blocklab.charts.base import (
    BASELINE,
    PALETTE,
    Chart,
    constant,
    legend,
    log_ticks,
    named,
    numbers,
    panel,
    rows_of,
    slug,
    text,
)
from blocklab.model.drill import Bin, Drill
from blocklab.stats.drill_view import Span, mark_of, merged, reading, span, values

# The plot from above: counts, latency, then a row for each thing that happened.
COUNTS, GAP, WAIT, ROW = 150, 26, 76, 21
# Some 80 characters of the plot's width; a name that begins further right is written to its left.
_TURN = 0.5
# What ends behind this part of it has no room for a name on a phone, but before it, if there is so much of it.
_FULL, _BEFORE = 0.65, 0.35
KINDS = {"acknowledged": PALETTE[2], "in doubt": PALETTE[4], "refused": PALETTE[1]}
DUE = "scheduled"


def outage(drill: Drill, name: str, label: str) -> Chart | str:
    """The time line of a drill under the name ``outage-NAME``; a note where its history is not there."""
    if not drill.bins or drill.struck is None:
        return f"time line of {label}: the drill left no history, or nothing struck"
    view = span(drill)
    rows = merged(drill, view)
    top = COUNTS + GAP + WAIT + GAP + 8
    things = _things(drill, view, top)
    height = top + ROW * (max((thing["row"] for thing in things), default=0) + 1)
    x = numbers(alt.X, "t", "s since the fault", [view.start, view.end], axis={"grid": False, "tickCount": 8})
    waits = [row for row in rows if row.longest is not None]
    datasets: dict[str, Any] = {
        "stack": _stacked(rows, view), "due": _steps(rows, view), "things": things,
        "fault": [{"t": 0.0}], "outage": _outage(drill, view),
    }  # fmt: skip
    parts = [_counts(x, rows, datasets)]
    if waits:
        datasets["waits"] = _waits(waits, view)
        parts.append(_latency(x, waits))
    parts.append(_gantt(x, things, height))
    fault = rows_of("fault").mark_rule(strokeWidth=1.5, strokeDash=[4, 3])
    parts.append(fault.encode(x=x, y=constant(alt.YValue, 0), y2=constant(alt.Y2Value, height)))
    chart = alt.layer(*parts).resolve_scale(y="independent", color="independent")
    filled = {key: rows for key, rows in datasets.items() if rows}
    table = {"t": "from, s", "to": "to, s", "kind": "answer", "n": "transactions"}
    drawn = panel(f"{label}: time line of the outage", chart, filled, height, ("stack", table))
    return Chart(f"outage-{slug(name)}", f"{label}: {reading(drill)}", _caption(view), (drawn,), section="drills")


def _caption(view: Span) -> str:
    each = f"{view.width * 1e3:.0f} ms"
    return (
        f"Above: transactions in each {each}, by the answer that the client got then; the grey line is how many "
        "were due. In the middle: from when a transaction was due until it was acknowledged, the median and the "
        "longest (log). Below: the fault, what the monitor saw (points), and the stages of the takeover (bars). "
        "The shaded time is that without any acknowledgement."
    )


def _stacked(rows: Sequence[Bin], view: Span) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        below = 0
        for kind, count in zip(KINDS, values(row), strict=True):
            if count:
                found.append(
                    {"t": view.at(row.time), "to": view.at(row.time + view.width), "low": below,
                     "high": below + count, "kind": kind, "n": count}
                )  # fmt: skip
            below += count
    return found


def _steps(rows: Sequence[Bin], view: Span) -> list[dict[str, Any]]:
    found = [{"t": view.at(row.time), "n": row.scheduled} for row in rows]
    return [*found, {"t": view.at(rows[-1].time + view.width), "n": rows[-1].scheduled}] if rows else []


def _waits(rows: Sequence[Bin], view: Span) -> list[dict[str, Any]]:
    half = view.width / 2
    return [
        {"t": view.at(row.time + half), "p50": _ms(row.p50), "most": _ms(row.longest),
         "line": _run(row, rows, view)}
        for row in rows
    ]  # fmt: skip


def _run(row: Bin, rows: Sequence[Bin], view: Span) -> int:
    """A number for the run of neighbours that a point is in: no line goes over a silence."""
    number = 0
    for before, after in pairwise(rows):
        if after.time > row.time:
            break
        number += after.time - before.time > 1.5 * view.width
    return number


def _ms(value: float | None) -> float | None:
    return None if value is None else max(0.01, float(f"{1e3 * value:.4g}"))


def _outage(drill: Drill, view: Span) -> list[dict[str, Any]]:
    if drill.verdict.last is None and drill.verdict.first is None:
        return []
    begin = view.start if drill.verdict.last is None else view.at(drill.verdict.last)
    end = view.end if drill.verdict.first is None else view.at(drill.verdict.first)
    return [{"t": max(begin, view.start), "to": min(end, view.end)}]


def _things(drill: Drill, view: Span, top: int) -> list[dict[str, Any]]:
    """The fault, the events and the stages, a row each, by time."""
    found: list[dict[str, Any]] = []
    for mark in mark_of(drill, view):
        begin, end = max(view.start, mark.start), min(view.end, mark.end)
        first, last = ((at - view.start) / (view.end - view.start) for at in (begin, end))
        turned = first > _TURN or (last > _FULL and first > _BEFORE)
        row = len(found)
        # A bar's name stands behind it while there is room, a turned one before it.
        found.append(
            {"t": begin, "to": end, "at": begin if turned else end, "kind": mark.kind, "name": mark.label,
             "said": mark.said, "row": row, "y": top + ROW * row + ROW // 2, "turned": turned,
             "high": top + ROW * row + 4, "low": top + ROW * (row + 1) - 4}
        )  # fmt: skip
    return found


def _counts(x: Any, rows: Sequence[Bin], datasets: dict[str, Any]) -> Any:
    most = max((max(sum(values(row)), row.scheduled) for row in rows), default=1) or 1
    plain = {"tickCount": 4, "format": "~s"}
    y, due = (
        numbers(alt.Y, field, "transactions", [0, most * 1.08], range=[COUNTS, 0], axis=plain)
        for field in ("low", "n")
    )
    kinds = {**KINDS, DUE: BASELINE}
    layers = [
        rows_of("stack").mark_rect(clip=True).encode(
            x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("high:Q"),
            color=named(alt.Color, "kind", kinds, legend(list(kinds), symbolType="square")),
            tooltip=[alt.Tooltip("t:Q", title="s", format=".2f"), alt.Tooltip("kind:N"), alt.Tooltip("n:Q")],
        ),
        rows_of("due").mark_line(interpolate="step-after", strokeWidth=1.25, color=BASELINE, clip=True).encode(
            x=x, y=due
        ),
    ]  # fmt: skip
    if datasets["outage"]:
        shade = rows_of("outage").mark_rect(opacity=0.12)
        layers.insert(
            0, shade.encode(x=x, x2=alt.X2("to:Q"), y=constant(alt.YValue, 0), y2=constant(alt.Y2Value, COUNTS))
        )
    return alt.layer(*layers)


def _latency(x: Any, rows: Sequence[Bin]) -> Any:
    low = min(_ms(row.p50) or 1.0 for row in rows) * 0.8
    high = max(_ms(row.longest) or 1.0 for row in rows) * 1.25
    top = COUNTS + GAP
    ticks = log_ticks(low, high)
    few = ticks if len(ticks) <= 4 else [tick for tick in ticks if f"{tick:e}".startswith("1")]
    # A narrow range has none of 1, 2, 5: then its own ends.
    few = few or [float(f"{end:.2g}") for end in dict.fromkeys((low / 0.8, high / 1.25))]
    axis = {"values": few[:: math.ceil(len(few) / 4)], "orient": "left"}
    place: dict[str, Any] = {"log": True, "range": [top + WAIT, top], "axis": axis}
    p50, most = (numbers(alt.Y, field, "latency, ms", [low, high], **place) for field in ("p50", "most"))
    base = rows_of("waits")
    dot = base.mark_circle(size=14, opacity=1).encode(
        x=x,
        tooltip=[alt.Tooltip("t:Q", title="s", format=".2f"), alt.Tooltip("p50:Q", title="median, ms"),
                 alt.Tooltip("most:Q", title="longest, ms")],
    )  # fmt: skip
    return alt.layer(
        base.mark_line(strokeWidth=1.75, color=PALETTE[0]).encode(x=x, y=p50, detail=alt.Detail("line:N")),
        dot.encode(y=most, color=constant(alt.ColorValue, PALETTE[3])),
        dot.encode(y=p50, color=constant(alt.ColorValue, PALETTE[0])),
    )


def _gantt(x: Any, things: Sequence[dict[str, Any]], height: int) -> Any:
    base = rows_of("things")
    raw = alt.Scale(domain=[height, 0], range=[height, 0], nice=False, zero=False)
    y, top = (alt.Y(f"{field}:Q", scale=raw, axis=None) for field in ("y", "high"))
    tooltip = [alt.Tooltip("name:N"), alt.Tooltip("said:N")]
    bar = base.transform_filter("datum.kind === 'stage'").mark_rect(color=PALETTE[0], cornerRadius=2)
    layers: list[Any] = [bar.encode(x=x, x2=alt.X2("to:Q"), y=top, y2=alt.Y2("low:Q"), tooltip=tooltip)]
    for kind, shape, size, shade in (("event", "circle", 34, PALETTE[3]), ("fault", "diamond", 90, PALETTE[1])):
        point = base.transform_filter(f"datum.kind === '{kind}'")
        point = point.mark_point(filled=True, shape=shape, size=size, opacity=1, color=shade)
        layers.append(point.encode(x=x, y=y, tooltip=tooltip))
    for turned in (False, True):
        if any(thing["turned"] == turned for thing in things):
            mark = {"align": "right" if turned else "left", "dx": -8 if turned else 8, "fontSize": 11,
                    "baseline": "middle"}  # fmt: skip
            mine = base.transform_filter(f"datum.turned === {'true' if turned else 'false'}")
            layers += text(mine, mark, x=alt.X("at:Q"), y=y, text=alt.Text("name:N"))
    return alt.layer(*layers)
