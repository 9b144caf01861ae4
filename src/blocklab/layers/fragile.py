"""A thin device over each volume that can be made to fail: what faults of a volume need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from blocklab.layers.base import Base
from blocklab.model import fragile
from blocklab.model.layer import Layer, Paired, Place, RawVolumes
from blocklab.model.node import program
from blocklab.model.plan import Fact, Kind, Plan, Port, Run, Step, Wait


class Fragile(Base, frozen=True, tag="fragile"):
    """A device over each volume below that the faults ``volume-error`` and ``volume-stall`` can break.

    It is the device mapper's ``linear`` target over the whole volume. It stands directly on the ``volume``, or on
    ``shared``, with everything else above it. A request takes some microseconds more through it, so a drill's
    values are compared with those of stacks that have it too.

    Example::

        - {layer: volume, size: 1GiB}
        - {layer: fragile}
        - {layer: drbd, peer: a2, link: zone}

    Read back before and after each workload: the device's target (``dmsetup table``), and that it is not
    suspended.
    """

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On anything but a volume, which another node may have too."""
        lower = below[-1]
        if isinstance(lower, RawVolumes) or (isinstance(lower, Paired) and lower.one_copy):
            return []
        said = f"fragile makes a volume fail; put it directly on the volume or on shared, not on {lower.tag}"
        return [("", said)]

    def width(self, below: int) -> int:
        return below

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """A mapping of the whole of each device; undone by removing it."""
        host = place.host
        # Without udev, names of devices that are gone stay: the last thing to be undone is to look after them.
        steps: list[Step] = [Run(host, ("modprobe", "dm-mod"), undo=("dmsetup", "mknodes"))]
        facts: list[Fact] = []
        ports: list[Port] = []
        for index, port in enumerate(below):
            name = fragile.name(place.number, index)
            device = f"{fragile.FOLDER}/{name}"
            steps += _mapped(port, name, device)
            suffix = "" if len(below) == 1 else f" of {name}"
            facts += [
                Fact(host, "fragile", ("dmsetup", "table", name),
                     partial(parse_table, suffix), {f"target{suffix}": "linear"}),
                Fact(host, "fragile", ("dmsetup", "info", "-c", "--noheadings", "-o", "suspended", name),
                     partial(_suspended, suffix), {f"state{suffix}": "Active"}),
            ]  # fmt: skip
            ports.append(Port(host, "block", device))
        return Plan(tuple(steps), tuple(facts), tuple(ports))


def _mapped(port: Port, name: str, device: str) -> tuple[Step, ...]:
    host, table = port.host, fragile.table(name)
    # dmsetup wants a major number beside the minor; the kernel has its own, which only a table in the same command
    # would have to know.
    create = ("dmsetup", "create", name, "--notable", "--major", "1", "--minor", fragile.minor(name))
    return (
        Run(
            host,
            program("verbs", "write", table, f"0 {{sectors}} linear {port.where} 0", port.where),
            undo=("rm", "-f", table),
        ),
        Run(host, (*create, "--noudevsync"), undo=("dmsetup", "remove", "--noudevsync", name)),
        Run(host, ("dmsetup", "load", name, table)),
        Run(host, ("dmsetup", "resume", "--noudevsync", name)),
        # Without udev a name may be missing, and a workload would write to a plain file of that name.
        Run(host, ("dmsetup", "mknodes", name)),
        Wait(host, ("test", "-b", device), seconds=5.0),
    )


def parse_table(suffix: str, text: str) -> dict[str, str]:
    """The target that the kernel has for the device."""
    # "0 131072 linear 98:16 0"; after wipe_table "0 131072 error "
    return {f"target{suffix}": text.split()[2]}


def _suspended(suffix: str, text: str) -> dict[str, str]:
    # "Active" or "Suspended"
    return {f"state{suffix}": text.strip()}
