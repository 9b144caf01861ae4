"""``blocklab drill``: break it, again and again, until it is known what it loses."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from blocklab.cli.catalogue import study_file
from blocklab.cli.studies import (
    AsJson,
    At,
    Quick,
    Runs,
    Stacks,
    StudyFile,
    Volumes,
    carry_out,
    chosen,
    expanded,
    levels_of,
    selected,
    sure,
)  # fmt: skip
from blocklab.errors import StudyError
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import is_drill
from blocklab.study.read import read


def drill(
    study: StudyFile,
    times: Annotated[int, typer.Option("--times", help="Drills of each stack and level.", min=1)] = 1,
    quick: Quick = False,
    stack: Stacks = None,
    at: At = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="For the random moments; a random one unless given.", min=0)
    ] = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat finished drills.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a very large grid.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill the primary, as often as you say: what was acknowledged and is gone, and how long writes were refused.

    Each drill has its layout restored and its moment drawn from the seed. A line after each tells what is known so
    far. Exit code 1 when a drill could not be carried out; lost transactions are a result, not a failure.
    """
    study = study_file(study)
    what = read(study, quick=quick)
    if not what.faults:
        raise StudyError(
            "faults", "there are none, so nothing breaks", hint="faults: {kill: {fault: crash, at: 4s..8s}}"
        )
    what = msgspec.structs.replace(what, repeats=times)
    sure(what, yes=yes)
    grid = tuple(cell for cell in expanded(what, study) if is_drill(what, cell.workload))
    wanted = chosen(grid, selected(what, stack), levels_of(what, at))
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    folder = StudyFolder.create(runs, Manifest(what, grid, quick, str(study.resolve()), seed), study)
    carry_out(folder, what, wanted, volumes, seed, again=again, as_json=as_json)
