"""Two studies, runs or imported sets beside each other: the ratio of each value that both have."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from blocklab.model.metrics import metric, quoted
from blocklab.model.stack_map import StackMap
from blocklab.stats.differences import Difference, differences
from blocklab.stats.holm import cautious
from blocklab.stats.inputs import Inputs
from blocklab.stats.naming import CellKey, Naming, cell_label
from blocklab.stats.ratio import Verdict, ratio, verdict
from blocklab.stats.repeats import paired
from blocklab.stats.source import Source
from blocklab.stats.summary import Doubt, Estimate
from blocklab.stats.values import Row
from blocklab.store.run import output_of

_ValueKey = tuple[CellKey, str, str, str, str, str]
# Fewer pairs of repeats than this have no interval of their own.
LEAST_PAIRS = 2


class Pair(msgspec.Struct, frozen=True):
    """One value that both sides have. ``ratio`` is B / A with the half width of its 95 % interval, None where A's
    is 0; ``verdict`` is what it says, None without a ratio.

    ``pairs``: in how many repeats both were measured, where the ratio was taken within each; 0: the ratio of two
    values. ``load``: the workload's own value; ``layer`` and ``host`` say who measured on side A. ``limited`` says
    of which side the value is the lab's own.
    """

    cell: CellKey
    phase: str
    metric: str
    unit: str
    layer: str
    host: str
    own: bool
    a: Estimate
    b: Estimate
    ratio: Estimate | None
    verdict: Verdict | None
    pairs: int
    limited: str = ""

    @property
    def relative(self) -> Estimate | None:
        """The ratio, by the name that it has in tables."""
        return self.ratio

    @property
    def stack(self) -> str:
        """The name of the stack; of two single runs with different ones both."""
        return self.cell[0]

    @property
    def workload(self) -> str:
        """The name of the workload."""
        return self.cell[1]

    @property
    def levels(self) -> dict[str, str]:
        """The factors that tell the cell from others."""
        return dict(self.cell[2])

    @property
    def place(self) -> str:
        """Cell and phase for people."""
        return f"{cell_label(self.cell)} {self.phase}".strip()

    @property
    def label(self) -> str:
        """Cell, phase and metric for people, and who measured it if it was not the workload."""
        return f"{self.place} {self.metric}" + ("" if self.own else f" ({self.layer} on {self.host})")


class Lone(msgspec.Struct, frozen=True):
    """A cell that only one side (``a`` or ``b``) has usable values of; ``gap`` is the other's reason, empty when
    the other one's study does not have the cell. ``metrics`` are those of the workload."""

    side: str
    cell: CellKey
    gap: str
    metrics: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For people."""
        return cell_label(self.cell)


class LoneValue(msgspec.Struct, frozen=True):
    """A workload's value that only one side (``a`` or ``b``) has of a cell that both have."""

    side: str
    cell: CellKey
    phase: str
    metric: str

    @property
    def label(self) -> str:
        """For people."""
        return " ".join(each for each in (cell_label(self.cell), self.phase, self.metric) if each)


class Unpaired(msgspec.Struct, frozen=True):
    """A value of a cell and phase that is paired nowhere. ``side``: which one (``a`` or ``b``) has it. ``gap`` is
    why the other one has nothing of the cell; ``absent``: its study does not have the cell at all."""

    side: str
    cell: CellKey
    phase: str
    metric: str
    own: bool
    gap: str = ""
    absent: bool = False


class Broken(msgspec.Struct, frozen=True):
    """A cell of which a repeat (from 1) was measured on a side (``a`` or ``b``) without usable values, and why."""

    side: str
    cell: CellKey
    repeat: int
    gap: str


class Printed(msgspec.Struct, frozen=True):
    """Of how many cells the output was compared, and the labels of those where it is not the same bytes."""

    cells: int
    differ: tuple[str, ...]


@dataclass(frozen=True)
class Versus:
    """B against A, with what only one side has, and what differed besides."""

    a: Source
    b: Source
    pairs: tuple[Pair, ...]
    lone: tuple[Lone, ...]
    lone_values: tuple[LoneValue, ...]
    differences: tuple[Difference, ...] = ()
    unpaired: tuple[Unpaired, ...] = ()
    broken: tuple[Broken, ...] = ()

    @property
    def values(self) -> tuple[Pair | Unpaired, ...]:
        """Every value that a side has."""
        return (*self.pairs, *self.unpaired)

    @property
    def machine(self) -> tuple[Difference, ...]:
        """Differences of machine, kernel or image, which ask for ``--across``."""
        return tuple(each for each in self.differences if each.part == "machine")

    @property
    def once(self) -> tuple[str, ...]:
        """The sides, ``A`` and ``B``, all of whose values come from one build of their layout."""
        sides = {"A": self.a, "B": self.b}
        return tuple(
            name
            for name, side in sides.items()
            if len({each.cell.repeat for each in side.pieces if each.good}) < 2
        )

    @cached_property
    def printed(self) -> Printed | None:
        """Of the cells in virtual time that both sides have: which printed the same; None where there are none.
        Raises ``StoreError`` where output cannot be read."""
        mine, theirs = (
            {each.cell.key: each.run for each in side.pieces if each.good} for side in (self.a, self.b)
        )
        both = [(run, theirs[key]) for key, run in mine.items() if key in theirs]
        virtual = [pair for pair in both if all("clock" in run.environment for run in pair)]
        other = [one.cell.label for one, another in virtual if output_of([one]) != output_of([another])]
        return Printed(len(virtual), tuple(other)) if virtual else None


