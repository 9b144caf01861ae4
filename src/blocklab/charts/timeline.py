"""What the block devices and the CPUs did while a workload ran, second by second, with its phases named."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from blocklab.charts.bands import bands_of, is_pause, numbers_of, phase_at, phases_text
from blocklab.charts.base import (
    DASHES,
    PALETTE,
    Chart,
    Panel,
    legend,
    named,
    numbers,
    palette_of,
    rows_of,
    since_start,
    slug,
    titled,
    watched,
)
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.floor import BUSY
from blocklab.stats.format import listed, quantity, scale
from blocklab.stats.values import PROBE_INTERVAL, Measured, Points, Row

# Of more stacks than this a title tells the least and the most.
MOST_NAMED = 4
FEW_POINTS = 60
# A longer load is drawn in means over several seconds.
MOST_SECONDS = 1200
# More lines than this in one panel cannot be followed.
MOST_LINES = 6


@dataclass(frozen=True)
class Measure:
    """One row of panels: which series, in which display unit, and how the axis is drawn."""

    name: str
    metric: str
    factor: float
    axis: str
    log: bool = False
    most: float | None = None
    own: bool = False
    """Whether the workload itself reports it."""


def measures(way: str) -> tuple[Measure, ...]:
    """What is drawn of the block devices, for ``read`` or ``write``."""
    done = {"read": "read", "write": "written"}[way]
    return (
        Measure("bandwidth", f"{way}.bandwidth", 1e-6, f"{done}, MB/s"),
        Measure("await", f"{way}.await", 1e3, f"{way} await, ms (log)", log=True),
        Measure("iops", f"{way}.iops", 1.0, f"{way}s, IOPS"),
    )


NETWORK = Measure("network", "tx.bandwidth", 1e-6, "sent, MB/s")
# What a node sends to itself is on no wire.
LOOPBACK = "lo"
CPU = Measure("cpu", "cpu.busy", 1.0, "CPU busy, %", most=100.0)
Lines = dict[str, Points]


def timelines(analysis: Analysis) -> list[Chart | str]:
    """The rows of panels of each workload: a database's throughput; the devices, the CPUs and the network of a
    workload that does block I/O itself, or of each that was watched where none does; else the CPUs where they may
    be the limit."""
    every = watched(analysis)
    block = [workload for workload in every if _does_block_io(analysis, workload)]
    drilled = {each.workload for each in analysis.drills}
    found: list[Chart | str] = []
    for workload, cells in every.items():
        if not cells:
            found.append(f"time lines of {workload}: no stack has a good run of it")
        rate = _rate(analysis, workload) if workload not in drilled else None
        # Without progress of its own there is nothing to draw, and its transactions are drawn one by one.
        if rate is not None and any(_own_lines(measured, rate.metric) for measured in cells.values()):
            found.append(_row(analysis, workload, cells, rate))
    for workload, cells in every.items():
        if not cells:
            continue
        if workload in (block or every):
            # A study without links has no network to speak of.
            sent = any(_network_lines(measured) for measured in cells.values())
            for measure in (*measures(_way(cells)), CPU, *([NETWORK] if sent else [])):
                found.append(_row(analysis, workload, cells, measure))
        elif _saturated(analysis, workload):
            found.append(_row(analysis, workload, cells, CPU))
    return found


def _does_block_io(analysis: Analysis, workload: str) -> bool:
    return any(
        row.workload == workload and row.own and metric_of(row.metric).family == "iops" for row in analysis.rows
    )


def _saturated(analysis: Analysis, workload: str) -> bool:
    return any(
        row.workload == workload and row.metric == CPU.metric and row.value >= BUSY for row in analysis.rows
    )


def _rate(analysis: Analysis, workload: str) -> Measure | None:
    """A database workload's own throughput."""
    for row in analysis.rows:
        if row.workload == workload and row.own and metric_of(row.metric).transactions:
            factor, label = scale(row.unit, row.metric)
            return Measure("throughput", row.metric, factor, label, own=True)
    return None


