"""The devices that the layer ``fragile`` makes, by the names that faults find them by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from blocklab.model import places
from blocklab.model.plan import Port

FOLDER = "/dev/mapper"
# The device-mapper's name is the kernel's own for that minor, so that iostat, /proc/diskstats, /sys and
# /proc/mounts all speak of the same device. Other mappings of a node get small minors.
FIRST = 1000
# As many as a stack has volumes.
MOST = 8


def name(number: int, index: int) -> str:
    """The device-mapper's name of a stack's ``index``-th device, from the stack's number."""
    return f"dm-{FIRST + MOST * number + index}"


def minor(device: str) -> str:
    """The minor number in such a name."""
    return device.removeprefix("dm-")


def table(device: str) -> str:
    """The file on the node that holds the device's table while it is whole."""
    return places.run(f"{device}.table")


def devices(ports: Iterable[Port]) -> tuple[str, ...]:
    """The names of the fragile devices among the ports of a host; other device-mapper devices are left out."""
    found = (PurePosixPath(port.where) for port in ports if port.kind == "block")
    return tuple(
        dict.fromkeys(
            path.name
            for path in found
            if str(path.parent) == FOLDER and minor(path.name).isdecimal() and int(minor(path.name)) >= FIRST
        )
    )
