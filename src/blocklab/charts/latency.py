"""Every transaction of a workload as a point: when it ended, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import Chart, Panel, at, colours, heading, log_ticks, panel, slug, text
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import listed, number, quantity
from blocklab.stats.summary import percentile

# A browser draws this many points of SVG in each panel without a pause, on a phone too.
MOST_POINTS = 2_500
# How many of them go to the slowest, which a thinned cloud would lose.
SLOWEST = MOST_POINTS // 5
FEW_POINTS = 800

Point = tuple[float, float]


def thin(points: Sequence[Point], most: int = MOST_POINTS, slowest: int = SLOWEST) -> tuple[list[Point], int, int]:
    """At most ``most`` points: the slowest 1 % (at most ``slowest``), and every n-th of the others.

    Returns the points, the n, and how many of the slowest were kept; (all, 1, 0) where nothing was left out.
    """
    if len(points) <= most:
        return list(points), 1, 0
    keep = min(slowest, max(1, len(points) // 100))
    ranked = sorted(points, key=lambda point: point[1])
    slow, rest = ranked[-keep:], sorted(ranked[:-keep])
    step = math.ceil(len(rest) / (most - len(slow)))
    return sorted(rest[::step] + slow), step, len(slow)


def latencies(analysis: Analysis) -> list[Chart | str]:
    """A chart for each workload whose transactions were logged; a note for each database workload without a
    log."""
    found: list[Chart | str] = []
    for workload in dict.fromkeys(workload for _, workload in analysis.detailed):
        clouds = {}
        for stack in analysis.stacks:
            measured = analysis.measured.get((stack, workload))
            wanted = measured is not None and (stack, workload) in analysis.detailed
            if measured is not None and wanted and measured.run.transactions:
                done = measured.run.transactions
                start = measured.start if measured.start is not None else min(t.end - t.latency for t in done)
                clouds[stack] = [(each.end - start, each.latency * 1e3) for each in done if each.latency > 0]
        clouds = {stack: cloud for stack, cloud in clouds.items() if cloud}
        if clouds:
            found.append(_chart(analysis, workload, clouds))
        elif _dense(analysis, workload):
            # charts.density shows them.
            continue
        elif any(row.workload == workload and metric_of(row.metric).transactions for row in analysis.rows):
            found.append(f"latency of single transactions in {workload}: the workload kept no log of them")
    return found


def _dense(analysis: Analysis, workload: str) -> bool:
    cells = analysis.measured.items()
    return any(at[1] == workload and measured.run.latencies is not None for at, measured in cells)


def _chart(analysis: Analysis, workload: str, clouds: dict[str, list[Point]]) -> Chart:
    palette = colours(tuple(analysis.stacks), analysis.grid.baselines)
    every = [latency for cloud in clouds.values() for _, latency in cloud]
    low, high = percentile(every, 0.001), max(every)
    domain = [min(low, high / 2) * 0.9, high * 1.15]
    end = max(when for cloud in clouds.values() for when, _ in cloud)
    panels, notes = [], []
    for stack, cloud in clouds.items():
        # With levels there are many panels, and the browser draws each of them.
        kept, step, slow = thin(cloud) if not analysis.grid.factors else thin(cloud, FEW_POINTS, FEW_POINTS // 5)
        if step > 1:
            notes.append((stack, f"every {_nth(step)} of {len(cloud):,} and the slowest {slow:,}"))
        panels.append(_panel(stack, palette[stack], cloud, kept, domain, end))
    medians = [f"{quantity(percentile([p[1] for p in c], 0.5) / 1e3, 's')} on {s}" for s, c in clouds.items()]
    caption = (
        "Each point is one transaction; all panels share both axes, and latency is on a logarithmic one. Lines "
        "mark the median (p50) and the 99th percentile of all transactions. "
    ) + (f"Points are thinned so that the page stays light: {_thinned(notes)}." if notes else "All are shown.")
    title = f"{workload}: the median transaction takes {listed(medians)}"
    return Chart(f"latency-{slug(workload)}", title, caption, tuple(panels))


def _thinned(notes: Sequence[tuple[str, str]]) -> str:
    if len(notes) > 1 and len({text for _, text in notes}) == 1:
        return f"{notes[0][1]} of each stack"
    return "; ".join(f"{stack}: {text}" for stack, text in notes)


def _nth(step: int) -> str:
    """``2nd``, ``11th``, ``21st``."""
    ending = "th" if step % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th")
    return f"{step}{ending}"


def _panel(
    stack: str, colour: str, cloud: Sequence[Point], kept: Sequence[Point], domain: list[float], end: float
) -> Panel:
    values = [latency for _, latency in cloud]
    marks = [
        {"rank": name, "ms": (ms := percentile(values, rank)), "text": f"{name}  {number(ms)} ms"}
        for name, rank in (("p50", 0.5), ("p99", 0.99))
    ]
    x = alt.X("t:Q", title="s since the workload began", scale=alt.Scale(domain=[0, end], nice=False),
              axis=alt.Axis(grid=False, tickCount=5))  # fmt: skip
    y: Any = alt.Y("l:Q", title="latency, ms", scale=alt.Scale(type="log", domain=domain, nice=False, clamp=True),
              axis=alt.Axis(format=",.3~r", values=log_ticks(*domain), labelOverlap="greedy"))  # fmt: skip
    dots = (
        alt.Chart(alt.NamedData(name="points"))
        .mark_circle(size=7, opacity=0.45, color=colour)
        .encode(x=x, y=y, tooltip=[alt.Tooltip("t:Q", title="s", format=".1f"),
                                   alt.Tooltip("l:Q", title="ms", format=".2f")])
    )  # fmt: skip
    base = alt.Chart(alt.NamedData(name="ranks"))
    lines = base.mark_rule(strokeWidth=1.25).encode(y=alt.Y("ms:Q"))
    # The median's label below its line and the percentile's above: they never meet. The halo keeps it legible.
    texts: list[Any] = []
    for rank, side, shift in (("p50", "top", 4), ("p99", "bottom", -4)):
        mark = {"align": "right", "baseline": side, "dy": shift, "fontSize": 11, "fontWeight": 600}
        only = base.transform_filter(alt.datum.rank == rank)
        texts += text(only, mark, y=alt.Y("ms:Q"), x=at("width", alt.XValue), text=alt.Text("text:N"))
    rows = [{"t": round(when, 3), "l": float(f"{latency:.4g}")} for when, latency in kept]
    chart = alt.layer(dots, lines, *texts).properties(title=heading(stack, colour))
    table = {"t": "ended, s since the workload began", "l": "latency, ms"}
    data: dict[str, list[dict[str, Any]]] = {"points": rows, "ranks": marks}
    return panel(f"{stack}: latency of transactions", chart, data, 240, ("points", table))
