"""Commands about a lab that is left standing: up, sh, down."""

from __future__ import annotations

import json
import os
import sys
import termios
import tty
from collections.abc import Callable
from typing import Annotated

import typer

from blocklab.cli.catalogue import study_file
from blocklab.cli.studies import AsJson, At, Quick, StudyFile, Volumes, levels_of, selected
from blocklab.errors import SetupError
from blocklab.runner.run import standing
from blocklab.sites.uml import door
from blocklab.sites.uml.room import check_room
from blocklab.sites.uml.site import UmlLab, UmlSite
from blocklab.study.factors import variant
from blocklab.study.grid import topology
from blocklab.study.read import read


def up(
    study: StudyFile,
    stack: Annotated[list[str] | None, typer.Option("--stack", help="This stack; several share one lab.")] = None,
    quick: Quick = False,
    at: At = None,
    volumes: Volumes = None,
    as_json: AsJson = False,
) -> None:
    """Build stacks of a study and leave them standing, for `blocklab sh` to play in."""
    what = read(study_file(study), quick=quick)
    what = variant(what, levels_of(what, at))
    names = selected(what, stack)
    there = door.standing_lab()
    if there is not None:
        raise SetupError(f"a lab of study {there['study']} is standing already", hint="blocklab down")
    site = UmlSite(volumes)
    if note := check_room(topology(what, names), volumes=volumes):
        typer.echo(f"note: {note}", err=True)
    held = door.claim()

    def hold(ready: Callable[[], None]) -> None:
        with standing(site, what, names) as stand:
            assert isinstance(stand.lab, UmlLab)
            about = {"study": what.name, "stacks": names, "nodes": list(stand.lab.nodes)}
            gate = door.Door(about)
            try:
                ready()
                gate.serve(stand.lab.nodes)
            except BaseException:
                gate.close()
                raise
        gate.close()

    try:
        door.in_background(hold)
    finally:
        # The process that holds the lab holds it on.
        os.close(held)
    about = door.ask({"op": "about"})
    if as_json:
        typer.echo(json.dumps(about))
        return
    typer.echo(f"standing: {', '.join(about['stacks'])} on {', '.join(about['nodes'])}")
    typer.echo(f"blocklab sh {about['nodes'][0]}    opens a shell; blocklab down ends it")


def sh(
    node: Annotated[str, typer.Argument(help="The node's name.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command and its arguments; a shell without.")
    ] = None,
) -> None:
    """Open a shell in a node of the standing lab, or run one command in it."""
    fds = [0, 1, 2]
    # As people write it for ssh and docker; what follows the node is taken as it is, the dashes too.
    command = command[1:] if command and command[0] == "--" else command
    if command:
        answer = door.ask({"op": "sh", "node": node, "argv": command, "tty": None}, fds)
    elif not sys.stdin.isatty():
        raise SetupError("a shell needs a terminal", hint="give a command: blocklab sh NODE COMMAND...")
    else:
        # Of the one where it is typed: what is shown may go elsewhere.
        columns, rows = os.get_terminal_size(0)
        before = termios.tcgetattr(0)
        try:
            tty.setraw(0)
            answer = door.ask({"op": "sh", "node": node, "argv": ["bash", "-l"], "tty": [rows, columns]}, fds)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
    code = answer["exit"]
    raise typer.Exit(code if code >= 0 else 128 - code)


def down(as_json: AsJson = False) -> None:
    """Take down the standing lab: stacks undone, nodes ended, volumes removed."""
    about = door.ask({"op": "about"})
    door.ask({"op": "down"})
    typer.echo(json.dumps({"down": about}) if as_json else "down; nothing is left running")
