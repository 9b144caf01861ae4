"""What could not be measured, for the page's template."""

from __future__ import annotations

from blocklab.stats.analysis import Analysis, Gap


def gap_rows(analysis: Analysis) -> tuple[tuple[Gap, ...], tuple[Gap, ...]]:
    """Those of cells that have no figures, and those of cells that have figures from other blocks."""
    some = [(gap.stack, gap.workload) in analysis.measured for gap in analysis.gaps]
    none = tuple(gap for gap, other in zip(analysis.gaps, some, strict=True) if not other)
    return none, tuple(gap for gap, other in zip(analysis.gaps, some, strict=True) if other)
