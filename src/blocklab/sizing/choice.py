"""The types of a choice of volumes and instances: the need, the options, candidates and misfits."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from blocklab.model.units import Size
from blocklab.sizing.fitting import Count, Volume

Layout = Literal["single", "stripe", "mirror", "zones"]
LAYOUTS: tuple[Layout, ...] = ("single", "stripe", "mirror", "zones")
TITLES: Mapping[Layout, str] = {
    "single": "single volume", "stripe": "stripe", "mirror": "mirror in the zone", "zones": "mirror across zones",
}  # fmt: skip
MOST_VOLUMES = 8
# What "+20 %" is.
MORE = 1.2


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What one storage has to carry, headroom included. None: not known, never 0.

    ``read_iops`` and ``write_iops`` are requests (1/s), ``*_bytes`` B/s, ``*_size`` the mean request in bytes,
    ``flushes`` 1/s. Of requests, bytes and size two give the third.
    """

    read_iops: float | None = None
    write_iops: float | None = None
    read_bytes: float | None = None
    write_bytes: float | None = None
    read_size: float | None = None
    write_size: float | None = None
    flushes: float | None = None
    capacity: Size | None = None

    def times(self, factor: float) -> Demand:
        """So many times the workload; size of a request and capacity stay."""

        def scaled(value: float | None) -> float | None:
            return None if value is None else value * factor

        return msgspec.structs.replace(
            self, read_iops=scaled(self.read_iops), write_iops=scaled(self.write_iops),
            read_bytes=scaled(self.read_bytes), write_bytes=scaled(self.write_bytes), flushes=scaled(self.flushes),
        )  # fmt: skip


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of a candidate. ``need`` None: not known; ``limit`` None: not known or there is none; then it was
    not checked. ``limit`` is as built, ``most`` what this kind can be raised to (None: no more than ``limit``).
    Values are I/Os per second, or B/s; ``line`` is the arithmetic."""

    name: str
    unit: str
    need: float | None
    limit: float | None
    most: float | None = None
    line: str = ""

    @property
    def checked(self) -> bool:
        """Whether both sides are known."""
        return self.need is not None and self.limit is not None

    @property
    def share(self) -> float | None:
        """Need / limit as built."""
        return None if self.need is None or not self.limit else self.need / self.limit

    @property
    def hard(self) -> float | None:
        """Need / the most that it can be raised to."""
        top = self.most if self.most is not None else self.limit
        return None if self.need is None or not top else self.need / top


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that carries the need.

    ``count`` equal volumes on each of ``nodes`` nodes; ``size`` of each, ``iops`` and ``bandwidth`` (B/s) of each
    as asked for (None where the kind sets them itself). ``binds``: the limit with the least room above the need,
    by the most that it can be raised to. ``breaks``: the limits that 1.2 times the workload exceeds, ``after``
    what carries that. ``unchecked``: limits whose need or value is not known. ``cost`` is per month, None where a
    price is missing. ``layers`` are a study's layers without ``size``, which the lab gives; the mirrors have the
    peer ``a2`` and the links ``zone`` and ``zones``. ``profiles``: the user's own entries that they name.
    """

    cloud: str
    layout: Layout
    kind: str
    volume: str
    count: int
    nodes: int
    size: Size
    instance: str
    limits: tuple[Limit, ...]
    lines: tuple[str, ...]
    iops: int | None = None
    bandwidth: float | None = None
    binds: str = ""
    breaks: tuple[str, ...] = ()
    after: str = ""
    unchecked: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    cost: float | None = None
    currency: str = ""
    burst: float | None = None
    """Seconds that the bursts last that the need uses; None without."""
    layers: tuple[dict[str, Any], ...] = ()
    profiles: Mapping[str, Mapping[str, Any]] = {}

    @property
    def title(self) -> str:
        """The layout in words."""
        return f"{TITLES[self.layout]} of {self.count}" if self.layout == "stripe" else TITLES[self.layout]


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that nothing of a cloud carries: ``reason`` is the nearest choice and how much it lacks."""

    cloud: str
    layout: Layout
    reason: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to choose.

    ``instance``: this one only, by its name in the catalogue; ``azure-e8bs-v5`` is also
    ``azure-e8bs-v5-with-v2``, the same with other volumes. ``vcpus`` and ``memory`` (bytes): at least so many.
    ``kinds``: families of volumes, all without. ``every``: a candidate for each kind that fits, not only for the
    first. ``most_volumes``: of a stripe. ``bursts``: credits may carry the need. ``today``: entries older than a
    year on that day are marked.
    """

    layouts: tuple[Layout, ...] = LAYOUTS
    instance: str = ""
    vcpus: int = 0
    memory: int = 0
    kinds: tuple[str, ...] = ()
    every: bool = False
    most_volumes: int = MOST_VOLUMES
    bursts: bool = False
    today: datetime.date | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What is chosen for one node, and how its volumes count the requests."""

    kind: str
    volume: Volume
    count: int
    instance: str
    reads: Count
    writes: Count
