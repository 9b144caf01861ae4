"""How long the transactions of a workload took: each as a point or, of too many, their density over time; and the
percentile curve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from blocklab.charts.base import (
    DASHES,
    Chart,
    Panel,
    constant,
    legend,
    named,
    numbers,
    palette_of,
    rows_of,
    since_start,
    slug,
    text,
    titled,
    watched,
)
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Latencies, Transaction
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import listed, number, quantity
from blocklab.stats.summary import percentile
from blocklab.stats.values import Measured

# A browser draws this many points of SVG in each panel without a pause, on a phone too.
MOST_POINTS = 2_500
# How many of them go to the slowest, which a thinned cloud would lose.
SLOWEST = MOST_POINTS // 5
FEW_POINTS = 800
# Points of a curve for each tenfold step, and lines that one panel can hold.
_STEPS, MOST_LINES = 40, 8
# As HdrHistogram's plots: each step to the right leaves a tenth of the transactions before.
_TICKS = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %", 0.99999: "99.999 %"}

# write.latency.p99.9
_PERCENTILE = re.compile(r"(?:(?P<way>read|write|sync)\.)?latency\.p(?P<rank>\d{1,2}(?:\.\d{1,4})?)")
# Of a workload with more phases only the first.
MOST_PHASES = 6

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
    """For each workload of which that is known the single transactions or their density, and the percentile curve;
    a note for each database workload without a log."""
    found: list[Chart | str] = []
    for workload, cells in watched(analysis).items():
        clouds = {stack: cloud for stack, measured in cells.items() if (cloud := _cloud(measured))}
        known = {
            stack: latencies
            for stack, measured in cells.items()
            if (latencies := measured.run.latencies or latencies_of(measured.run.transactions)) is not None
        }
        dense = {stack: each for stack, each in known.items() if each.tiles and not cells[stack].run.transactions}
        if clouds:
            found.append(_points(analysis, workload, clouds))
        if dense:
            found.append(_density(analysis, workload, dense))
        if known:
            found.append(_curve(analysis, workload, known))
        elif quantiles := _quantiles(analysis, workload):
            found.append(_quantile_curves(analysis, workload, quantiles))
        elif any(row.workload == workload and metric_of(row.metric).transactions for row in analysis.rows):
            found.append(f"latency of single transactions in {workload}: the workload kept no log of them")
    return found


def _cloud(measured: Measured) -> list[Point]:
    """When each transaction ended (s), and how long it took (ms)."""
    done = measured.run.transactions
    start = measured.start
    if start is None and done:
        start = min(each.end - each.latency for each in done)
    return [(each.end - (start or 0.0), each.latency * 1e3) for each in done if each.latency > 0]


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


def _said(values: Mapping[str, float]) -> str:
    """``2.5 ms on local and 3 ms on drbd``, of seconds."""
    return listed([f"{quantity(value, 's')} on {stack}" for stack, value in values.items()])


def _points(analysis: Analysis, workload: str, clouds: Mapping[str, list[Point]]) -> Chart:
    took = {stack: [latency for _, latency in cloud] for stack, cloud in clouds.items()}
    every = [latency for each in took.values() for latency in each]
    low, high = percentile(every, 0.001), max(every)
    end = max(when for cloud in clouds.values() for when, _ in cloud)
    marks = rows_of("rows").mark_circle(size=7, opacity=0.45)
    marks = marks.encode(
        tooltip=[alt.Tooltip("t:Q", title="s", format=".1f"), alt.Tooltip("l:Q", title="ms", format=".2f")]
    )
    table = {"t": "ended, s since the workload began", "l": "latency, ms"}
    domain = [min(low, high / 2) * 0.9, high * 1.15]
    drawn = _OverTime("latency of transactions", marks, domain, end, table)
    palette = palette_of(analysis)
    panels, notes = [], []
    for stack, cloud in clouds.items():
        # With levels there are many panels, and the browser draws each of them.
        kept, step, slow = thin(cloud) if not analysis.grid.factors else thin(cloud, FEW_POINTS, FEW_POINTS // 5)
        if step > 1:
            notes.append((stack, f"every {_nth(step)} of {len(cloud):,} and the slowest {slow:,}"))
        rows = [{"t": round(when, 3), "l": float(f"{latency:.4g}")} for when, latency in kept]
        ranks = (percentile(took[stack], rank) for rank in (0.5, 0.99))
        panels.append(drawn.panel(stack, palette[stack], rows, *ranks))
    caption = (
        "Each point is one transaction; all panels share both axes, and latency is on a logarithmic one. Lines "
        "mark the median (p50) and the 99th percentile of all transactions. "
    ) + (f"Points are thinned so that the page stays light: {_thinned(notes)}." if notes else "All are shown.")
    medians = _said({stack: percentile(each, 0.5) / 1e3 for stack, each in took.items()})
    title = f"{workload}: the median transaction takes {medians}"
    return Chart(f"latency-{slug(workload)}", title, caption, tuple(panels), section="latency")


def _thinned(notes: Sequence[tuple[str, str]]) -> str:
    if len(notes) > 1 and len({text for _, text in notes}) == 1:
        return f"{notes[0][1]} of each stack"
    return "; ".join(f"{stack}: {text}" for stack, text in notes)


def _nth(step: int) -> str:
    """``2nd``, ``11th``, ``21st``."""
    ending = "th" if step % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th")
    return f"{step}{ending}"


@dataclass(frozen=True)
class _OverTime:
    """``what`` a chart shows as ``marks``, and the axes that its panels share: latencies (ms) from least to most,
    and the workload's end (s)."""

    what: str
    marks: Any
    domain: list[float]
    end: float
    table: Mapping[str, str]

    def panel(self, stack: str, colour: str, rows: list[dict[str, Any]], p50: float, p99: float) -> Panel:
        """The ``rows`` of a stack, with a line at each of both ranks (ms)."""
        y = numbers(alt.Y, "l", "latency, ms", self.domain, log=True, clamp=True)
        base = rows_of("ranks")
        layers = [
            self.marks.encode(x=since_start(self.end), y=y, color=constant(alt.ColorValue, colour)),
            base.mark_rule(strokeWidth=1.25).encode(y=alt.Y("ms:Q")),
        ]
        # The median's label below its line and the percentile's above: they never meet. The halo keeps it legible.
        for rank, side, shift in (("p50", "top", 4), ("p99", "bottom", -4)):
            mark = {"align": "right", "baseline": side, "dy": shift, "fontSize": 11, "fontWeight": 600}
            only = base.transform_filter(alt.datum.rank == rank)
            layers += text(only, mark, y=alt.Y("ms:Q"), x=constant(alt.XValue, "width"), text=alt.Text("text:N"))
        ranks = [
            {"rank": name, "ms": ms, "text": f"{name}  {number(ms)} ms"}
            for name, ms in (("p50", p50), ("p99", p99))
        ]
        data = {"rows": rows, "ranks": ranks}
        return titled(stack, self.what, layers, data, 240, ("rows", self.table), colour)


