"""All charts of a study."""

from __future__ import annotations

from altair.utils.schemapi import debug_mode

from blocklab.charts.bars import bars
from blocklab.charts.base import Chart, Charts
from blocklab.charts.latency import latencies
from blocklab.charts.timeline import timelines
from blocklab.stats.analysis import Analysis


def draw(analysis: Analysis, *, check: bool = False) -> Charts:
    """Every chart that has data, and a note for each that has none.

    ``check`` makes Altair compare each part with Vega-Lite's schema, which takes longer than all the rest; the
    tests do that once for everybody.
    """
    with debug_mode(check):
        made: list[Chart | str] = [bars(analysis), *latencies(analysis), *timelines(analysis)]
    shown = tuple(each for each in made if isinstance(each, Chart))
    return Charts(shown, tuple(each for each in made if isinstance(each, str)))
