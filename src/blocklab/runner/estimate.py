"""What a grid's cells take, part by part: for an estimate before the start and after each cell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from blocklab.model.stop import Rule
from blocklab.model.workload import Estimated, Ruled, WithData, Workload
from blocklab.study.copies import copy_of
from blocklab.study.factors import variant
from blocklab.study.grid import hardware, is_drill, layouts, topology
from blocklab.study.phases import rule_of
from blocklab.study.types import Cell, Study

# First guesses (s), from the developers' machine of two slow cores; see the per-cell values of docs/studies/.
# ``Floor.ready`` scales them to another machine, and finished cells replace them.
BOOT_SECONDS = 4.0
BUILD_SECONDS = 5.0
CELL_SECONDS = 5.0
DATA_SECONDS = 90.0
# What each start of a workload takes beside its own time: its program, the probes, the counters.
START_SECONDS = 1.0
# The least and the most (s) of a workload that ends by work done: a wide guess, since no field tells.
UNKNOWN_SECONDS = (10.0, 90.0)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Seconds: ``least`` when every workload settles at once, ``most`` when none does and its rule's cap ends it.
    ``likely`` is where in between this machine's noise and the finished cells put it; None while neither is
    known."""

    least: float
    likely: float | None
    most: float

    @property
    def middle(self) -> float:
        """One number, for a bar."""
        return (self.least + self.most) / 2 if self.likely is None else self.likely

    @property
    def text(self) -> str:
        """``4 to 9 min, probably 7 min``."""
        whole = between(self.least, self.most)
        likely = None if self.likely is None else spoken(self.likely)
        return whole if likely in (None, whole) else f"{whole}, probably {likely}"

    def plus(self, other: Span) -> Span:
        """Both, one after the other."""
        known = self.likely is not None and other.likely is not None
        likely = (self.likely or 0.0) + (other.likely or 0.0) if known else None
        return Span(self.least + other.least, likely, self.most + other.most)

    def after(self, gone: float) -> Span:
        """What is left of it after so many seconds; what takes longer than expected is about to end."""
        likely = None if self.likely is None else max(0.0, self.likely - gone)
        return Span(max(0.0, self.least - gone), likely, max(0.0, self.most - gone))


class Load(msgspec.Struct, frozen=True):
    """How long (s) a workload goes on: ``least`` if all of its phases settle at once, ``most`` if none ever does;
    ``starts``: how often its program is started then, the least and the most.

    ``rule`` ends it, None where it has a length; ``open_ended``: it ends by work done, and both are guesses.
    """

    least: float
    most: float
    starts: tuple[int, int] = (1, 1)
    rule: Rule | None = None
    open_ended: bool = False

    def at(self, share: float) -> float:
        """The seconds at that share of its range: 0 is ``least``, 1 is ``most``."""
        return self.least + share * (self.most - self.least)

    def starting(self, share: float) -> float:
        """What its starts take there (s), by the first guess."""
        least, most = self.starts
        return START_SECONDS * (least + share * (most - least))


class Cost(msgspec.Struct, frozen=True):
    """What a cell takes (s): its ``load``, ``around`` it, and ``once``, name -> what it shares with others: the
    boot of its nodes, the build of its layout, its data. Whichever cell comes first pays that."""

    cell: Cell
    load: Load
    around: float
    once: dict[str, float]

    @property
    def computed(self) -> Cost:
        """The same in a time that is computed: the load's seconds are not this machine's, so it is as much a guess
        as what lies around it."""
        around = self.around + (self.load.least + self.load.most) / 2
        return msgspec.structs.replace(self, load=Load(0.0, 0.0, (0, 0)), around=around)


def costs(study: Study, cells: Sequence[Cell]) -> tuple[Cost, ...]:
    """What each of these cells takes, by first guesses."""
    found = layouts(study, cells)
    alike = [hardware(topology(layout.study, [layout.stack])) for layout in found]
    of_one_kind = len(set(alike)) == 1
    loads: dict[bytes, Load] = {}
    made = []
    for number, (layout, kind) in enumerate(zip(found, alike, strict=True)):
        for cell in layout.cells:
            workload = variant(study, cell.levels).workloads[cell.workload]
            same = msgspec.json.encode(cell.spec["workload"])
            if same not in loads:
                loads[same] = load(workload)
            # A repeat begins with the nodes that the one before ended with, and boots all others again.
            boot = kind if of_one_kind else f"{kind} {cell.repeat}"
            once = {f"boot {boot}": BOOT_SECONDS, f"build {number}": BUILD_SECONDS}
            # A drill boots the node that it crashed.
            around = CELL_SECONDS + (BOOT_SECONDS if is_drill(layout.study, cell.workload) else 0.0)
            if isinstance(workload, WithData):
                copy = copy_of(layout.study, layout.stack, workload)
                once[f"data {copy} {boot}"] = DATA_SECONDS
                # The stack is built over restored volumes each time.
                around += BUILD_SECONDS
            made.append(Cost(cell, loads[same], around, once))
    return tuple(made)


def load(workload: Workload) -> Load:
    """How long a workload goes on."""
    rule = rule_of(workload)
    if rule is None:
        lasts = _lasts(workload)
        return Load(*UNKNOWN_SECONDS, open_ended=True) if lasts is None else Load(lasts, lasts)
    assert isinstance(workload, Ruled)
    trials = [_lasts(each) or rule.seconds for each in workload.trials(rule.seconds).values()]
    each, phases = sum(trials), len(trials)
    if rule.kind in ("long", "fixed"):
        return Load(each - phases * (rule.longest - rule.shortest), each, (phases, phases), rule)
    return Load(rule.least * each, rule.most * each, (rule.least * phases, rule.most * phases), rule)


def _lasts(workload: Workload) -> float | None:
    return workload.lasts() if isinstance(workload, Estimated) else None


def between(least: float, most: float) -> str:
    """``4 to 9 min``, ``45 s to 3 min``; one of them where both read the same."""
    first, last = spoken(least), spoken(most)
    if first == last:
        return last
    number, _, unit = first.partition(" ")
    return f"{number if last.partition(' ')[2] == unit and ' ' not in unit else first} to {last}"


def spoken(seconds: float) -> str:
    """``45 s``, ``12 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
