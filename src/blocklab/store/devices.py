"""Which device of a host is which layer's, by its name and its traffic: for runs whose stack blocklab did not
build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from blocklab.model.metrics import metric
from blocklab.model.stack_map import Level

if TYPE_CHECKING:
    from blocklab.store.run import Run

# How the kernel calls the device that a layer makes. Volumes and what caps them have the site's own names.
_MADE = {
    "drbd": "drbd", "stripe": "md", "raid10": "md", "net_mirror": "md", "lvm_stripe": "dm-",
}  # fmt: skip
# A device with a smaller part of a host's traffic than this is not one that the stack stands on.
_LEAST_PART = 0.02


def moved_by(run: Run) -> dict[str, dict[str, float]]:
    """The bytes that went through each block device of each host, by its probes."""
    own = {sample.layer for sample in run.values() if not metric(sample.metric).counted}
    found: dict[str, dict[str, float]] = {}
    for (host, layer, name, _), series in (run.series_by_name or {}).items():
        if name in ("read.bandwidth", "write.bandwidth") and layer not in own:
            mine = found.setdefault(host, {})
            mine[layer] = mine.get(layer, 0.0) + float(series.points.values.sum())
    for sample in run.series():
        if sample.metric in ("read.bandwidth", "write.bandwidth") and sample.layer not in own:
            mine = found.setdefault(sample.host, {})
            mine[sample.layer] = mine.get(sample.layer, 0.0) + sample.value
    return found


def levels(
    active: str, layers: Sequence[str], moved: Mapping[str, Mapping[str, float]], top: str = ""
) -> tuple[Level, ...]:
    """The levels of a stack as the names of its devices tell. ``layers``: the tags of its layers, bottom to top;
    ``moved``: the bytes of each device on each host; ``top``: the highest device where that is known."""
    found: list[Level] = []
    for host, mine in moved.items():
        least = _LEAST_PART * max(mine.values(), default=0.0)
        used = [name for name, part in mine.items() if part and part >= least and (host, name) != (active, top)]
        families = dict.fromkeys(["", *(_MADE[layer] for layer in layers if layer in _MADE)])
        for number, family in enumerate(families):
            if some := tuple(sorted(name for name in used if _family(name) == family)):
                found.append(Level(number, family or "volume", host, some))
    if top:
        found.append(Level(len(layers), "", active, (top,)))
    return tuple(found)


def _family(device: str) -> str:
    return next((made for made in _MADE.values() if device.startswith(made)), "")
