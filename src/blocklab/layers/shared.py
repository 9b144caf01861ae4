"""One volume that is attached to two nodes: the shared disk of a cluster, active on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from blocklab.layers.base import PROMOTION, WithPeer, peer_problems
from blocklab.model import outside
from blocklab.model.ground import Topology
from blocklab.model.layer import Layer, Place, RawVolumes
from blocklab.model.plan import Fact, Plan, Port, Run, Step
from blocklab.model.spans import Stage


class Shared(WithPeer, frozen=True, tag="shared"):
    """One volume that is attached to two nodes: the shared disk of a cluster, active on one of them.

    It stands directly on the volume, whose caps hold for what both nodes do together.

    Example::

        - {layer: volume, size: 1GiB, iops: 3000}
        - {layer: shared, peer: a2}

    A guard keeps it from being used on both. On the peer the kernel holds the device for a mapping of its own
    (``dmsetup``, its first 4 KiB, read-only), so that mounting it there fails as busy, read-only or not; and the
    device is set read-only there (``blockdev --setro``), so that nothing writes to it past a mount. Building is
    refused where the peer has it mounted.

    Read back on the peer, before and after each workload: read-only, not mounted, held.
    """

    links: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str] = "Shared volume"

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        return peer_problems(self.peer, host, lab)

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On anything but the volume itself."""
        if isinstance(below[-1], RawVolumes):
            return []
        said = "shared is a volume that two nodes have; put it directly on the volume"
        return [("", f"{said}, not on {below[-1].tag}")]

    def width(self, below: int) -> int:
        return below

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Read-only and held on the peer; the ports of the active side."""
        here = tuple(port for port in below if port.host == place.host)
        there = tuple(port for port in below if port.host != place.host)
        steps: list[Run] = []
        facts: list[Fact] = []
        for index, port in enumerate(there):
            device, hold = port.where, _hold(place, index)
            table = ("--readonly", "--table", f"0 8 linear {device} 0")
            steps += [
                Run(port.host, ("modprobe", "dm-mod")),
                Run(port.host, ("blockdev", "--setro", device), undo=("blockdev", "--setrw", device)),
                # A mount and a mapping both claim a device for themselves alone: the kernel refuses the second.
                Run(
                    port.host,
                    ("dmsetup", "create", hold, "--noudevsync", *table),
                    undo=("dmsetup", "remove", "--noudevsync", hold),
                ),
            ]
            facts += _guard(port, hold)
        return Plan(tuple(steps), tuple(facts), here)

    def takeover(self, place: Place, below: tuple[Port, ...], gone: Sequence[str]) -> tuple[Stage, ...]:
        """The guard's hold let go, the device writable. What keeps the other node from writing is not here: it has
        to be gone."""
        steps: list[Run] = []
        for index, port in enumerate(port for port in below if port.host == place.host):
            steps += [
                # Not removed, which the undo of the build is still going to do; without a table it holds nothing.
                Run(port.host, ("dmsetup", "wipe_table", "--noudevsync", _hold(place, index))),
                Run(port.host, ("blockdev", "--setrw", port.where)),
                # What was read of it so far is out of date: the other node has written since.
                Run(port.host, ("blockdev", "--flushbufs", port.where)),
            ]
        return (Stage(PROMOTION, tuple(steps)),)

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Stage, ...]:
        """Nothing: the active node's device has no guard."""
        return ()

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """The device is writable. Who else has it can only be asked there."""
        return tuple(
            Fact(port.host, "shared", ("lsblk", "--json", "--nodeps", "--output", "RO", port.where),
                 partial(_read_only, port.where), {f"read-only {port.where}": "no"})
            for port in below if port.host == place.host
        )  # fmt: skip

    def rejoin(self, place: Place, below: tuple[Port, ...], back: Sequence[str]) -> tuple[Step, ...]:
        """The guard on the other node."""
        return self.plan(place, below).steps


def _hold(place: Place, index: int) -> str:
    return f"{place.stack}-held-{index}"


def _guard(port: Port, hold: str) -> tuple[Fact, ...]:
    device = port.where
    read_only, mounted, held = f"read-only {device}", f"mounted {device}", f"held {device}"
    return (
        Fact(
            port.host, "shared", ("lsblk", "--json", "--nodeps", "--output", "RO,MOUNTPOINTS", device),
            partial(_use, read_only, mounted), {read_only: "yes", mounted: "no"},
        ),
        Fact(port.host, "shared", ("dmsetup", "info", "-c", "--noheadings", "-o", "name"),
             partial(_held, held, hold), {held: "yes"}),
    )  # fmt: skip


def _use(read_only: str, mounted: str, text: str) -> dict[str, str]:
    # {"blockdevices": [{"ro": true, "mountpoints": [null]}]}, and ["/media"] where it is mounted; an empty list
    # where the kernel has it for something else
    device = outside.as_json(text, "lsblk")["blockdevices"][0]
    folders = [folder for folder in device["mountpoints"] if folder]
    return {read_only: "yes" if device["ro"] else "no", mounted: ", ".join(folders) or "no"}


def _read_only(device: str, text: str) -> dict[str, str]:
    # {"blockdevices": [{"ro": false}]}
    return {f"read-only {device}": "yes" if outside.as_json(text, "lsblk")["blockdevices"][0]["ro"] else "no"}


def _held(held: str, hold: str, text: str) -> dict[str, str]:
    # one name a line; "No devices found" without any
    return {held: "yes" if hold in text.splitlines() else "no"}
