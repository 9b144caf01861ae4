"""The IOPS table, or that of another value: block size and mix, or clones, by queue depth, with the value in each
cell."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import msgspec

from blocklab.charts.base import DAGGER, PALETTE, Chart, Panel, contrast, rows_of, titled, tooltip
from blocklab.charts.plan import MOST_PANELS, Dot, columns
from blocklab.charts.sweep import Sweep
from blocklab.formats.load.fio.options import size
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import number, quantity, scale
from blocklab.stats.grid import label_of
from blocklab.study.factors import assignments, parts_of
from blocklab.workloads.fio_shapes import ACCESS, BLOCK, DEPTH, JOBS, READS

# From few to many, light to dark in one hue: the order shows without colour vision, and in print.
_SHADES = ("#eef4fb", "#a9cbe6", "#4f95c6", "#1f5fa8", "#08306b")
# Not quite white, since white is what the page replaces by dark paper.
_INKS = ("#000001", "#fffffe")
ROW = 22
# Pixels of a value's characters.
_DIGIT, _OTHER = 7, 4
# fio's options that a factor may change, as what they are here.
_OPTIONS = {"iodepth": DEPTH, "bs": BLOCK, "blocksize": BLOCK, "rwmixread": READS}
# What CrystalDiskMark measures with its default settings: (block, access, depth), for reads and for writes alone.
_MARKED = {(4096, "random", 1), (4096, "random", 32), (2**20, "sequential", 1), (2**20, "sequential", 8)}


def heat(sweep: Sweep, fixed: Mapping[str, str]) -> Chart | None:
    """The table of a fio workload whose jobs differ in queue depth and in block size, mix or clones; None of any
    other.

    ``fixed``: what all of its jobs have in common, in the terms of the sweep's dimensions.
    """
    across = [name for name in (BLOCK, READS) if name in sweep.dimensions]
    # What has the most levels makes rows, the rest panels: a table of two rows cannot be read at a glance.
    if len(sweep.dimensions.get(JOBS, ())) > math.prod(len(sweep.dimensions[name]) for name in across):
        across = [JOBS]
    if DEPTH not in sweep.dimensions or not across:
        return None
    others = [name for name in sweep.dimensions if name not in (DEPTH, *across)]
    groups: dict[str, list[Dot]] = {}
    for dot in sweep.dots:
        levels = {name: dot.levels[name] for name in others if name in dot.levels}
        groups.setdefault(label_of(dot.stack, levels), []).append(dot)
    shown = dict(list(groups.items())[:MOST_PANELS])
    values = [dot.value for dots in shown.values() for dot in dots if dot.value > 0]
    if not values:
        return None
    ends = (min(values), max(values))
    drawn = tuple(_panel(title, dots, sweep, across, (ends, fixed)) for title, dots in shown.items())
    marked = any(row.get("marked") for each in drawn for row in each.spec["datasets"]["cells"])
    together = " Reads and writes together." if sweep.jobs and not metric_of(sweep.metric).of else ""
    caption = (
        f"{scale(sweep.unit, sweep.metric)[1] or metric_of(sweep.metric).words}, the darker the more, on a "
        f"logarithmic scale that all panels share.{together}"
    )
    if marked:
        caption += (
            " Framed: what CrystalDiskMark's default tests do (random 4 KiB at queue depths 1 and 32, sequential "
            "1 MiB at 1 and 8; reads or writes alone)."
        )
    if any("note" in row for each in drawn for row in each.spec["datasets"]["cells"]):
        caption += DAGGER
    if len(groups) > MOST_PANELS:
        caption += f" {len(groups) - MOST_PANELS} more panels are left out; the values are in the tables."
    return Chart(f"heat-{sweep.name}", _title(sweep), caption, drawn, min(2, len(drawn)), "curves")


def heat_of_factors(analysis: Analysis, sweep: Sweep) -> Chart | None:
    """The same of a workload whose queue depth, and block size or mix, are factors of the study."""
    names: dict[str, str] = {}
    for name in sweep.dimensions:
        if name in analysis.study.factors:
            levels = assignments(analysis.study.factors[name]).values()
            ends = {parts_of(path)[-1] for fields in levels for path in fields}
            kind = _OPTIONS.get(next(iter(ends))) if len(ends) == 1 else None
            names |= {name: kind} if kind else {}
    if DEPTH not in names.values() or len(set(names.values())) < len(names):
        return None

    def level(kind: str, text: str) -> str:
        return f"{text}%" if kind == READS else text

    dots = [
        msgspec.structs.replace(
            dot, levels={names.get(name, name): level(names.get(name, ""), at) for name, at in dot.levels.items()}
        )
        for dot in sweep.dots
        # A factor may make no difference to a stack.
        if all(name in dot.levels for name in names)
    ]
    dimensions = {
        names.get(name, name): tuple(level(names.get(name, ""), at) for at in levels)
        for name, levels in sweep.dimensions.items()
    }
    return heat(dataclasses.replace(sweep, dots=tuple(dots), dimensions=dimensions), {}) if dots else None


def _title(sweep: Sweep) -> str:
    low, high = min(sweep.dots, key=lambda dot: dot.value), max(sweep.dots, key=lambda dot: dot.value)

    def said(dot: Dot) -> str:
        return f"{quantity(dot.value, sweep.unit, sweep.metric)} ({dot.stack}: {dot.words()})"

    return f"{sweep.label}: from {said(low)} to {said(high)}"


def shade(value: float, low: float, high: float) -> str:
    """The colour of a value between two others, all above 0, on a logarithmic scale."""
    part = math.log(value / low) / math.log(high / low) if high > low else 0.5
    place = min(max(part, 0.0), 1.0) * (len(_SHADES) - 1)
    first = min(int(place), len(_SHADES) - 2)
    one, other = ([int(_SHADES[at][k : k + 2], 16) for k in (1, 3, 5)] for at in (first, first + 1))
    mixed = [round(a + (b - a) * (place - first)) for a, b in zip(one, other, strict=True)]
    return "#" + "".join(f"{each:02x}" for each in mixed)


def brief(value: float) -> str:
    """Two digits of a value above 0, for cells that have room for no more: ``27k``, ``9.1k``, ``0.58``."""
    value = float(f"{value:.2g}")
    for least, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:g}{letter}"
    return f"{value:g}"


def crystal(levels: Mapping[str, str]) -> bool:
    """Whether CrystalDiskMark's default tests have one that does the same as a job."""
    try:
        block, depth = size(levels.get(BLOCK, "")), int(levels.get(DEPTH, ""))
    except ValueError:
        return False
    alone = levels.get(READS) in ("0%", "100%") and levels.get(JOBS, "1") == "1"
    return alone and (block, levels.get(ACCESS), depth) in _MARKED


