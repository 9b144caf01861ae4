"""Transactions that are too many for a point each: how many took how long over time, and the percentile curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import Chart, Panel, at, colours, heading, legend, log_ticks, panel, slug, text
from blocklab.model.sample import Latencies, Transaction
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import listed, number, quantity
from blocklab.stats.values import Measured

# Points of a curve for each tenfold step, and lines that one panel can hold.
_STEPS, MOST_LINES = 40, 8
# As HdrHistogram's plots: each step to the right leaves a tenth of the transactions before.
_TICKS = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %", 0.99999: "99.999 %"}


def densities(analysis: Analysis) -> list[Chart]:
    """For each workload of which that is known: the density where there are no single points, and the curve."""
    found = []
    for workload in dict.fromkeys(workload for _, workload in analysis.detailed):
        known = {
            stack: (measured, latencies)
            for stack in analysis.stacks
            if (stack, workload) in analysis.detailed
            and (measured := analysis.measured.get((stack, workload))) is not None
            and (latencies := measured.run.latencies or latencies_of(measured.run.transactions)) is not None
        }
        dense = {stack: each for stack, each in known.items() if each[1].tiles and not each[0].run.transactions}
        if dense:
            found.append(_density(analysis, workload, dense))
        if known:
            found.append(_curve(analysis, workload, {stack: each for stack, (_, each) in known.items()}))
    return found


def latencies_of(transactions: Sequence[Transaction]) -> Latencies | None:
    """The curve of transactions that are there one by one, without a density; None where none took any time."""
    took = sorted(each.latency for each in transactions if each.latency > 0)
    if not took:
        return None
    last = math.log10(len(took))
    steps = [1 - 10 ** -(step / _STEPS) for step in range(int(last * _STEPS) + 1)]
    # Those that people quote, to the point.
    shares = sorted({*steps, *(share for share in _TICKS if share < 1 - 1 / len(took)), 1 - 1 / len(took)})
    curve = [(share, took[max(0, math.ceil(share * len(took) - 1e-9) - 1)]) for share in shares]
    return Latencies(len(took), (*curve, (1.0, took[-1])), ())


def at_share(latencies: Latencies, share: float) -> float:
    """The latency (s) that this share of the transactions does not exceed."""
    return next(value for reached, value in latencies.curve if reached >= share - 1e-9)


def _medians(known: Mapping[str, Latencies], share: float) -> str:
    return listed([f"{quantity(at_share(each, share), 's')} on {stack}" for stack, each in known.items()])


def _density(analysis: Analysis, workload: str, known: Mapping[str, tuple[Measured, Latencies]]) -> Chart:
    palette = colours(tuple(analysis.stacks), analysis.grid.baselines)
    tiles = {stack: each.tiles for stack, (_, each) in known.items()}
    low = min(tile.low for each in tiles.values() for tile in each if tile.low > 0)
    high = max(tile.high for each in tiles.values() for tile in each)
    end = max(tile.start + tile.width - each[0].start for each in tiles.values() for tile in each)
    most = max(tile.count / tile.width for each in tiles.values() for tile in each)
    panels = tuple(
        _density_panel(stack, palette[stack], each, ([1e3 * low, 1e3 * high], end, most))
        for stack, (_, each) in known.items()
    )
    widths = {stack: f"{each[0].width:g} s" for stack, each in tiles.items()}
    wide = next(iter(widths.values()))
    if len(set(widths.values())) > 1:
        wide = listed([f"{width} on {stack}" for stack, width in widths.items()])
    counts = listed([f"{each.count:,} of {stack}" for stack, (_, each) in known.items()])
    caption = (
        f"All {counts}: the darker a field, the more transactions ended in that time ({wide}) and took "
        "so long, on a logarithmic scale of their number; one alone is still seen. All panels share their axes. "
        "Lines mark the median (p50) and the 99th percentile."
    )
    title = (
        f"{workload}: the median transaction takes {_medians({s: each for s, (_, each) in known.items()}, 0.5)}"
    )
    return Chart(f"latency-density-{slug(workload)}", title, caption, panels)


def _density_panel(
    stack: str, colour: str, latencies: Latencies, frame: tuple[list[float], float, float]
) -> Panel:
    domain, end, most = frame
    start = latencies.tiles[0].start
    x = alt.X("t:Q", title="s since the workload began", scale=alt.Scale(domain=[0, end], nice=False),
              axis=alt.Axis(grid=False, tickCount=5))  # fmt: skip
    y: Any = alt.Y("l:Q", title="latency, ms", scale=alt.Scale(type="log", domain=domain, nice=False, clamp=True),
              axis=alt.Axis(format=",.3~r", values=log_ticks(*domain), labelOverlap="greedy"))  # fmt: skip
    shade: Any = alt.Opacity("a:Q", scale=alt.Scale(domain=[0, 1], range=[0.12, 1]), legend=None)
    fields = (
        alt.Chart(alt.NamedData(name="tiles"))
        .mark_rect(color=colour)
        .encode(x=x, x2=alt.X2("u:Q"), y=y, y2=alt.Y2("h:Q"), opacity=shade,
                tooltip=[alt.Tooltip("t:Q", title="from s", format=".0f"),
                         alt.Tooltip("l:Q", title="from ms", format=",.3~r"),
                         alt.Tooltip("h:Q", title="to ms", format=",.3~r"),
                         alt.Tooltip("n:Q", title="transactions", format=",")])
    )  # fmt: skip
    marks = [
        {"rank": name, "ms": (ms := 1e3 * at_share(latencies, share)), "text": f"{name}  {number(ms)} ms"}
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    base = alt.Chart(alt.NamedData(name="ranks"))
    texts: list[Any] = []
    for rank, side, shift in (("p50", "top", 4), ("p99", "bottom", -4)):
        mark = {"align": "right", "baseline": side, "dy": shift, "fontSize": 11, "fontWeight": 600}
        only = base.transform_filter(alt.datum.rank == rank)
        texts += text(only, mark, y=alt.Y("ms:Q"), x=at("width", alt.XValue), text=alt.Text("text:N"))
    rows = [
        {"t": round(tile.start - start, 3), "u": round(tile.start - start + tile.width, 3),
         "l": float(f"{1e3 * max(tile.low, domain[0] / 1e3):.4g}"), "h": float(f"{1e3 * tile.high:.4g}"),
         "n": tile.count, "a": round(math.log1p(tile.count / tile.width) / math.log1p(most), 3)}
        for tile in latencies.tiles
    ]  # fmt: skip
    lines = base.mark_rule(strokeWidth=1.25).encode(y=alt.Y("ms:Q"))
    chart = alt.layer(fields, lines, *texts).properties(title=heading(stack, colour))
    table = {"t": "from, s", "u": "to, s", "l": "from, ms", "h": "to, ms", "n": "transactions"}
    data: dict[str, list[dict[str, Any]]] = {"tiles": rows, "ranks": marks}
    return panel(f"{stack}: density of transactions", chart, data, 240, ("tiles", table))


def _curve(analysis: Analysis, workload: str, known: Mapping[str, Latencies]) -> Chart:
    rows: list[dict[str, Any]] = [
        {"x": round(-math.log10(1 - share), 4), "share": f"{100 * share:.6g} %", "l": float(f"{1e3 * value:.4g}"),
         "stack": stack}
        for stack, each in known.items()
        for share, value in each.curve
        if share < 1 and value > 0
    ]  # fmt: skip
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    groups = [stacks[at : at + MOST_LINES] for at in range(0, len(stacks), MOST_LINES)]
    values: list[float] = [row["l"] for row in rows]
    frame = (max(row["x"] for row in rows), [0.9 * min(values), 1.15 * max(values)])
    drawn = tuple(
        _curve_panel(analysis, workload, [row for row in rows if row["stack"] in mine], frame) for mine in groups
    )
    caption = (
        "Percentiles of all transactions, as HdrHistogram plots them: each tenfold step to the right leaves a "
        "tenth of them, so that the slowest ones can be read too."
    )
    title = f"{workload}: 99 % of the transactions take at most {_medians(known, 0.99)}"
    return Chart(f"latency-curve-{slug(workload)}", title, caption, drawn)


def _curve_panel(
    analysis: Analysis, workload: str, rows: Sequence[dict[str, Any]], frame: tuple[float, list[float]]
) -> Panel:
    last, domain = frame
    palette = colours(tuple(analysis.stacks), analysis.grid.baselines)
    ticks = {round(-math.log10(1 - share), 4): name for share, name in _TICKS.items()}
    shown = [tick for tick in ticks if tick <= last]
    words = "".join(f"datum.value == {tick} ? '{ticks[tick]}' : " for tick in shown) + "''"
    x: Any = alt.X(
        "x:Q", title="share of transactions that took no longer", scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(values=shown, labelExpr=words, grid=True, labelOverlap="greedy"),
    )  # fmt: skip
    y: Any = alt.Y("l:Q", title="latency, ms (log)", scale=alt.Scale(type="log", domain=domain, nice=False),
                   axis=alt.Axis(format=",.3~r", values=log_ticks(*domain), labelOverlap="greedy"))  # fmt: skip
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    names = legend(stacks, symbolType="stroke", symbolSize=200)
    colour = alt.Color(
        "stack:N", scale=alt.Scale(domain=stacks, range=[palette[stack] for stack in stacks]), legend=names
    )
    # Where the colours start over, or somebody does not tell them apart.
    dashes = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2])
    dash = alt.StrokeDash(
        "stack:N", scale=alt.Scale(domain=stacks, range=[dashes[at % 4] for at in range(len(stacks))]),
        legend=names,
    )  # fmt: skip
    drawn = (
        alt.Chart(alt.NamedData(name="curve"))
        .mark_line(strokeWidth=2, interpolate="step-after", clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=dash,
                tooltip=[alt.Tooltip("stack:N"), alt.Tooltip("share:N", title="share"),
                         alt.Tooltip("l:Q", title="ms", format=",.3~r")])
    )  # fmt: skip
    table = {"stack": "stack", "share": "share of transactions", "l": "took at most, ms"}
    return panel(f"{workload}: percentiles of latency", drawn, {"curve": rows}, 260, ("curve", table))
