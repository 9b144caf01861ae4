"""Which device counters of a host count each request once: disks, not partitions, not what stands on them."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from blocklab.errors import StudyError
from blocklab.imports.device_names import NUMBERED, named
from blocklab.sizing.series import Interval, Series

SAR_B, SAR_D = "sar -b", "sar -d"
VOLUMES, INSTANCES = "CloudWatch EBS", "CloudWatch EC2"

# sda   vdb   xvdf   nvme0n1   hda   mmcblk0   ubdb   dasda   nbd0   rbd1   cciss/c0d0   pmem0
_DISK = re.compile(
    r"(?:sd|vd|xvd|hd|ubd|dasd|fio|rssd)[a-z]{1,4}|nvme\d+n\d+|mmcblk\d+|nbd\d+|rbd\d+|cciss[/!]c\d+d\d+"
    r"|pmem\d+|dev259-\d+"
)
# sda1   nvme0n1p2   mmcblk0p1   mmcblk0boot0   nvme0c1n1 (a path of nvme0n1)
_PARTITION = re.compile(
    r"(?P<disk>(?:sd|vd|xvd|hd|ubd|dasd|fio|rssd)[a-z]{1,4})\d+"
    r"|(?P<numbered>nvme\d+n\d+|mmcblk\d+|nbd\d+|rbd\d+|cciss[/!]c\d+d\d+|pmem\d+)(?:p\d+|boot\d|rpmb)"
    r"|(?P<path>nvme\d+)c\d+(?P<space>n\d+)"
)
_MEMORY = re.compile(r"(?:loop|ram|sr|scd|zram|fd|mtdblock)\d+(?:p\d+)?")
# The lowest of what stands on disks first.
_STACKED = (re.compile(r"md\d+|md_.+"), re.compile(r"dm-\d+"), re.compile(r"bcache\d+"), re.compile(r"drbd\d+"))
_MOST_NAMED = 6


def chosen(series: Sequence[Series], asked: Sequence[str]) -> tuple[list[Series], list[str]]:
    """Of the device counters of one host those that count each request once, and what was left out and why.

    ``asked``: names of devices that are to count instead, whatever they are. Raises ``StudyError`` for one that
    is not there.
    """
    if asked:
        return _asked(series, asked)
    said: list[str] = []
    groups: dict[int, list[Series]] = {}
    for each in series:
        groups.setdefault(_source(each, series), []).append(each)
    kept: list[Series] = []
    for number in sorted(groups, key=lambda each: (not _apart(groups[each]), each)):
        group = groups[number]
        counted = _once(group, said) if number in (_BY_NAME, _BY_NUMBER) else group
        kept += _elsewhere(counted, kept, said) if kept else counted
    return kept, said


# The ways to count the I/O of a host; two of them are of the same requests.
_BY_NAME, _WHOLE_HOST, _BY_NUMBER, _CLOUD_VOLUMES, _CLOUD_INSTANCE = range(5)


def _source(one: Series, every: Sequence[Series]) -> int:
    if one.source.startswith(INSTANCES):
        return _CLOUD_INSTANCE
    if one.source.startswith("CloudWatch"):
        return _CLOUD_VOLUMES
    if one.source == SAR_B:
        return _WHOLE_HOST
    # Where sar's names cannot be translated they cannot be matched with those of another tool.
    strange = any(
        each.source == SAR_D and (NUMBERED.fullmatch(each.device) or _kind(each.device) == "unknown")
        for each in every
    )
    return _BY_NUMBER if one.source == SAR_D and strange else _BY_NAME


def _apart(group: Sequence[Series]) -> bool:
    """Whether reads and writes are distinguished."""
    return any(each.rates.reads is not None for one in group for each in one.intervals[:1])


def _asked(series: Sequence[Series], asked: Sequence[str]) -> tuple[list[Series], list[str]]:
    wanted = dict.fromkeys(named(each) for each in asked)
    there = dict.fromkeys(one.device for one in series if one.device)
    for name in wanted:
        if name not in there:
            known = ", ".join(sorted(there)) or "none: only sums of the whole host"
            raise StudyError("", f"no device {name} in the statistics", hint=f"there are {known}")
    left = sorted({one.device or one.source for one in series if one.device not in wanted})
    said = [f"counted are {', '.join(wanted)}, as asked for" + (f"; not {_list(left)}" if left else "")]
    for name in wanted:
        if (disk := _disk_of(name)) in wanted:
            said.append(f"{name} is a part of {disk}: its requests count twice, as asked for")
    return [one for one in series if one.device in wanted], said


def _kind(device: str) -> str:
    """``disk``, ``part``, ``memory``, ``numbered`` (by numbers that mean nothing), ``unknown`` or the place in
    ``_STACKED`` as a digit."""
    if _DISK.fullmatch(device):
        return "disk"
    if _PARTITION.fullmatch(device):
        return "part"
    if _MEMORY.fullmatch(device):
        return "memory"
    if NUMBERED.fullmatch(device):
        return "numbered"
    for number, pattern in enumerate(_STACKED):
        # A partition of an array: md127p1
        if pattern.fullmatch(device.partition("p")[0] if device.startswith("md1") else device):
            return str(number)
    return "unknown"


def _disk_of(device: str) -> str:
    """The disk of a partition; empty for what is none."""
    match = _PARTITION.fullmatch(device)
    if match is None:
        return ""
    return match["disk"] or match["numbered"] or f"{match['path']}{match['space']}"


def _once(group: Sequence[Series], said: list[str]) -> list[Series]:
    """The lowest devices that are there."""
    names = list(dict.fromkeys(one.device for one in group))
    kinds = {name: _kind(name) for name in names}
    count = {name for name in names if kinds[name] == "disk"}
    count |= {name for name in names if kinds[name] == "part" and _disk_of(name) not in names}
    if not count:
        count = set(_lowest(names, kinds, group, said))
    parts = [name for name in names if kinds[name] == "part" and name not in count]
    memory = [name for name in names if kinds[name] == "memory" and name not in count]
    upper = [name for name in names if name not in count and name not in parts and name not in memory]
    why = [
        f"{_list(which)} ({reason})"
        for which, reason in (
            (parts, "partitions of those"), (upper, "stands on them, as far as the name tells"),
            (memory, "memory, loop or removable devices"),
        )
        if which
    ]  # fmt: skip
    if why:
        said.append(f"counted are {_list(sorted(count))}; not {'; '.join(why)}; --device overrides this")
    return [one for one in group if one.device in count]


def _lowest(
    names: Sequence[str], kinds: dict[str, str], group: Sequence[Series], said: list[str]
) -> Sequence[str]:
    """What counts where there is no disk: devices by numbers, else what stands lowest."""
    if numbered := [name for name in names if kinds[name] == "numbered"]:
        return _by_major(numbered, group, said)
    for level in (*(str(number) for number in range(len(_STACKED))), "unknown", "memory"):
        if found := [name for name in names if kinds[name] == level]:
            if len(found) > 1 and level not in ("0", "memory"):
                said.append(f"{_list(found)} all count; where one of them stands on another, choose with --device")
            return found
    return names


def _by_major(names: Sequence[str], group: Sequence[Series], said: list[str]) -> Sequence[str]:
    """Of devices by numbers given out as drivers load (252 to 254: virtio disks or LVM) those that moved as many
    bytes with fewer requests: requests are merged on their way down."""
    majors: dict[int, list[str]] = {}
    for name in names:
        match = NUMBERED.fullmatch(name)
        assert match is not None
        majors.setdefault(int(match[1]), []).append(name)
    if len(majors) == 1:
        return names
    total = {
        major: [sum(_moved(one, what) for one in group if one.device in of) for what in ("bytes", "requests")]
        for major, of in majors.items()
    }
    most = max(moved for moved, _ in total.values())
    if most > 0 and all(moved >= 0.9 * most for moved, _ in total.values()):
        best = min(total, key=lambda each: total[each][1])
        said.append(f"dev{best}-* are taken for the disks: the others move the same bytes in more requests")
        return majors[best]
    said.append(
        "whether one of " + ", ".join(f"dev{major}-*" for major in majors) + " stands on another is not known: "
        "all count; print names with sar -d -p, or or choose with --device"
    )
    return names


def _moved(one: Series, what: str) -> float:
    """Bytes or requests of a series in all."""
    if what == "bytes":
        return sum(
            ((each.rates.read_bytes or 0.0) + (each.rates.write_bytes or 0.0)) * each.seconds
            for each in one.intervals
        )
    return sum((each.rates.together or 0.0) * each.seconds for each in one.intervals)


def _elsewhere(group: Sequence[Series], kept: Sequence[Series], said: list[str]) -> list[Series]:
    """Of another count of the same requests only what is of other times."""
    busy = _joined(each for one in kept for each in one.intervals)
    found: list[Series] = []
    left = there = 0
    for one in group:
        free = tuple(each for each in one.intervals if not _overlaps(each, busy))
        there += len(one.intervals)
        left += len(one.intervals) - len(free)
        if free:
            found.append(one if len(free) == len(one.intervals) else msgspec.structs.replace(one, intervals=free))
    if left:
        mine = ", ".join(dict.fromkeys(one.source for one in group))
        others = ", ".join(dict.fromkeys(one.source for one in kept))
        why = "" if _apart(group) or not _apart(kept) else ", and it does not tell reads and writes apart"
        said.append(f"{mine}: {left} of {there} intervals are of the time of {others}{why}: left out")
    return found


def _joined(intervals: Iterator[Interval]) -> list[tuple[float, float]]:
    """The times that are covered, without overlaps, in order."""
    found: list[tuple[float, float]] = []
    for start, end in sorted((each.start, each.end) for each in intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _overlaps(one: Interval, busy: Sequence[tuple[float, float]]) -> bool:
    """Whether more than a rounding of its time is covered."""
    slack = min(1.5, one.seconds / 10)
    at = bisect.bisect_right(busy, (one.start + slack, math.inf))
    return any(start < one.end - slack and end > one.start + slack for start, end in busy[max(0, at - 1) : at + 1])


def _list(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
