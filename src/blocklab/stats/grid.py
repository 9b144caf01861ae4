"""The study's grid as the analysis sees it: each stack and each workload at its levels under a label of its
own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec

from blocklab.model.units import QUANTITIES
from blocklab.study.factors import Levels, assignments, of_workload, variant
from blocklab.study.types import Cell, Expectation, Stack, Study
from blocklab.workloads import AnyWorkload

# Stack, workload and levels of a cell.
_Place: TypeAlias = tuple[str, str, frozenset[tuple[str, str]]]


class Point(msgspec.Struct, frozen=True):
    """Where a cell stands. ``stack`` and ``workload`` are labels, the other names are those of the study's file.

    ``levels`` has the factors that tell it from others of its stack or workload. ``at`` has all that make a
    difference to it: also one that exclusions leave at a single level there, or that the study has a single level
    of.
    """

    stack: str
    workload: str
    stack_name: str
    workload_name: str
    levels: Mapping[str, str] = {}
    at: Mapping[str, str] = {}

    @property
    def label(self) -> str:
        """``mirror rtt=10ms/tpcc threads=16``."""
        return f"{self.stack}/{self.workload}"


class Side(msgspec.Struct, frozen=True):
    """A stack or a workload at its levels. ``study`` is the variant that has them."""

    name: str
    levels: Mapping[str, str]
    study: Study

    @property
    def stack(self) -> Stack:
        """The stack as it was built."""
        return self.study.stacks[self.name]

    @property
    def workload(self) -> AnyWorkload:
        """The workload as it was run."""
        return self.study.workloads[self.name]


@dataclass(frozen=True)
class Grid:
    """The labels of a study, in its order, and which stack each is compared with. ``points`` are those of its
    first repeat, of which the others may have a part."""

    study: Study
    points: tuple[Point, ...]
    stacks: Mapping[str, Side]
    workloads: Mapping[str, Side]
    places: Mapping[_Place, Point]

    def point(self, cell: Cell) -> Point:
        """Where a cell of any repeat stands. Raises ``KeyError`` for one that the first repeat lacks."""
        return self.places[place_of(cell)]

    @property
    def baseline(self) -> str:
        """The name of the stack that the others are compared with; for a single stack that of its first levels."""
        return self._base if self._several else next(iter(self.stacks))

    @cached_property
    def baselines(self) -> tuple[str, ...]:
        """The labels that others are compared with."""
        return self._labels(self._base) if self._several else (self.baseline,)

    @property
    def _base(self) -> str:
        """The baseline's name; where a part of the study has none of it, the first stack's."""
        wanted = self.study.baseline
        return wanted if self._labels(wanted) else next(iter(self.stacks.values())).name

    @property
    def _several(self) -> bool:
        return len({side.name for side in self.stacks.values()}) > 1

    def about(self, claim: Expectation) -> bool:
        """Whether all stacks and workloads of a claim are in it."""
        names = {side.name for side in (*self.stacks.values(), *self.workloads.values())}
        return {claim.stack, claim.workload, claim.relative_to, claim.against} - {""} <= names

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors with several levels, in the order of the study."""
        return tuple(name for name, levels in levels_of(self.study).items() if len(levels) > 1)

    def base(self, point: Point) -> str:
        """The label of the stack that a cell is compared with: the baseline at the same levels of all that both
        have (the first such, where only the baseline varies more), or a single stack's first ones; empty without
        one."""
        alone = not self._several
        for label in self.baselines:
            other = self._cells.get((label, point.workload))
            if other and (alone or all(point.at.get(name, level) == level for name, level in other.at.items())):
                return label
        return ""

    @cached_property
    def _cells(self) -> Mapping[tuple[str, str], Point]:
        return {(point.stack, point.workload): point for point in self.points}

    def _labels(self, name: str) -> tuple[str, ...]:
        return tuple(label for label, side in self.stacks.items() if side.name == name)


