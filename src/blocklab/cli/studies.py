"""Commands about studies: run, resume, check, schema."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from blocklab import report
from blocklab.cli.completion import stack_names, study_names
from blocklab.cli.floor import fresh_floor
from blocklab.cli.live import showing
from blocklab.cli.notes import too_short
from blocklab.cli.options import check_options, learn_options
from blocklab.cli.progress import INTERRUPTED
from blocklab.cli.remaining import Machine, Remaining
from blocklab.errors import StoreError, StudyError
from blocklab.model.describe import described
from blocklab.model.site import Room, Site, offered
from blocklab.model.units import schema_hook
from blocklab.runner.estimate import costs
from blocklab.runner.run import run_study
from blocklab.sites import DEFAULT, SITES, open_site
from blocklab.stats.analysis import analyse
from blocklab.stats.format import percent
from blocklab.store.floor import Floor, keep_floor, known_floor
from blocklab.store.folder import Manifest, StudyFolder, claimed, place_of
from blocklab.store.identity import identity
from blocklab.study.check import buildable, combined_problems
from blocklab.study.factors import assignments, phase_total, size
from blocklab.study.grid import cells, layouts, topology
from blocklab.study.needs import site_problems
from blocklab.study.read import placed, read
from blocklab.study.room import hardwares
from blocklab.study.shipped import study_file
from blocklab.study.sweep import idle_problems
from blocklab.study.types import Cell, Study

# From this size on a grid is more likely a slip than a wish.
MOST_CELLS = 20_000


class Order(StrEnum):
    """How the cells that share a layout follow each other."""

    SHUFFLED = "shuffled"
    AS_WRITTEN = "as-written"


StudyFile = Annotated[
    Path,
    typer.Argument(
        help="A study file (YAML), or the name of a shipped study.",
        show_default=False,
        autocompletion=study_names,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Run the study's `quick` variant.")]
Stacks = Annotated[
    list[str] | None,
    typer.Option("--stack", help="Use only this stack; repeatable.", autocompletion=stack_names),
]
Repeats = Annotated[
    int | None,
    typer.Option("--repeats", help="Build and measure each layout N times, whatever the study says.", min=1),
]
Runs = Annotated[Path, typer.Option("--runs", help="Keep runs in this folder.")]
At = Annotated[
    list[str] | None,
    typer.Option("--at", help="Use only this level of a factor, FACTOR=LEVEL; repeatable."),
]
Volumes = Annotated[Path | None, typer.Option("--volumes", help="Keep the volumes in this folder, not in memory.")]
SiteName = Annotated[str, typer.Option("--site", help=f"Take hosts from this site: {', '.join(SITES)}.")]
HostsFile = Annotated[
    Path | None, typer.Option("--hosts", help="Use the hosts of this file, over SSH, instead of nodes here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print one line per event, even on a terminal.")]


def run(
    study: StudyFile,
    quick: Quick = False,
    repeats: Repeats = None,
    stack: Stacks = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    again: Annotated[bool, typer.Option("--again", help="Measure finished cells again.")] = False,
    at: At = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a very large grid.")] = False,
    order: Annotated[
        Order, typer.Option("--order", help="Shuffle cells and phases that share a layout, or keep their order.")
    ] = Order.SHUFFLED,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the shuffled order; random without it.", min=0)
    ] = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """Measure the cells of a study that have no good run yet, and write the report.

    Exit code 1 when a cell failed; finished cells are kept, and `blocklab resume` continues.
    """
    study = study_file(study)
    if seed is not None and order is Order.AS_WRITTEN:
        raise StudyError("", "--seed: the order as written has no use for it", hint="leave out --seed or --order")
    what = often(read(study, quick=quick, first=lambda what: sure(often(what, repeats), yes=yes)), repeats)
    if what.faults and order is Order.AS_WRITTEN:
        hint = "leave out --order; --seed makes the shuffled order the same each time"
        raise StudyError("faults", "--order as-written: the moments of faults are drawn by a seed", hint=hint)
    grid = expanded(what, study, quick=quick)
    wanted = chosen(grid, selected(what, stack), levels_of(what, at))
    seed = None if order is Order.AS_WRITTEN else random.SystemRandom().randrange(2**31) if seed is None else seed
    manifest = Manifest(what, grid, quick, str(study.resolve()), seed)
    with claimed(place_of(runs, what, quick=quick)):
        folder = StudyFolder.create(
            runs, started(manifest, wanted, Where(site, hosts, volumes), again=again), study
        )
        carry_out(folder, plain=plain, as_json=as_json)


def often(study: Study, repeats: int | None) -> Study:
    """The study with that many repeats, or as it is."""
    return study if repeats is None else msgspec.structs.replace(study, repeats=repeats)


class Where(msgspec.Struct, frozen=True):
    """Where hosts come from: the site's name, a hosts file, a folder for volumes."""

    site: str
    hosts: Path | None = None
    volumes: Path | None = None

    def open(self) -> Site:
        """That site. Raises what ``open_site`` raises."""
        return open_site(self.site, volumes=self.volumes, hosts=self.hosts)


