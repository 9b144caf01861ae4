"""All charts of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from altair.utils.schemapi import debug_mode

from blocklab.charts.bars import bars
from blocklab.charts.base import Chart, Charts, apart
from blocklab.charts.cost import cost
from blocklab.charts.heat import heat_of_factors
from blocklab.charts.knee import knee
from blocklab.charts.latency import latencies
from blocklab.charts.machines import forests
from blocklab.charts.matrix import matrices
from blocklab.charts.outage import outage
from blocklab.charts.sweep import MOST_FAMILIES, draw_sweep, sweeps
from blocklab.charts.timeline import timelines
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import asked_in_vain
from blocklab.stats.drill_view import chosen
from blocklab.stats.format import listed


def _swept(analysis: Analysis, skip: Sequence[str]) -> Iterator[Chart | str]:
    """Of each headline that a factor changes the values, the shares, and throughput over latency."""
    swept = sweeps(analysis, skip)
    for sweep in swept[:MOST_FAMILIES]:
        yield from draw_sweep(analysis, sweep)
        yield from (each for each in (knee(analysis, sweep), heat_of_factors(analysis, sweep)) if each is not None)
    if left := swept[MOST_FAMILIES:]:
        yield f"sweeps of {listed([each.label for each in left])}: the values are in the tables"
    if any(analysis.study.report.axes) and not swept and not skip:
        yield "the layout that was asked for: there is no value that could stand over an axis"


def draw(analysis: Analysis, *, check: bool = False) -> Charts:
    """Every chart that has data, and a note for each that has none.

    ``check`` makes Altair compare each part with Vega-Lite's schema, which takes longer than all the rest; the
    tests do that once for everybody.
    """
    with debug_mode(check):
        curves, drawn = matrices(analysis)
        made: list[Chart | str] = [*_swept(analysis, drawn), *curves]
        # Where all is said by curves there is nothing left to note about bars.
        shares = bars(analysis, drawn)
        made += [shares] if isinstance(shares, Chart) or not made else []
        made += [each for each in [forests(analysis)] if each is not None]
        made += [*latencies(analysis), *timelines(analysis)]
        if analysis.drills:
            picked = chosen(analysis)
            made += [cost(analysis), *(outage(each.drill, name, label) for name, label, each in picked)]
            if left := len(analysis.drills) - len(picked):
                made.append(f"time lines of {left} more drills; the table has what they say")
    if said := asked_in_vain(analysis):
        made.append(said)
    if left := len(analysis.measured) - len(analysis.detailed) if analysis.grid.factors else 0:
        made.append(
            f"time lines and single transactions of {left} cells; shown are those at the first and last levels of "
            "each stack and workload"
        )
    charts = [each for each in made if isinstance(each, Chart)]
    names = apart(each.name for each in charts)
    shown = tuple(msgspec.structs.replace(each, name=name) for each, name in zip(charts, names, strict=True))
    return Charts(shown, tuple(each for each in made if isinstance(each, str)))
