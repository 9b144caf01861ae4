"""The columns of iostat, with and without ``-x``, in every sysstat, and what they mean in base units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from blocklab.formats.host.columns import Columns
from blocklab.model.watched import Values, Watched

KIB, MIB, SECTOR = 1024.0, 1024.0**2, 512.0
_BYTES = {"kB/s": KIB, "MB/s": MIB, "sec/s": SECTOR}
_UNITS = {SECTOR: "sectors/s", KIB: "kB/s", MIB: "MB/s"}
# Two ways to tell the same throughput differ by less than this part, and by what two decimals leave out.
_AGREE, _ROUNDING = 0.1, 0.005
# Without -x, of both ways with -x -s.
_PLAIN = {
    f"{unit}{name}/s": (metric, factor)
    for unit, factor in (("kB", KIB), ("MB", MIB), ("Blk", SECTOR))
    for name, metric in (("_read", "read.bandwidth"), ("_wrtn", "write.bandwidth"), ("", "bandwidth"))
}

# Without a header the number of columns tells the version; what a header would call kB may be MB (-m), or
# sectors (of the oldest without -k).
BY_COUNT: Mapping[int, tuple[str, tuple[str, ...]]] = {
    len(names.split()): (version, tuple(names.split()))
    for version, names in (
        ("9 to 10.0", "rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util"),
        ("10.1 to 11.5", "rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util"),
        (
            "11.5.7 to 12.0",
            "r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util",
        ),
        (
            "12.1 to 12.3",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz %util",
        ),
        (
            "12.1 with svctm",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz svctm %util",
        ),
        (
            "12.3 on",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
        ),
    )
}


def _sized() -> Iterator[tuple[str, Sequence[_Moved], Sequence[str], str, float]]:
    """By way the columns that tell bytes a second, in any unit, those that tell requests a second, and the one
    that tells their size, in what unit."""
    for way, letter in (("read", "r"), ("write", "w")):
        moved = [((f"{letter}{unit}", by),) * 2 for unit, by in _BYTES.items()]
        yield way, moved, (f"{letter}/s",), f"{letter}areq-sz", KIB
    both = [((f"r{unit}", by), (f"w{unit}", by)) for unit, by in _BYTES.items()]
    yield "", both, ("r/s", "w/s"), "avgrq-sz", SECTOR
    # sar -d, whose sizes are those of discards too; iostat -x -s
    every: list[_Moved] = [(*each, (f"d{each[0][0][1:]}", each[0][1])) for each in both]
    every += [(("rd_sec/s", SECTOR), ("wr_sec/s", SECTOR)), *((((unit), by),) * 2 for unit, by in _BYTES.items())]
    yield "", every, ("tps",), "areq-sz", KIB
    yield "", every, ("tps",), "avgrq-sz", SECTOR


# Of a throughput its columns, each with its unit in bytes.
_Moved: TypeAlias = tuple[tuple[str, float], ...]
_SIZED = tuple(_sized())


class _Sum(msgspec.Struct):
    """Of a way the name and unit (bytes) of its column, and of its rows: how many agree and how many do not, and
    of these bytes/s as the column says, as the requests come to, and what rounding may make."""

    name: str
    unit: float
    agree: int = 0
    differ: int = 0
    told: float = 0.0
    meant: float = 0.0
    slack: float = 0.0


class Sizes:
    """Whether throughput, requests and their sizes, which one file tells beside each other, agree, by way
    (``read``, ``write``, or empty for both)."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}
        self._mixed: set[str] = set()

    def add(self, row: Columns) -> None:
        """The columns of some rows."""
        for way, moved, counts, size, unit in _SIZED:
            if size not in row or not all(name in row for name in counts):
                continue
            columns = next((each for each in moved if each[0][0] in row and each[1][0] in row), None)
            if columns is not None:
                nothing = np.zeros(len(row[size]))
                names = dict.fromkeys(name for name, _ in columns if name in row)
                total = sum((row[name] for name in names), nothing)
                count = sum((row[name] for name in counts), nothing)
                self._add(way, columns[0], total, count, row[size] * unit)

    def _add(self, way: str, column: tuple[str, float], moved: Values, count: Values, size: Values) -> None:
        name, unit = column
        found = self._sums.setdefault(way, _Sum(name, unit))
        if found.name != name:
            self._mixed.add(way)
        told, meant = moved * unit, count * size
        slack = _ROUNDING * (unit + size + count * KIB)
        there = (told > 0) | (meant > 0)
        differ = there & (np.abs(told - meant) > _AGREE * np.maximum(told, meant) + slack)
        found.agree += int((there & ~differ).sum())
        found.differ += int(differ.sum())
        found.told += float(told[differ].sum())
        found.meant += float(meant[differ].sum())
        found.slack += float(slack[differ].sum())

    def nearest(self) -> float | None:
        """The unit (bytes) that fits best where nothing tells what the columns are; None where nothing moved."""
        agree = sum(each.agree for each in self._sums.values())
        told = sum(each.told / each.unit for each in self._sums.values())
        meant = sum(each.meant for each in self._sums.values())
        if told <= 0 or meant <= 0:
            return KIB if agree else None
        # What is printed is rounded, so it is whichever comes nearest.
        return min(_UNITS, key=lambda unit: abs(math.log(meant / told / unit)))

    def contradictions(self) -> Iterator[tuple[str, float | None, str]]:
        """Of each way most of whose rows contradict themselves: by what its throughput has to be multiplied (None:
        nothing makes it right), and what is to be said."""
        for way, each in self._sums.items():
            if way in self._mixed or each.differ <= each.agree:
                continue
            told = each.told / each.unit
            near = [unit for unit in _UNITS if abs(told * unit - each.meant) <= _AGREE * each.meant + each.slack]
            if near:
                said = (
                    f"{each.name} and the requests times their size contradict each other in {each.differ:,} "
                    f"rows: {each.name} is taken for {_UNITS[near[0]]}"
                )
                yield way, near[0] / each.unit, said
            else:
                said = (
                    f"{each.name} and the requests times their size contradict each other in {each.differ:,} "
                    "rows: this throughput is left out"
                )
                yield way, None, said


