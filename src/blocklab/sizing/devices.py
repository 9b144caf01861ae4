"""Which device counters of a host count each request once: disks, not partitions, not what stands on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from blocklab.errors import StudyError
from blocklab.formats.host import identity
from blocklab.formats.host.device_names import NUMBERED, named
from blocklab.formats.host.identity import Moved, listed
from blocklab.model.watched import Values
from blocklab.sizing.series import Columns, Series, columns, joined

SAR_B, SAR_D = "sar -b", "sar -d"
VOLUMES, INSTANCES = "CloudWatch EBS", "CloudWatch EC2"
# What stands on disks moves about what they do, not so much more.
_STANDS = 1.1


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
        each.source == SAR_D and (NUMBERED.fullmatch(each.device) or identity.kind(each.device) == "unknown")
        for each in every
    )
    return _BY_NUMBER if one.source == SAR_D and strange else _BY_NAME


def _apart(group: Sequence[Series]) -> bool:
    """Whether reads and writes are distinguished."""
    return any(one.intervals[0].rates.reads is not None for one in group if len(one.intervals))


def _asked(series: Sequence[Series], asked: Sequence[str]) -> tuple[list[Series], list[str]]:
    wanted = dict.fromkeys(named(each) for each in asked)
    there = dict.fromkeys(one.device for one in series if one.device)
    for name in wanted:
        if name not in there:
            known = ", ".join(sorted(there)) or "none: only sums of the whole host"
            raise StudyError("", f"no device {name} in the statistics", hint=f"there are {known}")
    left = sorted({one.device or one.source for one in series if one.device not in wanted})
    said = [f"counted are {', '.join(wanted)}, as asked for" + (f"; not {listed(left)}" if left else "")]
    for name in wanted:
        if (disk := identity.disk_of(name)) in wanted:
            said.append(f"{name} is a part of {disk}: its requests count twice, as asked for")
    return [one for one in series if one.device in wanted], said


def _moved_of(several: Sequence[Series]) -> Moved:
    found = joined([columns(one.intervals) for one in several])
    requests, amount = (
        np.where(np.isnan(both), found.told(together), both)
        for both, together in (
            (found.told("reads") + found.told("writes"), "requests"),
            (found.told("read_bytes") + found.told("write_bytes"), "total_bytes"),
        )
    )
    return Moved(found.starts, requests, amount)


def _once(group: Sequence[Series], said: list[str]) -> list[Series]:
    """The lowest devices that are there."""
    moved = {
        name: _moved_of([one for one in group if one.device == name]) for name in {o.device: 0 for o in group}
    }
    found = identity.doubles(moved)
    said += found.said
    names = [name for name in dict.fromkeys(one.device for one in group) if name not in found.of]
    kinds = {name: identity.kind(name) for name in names}
    count = {name for name in names if kinds[name] in ("disk", "part", "path")}
    if count:
        count |= _apart_from(count, [name for name in names if kinds[name] == "numbered"], moved, said)
    else:
        count = set(_lowest(names, kinds, group, said))
    heads = [
        name for name in found.of if identity.kind(name) != "part" and identity.kind(found.of[name]) == "path"
    ]
    paths = [name for name in found.of if identity.kind(name) == "path"]
    parts = [name for name in found.of if name not in heads and name not in paths]
    memory = [name for name in names if kinds[name] == "memory" and name not in count]
    upper = [name for name in names if name not in count and name not in memory]
    why = [
        f"{listed(which)} ({reason})"
        for which, reason in (
            (parts, "partitions of those"), (paths, "paths of those"),
            (heads, "this kernel counts at their paths"),
            (upper, "stands on them, as far as the name tells"), (memory, "memory, loop or removable devices"),
        )
        if which
    ]  # fmt: skip
    if why:
        said.append(f"counted are {listed(sorted(count))}; not {'; '.join(why)}; --device overrides this")
    return [one for one in group if one.device in count]


def _apart_from(
    disks: Collection[str], numbered: Sequence[str], moved: Mapping[str, Moved], said: list[str]
) -> set[str]:
    """Of devices by numbers beside disks those that moved more than the disks did: they cannot stand on them."""
    below = sum(moved[name].total for name in disks)
    majors: dict[str, list[str]] = {}
    for name in numbered:
        majors.setdefault(name.partition("-")[0], []).append(name)
    found: set[str] = set()
    for mine in majors.values():
        there = sum(moved[name].total for name in mine)
        if there > _STANDS * below:
            found |= set(mine)
        elif there:
            said.append(
                f"whether {listed(mine)} are disks or stand on {listed(sorted(disks))} is not known: not counted, "
                "so that no request counts twice; print names with sar -d -p, or choose with --device"
            )
    return found


def _lowest(
    names: Sequence[str], kinds: dict[str, str], group: Sequence[Series], said: list[str]
) -> Sequence[str]:
    """What counts where there is no disk: devices by numbers, else what stands lowest."""
    if numbered := [name for name in names if kinds[name] == "numbered"]:
        return _by_major(numbered, group, said)
    for level in (*identity.LEVELS, "unknown", "memory"):
        if found := [name for name in names if kinds[name] == level]:
            if len(found) > 1 and level not in ("0", "memory"):
                said.append(
                    f"{listed(found)} all count; where one of them stands on another, choose with --device"
                )
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
    numbered = listed(f"dev{major}-*" for major in majors)
    said.append(
        f"whether one of {numbered} stands on another is not known: all count; print names with sar -d -p, or "
        "choose with --device"
    )
    return names


def _moved(one: Series, what: str) -> float:
    """Bytes or requests of a series in all."""
    found = _moved_of([one])
    return float(np.nansum((found.bytes if what == "bytes" else found.requests) * columns(one.intervals).seconds))


def _elsewhere(group: Sequence[Series], kept: Sequence[Series], said: list[str]) -> list[Series]:
    """Of another count of the same requests only what is of other times."""
    starts, ends = _joined([columns(one.intervals) for one in kept])
    found: list[Series] = []
    left = there = 0
    for one in group:
        intervals = columns(one.intervals)
        free = ~_overlaps(intervals, starts, ends)
        there += len(free)
        left += int((~free).sum())
        if free.all():
            found.append(one)
        elif free.any():
            found.append(msgspec.structs.replace(one, intervals=intervals.at(free)))
    if left:
        mine = ", ".join(dict.fromkeys(one.source for one in group))
        others = ", ".join(dict.fromkeys(one.source for one in kept))
        why = "" if _apart(group) or not _apart(kept) else ", and it does not tell reads and writes apart"
        said.append(f"{mine}: {left} of {there} intervals are of the time of {others}{why}: left out")
    return found


def _joined(several: Sequence[Columns]) -> tuple[Values, Values]:
    """The times that are covered, without overlaps, in order: starts and ends."""
    every = joined(several)
    ends = np.maximum.accumulate(every.ends)
    first = np.concatenate([[True], every.starts[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return every.starts[first], ends[last]


def _overlaps(of: Columns, starts: Values, ends: Values) -> npt.NDArray[np.bool_]:
    """Of each interval whether more than a rounding of its time is covered."""
    slack = np.minimum(1.5, of.seconds / 10)
    first, last = of.starts + slack, of.ends - slack
    # The last stretch that begins before the interval ends.
    at = np.searchsorted(starts, last, side="left") - 1
    return (at >= 0) & (ends[np.maximum(at, 0)] > first)