def _panel(
    title: str,
    dots: Sequence[Dot],
    sweep: Sweep,
    across: Sequence[str],
    shared: tuple[tuple[float, float], Mapping[str, str]],
) -> Panel:
    (low, high), fixed = shared
    factor, unit = scale(sweep.unit, sweep.metric)
    unit = unit or metric_of(sweep.metric).words
    order = [_row_label(levels) for levels in itertools.product(*(sweep.dimensions[name] for name in across))]
    rows: list[dict[str, Any]] = []
    for dot in dots:
        levels = tuple(dot.levels.get(name, fixed.get(name, "–")) for name in across)
        fill = shade(max(dot.value, low), low, high)
        mark = "†" if dot.limited else ""
        row: dict[str, Any] = {
            "row": _row_label(levels), "depth": dot.levels[DEPTH], "v": float(f"{dot.value * factor:.4g}"),
            "text": number(dot.value * factor) + mark, "short": brief(dot.value * factor) + mark, "fill": fill,
            **dot.row(dot.limited),
            "ink": max(_INKS, key=lambda ink: contrast(ink, fill)),
            "value": quantity(dot.value, sweep.unit, sweep.metric),
        }  # fmt: skip
        if crystal({**fixed, **dot.levels}):
            row["marked"] = "CrystalDiskMark"
        rows.append(row)
    seen = [label for label in order if any(row["row"] == label for row in rows)]
    x = alt.X("depth:O", sort=list(sweep.dimensions[DEPTH]), title="queue depth", axis=alt.Axis(labelAngle=0))
    y = alt.Y("row:O", sort=seen, title=" · ".join(_WORDS[name] for name in across), axis=alt.Axis(labelLimit=130))
    base = rows_of("cells")
    told = tooltip(["row", "depth", "value"], ["marked", "note"])
    cell = 4 + max(sum(_DIGIT if each.isdigit() else _OTHER for each in row["text"]) for row in rows)
    narrow = f"width / {len({row['depth'] for row in rows})} < {cell}"
    wording, letters = alt.expr(f"{narrow} ? datum.short : datum.text"), alt.expr(f"{narrow} ? 10 : 11")
    layers: list[Any] = [
        base.mark_rect(tooltip=told).encode(x=x, y=y, color=alt.Color("fill:N", scale=None)),
        base.transform_filter("datum.marked")
        .mark_rect(filled=False, strokeWidth=2.5, stroke=PALETTE[1], tooltip=told)
        .encode(x=x, y=y),
        base.mark_text(fontSize=letters, tooltip=told, text=wording).encode(
            x=x, y=y, color=alt.Color("ink:N", scale=None)
        ),
    ]
    table = columns(sweep.dimensions, v=unit, marked="marked")
    data = {"cells": rows}
    return titled(title, f"{unit} by queue depth", layers, data, ROW * len(seen), ("cells", table))


_WORDS = {BLOCK: "block size", READS: "reads", JOBS: "numjobs"}


def _row_label(levels: Sequence[str]) -> str:
    return " · ".join(levels)
