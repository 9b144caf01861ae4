"""Profiles: volumes and instances by name. Pure, on plain data: a name becomes figures before a study is decoded.

The figures of a layer's profile go into its field ``figures``, beside what the layer gives itself. So they are in
each cell's spec, whose key changes with them, and a factor that sweeps ``profile``, ``provisioned`` or ``iops``
finds the layer as the file has it: ``unfilled``, the factor's value, ``fill``.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.layers.figures import BURST, LATENCIES, LEAST_BANDWIDTH, Figures
from blocklab.layers.volume import MOST_LATENCY, MOST_LIMIT
from blocklab.model.units import Bandwidth, Size, dec_hook, enc_hook
from blocklab.study.decode import told

LAYERS = ("volume", "cap")
GIB = 2**30


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
    """The IOPS per GiB of the provisioned size, above 0; the result is ``iops``."""
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
        if not iops and layer.get("bandwidth") is None:
            problem = f"{name} makes the bandwidth from the IOPS: give them here or there, or the bandwidth here"
            raise StudyError(f"{path}.iops", problem)
        try:
            found["bandwidth"] = _clamped(entry, iops * entry.bandwidth_per_io) if iops else None
        except ValueError as error:
            said = f"{iops} times the {entry.bandwidth_per_io} an I/O of {name}: {error}"
            raise StudyError(f"{path}.iops", said) from error
    if own == 0 or (iops and found["burst_iops"] is not None and found["burst_iops"] <= iops):
        # A volume whose own IOPS reach the burst, or have no cap, has none.
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
    for field, problem in (*_bad_figures(entry), *_bad_bounds(entry)):
        raise StudyError(f"{path}.{field}", problem)
    return entry


def _bad_figures(entry: Entry) -> Iterator[tuple[str, str]]:
    """Figures that no volume has, also of a profile that nothing uses yet."""
    # A rule of 0 is none, as if it were not given; a size times something beyond all bounds is no number of IOPS.
    if not 0 <= entry.iops_per_gib <= MOST_LIMIT:
        yield "iops_per_gib", f"{entry.iops_per_gib:g}: must be above 0, and at most {MOST_LIMIT:,}"
    for field in ("iops", "burst_iops", "read_iops", "write_iops", "iops_least", "iops_most"):
        value = getattr(entry, field)
        if value is not None and not 0 <= value <= MOST_LIMIT:
            yield field, f"{value}: must be 1 or more (0: no limit), and at most {MOST_LIMIT:,}"
    for field in ("bandwidth", "read_bandwidth", "write_bandwidth", "bandwidth_least", "bandwidth_most"):
        value = getattr(entry, field)
        if value and value < LEAST_BANDWIDTH:
            yield field, f"{value}: must be {LEAST_BANDWIDTH}B/s or more; leave it out for no limit"
    for field in LATENCIES:
        if (getattr(entry, field) or 0) > MOST_LATENCY:
            yield field, "over 10 s; a volume that slow counts as hung"
    if (entry.burst_seconds or 0) < 0:
        yield "burst_seconds", f"{entry.burst_seconds}: must be 1 or more"


def _bad_bounds(entry: Entry) -> Iterator[tuple[str, str]]:
    for what in ("iops", "bandwidth"):
        least, most = getattr(entry, f"{what}_least"), getattr(entry, f"{what}_most")
        if most is not None and least > most:
            yield f"{what}_least", f"{least} is more than {what}_most, {most}"


def _converted(path: str, raw: Any) -> Entry:
    try:
        return msgspec.convert(raw, Entry, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        problem, field = told(str(error))
        hint = f"an entry has source and {', '.join(_names())}" if "unknown field" in problem else ""
        raise StudyError(f"{path}.{field}" if field else path, problem, hint=hint) from error


def _names() -> tuple[str, ...]:
    return tuple(name for name in Entry.__struct_fields__ if name != "source")
