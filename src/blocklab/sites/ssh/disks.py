"""Claims disks: the only way to one. What may be written to is decided on the host, by ``blocklab_node.disks``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from blocklab.errors import SetupError, Unreadable
from blocklab.model import node_programs, outside
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import Disk

# Zeroes are written to the whole volume, which mirrors find alike then: at 60 MB/s and more.
LEAST_SPEED = 20e6
CLAIM_SECONDS = 120.0
# Numbers of the engine's undos begin at 0 with each stack.
FIRST_UNDO = 1_000_000


def equip(host: SshHost) -> None:
    """Put the programs on a host that look at disks and claim them."""
    for name in node_programs.OF_DISKS:
        host.put(node_programs.path(name), node_programs.text(name).encode())


class Taken(msgspec.Struct, frozen=True):
    """A disk that is claimed and held: everything else goes to the device-mapper device with that minor.
    ``stamp``: the id of the stamp on it."""

    host: str
    minor: int
    disk: Disk
    stamp: str = ""


def take(host: SshHost, disk: Disk, minor: int, size: int, *, fresh: bool, zero: bool) -> Taken:
    """Claim a disk and give its first ``size`` bytes a device of their own; ``fresh``: whatever is on it may go;
    ``zero``: it is all zero then. Raises ``SetupError`` with all that speaks against it."""
    undo = node_programs.program("claims", "release", "--minor", str(minor))
    host.note(FIRST_UNDO + minor, undo)
    argv = node_programs.program(
        "claims", "take", disk.id, "--serial", disk.serial, "--size", str(int(disk.size)), "--need", str(size),
        "--minor", str(minor), *(["--fresh"] if fresh else []), *(["--zero"] if zero else []),
    )  # fmt: skip
    ask(host, argv, timeout=CLAIM_SECONDS + size / LEAST_SPEED)
    return Taken(host.name, minor, disk)


def looked_at(host: SshHost, taken: Taken) -> Taken:
    """With the stamp that is on a disk now. Raises ``SetupError`` where it is no longer held by us alone."""
    argv = node_programs.program(
        "disks", "check", taken.disk.id, "--serial", taken.disk.serial, "--size", str(int(taken.disk.size)),
        "--need", "0", "--held", f"dm-{taken.minor}",
    )  # fmt: skip
    stamp = ask(host, argv, timeout=CLAIM_SECONDS)["stamp"]
    if not stamp:
        hint = "does another host use the same disk? Give each a disk of its own"
        raise SetupError(f"{host.name}: the stamp on {taken.disk.id} is gone since it was taken", hint=hint)
    return msgspec.structs.replace(taken, stamp=stamp["id"])


def apart(taken: Sequence[Taken]) -> None:
    """Raises ``SetupError`` where one disk was taken on two hosts, whatever they call it: it has one stamp."""
    seen: dict[str, Taken] = {}
    for each in taken:
        other = seen.setdefault(each.stamp, each)
        if other is not each:
            raise SetupError(
                f"{each.host}: {each.disk.id} is the same disk as {other.disk.id} on {other.host}: both have the "
                f"stamp {each.stamp}",
                hint="give each host a disk of its own in the hosts file; a copy needs blocklab disks claim",
            )


def release(host: SshHost, taken: Taken) -> None:
    """Let go of a disk; what is on it stays. Raises ``SetupError``, ``HostError``."""
    ask(host, node_programs.program("claims", "release", "--minor", str(taken.minor)), timeout=60.0)
    host.done([FIRST_UNDO + taken.minor])


def ask(host: SshHost, argv: tuple[str, ...], *, timeout: float) -> Any:
    """What the host's program answers. Raises ``SetupError`` with every reason of a refusal."""
    result = host.run(argv, timeout=timeout)
    try:
        answer = outside.as_json(result.out, "")
    except Unreadable as error:
        raise SetupError(f"{host.name}: its disks cannot be looked at: {result.said.strip()}") from error
    if result.code != 0:
        reasons = "\n".join(f"  - {reason}" for reason in answer["refused"])
        raise SetupError(f"{host.name}: a disk is refused:\n{reasons}", hint="blocklab disks list shows all disks")
    return answer
