"""A study in parts that one machine measures whole, so that every ratio comes from one machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from blocklab.errors import StudyError
from blocklab.study.grid import is_drill, key_of, layouts, repeated
from blocklab.study.types import Cell, Study


class Split(StrEnum):
    """What one machine measures at a time."""

    REPEATS = "repeats"
    LAYOUTS = "layouts"


class Unit(msgspec.Struct, frozen=True):
    """The cells of one repeat. ``key``: 12 hex digits that are the same for the same cells."""

    repeat: int
    cells: tuple[Cell, ...]
    key: str

    @property
    def label(self) -> str:
        """For people."""
        return f"repeat {self.repeat + 1}"


def units(cells: Sequence[Cell]) -> tuple[Unit, ...]:
    """The cells by repeat, in the order of the repeats."""
    found: dict[int, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.repeat, []).append(cell)
    return tuple(
        Unit(repeat, tuple(mine), key_of({"cells": [cell.key for cell in mine]}))
        for repeat, mine in sorted(found.items())
    )


def by_layout(
    study: Study, grid: Sequence[Cell], wanted: Sequence[Cell]
) -> tuple[Study, tuple[Cell, ...], tuple[Cell, ...]]:
    """The study with a repeat for each layout and its baseline in place of one for all layouts: layout l of n in
    repeat r is in repeat r n + l, and so are cells of the baseline of its own. With its cells, and those of them
    that are to be measured for ``wanted``.

    Raises ``StudyError`` where there is nothing to split: of fewer than two layouts beside the baseline, and of
    drills, which are not compared.
    """
    base = study.baseline or next(iter(study.stacks))
    if any(is_drill(study, cell.workload) for cell in wanted):
        raise StudyError("faults", "--split layouts: drills are counted, not compared", hint="leave out --split")
    once = [cell for cell in grid if cell.repeat == 0]
    asked = {(cell.stack, cell.workload, *cell.levels.items()) for cell in wanted if cell.stack != base}
    others = layouts(study, [cell for cell in once if (cell.stack, cell.workload, *cell.levels.items()) in asked])
    if len(others) < 2:
        hint = "leave out --split: each repeat goes to one machine"
        raise StudyError("stacks", "--split layouts: there are not two layouts beside the baseline", hint=hint)
    beside = [cell for cell in once if cell.stack == base]
    parts = [
        [*(cell for cell in beside if any(_compared(cell, mine) for mine in layout.cells)), *layout.cells]
        for layout in others
    ]
    todo = tuple(
        repeated(cell, repeat * len(parts) + number)
        for repeat in range(study.repeats)
        for number, part in enumerate(parts)
        for cell in part
    )
    # The report's places are those of the first repeat.
    whole = {cell.key: cell for cell in (*once, *todo)}
    return msgspec.structs.replace(study, repeats=study.repeats * len(parts)), tuple(whole.values()), todo


def _compared(base: Cell, cell: Cell) -> bool:
    """Whether a cell is compared with that one of the baseline: the same workload, and the same levels of all that
    both have."""
    both = base.levels.keys() & cell.levels.keys()
    return base.workload == cell.workload and all(base.levels[name] == cell.levels[name] for name in both)