def grid(study: Study, cells: Sequence[Cell]) -> Grid:
    """The grid of a study's cells, or of a part of them: stacks and workloads without cells are not in it. Raises
    ``StudyError`` when a cell has a level that the study has not."""
    known = levels_of(study)
    several = [name for name, levels in known.items() if len(levels) > 1]
    above = {name for name in several if of_workload(study.factors[name])}
    telling = _telling(cells, several, above)
    points = tuple(_point(cell, telling, above) for cell in cells)

    def sides(names: Sequence[str], *, of_workloads: bool) -> dict[str, Side]:
        found: dict[str, dict[str, Levels]] = {name: {} for name in names}
        whole: dict[str, Levels] = {}
        for point, cell in zip(points, cells, strict=True):
            levels = {name: at for name, at in point.levels.items() if (name in above) == of_workloads}
            name, label = (
                (point.workload_name, point.workload) if of_workloads else (point.stack_name, point.stack)
            )
            found[name][label] = levels
            whole.setdefault(label, cell.levels)
        ordered: dict[str, Side] = {}
        for name, labels in found.items():
            rank = {
                label: [known[factor].index(at) for factor, at in levels.items()]
                for label, levels in labels.items()
            }
            for label in sorted(labels, key=lambda label: rank[label]) or [name]:
                levels = labels.get(label, {})
                ordered[label] = Side(name, levels, variant(study, whole.get(label, {})))
        return ordered

    places = {place_of(cell): point for cell, point in zip(cells, points, strict=True)}
    # Of none at all, the study's own names: a report says then that nothing was measured.
    here, loaded = {cell.stack for cell in cells}, {cell.workload for cell in cells}
    stacks = sides([name for name in study.stacks if name in here or not cells], of_workloads=False)
    workloads = sides([name for name in study.workloads if name in loaded or not cells], of_workloads=True)
    return Grid(study, points, stacks, workloads, places)


def place_of(cell: Cell) -> _Place:
    """What two repeats of a cell have in common."""
    return cell.stack, cell.workload, frozenset(cell.levels.items())


def _telling(cells: Sequence[Cell], several: Sequence[str], workloads: set[str]) -> frozenset[tuple[str, str]]:
    """(stack or workload, factor): the factors that tell the cells of a stack or a workload from each other. One
    that exclusions leave at one level does not."""
    found: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        for name in several:
            if name in cell.levels:
                found.setdefault((_of(cell, name, workloads), name), set()).add(cell.levels[name])
    return frozenset(at for at, levels in found.items() if len(levels) > 1)


def _of(cell: Cell, factor: str, workloads: set[str]) -> str:
    """Whose cells a factor tells apart. A workload is called the same on all stacks, so that they can be
    compared."""
    return f"workload {cell.workload}" if factor in workloads else f"stack {cell.stack}"


def levels_of(study: Study) -> dict[str, tuple[str, ...]]:
    """The levels of each factor, in the order of the study."""
    return {name: tuple(assignments(factor)) for name, factor in study.factors.items()}


def number_of(level: str) -> float | None:
    """``16``, ``0.5ms``, ``64KiB`` as a number in its base unit; None for a name; ``inf`` and ``nan`` are such."""
    for kind in (float, *QUANTITIES):
        try:
            found = float(kind(level))
        except ValueError:
            continue
        return found if math.isfinite(found) else None
    return None


def _point(cell: Cell, telling: frozenset[tuple[str, str]], workloads: set[str]) -> Point:
    levels = {name: at for name, at in cell.levels.items() if (_of(cell, name, workloads), name) in telling}
    below = {name: at for name, at in levels.items() if name not in workloads}
    above = {name: at for name, at in levels.items() if name in workloads}
    stack, workload = label_of(cell.stack, below), label_of(cell.workload, above)
    return Point(stack, workload, cell.stack, cell.workload, levels, cell.levels)


def label_of(name: str, levels: Mapping[str, str]) -> str:
    """``mirror rtt=10ms sync_binlog=1``."""
    return " ".join([name, *(f"{factor}={level}" for factor, level in levels.items())])
