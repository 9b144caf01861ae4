"""Commands about a lab that is left standing: up, sh, down."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Annotated

import typer

from blocklab.campaign.choice import levels_of, selected
from blocklab.cli.completion import stack_names
from blocklab.cli.flags import AsJson, At, HostsFile, Quick, SiteName, StudyFile, Volumes
from blocklab.errors import SetupError
from blocklab.model.site import Lab, Leftovers, Room, Standing, offered
from blocklab.model.terminal import echo, echo_json
from blocklab.runner.run import standing
from blocklab.sites import DEFAULT, open_site
from blocklab.study.factors import variant
from blocklab.study.grid import topology
from blocklab.study.read import read
from blocklab.study.shipped import study_file


def up(
    study: StudyFile,
    stack: Annotated[
        list[str] | None,
        typer.Option("--stack", help="This stack; several share one lab.", autocompletion=stack_names),
    ] = None,
    quick: Quick = False,
    at: At = None,
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    as_json: AsJson = False,
) -> None:
    """Build stacks of a study and leave them running, for `blocklab sh`."""
    what = read(study_file(study), quick=quick)
    what = variant(what, levels_of(what, at))
    names = selected(what, stack)
    there = open_site(site, volumes=volumes, hosts=hosts)
    door = offered(there, Standing)
    if (running := door.about()) is not None:
        raise SetupError(f"a lab of study {running['study']} is running already", hint="blocklab down")
    if Room in there.offers and (note := offered(there, Room).room(topology(what, names), 1)):
        echo(f"note: {note}", err=True)

    @contextlib.contextmanager
    def built() -> Iterator[Lab]:
        with standing(there, what, names) as stand:
            yield stand.lab

    door.stand(built, {"study": what.name, "stacks": names})
    about = door.about() or {}
    if as_json:
        echo_json(json.dumps(about))
        return
    echo(f"running: {', '.join(about['stacks'])} on {', '.join(about['nodes'])}")
    echo(f"blocklab sh {about['nodes'][0]}    opens a shell; blocklab down ends it")


def sh(
    node: Annotated[str, typer.Argument(help="The node's name.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command and its arguments; a shell without.")
    ] = None,
    site: SiteName = DEFAULT,
) -> None:
    """Open a shell on a node of the running lab, or run one command there."""
    door = offered(open_site(site), Standing)
    # As people write it for ssh and docker; what follows the node is taken as it is, the dashes too.
    command = command[1:] if command and command[0] == "--" else command
    if command:
        code = door.shell(node, command, None)
    elif not sys.stdin.isatty():
        raise SetupError("a shell needs a terminal", hint="give a command: blocklab sh NODE COMMAND...")
    else:
        # Of the one where it is typed: what is shown may go elsewhere.
        columns, rows = os.get_terminal_size(0)
        before = termios.tcgetattr(0)
        try:
            tty.setraw(0)
            code = door.shell(node, ["bash", "-l"], (rows, columns))
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
    raise typer.Exit(code if code >= 0 else 128 - code)


def down(site: SiteName = DEFAULT, hosts: HostsFile = None, as_json: AsJson = False) -> None:
    """Remove the running lab, and what an interrupted run left on its hosts.

    Stacks are undone, nodes end, volumes go. On hosts that outlive blocklab, all undos that are still in the
    journal run, the last first; exit code 1 when one of them fails.
    """
    there = open_site(site, hosts=hosts)
    about, failed = None, []
    # What stands holds its hosts.
    if Standing in there.offers and (Leftovers not in there.offers or offered(there, Standing).about()):
        about = offered(there, Standing).take_down()
    if Leftovers in there.offers:
        failed = offered(there, Leftovers).clean()
    if as_json:
        echo_json(json.dumps({"down": about, "failed": failed}))
    else:
        for text in failed:
            echo(f"not undone: {text}", err=True)
        echo("down; nothing is left running" if not failed else "down, but for the above")
    if failed:
        raise typer.Exit(1)
