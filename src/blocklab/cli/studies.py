"""Commands about studies: run, resume, check, plan, schema, report."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from blocklab.cli.progress import Lines
from blocklab.errors import StoreError, StudyError
from blocklab.model.plan import Plan, Put, Run, Step, undo_of
from blocklab.model.units import schema_hook
from blocklab.probes import PROBES
from blocklab.report import render, terminal_table
from blocklab.runner.measure import PROBE_SECONDS, settled
from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite, check_room
from blocklab.sites.uml.site import ground as uml_ground
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells, plan_ground, plan_stack, port_for, topology
from blocklab.study.read import placed, read
from blocklab.study.types import Cell, Study

# What a shell reports of a program that Ctrl-C ended.
INTERRUPTED = 130

StudyFile = Annotated[Path, typer.Argument(help="A study file (YAML).", show_default=False)]
Quick = Annotated[bool, typer.Option("--quick", help="The study's own short form.")]
Stacks = Annotated[list[str] | None, typer.Option("--stack", help="Only this stack; may be given several times.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where the runs of all studies are kept.")]
Volumes = Annotated[Path | None, typer.Option("--volumes", help="Keep the volumes in this folder, not in memory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def run(
    study: StudyFile,
    quick: Quick = False,
    stack: Stacks = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    again: Annotated[bool, typer.Option("--again", help="Measure finished cells again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure every cell of a study that is not measured yet, and write the report.

    Exit code 1 when a cell failed; what was measured is kept, and `blocklab resume` continues.
    """
    what = read(study, quick=quick)
    grid = cells(what)
    wanted = [cell for cell in grid if cell.stack in selected(what, stack)]
    folder = StudyFolder.create(runs, Manifest(what, grid, quick, str(study.resolve())), study)
    _measure(folder, what, wanted, volumes, again=again, as_json=as_json)


def resume(
    folder: Annotated[
        Path | None, typer.Argument(help="A study's folder; without it the newest in --runs.")
    ] = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    as_json: AsJson = False,
) -> None:
    """Continue a study: measure the cells that are missing or did not end well."""
    there = StudyFolder(folder or newest(runs))
    manifest = there.manifest()
    there.sweep()
    _measure(there, manifest.study, list(manifest.cells), volumes, again=False, as_json=as_json)


def _measure(
    folder: StudyFolder, study: Study, wanted: list[Cell], volumes: Path | None, *, again: bool, as_json: bool
) -> None:
    todo = wanted if again else list(folder.missing(wanted))
    console = Console(stderr=True, highlight=False)
    if not todo:
        console.print(f"finished: all {len(wanted)} cells are measured; --again measures them again")
    bad = 0
    if todo:
        site = UmlSite(volumes)
        # Every stack's needs are checked before the first one starts.
        room_for(study, dict.fromkeys(cell.stack for cell in todo), folder.path / "study.yaml", volumes)
        started = time.monotonic()
        try:
            bad = run_study(site, study, todo, folder, Lines(console))
        except KeyboardInterrupt:
            console.print("stopped; nothing is left running; `blocklab resume` continues", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        console.print(f"{len(todo)} cells in {time.monotonic() - started:.0f} s, {bad} of them not ok")
    page = render(folder)
    if as_json:
        typer.echo((folder.path / "report.json").read_text())
    else:
        Console(highlight=False, width=None).print(terminal_table(folder))
        typer.echo(f"report: {page}")
    if bad:
        raise typer.Exit(1)


def report(
    folder: Annotated[
        Path | None, typer.Argument(help="A study's folder; without it the newest in --runs.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Write the report of a study's runs anew: report.html, report.csv and report.json in its folder."""
    there = StudyFolder(folder or newest(runs))
    page = render(there)
    if as_json:
        typer.echo((there.path / "report.json").read_text())
        return
    Console(highlight=False).print(terminal_table(there))
    typer.echo(f"report: {page}")


def room_for(study: Study, stacks: Iterable[str], file: Path, volumes: Path | None) -> None:
    """Raises ``StudyError`` with file and line when this machine's memory cannot hold one of the stacks."""
    try:
        for name in stacks:
            check_room(topology(study, [name]), in_memory=volumes is None)
    except StudyError as error:
        raise placed(file, error) from error


def check(study: StudyFile, quick: Quick = False, volumes: Volumes = None, as_json: AsJson = False) -> None:
    """Check a study file: fields, units, stacks, room on this machine. Starts nothing."""
    what = read(study, quick=quick)
    room_for(what, what.stacks, study, volumes)
    grid = cells(what)
    if as_json:
        typer.echo(json.dumps({"study": what.name, "cells": len(grid), "ok": True}))
    else:
        typer.echo(f"{study}: ok: {len(what.stacks)} stacks x {len(what.workloads)} workloads = {len(grid)} cells")


def plan(study: StudyFile, quick: Quick = False, stack: Stacks = None, as_json: AsJson = False) -> None:
    """Print every command that a run would execute, host by host, in order. Runs none of them."""
    what = read(study, quick=quick)
    listing = {name: planned(what, name) for name in selected(what, stack)}
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(listing), indent=1).decode())
        return
    for name, rows in listing.items():
        typer.echo(f"# stack {name}")
        for row in rows:
            typer.echo(f"{row['part']:<8} {row['host']:<6} {row['command']}")
        typer.echo("")


def planned(study: Study, name: str) -> list[dict[str, str]]:
    """The rows of a stack's plan: part, host, command (quoted for reading; no shell ever sees it)."""
    shape = topology(study, [name])
    ground = uml_ground(shape)
    whole = plan_ground(shape, ground)
    stack = plan_stack(study, name, 0, ground)
    both = Plan(whole.steps + stack.steps, whole.facts + stack.facts)
    rows = _rows("build", both.steps)
    for workload_name, workload in study.workloads.items():
        port = port_for(workload, stack.ports, ground)
        steps = workload.prepare(port)
        rows += _rows("prepare", (*steps, *settled(shape.nodes)))
        rows += [_row("knob", fact.host, fact.argv) for fact in both.facts + workload.facts(port)]
        rows += [_row("probe", host, probe.argv(PROBE_SECONDS)) for host in shape.nodes for probe in PROBES]
        load = workload.load(port)
        rows.append({**_row("load", load.host, load.argv), "workload": workload_name})
        rows += [_row("knob", fact.host, fact.argv) for fact in both.facts if fact.wanted]
        rows += _undo(steps)
    return rows + _undo(both.steps)


def _row(part: str, host: str, argv: tuple[str, ...]) -> dict[str, str]:
    return {"part": part, "host": host, "command": shlex.join(argv)}


def _rows(part: str, steps: tuple[Step, ...]) -> list[dict[str, str]]:
    rows = []
    for step in steps:
        if isinstance(step, Put):
            rows.append(
                {"part": part, "host": step.host, "command": f"write {step.path} ({len(step.text)} bytes)"}
            )
        else:
            rows.append(_row(part if isinstance(step, Run) else "wait", step.host, step.argv))
    return rows


def _undo(steps: tuple[Step, ...]) -> list[dict[str, str]]:
    return [_row("undo", step.host, undo) for step in reversed(steps) if (undo := undo_of(step))]


def schema() -> None:
    """Print the JSON Schema of study files, for editors."""
    document = msgspec.json.schema(Study, schema_hook=schema_hook)
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