class Meaning:
    """What the columns of one file mean; it sees all of them, so it knows whether they agree."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.columns = 0

    def rates(self, row: Columns) -> Iterator[tuple[str, Values, str]]:
        """Metric, values and unit, as the probe disks has them; columns that say the same another way are left
        out."""
        self.sizes.add(row)
        self.columns = self.columns or len(row)
        yield from rates(row)


def rates(row: Columns) -> Iterator[tuple[str, Values, str]]:
    """Metric, values (NaN where there is none) and unit of the columns of some rows."""
    for way, letter in (("read", "r"), ("write", "w"), ("flush", "f")):
        rate = row.get(f"{letter}/s")
        if rate is None:
            continue
        yield f"{way}.iops", rate, "1/s"
        for unit, factor in _BYTES.items():
            if (amount := row.get(f"{letter}{unit}")) is not None:
                yield f"{way}.bandwidth", amount * factor, "B/s"
        wait = row.get(f"{letter}_await", _only(row, letter))
        # iostat prints a wait of 0.00 where nothing waited; that is no measurement.
        if wait is not None:
            yield f"{way}.await", np.where(rate > 0, wait / 1000, np.nan), "s"
    if (rate := row.get("tps")) is not None:
        yield "iops", rate, "1/s"
        yield from ((each, row[name] * by, "B/s") for name, (each, by) in _PLAIN.items() if name in row)
        if (wait := row.get("await")) is not None:
            yield "await", np.where((rate > 0) & (wait > 0), wait / 1000, np.nan), "s"
    queue = row.get("aqu-sz", row.get("avgqu-sz"))
    if queue is not None:
        yield "queue", queue, "1"
    util = row.get("%util", row.get("util"))
    if util is not None:
        yield "util", util, "%"


def _only(row: Columns, letter: str) -> Values | None:
    """Old versions have one wait for reads and writes together: it is of those of which there were any."""
    other = {"r": "w", "w": "r"}.get(letter)
    if "r_await" in row or "await" not in row or other is None:
        return None
    there = row.get(f"{other}/s")
    return row["await"] if there is None else np.where(there == 0, row["await"], np.nan)


def without_header(watched: Sequence[Watched], meaning: Meaning) -> tuple[tuple[Watched, ...], str]:
    """Rows without a header, with the unit that the sizes of the requests tell, and what is to be said of that."""
    unit = meaning.sizes.nearest()
    why = ", by the sizes of the requests" if unit else " (nothing moved, so it makes no difference)"
    told = (
        f"it has no header: {meaning.columns} columns are those of sysstat {BY_COUNT[meaning.columns][0]}, in "
        f"{_UNITS[unit or KIB]}{why}"
    )
    return tuple(_times(each, "", (unit or KIB) / KIB) for each in watched), told


def put_right(watched: Sequence[Watched], sizes: Sizes) -> tuple[tuple[Watched, ...], list[str]]:
    """What contradicts itself, corrected or without its throughput, and what is to be said of that."""
    said = []
    for way, factor, told in sizes.contradictions():
        watched = tuple(_times(each, way, factor) for each in watched)
        said.append(told)
    return tuple(watched), said


def _times(watched: Watched, way: str, factor: float | None) -> Watched:
    """The throughput of one way (empty: of both) times a factor; without it where there is none."""
    mine = (f"{way}.bandwidth",) if way else ("read.bandwidth", "write.bandwidth", "bandwidth")
    values = {
        metric: each * factor if metric in mine and factor is not None else each
        for metric, each in watched.values.items()
        if metric not in mine or factor is not None
    }
    return msgspec.structs.replace(watched, values=values)