def _density(analysis: Analysis, workload: str, known: Mapping[str, Latencies]) -> Chart:
    every = [(each.tiles[0].start, tile) for each in known.values() for tile in each.tiles]
    low = 1e3 * min(tile.low for _, tile in every if tile.low > 0)
    high = 1e3 * max(tile.high for _, tile in every)
    end = max(tile.start + tile.width - start for start, tile in every)
    most = max(tile.count / tile.width for _, tile in every)
    shade: Any = alt.Opacity("a:Q", scale=alt.Scale(domain=[0, 1], range=[0.12, 1]), legend=None)
    told = [("t", "from s", ".0f"), ("l", "from ms", ",.3~r"), ("h", "to ms", ",.3~r"), ("n", "transactions", ",")]
    marks = rows_of("rows").mark_rect()
    marks = marks.encode(
        x2=alt.X2("u:Q"), y2=alt.Y2("h:Q"), opacity=shade,
        tooltip=[alt.Tooltip(f"{field}:Q", title=title, format=form) for field, title, form in told],
    )  # fmt: skip
    table = {"t": "from, s", "u": "to, s", "l": "from, ms", "h": "to, ms", "n": "transactions"}
    drawn = _OverTime("density of transactions", marks, [low, high], end, table)
    palette = palette_of(analysis)
    panels = []
    for stack, each in known.items():
        start = each.tiles[0].start
        rows = [
            {"t": round(tile.start - start, 3), "u": round(tile.start - start + tile.width, 3),
             "l": float(f"{max(1e3 * tile.low, low):.4g}"), "h": float(f"{1e3 * tile.high:.4g}"),
             "n": tile.count, "a": round(math.log1p(tile.count / tile.width) / math.log1p(most), 3)}
            for tile in each.tiles
        ]  # fmt: skip
        ranks = (1e3 * at_share(each, rank) for rank in (0.5, 0.99))
        panels.append(drawn.panel(stack, palette[stack], rows, *ranks))
    widths = {stack: f"{each.tiles[0].width:g} s" for stack, each in known.items()}
    wide = next(iter(widths.values()))
    if len(set(widths.values())) > 1:
        wide = listed([f"{width} on {stack}" for stack, width in widths.items()])
    counts = listed([f"{each.count:,} of {stack}" for stack, each in known.items()])
    caption = (
        f"All {counts}: the darker a field, the more transactions ended in that time ({wide}) and took "
        "so long, on a logarithmic scale of their number; one alone is still seen. All panels share their axes. "
        "Lines mark the median (p50) and the 99th percentile."
    )
    medians = _said({stack: at_share(each, 0.5) for stack, each in known.items()})
    title = f"{workload}: the median transaction takes {medians}"
    return Chart(f"latency-density-{slug(workload)}", title, caption, tuple(panels), section="latency")


