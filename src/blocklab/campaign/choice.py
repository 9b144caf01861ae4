"""Which cells are meant: all that a study has, and of them those of some stacks and levels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.model.knobs import nearest
from blocklab.study.check import combined_problems
from blocklab.study.factors import assignments
from blocklab.study.grid import cells
from blocklab.study.read import placed
from blocklab.study.sweep import idle_problems
from blocklab.study.types import Cell, Study


def often(study: Study, repeats: int | None) -> Study:
    """The study with that many repeats, or as it is."""
    return study if repeats is None else msgspec.structs.replace(study, repeats=repeats)


def expanded(study: Study, file: Path, *, quick: bool = False) -> tuple[Cell, ...]:
    """The study's cells; ``quick``: it is the quick variant of its file. Raises ``StudyError`` with file and line
    where a combination cannot be built, and for a factor that makes no difference to any."""
    try:
        for path, problem in combined_problems(study):
            raise StudyError(path, problem)
        grid = cells(study)
        if not grid:
            raise StudyError("exclude", "leaves no cell to measure", hint="exclude less")
        for path, problem in idle_problems(study, grid):
            raise StudyError(path, problem)
    except StudyError as error:
        raise placed(file, error, quick=quick) from error
    return grid


def selected(study: Study, names: list[str] | None) -> list[str]:
    """The stacks asked for, all of them without an option. Raises ``StudyError`` for an unknown one."""
    for name in names or ():
        if name not in study.stacks:
            raise StudyError(
                "stacks",
                f"there is no stack {name!r}{nearest(name, study.stacks)}",
                hint=f"there are {', '.join(study.stacks)}",
            )
    return [name for name in study.stacks if not names or name in names]


def levels_of(study: Study, given: Sequence[str] | None) -> dict[str, str]:
    """``--at`` as factor -> level. Raises ``StudyError`` for what the study does not have."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, level = text.partition("=")
        if not equals or name not in study.factors:
            if not study.factors:
                raise StudyError("factors", f"--at {text}: the study has none", hint="--stack chooses a stack")
            if equals:
                problem = f"--at {text}: there is no factor {name!r}{nearest(name, study.factors)}"
            else:
                problem = f"--at {text}: not FACTOR=LEVEL"
            raise StudyError("factors", problem, hint=f"the factors are {', '.join(study.factors)}")
        known = assignments(study.factors[name])
        if level not in known:
            problem = f"--at {text}: there is no level {level!r}{nearest(level, known)}"
            raise StudyError(f"factors.{name}", problem, hint=f"the levels are {', '.join(known)}")
        if found.get(name, level) != level:
            hint = "give one of them, or none for all levels"
            raise StudyError(
                f"factors.{name}", f"--at {name}={found[name]} and --at {text}: which one?", hint=hint
            )
        found[name] = level
    return found


def chosen(grid: Sequence[Cell], stacks: Sequence[str], levels: dict[str, str]) -> list[Cell]:
    """The cells of these stacks at these levels; a factor that makes no difference to a cell is at all of them.
    Raises ``StudyError`` where the exclusions leave none of them: nothing to do must not look like all done."""
    found = [
        cell
        for cell in grid
        if cell.stack in stacks and all(cell.levels.get(name, level) == level for name, level in levels.items())
    ]
    if not found:
        hint = "blocklab plan --cells STUDY lists those that there are"
        raise StudyError("exclude", "leaves none of the cells that are asked for (--stack, --at)", hint=hint)
    return found
