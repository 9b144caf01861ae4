"""How a takeover is decided and done: what a study may say of it."""

from __future__ import annotations

import msgspec

from blocklab.model.units import Duration


class Takeover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the survivor takes over, and how.

    A monitor on the survivor pings the active node and follows the mirror's connection. The node is taken for dead
    after ``misses`` pings in a row without an answer, or when the mirror has lost its connection and one ping has
    had none. Then the old node is fenced, the mirror promoted, the file system mounted and the database recovered.
    A layer may name other signs and stages, and several survivors: the first one takes over, and each next one
    does where its monitors take for dead all that come before it.

    Example::

        takeover: {interval: 200ms, misses: 3}
    """

    interval: Duration = msgspec.field(default_factory=lambda: Duration("200ms"))
    """Between two pings; an answer that takes longer counts as missed."""
    misses: int = 3
    """Pings in a row without an answer after which the node is taken for dead; ``interval`` times ``misses`` must
    be more than the rtt of the link between both. Monitoring starts with the first reply."""
    fence: bool = True
    """Cut the old node's power before the takeover. Without it, a node that was only frozen or cut off goes on
    writing, and both sides have what the other one lacks (split brain)."""
    wait: Duration = msgspec.field(default_factory=lambda: Duration("30s"))
    """How long the drill waits for writes to be accepted again: after the takeover, and after the last fault."""

    def problems(self) -> list[tuple[str, str]]:
        """Times and counts that make no sense."""
        found = []
        if not 0.02 <= self.interval <= 10:
            found.append(("interval", f"{self.interval}: must be from 20ms to 10s"))
        if not 1 <= self.misses <= 100:
            found.append(("misses", "must be from 1 to 100"))
        if not 1 <= self.wait <= 600:
            found.append(("wait", f"{self.wait}: must be from 1s to 600s"))
        return found
