"""Foreign logs become the runs of a study, which report, comparison and export take as their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TypeVar

import msgspec

from blocklab import __version__
from blocklab.errors import StudyError
from blocklab.imports import belong, collect, matrix, repeats, together
from blocklab.imports.assemble import Assembled, Piece, Side, assemble, phased
from blocklab.imports.collect import Given
from blocklab.imports.study import ImportedStack, ImportFile, name_of, study
from blocklab.imports.timeline import device_of, devices, moved_by
from blocklab.model.plan import Knob
from blocklab.model.sample import Parsed, Sample
from blocklab.model.stack_map import StackMap
from blocklab.model.watched import Watched
from blocklab.store.devices import levels
from blocklab.store.folder import Manifest, StudyFolder, claimed, place_of
from blocklab.store.imported import SITE, ImportedFile
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.types import Cell, Study, View
from blocklab.study.views import fio_axes
from blocklab.workloads.fio_jobs import Section
from blocklab.workloads.fio_shapes import DEPTH

T = TypeVar("T", Sample, Watched)
# Of a node that no file names.
HOST = "host"
# What began before this has no date of its own (formats.clock puts it on 1970-01-01).
_DATED = 1e8


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to read the files: ``asked`` are kinds by file, ``jobs`` those of a fio job file, ``zone`` that of times
    without one, ``order`` that of dates (``ymd``, ``mdy``, ``dmy``; empty: whatever is the only possible one).
    ``first_report`` is what the first one of iostat and vmstat covers (``interval``, ``boot``; empty: what the
    file shows). ``agree`` answers whether a file belongs to a workload that is as long."""

    asked: Mapping[Path, str] = {}
    jobs: tuple[Section, ...] = ()
    zone: tzinfo = UTC
    order: str = ""
    first_report: str = ""
    agree: belong.Agree = lambda question: False


class Imported(msgspec.Struct, frozen=True):
    """What became of it: the study's folder, each stack's files and workloads, and what else there is to say."""

    folder: Path
    study: Study
    files: Mapping[str, tuple[ImportedFile, ...]]
    workloads: Mapping[str, tuple[str, ...]]
    said: tuple[str, ...]


def take(
    file: ImportFile, source: Path | None, stacks: Mapping[str, Sequence[str]], runs: Path, options: Options
) -> Imported:
    """Read the files of each stack, and write the study's folder below ``runs``.

    Raises ``StudyError`` where something is unclear, where nothing was recognised, and where the folder has what
    blocklab itself measured; ``StoreError``.
    """
    given = {name: collect.files(name, places) for name, places in stacks.items()}
    said: list[str] = []
    _known(options.asked, [each.path for every in given.values() for each in every])
    for every in given.values():
        collect.take(every, options.asked, options.first_report)
        repeats.declared(every)
    points, told = matrix.points(given)
    said += told
    for every in given.values():
        together.join(every, options.jobs)
    said += [*_twice(given), *_renamed(given)]
    collect.date(given, zone=options.zone, order=options.order)
    sides: dict[Side, list[Assembled]] = {}
    hosts: dict[str, list[str]] = {}
    for name, every in given.items():
        hosts[name] = _hosts(name, file.stacks[name].host, every, source)
        more, told = _workloads(name, every, file.stacks[name], hosts[name][0], source, options)
        sides |= more
        said += told
    sides = phased(sides, options.jobs)
    jobs, told = _jobs(workload for each in sides.values() for workload in each)
    said += told
    count = 1 + max(repeat for _, repeat in sides)
    made, told = _whole(study(file, source, hosts, jobs, count), sides)
    said += told
    if points and DEPTH in fio_axes(made):
        made = msgspec.structs.replace(made, report=View(x=DEPTH))
    found = {(*side, workload.name): workload for side, each in sides.items() for workload in each}
    grid = [cell for cell in cells(made) if (cell.stack, cell.repeat, cell.workload) in found]
    place = place_of(runs, made, quick=False)
    with claimed(place):
        folder = StudyFolder.create(runs, Manifest(made, tuple(grid), source=str(source or "")), source)
        for cell in grid:
            workload = found[cell.stack, cell.repeat, cell.workload]
            said += workload.said
            _write(folder, cell, workload, hosts[cell.stack][0], file.stacks[cell.stack].device, given[cell.stack])
    return Imported(
        folder.path, made, {name: tuple(each.told() for each in every) for name, every in given.items()},
        {stack: tuple(dict.fromkeys(name for of, _, name in found if of == stack)) for stack in given},
        tuple(dict.fromkeys(said)),
    )  # fmt: skip


