"""What DRBD's two sides do when one of them is gone, and when it comes back; and how they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blocklab.layers import checksum
from blocklab.model import access
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Put, Run, Step
from blocklab.model.spans import Comparison, Follow
from blocklab_node.drbd import QUICKLY, SYNC_SECONDS

# Of two sides that parted the one that finds it first drops the connection, often before the other one could find
# it; it is to be found on the active one.
MEETINGS = 4
# The kernel has it built in, and it is the quickest one; an independent SHA-256 stands beside it.
VERIFY_ALG = "crc32c"

# A line of ``drbdsetup events2``; its events have the names of DRBD 9, whichever the driver is:
#   exists connection name:one peer-node-id:0 conn-name:peer connection:Connected role:Primary
STATE = r"^(?:exists|create|change) connection .*\bconnection:(\w+)"
# After the connections that there are at the start:
LISTED = r"^exists -$"
# The states of a connection that is none; Connecting is what DRBD 8.4 calls WFConnection.
LOST = (
    "StandAlone", "Disconnecting", "Unconnected", "Timeout", "BrokenPipe", "NetworkFailure", "ProtocolError",
    "TearDown", "Connecting", "WFConnection", "WFReportParams",
)  # fmt: skip

# The options that it then sets for as long as it takes.
RATES = frozenset(option.removeprefix("--").partition("=")[0] for option in QUICKLY)


def ask(minor: int, what: str, stack: str) -> Argv:
    """The command ``what`` of the program that knows both drivers."""
    return program("drbd", what, str(minor), stack)


def loaded(host: str, minor: int, stack: str, config: str) -> tuple[Step, ...]:
    """The driver, and the resource file as it reads one; root's alone where a secret is in it."""
    path = f"/etc/drbd.d/{stack}.res"
    secret = access.SECRET in config
    return (
        # There are no handlers; asking drbdadm for them at each change only takes the node's time.
        Run(host, ("modprobe", "drbd", "usermode_helper=disabled")),
        Put(host, path, config, access.MODE, access.MIRROR) if secret else Put(host, path, config),
        Run(host, ask(minor, "fit", stack)),
    )


def connection(stack: str) -> Follow:
    """What DRBD tells of the resource's connection."""
    return Follow(stack, ("drbdsetup", "events2", stack), STATE, LOST, LISTED)


def promoted(host: str, stack: str) -> tuple[Step, ...]:
    """Active without the other side, of which nothing is awaited any more."""
    return (
        # Without --force it would wait for the silent peer, for seconds.
        Run(host, ("drbdadm", "disconnect", "--force", stack)),
        Run(host, ("drbdadm", "primary", stack), undo=("drbdadm", "secondary", stack)),
    )


def joined(
    here: str, there: str, stack: str, minor: int, config: str, *, quickly: bool
) -> tuple[Step, ...]:  # fmt: skip
    """The node ``there``, just booted, taken in again; at the end both sides are up to date.

    Where both were written to, DRBD refuses to connect them: that is an error here, and ``parted`` says it.
    """
    return (
        # Before the other side is up: nothing is to happen before the mark.
        Run(here, ask(minor, "mark", stack)),
        *loaded(there, minor, stack, config),
        # Like "up", also where it was never taken down: on a node that was only cut off.
        Run(there, ("drbdadm", "adjust", stack), undo=("drbdadm", "down", stack)),
        *rates((here, there), minor, stack, quickly=quickly),
        Run(here, ("drbdadm", "connect", stack)),
        Run(here, ask(minor, "met", stack)),
        *(
            Run(host, ask(minor, what, stack))
            for _ in range(1, MEETINGS)
            for host, what in ((there, "again"), (here, "met"))
        ),
        up_to_date(here, minor, stack),
        *as_written((here, there), stack, quickly=quickly),
    )


def up_to_date(host: str, minor: int, stack: str) -> Run:
    """Waits until both sides are connected and up to date."""
    return Run(host, ask(minor, "joined", stack), timeout=SYNC_SECONDS + 60.0)


def compared(
    here: str, stack: str, minor: int, sides: Mapping[str, str], *, algorithm: str, quickly: bool
) -> Comparison:
    """Both sides compared by checksums of the devices below, and by DRBD. ``algorithm``: empty where one is set
    already. What is chosen for it is taken back: each time again, since a new connection would forget it."""
    chosen = (Run(here, ("drbdadm", "net-options", f"--verify-alg={algorithm}", stack)),) if algorithm else ()
    hurried, back = rates(sides, minor, stack, quickly=quickly), as_written(sides, stack, quickly=quickly)
    return Comparison(
        settle=(
            # After an I/O error a side goes on with the other one's disk, for good.
            *(Run(host, ask(minor, "attached", stack)) for host in sides),
            *hurried,
            # A fault that has just been mended may have parted them; then they find each other by themselves.
            up_to_date(here, minor, stack),
            *back,
        ),
        copies={host: checksum.of_beginning(device, f"drbd{minor}") for host, device in sides.items()},
        verify=(
            *hurried,
            *chosen,
            Run(here, ("drbdadm", "verify", stack)),
            Run(here, ask(minor, "verified", stack), timeout=SYNC_SECONDS + 60.0),
            *back,
        ),
        differ=(here, ask(minor, "differ", stack)),
    )


def rates(hosts: Iterable[str], minor: int, stack: str, *, quickly: bool, once: bool = False) -> tuple[Step, ...]:
    """As fast as it can, until ``as_written``."""
    return tuple(Run(host, ask(minor, "hurry", stack), once=once) for host in hosts) if quickly else ()


def as_written(hosts: Iterable[str], stack: str, *, quickly: bool, once: bool = False) -> tuple[Step, ...]:
    """The options that the resource file has."""
    return tuple(Run(host, ("drbdadm", "adjust", stack), once=once) for host in hosts) if quickly else ()