def _quantiles(analysis: Analysis, workload: str) -> dict[str, list[dict[str, Any]]]:
    """The percentiles that a workload itself reports, by phase and direction: a row for each stack and percentile.
    A phase with fewer than two of them has none."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in analysis.rows:
        match = _PERCENTILE.fullmatch(row.metric)
        if row.workload != workload or not row.own or match is None or not row.value:
            continue
        share = float(match["rank"]) / 100
        place = {"x": round(-math.log10(1 - share), 4), "share": f"{100 * share:.6g} %"}
        found.setdefault(f"{row.phase} {match['way']}".strip(), []).append(
            {**place, "l": float(f"{1e3 * row.value:.4g}"), "stack": row.stack}
        )
    return {phase: rows for phase, rows in found.items() if len({row["x"] for row in rows}) > 1}


def _quantile_curves(analysis: Analysis, workload: str, phases: Mapping[str, list[dict[str, Any]]]) -> Chart:
    every = [row for rows in list(phases.values())[:MOST_PHASES] for row in rows]
    frame = _Frame([row["x"] for row in every], [row["l"] for row in every])
    panels = tuple(
        panel
        for phase, rows in list(phases.items())[:MOST_PHASES]
        for panel in frame.panels(analysis, phase, rows, "linear", points=True)
    )
    phase = max(phases, key=lambda name: _apart(phases[name]))
    rows = phases[phase]
    last = max(row["x"] for row in rows)
    slow = _said({row["stack"]: row["l"] / 1e3 for row in rows if row["x"] == last})
    share = next(row["share"] for row in rows if row["x"] == last)
    title = f"{workload}: in {phase}, {share} take at most {slow}"
    caption = "The percentiles that the workload itself reports; all panels share both axes."
    if (left := len(phases) - MOST_PHASES) > 0:
        caption += f" {left} more phases are in the table of results."
    return Chart(f"latency-curve-{slug(workload)}", title, caption, panels, section="latency")


def _apart(rows: Sequence[Mapping[str, Any]]) -> float:
    """How many times the latency of one stack is that of another, at the highest percentile."""
    last = max(row["x"] for row in rows)
    took = [row["l"] for row in rows if row["x"] == last]
    return float(max(took) / min(took))


class _Frame:
    """The axes of percentile curves: x is how many tenfold steps a share is from all (``-log10(1 - share)``), y
    the latency (ms)."""

    def __init__(self, places: Sequence[float], took: Sequence[float]) -> None:
        last = max(places)
        ticks = {at: name for share, name in _TICKS.items() if (at := round(-math.log10(1 - share), 4)) <= last}
        words = "".join(f"datum.value == {tick} ? '{name}' : " for tick, name in ticks.items()) + "''"
        axis = {"values": list(ticks), "labelExpr": words, "grid": True, "labelOverlap": "greedy"}
        self._x = numbers(alt.X, "x", "share that took no longer", [0, last], axis=axis)
        self._y = numbers(alt.Y, "l", "latency, ms (log)", [0.9 * min(took), 1.15 * max(took)], log=True)
        self._table = {"stack": "stack", "share": "share of all", "l": "took at most, ms"}

    def panels(
        self, analysis: Analysis, title: str, rows: Sequence[dict[str, Any]], way: str, *, points: bool = False
    ) -> Iterator[Panel]:
        """A line for each stack, in as many panels as they need. ``way``: how points are joined."""
        marks = rows_of("curve").mark_line(strokeWidth=2, interpolate=way, clip=True, point=points)
        told = [alt.Tooltip("stack:N"), alt.Tooltip("share:N", title="share"),
                alt.Tooltip("l:Q", title="ms", format=",.3~r")]  # fmt: skip
        palette = palette_of(analysis)
        stacks = list(dict.fromkeys(row["stack"] for row in rows))
        for at in range(0, len(stacks), MOST_LINES):
            mine = stacks[at : at + MOST_LINES]
            names = legend(mine, symbolType="stroke", symbolSize=200)
            chart = marks.encode(
                x=self._x, y=self._y, tooltip=told,
                color=named(alt.Color, "stack", {stack: palette[stack] for stack in mine}, names),
                strokeDash=named(alt.StrokeDash, "stack", dict(zip(mine, 2 * DASHES, strict=False)), names),
            )  # fmt: skip
            data = {"curve": [row for row in rows if row["stack"] in mine]}
            yield titled(title, "percentiles of latency", [chart], data, 260, ("curve", self._table))


def _curve(analysis: Analysis, workload: str, known: Mapping[str, Latencies]) -> Chart:
    rows: list[dict[str, Any]] = [
        {"x": round(-math.log10(1 - share), 4), "share": f"{100 * share:.6g} %", "l": float(f"{1e3 * value:.4g}"),
         "stack": stack}
        for stack, each in known.items()
        for share, value in each.curve
        if share < 1 and value > 0
    ]  # fmt: skip
    frame = _Frame([row["x"] for row in rows], [row["l"] for row in rows])
    drawn = frame.panels(analysis, "", rows, "step-after")
    caption = (
        "Percentiles of all transactions, as HdrHistogram plots them: each tenfold step to the right leaves a "
        "tenth of them, so that the slowest ones can be read too."
    )
    slow = _said({stack: at_share(each, 0.99) for stack, each in known.items()})
    title = f"{workload}: 99 % of the transactions take at most {slow}"
    return Chart(f"latency-curve-{slug(workload)}", title, caption, tuple(drawn), section="latency")
