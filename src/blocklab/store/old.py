"""Runs of older formats, made to look like those of today; and what can only be guessed of imported ones.

Format 2 had no ``stack.json``: pings were knobs, the offsets of clocks were in the environment, and which device a
layer had made was told from its name. Format 3 had other names in its cells, see ``study.old``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from blocklab.model.metrics import metric
from blocklab.model.plan import Knob
from blocklab.model.stack_map import Clock, Level, RoundTrip, StackMap

if TYPE_CHECKING:
    from blocklab.store.run import Run

# The format without a map of the stack.
BARE = 2
# How the kernel calls the device that a layer makes. Volumes and what caps them have the site's own names.
_MADE = {
    "drbd": "drbd", "stripe": "md", "raid10": "md", "net_mirror": "md", "lvm_stripe": "dm-",
}  # fmt: skip
# A device with a smaller part of a host's traffic than this is not one that the stack stands on.
_LEAST_PART = 0.02
# The offsets of format 2 came without their error: half of a round trip on a busy node.
_CLOCK_ERROR = 0.05
_PINGS = {"ping min": "least", "ping mean": "mean", "ping max": "most"}


def converted(run: Run) -> Run:
    """A run of format 2 with its stack's map as far as it can be told, and without the knobs that were none."""
    spec = run.cell.spec.get("stack", {})
    active = str(spec.get("on", ""))
    layers = [str(each.get("layer", "")) for each in spec.get("layers", ())]
    moved = moved_by(run)
    top = ""
    for knob in run.knobs:
        # What the file system says that it is mounted on, unless iostat has another name for it.
        device = knob.value.removeprefix("/dev/")
        told = knob.name == "device" and knob.host == active and device != knob.value
        if told and not top and (device in moved.get(active, {}) or "/" not in device):
            top = device
    offsets = run.environment.get("clock_offsets", {})
    return msgspec.structs.replace(
        run,
        environment={name: value for name, value in run.environment.items() if name != "clock_offsets"},
        knobs=tuple(knob for knob in run.knobs if knob.name not in (*_PINGS, "ping mdev", "ping")),
        stack=StackMap(
            active,
            levels(active, layers, moved, top),
            pings=_pings(run.knobs),
            clocks={host: (Clock(offset, _CLOCK_ERROR),) for host, offset in offsets.items()},
        ),
    )


def _pings(knobs: Iterable[Knob]) -> dict[str, tuple[RoundTrip, ...]]:
    """Without a median, which was not stored: the mean stands for it."""
    found: dict[str, dict[str, Any]] = {}
    for knob in knobs:
        # "0.601ms" of "ping mean" of "link zone"
        if knob.name in _PINGS and knob.value.endswith("ms"):
            link = found.setdefault(knob.layer.removeprefix("link "), {})
            link[_PINGS[knob.name]] = float(knob.value.removesuffix("ms")) / 1e3
    return {
        link: (RoundTrip(values.get("least", 0.0), values["mean"], values["mean"], values.get("most", 0.0)),)
        for link, values in found.items()
        if "mean" in values
    }


def moved_by(run: Run) -> dict[str, dict[str, float]]:
    """The bytes that went through each block device of each host, by its probes."""
    own = {sample.layer for sample in run.values() if not metric(sample.metric).counted}
    found: dict[str, dict[str, float]] = {}
    for (host, layer, name, _), series in (run.series_by_name or {}).items():
        if name in ("read.bandwidth", "write.bandwidth") and layer not in own:
            mine = found.setdefault(host, {})
            mine[layer] = mine.get(layer, 0.0) + sum(value for _, value in series.points)
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