def _picked(measure: Measure, measured: Measured) -> Lines:
    if measure.own:
        return _own_lines(measured, measure.metric)
    if measure is CPU:
        return _cpu_lines(measured)
    if measure is NETWORK:
        return _network_lines(measured)
    return _await_lines(measured, measure.metric) if measure.log else _top_line(measured, measure.metric)


def _own_lines(measured: Measured, metric: str) -> Lines:
    """What the workload reports while it runs: each phase is a part of one line."""
    probed = measured.probed
    found = [
        point
        for (host, layer, name, _), points in measured.series.items()
        if name == metric and (host, layer, name) not in probed
        for point in points
    ]
    return {metric_of(metric).words: sorted(found)} if found else {}


def _middles(points: Points, metric: str) -> Points:
    """Each point in the middle of the second that it stands for, as far as its probe tells the time."""
    shift = (metric_of(metric).late - PROBE_INTERVAL) / 2
    return [(time + shift, value) for time, value in points]


def _top_line(measured: Measured, metric: str) -> Lines:
    points = _middles(measured.probe(measured.active, measured.device, metric), metric)
    return {f"{measured.device} on {measured.active}": points} if points else {}


def _way(cells: Mapping[str, Measured]) -> str:
    """Whether the stacks' top devices read or wrote more."""
    moved = {
        way: sum(
            value
            for measured in cells.values()
            for _, value in measured.probe(measured.active, measured.device, f"{way}.bandwidth")
        )
        for way in ("write", "read")
    }
    return max(moved, key=lambda way: moved[way])


def _await_lines(measured: Measured, metric: str) -> Lines:
    """The stack's top device, and those under it: between the lines lies what each layer adds."""
    found = _top_line(measured, metric)
    for host in measured.hosts:
        for device in measured.busiest(host):
            points = _middles(measured.probe(host, device, metric), metric)
            if points:
                found[f"{device} on {host}"] = points
    return dict(list(found.items())[:MOST_LINES])


def _network_lines(measured: Measured) -> Lines:
    """What each interface sent that sent anything."""
    found: Lines = {}
    for host, layer, metric, phase in measured.series:
        if metric == NETWORK.metric and not phase and layer != LOOPBACK:
            points = measured.probe(host, layer, metric)
            if any(value for _, value in points):
                found[f"{layer} on {host}"] = _middles(points, metric)
    busiest = sorted(found, key=lambda name: -sum(value for _, value in found[name]))[:MOST_LINES]
    return {name: points for name, points in found.items() if name in busiest}


def _cpu_lines(measured: Measured) -> Lines:
    found: Lines = {}
    for host in measured.hosts:
        waits = dict(measured.probe(host, "cpu", "cpu.iowait"))
        idle = measured.probe(host, "cpu", "cpu.idle")
        if idle:
            busy = [(time, 100 - value - waits.get(time, 0.0)) for time, value in idle]
            found[host] = _middles(busy, "cpu.idle")
    return found


def _row(analysis: Analysis, workload: str, cells: Mapping[str, Measured], measure: Measure) -> Chart | str:
    picked = {
        stack: lines
        for stack, measured in cells.items()
        if (lines := _during(measured, _picked(measure, measured)))
    }
    if not measure.own:
        picked = {stack: _whole(cells[stack], lines) for stack, lines in picked.items()}
    step = math.ceil(max((_end(cells[stack]) for stack in picked), default=0.0) / MOST_SECONDS)
    if step > 1:
        picked = {
            stack: {name: _means(cells[stack], points, step) for name, points in lines.items()}
            for stack, lines in picked.items()
        }
    values = [
        value * measure.factor
        for lines in picked.values()
        for points in lines.values()
        for _, value in points
        if value > 0 or not measure.log
    ]
    if not values or not any(values):
        return f"{measure.axis.split(',')[0]} in {workload}: no probe left a series of the stacks' devices"
    domain = [min(values) * 0.85, max(values) * 1.1] if measure.log else [0, measure.most or max(values) * 1.08]
    palette = palette_of(analysis)
    end = max(_end(cells[stack]) for stack in picked)
    phases = numbers_of([cells[stack] for stack in picked], end)
    panels = tuple(
        _panel(stack, palette[stack], cells[stack], lines, measure, (domain, end, phases))
        for stack, lines in picked.items()
    )
    caption = _source(measure) + phases_text([cells[stack] for stack in picked], phases)
    if step > 1:
        caption += f" Each point is the mean of up to {step} seconds of one phase."
    return Chart(
        f"{measure.name}-{slug(workload)}", _title(analysis, workload, measure), caption, panels, section="time"
    )


