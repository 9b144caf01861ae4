"""Faults of whole nodes: crash, power cut, freeze."""

from __future__ import annotations

from typing import ClassVar

from blocklab.faults.base import FaultBase
from blocklab.model.fault import Scene
from blocklab.model.plan import Power, Step
from blocklab.model.site import Pauses
from blocklab.model.site import Power as PowerControl


def named(node: str, scene: Scene) -> str:
    """The node that ``active``, ``peer`` or a name stands for; empty where the stack has none."""
    return {"active": scene.active, "peer": scene.peer}.get(node, node)


def node_problems(node: str, scene: Scene) -> list[tuple[str, str]]:
    """A node that the stack does not stand on."""
    there = scene.nodes
    if named(node, scene) not in there:
        return [("node", f"the stack {scene.stack} has no node {node!r}; it has {', '.join(there)}")]
    return []


class Crash(FaultBase, frozen=True, tag="crash"):
    """A node is gone at once: all of its processes get SIGKILL. What its kernel had in memory is lost; what its
    volumes had taken is kept.

    Example::

        faults:
          kill: {fault: crash, at: 4s..8s}
    """

    needs: ClassVar[tuple[type, ...]] = (PowerControl,)

    node: str = "active"
    """``active``, ``peer`` or a node's name."""

    refused: ClassVar[tuple[str, ...]] = ("for",)

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A node that the stack does not stand on; a crash that is to end by itself."""
        found = FaultBase.problems(self, scene) + node_problems(self.node, scene)
        if self.lasts is not None:
            found.append(("for", "a crashed node stays down until the end of the drill; leave it out"))
        return found

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """SIGKILL."""
        return (Power(named(self.node, scene), "crash"),)


class PowerCut(FaultBase, frozen=True, tag="power-cut"):
    """All nodes of the stack are gone at once, as when the room loses its power.

    Afterwards they are booted, the active one starts from its own copy of the data, and the other one is taken in
    again. So it is refused where a ``volume-error`` has come before on the active node of a mirror: the other node
    alone has what was written since.

    Example::

        faults:
          dark: {fault: power-cut, at: 5s}
    """

    needs: ClassVar[tuple[type, ...]] = (PowerControl,)

    refused: ClassVar[tuple[str, ...]] = ("for",)

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """One that is to end by itself."""
        found = FaultBase.problems(self, scene)
        if self.lasts is not None:
            found.append(("for", "the nodes are booted again at the end of the drill; leave it out"))
        return found

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """SIGKILL to one after the other, without a pause."""
        return tuple(Power(host, "crash") for host in scene.nodes)


class Freeze(FaultBase, frozen=True, tag="freeze"):
    """A node stands still (SIGSTOP), as one does whose hypervisor is busy: it does not answer, keeps its memory
    and, thawed, goes on as if nothing had been.

    Example::

        faults:
          pause: {fault: freeze, at: 5s, for: 3s}
    """

    needs: ClassVar[tuple[type, ...]] = (Pauses,)

    node: str = "active"
    """``active``, ``peer`` or a node's name."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A node that the stack does not stand on."""
        return FaultBase.problems(self, scene) + node_problems(self.node, scene)

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """SIGSTOP."""
        return (Power(named(self.node, scene), "freeze"),)

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """SIGCONT."""
        return (Power(named(self.node, scene), "thaw"),)
