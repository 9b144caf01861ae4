"""Which values of a study are the lab's own: the floor of the machine that ran each cell, and what it marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from blocklab.errors import StoreError
from blocklab.model.spans import Copies
from blocklab.model.workload import QueueDepths
from blocklab.stats.floor import LIMITED, reasons
from blocklab.stats.grid import Grid
from blocklab.stats.values import Row
from blocklab.store.floor import Floor, Machine, load_floor, machine_of
from blocklab.store.folder import StudyFolder
from blocklab.store.imported import SITE
from blocklab.store.run import Run
from blocklab.study.grid import topology
from blocklab.study.types import Stack

# (stack, workload), by their labels.
At: TypeAlias = tuple[str, str]
# (stack, workload, phase, metric) of a workload's own value.
Place: TypeAlias = tuple[str, str, str, str]


class Limit(msgspec.Struct, frozen=True):
    """Why a value is the lab's, without a full stop. ``floor``: by the floor, and not only by a busy CPU."""

    why: str
    floor: bool

    @property
    def said(self) -> str:
        """The sentence that marks the value."""
        return f"{LIMITED}: {self.why}"


class Floors(msgspec.Struct, frozen=True):
    """The floors that hold for a study's cells. ``calibrate`` is the command that measures the first one that
    lacks, empty when none does; ``trouble`` says why one that is there cannot be used."""

    of: Mapping[At, Floor] = {}
    calibrate: str = ""
    trouble: str = ""

    @property
    def distinct(self) -> tuple[Floor, ...]:
        """Each floor once: of stacks that need other images, and of machines that continued the study."""
        return tuple({floor.machine: floor for floor in self.of.values()}.values())


def floors(folder: StudyFolder, places: Grid, runs: Mapping[At, Run]) -> Floors:
    """The floors that are kept in a study's folder, for the machine and the image of each of its runs."""
    known: dict[Machine, Floor | None] = {}
    found: dict[At, Floor] = {}
    calibrate = trouble = ""
    for at, run in runs.items():
        if run.environment.get("site") == SITE or "hosts" in run.environment or "clock" in run.environment:
            # It was not this lab that was measured, but hosts of somebody's; or no machine had a part in it.
            continue
        machine = machine_of(run.environment)
        if machine not in known:
            try:
                known[machine] = load_floor(folder.path, machine)
            except StoreError as error:
                known[machine], trouble = None, f"{error.message} ({error.hint})"
        if (floor := known[machine]) is not None:
            found[at] = floor
        else:
            calibrate = calibrate or _calibrate(places, at[0])
    return Floors(found, calibrate, trouble)


def _calibrate(places: Grid, stack: str) -> str:
    """The command that measures the floor of the image that a stack needs."""
    side = places.stacks[stack]
    addons = topology(side.study, [side.name]).addons
    return " ".join(["blocklab calibrate", *(f"--with {addon}" for addon in addons)])


def limits(places: Grid, rows: Sequence[Row], found: Mapping[At, Floor]) -> dict[Place, Limit]:
    """The workload's own values that are the lab's, with the reason; see ``stats.floor`` for which are."""
    active = {label: side.stack.on for label, side in places.stacks.items()}
    mirrored = {label: _mirrored(side.stack) for label, side in places.stacks.items()}
    busy = {
        (row.stack, row.workload, row.phase): row.value
        for row in rows
        if row.metric == "cpu.busy" and row.host == active[row.stack]
    }
    rates = {_place(row): row.value for row in rows if row.own and row.metric in _BESIDE}
    depths: dict[str, Mapping[str, int | None]] = {}
    limited: dict[Place, Limit] = {}
    for row in rows:
        if not row.own:
            continue
        place = (row.workload, row.phase)
        if row.workload not in depths:
            workload = places.workloads[row.workload].workload
            depths[row.workload] = workload.queue_depths() if isinstance(workload, QueueDepths) else {}
        floor = found.get((row.stack, row.workload))
        look = partial(
            reasons, floor, row.metric, row.value, row.unit, mirrored=mirrored[row.stack],
            depth=depths[row.workload].get(row.phase),
            other=rates.get((row.stack, *place, _BESIDE.get(row.metric, "")), 0.0),
        )  # fmt: skip
        if why := look(busy=busy.get((row.stack, *place))):
            limited[_place(row)] = Limit(why, bool(look()))
    return limited


_BESIDE = {"read.iops": "write.iops", "write.iops": "read.iops"}


def _place(row: Row) -> Place:
    return row.stack, row.workload, row.phase, row.metric


def _mirrored(stack: Stack) -> bool:
    """Whether a write has to reach another node."""
    return any(isinstance(layer, Copies) and layer.connected for layer in stack.layers)