def started(manifest: Manifest, wanted: Sequence[Cell], where: Where, *, again: bool) -> Manifest:
    """With how the study is started, so that ``resume`` goes on with the same."""
    volumes, hosts = (str(path.absolute()) if path else "" for path in (where.volumes, where.hosts))
    todo, since = tuple(cell.key for cell in wanted), time.time() if again else 0.0
    return msgspec.structs.replace(manifest, site=where.site, hosts=hosts, volumes=volumes, todo=todo, since=since)


def resume(
    folder: Annotated[
        Path | None, typer.Argument(help="A study's folder; the newest in --runs without it.")
    ] = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """Continue a study with the options it was started with: measure missing and failed cells.

    `--volumes` applies to this call only.
    """
    there = StudyFolder(folder or newest(runs))
    buildable(there.manifest().study)
    with claimed(there.path):
        there.sweep()
        carry_out(there, volumes, plain=plain, as_json=as_json)


def carry_out(folder: StudyFolder, elsewhere: Path | None = None, *, plain: bool, as_json: bool) -> None:
    """Measure what the folder's manifest asks for and is not measured yet, and write the report. ``elsewhere`` is
    another folder for the volumes. Raises ``typer.Exit``."""
    manifest = folder.manifest()
    study, seed = manifest.study, manifest.seed
    hosts, volumes = (Path(kept) if kept else None for kept in (manifest.hosts, manifest.volumes))
    keys = {cell.key for cell in manifest.cells} if manifest.todo is None else set(manifest.todo)
    wanted = [cell for cell in manifest.cells if cell.key in keys]
    todo = folder.missing(wanted, manifest.since)
    console = Console(stderr=True, highlight=False)
    if not todo:
        console.print(f"finished: all {len(wanted)} cells are measured; --again measures them again")
    bad = 0
    if todo:
        site = Where(manifest.site or DEFAULT, hosts, elsewhere or volumes).open()
        # Every stack's needs are checked before the first one starts.
        notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
        left_out: list[str] = []
        floor: Floor | None = None
        # A missing image or add-on is found before the first stack starts, not after hours.
        for addons in addons_of(study, todo):
            environment = site.environment(addons)
            same_machine(folder, wanted, todo, environment)
            floor = fresh_floor(manifest.site or DEFAULT, addons, environment, console) or floor
            left_out.append(keep_floor(folder.path, environment))
        if learn_options(study, site, lambda text: console.print(text, markup=False, soft_wrap=True)):
            notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
        machine = Machine.of(floor)
        console.print(about(study, todo, machine), soft_wrap=True)
        for note in filter(None, [*notes, *left_out]):
            console.print(f"note: {note}", style="yellow", markup=False)
        begun = time.monotonic()
        remaining = Remaining(costs(study, todo), machine)
        try:
            with showing(console, study, remaining, plain=plain) as progress:
                bad = run_study(site, study, todo, folder, progress, seed)
        except KeyboardInterrupt:
            console.print("stopped; nothing is left running; `blocklab resume` continues", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        console.print(f"{_several(len(todo), 'cell')} in {time.monotonic() - begun:.0f} s, {bad} of them not ok")
    analysis = analyse(folder)
    page = report.render(folder, analysis=analysis)
    if as_json:
        typer.echo((folder.path / "report.json").read_text())
    else:
        Console(highlight=False, width=None).print(report.terminal_table(folder, analysis))
        typer.echo(f"report: {page}")
    if bad:
        raise typer.Exit(1)


def addons_of(study: Study, wanted: Sequence[Cell]) -> set[tuple[str, ...]]:
    """What these cells' layouts need of an image beside what it has: a set for each kind of layout."""
    return {topology(layout.study, [layout.stack]).addons for layout in layouts(study, wanted)}


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


def expanded(study: Study, file: Path, *, quick: bool = False) -> tuple[Cell, ...]:
    """The study's cells; ``quick``: it is the short form of its file. Raises ``StudyError`` with file and line
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


def sure(study: Study, *, yes: bool, count: int | None = None) -> None:
    """Ask before a grid that nobody waits for, by its cells and by the phases of their workloads; of ``count``
    cells where that is known. Raises ``StudyError`` when the answer is no, or nobody is there."""
    cells, phases = (size(study), phase_total(study)) if count is None else (count, count)
    if yes or phases <= MOST_CELLS:
        return
    said = f"up to {cells:,}" if count is None else f"{cells:,}"
    jobs = f", {phases:,} with each job of fio counted" if phases > cells else ""
    problem = f"the grid has {said} cells ({', '.join(_sizes(study))}){jobs}"
    if sys.stdin.isatty() and typer.confirm(f"{problem}; go on?", err=True):
        return
    hint = "use fewer levels, jobs or --repeats (drill: --times), or give --yes to run or drill"
    raise StudyError(
        "factors" if study.factors else "repeats" if study.repeats > 1 else "workloads", problem, hint=hint
    )


def _sizes(study: Study) -> list[str]:
    counts = {"stacks": len(study.stacks), "workloads": len(study.workloads)}
    counts |= {name: len(factor.values) for name, factor in study.factors.items()}
    counts |= {"repeats": study.repeats} if study.repeats > 1 else {}
    words = {"stacks": "stack", "workloads": "workload"}
    return [f"{count} {words.get(name, name) if count == 1 else name}" for name, count in counts.items()]


def about(study: Study, wanted: Sequence[Cell], machine: Machine) -> str:
    """How many cells there are, and how long they will take on that machine."""
    parts = costs(study, wanted)
    loads = [each.load for each in parts]
    open_ended = sum(each.open_ended for each in loads)
    ruled = any(each.rule is not None and each.most > each.least for each in loads)
    why = "; the least if every workload settles at once, the most if none does" if ruled else ""
    does = "do" if open_ended > 1 else "does"
    fixed = f"; {_several(open_ended, 'cell')} {does} a fixed amount of work, so the time is a guess"
    size = f"{_several(len(wanted), 'cell')} on {_several(len(layouts(study, wanted)), 'layout')}"
    noise = machine.noise if ruled else None
    here = "" if noise is None else f"; rates differ by {percent(noise)} from round to round on this machine"
    return f"{size}: {Remaining(parts, machine).left().text}{why}{here}{fixed if open_ended else ''}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def levels_of(study: Study, given: Sequence[str] | None) -> dict[str, str]:
    """``--at`` as factor -> level. Raises ``StudyError`` for what the study does not have."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, level = text.partition("=")
        if not equals or name not in study.factors:
            if not study.factors:
                raise StudyError("factors", f"--at {text}: the study has none", hint="--stack chooses a stack")
            raise StudyError("factors", f"--at {text}: not FACTOR=LEVEL of {', '.join(study.factors)}")
        known = assignments(study.factors[name])
        if level not in known:
            raise StudyError(f"factors.{name}", f"there is no level {level!r}; there are {', '.join(known)}")
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


def check(
    study: StudyFile,
    quick: Quick = False,
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    as_json: AsJson = False,
) -> None:
    """Validate a study: fields, units, stacks, every combination, what the site offers, memory. Starts nothing."""
    study = study_file(study)
    what = read(study, quick=quick, first=lambda what: sure(what, yes=False))
    grid = expanded(what, study, quick=quick)
    for note in fitting(what, grid, study, Where(site, hosts, volumes).open(), quick=quick):
        typer.echo(f"note: {note}", err=True)
    if as_json:
        typer.echo(json.dumps({"study": what.name, "cells": len(grid), "ok": True}))
    else:
        typer.echo(f"{study}: ok: {' x '.join(_sizes(what))}: {_several(len(grid), 'cell')}")


def schema() -> None:
    """Print the JSON Schema of study files, for editors."""
    document = described(msgspec.json.schema(Study, schema_hook=schema_hook), Study)
    typer.echo(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **document}, indent=1))


def selected(study: Study, names: list[str] | None) -> list[str]:
    """The stacks asked for, all of them without an option. Raises ``StudyError`` for an unknown one."""
    for name in names or ():
        if name not in study.stacks:
            raise StudyError("stacks", f"there is no stack {name!r}", hint=f"there are {', '.join(study.stacks)}")
    return [name for name in study.stacks if not names or name in names]


def newest(runs: Path) -> Path:
    """The study's folder that was touched last. Raises ``StoreError``."""
    found = sorted(runs.glob("*/study.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise StoreError(f"no study was run in {runs}", hint="blocklab run STUDY.yaml")
    return found[-1].parent
