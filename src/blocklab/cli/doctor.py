"""``blocklab doctor``: what this machine has and lacks."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from blocklab.sites.uml import doctor as doctors

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
    host_packages: Annotated[
        bool, typer.Option("--host-packages", help="Print only the Debian packages that are missing.")
    ] = False,
) -> None:
    """Say what this machine has and lacks, each with its cure. Exit code 1 when blocklab cannot work here."""
    if host_packages:
        missing = doctors.host_packages()
        typer.echo(json.dumps(list(missing)) if as_json else " ".join(missing))
        return
    found = doctors.facts()
    if as_json:
        typer.echo(doctors.as_json(found))
    else:
        console = Console(highlight=False)
        for fact in found:
            mark = Text(doctors.MARKS[fact.ok], STYLES[fact.ok])
            console.print(mark, Text(doctors.line(fact)), soft_wrap=True)
    if doctors.failed(found):
        raise typer.Exit(1)
