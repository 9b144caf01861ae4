"""Whether figures of two machines may be put together: the same blocklab, image, kernel and DRBD, and a floor of
about the same height. What differs beyond that is what the machine as a factor is for (``stats.machines``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# A system call, a volume, a mirror or a link that takes so many times longer makes another lab, in which the
# lab's own part of a latency is larger than what layouts differ by. One machine's floor, measured briefly on five
# days beside other work, differed by a factor of up to 2.5.
SLOWER = 3.0
# A machine whose rates vary so many times more, and by more than so many per cent from round to round.
NOISIER, NOISY = 3.0, 10.0
# The floor's values that are compared, with what each is called (names of ``store.floor.METRICS``).
SPEEDS: Mapping[str, str] = {
    "syscall": "a system call",
    "volume.read.latency": "a read of a volume",
    "volume.write.latency": "a write to a volume",
    "mirror.write.latency": "a write to a mirror",
    "link.rtt": "a round trip at 0 ms",
}
_NOISE = "noise"
# Packages of an image that take the load or make it: of the same recipe built on two days they may differ.
_MEASURED = re.compile(
    # user-mode-linux, drbd-utils, mariadb-server, mysql-server-core, postgresql-17, fio, sysbench, xfsprogs
    r"user-mode-linux|drbd-utils|(mariadb|mysql)-server(-core)?|postgresql-\d+|fio|sysbench|go-tpc|xfsprogs"
)
# 6.18.44-fc-v669
_SERIES = re.compile(r"\d+\.\d+")


def fits(mine: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Why figures of these two environments do not belong together, in words; empty where they do.

    Both are environments of the same layout, as stored with a run (``store.run``) or as a site gives them
    (``Site.environment`` with ``store.floor.with_floor``): which image is right depends on the layout's add-ons.
    ``mine`` is the one that is there, ``other`` the one that is to be added. What one of them does not tell is
    no reason.
    """
    return [*_programs(mine, other), *_floor(_mapping(mine, "floor"), _mapping(other, "floor"))]


def _programs(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name, words in (("site", "other site"), ("blocklab", "other blocklab"), ("image", "other image")):
        here, there = mine.get(name), other.get(name)
        if here and there and here != there:
            yield f"{words}: {there}, not {here}"
    here, there = _mapping(mine, "packages"), _mapping(other, "packages")
    # Another image has other packages: that is said.
    if here != there and mine.get("image") == other.get("image"):
        for name in sorted(here.keys() & there.keys()):
            if here[name] != there[name] and _MEASURED.fullmatch(name):
                yield f"other {name}: {there[name]}, not {here[name]}"
    # Kernel modules of the user's own, such as DRBD 9: the file's hash is in no recipe.
    own, its = _mapping(mine, "modules"), _mapping(other, "modules")
    for name in sorted(own.keys() | its.keys()):
        if own.get(name) != its.get(name):
            yield f"other kernel module {name}"
    # A patch level of the outer kernel changes nothing that the floor would not show.
    ours, theirs = (_series(_mapping(each, "host").get("kernel", "")) for each in (mine, other))
    if ours and theirs and ours != theirs:
        yield f"other host kernel: {theirs}, not {ours}"
    if (mine.get("shim"), other.get("shim")) in ((True, False), (False, True)):
        yield "other image: one has no idle shim"


def _floor(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name, words in SPEEDS.items():
        here, there = mine.get(name, 0.0), other.get(name, 0.0)
        low, high = sorted((here, there))
        if low > 0 and high > SLOWER * low:
            yield f"other floor: {words} takes {_us(there)} there, {_us(here)} here"
    here, there = mine.get(_NOISE, 0.0), other.get(_NOISE, 0.0)
    low, high = sorted((here, there))
    if low > 0 and high > max(NOISY, NOISIER * low):
        yield f"other floor: rates vary by {there:.0f} % there, {here:.0f} % here"


def _mapping(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = environment.get(name)
    return found if isinstance(found, Mapping) else {}


def _series(kernel: object) -> str:
    found = _SERIES.match(str(kernel))
    return found.group() if found else ""


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.3g} us"
