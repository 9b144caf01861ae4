"""Commands for a new machine: ``setup`` brings it to where nodes run, ``quickstart`` runs the example."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from blocklab.cli import doctor
from blocklab.cli.flags import AllTables, AsJson, Plain, Repeats, Runs, SiteName, Stacks, Volumes
from blocklab.cli.studies import run
from blocklab.errors import SetupError
from blocklab.model.plan import Argv
from blocklab.model.site import Doctor, Setup, Site, offered
from blocklab.model.terminal import Console
from blocklab.sites import DEFAULT, open_site
from blocklab.study.shipped import shipped

EXAMPLE = "drbd-az"

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before sudo.")]


def setup(site: SiteName = DEFAULT, yes: Yes = False) -> None:
    """Install the packages that this machine lacks and build the node image; do nothing twice.

    It uses apt-get, and asks before it calls sudo. Without sudo it prints the command for an administrator. Exit
    code 1 when blocklab cannot work here.
    """
    set_up(open_site(site), Console(stderr=True), yes=yes)


def quickstart(
    repeats: Repeats = None,
    stack: Stacks = None,
    runs: Runs = Path("runs"),
    volumes: Volumes = None,
    site: SiteName = DEFAULT,
    yes: Yes = False,
    plain: Plain = False,
    every: AllTables = False,
    as_json: AsJson = False,
) -> None:
    """Do what `setup` does, then run the example: the `quick` variant of the study drbd-az.

    It takes 2 to 12 minutes, and 3 more to build the node image, and writes runs/drbd-az-quick/report.html.
    """
    set_up(open_site(site), Console(stderr=True), yes=yes)
    run(
        shipped()[EXAMPLE], quick=True, repeats=repeats, stack=stack, runs=runs, volumes=volumes, site=site,
        yes=yes, plain=plain, every=every, as_json=as_json,
    )  # fmt: skip


def set_up(site: Site, console: Console, *, yes: bool) -> None:
    """Packages, then what hosts start from; what is still wrong is shown. Raises ``SetupError`` where something
    that is missing stays missing, ``ImageError``."""
    ready, asked = offered(site, Setup), offered(site, Doctor)
    if missing := ready.missing_packages():
        console.print("missing on this machine:")
        for name, why in missing.items():
            console.print(f"  {name:<24} {why}", soft_wrap=True)
        commands = ready.installing(list(missing))
        for argv in commands:
            console.print(f"  $ {shlex.join(argv)}", soft_wrap=True)
        _agreed(commands, yes=yes)
        console.print("installing ...")
        ready.install(list(missing))
    if failing := [each for each in asked.requirements() if each.ok == "fail"]:
        doctor.show(failing, console)
        raise SetupError("blocklab cannot work here as it is", hint="see FAIL above")
    ready.prepare(lambda line: console.print(line, soft_wrap=True))
    doctor.show([each for each in asked.requirements() if each.ok != "ok"], console)


def _agreed(commands: Sequence[Argv], *, yes: bool) -> None:
    """Ask before ``sudo``. Raises ``SetupError`` when the answer is no, or nobody is there."""
    if yes or all(argv[0] != "sudo" for argv in commands):
        return
    if not (sys.stdin.isatty() and typer.confirm("run these commands with sudo?", err=True)):
        raise SetupError("nothing was installed", hint="run the commands above yourself, or give --yes")
