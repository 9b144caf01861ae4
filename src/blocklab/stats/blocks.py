"""The repeats of a study as one table: means over blocks, ratios taken within each block."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from blocklab.stats.figures import Row
from blocklab.stats.series import t975
from blocklab.stats.summary import Estimate


def combined(blocks: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """One row for each figure that any block has, in the order in which they first come.

    Of several blocks the value is their mean with Student's interval over the blocks, each of which stood on a
    layout of its own; the ratio to the baseline is the geometric mean of the blocks' ratios with the interval of
    their logarithms, so that what a block's machine had in common cancels out. A figure that one block has keeps
    what that block says.
    """
    if len(blocks) == 1:
        return tuple(blocks[0])
    found: dict[tuple[str, ...], list[Row]] = {}
    for block in blocks:
        for row in block:
            key = (row.stack, row.workload, row.phase, row.metric, row.unit, row.layer, row.host, str(row.load))
            found.setdefault(key, []).append(row)
    return tuple(rows[0] if len(rows) == 1 else _one(rows) for rows in found.values())


def _one(rows: Sequence[Row]) -> Row:
    value = interval([row.value for row in rows])
    shares = [row.relative.value for row in rows if row.relative is not None]
    relative = paired(shares) if shares else None
    return msgspec.structs.replace(rows[0], value=value.value, half=value.half, relative=relative)


def interval(values: Sequence[float]) -> Estimate:
    """The mean of independent values with the half width of Student's 95 % interval; of one value without any."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean)
    return Estimate(mean, t975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)))


def paired(ratios: Sequence[float]) -> Estimate:
    """The geometric mean of ratios, one from each block, with the wider side of its 95 % interval.

    Student's interval of the logarithms; the plain mean where a ratio is not above 0.
    """
    if all(ratio == 1 for ratio in ratios):
        return Estimate(1.0)
    if min(ratios) <= 0:
        return interval(ratios)
    logs = interval([math.log(ratio) for ratio in ratios])
    value = math.exp(logs.value)
    # Beyond this a float has no number for it.
    return Estimate(value, None if logs.half is None else value * math.expm1(min(logs.half, 300.0)))
