"""Faults of volumes: errors, stalls, no room."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.faults.base import FaultBase
from blocklab.faults.node import named, node_problems
from blocklab.model import fragile, mapping
from blocklab.model.fault import Scene
from blocklab.model.node_programs import program
from blocklab.model.plan import Run, Step

FILE = "blocklab-fill"


class _OnVolume(FaultBase, frozen=True):
    node: str = "active"
    """The node whose volumes it is: ``active``, ``peer`` or a name."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A node that the stack does not stand on, a stack without the layer that makes it possible."""
        found = FaultBase.problems(self, scene) + node_problems(self.node, scene)
        host = named(self.node, scene)
        if not found and not fragile.devices(scene.ports.get(host, ())):
            found.append(
                (
                    "node",
                    f"the stack {scene.stack} has nothing on {host} that can be made to fail; "
                    "put {layer: fragile} on its volume",
                )
            )
        return found

    def on(self, scene: Scene) -> Iterator[tuple[str, str]]:
        """(host, device-mapper name) of each of the node's volumes."""
        host = named(self.node, scene)
        for device in fragile.devices(scene.ports.get(host, ())):
            yield host, device


class VolumeError(_OnVolume, frozen=True, tag="volume-error"):
    """Every read and write of a node's volumes fails with an I/O error, as of a disk that is gone.

    What was written before is kept, and is there again once it is mended; whoever used the device may have given
    it up by then (DRBD detaches, a file system goes read-only). At the drill's end DRBD takes it
    back, and what it lacks is copied. The stack needs the layer ``fragile``, whose table is wiped (``dmsetup
    wipe_table``) and loaded again.

    Example::

        faults:
          broken: {fault: volume-error, node: active, at: 5s}
    """

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """The error target. The file system is not reported first: a disk does not say that it is about to die."""
        return tuple(
            Run(host, ("dmsetup", "wipe_table", "--noudevsync", "--noflush", "--nolockfs", device))
            for host, device in self.on(scene)
        )

    def stale(self, scene: Scene) -> str:
        return named(self.node, scene)

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """The table that it had."""
        steps: list[Step] = []
        for host, device in self.on(scene):
            steps += [
                Run(host, ("dmsetup", "load", device, mapping.table(device))),
                Run(host, ("dmsetup", "resume", "--noudevsync", "--noflush", "--nolockfs", device)),
            ]
        return tuple(steps)


class VolumeStall(_OnVolume, frozen=True, tag="volume-stall"):
    """Every read and write of a node's volumes waits, and goes on once it is mended: ``dmsetup suspend`` and
    ``resume`` of the layer ``fragile``, which the stack needs.

    Example::

        faults:
          stuck: {fault: volume-stall, node: peer, at: 5s, for: 5s}
    """

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """Suspend, without a file system's chance to write back first."""
        return tuple(
            Run(host, ("dmsetup", "suspend", "--noudevsync", "--noflush", "--nolockfs", device))
            for host, device in self.on(scene)
        )

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """Resume; what waited goes on."""
        return tuple(Run(host, ("dmsetup", "resume", "--noudevsync", device)) for host, device in self.on(scene))


class VolumeFull(FaultBase, frozen=True, tag="volume-full"):
    """The stack's file system has no room left, not even what is reserved for root. Mended by making room
    again; after a takeover, on the survivor.

    One file takes all blocks (``posix_fallocate``). Files that have their blocks already, as a database's log
    segments, can still be written to, so that a database may take a while to notice.

    Example::

        faults:
          full: {fault: volume-full, at: 5s, for: 10s}
    """

    node: str = "active"
    """The node whose file system it is: ``active``, or the name of the active node, since the other one has none
    mounted."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A node without a file system of the stack."""
        found = FaultBase.problems(self, scene) + node_problems(self.node, scene)
        if not found and not self._folders(scene):
            host = named(self.node, scene)
            hint = "give node: active" if host != scene.active else "put {layer: xfs} or {layer: ext4} on it"
            found.append(("node", f"the stack {scene.stack} has no file system on {host}; {hint}"))
        return found

    def _folders(self, scene: Scene) -> tuple[str, ...]:
        ports = scene.ports.get(named(self.node, scene), ())
        return tuple(port.where for port in ports if port.kind == "dir")

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """Fill it."""
        host = named(self.node, scene)
        return tuple(Run(host, program("fill", f"{folder}/{FILE}")) for folder in self._folders(scene))

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """Make room."""
        return self.mend_data(scene, named(self.node, scene))

    def mend_data(self, scene: Scene, host: str) -> tuple[Step, ...]:
        """Make room: the file is in the file system, which goes to the survivor in a takeover and has the same
        place there."""
        folders = (port.where for port in scene.ports.get(scene.active, ()) if port.kind == "dir")
        return tuple(Run(host, ("rm", "-f", f"{folder}/{FILE}")) for folder in folders)