def _workloads(
    name: str, every: Sequence[Given], about: ImportedStack, host: str, source: Path | None, options: Options
) -> tuple[dict[Side, list[Assembled]], list[str]]:
    """The workloads of each repeat of a stack, and what else is to be said. Raises ``StudyError``."""
    found: dict[Side, list[Assembled]] = {}
    said: list[str] = []
    for number, some in enumerate(repeats.rounds(every)):
        # What the file says of times is of the first repeat.
        mine = msgspec.structs.replace(about, began={}, belongs_to={}) if number else about
        belong.settle(name, some, mine, options.jobs, options.zone, options.agree)
        pieces = collect.pieces(some, host)
        _known_device(name, about.device, host, pieces, source)
        found[name, number], more = assemble(name, pieces, options.jobs, host=host, device=about.device)
        said += more
    workloads = [workload for each in found.values() for workload in each]
    if not workloads:
        _nothing(name, every)
    _unused(every, workloads)
    return found, said


def _whole(made: Study, sides: Mapping[Side, Sequence[Assembled]]) -> tuple[Study, list[str]]:
    """The study without what a stack has no logs of, and what that is."""
    absent = tuple(
        {"stack": name, "workload": workload}
        for name in made.stacks
        for workload in made.workloads
        if not any(each.name == workload for (of, _), every in sides.items() if of == name for each in every)
    )
    said = [f"{entry['stack']} has no logs of {entry['workload']}" for entry in absent]
    return msgspec.structs.replace(made, exclude=absent), said


def _jobs(workloads: Iterable[Assembled]) -> tuple[dict[str, dict[str, dict[str, str]]], list[str]]:
    """By the name of each workload fio's jobs, without those that are not the same in two stacks, and which these
    are."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    apart: set[tuple[str, str]] = set()
    for workload in workloads:
        known = found.setdefault(workload.name, {})
        mine = {phase.name for phase in workload.phases}
        for name, shape in workload.shapes.items():
            if name in mine and known.setdefault(name, dict(shape)) != shape:
                apart.add((workload.name, name))
    same = {
        workload: {name: shape for name, shape in jobs.items() if (workload, name) not in apart}
        for workload, jobs in found.items()
    }
    return same, [
        f"job {name} of {workload} has other options in another stack" for workload, name in sorted(apart)
    ]


def _unused(every: Sequence[Given], workloads: Sequence[Assembled]) -> None:
    """What no workload has anything of is left out, so that all that was taken is in the report."""
    used = {path for workload in workloads for path in workload.files}
    for each in every:
        if _used(each) and not each.left_out and each.path not in used:
            each.left_out = "it is of another time than every workload, or its devices were idle"


def _renamed(given: Mapping[str, Sequence[Given]]) -> list[str]:
    """Folders whose names a workload cannot have."""
    folders = dict.fromkeys((each.below, each.folder, each.repeat) for every in given.values() for each in every)
    return [
        _renaming(below, name, repeat)
        for below, name, repeat in folders
        if below and below.replace("/", "-") != name
    ]


def _renaming(below: str, name: str, repeat: int | None) -> str:
    if repeat is None:
        workload = f"the folder {below} is the workload {name}"
        return workload if name else f"the folder {below} is of its stack's workload"
    number = repeat + 1
    if not name:
        return f"the folder {below} is repeat {number} of its stack's workload"
    return f"the folder {below} is repeat {number} of the workload {name}"


def _known(asked: Mapping[Path, str], paths: Sequence[Path]) -> None:
    there = {path.resolve() for path in paths}
    for path, kind in asked.items():
        if path not in there:
            raise StudyError("", f"--as {kind}={path}: no stack has that file", hint="--stack NAME=DIR gives it")


def _nothing(name: str, every: Sequence[Given]) -> None:
    reasons = "; ".join(f"{each.shown}: {each.left_out or 'no workload in it'}" for each in every[:5])
    raise StudyError("", f"stack {name}: none of its {len(every)} files tells of a workload ({reasons})",
                     hint="docs/import.md lists what is known; --as KIND=FILE says what a file is")  # fmt: skip


def _twice(given: Mapping[str, Sequence[Given]]) -> list[str]:
    """Files that two stacks have alike."""
    seen: dict[str, tuple[str, Path]] = {}
    said = []
    for name, every in given.items():
        for each in every:
            if not each.sha256 or each.left_out:
                continue
            stack, path = seen.setdefault(each.sha256, (name, each.path))
            if stack != name:
                said.append(f"{each.path} of {name} has the same content as {path} of {stack}")
    return said


def _hosts(stack: str, wanted: str, every: Sequence[Given], source: Path | None) -> list[str]:
    """The hosts of a stack, the active one first. Raises ``StudyError`` where several could be it, or none is the
    ``wanted`` one."""
    found = dict.fromkeys(
        name_of(each.found.host)
        for each in every
        if each.found is not None and not each.left_out and each.found.host
    )
    if wanted:
        active = name_of(wanted)
        if found and active not in found:
            raise _not_there(f"stacks.{stack}.host", wanted, list(found), source)
        return [active, *(host for host in found if host != active)]
    if len(found) > 1:
        names = ", ".join(found)
        raise StudyError(
            f"stacks.{stack}", f"its files are of several hosts: {names}",
            hint=f"name the workload's in --study: stacks: {{{stack}: {{host: {next(iter(found))}}}}}",
        )  # fmt: skip
    return list(found) or [HOST]


def _known_device(stack: str, wanted: str, host: str, pieces: Sequence[Piece], source: Path | None) -> None:
    """Raises ``StudyError`` for a device that is none of those that were watched on the stack's host."""
    watched = [piece.found.watched for piece in pieces if not piece.found.tool]
    known = list(dict.fromkeys(device for mine in watched for device in devices(mine, host)))
    if wanted and known and wanted not in known:
        raise _not_there(f"stacks.{stack}.device", wanted, known, source)


