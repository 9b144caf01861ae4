"""The capability of a load that knows which rates were asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec


class Asked(msgspec.Struct, frozen=True):
    """What was asked of one phase.

    ``rates``: metric (``read.iops``, ``tps``) -> requests per second; empty for a phase that goes as fast as it
    can. ``exact``: there are exactly rate x ``seconds`` requests; else their number is a matter of chance too.
    ``seconds``: how long it goes, None where that is not known. ``level``: in percent of the need.
    """

    rates: Mapping[str, float] = {}
    seconds: float | None = None
    exact: bool = False
    level: int = 100

    @property
    def total(self) -> float:
        """All requests per second."""
        return sum(self.rates.values())


@runtime_checkable
class Paced(Protocol):
    """A load that may have phases with an open loop: requests begin when they are due, whatever became of others,
    and their latency counts from then."""

    def asked_rates(self) -> Mapping[str, Asked]:
        """Each phase with a rate, and those that show how much more there would be; empty without any rate."""
