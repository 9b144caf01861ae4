"""What a network mirror's two sides do when one is gone, and when it comes back; and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping

from blocklab.layers import checksum
from blocklab.model import places
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Put, Run, Step
from blocklab.model.spans import Comparison
from blocklab_node.net_mirror import SYNC_SECONDS


def assembled(host: str, mirror: str, local: str) -> tuple[Step, ...]:
    """The array of its local leg alone."""
    return (
        Run(host, ("modprobe", "raid1")),
        Run(host, ("mdadm", "--assemble", "--run", mirror, local), undo=("mdadm", "--stop", mirror)),
    )


def copied(host: str, mirror: str) -> Run:
    """Waits until an array that was just made has copied what its members have to have in common."""
    return Run(host, program("net_mirror", "copied", mirror), once=True, timeout=SYNC_SECONDS + 60.0)


def promoted(host: str, stack: str, mirror: str, local: str, stop: Argv) -> tuple[Step, ...]:
    """The leg that ``nbd-server`` has served, until ``stop`` ends it, as an array of its own."""
    return (
        Run(host, stop),
        # The server wrote to memory, past which the array reads and writes.
        Run(host, ("blockdev", "--flushbufs", local)),
        *assembled(host, mirror, local),
        Run(host, program("net_mirror", "own", mirror, local)),
        # From now on the other leg can be told by the bitmap: see joined().
        Put(host, _moved(stack), "taken over\n"),
    )


def joined(
    here: str, stack: str, mirror: str, remote: str, connect: Argv, served: tuple[Step, ...], *,
    mostly: bool, bitmap: bool,
) -> tuple[Step, ...]:  # fmt: skip
    """The leg of the other node, which has just booted or was only given up, served, connected and brought into
    sync.

    By the bitmap only where the other node was the active one when it went: its own kernel then wrote to the
    volume. Of a leg that was served what the server had in memory is lost, which no bitmap knows, so it is copied
    whole. Where both legs were in use without each other nothing is copied: an error here, and ``parted`` says it.
    """
    parts = (*(("mostly",) if mostly else ()), *(("bitmap", _moved(stack)) if bitmap else ()))
    left = program("net_mirror", "leave", mirror, remote)
    return (
        *served,
        Run(here, ("modprobe", "nbd", "nbds_max=0")),
        Run(here, left),
        Run(here, connect, undo=left),
        Run(here, program("net_mirror", "join", mirror, remote, *parts), timeout=SYNC_SECONDS + 60.0),
    )


def compared(here: str, mirror: str, remote: str, sides: Mapping[str, str]) -> Comparison:
    """Both legs compared by checksums of their data areas, and by MD."""
    return Comparison(
        settle=(Run(here, program("net_mirror", "settle", mirror), timeout=SYNC_SECONDS + 60.0),),
        copies={host: checksum.of_member(device) for host, device in sides.items()},
        verify=(Run(here, program("net_mirror", "check", mirror), timeout=SYNC_SECONDS + 60.0),),
        differ=(here, program("net_mirror", "differ", mirror)),
        lone=(here, program("net_mirror", "lone", mirror, remote)),
    )


def _moved(stack: str) -> str:
    return places.run(f"{stack}-moved")
