"""Puts a host into a hosts file: its key, its name, its disks."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from blocklab.errors import SetupError
from blocklab.model import node_programs
from blocklab.model.files import write_whole
from blocklab.model.host import must
from blocklab.model.units import Size
from blocklab.sites.ssh.connect import CONNECT_SECONDS, ssh_argv
from blocklab.sites.ssh.disks import ask, equip
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import HostEntry, load
from blocklab.study.read import load_yaml


class SurveyedDisk(msgspec.Struct, frozen=True):
    """A disk as its host's ``disks survey`` tells. ``ids``: paths below /dev/disk/by-id, the best one first;
    ``refused``: all that speaks against it; ``stamp``: blocklab's, where it has claimed it."""

    path: str
    ids: tuple[str, ...]
    serial: str
    size: int
    model: str
    usable: bool
    refused: tuple[str, ...]
    stamp: dict[str, Any] | None


def key_of(entry: HostEntry) -> tuple[str, str]:
    """The host's key: the line for known_hosts, and its fingerprint for people. Raises ``SetupError``."""
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen"
        argv = [*ssh_argv(entry, seen), "true"]
        # Whatever comes after the key, a refused login too, is told when the host is connected.
        argv[1:1] = ["-o", "StrictHostKeyChecking=accept-new", "-o", "HashKnownHosts=no"]
        try:
            said = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * CONNECT_SECONDS, check=False
            ).stderr.decode(errors="replace")
        except FileNotFoundError as error:
            raise SetupError("this machine has no ssh", hint="install OpenSSH's client") from error
        except subprocess.TimeoutExpired as error:
            raise SetupError(f"{entry.address} does not answer") from error
        if not seen.exists():
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise SetupError(f"{entry.address} cannot be reached: {last}", hint="are address and port right?")
        # 256 SHA256:3Vx... 10.0.1.10 (ED25519)
        shown = subprocess.run(["ssh-keygen", "-lf", str(seen)], capture_output=True, check=True).stdout.decode()
        return seen.read_text().strip(), shown.strip()


def keep_key(known_hosts: Path, line: str) -> None:
    """Add a line to the file's own known_hosts; those of that name and kind that are there go. Raises
    ``SetupError``."""
    # [10.0.1.10]:2222 ssh-ed25519 AAAA...
    kept = known_hosts.read_text().splitlines() if known_hosts.exists() else []
    names = line.split()[:2]
    lines = [each for each in kept if each.split()[:2] != names]
    try:
        write_whole(known_hosts, "\n".join([*lines, line, ""]).encode())
    except OSError as error:
        raise SetupError(f"{known_hosts} cannot be written: {error.strerror}") from error


def survey(host: SshHost) -> list[SurveyedDisk]:
    """All disks of a host. Raises ``SetupError``, ``HostError``."""
    equip(host)
    answer = ask(host, node_programs.program("disks", "survey"), timeout=120.0)
    return [msgspec.convert(each, SurveyedDisk) for each in answer["disks"]]


def hostname(host: SshHost) -> str:
    """What it calls itself."""
    return must(host, ("uname", "-n")).strip()


def write(path: Path, name: str, entry: HostEntry, disks: list[SurveyedDisk]) -> None:
    """Put an entry into the file, which is made where it is not there; comments stay. Raises ``SetupError``;
    ``StudyError`` where the file is wrong then."""
    document = load_yaml(path) if path.exists() else CommentedMap()
    entries = document.setdefault("hosts", CommentedMap())
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(entry, disks={}))
    named = {f"disk{number}": disk for number, disk in enumerate(disks, 1)}
    if named:
        plain["disks"] = {
            label: {"id": disk.ids[0], "serial": disk.serial, "size": str(Size(f"{disk.size}B"))}
            for label, disk in named.items()
        }
    entries[name] = plain
    before = path.read_bytes() if path.exists() else None
    yaml = YAML()
    yaml.width = 110
    with tempfile.TemporaryFile("w+b") as text:
        yaml.dump(document, text)
        text.seek(0)
        try:
            write_whole(path, text.read())
        except OSError as error:
            raise SetupError(f"{path} cannot be written: {error.strerror}") from error
    try:
        load(path)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink() if before is None else write_whole(path, before)
        raise
