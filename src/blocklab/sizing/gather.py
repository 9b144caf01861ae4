"""Many files become systems, each with one curve of its I/O; nothing counts twice, what is left out is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.formats.gather import File
from blocklab.sizing import devices
from blocklab.sizing.curve import Curve, apart, curve_of, filled, mean, overlap, total
from blocklab.sizing.kinds import MODELS, READERS
from blocklab.sizing.models import cloudwatch
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import (
    Columns,
    Interval,
    Series,
    Statistics,
    Trust,
    implausible,
    joined,
    parts_of,
)
from blocklab.sizing.snapshots import pair
from blocklab.sizing.system import Gathered, Input, Source, System
from blocklab.stats.format import shortened

# Two sources of the same I/O may differ by this much before it is said; sampling and rounding make a few per cent.
_AGREE = 1.25
_MOST_BAD = 3
# Of many files or devices alike only so many are named.
_MOST_NAMED = 4


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the files: ``names`` of systems by file, ``kinds`` by file, ``reading`` as for each
    reader, ``every`` (s) between dumps without times, ``devices`` that count, ``left_out`` parts."""

    names: Mapping[Path, str] = {}
    kinds: Mapping[Path, str] = {}
    reading: Reading = Reading()
    every: float | None = None
    devices: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class _Given(File, kw_only=True):
    statistics: Statistics = Statistics()


def gather(paths: Sequence[Path], asked: Asked) -> Gathered:
    """Read the files, and put together what belongs to one system.

    Raises ``StudyError`` where a file may be several kinds, and where nothing usable was found.
    """
    given = [_Given(path=path) for path in paths]
    forced = {path.resolve(): kind for path, kind in asked.kinds.items()}
    take = partial(_take, reading=asked.reading)
    READERS.gather(given, forced, first_report=asked.reading.first_report, take=take)
    remarks: list[str] = []
    labels = _labels(given, asked)
    series = _series(given, labels, asked, remarks)
    series = _plausible(series, remarks)
    groups = _systems(series, remarks)
    if not groups:
        labels_of = "; ".join(kind.label for kind in READERS.kinds.values())
        raise StudyError("", f"no usable statistics: {_reasons(given, remarks)}",
                         hint=f"known are {labels_of}; --as KIND=FILE says what a file is")  # fmt: skip
    known = set().union(*(parts_of(each.intervals) for every in groups.values() for each in every))
    for name in asked.left_out:
        if name not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "no file tells any part apart"
            raise StudyError("", f"--without {name}: no such part of the I/O", hint=there)
    _known_devices([one for _, one in series], asked.devices)
    systems = tuple(_system(name, every, asked, remarks) for name, every in groups.items())
    return Gathered(systems, tuple(_told(each, series) for each in given), tuple(dict.fromkeys(remarks)))


def _take(given: _Given, reading: Reading) -> None:
    """Keeps what its statistics are, and not the table that they are made of."""
    assert given.found is not None
    given.statistics = MODELS[given.kind](given.found, reading)
    given.found = msgspec.structs.replace(given.found, tables=(), dumps=(), periods=(), points=())


def _reasons(given: Sequence[_Given], remarks: Sequence[str]) -> str:
    said = [f"{each.path}: {each.left_out}" for each in given if each.left_out] + list(remarks)
    return "; ".join(said[:_MOST_NAMED]) + ("; ..." if said[_MOST_NAMED:] else "")


def _labels(given: Sequence[_Given], asked: Asked) -> dict[Path, str]:
    """What a system is called whose file does not name it: its folder, where there are several of them."""
    folders = {each.path.resolve().parent for each in given if each.found is not None}
    return {
        each.path: asked.names.get(each.path)
        or (each.path.resolve().parent.name if len(folders) > 1 else "server")
        for each in given
    }


def _series(
    given: Sequence[_Given], labels: Mapping[Path, str], asked: Asked, remarks: list[str]
) -> list[tuple[str, Series]]:
    """Every series, with the name of its system where the user or the folder gives one."""
    found: list[tuple[str, Series]] = []
    snapshots = []
    for each in given:
        if each.found is None:
            continue
        wanted = asked.names.get(each.path, "")
        remarks += _file_remarks(each)
        for one in each.statistics.series:
            found.append(
                (one.system, msgspec.structs.replace(one, system=wanted or one.system or labels[each.path]))
            )
            remarks += [f"{each.path}: {remark}" for remark in one.remarks]
        for dump in each.statistics.snapshots:
            name = wanted or dump.system or labels[each.path]
            snapshots.append(msgspec.structs.replace(dump, system=name))
    paired = pair(snapshots, every=asked.every)
    remarks += paired.remarks
    found += [("", one) for one in paired.series]
    merged = cloudwatch.merge([one for _, one in found])
    databases = {id(one): database for database, one in found}
    return [(databases.get(id(one), ""), one) for one in merged]


