"""The values of a volume or a cap, as far as a profile gives them: what its name stands for in one study."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from blocklab.model.ground import Degrade, Performance, Slow
from blocklab.model.units import Duration

LATENCIES = ("read_latency", "write_latency")
BURST = ("burst_iops", "burst_seconds")
CAPS = tuple(f"{way}{what}" for what in ("iops", "bandwidth") for way in ("", "read_", "write_"))
QUANTILES = ("read_quantiles", "write_quantiles")
PER_MIB = ("read_latency_per_mib", "write_latency_per_mib")
# What only a server of a volume can do, not a cap in a node.
BEHAVIOUR = (*QUANTILES, *PER_MIB, "slow", "degrade", "seed")
# Above these a volume counts as hung (s).
MOST_LATENCY = 10
# p50, p99.9, p99.999
_QUANTILE = re.compile(r"p(?P<percent>\d{1,2}(?:\.\d{1,6})?|100)")


class Profiled(Protocol):
    """A layer that may take its values from a profile."""

    @property
    def performance(self) -> Performance | None:
        """What its profile says; None without a profile."""


def given(layer: Profiled, name: str) -> Any:
    """The layer's own value of a field, else its profile's, else None. A layer's own 0 counts: no limit."""
    own = getattr(layer, name)
    return getattr(layer.performance, name) if own is None and layer.performance is not None else own


# Less than one page a second is no limit but a stop.
LEAST_BANDWIDTH = 4096


def bad_limits(layer: Profiled, names: tuple[str, ...], *, least: int) -> list[tuple[str, str]]:
    """(field, problem and hint) of limits under which nothing moves; ``least`` is 0 where 0 means no limit."""
    found = []
    for name in names:
        value = given(layer, name)
        if value is None or (value == 0 and least == 0):
            continue
        if name.endswith("iops") and value < 1:
            found.append((name, "must be 1 I/O per second or more; leave it out for no limit"))
        if name.endswith("bandwidth") and value < LEAST_BANDWIDTH:
            found.append((name, f"must be {LEAST_BANDWIDTH}B/s or more; leave it out for no limit"))
    return found


def quantiles(named: dict[str, Duration]) -> list[tuple[float, float]]:
    """``{"p99.9": 12ms}`` as pairs of a quantile (0 to 1) and seconds, ascending. Raises ``ValueError`` that says
    what is wrong."""
    found = []
    for name, latency in named.items():
        if (match := _QUANTILE.fullmatch(name)) is None:
            raise ValueError(f"{name!r} is not a quantile; write it like p50 or p99.9")
        if not 0 < latency <= MOST_LATENCY:
            raise ValueError(f"{name}: must be above 0, and at most {MOST_LATENCY} s")
        found.append((float(match["percent"]) / 100, float(latency)))
    found.sort()
    if any(before[1] > after[1] or before[0] == after[0] for before, after in itertools.pairwise(found)):
        raise ValueError("each quantile must be given once, and be no less than those below it")
    return found


def bad_behaviour(value: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    """(field, problem and hint) of quantiles, slow spells and schedules; ``value`` gives a field, or None."""
    for name in QUANTILES:
        try:
            quantiles(value(name) or {})
        except ValueError as error:
            yield name, str(error)
    for name in PER_MIB:
        if (value(name) or 0) > MOST_LATENCY:
            yield name, "over 10 s; a volume that slow counts as hung"
    if (value("io_most") or LEAST_BANDWIDTH) < LEAST_BANDWIDTH:
        yield "io_most", f"must be {LEAST_BANDWIDTH} bytes or more; leave it out to count each request once"
    if (seed := value("seed")) is not None and not 0 <= seed < 2**32:
        yield "seed", "must be from 0 to 4294967295"
    yield from _bad_times(value("slow"), value("degrade"))


def _bad_times(slow: Slow | None, degrade: Degrade | None) -> Iterator[tuple[str, str]]:
    for name, found in (("slow", slow), ("degrade", degrade)):
        if found is not None and not 0.001 <= found.lasts < found.every:
            yield f"{name}.for", f"must be 1 ms or more, and less than every ({found.every})"
    if slow is not None and not 1 < slow.times <= 10_000:
        yield "slow.times", "must be more than 1, and at most 10000"
    if degrade is not None and not 0.001 <= degrade.to < 1:
        yield "degrade.to", "must be 0.1% or more, and less than 100%"
