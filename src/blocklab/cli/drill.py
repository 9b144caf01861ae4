"""``blocklab drill``: break it, again and again, until it is known what it loses."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from blocklab.campaign.choice import chosen, expanded, levels_of, selected
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
    Plain,
    Quick,
    Runs,
    SiteName,
    Stacks,
    StudyFile,
    Volumes,
)
from blocklab.cli.measure import Shown, carry_out
from blocklab.cli.progress import UNDECIDED
from blocklab.cli.replay import replay as once_more
from blocklab.cli.replay import search as around
from blocklab.cli.studies import (
    clocked,
    in_parallel,
    machines,
    sure,
)
from blocklab.errors import ParseError, StoreError, StudyError, Unreadable
from blocklab.model import outside
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.model.workload import Drilled
from blocklab.sites import DEFAULT
from blocklab.stats.drills import again
from blocklab.store.folder import Manifest, StudyFolder, claimed, newest, place_of
from blocklab.store.run import Run, ledger_of
from blocklab.study.grid import is_drill
from blocklab.study.read import placed, read
from blocklab.study.shipped import study_file
from blocklab.study.types import Cell, Study


def drill(
    study: StudyFile,
    times: Annotated[int, typer.Option("--times", help="Crash each stack and level N times.", min=1)] = 1,
    quick: Quick = False,
    stack: Stacks = None,
    at: At = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the random moments; random without it.", min=0)
    ] = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    clock: InTime = Clock.REAL,
    parallel: InParallel = None,
    hosts: HostsFile = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat finished drills.")] = False,
    replay: Annotated[
        str,
        typer.Option("--replay", help="Repeat the drill with this seed, with a shell before the crash."),
    ] = "",
    search: Annotated[
        int,
        typer.Option("--search", help="Then crash each drill at N more moments; in virtual time.", min=0),
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a very large grid.")] = False,
    dask: Dask = "",
    mixed: Mixed = MixedMachines.REFUSE,
    insecure: Insecure = False,
    plain: Plain = False,
    every: AllTables = False,
    as_json: AsJson = False,
    events: Events = "",
) -> None:
    """Crash the primary N times; report lost commits (RPO) and downtime (RTO).

    Each drill starts from a restored layout; the seed decides when the fault strikes. Exit code 1 when a drill
    could not be carried out, 3 when the verdict of one is unknown; lost commits are a result, not a failure.
    """
    study = study_file(study)
    once = functools.partial(_once, yes=yes)
    what = read(study, quick=quick, first=once)
    if not what.faults:
        raise StudyError(
            "faults", "there are none, so nothing breaks", hint="faults: {kill: {fault: crash, at: 4s..8s}}"
        )
    what = msgspec.structs.replace(what, repeats=times)
    whole = expanded(what, study, quick=quick)
    drills = [cell for cell in whole if is_drill(what, cell.workload)]
    # What else the study measures is measured once, and is in its report all the same.
    grid = tuple(cell for cell in whole if cell.repeat == 0 or cell in drills)
    wanted = chosen(drills, selected(what, stack), levels_of(what, at))
    try:
        sure(what, yes=yes, count=len(wanted))
    except StudyError as error:
        raise placed(study, error, quick=quick) from error
    place = place_of(runs, what, quick=quick)
    if replay:
        if parallel is not None:
            raise StudyError("", "--replay and --parallel: which one?", hint="a drill is repeated in one lab")
        with claimed(place):
            same = once_more(StudyFolder(place), replay, Console())
        if not same:
            raise typer.Exit(UNDECIDED if same is None else 1)
        return
    if search and clock is Clock.REAL:
        raise StudyError("", "--search needs --clock virtual", hint="in real time no two crashes are alike")
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    manifest = Manifest(what, grid, quick, str(study.resolve()), seed)
    workers = machines(dask, mixed, hosts, volumes, insecure=insecure)
    there = clocked(site, clock, dask)
    where = Where(there, hosts, volumes, workers, in_parallel(there, parallel))
    with claimed(place):
        folder = StudyFolder.create(runs, started(manifest, wanted, where, again=again), study)
        carry_out(folder, Shown(plain, as_json, events, every))
        decided = [_searched(folder, cell, search) for cell in (wanted if search else ())]
    if not all(decided):
        raise typer.Exit(UNDECIDED)


def _searched(folder: StudyFolder, cell: Cell, count: int) -> bool:
    """Whether a loss was found, or none at any moment."""
    console = Console()
    console.print(f"{cell.label}: {count} more moments")
    found = around(folder, cell, count, console)
    unknown = sum(each.verdict == "unknown" for each in found)
    if not found or not (found[0].lost or found[0].torn):
        said = f"nothing was lost at {len(found) - unknown} of {len(found)} moments"
        more = f"; {unknown} could not be judged" if unknown else ""
        console.print(f"{cell.label}: {said}{more}")
        return len(found) > unknown == 0
    best = found[0]
    what = f"{best.torn} torn" if best.torn else f"the smallest loss is {best.lost}"
    console.print(f"{cell.label}: {what}, by a crash after {best.after:.6f} s; --replay '{best.seed}'")
    return True


def _once(study: Study, *, yes: bool) -> None:
    # How often each drill is repeated --times says, and of how many: that is asked for later.
    sure(msgspec.structs.replace(study, repeats=1), yes=yes)


def verdict(
    folder: Annotated[
        Path | None, typer.Argument(help="A study's folder; without it the newest in --runs.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Judge every drill again, from the stored history of the client and what the database had.

    Exit code 1 when a verdict differs from the stored one, or cannot be made again; 3 when one is unknown, or a
    drill was not carried out to its end and has none. Lost commits are a result, not a failure.
    """
    there = StudyFolder(folder or newest(runs))
    manifest = there.manifest()
    broken = there.unreadable([cell for cell in manifest.cells if is_drill(manifest.study, cell.workload)])
    for why in broken:
        echo(f"left out: {why.message}", err=True)
    drilled = (run for run in there.runs() if run.drill is not None or is_drill(manifest.study, run.cell.workload))
    rows = [_again(run, manifest.study) for run in drilled]
    if not rows and not broken:
        raise StoreError(f"{there.path} has no drills", hint="blocklab drill STUDY")
    differ = sum(row["same"] is False for row in rows)
    undecided = sum(row["same"] is None or row["again"] == "unknown" for row in rows)
    if as_json:
        document = {"drills": len(rows), "differ": differ, "undecided": undecided, "verdicts": rows}
        echo_json(json.dumps(document, indent=1))
    else:
        for row in rows:
            echo(f"{row['cell']}: {row['again']} ({_mark(row)}){': ' if row['why'] else ''}{row['why']}")
        echo(f"{len(rows)} verdicts made again, {differ} differ, {undecided} undecided")
    if differ or broken or undecided:
        raise typer.Exit(1 if differ or broken else UNDECIDED)


def _again(run: Run, study: Study) -> dict[str, Any]:
    """A drill's stored verdict and the one that is made of what is stored; ``same`` is None where it has none."""
    if run.drill is None:
        return {"cell": run.cell.label, "stored": "none", "again": "unknown", "same": None,
                "why": run.outcome.error}  # fmt: skip
    history = run.folder / "raw" / "workload" / "history.tsv"
    workload = study.workloads[run.cell.workload]
    assert isinstance(workload, Drilled)
    try:
        attempts = workload.checker.history(outside.data(history)).attempts if history.exists() else None
        made = again(workload.checker, attempts, ledger_of(run.folder), run.drill)
        same, status, why = made == run.drill.verdict, str(made.status), made.why
    except (ParseError, StoreError, Unreadable) as error:
        same, status, why = False, "cannot be made", error.message
    stored = run.drill.verdict.status
    return {"cell": run.cell.label, "stored": stored, "again": status, "same": same, "why": why}


def _mark(row: Mapping[str, Any]) -> str:
    if row["same"] is None:
        return "the drill was not carried out to its end"
    return "the same" if row["same"] else f"stored as {row['stored']}"
