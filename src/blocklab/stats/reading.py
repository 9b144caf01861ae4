"""The runs of a study's folder as they are read for an analysis, repeat by repeat and machine by machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from blocklab.errors import StoreError
from blocklab.model.drill import Drill
from blocklab.model.sample import Sample
from blocklab.stats.grid import Grid, Point, Side
from blocklab.stats.machines import At, Machines, Stood
from blocklab.stats.steady import Unsteady, unsteady
from blocklab.stats.values import Measured
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Run, Stopped
from blocklab.study.types import Cell


class Gap(msgspec.Struct, frozen=True):
    """A cell without usable values in one of the study's repeats (from 1): ``status`` is ``failed``, ``invalid``,
    ``suspect``, ``unreadable`` or ``missing``."""

    stack: str
    workload: str
    status: str
    error: str
    hint: str = ""
    repeat: int = 1


class Stop(msgspec.Struct, frozen=True):
    """Why a phase of a cell was measured no longer, in one of the study's repeats (from 1)."""

    stack: str
    workload: str
    repeat: int
    stopped: Stopped


class Drilled(msgspec.Struct, frozen=True):
    """One drill of a cell, in one of the study's repeats (from 1). ``status`` is that of its run: where it is not
    ``ok`` the drill was of another layout than the study asks for, or not carried out to its end. ``machine`` is
    the number of the one that it was carried out on."""

    stack: str
    workload: str
    repeat: int
    status: str
    drill: Drill
    machine: int = 0


class Own(msgspec.Struct, frozen=True):
    """What measuring itself took of a CPU in one cell: see ``model.sample.OWN``."""

    stack: str
    workload: str
    sample: Sample


@dataclass
class RunsRead:
    """What was read so far, by (repeat, machine) and cell."""

    runs: dict[At, Run] = field(default_factory=dict)
    good: dict[tuple[int, int], dict[At, Measured]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    drills: list[Drilled] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    every: list[Run] = field(default_factory=list)
    seeds: dict[int | None, None] = field(default_factory=dict)
    unsteady: list[Unsteady] = field(default_factory=list)
    machines: Machines = field(default_factory=Machines)
    where: dict[str, int] = field(default_factory=dict)
    stood: list[Stood] = field(default_factory=list)

    def run(self, run: Run, at: At, number: int) -> int:
        """Keep a run that was read, good or bad; the number of its machine."""
        self.runs.setdefault(at, run)
        machine = self.where[run.folder.name] = self.machines.number(run.environment)
        # Of further repeats what is long is not kept.
        brief = msgspec.structs.replace(run, samples=(), series_by_name=None, transactions=(), rounds=())
        self.every.append(run if self.runs[at] is run else brief)
        self.stops += [Stop(*at, number, each) for each in run.stops]
        self.own += [Own(*at, each) for each in run.own()]
        if run.drill is not None:
            self.drills.append(Drilled(*at, number, run.outcome.status, run.drill, machine))
        self.seeds |= {run.environment["seed"]: None} if "seed" in run.environment else {}
        return machine

    @property
    def measured(self) -> dict[At, Measured]:
        """The first good run of each cell."""
        found: dict[At, Measured] = {}
        for mine in self.good.values():
            found = mine | found
        return found


def read(folder: StudyFolder, places: Grid, repeat: Sequence[Cell], number: int, found: RunsRead) -> None:
    """Read one repeat (from 1)."""
    # Single transactions are only for the cells that are shown one by one.
    detail = (ends(places.stacks), ends(places.workloads)) if places.factors else None
    shown = {
        cell.key
        for cell in repeat
        if detail is None or (places.point(cell).stack in detail[0] and places.point(cell).workload in detail[1])
    }
    for cell, each in zip(repeat, folder.analysed(repeat, detailed=shown), strict=True):
        point = places.point(cell)
        at = (point.stack, point.workload)
        run, gap = _judged(each, point)
        if run is not None:
            # The folder's own cell.json may be of a study in which it stood at other levels.
            run = msgspec.structs.replace(run, cell=cell)
            machine = found.run(run, at, number)
        if gap is not None:
            found.gaps.append(msgspec.structs.replace(gap, repeat=number))
        elif run is not None:
            good = Measured(run, places.stacks[point.stack].stack.on)
            found.good.setdefault((number, machine), {})[at] = good
            found.stood.append(Stood(at, machine, run.environment))
            found.unsteady += unsteady(*at, good)


def _judged(run: Run | StoreError | None, point: Point) -> tuple[Run | None, Gap | None]:
    at = (point.stack, point.workload)
    if isinstance(run, StoreError):
        return None, Gap(*at, "unreadable", run.message, run.hint)
    if run is None:
        hint = "blocklab run with the same study measures what is missing"
        return None, Gap(*at, "missing", "this cell was never measured", hint)
    if run.outcome.status != "ok":
        return run, Gap(*at, run.outcome.status, run.outcome.error, run.outcome.hint)
    return run, None


def ends(sides: Mapping[str, Side]) -> set[str]:
    """The labels of each name at its first and its last levels."""
    found: dict[str, list[str]] = {}
    for label, side in sides.items():
        found.setdefault(side.name, []).append(label)
    return {label for labels in found.values() for label in (labels[0], labels[-1])}