class _Value(msgspec.Struct):
    """``builds``: the value of each build by its machine, in the order of the repeats."""

    row: Row
    builds: dict[str, dict[int, float]]


def versus(a: Source, b: Source) -> Versus:
    """Pair the values of two sources, as ``matched`` does. Headlines differ where they do among all of them
    (``stats.holm``), and no value does of a cell that did not stand on the same on both sides."""
    naming = Naming(a, b)
    found, inputs = matched(a, b, naming), stood(a, b, naming)
    unlike = {pair.cell for pair in found.pairs if inputs.apart(("A", pair.cell), ("B", pair.cell))}
    pairs = doubted(found.pairs, unlike, headlines(found.pairs))
    return replace(found, pairs=pairs, differences=differences(a, b))


def matched(a: Source, b: Source, naming: Naming) -> Versus:
    """The values of two sources that both have, by the names of their cells, without doubts and differences.

    Where both sides have at least two repeats with a value, the ratio is taken within each (the first with the
    first, and so on) and its interval is that of the repeats' ratios; else it is the ratio of the two values,
    which has none. Of several machines it is taken within each that both sides have, and put together as
    ``stats.pool`` does; where they have none in common their machines' means are paired.
    """
    left, right = _values(a, naming), _values(b, naming)
    pairs = tuple(
        _pair(key, mine, right[key], a, b)
        for key, mine in left.items()
        if key in right and right[key].row.unit == mine.row.unit
    )
    cells_a, cells_b = ({key[0]: None for key in side} for side in (left, right))
    lone = [
        Lone(side, cell, _gap(other, cell, naming), _metrics(mine, cell))
        for side, mine, other, theirs in (("a", left, b, cells_b), ("b", right, a, cells_a))
        for cell in dict.fromkeys(key[0] for key in mine)
        if cell not in theirs
    ]
    both = cells_a.keys() & cells_b.keys()
    values = [
        LoneValue(side, *key[:3])
        for side, mine, other in (("a", left, right), ("b", right, left))
        for key, value in mine.items()
        if value.row.own and key not in other and key[0] in both
    ]
    unpaired = [
        Unpaired(side, *place, _gap(other, place[0], naming), place[0] not in theirs)
        for side, mine, other, theirs in (("a", left, b, cells_b), ("b", right, a, cells_a))
        for place in _places(mine, {(pair.cell, pair.phase, pair.metric) for pair in pairs})
    ]
    broken = [
        Broken(side, naming.of(each.cells[gap.stack, gap.workload]), gap.repeat, f"{gap.status}: {gap.error}")
        for side, each in (("a", a), ("b", b))
        for gap in each.gaps
        if gap.status != "missing"
    ]
    return Versus(a, b, pairs, tuple(lone), tuple(values), unpaired=tuple(unpaired), broken=tuple(broken))


def _places(
    values: Mapping[_ValueKey, _Value], paired: Collection[tuple[CellKey, str, str]]
) -> dict[tuple[CellKey, str, str, bool], None]:
    """(cell, phase, metric, whether it is the workload's own) of the values that are not ``paired``."""
    return dict.fromkeys((*key[:3], each.row.own) for key, each in values.items() if key[:3] not in paired)


def stood(a: Source, b: Source, naming: Naming) -> Inputs:
    """What the cells of both sides stood on, by the side, ``A`` or ``B``, and the cell's key."""
    found: dict[tuple[str, CellKey], list[StackMap]] = {}
    for side, source in (("A", a), ("B", b)):
        for piece in source.pieces:
            if piece.good:
                found.setdefault((side, naming.of(piece.cell)), []).append(piece.run.stack)
    return Inputs(found)


