"""Claims disks: the only way to one. What may be written to is decided on the host, by ``blocklab_node.disks``."""

from __future__ import annotations

from typing import Any

import msgspec

from blocklab.errors import SetupError, Unreadable
from blocklab.model import node, outside
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import Disk

# Zeroes are written to the whole volume, which mirrors find alike then: at 60 MB/s and more.
LEAST_SPEED = 20e6
CLAIM_SECONDS = 120.0
# Numbers of the engine's undos begin at 0 with each stack.
FIRST_UNDO = 1_000_000


def equip(host: SshHost) -> None:
    """Put the programs on a host that look at disks and claim them."""
    for name in node.OF_DISKS:
        host.put(node.path(name), node.text(name).encode())


class Taken(msgspec.Struct, frozen=True):
    """A disk that is claimed and held: everything else goes to the device-mapper device with that minor."""

    host: str
    minor: int


def take(host: SshHost, disk: Disk, minor: int, size: int, *, fresh: bool, zero: bool) -> Taken:
    """Claim a disk and give its first ``size`` bytes a device of their own; ``fresh``: whatever is on it may go;
    ``zero``: it is all zero then. Raises ``SetupError`` with all that speaks against it."""
    undo = node.program("claims", "release", "--minor", str(minor))
    host.note(FIRST_UNDO + minor, undo)
    argv = node.program(
        "claims", "take", disk.id, "--serial", disk.serial, "--size", str(int(disk.size)), "--need", str(size),
        "--minor", str(minor), *(["--fresh"] if fresh else []), *(["--zero"] if zero else []),
    )  # fmt: skip
    ask(host, argv, timeout=CLAIM_SECONDS + size / LEAST_SPEED)
    return Taken(host.name, minor)


def release(host: SshHost, taken: Taken) -> None:
    """Let go of a disk; what is on it stays. Raises ``SetupError``, ``HostError``."""
    ask(host, node.program("claims", "release", "--minor", str(taken.minor)), timeout=60.0)
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
