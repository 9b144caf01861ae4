"""Which device of a host is which layer's, by its name and its traffic: for runs whose stack blocklab did not
build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from blocklab.model.metrics import metric
from blocklab.model.stack_map import Level

if TYPE_CHECKING:
    from blocklab.store.run import Run

# How the kernel calls devices that stand on others.
_STACKED = ("drbd", "md", "dm-")
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


def levels(active: str, moved: Mapping[str, Mapping[str, float]], top: str = "") -> tuple[Level, ...]:
    """The volumes of a stack, as the names of its devices and their traffic tell. ``moved``: the bytes of each
    device on each host; ``top``: the highest device where that is known."""
    found: list[Level] = []
    for host, mine in moved.items():
        least = _LEAST_PART * max(mine.values(), default=0.0)
        used = [name for name, part in mine.items() if part and part >= least and (host, name) != (active, top)]
        if volumes := tuple(sorted(name for name in used if not name.startswith(_STACKED))):
            found.append(Level(0, "volume", host, volumes))
    return (*found, Level(0, "", active, (top,))) if top else tuple(found)
