"""Profiles: volumes and instances by name. Pure, on plain data: a name becomes figures before a study is decoded.

The figures of a layer's profile go into its field ``figures``, beside what the layer gives itself. So they are in
each cell's spec, whose key changes with them, and a factor that sweeps ``profile``, ``provisioned`` or ``iops``
finds the layer as the file has it: ``unfilled``, the factor's value, ``fill``.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.layers.figures import BURST, Figures
from blocklab.model.units import Bandwidth, Size, dec_hook, enc_hook

LAYERS = ("volume", "cap")
GIB = 2**30
# "Expected `int`, got `str` - at `$.iops`"
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)


class Entry(Figures, frozen=True):
    """One volume profile, of the shipped file or of a study's ``profiles``: figures of a volume or an instance by
    a name.

    The name goes into ``profile`` of a ``volume`` or a ``cap``. A field of the layer itself wins over its
    profile's. Besides plain figures an entry may have rules for figures that depend on the volume's size or IOPS.

    Example::

        profiles:
          our-san: {iops: 8000, bandwidth: 400MB/s, read_latency: 800us, write_latency: 600us}
          per-size: {iops_per_gib: 5, iops_least: 200, iops_most: 20000, bandwidth_per_io: 128KiB}
    """

    source: str = ""
    """Where the figures are from."""
    iops_per_gib: float = 0
    """The IOPS per GiB of the provisioned size; the result is ``iops``."""
    iops_least: int = 0
    """At least so many ``iops``, however small the volume."""
    iops_most: int | None = None
    """At most so many ``iops``, however large the volume."""
    iops_provisioned: bool = False
    """The layer gives ``iops`` itself; what ``iops_per_gib`` and ``iops_most`` make is the most that it may
    give."""
    bandwidth_per_io: Size | None = None
    """Times the IOPS, it gives ``bandwidth``."""
    bandwidth_least: Bandwidth = Bandwidth("0B/s")
    """At least so much ``bandwidth``."""
    bandwidth_most: Bandwidth | None = None
    """At most so much ``bandwidth``."""


# What means nothing without the rule that it is a part of.
_PART_OF = {
    "iops_least": "iops_per_gib", "iops_most": "iops_per_gib", "iops_provisioned": "iops_per_gib",
    "bandwidth_least": "bandwidth_per_io", "bandwidth_most": "bandwidth_per_io",
}  # fmt: skip


@functools.cache
def shipped() -> Mapping[str, Entry]:
    """The profiles that come with blocklab, by name."""
    text = importlib.resources.files("blocklab.study").joinpath("profiles.yaml").read_text(encoding="utf-8")
    return {name: _entry(f"profiles.{name}", entry) for name, entry in YAML(typ="safe").load(text).items()}


def known(plain: Mapping[str, Any]) -> dict[str, Entry]:
    """The shipped profiles and a study's own, which win. Raises ``StudyError``."""
    own = plain.get("profiles") or {}
    if not isinstance(own, Mapping):
        raise StudyError("profiles", "is a map of names to figures")
    return {**shipped(), **{name: _entry(f"profiles.{name}", entry) for name, entry in own.items()}}


def fill(plain: dict[str, Any]) -> dict[str, Any]:
    """The study with the figures of each profile beside its name. Raises ``StudyError``.

    What is no study at all is left to the decoder to refuse.
    """
    entries = known(plain)
    stacks = plain.get("stacks")
    if not isinstance(stacks, dict):
        return plain
    filled = {}
    for name, stack in stacks.items():
        if isinstance(stack, dict) and isinstance(stack.get("layers"), list | tuple):
            path = f"stacks.{name}.layers"
            layers = [_filled(f"{path}[{index}]", each, entries) for index, each in enumerate(stack["layers"])]
            stack = {**stack, "layers": layers}
        filled[name] = stack
    return {**plain, "stacks": filled}


