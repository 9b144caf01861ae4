"""What is no mistake, and said all the same: what a study asks and no run of it can answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.model.echo import echo
from blocklab.study.doubts import doubts, first_look
from blocklab.study.old import modern, words
from blocklab.study.read import load_yaml, placed, plain_data
from blocklab.study.types import Cell, Study


def warnings(study: Study, grid: Sequence[Cell], file: Path, *, quick: bool) -> list[StudyError]:
    """What no run of the study can answer, each with its place in the file."""
    found = [StudyError(each.path, each.problem, hint=each.hint) for each in doubts(study, grid, quick=quick)]
    if not found:
        return []
    first = placed(file, StudyError.of(found), quick=quick)
    return [first, *first.more]


def warn(study: Study, grid: Sequence[Cell], file: Path, *, quick: bool) -> list[StudyError]:
    """Print them on standard error, and of a quick variant that it is a first look."""
    found = warnings(study, grid, file, quick=quick)
    for note in words(modern(plain_data(load_yaml(file))))[1]:
        echo(f"note: {note}", err=True)
    if quick and (note := first_look(study)):
        echo(f"note: {note}", err=True)
    for each in found:
        echo(f"warning: {each.message}\n  hint: {each.hint}", err=True)
    return found
