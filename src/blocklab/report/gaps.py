"""What could not be measured, as plain values for the page's template."""

from __future__ import annotations

import msgspec

from blocklab.stats.analysis import Analysis


class GapRow(msgspec.Struct, frozen=True):
    """A cell of one block that has no figures, with the block where there are several (from 1)."""

    cell: str
    block: str
    status: str
    error: str
    hint: str


def gap_rows(analysis: Analysis) -> tuple[tuple[GapRow, ...], tuple[GapRow, ...]]:
    """The cells that have no figures, and the blocks without figures of cells that have some of other blocks."""
    good = {run.cell.key for run in analysis.every if run.outcome.status == "ok"}
    # There is one gap for each of these, block by block.
    bad = [cell for cell in sorted(analysis.cells, key=lambda cell: cell.block) if cell.key not in good]
    several = analysis.study.repeats > 1
    rows: dict[bool, list[GapRow]] = {False: [], True: []}
    for cell, gap in zip(bad, analysis.gaps, strict=True):
        rows[(gap.stack, gap.workload) in analysis.measured].append(
            GapRow(
                f"{gap.stack}/{gap.workload}", f"{cell.block + 1}" if several else "", gap.status, gap.error,
                gap.hint,
            )
        )  # fmt: skip
    return tuple(rows[False]), tuple(rows[True])
