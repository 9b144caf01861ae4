"""Profiles: volumes and instances by name. Pure, on plain data: a name becomes values before a study is decoded.

The values of a layer's profile go into its field ``performance``, beside what the layer gives itself. So they are
in each cell's spec, whose key changes with them, and a factor that sweeps ``profile``, ``provisioned`` or ``iops``
finds the layer as the file has it: ``unfilled``, the factor's value, ``fill``.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import importlib.resources
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.layers.performance import (
    BURST,
    LATENCIES,
    LEAST_BANDWIDTH,
    MOST_LATENCY,
    bad_behaviour,
)
from blocklab.layers.volume import MOST_LIMIT
from blocklab.model.ground import Performance
from blocklab.model.knobs import nearest
from blocklab.model.units import Bandwidth, BitRate, Size, dec_hook, enc_hook
from blocklab.study.decode import told
from blocklab.study.offers import Credit, Price, Sold, bad_numbers

LAYERS = ("volume", "cap")
GIB = 2**30
# One file for what is no cloud's, one for each cloud.
FILES = ("lab.yaml", "aws.yaml", "azure.yaml", "google.yaml")
# So many names are not listed in an error.
MANY = 40
# "2026-08", "2026" or "2026-08-11": when the text was written that the values are from.
_DATE = re.compile(r"(?P<year>20\d\d)(?:-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-2]\d|3[01]))?)?")


class Entry(Performance, frozen=True):
    """One volume profile, of the shipped files or of a study's ``profiles``: values of a volume or an instance by
    a name.

    The name goes into ``profile`` of a ``volume`` or a ``cap``. A field of the layer itself wins over its
    profile's. Besides plain values an entry may have rules for values that depend on the volume's size or IOPS.

    With quantiles each request draws its latency by itself; without them a latency is constant. The profiles that
    come with blocklab are constant, since their sources publish no distribution. ``blocklab import FILE`` makes
    quantiles of a measured disk; their ``source`` says whether they may be drawn from.

    Example::

        profiles:
          our-san: {iops: 8000, bandwidth: 400MB/s, read_latency: 800us, write_latency: 600us}
          per-size: {iops_per_gib: 5, iops_least: 200, iops_most: 20000, bandwidth_per_io: 128KiB}

    The same entries in a file of their own, without the line ``profiles:``, are what ``blocklab size
    --candidates`` takes by ``--catalogue``: it chooses among the entries that have a ``cloud``. An entry of that
    file that has nothing but a ``price`` adds it to the one of that name that comes with blocklab.

    Example::

        profiles:
          our-array: {cloud: us, checked: 2026-11, iops: 40000, bandwidth: 1200MB/s, size_most: 20TiB}
          our-node: {cloud: us, checked: 2026-11, vcpus: 32, memory: 256GiB, network: 25Gbit/s, iops: 90000}
    """

    source: str = ""
    """Where the values are from."""
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
    iops_base: int = 0
    """Added to what ``iops_per_gib`` makes."""
    bandwidth_per_gib: Bandwidth | None = None
    """Times the GiB of the provisioned size, it gives ``bandwidth``."""
    bandwidth_base: Bandwidth = Bandwidth("0B/s")
    """Added to what ``bandwidth_per_gib`` makes."""
    checked: str = ""
    """When the text was written that the values are from, e.g. ``2026-08``. ``blocklab size`` marks what is older
    than a year, or has no date."""
    cloud: str = ""
    """Whose it is: ``aws``, ``azure``, ``gcp`` or a name of your own. ``blocklab size --candidates`` chooses among
    the volumes and the instances of one cloud; an entry without one is a profile only."""
    family: str = ""
    """Volumes that differ by their size only share a family, e.g. ``azure-premium``. Without it the entry's
    name."""
    size: Size | None = None
    """A volume that has this size and no other."""
    size_least: Size | None = None
    """The smallest volume. Without it 1 GiB."""
    size_most: Size | None = None
    """The largest volume. Without it 64 TiB."""
    io_least: Size | None = None
    """An I/O counts as so many bytes at least, against the bandwidth."""
    pooled: bool = False
    """All volumes of this kind at one instance have these limits together: a stripe of them gains nothing."""
    sold: Sold | None = None
    """How far IOPS and bandwidth can be raised."""
    credit: Credit | None = None
    """A burst above the limits."""
    vcpus: int | None = None
    """Of an instance, which is an entry that has them."""
    memory: Size | None = None
    """Of an instance."""
    network: BitRate | None = None
    """What an instance can send at all times, beside the way to its volumes unless ``source`` says otherwise. A
    mirror sends its writes over it."""
    volumes: tuple[str, ...] = ()
    """The families of volumes that an instance's limits hold for, and that it can have. Without it all of its
    cloud."""
    disks: int | None = None
    """At most so many volumes at an instance."""
    price: Price | None = None
    """In a user's own file."""


