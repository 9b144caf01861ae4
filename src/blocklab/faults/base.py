"""What all faults have in common: when they strike, and for how long."""

from __future__ import annotations

import random
import re
from typing import ClassVar, Literal

import msgspec

from blocklab.model.fault import Scene
from blocklab.model.units import Duration

# What a drill waits for at most, and how long a fault may last.
MOST_SECONDS = 3600.0
# How long a steady rate is waited for.
SETTLED_SECONDS = 30.0
# "5s", "4s..8s"
_RANGE = re.compile(r"(?P<low>[^.]+(?:\.\d+[^.]*)?)\.\.(?P<high>.+)")


class FaultBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="fault", kw_only=True):
    """A fault: when it strikes and how long it lasts."""

    at: str = ""
    """How long after the workload's start: ``5s``, or at a random moment, which the drill's seed decides:
    ``4s..8s``. With ``when`` it counts from then."""
    when: Literal["", "settled"] = ""
    """``settled``: once the rate of acknowledged transactions is steady, or after 30 s."""
    lasts: Duration | None = msgspec.field(default=None, name="for")
    """After this time it is mended. Without it, at the end of the drill."""

    refused: ClassVar[tuple[str, ...]] = ()
    """Fields of all faults that this one has no use for."""

    def moments(self) -> tuple[float, float]:
        """The earliest and the latest time (s) at which it strikes. Raises ``ValueError``."""
        if not self.at:
            return 0.0, 0.0
        match = _RANGE.fullmatch(self.at)
        texts = (match["low"], match["high"]) if match else (self.at, self.at)
        low, high = (float(Duration(text)) for text in texts)
        if low > high:
            raise ValueError(f"{self.at}: the earlier time comes first")
        if high > MOST_SECONDS:
            raise ValueError(f"{self.at}: later than 1 h")
        return low, high

    def moment(self, dice: random.Random) -> float:
        """When it strikes, in seconds."""
        return dice.uniform(*self.moments())

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """Times that are none."""
        found = []
        try:
            self.moments()
        except ValueError as error:
            found.append(("at", f"{error}; give a time like 5s or a range like 4s..8s"))
        if not self.at and not self.when:
            found.append(("at", "when does it strike? give at: 5s, at: 4s..8s or when: settled"))
        if self.lasts is not None and not 0 < self.lasts <= MOST_SECONDS:
            found.append(("for", f"{self.lasts}: must be more than 0s and at most 1 h, or left out"))
        return found
