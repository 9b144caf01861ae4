"""``blocklab hosts`` and ``blocklab disks``: what a hosts file needs before a run."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from blocklab.errors import SetupError, StudyError
from blocklab.model import node_programs
from blocklab.model.terminal import Console, Text, echo, echo_json
from blocklab.sites.ssh import add as adding
from blocklab.sites.ssh import needs
from blocklab.sites.ssh.check import Line, checks
from blocklab.sites.ssh.disks import ask, equip
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import HostEntry, known_hosts_of, load
from blocklab.sites.ssh.site import SshSite
from blocklab.study.grid import topology
from blocklab.study.read import read
from blocklab.study.shipped import study_file

hosts_app = typer.Typer(no_args_is_help=True)
disks_app = typer.Typer(no_args_is_help=True)

File = Annotated[Path, typer.Option("--hosts", help="The hosts file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
HOSTS = Path("hosts.yaml")
MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}
CLAIM_SECONDS = 120.0


@hosts_app.command()
def add(
    name: Annotated[str, typer.Argument(help="The node's name in the study.")],
    login: Annotated[str, typer.Argument(metavar="USER@ADDRESS", help="Where ssh reaches it.")],
    hosts: File = HOSTS,
    port: Annotated[int, typer.Option("--port", help="sshd's port.")] = 22,
    identity: Annotated[Path | None, typer.Option("--identity", help="The file of a private key.")] = None,
    ssh_config: Annotated[Path | None, typer.Option("--ssh-config", help="An ssh_config(5) that counts.")] = None,
    become: Annotated[str, typer.Option("--become", help="`sudo`, or `none` for a login as root.")] = "sudo",
    disk: Annotated[
        list[str] | None, typer.Option("--disk", help="Use the disk with this serial; repeatable.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Trust the host's key without a question; you have compared it.")
    ] = False,
) -> None:
    """Put a host into a hosts file: its key, the name that it calls itself, and its disks.

    The key goes to a known_hosts file beside the hosts file. Nothing on the host is changed.
    """
    user, at, address = login.rpartition("@")
    if become not in ("sudo", "none"):
        raise StudyError("", f"--become {become}: it is sudo or none")
    entry = HostEntry(
        address, user if at else "", port, str(identity.absolute()) if identity else "",
        become="none" if become == "none" else "sudo", ssh_config=str(ssh_config.absolute()) if ssh_config else "",
    )  # fmt: skip
    line, fingerprint = adding.key_of(entry)
    echo(f"the key of {address}: {fingerprint}")
    if not yes:
        if not sys.stdin.isatty():
            raise SetupError("nobody is here to compare the key", hint="compare it, then give --yes")
        typer.confirm("Is it the one that the host's console or your provider shows?", abort=True)
    known = known_hosts_of(hosts)
    adding.keep_key(known, line)
    with contextlib.closing(SshHost(name, entry, known)) as host:
        called = adding.hostname(host)
        found = adding.survey(host)
    entry = msgspec.structs.replace(entry, hostname="" if called == name else called)
    show(name, found)
    adding.write(hosts, name, entry, picked(found, disk))
    echo(f"{name} is in {hosts}; links and more: docs/hosts.md; then: blocklab hosts check")


def picked(found: list[adding.SurveyedDisk], serials: list[str] | None) -> list[adding.SurveyedDisk]:
    """The disks to use: those that are named, or those that are chosen. Raises ``StudyError``."""
    usable = [each for each in found if each.usable]
    if serials is None and sys.stdin.isatty() and usable:
        for number, each in enumerate(usable, 1):
            echo(f"  {number}  {each.serial}  {size_of(each.size)}  {each.ids[0]}")
        said = typer.prompt("Disks that blocklab may overwrite, by number (none: just Enter)", default="")
        chosen = [word for word in said.replace(",", " ").split() if word.isdigit() and int(word) <= len(usable)]
        return [usable[int(word) - 1] for word in chosen]
    for serial in serials or ():
        if serial not in [each.serial for each in found]:
            raise StudyError("", f"--disk {serial}: there is no such disk")
    return [each for each in found if each.serial in (serials or ())]


@hosts_app.command()
def check(
    study: Annotated[Path | None, typer.Argument(help="A study: what it needs is looked for too.")] = None,
    hosts: File = HOSTS,
    as_json: AsJson = False,
) -> None:
    """Test everything that a run on the hosts needs; one line for each fact, with a hint. Changes nothing.

    Exit code 1 when something is missing.
    """
    site = SshSite(hosts)
    programs: dict[str, tuple[str, ...]] = {}
    modules: dict[str, tuple[str, ...]] = {}
    if study is not None:
        what = read(study_file(study))
        ground = site.ground(topology(what, list(what.stacks)))
        programs, modules = needs.programs(what, ground), needs.modules(what, ground)
    found = checks(hosts, site.hosts, programs, modules)
    if as_json:
        echo_json(json.dumps([msgspec.to_builtins(line) for line in found], indent=1))
    else:
        told(found)
    if any(line.ok == "fail" for line in found):
        raise typer.Exit(1)


def told(found: list[Line]) -> None:
    """Facts for people."""
    console = Console()
    for line in found:
        text, style = MARKS[line.ok]
        said = f"{line.name:<20} {line.found}" + (f"\n     -> {line.hint}" if line.hint else "")
        console.print(Text(text, style), Text(said), soft_wrap=True)


@disks_app.command("list")
def list_(hosts: File = HOSTS, as_json: AsJson = False) -> None:
    """List the disks of all hosts with what is on them. Reads only."""
    site = SshSite(hosts)
    known = known_hosts_of(hosts)
    found = {}
    for name, entry in site.hosts.hosts.items():
        with contextlib.closing(SshHost(name, entry, known)) as host:
            found[name] = adding.survey(host)
    if as_json:
        echo_json(json.dumps(msgspec.to_builtins(found), indent=1))
        return
    for name, disks in found.items():
        show(name, disks)


def show(name: str, disks: list[adding.SurveyedDisk]) -> None:
    """A host's disks as a table."""
    rows = Table(name, "size", "serial", "id", "use", box=None, pad_edge=False)
    for each in disks:
        # What speaks against it begins with its path.
        reasons = (reason.removeprefix(each.path).lstrip(": ") for reason in each.refused)
        state = "it can be used" if each.usable else "; ".join(reasons)
        state = f"claimed by blocklab; {state}" if each.stamp else state
        rows.add_row(
            each.path, size_of(each.size), each.serial or "none", each.ids[0] if each.ids else "none", state
        )
    Console().print(rows)