# What means nothing without the rule that it is a part of.
_PART_OF = {
    "iops_least": ("iops_per_gib",), "iops_most": ("iops_per_gib",), "iops_provisioned": ("iops_per_gib",),
    "iops_base": ("iops_per_gib",), "bandwidth_base": ("bandwidth_per_gib",),
    "bandwidth_least": ("bandwidth_per_io", "bandwidth_per_gib"),
    "bandwidth_most": ("bandwidth_per_io", "bandwidth_per_gib"),
}  # fmt: skip


@functools.cache
def shipped() -> Mapping[str, Entry]:
    """The profiles that come with blocklab, by name."""
    found: dict[str, Entry] = {}
    for file in FILES:
        text = importlib.resources.files("blocklab").joinpath("data", "profiles", file).read_text(encoding="utf-8")
        raw = YAML(typ="safe").load(text)
        # What begins with a dot is there for others to refer to.
        found |= {name: entry_of(f"profiles.{name}", raw[name]) for name in raw if not name.startswith(".")}
    return found


def known(plain: Mapping[str, Any]) -> dict[str, Entry]:
    """The shipped profiles and a study's own, which win. Raises ``StudyError``."""
    own = plain.get("profiles") or {}
    if not isinstance(own, Mapping):
        raise StudyError("profiles", "is a map of names to values")
    return {**shipped(), **{name: entry_of(f"profiles.{name}", entry) for name, entry in own.items()}}


def fill(plain: dict[str, Any]) -> dict[str, Any]:
    """The study with the values of each profile beside its name. Raises ``StudyError``.

    What is no study at all is left to the decoder to refuse.
    """
    stacks = plain.get("stacks")
    entries = known(plain) if _names_one(stacks) or plain.get("profiles") else {}
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


def _names_one(stacks: Any) -> bool:
    """Whether a layer has a profile. The shipped ones take a fifth of a second to read."""
    return isinstance(stacks, dict) and any(
        isinstance(layer, dict) and layer.get("profile")
        for stack in stacks.values()
        if isinstance(stack, dict) and isinstance(stack.get("layers"), list | tuple)
        for layer in stack["layers"]
    )


def unfilled(plain: dict[str, Any]) -> dict[str, Any]:
    """A study as ``msgspec.to_builtins`` gives it, without what ``fill`` put in; changes ``plain``."""
    for stack in plain["stacks"].values():
        for layer in stack["layers"]:
            layer.pop("performance", None)
    return plain


def _filled(path: str, layer: Any, entries: Mapping[str, Entry]) -> Any:
    if not isinstance(layer, dict) or layer.get("layer") not in LAYERS:
        return layer
    if "performance" in layer:
        raise StudyError(f"{path}.performance", "comes from the profile; give values as fields of the layer")
    name = layer.get("profile")
    if not isinstance(name, str) or not name:
        return layer
    if name not in entries:
        raise StudyError(f"{path}.profile", f"there is no profile {name!r}; {_there_are(name, layer, entries)}")
    if layer["layer"] == "volume" and layer.get("size") is None:
        return layer
    performance = _performance(path, name, entries[name], layer)
    return {**layer, "performance": msgspec.to_builtins(performance, enc_hook=enc_hook)}


