"""What was predicted of cells that were not measured, as tables, charts and exports take it; see ``predict``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from blocklab.stats.values import Row

# What tables and exports call such a value.
PREDICTED = "predicted"


class Predicted(msgspec.Struct, frozen=True):
    """A cell's rate, in the unit of its ``Fit``, with the bounds of its 90 % interval. ``stack`` and ``workload``
    are the names in the study's file."""

    stack: str
    workload: str
    levels: Mapping[str, str]
    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


class Told(msgspec.Struct, frozen=True):
    """A parameter of the model in words: ``at``: the stack or the levels that it is of, empty for all; ``unit``:
    ``s``, ``1/s`` or none."""

    name: str
    at: str
    value: float
    unit: str


class Fit(msgspec.Struct, frozen=True):
    """The model of one headline. ``label`` names it, ``metric`` and ``unit`` are those of the values.

    ``points``: how many measured cells it is fitted to. ``errors``: of each cell that was held out, by what part
    of the measured value a fit without them was off. ``noise``: by what part a cell differs from one build to the
    next (median of the cells' standard deviations); None where none was built twice.
    """

    label: str
    workload: str
    phase: str
    metric: str
    unit: str
    points: int
    errors: tuple[float, ...]
    noise: float | None
    parameters: tuple[Told, ...]
    cells: tuple[Predicted, ...] = ()


def rows_of(fit: Fit) -> list[Row]:
    """The predicted values as rows of a table of their own: among measured ones they would pass for these."""
    return [
        Row(
            each.stack, each.workload, fit.phase, fit.metric, each.value, fit.unit, PREDICTED, "", each.half,
            builds=0, own=True, stack_name=each.stack, workload_name=each.workload, levels=each.levels, machines=0,
        )
        for each in fit.cells
    ]  # fmt: skip