def doubted(pairs: Sequence[Pair], unlike: Collection[CellKey], among: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs with what their intervals do not tell: those of ``unlike`` cells decide nothing, and those
    ``among`` which so many are judged may differ by chance."""
    found = [_told(pair, "unlike machines") if pair.cell in unlike else pair for pair in pairs]
    chosen = set(map(id, among))
    asked = [
        (number, share)
        for number, (before, pair) in enumerate(zip(pairs, found, strict=True))
        if id(before) in chosen and (share := pair.ratio) is not None
    ]
    judged = cautious([((found[at].stack, *found[at].cell[2:]), share) for at, share in asked])
    for (at, _), share in zip(asked, judged, strict=True):
        found[at] = _told(found[at], share.doubt)
    return tuple(found)


def _told(pair: Pair, doubt: Doubt) -> Pair:
    if pair.ratio is None or not doubt:
        return pair
    share = msgspec.structs.replace(pair.ratio, doubt=doubt)
    return msgspec.structs.replace(pair, ratio=share, verdict=verdict(share))


def _values(source: Source, naming: Naming) -> dict[_ValueKey, _Value]:
    found: dict[_ValueKey, _Value] = {}
    for row in source.rows:
        found.setdefault(_key(source, naming, row), _Value(row, {}))
    for piece in source.pieces:
        for row in piece.rows if piece.good and not piece.apart else ():
            value = found.get(_key(source, naming, row))
            if value is not None:
                value.builds.setdefault(piece.machine, {}).setdefault(piece.cell.repeat, row.value)
    return found


def _key(source: Source, naming: Naming, row: Row) -> _ValueKey:
    known = source.cells.get((row.stack, row.workload))
    cell = naming.cell(row.stack_name, row.workload_name, row.levels if known is None else known.levels)
    # The highest device's name differs between stacks, and a workload's own value is of the workload.
    who = ("", "") if row.own else ("(top device)", "") if row.top else (row.layer, row.host)
    return cell, row.phase, row.metric, *who, "own" if row.own else ""


def _metrics(values: Mapping[_ValueKey, _Value], cell: CellKey) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key[2] for key, each in values.items() if key[0] == cell and each.row.own))


def _gap(source: Source, cell: CellKey, naming: Naming) -> str:
    for gap in source.gaps:
        if naming.of(source.cells[gap.stack, gap.workload]) == cell:
            return f"{gap.status}: {gap.error}"
    return ""


def _pair(key: _ValueKey, a: _Value, b: _Value, of_a: Source, of_b: Source) -> Pair:
    both = _together(a.builds, b.builds)
    shares = [(other / mine, machine) for mine, other, machine in both if mine]
    # Repeats in which neither has any (errors) say nothing; one in which only A has none has no ratio to pair.
    within = len(shares) >= LEAST_PAIRS and not any(other and not mine for mine, other, _ in both)
    found = paired(*zip(*shares, strict=True)) if within else ratio(b.row.estimate, a.row.estimate)
    said = None if found is None else verdict(found)
    sides = [
        (name, each.limited(row)) for name, each, row in (("A", of_a, a.row), ("B", of_b, b.row)) if each.limited
    ]
    return Pair(
        key[0], key[1], key[2], a.row.unit, a.row.layer, a.row.host, a.row.own, a.row.estimate, b.row.estimate,
        found, said, len(shares) if within else 0,
        "; ".join(f"{name} is {said}" for name, said in sides if said),
    )  # fmt: skip


def _together(
    a: Mapping[str, dict[int, float]], b: Mapping[str, dict[int, float]]
) -> list[tuple[float, float, str]]:
    """The values of A and of B that belong together, and their machine."""

    def by_repeat(builds: Mapping[int, float]) -> list[float]:
        return [builds[number] for number in sorted(builds)]

    if max(len(a), len(b)) < 2:
        found = [("", by_repeat(mine), by_repeat(other)) for mine in a.values() for other in b.values()]
    elif both := [machine for machine in a if machine in b]:
        found = [(machine, by_repeat(a[machine]), by_repeat(b[machine])) for machine in both]
    else:
        found = [
            (f"{number}", [statistics.fmean(mine.values())], [statistics.fmean(other.values())])
            for number, (mine, other) in enumerate(zip(a.values(), b.values(), strict=False))
        ]
    return [
        (mine, other, machine)
        for machine, ours, theirs in found
        for mine, other in zip(ours, theirs, strict=False)
    ]


def headlines(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Of each cell and phase the workloads' rates that people quote: tpmC or TPS, else IOPS, else MB/s, else any
    rate or value of the workload. Transactions come first."""
    groups: dict[tuple[CellKey, str], list[Pair]] = {}
    for pair in pairs:
        if pair.own:
            groups.setdefault((pair.cell, pair.phase), []).append(pair)
    found = [pair for group in groups.values() for pair in _headline(group)]
    return tuple(sorted(found, key=lambda pair: not metric(pair.metric).transactions))


def _headline(group: Sequence[Pair]) -> Iterator[Pair]:
    # Of a direction that neither side used there is nothing to say.
    used = [pair for pair in group if metric(pair.metric).transactions or pair.a.value or pair.b.value]
    shown = quoted(pair.metric for pair in used)
    yield from [pair for pair in used if pair.metric in shown] or [p for p in group if p.unit == "1/s"] or group


def metrics_of(pairs: Iterable[Pair]) -> list[str]:
    """The names of the metrics, the workloads' own first."""
    return list(dict.fromkeys(pair.metric for pair in sorted(pairs, key=lambda pair: not pair.own)))