def _file_remarks(given: _Given) -> Iterator[str]:
    assert given.found is not None
    remarks = dict.fromkeys((*given.found.remarks, *given.statistics.remarks))
    yield from (f"{given.path}: {remark}" for remark in remarks)
    for bad in given.found.bad_rows[:_MOST_BAD]:
        yield f"{given.path}:{bad.line}: left out: {bad.text[:80]!r}"
    if (lost := given.found.bad) > _MOST_BAD:
        yield f"{given.path}: {lost} lines left out in all"


def _plausible(series: Sequence[tuple[str, Series]], remarks: list[str]) -> list[tuple[str, Series]]:
    """Without intervals whose requests and bytes cannot belong together."""
    found = []
    for database, one in series:
        # A device counts what it does; iostat's rounding to 0.00 is no reason to leave a second out.
        if one.trust is Trust.DEVICE:
            found += [(database, one)] if len(one.intervals) else []
            continue
        good = [each for each in one.intervals if not implausible(each.rates)]
        if len(good) < len(one.intervals):
            bad = next(each for each in one.intervals if implausible(each.rates))
            where = f"{one.files[0]}:{bad.line}" if bad.line else str(one.files[0])
            remarks.append(
                f"{where}: {implausible(bad.rates)}: {len(one.intervals) - len(good)} intervals left out"
            )
        if good:
            found.append((database, msgspec.structs.replace(one, intervals=tuple(good))))
    return found


def _systems(series: Sequence[tuple[str, Series]], remarks: list[str]) -> dict[str, list[Series]]:
    """The series of each system. Device counters of a host are of the database whose statistics name that host; a
    database that was given under two names counts once."""
    groups: dict[str, list[Series]] = {}
    first: dict[tuple[object, ...], str] = {}
    for database, one in _apart_by_host(series):
        # Many databases are called ORCL; the same one is on the same host, or has the same reports.
        which = (database, one.host or (one.intervals[0].start, one.intervals[0].rates))
        known = first.setdefault(which, one.system) if database and not one.instance else one.system
        if known != one.system:
            remarks.append(
                f"{one.files[0]}: database {database} counts as {known} already, not as {one.system} too"
            )
            one = msgspec.structs.replace(one, system=known)
        groups.setdefault(one.system, []).append(one)
    # A pluggable database is told as CONTAINER/NAME; its I/O is in the container's own.
    for inner in [name for name in groups if name.rpartition("/")[0] in groups]:
        outer = inner.rpartition("/")[0]
        remarks.append(f"{inner} is a part of {outer}, whose statistics hold it: left out")
        del groups[inner]
    for host in [name for name, every in groups.items() if all(one.trust is Trust.DEVICE for one in every)]:
        on_it = [
            name
            for name, every in groups.items()
            if name != host and any(one.host and _short(one.host) == _short(host) for one in every)
        ]
        if on_it:
            joined = on_it[0] if len(on_it) == 1 else host
            remarks.append(f"{', '.join(on_it)} ran on {host}: the device counters of {host} count, once")
            every = [one for name in [*on_it, host] for one in groups.pop(name)]
            groups.setdefault(joined, []).extend(every)
    return groups


def _apart_by_host(series: Sequence[tuple[str, Series]]) -> Iterator[tuple[str, Series]]:
    """Databases of one name on several hosts are several systems, unless the user gave them one name."""
    hosts: dict[tuple[str, str], set[str]] = {}
    for database, one in series:
        if database and one.system == database and one.host:
            hosts.setdefault((database, one.instance), set()).add(one.host)
    for database, one in series:
        if len(hosts.get((one.system, one.instance), ())) > 1 and one.host:
            one = msgspec.structs.replace(one, system=f"{one.system} on {one.host}")
        yield database, one


