"""Commands about studies: run, resume, check, schema."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from blocklab.campaign.choice import chosen, expanded, levels_of, often, selected
from blocklab.campaign.needs import fitting
from blocklab.campaign.start import Where, started
from blocklab.cli.flags import (
    AllTables,
    AsJson,
    At,
    Clock,
    Dask,
    Events,
    HostsFile,
    InParallel,
    Insecure,
    InTime,
    Mixed,
    MixedMachines,
    Order,
    Plain,
    Predict,
    Quick,
    Repeats,
    Runs,
    SiteName,
    Stacks,
    StudyFile,
    Volumes,
)
from blocklab.cli.measure import Shown, carry_out
from blocklab.cli.notes import warn
from blocklab.cli.progress import several
from blocklab.errors import StudyError
from blocklab.model.describe import described
from blocklab.model.terminal import echo, echo_json
from blocklab.model.units import schema_hook
from blocklab.sites import CLOCKS, DEFAULT, open_site
from blocklab.store.folder import Manifest, StudyFolder, Workers, claimed, newest, place_of
from blocklab.study.check import runnable
from blocklab.study.factors import phase_total, size
from blocklab.study.read import read
from blocklab.study.shipped import study_file
from blocklab.study.types import Cell, Study
from blocklab.study.units import Split, by_layout

# From this size on a grid is more likely a slip than a wish.
MOST_CELLS = 20_000


def run(
    study: StudyFile,
    quick: Quick = False,
    repeats: Repeats = None,
    stack: Stacks = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    clock: InTime = Clock.REAL,
    parallel: InParallel = None,
    again: Annotated[bool, typer.Option("--again", help="Measure finished cells again.")] = False,
    at: At = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a very large grid.")] = False,
    order: Annotated[
        Order, typer.Option("--order", help="Shuffle cells and phases that share a layout, or keep their order.")
    ] = Order.SHUFFLED,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the shuffled order; random without it.", min=0)
    ] = None,
    predict: Predict = None,
    dask: Dask = "",
    split: Annotated[
        Split, typer.Option("--split", help="With --dask: a machine gets all layouts, or one with its baseline.")
    ] = Split.REPEATS,
    mixed: Mixed = MixedMachines.REFUSE,
    insecure: Insecure = False,
    plain: Plain = False,
    every: AllTables = False,
    as_json: AsJson = False,
    events: Events = "",
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
    wanted: Sequence[Cell] = chosen(grid, selected(what, stack), levels_of(what, at))
    warn(what, grid, study, quick=quick)
    workers = machines(dask, mixed, hosts, volumes, insecure=insecure)
    there = clocked(site, clock, dask)
    where = Where(there, hosts, volumes, workers, in_parallel(there, parallel))
    left: tuple[str, ...] = ()
    if predict is not None:
        wanted, left = predicted(what, grid, wanted, predict)
    if split is Split.LAYOUTS:
        if where.workers is None:
            raise StudyError("", "--split layouts: one machine measures all of it", hint="leave it out, or --dask")
        what, grid, wanted = by_layout(what, grid, wanted)
    seed = None if order is Order.AS_WRITTEN else random.SystemRandom().randrange(2**31) if seed is None else seed
    manifest = Manifest(what, grid, quick, str(study.resolve()), seed, predicted=left)
    with claimed(place_of(runs, what, quick=quick)):
        folder = StudyFolder.create(runs, started(manifest, wanted, where, again=again), study)
        carry_out(folder, Shown(plain, as_json, events, every))


def predicted(
    study: Study, grid: Sequence[Cell], wanted: Sequence[Cell], count: int
) -> tuple[list[Cell], tuple[str, ...]]:
    """Of the cells that are wanted those to measure, and the keys of those that are left to prediction; ``count``
    of them, 0 for about a fifth. Raises ``StudyError``."""
    # numpy, as in carry.
    from blocklab.predict.cells import plan as design

    chosen = {_place(cell) for cell in design(study, wanted, count or None)}
    measured = [cell for cell in wanted if _place(cell) in chosen]
    keys = {cell.key for cell in measured}
    return measured, tuple(cell.key for cell in wanted if cell.key not in keys)


def _place(cell: Cell) -> tuple[object, ...]:
    """What its repeats have in common."""
    return cell.stack, cell.workload, *cell.levels.items()


def in_parallel(site: str, parallel: int | None) -> int | None:
    """``parallel`` as it is. Raises ``StudyError`` for labs of that site that would disturb each other."""
    if parallel is not None and site not in CLOCKS:
        hint = "in real time labs on one machine disturb each other; --dask spreads a study over machines"
        raise StudyError("", f"--parallel {parallel} needs --clock virtual", hint=hint)
    return parallel


def clocked(site: str, clock: Clock, dask: str) -> str:
    """The site's name with that clock. Raises ``StudyError`` where there is none."""
    if clock is Clock.REAL:
        return site
    if site != DEFAULT or dask:
        other = "--dask" if dask else f"--site {site}"
        hint = "virtual time is the same on each machine: one is enough" if dask else "leave out one of them"
        raise StudyError("", f"--clock {clock.value} and {other}: which one?", hint=hint)
    return clock.value


def machines(
    dask: str, mixed: MixedMachines, hosts: Path | None, volumes: Path | None, *, insecure: bool
) -> Workers | None:
    """The machines that ``--dask`` asks for. Raises ``StudyError`` beside what only this machine has."""
    if not dask:
        return None
    if hosts is not None:
        hint = "disks that have names are those of the hosts file: leave out --dask"
        raise StudyError("", "--dask and --hosts: which one?", hint=hint)
    if volumes is not None:
        raise StudyError("", "--dask and --volumes: each worker keeps its own", hint="leave out --volumes")
    return Workers(dask if "://" in dask else str(Path(dask).absolute()), mixed.value, insecure)


def resume(
    folder: Annotated[
        Path | None, typer.Argument(help="A study's folder; the newest in --runs without it.")
    ] = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    parallel: InParallel = None,
    plain: Plain = False,
    every: AllTables = False,
    as_json: AsJson = False,
    events: Events = "",
) -> None:
    """Continue a study with the options it was started with: measure missing and failed cells.

    `--volumes` and `--parallel` apply to this call only.
    """
    there = StudyFolder(folder or newest(runs))
    manifest = there.manifest()
    # The folder may be somebody else's, or of a version that refused less.
    runnable(manifest.study)
    in_parallel(manifest.site, parallel)
    with claimed(there.path):
        there.sweep()
        carry_out(there, Shown(plain, as_json, events, every), volumes, parallel)


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
    for note in fitting(what, grid, study, open_site(site, volumes=volumes, hosts=hosts), quick=quick):
        echo(f"note: {note}", err=True)
    found = warn(what, grid, study, quick=quick)
    if as_json:
        listed = [{"path": w.path, "line": w.line, "problem": w.problem, "hint": w.hint} for w in found]
        echo_json(json.dumps({"study": what.name, "cells": len(grid), "ok": True, "warnings": listed}))
    else:
        echo(f"{study}: ok: {' x '.join(_sizes(what))}: {several(len(grid), 'cell')}")


def schema() -> None:
    """Print the JSON Schema of study files, for editors."""
    document = described(msgspec.json.schema(Study, schema_hook=schema_hook), Study)
    echo_json(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **document}, indent=1))
