"""``blocklab plan``: what a run would do, without doing it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from blocklab.cli.catalogue import study_file
from blocklab.cli.studies import (
    AsJson,
    At,
    Quick,
    Stacks,
    StudyFile,
    about,
    chosen,
    expanded,
    levels_of,
    selected,
    sure,
)
from blocklab.errors import StudyError
from blocklab.model.plan import Plan, Power, Put, Run, Step, undo_of
from blocklab.probes import PROBES
from blocklab.runner.measure import PROBE_SECONDS, settled
from blocklab.sites.uml.site import ground as uml_ground
from blocklab.study.estimate import estimate
from blocklab.study.factors import variant
from blocklab.study.grid import plan_ground, plan_stack, port_for, topology
from blocklab.study.read import read
from blocklab.study.types import Cell, Study

# A longer argument hides the command that it belongs to; so much of its start is enough to know it.
LONGEST = 200
START = 160


class Command(msgspec.Struct, frozen=True):
    """One line of the list: an ``argv`` for a host, or in ``said`` what is done there without one.

    ``workload``: of a load its name, and the phase if it has one.
    """

    part: str
    host: str
    argv: tuple[str, ...] = ()
    said: str = ""
    workload: str = ""

    @property
    def whole(self) -> str:
        """For people: quoted as for a shell, though none ever sees it."""
        return self.said or shlex.join(self.argv)

    @property
    def short(self) -> str:
        """The same with the start alone of each argument that is very long."""
        return self.said or " ".join(shortened(argument) for argument in self.argv)

    def as_json(self) -> dict[str, str]:
        """``part``, ``host``, ``command``, and ``workload`` where it is one's."""
        found = {"part": self.part, "host": self.host, "command": self.whole}
        return found | ({"workload": self.workload} if self.workload else {})


def plan(
    study: StudyFile,
    quick: Quick = False,
    stack: Stacks = None,
    at: At = None,
    only_cells: Annotated[
        bool, typer.Option("--cells", help="The grid and its time instead of commands.")
    ] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Long arguments from end to end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every command that a run would execute, host by host, in order. Runs none of them.

    Of a study with factors the fields are as the file has them, but for what --at gives. Of an argument of more
    than 200 characters only the start is shown; --whole and --json have all of it.
    """
    if only_cells and whole:
        raise StudyError("", "--whole: there are no commands in a grid", hint="leave out --whole or --cells")
    study = study_file(study)
    what = read(study, quick=quick, first=lambda what: sure(what, yes=False) if only_cells else None)
    names, levels = selected(what, stack), levels_of(what, at)
    if only_cells:
        _grid(what, chosen(expanded(what, study, quick=quick), names, levels), as_json=as_json)
        return
    changed = variant(what, levels)
    listing = {name: planned(changed, name) for name in names}
    if as_json:
        rows = {name: [command.as_json() for command in commands] for name, commands in listing.items()}
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for name, commands in listing.items():
        typer.echo(f"# stack {name}")
        for command in commands:
            typer.echo(f"{command.part:<8} {command.host:<6} {command.whole if whole else command.short}")
        typer.echo("")
    if not whole and any(command.short != command.whole for commands in listing.values() for command in commands):
        typer.echo(f"arguments of more than {LONGEST} characters are cut; --whole prints all of them", err=True)


def shortened(argument: str) -> str:
    """An argument as for a shell; of one of more than ``LONGEST`` characters its start, and how many more."""
    if len(argument) <= LONGEST:
        return shlex.quote(argument)
    return f"{shlex.quote(argument[:START])}… ({len(argument) - START:,} more characters)"


def _grid(study: Study, wanted: Sequence[Cell], *, as_json: bool) -> None:
    guess = estimate(study, wanted)
    if as_json:
        rows = [{"key": c.key, "stack": c.stack, "workload": c.workload, "levels": c.levels} for c in wanted]
        typer.echo(json.dumps({"cells": rows, "estimate": msgspec.to_builtins(guess)}, indent=1))
        return
    table = Table("key", "stack", "workload", *study.factors, box=None, pad_edge=False)
    for cell in wanted:
        table.add_row(cell.key, cell.stack, cell.workload, *(cell.levels.get(name, "–") for name in study.factors))
    Console(highlight=False).print(table)
    typer.echo(about(study, wanted))


def planned(study: Study, name: str) -> list[Command]:
    """All that happens for a stack, in order."""
    shape = topology(study, [name])
    ground = uml_ground(shape)
    whole = plan_ground(shape, ground)
    stack = plan_stack(study, name, 0, ground)
    both = Plan(whole.steps + stack.steps, whole.facts + stack.facts)
    commands = _steps("build", both.steps)
    for workload_name, workload in study.workloads.items():
        port = port_for(workload, stack.ports, ground)
        commands += _steps("data", workload.data(port))
        commands += _steps("data", workload.lasting(port))
        steps = workload.prepare(port)
        folders = [each for each in stack.ports if each.kind == "dir"]
        commands += _steps("prepare", (*steps, *settled(shape.nodes, folders)))
        commands += [Command("knob", fact.host, fact.argv) for fact in both.facts + workload.facts(port)]
        commands += [Command("probe", host, probe.argv(PROBE_SECONDS)) for host in shape.nodes for probe in PROBES]
        rule = workload.rule()
        seconds = 0.0 if rule is None else rule.at_most if rule.kind in ("long", "fixed") else rule.each
        for phase, trial in (workload.trials(seconds) if rule else {"": workload}).items():
            commands += _steps("prepare", trial.arm(port))
            load = trial.load(port)
            if rule is not None and rule.kind == "long":
                load = trial.watched(load)
            commands.append(Command("load", load.host, load.argv, workload=f"{workload_name} {phase}".strip()))
        commands += [Command("knob", fact.host, fact.argv) for fact in both.facts if fact.wanted]
        commands += _undo((*workload.lasting(port), *steps))
    return commands + _undo(both.steps)


def _steps(part: str, steps: tuple[Step, ...]) -> list[Command]:
    commands = []
    for step in steps:
        if isinstance(step, Put):
            commands.append(Command(part, step.host, said=f"write {step.path} ({len(step.text)} bytes)"))
        elif isinstance(step, Power):
            commands.append(Command(part, step.host, said=f"power: {step.what}"))
        else:
            commands.append(Command(part if isinstance(step, Run) else "wait", step.host, step.argv))
    return commands


def _undo(steps: tuple[Step, ...]) -> list[Command]:
    return [Command("undo", step.host, undo) for step in reversed(steps) if (undo := undo_of(step))]
