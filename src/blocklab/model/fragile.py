"""The devices that the layer ``fragile`` makes, by the names that faults find them by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from blocklab.model import mapping, numbers
from blocklab.model.plan import Port


def devices(ports: Iterable[Port]) -> tuple[str, ...]:
    """The names of the fragile devices among the ports of a host; other device-mapper devices are left out."""
    found = (PurePosixPath(port.where) for port in ports if port.kind == "block")
    return tuple(
        dict.fromkeys(
            path.name
            for path in found
            if str(path.parent) == mapping.FOLDER
            and (number := mapping.minor(path.name)).isdecimal()
            and numbers.FRAGILE.has(int(number))
        )
    )