def _not_there(path: str, wanted: str, known: Sequence[str], source: Path | None) -> StudyError:
    problem = f"no log names {wanted!r}; there are {', '.join(known)}"
    return StudyError(path, problem, file=str(source or ""), hint="write one of these, or leave it out")


def _write(
    folder: StudyFolder, cell: Cell, workload: Assembled, host: str, device: str, given: Sequence[Given]
) -> None:
    low, high = (
        (min(p.start for p in workload.phases), max(p.end for p in workload.phases))
        if workload.phases
        else (0.0, 0.0)
    )
    watched = [each for each in workload.watched if each.host == host]
    device = device or device_of(watched)[1]
    knobs = [Knob(host, "imported", "device", f"/dev/{device}")] if device else []
    own = set(workload.files)
    # What nothing was made of is told with each cell: it might have belonged to it.
    files = [each.told() for each in given if each.path in own or each.left_out or not _used(each)]
    for place, each in enumerate(files):
        if Path(each.file) in own:
            # What was found of the workload as a whole stands with the first of its files.
            files[place] = msgspec.structs.replace(each, remarks=(*each.remarks, *workload.said))
            break
    with draft(folder.cells, cell.key) as run:
        run.write(
            cell, Outcome("ok", started=low if low > _DATED else 0.0, seconds=high - low),
            environment={"site": SITE, "blocklab": __version__}, records=(), knobs=knobs,
            parsed=Parsed(
                samples=_named(workload.samples, host), watched=_named(workload.watched, host),
                phases=workload.phases, transactions=workload.transactions,
            ),
            latencies=workload.latencies, files=files, stack=_stack(host, device, watched),
        )  # fmt: skip


def _stack(host: str, device: str, watched: Sequence[Watched]) -> StackMap:
    """Logs do not tell what a stack is made of: all devices that were busy are below the one that the workload
    saw."""
    moved = {name: amount for (_, name), amount in moved_by(watched).items()}
    return StackMap(host, levels(host, {host: moved}, device))


def _used(each: Given) -> bool:
    return each.found is not None and bool(each.found.samples or each.found.watched)


def _named(some: Sequence[T], host: str) -> tuple[T, ...]:
    return tuple(each if each.host else msgspec.structs.replace(each, host=host) for each in some)
