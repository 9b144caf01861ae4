"""Whether a study can be built at the levels of its factors, alone and in combination. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from blocklab.errors import StudyError
from blocklab.study.factors import (
    assignments,
    combinations,
    excluded,
    left_out,
    level_texts,
    parts_of,
    places,
    plain_of,
    variant,
)
from blocklab.study.grid import ground_of
from blocklab.study.room import room_problems
from blocklab.study.seen import Seen
from blocklab.study.types import Cell, Factor, Study, View

Problem = tuple[str, str]
Problems: TypeAlias = Callable[[Study], Iterable[Problem]]
# What a cell depends on: a factor of anything else would change nothing.
SWEPT = ("nodes", "links", "stacks", "workloads", "profiles", "faults", "takeover")
# A study at levels of its factors is checked without what is about all of them.
_BARE: dict[str, Any] = {"factors": {}, "expect": (), "report": View()}


def factor_problems(study: Study, problems: Problems) -> Iterator[Problem]:
    """Factors that are none, two of one field, and levels of which each alone has to make a study that can be
    built: ``problems`` says whether it can."""
    wrong = {name: next(_factor(name, factor), None) for name, factor in study.factors.items()}
    yield from (found for found in wrong.values() if found is not None)
    if len(wrong) > 1 and not any(wrong.values()):
        yield from _twice(study)
    for name, found in wrong.items():
        for level in () if found else assignments(study.factors[name]):
            yield from _level(study, name, level, problems)
    for index, entry in enumerate(study.exclude):
        yield from _exclusion(study, f"exclude[{index}]", entry)


def combined_problems(study: Study, problems: Problems) -> Iterator[Problem]:
    """What keeps a cell from being built and measured at its levels, of those that are not excluded: what only a
    combination breaks, and what its stack has no room for."""
    seen = Seen()
    for levels in combinations(study):
        kept = {
            name: [each for each in study.workloads if not excluded(study, levels, name, each)]
            for name in study.stacks
        }
        kept = {name: workloads for name, workloads in kept.items() if workloads}
        if not kept:
            continue
        at = variant(study, levels)
        said = ", ".join(f"{name}={level}" for name, level in levels.items())
        for name, workloads in kept.items():
            loads = [at.workloads[each] for each in workloads]
            if not seen.first(name, at.stacks[name], *at.nodes.values(), *at.faults.values(), *loads):
                continue
            for path, problem in room_problems(at, name, workloads):
                yield path, f"with {said}: {problem}" if said else problem
                return
        # Each level alone has been looked at.
        if len(study.factors) < 2:
            continue
        gone = tuple(entry for entry in left_out(study, levels) if entry["stack"] in kept)
        bare = msgspec.structs.replace(
            at, stacks={name: at.stacks[name] for name in kept}, baseline="", links=ground_of(at, list(kept))[1],
            exclude=gone, **_BARE,
        )  # fmt: skip
        for path, problem in problems(bare):
            yield f"factors.{next(reversed(levels))}", f"with {said}: {path}: {problem}"
            return


def idle_problems(study: Study, grid: Sequence[Cell]) -> Iterator[Problem]:
    """Factors whose levels all make the same cells: what they sweep, nothing of the study uses."""
    telling = {name for cell in grid for name in cell.levels}
    for name, factor in study.factors.items():
        if len(assignments(factor)) > 1 and name not in telling:
            yield (
                f"factors.{name}",
                "changes nothing: all of its levels make the same cells. Leave it out, or sweep a field that a "
                "stack or a workload uses",
            )


def _factor(name: str, factor: Factor) -> Iterator[Problem]:
    """What is wrong with a factor whatever the study is."""
    if name in ("stack", "workload"):
        yield f"factors.{name}", "is what the study already calls its stacks or workloads; use another name"
        return
    try:
        paths = _paths(factor)
    except StudyError as error:
        yield f"factors.{name}.{error.path}", error.problem
        return
    for path in paths:
        way = parts_of(path)
        if {"jobfile", "jobtext"} & set(way[-1:]):
            yield f"factors.{name}", "a job file is read once, before the factors; make a workload of each file"
        elif way and way[0] not in SWEPT:
            known = ", ".join(SWEPT)
            yield (
                f"factors.{name}",
                f"{path!r} changes nothing that is measured; a path begins with one of {known}",
            )


def _paths(factor: Factor) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for fields in assignments(factor).values() for path in fields))


def _level(study: Study, name: str, level: str, problems: Problems) -> Iterator[Problem]:
    try:
        changed = variant(study, {name: level})
    except StudyError as error:
        yield error.path, f"{error.problem}; {error.hint}" if error.hint else error.problem
        return
    # Without its factors, or each level would check all the others again.
    bare = msgspec.structs.replace(changed, exclude=left_out(study, {name: level}), **_BARE)
    for path, problem in problems(bare):
        yield f"factors.{name}", f"with the level {level}: {path}: {problem}"
        return


def _twice(study: Study) -> Iterator[Problem]:
    """Two factors of one field: the later one would win, whatever the level of the other."""
    plain, taken = plain_of(study), dict[tuple[str | int, ...], str]()
    for name, factor in study.factors.items():
        mine: dict[tuple[str | int, ...], str] = {}
        for path in _paths(factor):
            way = parts_of(path)
            # What only another factor's level makes goes by its path.
            for place in [*places(plain, way)] or [tuple(way)] if way else ():
                mine[place] = path
        for place, path in mine.items():
            if place in taken:
                said = f"{path} is set by the factor {taken[place]} too, and only one of them can have it"
                yield f"factors.{name}", f"{said}; leave one out, or make one factor of both"
                break
        taken.update(dict.fromkeys(mine, name))


def _exclusion(study: Study, path: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    known = {name: dict.fromkeys(assignments(factor)) for name, factor in study.factors.items()}
    known |= {"stack": dict.fromkeys(study.stacks), "workload": dict.fromkeys(study.workloads)}
    if not entry:
        yield path, "is empty, so it would exclude everything; name a factor and a level"
    for name, wanted in entry.items():
        if name not in known:
            yield f"{path}.{name}", f"there is no factor {name!r}; there are {', '.join(known)}"
            continue
        if not level_texts(wanted):
            yield f"{path}.{name}", "is an empty list, so it would exclude nothing; name a level, or leave it out"
        for level in level_texts(wanted):
            if level not in known[name]:
                yield f"{path}.{name}", f"there is no level {level!r}; there are {', '.join(known[name])}"
