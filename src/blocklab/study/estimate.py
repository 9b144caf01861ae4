"""How long a grid takes, roughly: for people who decide whether to start it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from blocklab.model.ground import Topology
from blocklab.model.workload import Estimated, WithData, Workload
from blocklab.study.copies import copied
from blocklab.study.drills import nominal
from blocklab.study.factors import variant
from blocklab.study.grid import hardware, layouts, topology
from blocklab.study.types import Cell, Study

# Rounded up from runs on two slow cores: see the per-cell values of docs/studies/. A machine twice as fast takes
# as long for the workloads, which are most of it.
BOOT_SECONDS = 4.0
BUILD_SECONDS = 5.0
CELL_SECONDS = 5.0
# A workload that ends by work done, not by the clock.
UNKNOWN_SECONDS = 30.0
DATA_SECONDS = 90.0


class Estimate(msgspec.Struct, frozen=True):
    """``cells`` on ``builds`` layouts; ``measuring`` is the time under load, ``total`` all of it, in seconds.

    ``open_ended`` counts cells whose workload has no given length, each reckoned with half a minute.
    """

    cells: int
    builds: int
    measuring: float
    total: float
    open_ended: int


def estimate(study: Study, cells: Sequence[Cell]) -> Estimate:
    """What these cells take together."""
    found = layouts(study, cells)
    measuring = 0.0
    open_ended = 0
    with_data: set[tuple[str, str]] = set()
    for cell in cells:
        workload = variant(study, cell.levels).workloads[cell.workload]
        lasts = _lasts(workload)
        open_ended += lasts is None
        measuring += UNKNOWN_SECONDS if lasts is None else lasts
        if isinstance(workload, WithData):
            with_data.add((cell.stack, cell.workload))
    boots = len({hardware(topology(layout.study, [layout.stack])) for layout in found})
    around = BOOT_SECONDS * boots + BUILD_SECONDS * len(found) + CELL_SECONDS * len(cells)
    return Estimate(
        len(cells), len(found), measuring, measuring + around + DATA_SECONDS * len(with_data), open_ended
    )


def shares(study: Study, cells: Sequence[Cell]) -> dict[str, float]:
    """Key -> what the cell adds to ``estimate``'s total, in seconds: its workload, and its part of what it shares
    with others (boot, build, data)."""
    found = layouts(study, cells)
    alike = [hardware(topology(layout.study, [layout.stack])) for layout in found]
    boots = Counter(kind for kind, layout in zip(alike, found, strict=True) for _ in layout.cells)
    data = Counter((cell.stack, cell.workload) for cell in cells)
    took = {}
    for kind, layout in zip(alike, found, strict=True):
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            lasts = _lasts(workload)
            took[cell.key] = (
                (UNKNOWN_SECONDS if lasts is None else lasts) + CELL_SECONDS
                + BUILD_SECONDS / len(layout.cells) + BOOT_SECONDS / boots[kind]
                + (DATA_SECONDS / data[cell.stack, cell.workload] if isinstance(workload, WithData) else 0.0)
            )  # fmt: skip
    return took


def _lasts(workload: Workload) -> float | None:
    return workload.lasts() if isinstance(workload, Estimated) else None


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


def spoken(seconds: float) -> str:
    """``45 s``, ``12 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