def _means(measured: Measured, points: Points, step: int) -> Points:
    """The means over each ``step`` seconds of a phase, in the middle of them: no two jobs make one point."""
    bins: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for time, value in points:
        bins.setdefault((phase_at(measured, time), int(time // step)), []).append((time, value))
    return [
        (statistics.fmean(time for time, _ in mine), statistics.fmean(value for _, value in mine))
        for mine in bins.values()
    ]


def _during(measured: Measured, lines: Lines) -> Lines:
    """The lines from the workload's start to its end; probes run a little longer on both sides."""
    start = measured.start
    if start is None:
        return {}
    end = max(phase.end for phase in measured.run.phases)
    cut = {name: [p for p in points if start <= p[0] <= end] for name, points in lines.items()}
    return {name: points for name, points in cut.items() if points}


def _whole(measured: Measured, lines: Lines) -> Lines:
    """Without the seconds that are not inside one phase: their mean is of two jobs, or of a job and a pause. A
    phase that has no whole second keeps what it has."""
    found: Lines = {}
    for name, points in lines.items():
        half = PROBE_INTERVAL / 2 - 1e-6
        within = [phase_at(measured, time) for time, _ in points]
        inside = [phase_at(measured, time - half) == phase_at(measured, time + half) for time, _ in points]
        has = {at for at, whole in zip(within, inside, strict=True) if whole}
        kept = [
            point
            for point, at, whole in zip(points, within, inside, strict=True)
            if not is_pause(at) and (whole or at not in has)
        ]
        found[name] = kept or list(points)
    return found


def _end(measured: Measured) -> float:
    return max(phase.end for phase in measured.run.phases) - (measured.start or 0.0)


def _panel(
    stack: str,
    colour: str,
    measured: Measured,
    lines: Lines,
    measure: Measure,
    frame: tuple[list[float], float, Mapping[str, int]],
) -> Panel:
    domain, end, phases = frame
    shades = [colour, *(each for each in PALETTE[::-1] if each != colour)]
    names = list(lines)
    # With one line the colour of the stack says it all; more need a legend, and a dash for those without colour.
    own = legend(names, "bottom", symbolType="stroke", symbolSize=250) if names[1:] else None
    colours = {name: shades[at % len(shades)] for at, name in enumerate(names)}
    dashes = {name: DASHES[(at + at // len(shades)) % 5] for at, name in enumerate(names)}
    base = rows_of("lines")
    shared: dict[str, Any] = {
        "x": since_start(end), "y": numbers(alt.Y, "v", measure.axis, domain, log=measure.log),
        "color": named(alt.Color, "line", colours, own),
        "tooltip": [alt.Tooltip("t:Q", title="s", format=".0f"), alt.Tooltip("line:N", title="of"),
                    alt.Tooltip("v:Q", title=measure.axis, format=",.3~r")],
    }  # fmt: skip
    drawn = [
        base.mark_line(strokeWidth=1.75, clip=True).encode(
            **shared, strokeDash=named(alt.StrokeDash, "line", dashes, own), detail=["line:N", "phase:N"]
        )
    ]
    rows = _rows(measured, lines, measure)
    if any("dot" in row for row in rows):
        dots = base.transform_filter("datum.dot").mark_point(filled=True, size=22, opacity=1, clip=True)
        drawn.append(dots.encode(**shared))
    bands, layers = bands_of(measured, phases)
    table = {"t": "s since the workload began", "line": "of", "v": measure.axis}
    data = {"lines": rows, "phases": bands}
    return titled(stack, measure.axis, [*layers, *drawn], data, 170, ("lines", table), colour)


def _rows(measured: Measured, lines: Lines, measure: Measure) -> list[dict[str, Any]]:
    """A row for each point; ``dot`` marks those that are seen as dots: all of a short load, and that of a phase
    which has only one, through which there is no line."""
    start = measured.start or 0.0
    rows: list[dict[str, Any]] = [
        {"t": round(time - start, 2), "v": float(f"{value * measure.factor:.4g}"), "line": name,
         "phase": phase_at(measured, time)}
        for name, points in lines.items()
        for time, value in points
        if value > 0 or not measure.log
    ]  # fmt: skip
    few = max(len(points) for points in lines.values()) < FEW_POINTS
    counts = Counter((row["line"], row["phase"]) for row in rows)
    alone = {at for at, count in counts.items() if count == 1 and not is_pause(at[1])}
    return [row | ({"dot": True} if few or (row["line"], row["phase"]) in alone else {}) for row in rows]


def _title(analysis: Analysis, workload: str, measure: Measure) -> str:
    rows = [row for row in analysis.rows if row.workload == workload and row.metric == measure.metric]
    if measure.own:
        return _rate_title(workload, [row for row in rows if row.own])
    if measure is CPU:
        return _cpu_title(workload, rows)
    if measure is NETWORK:
        return _network_title(workload, rows)
    tops = [row for row in rows if row.top]
    base = {row.phase: row.value for row in tops if row.stack in analysis.grid.baselines} or {
        row.phase: row.value for row in tops
    }
    if not base:
        return f"{workload}: {measure.axis} at the stacks' devices"
    # The fastest write shows most of what a mirror adds; throughput is told where it is highest.
    phase = min(base, key=lambda name: base[name]) if measure.log else max(base, key=lambda name: base[name])
    said = _on_stacks([row for row in tops if row.phase == phase])
    way = metric_of(measure.metric).of
    verb = f"a {way} waits" if measure.name == "await" else f"{way}s reach"
    return f"In {phase or workload}, {verb} {said}"


def _on_stacks(rows: Sequence[Row]) -> str:
    """The value of each stack; of many the least and the most."""
    told = [f"{quantity(row.value, row.unit, row.metric)} on {row.stack}" for row in rows]
    if len(rows) <= MOST_NAMED:
        return listed(told)
    ends = [rows.index(end(rows, key=lambda row: row.value)) for end in (min, max)]
    return f"from {told[ends[0]]} to {told[ends[1]]}"


def _rate_title(workload: str, rows: Sequence[Row]) -> str:
    return f"{workload} over time: {_on_stacks(rows)}" if rows else f"{workload} over time"


def _network_title(workload: str, rows: Sequence[Row]) -> str:
    most = max((row for row in rows if row.layer != LOOPBACK), key=lambda row: row.value, default=None)
    if most is None or not most.value:
        return f"{workload}: what the nodes sent"
    where = f"{most.layer} of {most.host}, {most.stack}" + (f", {most.phase}" if most.phase else "")
    return f"{workload}: the nodes send at most {quantity(most.value, most.unit)} over a phase ({where})"


def _cpu_title(workload: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"CPU of the nodes in {workload}"
    most = max(rows, key=lambda row: row.value)
    where = f"{most.host}, {most.stack}" + (f", {most.phase}" if most.phase else "")
    busy = f"at most {quantity(most.value, '%')} busy over a phase ({where})"
    if most.value < 80:
        return f"{workload}: no node's CPU is the limit, {busy}"
    return f"{workload}: the CPU may be the limit, {busy}"


def _source(measure: Measure) -> str:
    if measure.own:
        return "As the workload itself reports it while it runs."
    if measure is CPU:
        return "From /proc/stat each second: the CPU time of each node that was neither idle nor waiting for I/O."
    if measure is NETWORK:
        return "From /proc/net/dev each second: what each interface sent."
    if measure.log:
        way = metric_of(measure.metric).of
        return (
            f"From /proc/diskstats each second: how long a {way} took at the stack's highest block device, and at "
            "the volumes below a mirror."
        )
    return "From /proc/diskstats each second, at the stack's highest block device on its active node."
