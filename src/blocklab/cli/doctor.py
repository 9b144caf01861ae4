"""``blocklab doctor``: what this machine has and lacks."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from blocklab.cli.studies import SiteName
from blocklab.model.site import Doctor, offered
from blocklab.sites import DEFAULT, open_site

MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


def doctor(
    site: SiteName = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    host_packages: Annotated[
        bool, typer.Option("--host-packages", help="Print only the Debian packages that are missing.")
    ] = False,
) -> None:
    """Report missing requirements and how to fix them. Exit code 1 when blocklab cannot work here."""
    asked = offered(open_site(site), Doctor)
    if host_packages:
        missing = asked.missing_packages()
        typer.echo(json.dumps(list(missing)) if as_json else " ".join(missing))
        return
    found = asked.requirements()
    if as_json:
        rows = [{"name": each.name, "ok": each.ok, "found": each.found, "hint": each.hint} for each in found]
        typer.echo(json.dumps(rows, indent=1))
    else:
        console = Console(highlight=False)
        for each in found:
            text, style = MARKS[each.ok]
            line = f"{each.name:<20} {each.found}" + (f"\n     -> {each.hint}" if each.hint else "")
            console.print(Text(text, style), Text(line), soft_wrap=True)
    if any(each.ok == "fail" for each in found):
        raise typer.Exit(1)
