"""Throughput against latency: a line through one point for each queue depth, or number of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import HOLLOW, PAPER, Chart, Panel, heading, legend, log_ticks, panel, tooltip
from blocklab.charts.curves import LOG_FROM, lines_of, shades_of
from blocklab.charts.plan import STACK, Dot, Plan, line_label, panels, plan
from blocklab.charts.sweep import MOST_PANELS, Sweep, axis_of, curves_of
from blocklab.charts.waits import Wait
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import is_throughput, listed, quantity, scale
from blocklab.study.factors import assignments, of_workload, parts_of
from blocklab.study.types import View

DEPTH = "iodepth"
# What a workload calls how many requests or transactions are under way at once.
_MANY = (DEPTH, "clients", "threads", "connections", "numjobs")
HEIGHT = 260
MOST_NAMED = 3
_DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2], [1, 2])


def depths(analysis: Analysis) -> tuple[str, ...]:
    """The factors that change how much is under way at once."""
    return tuple(
        name
        for name in analysis.grid.factors
        if of_workload(factor := analysis.study.factors[name])
        and all(parts_of(path)[-1] in _MANY for fields in assignments(factor).values() for path in fields)
    )


def knee(analysis: Analysis, sweep: Sweep) -> Chart | None:
    """The chart of a sweep in which a depth takes several levels; None where there is none, or no latency, or
    where the sweep is of something else than throughput."""
    if not is_throughput(sweep.metric):
        return None
    known = [name for name in (DEPTH, *depths(analysis)) if len(sweep.dimensions.get(name, ())) > 1]
    dots = [dot for dot in sweep.dots if dot.wait is not None and dot.value > 0]
    if not known or len(dots) < 2 or len({dot.wait.name for dot in dots if dot.wait}) > 1:
        return None
    depth = known[0]
    dots = [dot for dot in dots if depth in dot.levels]
    if len({dot.levels[depth] for dot in dots}) < 2:
        return None
    own = analysis.study.report
    view = View(color=own.color, facet=own.facet) if depth not in (own.color, own.facet) else View()
    made = plan(dots, sweep.dimensions, x=depth, to_panels=sweep.to_panels, view=view)
    if made.x.name != depth:
        return None
    chosen = panels(made, dots, sweep.dimensions)
    groups = [curves_of(made, dots, levels) for levels in chosen[:MOST_PANELS]]
    every = [dot for each in groups for dot in each.dots]
    beside: dict[tuple[str | None, ...], list[Dot]] = {}
    for each in groups:
        beside.setdefault(axis_of(sweep, each, made), []).extend(each.dots)
    drawn = tuple(
        _panel(each.title, each.dots, sweep, made, (every, beside[axis_of(sweep, each, made)])) for each in groups
    )
    hollow = HOLLOW if any(dot.limited for dot in every) else ""
    more = f" {len(chosen) - MOST_PANELS} more panels are left out." if len(chosen) > MOST_PANELS else ""
    caption = _caption(depth, made, every) + sweep.notes + hollow + more
    stacks = len({dot.stack for dot in every}) if STACK in made.panels else 0
    columns = stacks if 2 <= stacks <= 3 else min(2, len(drawn))
    return Chart(f"knee-{sweep.name}", _title(sweep, dots, depth), caption, drawn, columns)


def _wait(dot: Dot) -> Wait:
    assert dot.wait is not None
    return dot.wait


def _caption(depth: str, made: Plan, dots: Sequence[Dot]) -> str:
    first = _wait(dots[0])
    slow = next((_wait(dot).slow_name for dot in dots if _wait(dot).slow_name), "")
    text = (
        f"A point for each level of {depth}, from {made.x.levels[0]} to {made.x.levels[-1]} along the line: how "
        f"much was done, and how long each took ({first.name}, on a logarithmic scale)"
    )
    text += f"; the thin line goes up to the {slow}" if slow else ""
    return f"{text}. Where a line turns up, more at once only waits longer."


def _title(sweep: Sweep, dots: Sequence[Dot], depth: str) -> str:
    said = []
    for stack in list(dict.fromkeys(dot.stack for dot in dots))[:MOST_NAMED]:
        best = max((dot for dot in dots if dot.stack == stack), key=lambda dot: dot.value)
        rate = quantity(best.value, sweep.unit, sweep.metric)
        took = quantity(_wait(best).value, "s")
        said.append(f"{rate} at {took} on {stack} ({depth}={best.levels[depth]})")
    return f"{sweep.label}: the most is {listed(said)}"


def _panel(
    title: str, dots: Sequence[Dot], sweep: Sweep, made: Plan, shared: tuple[Sequence[Dot], Sequence[Dot]]
) -> Panel:
    every, beside = shared
    factor, unit = scale(sweep.unit, sweep.metric)
    lines = lines_of(made, sweep.dimensions, every)
    shades = shades_of(lines, {made.line(dot) for dot in every if dot.base}, made.color)
    names = {line: line_label(line, short=False) or sweep.label for line in lines}
    mine = [line for line in lines if any(made.line(dot) == line for dot in dots)]
    domain = [names[line] for line in mine]
    own = legend(domain, "bottom", symbolType="stroke", symbolSize=150) if domain[1:] else None
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=domain, range=[shades[line][0] for line in mine]), legend=own
    )
    dash = alt.StrokeDash(
        "line:N", scale=alt.Scale(domain=domain, range=[_DASHES[shades[line][1] % 5] for line in mine]),
        legend=own,
    )  # fmt: skip
    rates = [dot.value * factor for dot in beside]
    waits = [1e3 * each for dot in every for each in (_wait(dot).value, _wait(dot).slow) if each]
    x, y = _axes(sweep.told(), rates, [0.85 * min(waits), 1.2 * max(waits)])
    base = alt.Chart(alt.NamedData(name="points"))
    told = tooltip(["what", "rate", "latency"], ["slow", "note"])
    slow = base.transform_filter("isValid(datum.slow_ms)")
    point = base.mark_point(filled=True, size=42, opacity=1, tooltip=told)
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.75).encode(
            x=x, y=y, color=colour, strokeDash=dash, order=alt.Order("n:Q"), detail=alt.Detail("line:N")
        ),
        slow.mark_rule(strokeWidth=1, opacity=0.7).encode(x=x, y=y, y2=alt.Y2("slow_ms:Q"), color=colour),
        slow.mark_tick(size=7, thickness=1.5, orient="horizontal").encode(x=x, y=alt.Y("slow_ms:Q"), color=colour),
        point.encode(x=x, y=y, color=colour),
    ]  # fmt: skip
    if any(dot.limited for dot in dots):
        layers.append(
            base.transform_filter("datum.note")
            .mark_point(filled=False, size=48, strokeWidth=1.75, opacity=1, fill=PAPER, tooltip=told)
            .encode(x=x, y=y, color=colour)
        )
    chart = alt.layer(*layers)
    if title:
        chart.title = heading(title)
    rows = [_row(dot, sweep, made, names[made.line(dot)], factor) for dot in dots]
    columns = {
        "stack": "stack", **{f"of {name}": name for name in sweep.dimensions}, "v": unit or sweep.label,
        "ms": f"latency, {_wait(dots[0]).name}, ms",
        "slow_ms": f"{next((_wait(dot).slow_name for dot in dots if _wait(dot).slow_name), 'slow')}, ms",
        "note": "note",
    }  # fmt: skip
    label = f"{title}: latency over throughput" if title else "latency over throughput"
    return panel(label, chart, {"points": rows}, HEIGHT, ("points", columns))


def _axes(title: str, rates: Sequence[float], waits: list[float]) -> tuple[Any, Any]:
    log = max(rates) / min(rates) > LOG_FROM
    domain = [0.85 * min(rates), 1.15 * max(rates)] if log else [0, 1.06 * max(rates)]
    kind: Any = {"type": "log"} if log else {"zero": True}
    ticks: Any = {"tickCount": 5}
    if log:
        ticks = {"values": log_ticks(*domain), "format": ",.3~r", "labelOverlap": "greedy"}
    x = alt.X(
        "v:Q", title=title + (" (log)" if log else ""), scale=alt.Scale(domain=domain, nice=False, **kind),
        axis=alt.Axis(**ticks),
    )  # fmt: skip
    y: Any = alt.Y(
        "ms:Q", title="latency, ms (log)", scale=alt.Scale(type="log", domain=waits, nice=False),
        axis=alt.Axis(format=",.3~r", values=log_ticks(waits[0], waits[1]), labelOverlap="greedy"),
    )  # fmt: skip
    return x, y


def _row(dot: Dot, sweep: Sweep, made: Plan, line: str, factor: float) -> dict[str, Any]:
    wait = _wait(dot)
    row: dict[str, Any] = {
        "v": _short(dot.value * factor), "ms": _short(1e3 * wait.value), "line": line, "stack": dot.stack,
        "n": made.x.at(dot.levels[made.x.name]),
        "what": " ".join([dot.stack, *(f"{name}={level}" for name, level in dot.levels.items())]),
        "rate": quantity(dot.value, sweep.unit, sweep.metric),
        "latency": f"{quantity(wait.value, 's')} ({wait.name})",
        **_levels(dot.levels),
    }  # fmt: skip
    if wait.slow is not None:
        row |= {"slow_ms": _short(1e3 * wait.slow), "slow": f"{quantity(wait.slow, 's')} ({wait.slow_name})"}
    if dot.limited:
        row["note"] = dot.limited
    return row


def _levels(levels: Mapping[str, str]) -> dict[str, str]:
    return {f"of {name}": level for name, level in levels.items()}


def _short(value: float) -> float:
    return float(f"{value:.4g}")
