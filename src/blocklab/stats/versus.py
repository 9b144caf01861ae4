"""Two studies, runs or imported sets beside each other: the ratio of each value that both have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from blocklab.model.metrics import metric, quoted
from blocklab.model.stack_map import StackMap
from blocklab.stats.differences import Difference, differences
from blocklab.stats.grid import label_of
from blocklab.stats.holm import cautious
from blocklab.stats.inputs import Inputs
from blocklab.stats.ratio import Verdict, ratio, verdict
from blocklab.stats.repeats import paired
from blocklab.stats.source import Source
from blocklab.stats.summary import Doubt, Estimate
from blocklab.stats.values import Row

# (stack, workload, levels): what both sides call a cell.
CellKey = tuple[str, str, tuple[tuple[str, str], ...]]
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


@dataclass(frozen=True)
class Versus:
    """B against A, with what only one side has, and what differed besides."""

    a: Source
    b: Source
    pairs: tuple[Pair, ...]
    lone: tuple[Lone, ...]
    lone_values: tuple[LoneValue, ...]
    differences: tuple[Difference, ...]

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


def cell_label(cell: CellKey) -> str:
    """``mirror/tpcc rtt=10ms``."""
    return label_of(f"{cell[0]}/{cell[1]}", dict(cell[2]))


class _Value(msgspec.Struct):
    row: Row
    repeats: dict[int, Row]


def versus(a: Source, b: Source) -> Versus:
    """Pair the values of two sources.

    Cells match by the names of stack and workload and by the levels of the factors; a factor that only one side
    has, at a single level, is left out. Two single runs match whatever they are called.

    Where both sides have at least two repeats with a value, the ratio is taken within each (the first with the
    first, and so on) and its interval is that of the repeats' ratios; else it is the ratio of the two values,
    which has none. Headlines differ where they do among all of them (``stats.holm``), and no value does of a cell
    that did not stand on the same on both sides.
    """
    naming = _Naming(a, b)
    left, right = _values(a, naming), _values(b, naming)
    pairs = tuple(
        _pair(key, mine, right[key], a, b)
        for key, mine in left.items()
        if key in right and right[key].row.unit == mine.row.unit
    )
    pairs = _doubted(pairs, Inputs(_stood("A", a, naming) | _stood("B", b, naming)))
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
    return Versus(a, b, pairs, tuple(lone), tuple(values), differences(a, b))


def _stood(side: str, source: Source, naming: _Naming) -> dict[tuple[str, CellKey], list[StackMap]]:
    found: dict[tuple[str, CellKey], list[StackMap]] = {}
    for piece in source.pieces:
        if piece.good:
            cell = naming.cell(piece.cell.stack, piece.cell.workload, piece.levels)
            found.setdefault((side, cell), []).append(piece.run.stack)
    return found


def _doubted(pairs: Sequence[Pair], inputs: Inputs) -> tuple[Pair, ...]:
    unlike = {cell for cell in {pair.cell for pair in pairs} if inputs.apart(("A", cell), ("B", cell))}
    found = [_told(pair, "unlike machines") if pair.cell in unlike else pair for pair in pairs]
    chosen = set(map(id, headlines(found)))
    at = [
        (number, ((pair.stack, *pair.cell[2:]), pair.ratio))
        for number, pair in enumerate(found)
        if id(pair) in chosen and pair.ratio is not None
    ]
    for (number, _), share in zip(at, cautious([each for _, each in at]), strict=True):
        found[number] = _told(found[number], share.doubt)
    return tuple(found)


def _told(pair: Pair, doubt: Doubt) -> Pair:
    if pair.ratio is None or not doubt:
        return pair
    share = msgspec.structs.replace(pair.ratio, doubt=doubt)
    return msgspec.structs.replace(pair, ratio=share, verdict=verdict(share))


class _Naming:
    """What a cell is called on both sides."""

    def __init__(self, a: Source, b: Source) -> None:
        self._runs = a.single and b.single
        self._name = self._common(a, b) if self._runs else None
        known = [_levels_of(each) for each in (a, b)]
        # One that a side lacks (it makes no difference there, or is no factor) tells only with several levels.
        self._telling = {
            at
            for at in {*known[0], *known[1]}
            if all(at in each for each in known) or any(len(each.get(at, ())) > 1 for each in known)
        }

    @staticmethod
    def _common(a: Source, b: Source) -> tuple[str, str]:
        cells = [each.pieces[0].cell for each in (a, b)]
        names = [(cell.stack, cell.workload) for cell in cells]
        stack, workload = (x if x == y else f"{x} → {y}" for x, y in zip(*names, strict=True))
        return stack, workload

    def cell(self, stack: str, workload: str, levels: Mapping[str, str]) -> CellKey:
        """The key of a cell by its names and levels in its own study."""
        if self._name is not None:
            return (*self._name, ())
        kept = (
            (name, level) for name, level in sorted(levels.items()) if (stack, workload, name) in self._telling
        )
        return stack, workload, tuple(kept)


def _levels_of(source: Source) -> dict[tuple[str, str, str], set[str]]:
    """(stack, load, factor) -> its levels there."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for cell in source.cells.values():
        for name, level in cell.levels.items():
            found.setdefault((cell.stack, cell.workload, name), set()).add(level)
    return found


