"""What is no mistake, and said all the same: what a study asks and no run of it can answer; what it requests and
its site cannot be as fast as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.model.echo import echo
from blocklab.model.stack_map import tolerance
from blocklab.store.floor import RTT, Floor
from blocklab.study.doubts import doubts, first_look
from blocklab.study.grid import layouts, topology
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


def too_short(study: Study, cells: Sequence[Cell], floor: Floor | None) -> tuple[str, ...]:
    """RTTs of these cells below what the site's links take by themselves, each once, with what is in force
    instead. It is known once the machine's ``floor`` was measured."""
    return tuple(
        dict.fromkeys(note for layout in layouts(study, cells) for note in _of(layout.study, layout.stack, floor))
    )


def _of(study: Study, stack: str, floor: Floor | None) -> Iterator[str]:
    shape = topology(study, [stack])
    least = floor.values[RTT].value if floor is not None else 0.0
    for name, link in shape.links.items():
        if 0 < link.rtt < least - tolerance(link.rtt):
            yield f"links.{name}.rtt: requested {_us(link.rtt)}; the minimum here is about {_us(least)}"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}us"
