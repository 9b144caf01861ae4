"""``blocklab plan``: what a run would do, without doing it."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from blocklab.campaign.choice import chosen, expanded, levels_of, often, selected
from blocklab.campaign.needs import addons_of
from blocklab.campaign.remaining import Machine, Remaining
from blocklab.cli.flags import AsJson, At, HostsFile, Quick, Repeats, SiteName, Stacks, StudyFile
from blocklab.cli.measure import about
from blocklab.cli.notes import warn
from blocklab.cli.studies import sure
from blocklab.errors import StudyError
from blocklab.model import node_programs
from blocklab.model.plan import Argv, Equip, Power, Put, Run, Step, undo_of
from blocklab.model.site import Site, Snapshots
from blocklab.model.stack_map import folders_of
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.model.undo import Undos
from blocklab.model.workload import Drilled
from blocklab.runner.estimate import costs
from blocklab.sites import DEFAULT, open_site
from blocklab.stats.format import exact
from blocklab.store.floor import known_floor
from blocklab.study.drill_phases import Compare, DrillPhase, ReadBack, Write, whole
from blocklab.study.factors import variant
from blocklab.study.grid import is_drill, plan_stack, port_for, topology
from blocklab.study.phases import (
    Ask,
    Build,
    Do,
    Fill,
    Mark,
    Measure,
    Nodes,
    TuneLink,
    TuneVolume,
    Undo,
    Volumes,
    Watch,
    facts_of,
    measurement,
    ready,
)
from blocklab.study.read import read
from blocklab.study.shipped import study_file
from blocklab.study.types import Cell, Study

# A longer argument hides the command that it belongs to; so much of its start is enough to know it.
LONGEST = 200
START = 160


class Command(msgspec.Struct, frozen=True):
    """One line of the list: an ``argv`` for a host, or in ``said`` what is done there without one.

    ``workload``: of a workload its name, and the phase if it has one. ``about``: which fault, or which stage of a
    takeover, and when, where it is not simply after the line before.
    """

    part: str
    host: str
    argv: tuple[str, ...] = ()
    said: str = ""
    workload: str = ""
    about: str = ""

    @property
    def whole(self) -> str:
        """For people: quoted as for a shell, though none ever sees it."""
        return self.said or shlex.join(self.argv)

    @property
    def short(self) -> str:
        """The same with the start alone of each argument that is very long."""
        return self.said or " ".join(shortened(argument) for argument in self.argv)

    def as_json(self) -> dict[str, str]:
        """``part``, ``host``, ``command``, and ``workload`` and ``about`` where they are known."""
        found = {"part": self.part, "host": self.host, "command": self.whole}
        return found | {name: text for name in ("workload", "about") if (text := getattr(self, name))}


def plan(
    study: StudyFile,
    quick: Quick = False,
    repeats: Repeats = None,
    stack: Stacks = None,
    at: At = None,
    only_cells: Annotated[
        bool, typer.Option("--cells", help="Print the grid and its time instead of commands.")
    ] = False,
    in_full: Annotated[bool, typer.Option("--whole", help="Print long arguments in full.")] = False,
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    as_json: AsJson = False,
) -> None:
    """Print every command that a run would execute, host by host, in order. Runs none of them.

    Factors have the values of the file unless --at gives a level. Arguments of more than 200 characters are cut;
    --whole and --json have them in full.
    """
    if only_cells and in_full:
        raise StudyError("", "--whole: there are no commands in a grid", hint="leave out --whole or --cells")
    study = study_file(study)
    what = often(
        read(study, quick=quick, first=lambda what: sure(often(what, repeats), yes=False) if only_cells else None),
        repeats,
    )
    names, levels = selected(what, stack), levels_of(what, at)
    grid = expanded(what, study, quick=quick)
    warn(what, grid, study, quick=quick)
    if only_cells:
        _grid(
            what,
            chosen(grid, names, levels),
            open_site(site, hosts=hosts),
            as_json=as_json,
        )
        return
    changed = variant(what, levels)
    there = open_site(site, hosts=hosts)
    listing = {name: planned(changed, name, there) for name in names}
    if as_json:
        rows = {name: [command.as_json() for command in commands] for name, commands in listing.items()}
        echo_json(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for name, commands in listing.items():
        echo(f"# stack {name}")
        about = ""
        for command in commands:
            if command.about and command.about != about:
                echo(f"# {command.about}")
            about = command.about
            echo(f"{command.part:<8} {command.host:<6} {command.whole if in_full else command.short}")
        echo("")
    if not in_full and any(
        command.short != command.whole for commands in listing.values() for command in commands
    ):
        echo(f"arguments of more than {LONGEST} characters are cut; --whole prints all of them", err=True)


def shortened(argument: str) -> str:
    """An argument as for a shell; of one of more than ``LONGEST`` characters its start, and how many more."""
    if len(argument) <= LONGEST:
        return shlex.quote(argument)
    return f"{shlex.quote(argument[:START])}… ({len(argument) - START:,} more characters)"


def _grid(study: Study, wanted: Sequence[Cell], site: Site, *, as_json: bool) -> None:
    floors = (known_floor(site, addons) for addons in addons_of(study, wanted))
    machine = Machine.of(next(filter(None, floors), None))
    if as_json:
        left = Remaining(costs(study, wanted), machine).left()
        rows = [{"key": c.key, "stack": c.stack, "workload": c.workload, "levels": c.levels} for c in wanted]
        echo_json(json.dumps({"cells": rows, "seconds": msgspec.to_builtins(left)}, indent=1))
        return
    table = Table("key", "stack", "workload", *study.factors, box=None, pad_edge=False)
    for cell in wanted:
        table.add_row(cell.key, cell.stack, cell.workload, *(cell.levels.get(name, "–") for name in study.factors))
    Console().print(table)
    echo(about(study, wanted, costs(study, wanted), machine))


def planned(study: Study, name: str, site: Site) -> list[Command]:
    """All that happens for a stack, in order, as commands."""
    listed = _Listed()
    for label, phases in phases_of(study, name, site):
        listed.add(phases, label)
    listed.add([Undo()], "")
    return listed.commands


def phases_of(study: Study, name: str, site: Site) -> Iterator[tuple[str, Sequence[DrillPhase]]]:
    """The phases that a run carries out for a stack, in order, each with its workload's name."""
    shape = topology(study, [name])
    ground, nodes = site.ground(shape), Nodes(snapshots=Snapshots in site.offers)
    facts = facts_of(study, [name], ground)[name]
    ports = plan_stack(study, name, 0, ground).ports
    for label, workload in study.workloads.items():
        phases, nodes = ready(study, name, workload, ground, nodes)
        yield label, phases
        if isinstance(workload, Drilled) and is_drill(study, label):
            yield label, whole(study, name, workload, ground, facts)
            nodes = replace(nodes, plain=False)
        else:
            port = port_for(workload, ports, ground)
            yield label, measurement(workload, port, facts, list(shape.nodes), folders_of(ports))


