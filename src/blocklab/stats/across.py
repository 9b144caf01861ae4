"""A study on two machines: which layouts keep the same share of the baseline on both, and what they stood on.

Values of two machines are values of the machines too. A share is a ratio within one run, so that what its machine
does to all layouts alike cancels out; where shares differ, the inputs that were measured under them tell more.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import msgspec

from blocklab.stats.differences import UNKNOWN
from blocklab.stats.floor import BUSY
from blocklab.stats.format import listed, percent, quantity
from blocklab.stats.inputs import FAR, Apart, unlike
from blocklab.stats.naming import CellKey, Naming, cell_label
from blocklab.stats.ratio import verdict
from blocklab.stats.source import Source
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.stats.versus import Lone, Pair, Versus, doubted, headlines, matched, stood

# Shares agree whose ratio is surely this close to 1.
WITHIN = 0.10
Agreement: TypeAlias = Literal["agree", "differ", "unknown"]
SAME = f"no volume or link took over {percent(FAR)} longer on one side"
# All other verdicts decide nothing.
_SAID: Mapping[str, Agreement] = {"differs": "differ", "no difference shown": "agree"}
_BUSY = "cpu.busy"


class Share(msgspec.Struct, frozen=True):
    """A layout's value as a ratio to the baseline's, on both sides: ``pair`` has the share of A, that of B, and
    B's relative to A's. ``why``: what keeps it from being decided, or what else differs where the shares do."""

    pair: Pair
    baseline: str
    verdict: Agreement
    why: str


@dataclass(frozen=True)
class Across:
    """The shares of B beside those of A, and what the layouts stood on. ``lone``: cells that both sides have, but
    without a share of the same baseline. ``inputs``: the volumes and links of all cells, the median over those
    that asked for the same. ``cpus``: models and numbers of each side's CPUs; ``busy``: of each node how busy its
    CPU was on each side in its busiest cell (%)."""

    shares: tuple[Share, ...]
    within: float
    lone: tuple[Lone, ...]
    inputs: tuple[Apart, ...]
    cpus: tuple[str, str]
    busy: Mapping[str, tuple[float, float]]


def across(found: Versus, within: float = WITHIN, metrics: Sequence[str] = ()) -> Across:
    """The shares that both sides have: of the headlines, or of the workloads' own ``metrics``.

    Two agree where the interval of their ratio is within that part of 1, and differ where it leaves 1 out, among
    all of them too (``stats.holm``). The ratio is taken as that of two values is: see ``versus.matched``.
    """
    naming = Naming(found.a, found.b)
    bases = {"A": _bases(found.a, naming), "B": _bases(found.b, naming)}
    both = matched(_shares_of(found.a), _shares_of(found.b), naming)
    alike = [pair for pair in both.pairs if bases["A"][pair.cell] == bases["B"][pair.cell]]
    shown = [pair for pair in alike if pair.own and pair.metric in metrics] if metrics else headlines(alike)
    stand = stood(found.a, found.b, naming)
    apart = {
        pair.cell: f"in {side}, {unlike(most)}"
        for pair in shown
        for side, base in bases.items()
        if (most := stand.apart((side, pair.cell), (side, base[pair.cell]))) is not None
    }
    cells = dict.fromkeys(cell for pair in shown for cell in (pair.cell, bases["A"][pair.cell]))
    inputs = {cell: stand.beside(("A", cell), ("B", cell)) for cell in cells}
    busy = [pair for pair in found.pairs if pair.metric == _BUSY and pair.cell in cells]
    shares = []
    for pair in doubted(shown, apart, shown):
        mine = (pair.cell, bases["A"][pair.cell])
        said, why = agreement(pair.ratio, within), ""
        if said == "unknown":
            why = apart.get(pair.cell) or _undecided(pair, found.once, len(shown))
        elif said == "differ":
            why = _beside([each for cell in mine for each in inputs[cell]], [p for p in busy if p.cell in mine])
        shares.append(Share(pair, cell_label(mine[1]), said, why))
    took = tuple(_took(each for some in inputs.values() for each in some))
    cpus = (_cpus(found.a), _cpus(found.b))
    return Across(tuple(shares), within, tuple(_lone(found, both, bases)), took, cpus, _busiest(busy))


def agreement(of: Estimate | None, within: float) -> Agreement:
    """What the ratio of two shares says."""
    return "unknown" if of is None else _SAID.get(verdict(of, within), "unknown")


def _shares_of(source: Source) -> Source:
    """A source whose values are ratios to the baseline's, without the baseline."""

    def shares(rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(
            msgspec.structs.replace(
                row, value=share.value, half=share.half, builds=share.builds, machines=share.machines
            )
            for row in rows
            if (row.stack, row.workload) in source.bases and (share := row.relative) is not None
        )

    def limited(row: Row) -> str:
        base = msgspec.structs.replace(row, stack=source.bases[row.stack, row.workload].stack)
        own, of = ("" if source.limited is None else source.limited(each) for each in (row, base))
        return " and ".join(each for each in (own, of and f"of a baseline that is {of}") if each)

    pieces = tuple(msgspec.structs.replace(piece, rows=shares(piece.rows)) for piece in source.pieces)
    return replace(source, rows=shares(source.rows), pieces=pieces, limited=limited)


def _bases(source: Source, naming: Naming) -> dict[CellKey, CellKey]:
    """What each cell's share is of."""
    return {
        naming.of(cell): naming.beside(source.bases[at].cell)
        for at, cell in source.cells.items()
        if at in source.bases
    }


def _undecided(pair: Pair, once: Sequence[str], count: int) -> str:
    share = pair.ratio
    if share is None:
        return "A's share is 0"
    if share.half is None:
        return f"one build in {listed(once)}" if once else "one build on a side"
    if abs(share.value - 1) > share.half:
        return f"no more than chance among {count} shares"
    return f"too wide: B / A is from {share.value - share.half:.2f} to {share.value + share.half:.2f}"


def _beside(inputs: Iterable[Apart], busy: Iterable[Pair]) -> str:
    """What else differs under a share, and under its baseline."""
    took = tuple(_took(inputs))
    said = [sides(each) for each in took if each.far]
    for each in busy:
        here, there = (quantity(side.value, "%") for side in (each.a, each.b))
        if (each.a.value >= BUSY) != (each.b.value >= BUSY):
            said.append(f"the CPU of {each.host} was {here} busy in A and {there} in B")
    return listed(said) or (SAME if took else "no volume or link was timed on both sides")


def sides(apart: Apart) -> str:
    """``writes of vda on a1 took 0.45 ms in A and 0.71 ms in B``."""
    return f"{apart.what} took {quantity(apart.mine, 's')} in A and {quantity(apart.other, 's')} in B"


def _took(inputs: Iterable[Apart]) -> Iterator[Apart]:
    found: dict[tuple[str, tuple[float | None, float | None]], list[Apart]] = {}
    for each in inputs:
        found.setdefault((each.what, each.asked), []).append(each)
    for (what, asked), some in found.items():
        mine, other = (statistics.median(took) for took in zip(*((e.mine, e.other) for e in some), strict=True))
        yield Apart(what, mine, other, asked)


def _busiest(busy: Iterable[Pair]) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for pair in busy:
        most = found.get(pair.host, (0.0, 0.0))
        found[pair.host] = (max(most[0], pair.a.value), max(most[1], pair.b.value))
    return found


def _lone(found: Versus, both: Versus, bases: Mapping[str, Mapping[CellKey, CellKey]]) -> Iterator[Lone]:
    known = {(each.side, each.cell) for each in found.lone}
    for each in both.lone:
        if (each.side, each.cell) not in known:
            base = bases["B" if each.side == "a" else "A"].get(each.cell)
            why = "it is the baseline" if base is None else f"no value of {cell_label(base)}, its baseline"
            yield msgspec.structs.replace(each, gap=why)
    for cell in dict.fromkeys(pair.cell for pair in both.pairs):
        here, there = bases["A"][cell], bases["B"][cell]
        if here != there:
            yield Lone("a", cell, f"in A a share of {cell_label(here)}, in B of {cell_label(there)}")


def _cpus(source: Source) -> str:
    """``Some CPU @ 2.50GHz, 2 CPUs``; of several hosts with their names, where they are not alike."""
    found: dict[str, dict[str, None]] = {}
    for piece in source.pieces:
        # Of a site whose hosts are machines of their own, each has its entry.
        environment = piece.run.environment
        hosts = environment.get("hosts") or {"": environment.get("host")}
        for name, host in hosts.items() if isinstance(hosts, Mapping) else ():
            if text := _cpu(host):
                found.setdefault(text, {})[name] = None
    several = len(found) > 1
    said = (f"{listed(list(names))}: {text}" if several and all(names) else text for text, names in found.items())
    return "; ".join(said) or UNKNOWN


def _cpu(host: Any) -> str:
    if not isinstance(host, Mapping) or not host.get("cpu"):
        return ""
    count = host.get("cpus")
    return f"{host['cpu']}, {count} CPU{'s' if count != 1 else ''}" if count else str(host["cpu"])
