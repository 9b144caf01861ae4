"""Whether a site can give what cells ask of it, and its programs have the options that are set, before anything
starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import BlocklabError, StoreError, StudyError
from blocklab.model.site import KnownOptions, OwnTime, Room, Site, offered
from blocklab.model.stack_map import tolerance
from blocklab.runner.events import Listener, Preparing
from blocklab.runner.knobs import ask
from blocklab.store.floor import RTT, Floor, known_floor
from blocklab.store.folder import StudyFolder
from blocklab.store.identity import identity
from blocklab.study import knobs
from blocklab.study.grid import layouts, topology
from blocklab.study.needs import site_problems
from blocklab.study.read import placed
from blocklab.study.room import hardwares
from blocklab.study.types import Cell, Study


def fitting(study: Study, wanted: Sequence[Cell], file: Path, site: Site, *, quick: bool) -> list[str]:
    """Notes on what these cells ask of a site. Raises ``StudyError`` with file and line for what it cannot give,
    and for a layout that it has no room for."""
    try:
        for path, problem in site_problems(study, wanted, site.offers):
            raise StudyError(path, problem, hint="another site may offer it: --site")
        notes = [check_options(study, site), *too_short(study, wanted, known_floor(site))]
        if Room in site.offers:
            room = offered(site, Room).room
            notes = [*(room(shape, copies) for shape, copies in hardwares(study, wanted)), *notes]
    except StudyError as error:
        raise placed(file, error, quick=quick) from error
    return [note for note in dict.fromkeys(notes) if note]


def check_options(study: Study, site: Site) -> str:
    """Refuse options that programs are known not to have; a note on what is not known, empty where all is. Starts
    nothing. Raises ``StudyError``."""
    if KnownOptions not in site.offers:
        return ""
    tables = offered(site, KnownOptions).options(topology(study, list(study.stacks)).addons)
    for path, problem in knobs.problems(study, tables):
        raise StudyError(path, problem)
    unasked = knobs.unasked(study, tables)
    return (
        f"options of {', '.join(unasked)} are not checked yet: the next run asks the programs" if unasked else ""
    )


def learn_options(study: Study, site: Site, tell: Listener) -> bool:
    """Ask the programs whose options the study sets, of those that nobody asked before; whether there were any.
    That none can be asked is said, and stops nothing."""
    if KnownOptions not in site.offers:
        return False
    memory, addons = offered(site, KnownOptions), topology(study, list(study.stacks)).addons
    unasked = knobs.unasked(study, memory.options(addons))
    if unasked:
        tell(Preparing(f"asking {', '.join(unasked)} for their options, once"))
        try:
            memory.keep_options(ask(site, unasked, lambda text: tell(Preparing(text))), addons)
        except BlocklabError as error:
            tell(Preparing(f"options are not checked: {error}"))
    return bool(unasked)


def addons_of(study: Study, wanted: Sequence[Cell]) -> set[tuple[str, ...]]:
    """What these cells' layouts need of an image beside what it has: a set for each kind of layout."""
    return {topology(layout.study, [layout.stack]).addons for layout in layouts(study, wanted)}


def at_once(site: Site, study: Study, todo: Sequence[Cell], parallel: int | None) -> list[int]:
    """The CPUs for labs in parallel, which are more than one: none where labs would disturb each other, else
    ``parallel`` of those of this process, or all, as far as there are cells and memory for them."""
    if OwnTime not in site.offers:
        return []
    cpus = sorted(os.sched_getaffinity(0))
    for count in range(min(parallel or len(cpus), len(cpus), len(todo)), 1, -1):
        with contextlib.suppress(StudyError):
            # What might do for one lab, with a note, is not tried with several.
            if Room not in site.offers or not any(
                offered(site, Room).room(shape, copies, count) for shape, copies in hardwares(study, todo)
            ):
                return cpus[:count]
    return []


def same_machine(
    folder: StudyFolder, wanted: Sequence[Cell], todo: Sequence[Cell], environment: Mapping[str, Any]
) -> None:
    """Refuse to add to runs of another site or machine. Raises ``StoreError``."""
    left = {cell.key for cell in todo}
    here = identity(environment)
    for cell in wanted:
        there = None if cell.key in left else folder.identity(cell)
        if there is not None and not there.may_be(here):
            raise StoreError(
                f"{folder.path} has runs of another machine: {there}; this is {here}",
                hint="keep them apart with --runs DIR, or measure all cells here: run --again",
            )


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