def _values(source: Source, naming: _Naming) -> dict[_ValueKey, _Value]:
    found: dict[_ValueKey, _Value] = {}
    for row in source.rows:
        found.setdefault(_key(source, naming, row), _Value(row, {}))
    for piece in source.pieces:
        for row in piece.rows if piece.good else ():
            value = found.get(_key(source, naming, row))
            if value is not None:
                value.repeats.setdefault(piece.cell.repeat, row)
    return found


def _key(source: Source, naming: _Naming, row: Row) -> _ValueKey:
    known = source.cells.get((row.stack, row.workload))
    cell = naming.cell(row.stack_name, row.workload_name, row.levels if known is None else known.levels)
    # The highest device's name differs between stacks, and a workload's own value is of the workload.
    who = ("", "") if row.own else ("(top device)", "") if row.top else (row.layer, row.host)
    return cell, row.phase, row.metric, *who, "own" if row.own else ""


def _metrics(values: Mapping[_ValueKey, _Value], cell: CellKey) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key[2] for key, each in values.items() if key[0] == cell and each.row.own))


def _gap(source: Source, cell: CellKey, naming: _Naming) -> str:
    for gap in source.gaps:
        known = source.cells[gap.stack, gap.workload]
        if naming.cell(known.stack, known.workload, known.levels) == cell:
            return f"{gap.status}: {gap.error}"
    return ""


def _pair(key: _ValueKey, a: _Value, b: _Value, of_a: Source, of_b: Source) -> Pair:
    both = [(mine.value, other.value) for mine, other in zip(_by_repeat(a), _by_repeat(b), strict=False)]
    shares = [other / mine for mine, other in both if mine]
    # Repeats in which neither has any (errors) say nothing; one in which only A has none has no ratio to pair.
    within = len(shares) >= LEAST_PAIRS and not any(other and not mine for mine, other in both)
    found = paired(shares) if within else ratio(b.row.estimate, a.row.estimate)
    said = None if found is None else verdict(found)
    sides = [
        (name, each.limited(row)) for name, each, row in (("A", of_a, a.row), ("B", of_b, b.row)) if each.limited
    ]
    return Pair(
        key[0], key[1], key[2], a.row.unit, a.row.layer, a.row.host, a.row.own, a.row.estimate, b.row.estimate,
        found, said, len(shares) if within else 0,
        "; ".join(f"{name} is {said}" for name, said in sides if said),
    )  # fmt: skip


def _by_repeat(value: _Value) -> list[Row]:
    return [value.repeats[number] for number in sorted(value.repeats)]


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