class _Listed:
    """Phases as commands. What an ``Undo`` undoes is what has been listed since its mark."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self._undos = Undos()
        self._marks: dict[str, int] = {}
        self._kept: tuple[tuple[Step, ...], int] = ((), 0)
        # What is asked once, since the answer lasts.
        self._known: set[tuple[str, Argv]] = set()

    def add(self, phases: Iterable[DrillPhase], workload: str) -> None:
        for phase in phases:
            self._one(phase, workload)

    @functools.singledispatchmethod
    def _one(self, phase: object, workload: str) -> None:
        """Each kind of phase has its own; what only ends something has no line."""

    @_one.register
    def _(self, phase: Do, workload: str) -> None:
        if phase.kept:
            if phase.steps == self._kept[0]:
                return
            self._undone(self._kept[1]) if self._kept[0] else None
            self._kept = (phase.steps, self._undos.mark())
        for step in phase.steps:
            self.commands.append(_command(phase, step))
            self._undos.push(step.host, undo_of(step))
            if isinstance(step, Power) and step.what == "crash":
                self._undos.forget(step.host)

    @_one.register
    def _(self, phase: Mark, workload: str) -> None:
        self._marks[phase.name] = self._undos.mark()

    @_one.register
    def _(self, phase: TuneLink, workload: str) -> None:
        said = f"set the delay of {phase.name} so that a ping takes {exact(phase.link.rtt, 's')}"
        self.commands.append(Command("tune", phase.pings.host, said=said))

    @_one.register
    def _(self, phase: TuneVolume, workload: str) -> None:
        for way, fact in phase.facts.items():
            one = "the median " if getattr(phase.spec.profile, f"{way}_quantiles") else "a "
            said = f"set the latency of {fact.layer} so that {one}{way} takes {exact(phase.asked[way], 's')}"
            self.commands.append(Command("tune", fact.host, said=said))

    @_one.register
    def _(self, phase: Undo, workload: str) -> None:
        self._undone(self._marks[phase.to] if phase.to else 0)

    @_one.register
    def _(self, phase: Build, workload: str) -> None:
        # A stack that stands is taken down first, and the next one is asked everything again.
        self._undone(0)
        self._known.clear()
        self.add(phase.phases, workload)

    @_one.register
    def _(self, phase: Fill, workload: str) -> None:
        self.add((phase.build, phase.data, *phase.rest), workload)

    @_one.register
    def _(self, phase: Volumes, workload: str) -> None:
        said = {
            "empty": "empty all volumes",
            "save": "keep a copy of all volumes as",
            "restore": "restore all volumes from",
        }
        self.commands.append(Command("volumes", "", said=f"{said[phase.what]} {phase.name}".rstrip()))

    @_one.register
    def _(self, phase: Ask, workload: str) -> None:
        # Those that must stay the same come last, for they are asked just before the workload.
        for fact in sorted(phase.facts, key=lambda each: each.steady):
            asked = (fact.host, fact.argv)
            if asked not in self._known:
                self.commands.append(Command("knob", *asked))
            if fact.lasting:
                self._known.add(asked)

    @_one.register
    def _(self, phase: Watch, workload: str) -> None:
        self.commands += [Command("probe", host, argv) for host, argv in phase.commands]

    @_one.register
    def _(self, phase: Measure, workload: str) -> None:
        for name, start in phase.starts.items():
            mark = self._undos.mark()
            self._one(start.arm, workload)
            label = f"{workload} {name}".strip()
            self.commands.append(Command("workload", start.command.host, start.command.argv, workload=label))
            self._undone(mark)

    @_one.register
    def _(self, phase: Write, workload: str) -> None:
        watches = (watch for each in phase.successions for watch in each.monitors)
        self.commands += [Command("monitor", watch.host, watch.argv) for watch in watches]
        self.commands.append(Command("workload", phase.command.host, phase.command.argv, workload=workload))
        for strike in phase.strikes:
            self.add((strike.strike, strike.mend), workload)
        for stage in phase.planned.takeover if phase.planned else ():
            when = "when the monitor declares the active node dead"
            self._one(replace(stage, when=when) if isinstance(stage, Do) else stage, workload)

    @_one.register
    def _(self, phase: ReadBack, workload: str) -> None:
        self.commands += [Command("read", phase.host, argv) for argv in phase.commands.values()]

    @_one.register
    def _(self, phase: Compare, workload: str) -> None:
        self.commands += [Command("compare", *phase.split)] if phase.split else []
        comparison = phase.comparison
        self._one(Do("compare", comparison.settle), workload)
        self.commands += [Command("compare", *each) for each in comparison.copies.items()]
        when = "where the checksums differ"
        self._one(Do("compare", comparison.verify, when=when), workload)
        self.commands += [Command("compare", *comparison.differ, about=when)] if comparison.differ else []

    def _undone(self, to: int) -> None:
        self.commands += [Command("undo", host, argv) for _, host, argv in self._undos.since(to)]


def _command(phase: Do, step: Step) -> Command:
    about = " ".join(
        filter(None, [phase.of if phase.part in ("fault", "takeover", "restart") else "", phase.when])
    )
    if isinstance(step, Put):
        return Command(phase.part, step.host, said=f"write {step.path} ({len(step.text)} bytes)", about=about)
    if isinstance(step, Equip):
        return Command(
            phase.part, step.host, said=f"put the programs of blocklab into {node_programs.FOLDER}", about=about
        )
    if isinstance(step, Power):
        return Command(phase.part, step.host, said=f"power: {step.what}", about=about)
    return Command(phase.part if isinstance(step, Run) else "wait", step.host, step.argv, about=about)
