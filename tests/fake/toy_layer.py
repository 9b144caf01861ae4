"""A layer that the package does not know, defined as CONTRIBUTING.md says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from blocklab.layers.base import LayerBase as Layer
from blocklab.model.layer import Place
from blocklab.model.numbers import Range
from blocklab.model.plan import Fact, Kind, Plan, Port, Run

HEADER = 16 * 2**20
# Far from those of the package; a layer that is to stay has a range of its own in ``model/numbers.py``.
LONE = Range("md", 800)


class Lone(Layer, frozen=True, tag="lone"):
    """A RAID-1 of one device: what the kernel's MD costs by itself."""

    bitmap: Literal["none", "internal"] = "none"

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"
    title: ClassVar[str] = "MD alone"

    def holds(self, below: Sequence[int]) -> list[int]:
        return [size - HEADER for size in below]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        host, lower, device = place.host, below[0].where, LONE.path(place.number)
        made = ("--level=1", "--force", "--raid-devices=1", "--metadata=1.2", f"--data-offset={HEADER // 1024}K")
        step = Run(
            host,
            ("mdadm", "--create", device, "--run", "--homehost=any", *made, f"--bitmap={self.bitmap}", lower),
            once=True,
            again=("mdadm", "--assemble", "--run", device, lower),
            undo=("mdadm", "--stop", device),
        )
        fact = Fact(host, self.tag, ("mdadm", "--detail", device), parse_detail, {"bitmap": self.bitmap})
        return Plan((step,), (fact,), (Port(host, "block", device),))


def parse_detail(text: str) -> dict[str, str]:
    #      Intent Bitmap : Internal
    return {"bitmap": "internal" if "Intent Bitmap : Internal" in text else "none"}
