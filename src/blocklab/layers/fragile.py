"""A thin device over each volume that can be made to fail: what faults of a volume need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from blocklab.layers.base import LayerBase
from blocklab.model import mapping, numbers
from blocklab.model.layer import Layer, Place, RawVolumes
from blocklab.model.plan import Fact, Kind, Plan, Port, Step
from blocklab.model.spans import one_copy
from blocklab.model.stack_map import device_of


class Fragile(LayerBase, frozen=True, tag="fragile"):
    """A device over each volume below that the faults ``volume-error`` and ``volume-stall`` can break.

    It is the device mapper's ``linear`` target over the whole volume. It stands directly on the ``volume``, or on
    ``shared``, with everything else above it. A request takes some microseconds more through it, so a drill's
    values are compared with those of stacks that have it too.

    Example::

        - {layer: volume, size: 1GiB}
        - {layer: fragile}
        - {layer: drbd, peer: a2, link: zone}

    Read back before and after each workload: the device's target (``dmsetup table``), and that it is not
    suspended.
    """

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On anything but a volume, which another node may have too."""
        lower = below[-1]
        if isinstance(lower, RawVolumes) or one_copy(lower):
            return []
        said = f"fragile makes a volume fail; put it directly on the volume or on shared, not on {lower.tag}"
        return [("", said)]

    def width(self, below: int) -> int:
        return below

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """A mapping of the whole of each device; undone by removing it."""
        host = place.host
        steps: list[Step] = [mapping.module(host)]
        facts: list[Fact] = []
        ports: list[Port] = []
        for index, port in enumerate(below):
            mapped, above = mapping.linear(port, numbers.FRAGILE, place.number, index)
            name = device_of(above)
            steps += mapped
            suffix = "" if len(below) == 1 else f" of {name}"
            facts += [
                mapping.fact(above, "fragile", suffix),
                Fact(host, "fragile", ("dmsetup", "info", "-c", "--noheadings", "-o", "suspended", name),
                     partial(_suspended, suffix), {f"state{suffix}": "Active"}),
            ]  # fmt: skip
            ports.append(above)
        return Plan(tuple(steps), tuple(facts), tuple(ports))


def _suspended(suffix: str, text: str) -> dict[str, str]:
    # "Active" or "Suspended"
    return {f"state{suffix}": text.strip()}
