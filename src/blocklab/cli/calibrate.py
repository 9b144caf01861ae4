"""``blocklab calibrate``: what the lab takes by itself."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from blocklab.cli.flags import SiteName
from blocklab.cli.progress import INTERRUPTED
from blocklab.errors import StudyError
from blocklab.model.cache import cache_folder
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.runner.calibrate import calibrate as measured
from blocklab.runner.cpu import measured as cpu_measured
from blocklab.sites import DEFAULT, open_site
from blocklab.stats.floor import caution, table
from blocklab.stats.format import NBSP
from blocklab.store.floor import save_floor


def calibrate(
    site: SiteName = DEFAULT,
    addons: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="ADDON", help="Use the image with this add-on, as in `image build`."),
    ] = None,
    cpu: Annotated[
        bool,
        typer.Option(
            "--cpu",
            help="Measure instead what this machine's CPU takes in the kernel, as `cpu` of nodes in virtual time. "
            "Stores nothing; needs no image.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the floor as JSON.")] = False,
) -> None:
    """Measure the lab's own floor on this machine and store it (under a minute; leave the machine alone).

    Every report shows it, and marks the cells that run within 1.5 times of it: limited by the lab.
    """
    progress = Console(stderr=True)
    if cpu:
        if addons or site != DEFAULT:
            raise StudyError(
                "", "--cpu measures this machine itself, without nodes", hint="leave --site and --with out"
            )
        _cpu(progress, as_json=as_json)
        return
    try:
        floor = measured(open_site(site, addons=addons or ()), say=lambda text: progress.print(text))
    except KeyboardInterrupt:
        progress.print("stopped; nothing is left running, nothing is stored", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    path = save_floor(cache_folder(), floor)
    if as_json:
        echo_json(json.dumps({"file": str(path), **msgspec.to_builtins(floor)}, indent=1))
        return
    rows = Table("floor", "value", "spread", box=None, pad_edge=False)
    for column in rows.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for row in table(floor):
        rows.add_row(*row)
    console = Console()
    console.print(rows)
    rounds = max(reading.rounds for reading in floor.values.values())
    echo(f"medians of {rounds} rounds, and the largest less the smallest; {floor.seconds:.0f} s; in {path}")
    if text := caution(floor):
        progress.print(text, style="yellow", soft_wrap=True)


def _cpu(progress: Console, *, as_json: bool) -> None:
    try:
        found = cpu_measured()
    except KeyboardInterrupt:
        progress.print("stopped; nothing is left running, nothing is stored", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    fields = {"syscall": _us(found.cost.syscall), "fault": _us(found.cost.fault), "source": found.cost.source}
    if as_json:
        echo_json(json.dumps(fields, indent=1))
        return
    rows = Table("kernel, for each", "value", "spread", box=None, pad_edge=False)
    for column in rows.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for name, each in (("system call", found.syscall), ("page fault", found.fault)):
        rows.add_row(name, *(f"{1e6 * value:.2f}{NBSP}us" for value in (each.value, each.spread)))
    Console().print(rows)
    echo(
        f"medians of {found.syscall.rounds} rounds, and the largest less the smallest; for nodes in virtual time:"
    )
    echo(f"cpu: {json.dumps(fields)}")


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:g}us"
