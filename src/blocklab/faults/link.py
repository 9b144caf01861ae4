"""Faults of links: cut, lossy, slow. All of them are netem's, on top of what the link has of it anyway."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from blocklab.faults.base import FaultBase
from blocklab.faults.node import named
from blocklab.model.fault import Scene
from blocklab.model.netem import NETEM_LIMIT, netem
from blocklab.model.plan import Argv, Run, Step
from blocklab.model.site import EmulatedLinks
from blocklab.model.units import Duration, Share

# netem wants an argument.
_BARE: Argv = ("limit", str(NETEM_LIMIT))
_FROM = "from "


class _OnLink(FaultBase, frozen=True):
    needs: ClassVar[tuple[type, ...]] = (EmulatedLinks,)
    link: str
    """The link by its name. The stack has to send data over it."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A link that the stack does not use."""
        found = FaultBase.problems(self, scene)
        if self.link not in scene.ground.ends or self.link not in scene.links:
            used = ", ".join(scene.ground.ends) or "none"
            found.append(
                ("link", f"the stack {scene.stack} has no link {self.link!r}; those that it uses: {used}")
            )
            return found
        return found + self.own_problems(scene)

    def own_problems(self, scene: Scene) -> list[tuple[str, str]]:
        """What is wrong with the fault's own fields, the link being there."""
        return []

    def ends(self, scene: Scene) -> tuple[str, ...]:
        """The nodes whose sending is changed."""
        return scene.links[self.link].between

    def broken(self, scene: Scene, host: str) -> Argv:
        """netem's arguments there while it is broken."""
        raise NotImplementedError

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """netem with the fault, in place of what is there, on each lane."""
        return tuple(
            Run(host, _replace(lane, self.broken(scene, host)))
            for host in self.ends(scene)
            for lane in scene.ground.ends[self.link][host].lanes
        )

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """The link's own netem again, or none where it has none. It may be healed twice."""
        steps: list[Step] = []
        for host in self.ends(scene):
            whole = own(scene, self.link, host)
            for lane in scene.ground.ends[self.link][host].lanes:
                steps.append(Run(host, _replace(lane, whole or _BARE)))
                if not whole:
                    # Replaced before, so that there is one to remove even if the node has booted again.
                    steps.append(Run(host, ("tc", "qdisc", "del", "dev", lane, "root")))
        return tuple(steps)


def own(scene: Scene, name: str, host: str, more: float = 0.0) -> Argv:
    """The link's own arguments for netem at one end, with ``more`` delay (s); empty for an end without."""
    link = scene.links[name]
    delay = scene.ground.delays.get(name, link.rtt) + more
    # A link without any delay of its own has one only while it is slow.
    asked = msgspec.structs.replace(link, rtt=Duration(f"{delay}s")) if more else link
    return netem(asked, first=host == link.between[0], delay=delay)[0]


def _replace(lane: str, argv: Argv) -> Argv:
    # Where there is a netem already, this changes it: packets under way stay in its queue.
    return ("tc", "qdisc", "replace", "dev", lane, "root", "netem", *argv)


class _Dropping(_OnLink, frozen=True):
    direction: str = "both"
    """``both``, or ``from`` with a node: only what that node sends is lost. The node is ``active``, ``peer`` or a
    name: ``from a1``."""

    def own_problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A direction that is none of this link's."""
        between = scene.links[self.link].between
        if self.direction == "both" or self._sender(scene) in between:
            return []
        hints = ", ".join(["both", *(f"from {node}" for node in between)])
        return [("direction", f"{self.direction!r} is no direction of the link {self.link}; give one of {hints}")]

    def _sender(self, scene: Scene) -> str:
        if not self.direction.startswith(_FROM):
            return ""
        return named(self.direction.removeprefix(_FROM).strip(), scene)

    def ends(self, scene: Scene) -> tuple[str, ...]:
        """Both, or the one that the direction names."""
        return scene.links[self.link].between if self.direction == "both" else (self._sender(scene),)

    def lost(self) -> float:
        """The share of packets that do not arrive, 0 to 1."""
        raise NotImplementedError

    def broken(self, scene: Scene, host: str) -> Argv:
        """The link's own, with loss."""
        return (*(own(scene, self.link, host) or _BARE), "loss", f"{100 * self.lost():.6g}%")


class LinkCut(_Dropping, frozen=True, tag="link-cut"):
    """A link that carries nothing any more, both ways or one way, while both nodes go on.

    All lanes of a bonded link are cut. The interfaces stay up, as with a broken line behind a switch: netem's
    ``loss 100%`` at the sending ends.

    Example::

        faults:
          cut: {fault: link-cut, link: zone, at: 5s, for: 10s}
          deaf: {fault: link-cut, link: zone, direction: from a1, at: 4s..8s}
    """

    def lost(self) -> float:
        """All."""
        return 1.0


class LinkLoss(_Dropping, frozen=True, tag="link-loss"):
    """A link that loses packets at random: netem's ``loss`` at the sending ends.

    Example::

        faults:
          lossy: {fault: link-loss, link: zone, loss: 5%, at: 5s, for: 10s}
    """

    loss: Share = msgspec.field(default_factory=lambda: Share("5%"))
    """Of the packets in each direction that it has, more than 0% and less than 100%."""

    def own_problems(self, scene: Scene) -> list[tuple[str, str]]:
        """Nothing lost, or everything."""
        found = _Dropping.own_problems(self, scene)
        if self.loss >= 1:
            found.append(("loss", f"{self.loss}: a link that loses everything is a link-cut; take that"))
        elif self.loss < 1e-6:
            found.append(("loss", f"{self.loss}: must be at least 0.0001%"))
        return found

    def lost(self) -> float:
        """What was asked."""
        return float(self.loss)


class LinkSlow(_OnLink, frozen=True, tag="link-slow"):
    """A link on which everything takes longer, as by a detour: netem's ``delay`` at its first end.

    Jitter and rate stay what they are.

    Example::

        faults:
          detour: {fault: link-slow, link: zone, rtt: 50ms, at: 5s, for: 10s}
    """

    rtt: Duration = msgspec.field(default_factory=lambda: Duration("50ms"))
    """The round trip that a ping then shows: more than the link's own, at most 5 s."""

    def own_problems(self, scene: Scene) -> list[tuple[str, str]]:
        """A link that would become faster, or dead."""
        usual = scene.links[self.link].rtt
        if self.rtt > 5:
            return [("rtt", f"{self.rtt}: over 5 s; take link-cut for a link that is as good as dead")]
        if self.rtt <= usual:
            return [("rtt", f"{self.rtt} is not slower than the link's own {usual}; give more")]
        return []

    def ends(self, scene: Scene) -> tuple[str, ...]:
        """The one that has the delay."""
        return scene.links[self.link].between[:1]

    def broken(self, scene: Scene, host: str) -> Argv:
        """The link's own, with the other delay."""
        return own(scene, self.link, host, self.rtt - scene.links[self.link].rtt)
