"""Which devices of a host count a request once: never a disk and its partitions, nor a path and what it leads to.

``blocklab import`` and ``blocklab size`` both decide it here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from blocklab.formats.host.device_names import NUMBERED
from blocklab.model.watched import Values

# sda   vdb   xvdf   nvme0n1   hda   mmcblk0   ubdb   dasda   nbd0   rbd1   cciss/c0d0   pmem0
_DISK = re.compile(
    r"(?:sd|vd|xvd|hd|ubd|dasd|fio|rssd)[a-z]{1,4}|nvme\d+n\d+|mmcblk\d+|nbd\d+|rbd\d+|cciss[/!]c\d+d\d+"
    r"|pmem\d+|dev259-\d+"
)
# sda1   nvme0n1p2   mmcblk0p1   mmcblk0boot0
_PARTITION = re.compile(
    r"(?P<disk>(?:sd|vd|xvd|hd|ubd|dasd|fio|rssd)[a-z]{1,4})\d+"
    r"|(?P<numbered>nvme\d+n\d+|mmcblk\d+|nbd\d+|rbd\d+|cciss[/!]c\d+d\d+|pmem\d+)(?:p\d+|boot\d|rpmb)"
)
# nvme3c33n1: a path of nvme3n1. Before about Linux 6.3 the kernel counted native multipath at its paths only, and
# nothing at the head; since then at both.
_PATH = re.compile(r"(?P<controller>nvme\d+)c\d+(?P<space>n\d+)")
_MEMORY = re.compile(r"(?:loop|ram|sr|scd|zram|fd|mtdblock)\d+(?:p\d+)?")
# The lowest of what stands on disks first.
_STACKED = (re.compile(r"md\d+|md_.+"), re.compile(r"dm-\d+"), re.compile(r"bcache\d+"), re.compile(r"drbd\d+"))
LEVELS = tuple(str(number) for number in range(len(_STACKED)))
"""The kinds of what stands on disks, the lowest first."""
# virtio disks and LVM: numbers are given out as drivers load, and virtio has 16 to a disk. Of NVMe (259) they are
# given out as disks and partitions come.
_VIRTIO, _NVME, _TO_A_DISK = ("252", "253", "254"), "259", 16
# A part does no more than the whole, but for rounding to two decimals.
_MORE, _REQUESTS, _BYTES = 1.01, 0.02, 16.0
# A head with so much less than its paths does not count what they carry.
_LESS = 0.5
_MOST_NAMED = 6


class Moved(msgspec.Struct, frozen=True):
    """What a device did: requests and bytes a second by ``times``, which rise."""

    times: Values
    requests: Values
    bytes: Values

    @property
    def total(self) -> float:
        """Of all times, to compare with others: bytes, or requests where no bytes are told."""
        amount = float(np.nansum(self.bytes))
        return amount or float(np.nansum(self.requests))


class Doubles(msgspec.Struct, frozen=True):
    """``of``: by the device that does not count the one that has its requests. ``said``: what was decided although
    the file does not tell."""

    of: Mapping[str, str]
    said: tuple[str, ...] = ()


def kind(device: str) -> str:
    """``disk``, ``part``, ``path``, ``memory``, ``numbered`` (by numbers that mean nothing), ``unknown``, or one
    of ``LEVELS``."""
    if _DISK.fullmatch(device):
        return "disk"
    if _PARTITION.fullmatch(device):
        return "part"
    if _PATH.fullmatch(device):
        return "path"
    if _MEMORY.fullmatch(device):
        return "memory"
    if NUMBERED.fullmatch(device):
        return "numbered"
    for level, pattern in zip(LEVELS, _STACKED, strict=True):
        # A partition of an array: md127p1
        if pattern.fullmatch(device.partition("p")[0] if device.startswith("md1") else device):
            return level
    return "unknown"


def disk_of(device: str) -> str:
    """The disk of a partition, or the head of a path; empty for what is neither."""
    if match := _PATH.fullmatch(device):
        return f"{match['controller']}{match['space']}"
    match = _PARTITION.fullmatch(device)
    return (match["disk"] or match["numbered"]) if match else ""


def doubles(moved: Mapping[str, Moved]) -> Doubles:
    """Of the devices of a host those whose requests another one of them counts too."""
    of = {name: disk_of(name) for name in moved if kind(name) == "part" and disk_of(name) in moved}
    said: list[str] = []
    of |= dict(_paths(moved))
    for name, disk in _by_number(moved):
        of[name] = disk
    if numbered := [name for name in of if NUMBERED.fullmatch(name)]:
        disks = listed(list(dict.fromkeys(of[name] for name in numbered)))
        said.append(
            f"{listed(numbered)} never did more than {disks}: taken for partitions and not counted, since numbers "
            "do not tell disks from partitions; print names with sar -d -p, or choose with --device"
        )
    return Doubles(of, tuple(said))


def _paths(moved: Mapping[str, Moved]) -> Iterator[tuple[str, str]]:
    """Each path beside a head, or the head that counts nothing, with the one that counts."""
    heads: dict[str, list[str]] = {}
    for name in moved:
        if kind(name) == "path":
            heads.setdefault(disk_of(name), []).append(name)
    for head, paths in heads.items():
        if head not in moved:
            continue
        if moved[head].total >= _LESS * sum(moved[path].total for path in paths):
            yield from ((path, head) for path in paths)
        else:
            yield head, paths[0]


def _by_number(moved: Mapping[str, Moved]) -> Iterator[tuple[str, str]]:
    """Devices by numbers that may be partitions of another one: in no interval did they, together, do more."""
    left: dict[str, Moved] = {}
    for name in sorted(filter(NUMBERED.fullmatch, moved), key=_numbers):
        major, minor = _numbers(name)
        mine = moved[name]
        # A disk comes before its partitions.
        before = [other for other in left if _numbers(other)[0] == major and mine.total > 0]
        if str(major) in _VIRTIO:
            before = [other for other in before if _numbers(other)[1] == minor - minor % _TO_A_DISK]
        elif str(major) != _NVME:
            before = []
        disk = next((other for other in before if _within(mine, left[other])), "")
        if disk:
            left[disk] = _rest(left[disk], mine)
            yield name, disk
        else:
            left[name] = mine


def _numbers(name: str) -> tuple[int, int]:
    match = NUMBERED.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _at(one: Moved, times: Values) -> tuple[Values, Values]:
    """Its requests and bytes at these times, 0 where it has no report."""
    if not len(one.times):
        return np.zeros(len(times)), np.zeros(len(times))
    place = np.clip(np.searchsorted(one.times, times), 0, len(one.times) - 1)
    there = one.times[place] == times
    requests, amount = (np.where(there, np.nan_to_num(each[place]), 0.0) for each in (one.requests, one.bytes))
    return requests, amount


def _within(part: Moved, whole: Moved) -> bool:
    requests, amount = _at(whole, part.times)
    return bool(
        (np.nan_to_num(part.requests) <= requests * _MORE + _REQUESTS).all()
        and (np.nan_to_num(part.bytes) <= amount * _MORE + _BYTES).all()
    )


def _rest(whole: Moved, part: Moved) -> Moved:
    requests, amount = _at(part, whole.times)
    return Moved(whole.times, whole.requests - requests, whole.bytes - amount)


def listed(names: Sequence[str] | Iterable[str]) -> str:
    """Names for a remark, the first few of many."""
    every = list(names)
    return ", ".join([*every[:_MOST_NAMED], *(["..."] if len(every) > _MOST_NAMED else [])])
