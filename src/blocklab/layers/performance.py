"""The values of a volume or a cap, as far as a profile gives them: what its name stands for in one study."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from blocklab.model.units import Bandwidth, Duration


class Performance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a profile says; ``None`` where it says nothing. The names are those of the fields of ``volume``."""

    read_latency: Duration | None = None
    """What a read takes at queue depth 1."""
    write_latency: Duration | None = None
    """What a write takes at queue depth 1."""
    iops: int | None = None
    """I/Os per second, reads and writes together."""
    burst_iops: int | None = None
    """I/Os per second while the bucket lasts."""
    burst_seconds: int | None = None
    """How long they last from a full bucket that nothing refills."""
    bandwidth: Bandwidth | None = None
    """Bytes per second, reads and writes together."""
    read_iops: int | None = None
    """I/Os per second of reads alone."""
    write_iops: int | None = None
    """I/Os per second of writes alone."""
    read_bandwidth: Bandwidth | None = None
    """Bytes per second of reads alone."""
    write_bandwidth: Bandwidth | None = None
    """Bytes per second of writes alone."""


NAMES = Performance.__struct_fields__
LATENCIES = ("read_latency", "write_latency")
BURST = ("burst_iops", "burst_seconds")


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
