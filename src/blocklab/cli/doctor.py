"""``blocklab doctor``: what this machine has and lacks, and whether a node starts on it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence

import msgspec
import typer

from blocklab.cli.flags import AsJson, HostsFile, SiteName
from blocklab.errors import BlocklabError, ImageError
from blocklab.model.ground import NodeSpec, Topology
from blocklab.model.host import must
from blocklab.model.site import Doctor, GivenGround, Requirement, Site, offered
from blocklab.model.terminal import Console, Text, echo_json
from blocklab.model.units import Size
from blocklab.sites import DEFAULT, open_site

# For a command that does nothing, on a node that has just booted.
ANSWER_SECONDS = 20.0
MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


class Boot(msgspec.Struct, frozen=True):
    """How the boot of a node went, as a ``Requirement``."""

    ok: str
    found: str
    hint: str = ""
    name: str = "boot"


def boot(site: Site) -> Boot:
    """Boot a node, ask it for something, and end it, whatever happens: what seems to be there may be useless. The
    site limits how long a boot may take."""
    shape = Topology({"doctor": NodeSpec(memory=Size("256MiB"))}, {}, ())
    started = time.monotonic()
    try:
        with contextlib.closing(site.start(shape)) as lab:
            must(lab.hosts["doctor"], ["true"], timeout=ANSWER_SECONDS)
            took = time.monotonic() - started
    except ImageError as error:
        return Boot("warn", f"not tried: {error.message}", error.hint)
    except BlocklabError as error:
        gone = time.monotonic() - started
        return Boot("fail", f"no node starts: {error.message} (after {gone:.1f} s)", error.hint)
    return Boot("ok", f"a node booted and answered in {took:.1f} s")


def show(found: Sequence[Requirement], console: Console) -> None:
    """One requirement a line, its hint beneath."""
    for each in found:
        text, style = MARKS[each.ok]
        line = f"{each.name:<20} {each.found}" + (f"\n     -> {each.hint}" if each.hint else "")
        console.print(Text(text, style), Text(line), soft_wrap=True)


def doctor(
    site: SiteName = DEFAULT,
    hosts: HostsFile = None,
    as_json: AsJson = False,
) -> None:
    """Boot a node; report missing requirements and how to fix them. Exit code 1 when blocklab cannot work here.

    With --hosts: what those hosts have and lack, as `blocklab hosts check` does.
    """
    there = open_site(site, hosts=hosts)
    asked = offered(there, Doctor).requirements()
    found: list[Requirement] = [*asked, *([] if GivenGround in there.offers else [boot(there)])]
    if as_json:
        rows = [{"name": each.name, "ok": each.ok, "found": each.found, "hint": each.hint} for each in found]
        echo_json(json.dumps(rows, indent=1))
    else:
        show(found, Console())
    if any(each.ok == "fail" for each in found):
        raise typer.Exit(1)