def unfilled(plain: dict[str, Any]) -> dict[str, Any]:
    """A study as ``msgspec.to_builtins`` gives it, without what ``fill`` put in; changes ``plain``."""
    for stack in plain["stacks"].values():
        for layer in stack["layers"]:
            layer.pop("figures", None)
    return plain


def _filled(path: str, layer: Any, entries: Mapping[str, Entry]) -> Any:
    if not isinstance(layer, dict) or layer.get("layer") not in LAYERS:
        return layer
    if "figures" in layer:
        raise StudyError(f"{path}.figures", "comes from the profile; give figures as fields of the layer")
    name = layer.get("profile")
    if not isinstance(name, str) or not name:
        return layer
    if name not in entries:
        raise StudyError(
            f"{path}.profile", f"there is no profile {name!r}; there are {', '.join(sorted(entries))}"
        )
    if layer["layer"] == "volume" and layer.get("size") is None:
        return layer
    figures = _figures(path, name, entries[name], layer)
    return {**layer, "figures": msgspec.to_builtins(figures, enc_hook=enc_hook)}


def _figures(path: str, name: str, entry: Entry, layer: Mapping[str, Any]) -> Figures:
    """What a profile says of one layer."""
    found = {field: getattr(entry, field) for field in Figures.__struct_fields__}
    own = layer.get("iops")
    if entry.iops_per_gib:
        most = _most_iops(path, name, entry, layer)
        if not entry.iops_provisioned:
            found["iops"] = max(entry.iops_least, most)
        elif not isinstance(own, int) or not 1 <= own <= most:
            raise StudyError(f"{path}.iops", f"{name} takes the IOPS that you give, here from 1 to {most}")
    iops = own if isinstance(own, int) else found["iops"] or 0
    if entry.bandwidth_per_io is not None:
        if not iops:
            raise StudyError(f"{path}.iops", f"{name} makes the bandwidth from the IOPS: give them here or there")
        found["bandwidth"] = _clamped(entry, iops * entry.bandwidth_per_io)
    if iops and found["burst_iops"] is not None and found["burst_iops"] <= iops:
        # A volume whose own IOPS reach the burst has none.
        found.update(dict.fromkeys(BURST))
    return Figures(**found)


def _most_iops(path: str, name: str, entry: Entry, layer: Mapping[str, Any]) -> int:
    """The IOPS of the provisioned size, rounded down."""
    if layer["layer"] == "cap":
        raise StudyError(
            f"{path}.profile", f"{name} depends on a volume's size; give it to the volume, not to a cap"
        )
    try:
        size = Size(layer.get("provisioned") or layer.get("size"))
    except ValueError as error:
        field = "provisioned" if layer.get("provisioned") else "size"
        raise StudyError(f"{path}.{field}", str(error)) from error
    iops = int(size * entry.iops_per_gib / GIB)
    return iops if entry.iops_most is None else min(entry.iops_most, iops)


def _clamped(entry: Entry, bandwidth: float) -> Bandwidth:
    if entry.bandwidth_most is not None:
        bandwidth = min(entry.bandwidth_most, bandwidth)
    return Bandwidth(f"{max(entry.bandwidth_least, bandwidth):.0f}B/s")


def _entry(path: str, raw: Any) -> Entry:
    entry = _converted(path, raw)
    for field, rule in _PART_OF.items():
        if getattr(entry, field) and not getattr(entry, rule):
            raise StudyError(f"{path}.{field}", f"is a part of {rule}, which is not given")
    return entry


def _converted(path: str, raw: Any) -> Entry:
    try:
        return msgspec.convert(raw, Entry, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        match = _AT.match(str(error))
        assert match is not None
        problem = match["problem"]
        hint = f"an entry has source and {', '.join(_names())}" if "unknown field" in problem else ""
        where = f"{path}.{match['path']}" if match["path"] else path
        raise StudyError(where, problem[:1].lower() + problem[1:], hint=hint) from error


def _names() -> tuple[str, ...]:
    return tuple(name for name in Entry.__struct_fields__ if name != "source")