def _there_are(name: str, layer: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """The names that a layer can have; of very many those that are like the one that it has."""
    names = sorted(each for each, entry in entries.items() if (layer["layer"] == "cap") or entry.vcpus is None)
    if len(names) <= MANY:
        # "aws-gp3" is gp3.
        parts = [each for each in names if set(each.split("-")) <= set(name.lower().split("-"))]
        like = f"; did you mean {parts[0]}?" if parts else nearest(name, names)
        return f"there are {', '.join(names)}{like}"
    near = difflib.get_close_matches(name, names, 5, 0.4)
    like = f"{', '.join(near)} and " if near else ""
    return f"there are {like}{len(names) - len(near)} others, see docs/reference/study/profiles.md"


def _performance(path: str, name: str, entry: Entry, layer: Mapping[str, Any]) -> Performance:
    """What a profile says of one layer."""
    found = {field: getattr(entry, field) for field in Performance.__struct_fields__}
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
            found["bandwidth"] = clamped(entry, iops * entry.bandwidth_per_io) if iops else None
        except ValueError as error:
            said = f"{iops} times the {entry.bandwidth_per_io} an I/O of {name}: {error}"
            raise StudyError(f"{path}.iops", said) from error
    elif entry.bandwidth_per_gib is not None:
        found["bandwidth"] = sized_bandwidth(entry, _provisioned(path, name, layer))
    if own == 0 or (iops and found["burst_iops"] is not None and found["burst_iops"] <= iops):
        # A volume whose own IOPS reach the burst, or have no cap, has none.
        found.update(dict.fromkeys(BURST))
    return Performance(**found)


def _most_iops(path: str, name: str, entry: Entry, layer: Mapping[str, Any]) -> int:
    """The IOPS of the provisioned size, rounded down."""
    return sized_iops(entry, _provisioned(path, name, layer))


def _provisioned(path: str, name: str, layer: Mapping[str, Any]) -> Size:
    if layer["layer"] == "cap":
        raise StudyError(
            f"{path}.profile", f"{name} depends on a volume's size; give it to the volume, not to a cap"
        )
    try:
        return Size(layer.get("provisioned") or layer.get("size"))
    except ValueError as error:
        field = "provisioned" if layer.get("provisioned") else "size"
        raise StudyError(f"{path}.{field}", str(error)) from error


def sized_iops(entry: Entry, size: int) -> int:
    """What ``iops_per_gib`` makes of a size in bytes, rounded down, at most ``iops_most``."""
    iops = entry.iops_base + int(size * entry.iops_per_gib / GIB)
    return iops if entry.iops_most is None else min(entry.iops_most, iops)


def sized_bandwidth(entry: Entry, size: int) -> Bandwidth:
    """What ``bandwidth_per_gib`` makes of a size in bytes."""
    return clamped(entry, entry.bandwidth_base + size / GIB * (entry.bandwidth_per_gib or 0))


def clamped(entry: Entry, bandwidth: float) -> Bandwidth:
    """Bytes per second within ``bandwidth_least`` and ``bandwidth_most``."""
    if entry.bandwidth_most is not None:
        bandwidth = min(entry.bandwidth_most, bandwidth)
    return Bandwidth(f"{max(entry.bandwidth_least, bandwidth):.0f}B/s")


def entry_of(path: str, raw: Any) -> Entry:
    """One entry out of plain data; ``path`` is its place in the file. Raises ``StudyError``."""
    entry = _converted(path, raw)
    for field, rules in _PART_OF.items():
        if getattr(entry, field) and not any(getattr(entry, rule) for rule in rules):
            raise StudyError(f"{path}.{field}", f"is a part of {' or '.join(rules)}, which is not given")
    for field, problem in (*_bad_values(entry), *_bad_bounds(entry), *_bad_catalogue(entry)):
        raise StudyError(f"{path}.{field}", problem)
    return entry


def _bad_values(entry: Entry) -> Iterator[tuple[str, str]]:
    """Values that no volume has, also of a profile that nothing uses yet."""
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
    yield from bad_behaviour(lambda name: getattr(entry, name))


def _bad_bounds(entry: Entry) -> Iterator[tuple[str, str]]:
    for what in ("iops", "bandwidth"):
        least, most = getattr(entry, f"{what}_least"), getattr(entry, f"{what}_most")
        if most is not None and least > most:
            yield f"{what}_least", f"{least} is more than {what}_most, {most}"


def _bad_catalogue(entry: Entry) -> Iterator[tuple[str, str]]:
    """What no entry of the catalogue can be."""
    if entry.checked and _DATE.fullmatch(entry.checked) is None:
        yield "checked", f"{entry.checked!r} is not a date; write it like 2026-08"
    # A size is of whole GiB; a request is no smaller than a page.
    least = {"vcpus": 1, "disks": 1, "size": GIB, "size_least": GIB, "size_most": GIB}
    for field, bound in (least | {"io_least": LEAST_BANDWIDTH}).items():
        value = getattr(entry, field)
        if value is not None and value < bound:
            yield field, f"{value}: must be {bound:,}{'' if bound == 1 else ' bytes'} or more"
    if (entry.size_most or MOST_LIMIT) < (entry.size_least or 0):
        yield "size_least", f"{entry.size_least} is more than size_most, {entry.size_most}"
    for field in ("price", "sold", "credit"):
        part = getattr(entry, field)
        yield from (bad_numbers(field, part, MOST_LIMIT) if part is not None else ())
    if entry.sold is not None and not (entry.iops and entry.bandwidth):
        yield "sold", "needs iops and bandwidth: what a volume has without paying for more"


def dated(entry: Entry) -> datetime.date | None:
    """The earliest day that ``checked`` may stand for; None without a date.

    An entry that says no more than a year may be of its first day, and is treated as that old.
    """
    match = _DATE.fullmatch(entry.checked)
    if match is None:
        return None
    try:
        return datetime.date(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    except ValueError:
        # The 31st of a month that has none.
        return datetime.date(int(match["year"]), int(match["month"] or 1), 1)


def _converted(path: str, raw: Any) -> Entry:
    if isinstance(raw, Mapping) and isinstance(raw.get("checked"), int | datetime.date):
        # YAML takes 2026 for a number and 2026-08-11 for a date.
        raw = {**raw, "checked": str(raw["checked"])}
    try:
        return msgspec.convert(raw, Entry, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        problem, field = told(str(error))
        hint = f"an entry has source and {', '.join(_names())}" if "unknown field" in problem else ""
        raise StudyError(f"{path}.{field}" if field else path, problem, hint=hint) from error


def _names() -> tuple[str, ...]:
    return tuple(name for name in Entry.__struct_fields__ if name != "source")