def size_of(size: int) -> str:
    """Bytes for people."""
    return f"{size / 2**30:,.4g} GiB"


@disks_app.command()
def claim(
    host: Annotated[str, typer.Argument(help="The host's name in the hosts file.")],
    disk: Annotated[str, typer.Argument(help="The disk's name there.")],
    hosts: File = HOSTS,
) -> None:
    """Claim a disk that holds data which nobody needs: blocklab's stamp goes to its first MiB.

    A disk that is in use, has partitions or a signature is refused: remove those by hand first. Asks for the
    disk's serial to be typed.
    """
    file = load(hosts)
    if host not in file.hosts or disk not in file.hosts[host].disks:
        raise StudyError("", f"{hosts} has no disk {disk} of {host}", hint="blocklab disks list")
    entry = file.hosts[host].disks[disk]
    with contextlib.closing(SshHost(host, file.hosts[host], known_hosts_of(hosts))) as there:
        show(host, [each for each in adding.survey(there) if entry.id in each.ids])
        typed = typer.prompt("Everything on this disk will be lost. Its serial")
        if typed.strip() != entry.serial:
            raise SetupError(f"{typed} is not its serial; nothing was changed")
        equip(there)
        argv = node_programs.program(
            "claims", "claim", entry.id, "--serial", entry.serial, "--size", str(int(entry.size))
        )
        ask(there, argv, timeout=CLAIM_SECONDS)
    echo(f"{disk} of {host} is claimed")
