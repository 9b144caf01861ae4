"""Throughput against latency: a line through one point for each queue depth, or number of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import HOLLOW, Chart, Panel, legend, numbers, rows_of, titled, tooltip
from blocklab.charts.curves import LOG_FROM, channels, looks_of, points
from blocklab.charts.plan import Arrangement, Dot, Group, columns, groups, line_label, plan
from blocklab.charts.sweep import Sweep, beside_each_other
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
    shown, left = groups(made, dots, sweep.dimensions, sweep.own_axis)
    every = shown[0].everything
    more = f" {left} more panels are left out." if left else ""
    hollow = HOLLOW if any(dot.limited for dot in every) else ""
    caption = _caption(depth, made, every) + sweep.notes + hollow + more
    drawn = [_panel(each, sweep, made) for each in shown]
    return beside_each_other(f"knee-{sweep.name}", _title(sweep, dots, depth), caption, made, shown, drawn)


def _wait(dot: Dot) -> Wait:
    assert dot.wait is not None
    return dot.wait


def _caption(depth: str, made: Arrangement, dots: Sequence[Dot]) -> str:
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


def _panel(group: Group, sweep: Sweep, made: Arrangement) -> Panel:
    factor, unit = scale(sweep.unit, sweep.metric)
    looks = looks_of(group, made, sweep.dimensions)
    names = {line: line_label(line, short=False) or sweep.label for line in looks}
    own = legend(list(names.values()), "bottom", symbolType="stroke", symbolSize=150) if len(names) > 1 else None
    colour, dash, _ = channels(looks, names, own)
    rates = [dot.value * factor for dot in group.beside]
    waits = [1e3 * each for dot in group.everything for each in (_wait(dot).value, _wait(dot).slow) if each]
    log = max(rates) / min(rates) > LOG_FROM
    domain = [0.85 * min(rates), 1.15 * max(rates)] if log else [0, 1.06 * max(rates)]
    x = numbers(alt.X, "v", sweep.told() + (" (log)" if log else ""), domain, log=log)
    y = numbers(alt.Y, "ms", "latency, ms (log)", [0.85 * min(waits), 1.2 * max(waits)], log=True)
    base = rows_of("points")
    rows = [_row(dot, sweep, made, names[made.line(dot)], factor) for dot in group.dots]
    slow = base.transform_filter("isValid(datum.slow_ms)")
    told = tooltip(["what", "rate", "latency"], ["slow", "note"])
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.75).encode(
            x=x, y=y, color=colour, strokeDash=dash, order=alt.Order("n:Q"), detail=alt.Detail("line:N")
        ),
        slow.mark_rule(strokeWidth=1, opacity=0.7).encode(x=x, y=y, y2=alt.Y2("slow_ms:Q"), color=colour),
        slow.mark_tick(size=7, thickness=1.5, orient="horizontal").encode(x=x, y=alt.Y("slow_ms:Q"), color=colour),
        *points(base, "true", told, rows, x=x, y=y, color=colour),
    ]
    slow_name = next((_wait(dot).slow_name for dot in group.dots if _wait(dot).slow_name), "slow")
    table = columns(
        sweep.dimensions, v=unit or sweep.label, ms=f"latency, {_wait(group.dots[0]).name}, ms",
        slow_ms=f"{slow_name}, ms",
    )  # fmt: skip
    return titled(group.title, "latency over throughput", layers, {"points": rows}, HEIGHT, ("points", table))


def _row(dot: Dot, sweep: Sweep, made: Arrangement, line: str, factor: float) -> dict[str, Any]:
    wait = _wait(dot)
    row: dict[str, Any] = {
        "v": _short(dot.value * factor), "ms": _short(1e3 * wait.value), "line": line, **dot.row(dot.limited),
        "n": made.x.at(dot.levels[made.x.name]),
        "rate": quantity(dot.value, sweep.unit, sweep.metric),
        "latency": f"{quantity(wait.value, 's')} ({wait.name})",
    }  # fmt: skip
    if wait.slow is not None:
        row |= {"slow_ms": _short(1e3 * wait.slow), "slow": f"{quantity(wait.slow, 's')} ({wait.slow_name})"}
    return row


def _short(value: float) -> float:
    return float(f"{value:.4g}")
