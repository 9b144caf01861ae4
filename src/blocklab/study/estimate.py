"""How long a grid takes: a range, for people who decide whether to start it. Pure.

What the stopping rule makes of a workload depends on the machine's noise, which is known once the floor was
measured. What booting, building and loading take is guessed at first, and corrected by the finished cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from blocklab.judge.settle import rounds_needed
from blocklab.model.ground import Topology
from blocklab.model.workload import Estimated, Ruled, WithData, Workload
from blocklab.study.copies import copied
from blocklab.study.drills import nominal
from blocklab.study.factors import variant
from blocklab.study.grid import hardware, layouts, topology
from blocklab.study.phases import rule_of
from blocklab.study.types import Cell, Study


class Span(msgspec.Struct, frozen=True):
    """Seconds: the least, the most likely, and the most."""

    least: float = 0.0
    likely: float = 0.0
    most: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.likely + other.likely, self.most + other.most)

    def times(self, count: float) -> Span:
        """So often."""
        return Span(count * self.least, count * self.likely, count * self.most)


# First guesses, from a fast machine to one that is busy: machines differ by a factor of three.
BOOT = Span(2.0, 4.0, 15.0)
BUILD = Span(2.0, 5.0, 20.0)
CELL = Span(2.0, 4.0, 12.0)
# The start and the end of a workload's program, in each round.
START = Span(0.3, 0.6, 2.0)
# A workload that ends by work done, not by the clock.
UNKNOWN = Span(5.0, 20.0, 120.0)
DATA = Span(20.0, 60.0, 300.0)
# Of a part of the rounds between the least and the most, where the machine's noise is not known.
GUESSED = 0.3


class Estimate(msgspec.Struct, frozen=True):
    """``cells`` on ``builds`` layouts; ``measuring`` is the time under load, ``total`` all of it.

    ``open_ended`` counts cells whose workload has no given length. ``noise`` is that of a round on this machine, a
    part of its mean; None where it is not known.
    """

    cells: int
    builds: int
    measuring: Span
    total: Span
    open_ended: int
    noise: float | None = None


def estimate(study: Study, cells: Sequence[Cell], noise: float | None = None) -> Estimate:
    """What these cells take together."""
    loads = [_load(variant(study, cell.levels).workloads[cell.workload], noise) for cell in cells]
    measuring = _sum(load or UNKNOWN for load in loads)
    total = _sum(shares(study, cells, noise).values())
    return Estimate(
        len(cells), len(layouts(study, cells)), measuring, total, sum(load is None for load in loads), noise
    )


def shares(study: Study, cells: Sequence[Cell], noise: float | None = None) -> dict[str, Span]:
    """Key -> what the cell adds to ``estimate``'s total: its workload, and its part of what it shares with others
    (boot, build, data)."""
    found = layouts(study, cells)
    alike = [hardware(topology(layout.study, [layout.stack])) for layout in found]
    boots = Counter(kind for kind, layout in zip(alike, found, strict=True) for _ in layout.cells)
    data = Counter((cell.stack, cell.workload) for cell in cells)
    took = {}
    for kind, layout in zip(alike, found, strict=True):
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            parts = [_load(workload, noise) or UNKNOWN, CELL]
            parts += [BUILD.times(1 / len(layout.cells)), BOOT.times(1 / boots[kind])]
            parts += [DATA.times(1 / data[cell.stack, cell.workload])] if isinstance(workload, WithData) else []
            took[cell.key] = _sum(parts)
    return took


def _sum(spans: Iterable[Span]) -> Span:
    return sum(spans, Span())


def _load(workload: Workload, noise: float | None) -> Span | None:
    """The time under load; None where it ends by work done."""
    fixed = workload.lasts() if isinstance(workload, Estimated) else None
    rule = rule_of(workload)
    if rule is None or not isinstance(workload, Ruled):
        return None if fixed is None else Span(fixed, fixed, fixed) + START
    phases = len(workload.trials(rule.seconds))
    start = Span(*[fixed or 0.0] * 3)
    if rule.kind in ("long", "fixed"):
        part = GUESSED if noise is None else min(1.0, (noise / rule.half_width) ** 2)
        likely = rule.shortest + part * (rule.longest - rule.shortest)
        return start + (Span(rule.shortest, likely, rule.longest) + START).times(phases)
    least, most = rule.least, rule.most
    if noise is None:
        rounds = least + GUESSED * (most - least)
    else:
        rounds = rounds_needed(noise, rule.half_width, least, most)
    each = Span(rule.each, rule.each, rule.each) + START
    return start + Span(least * each.least, rounds * each.likely, most * each.most).times(phases)


def hardwares(study: Study, cells: Sequence[Cell]) -> Iterator[tuple[Topology, int]]:
    """What the layouts of these cells stand on, and how often its volumes are kept: once in use, and once for each
    set of data that is copied while the same nodes run."""
    shapes: dict[str, Topology] = {}
    copies: dict[str, set[str]] = {}
    for layout in layouts(study, cells):
        shape = topology(layout.study, [layout.stack])
        kind = hardware(shape)
        shapes.setdefault(kind, shape)
        mine = copies.setdefault(kind, set())
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            if isinstance(workload, WithData):
                mine.add(copied(layout.study, layout.stack, nominal(shape), workload)[0])
    for kind, shape in shapes.items():
        yield shape, 1 + len(copies[kind])


def memory(study: Study, cells: Sequence[Cell]) -> int:
    """Bytes that the largest layout takes, with its volumes in memory."""
    return max(sum(shape.memory(copies)) for shape, copies in hardwares(study, cells))


def spoken_range(span: Span) -> str:
    """``12 min (8 to 40 min)``, ``45 s (30 s to 2 min)``."""
    least, most = spoken(span.least), spoken(span.most)
    number, _, unit = least.partition(" ")
    short = number if most.endswith(f" {unit}") and " " not in most.removesuffix(f" {unit}") else least
    return f"{spoken(span.likely)} ({short} to {most})"


def spoken(seconds: float) -> str:
    """``45 s``, ``12 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
