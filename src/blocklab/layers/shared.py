"""One volume that is attached to two nodes: the shared disk of a cluster, active on one of them."""

from __future__ import annotations

from typing import ClassVar

from blocklab.layers.base import Base
from blocklab.model.plan import Fact, Kind, Plan, Port, Run
from blocklab.model.protocols import Map, Place


class Shared(Base, frozen=True, tag="shared"):
    """The volume below is attached to ``peer`` as well, with one and the same cap for both nodes.

    A guard keeps it from being used on both: the device is set read-only on the peer, and that it is so and that
    nobody has it mounted there is asked before and after each load.
    """

    peer: str

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """A peer that is not another known node."""
        if self.peer == host:
            return [("peer", f"{self.peer!r} is the node that the stack is active on; name another node")]
        if self.peer not in map.nodes:
            return [("peer", f"there is no node {self.peer!r}; there are {', '.join(map.nodes)}")]
        return []

    def spans(self, host: str) -> tuple[str, ...]:
        """The host and its peer."""
        return (host, self.peer)

    def width(self, below: int) -> int:
        """As many as below."""
        return below

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Read-only on the peer; the ports of the active side."""
        here = tuple(port for port in below if port.host == place.host)
        there = tuple(port for port in below if port.host != place.host)
        steps = [
            Run(port.host, ("blockdev", "--setro", port.where), undo=("blockdev", "--setrw", port.where))
            for port in there
        ]
        return Plan(tuple(steps), tuple(self._guard(port) for port in there), here)

    def _guard(self, port: Port) -> Fact:
        # lsblk prints "1" and, where it is mounted, the folder; "0" for writable
        ask = ("lsblk", "--noheadings", "--nodeps", "--raw", "--output", "RO,MOUNTPOINTS", port.where)
        wanted = {f"read-only {port.where}": "yes", f"mounted {port.where}": "no"}

        def parse(text: str) -> dict[str, str]:
            read_only, _, mounted = text.strip().partition(" ")
            values = ("yes" if read_only == "1" else "no", mounted.strip() or "no")
            return dict(zip(wanted, values, strict=True))

        return Fact(port.host, "shared", ask, parse, wanted)