def _known_devices(series: Sequence[Series], wanted: Sequence[str]) -> None:
    there = sorted({one.device for one in series if one.device})
    for device in wanted:
        if device not in there:
            hint = f"there are {shortened(there)}" if there else "no file has counters of block devices"
            raise StudyError("", f"--device {device}: no file has it", hint=hint)


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _system(name: str, every: Sequence[Series], asked: Asked, remarks: list[str]) -> System:
    of_devices = [one for one in every if one.trust is Trust.DEVICE]
    wanted = [device for device in asked.devices if any(device == one.device for one in of_devices)]
    chosen, said = devices.chosen(of_devices, wanted) if of_devices else ([], [])
    remarks += [f"{name}: {each}" for each in said]
    sources: dict[tuple[str, Trust], list[Series]] = {}
    for one in [*chosen, *(one for one in every if one.trust is not Trust.DEVICE)]:
        sources.setdefault(("devices" if one.trust is Trust.DEVICE else one.source, one.trust), []).append(one)
    # A stable sort: of sources as trusted as each other the first one given counts.
    ranked = sorted(sources.items(), key=lambda each: -each[0][1])
    curves = [_curve(name, found, asked.left_out, remarks) for _, found in ranked]
    curve = curves[0]
    for other, (_, found) in zip(curves[1:], ranked[1:], strict=True):
        remarks += [f"{name}: {each}" for each in _compared(curves[0], other, ranked[0][1][0], found[0])]
        curve = filled(curve, other)
    return System(
        name=name, curve=curve, product=next((one.product for one in every if one.product), ""),
        sources=tuple(
            Source(
                name=", ".join(dict.fromkeys(one.source for one in found)), trust=trust, main=not number,
                files=tuple(dict.fromkeys(file for one in found for file in one.files)),
                devices=tuple(dict.fromkeys(one.device for one in found if one.device)),
            )
            for number, ((_, trust), found) in enumerate(ranked)
        ),
        untimed=all(one.untimed for one in ranked[0][1]),
        parts=tuple(sorted(set().union(*(parts_of(one.intervals) for one in every)))),
    )  # fmt: skip


def _curve(name: str, every: Sequence[Series], left_out: Sequence[str], remarks: list[str]) -> Curve:
    """The sum of the devices or instances of one source, each moment of each of them once."""
    by: dict[tuple[str, str, str], list[Series]] = {}
    for one in every:
        by.setdefault((one.system, one.device, one.instance), []).append(one)
    curves = []
    for (system, _, instance), mine in by.items():
        whole = by.get((system, "", "")) if instance else None
        if whole is None and (plain := _without_overlaps(mine)) is not None:
            curves.append(curve_of(plain))
            continue
        intervals = list(_placed(mine))
        if whole is not None:
            # A report of all instances has those of each one in it.
            outer = list(_placed(whole))
            intervals = [each for each in intervals if not _beside(each, outer, name, remarks)]
        kept, dropped = apart(intervals)
        for file, other in dropped[:_MOST_NAMED]:
            remarks.append(f"{file}: of the same time as {other}, which tells more or came first: left out")
        if more := dropped[_MOST_NAMED:]:
            remarks.append(f"{name}: {len(more)} more intervals left out: their times overlap others")
        curves += [curve_of(kept, left_out)] if kept else []
    found = total(curves)
    if not len(found.starts):
        parts = shortened(sorted({one.device or one.instance or one.system for one in every}))
        raise StudyError(
            "", f"{name}: {parts} were not observed at the same time, so their sum is unknown",
            hint="give each a name of its own: NAME=FILE",
        )  # fmt: skip
    return found


def _without_overlaps(mine: Sequence[Series]) -> Columns | None:
    """What was kept as columns, where no interval is of the time of another one."""
    several = [one.intervals for one in mine if isinstance(one.intervals, Columns)]
    if len(several) < len(mine):
        return None
    found = joined(several)
    return None if overlap(found) else found


def _placed(mine: Sequence[Series]) -> Iterator[tuple[Interval, str]]:
    for one in mine:
        yield from ((each, _where(one, each)) for each in one.intervals)


def _beside(
    mine: tuple[Interval, str], whole: Sequence[tuple[Interval, str]], name: str, remarks: list[str]
) -> bool:
    interval, file = mine
    other = next((place for each, place in whole if each.start < interval.end and interval.start < each.end), "")
    if other:
        remarks.append(f"{file}: one instance of {name}, which {other} has all of: left out")
    return bool(other)


def _where(one: Series, interval: Interval) -> str:
    return f"{one.files[0]}:{interval.line}" if interval.line else ", ".join(str(file) for file in one.files)


def _compared(main: Curve, other: Curve, mine: Series, its: Series) -> Iterator[str]:
    """Where two sources of one time disagree."""
    both = total([main, other])
    if not len(both.starts):
        return
    edges = np.unique(np.concatenate([both.starts, both.ends]))
    a, b = main.kept_at(edges), other.kept_at(edges)
    yield f"{mine.source} counts ({mine.trust.label}); {its.source} ({its.trust.label}) is compared with it"
    for metric, what in (("bandwidth", "bytes"), ("iops", "requests")):
        first, second = mean(a.values[metric], a.seconds), mean(b.values[metric], b.seconds)
        if first > 0 and second > 0 and not 1 / _AGREE <= second / first <= _AGREE:
            yield f"{its.source} tells of {second / first:.2g} times the {what} of {mine.source}"


def _told(given: _Given, series: Sequence[tuple[str, Series]]) -> Input:
    mine = [one for _, one in series if given.path in one.files]
    return Input(
        path=given.path, kind=given.kind, left_out=given.left_out,
        system=", ".join(dict.fromkeys(one.system for one in mine)),
        intervals=sum(len(one.intervals) for one in mine),
    )  # fmt: skip
