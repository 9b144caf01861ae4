"""What a cell is called on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from blocklab.stats.grid import label_of
from blocklab.stats.source import Source
from blocklab.study.types import Cell

# (stack, workload, levels): what both sides call a cell.
CellKey: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]


class Naming:
    """Cells match by the names of stack and workload and by the levels of the factors; a factor that only one side
    has, at a single level, is left out. Two single runs match whatever they are called."""

    def __init__(self, a: Source, b: Source) -> None:
        self._name = self._common(a, b) if a.single and b.single else None
        known = [_levels_of(each) for each in (a, b)]
        # One that a side lacks (it makes no difference there, or is no factor) tells only with several levels.
        self._telling = {
            at
            for at in {*known[0], *known[1]}
            if all(at in each for each in known) or any(len(each.get(at, ())) > 1 for each in known)
        }

    @staticmethod
    def _common(a: Source, b: Source) -> tuple[str, str]:
        cells = [each.pieces[0].cell for each in (a, b)]
        names = [(cell.stack, cell.workload) for cell in cells]
        stack, workload = (x if x == y else f"{x} → {y}" for x, y in zip(*names, strict=True))
        return stack, workload

    def cell(self, stack: str, workload: str, levels: Mapping[str, str]) -> CellKey:
        """The key of a cell by its names and levels in its own study."""
        return (*self._name, ()) if self._name is not None else self._own(stack, workload, levels)

    def of(self, cell: Cell) -> CellKey:
        """The key of a cell."""
        return self.cell(cell.stack, cell.workload, cell.levels)

    def beside(self, cell: Cell) -> CellKey:
        """The key of a cell that others are compared with: of two single runs, too, by its own names."""
        return self._own(cell.stack, cell.workload, cell.levels)

    def _own(self, stack: str, workload: str, levels: Mapping[str, str]) -> CellKey:
        kept = (
            (name, level) for name, level in sorted(levels.items()) if (stack, workload, name) in self._telling
        )
        return stack, workload, tuple(kept)


def _levels_of(source: Source) -> dict[tuple[str, str, str], set[str]]:
    """(stack, workload, factor) -> its levels there."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for cell in source.cells.values():
        for name, level in cell.levels.items():
            found.setdefault((cell.stack, cell.workload, name), set()).add(level)
    return found


def cell_label(cell: CellKey) -> str:
    """``mirror/tpcc rtt=10ms``."""
    return label_of(f"{cell[0]}/{cell[1]}", dict(cell[2]))
