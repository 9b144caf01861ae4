"""A study's folder, read and evaluated: what every chart, table and sentence is made from."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from blocklab.model.stack_map import StackMap
from blocklab.model.units import Duration
from blocklab.stats.expect import Verdict, judge
from blocklab.stats.format import NBSP, listed
from blocklab.stats.grid import Grid, Point, Side, grid, place_of
from blocklab.stats.headline import headline_rows
from blocklab.stats.holm import cautious
from blocklab.stats.inputs import Inputs
from blocklab.stats.limits import Floors, Limit, Place, floors, limits
from blocklab.stats.machines import At, misfits
from blocklab.stats.predicted import Fit
from blocklab.stats.reading import Drilled, Gap, Own, RunsRead, Stop, ends, read
from blocklab.stats.repeats import Repeats, combined
from blocklab.stats.steady import Unsteady
from blocklab.stats.values import Measured, Row, find, rows, told_apart
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import HIDDEN, Run, output_of
from blocklab.study.types import Cell, Study

# A page that shows more cells than this second by second is slow, and read by nobody.
MOST_DETAILED = 12


@dataclass(frozen=True)
class Analysis:
    """All that was learned from a folder; ``measured`` holds only good runs, ``runs`` every readable one.

    ``seeds`` are those that decided the order of the cells; None for the order of the file. None at all: the runs
    do not tell. ``stops``, ``drills`` and ``own`` are of all repeats. ``tables`` has each repeat's own values, of
    which ``rows`` are made, and ``repeats`` gives ratios within them.

    ``machines`` are the names of those that the cells were measured on. A repeat has a table for each machine that
    measured any of it: ``builds`` has the repeat (from 1) and the number of the machine of each table, ``where``
    the machine of each run's folder, by its name. ``misfits`` says of (cell, machine) why that machine's values of
    that cell do not belong to the others'; those in ``apart`` are not in ``rows``, which are all of them unless
    the study was started with ``--mixed pool``.

    Cells are known by the labels of their stack and their workload, which in a study with factors have the levels
    in them (``mirror rtt=10ms``, ``tpcc threads=16``); ``grid`` tells labels and names apart. ``runs`` has each
    cell's first readable run, ``every`` all of them, those of further repeats without samples. ``left_out``: the
    cells of the study that nobody asked for, and that were never measured. ``fits`` has what was predicted, and
    nothing else is made of it. ``memo``: what was made of all this, by the function that made it.
    """

    study: Study
    quick: bool
    grid: Grid
    cells: tuple[Cell, ...]
    runs: Mapping[tuple[str, str], Run]
    measured: Mapping[tuple[str, str], Measured]
    gaps: tuple[Gap, ...]
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    stops: tuple[Stop, ...]
    seeds: tuple[int | None, ...]
    floors: Floors
    drills: tuple[Drilled, ...] = ()
    tables: tuple[tuple[Row, ...], ...] = ()
    own: tuple[Own, ...] = ()
    every: tuple[Run, ...] = ()
    left_out: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    inputs: Inputs = field(default_factory=lambda: Inputs({}))
    unsteady: tuple[Unsteady, ...] = ()
    machines: tuple[str, ...] = ()
    builds: tuple[tuple[int, int], ...] = ()
    where: Mapping[str, int] = field(default_factory=dict)
    misfits: Mapping[tuple[At, int], tuple[str, ...]] = field(default_factory=dict)
    apart: Mapping[tuple[At, int], tuple[str, ...]] = field(default_factory=dict)
    fits: tuple[Fit, ...] = ()
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def times(self) -> tuple[int, int]:
        """In how many repeats the cells that were measured have values: the fewest and the most; (0, 0) without
        any."""
        repeats = {
            (repeat, row.stack, row.workload)
            for (repeat, machine), table in zip(self.builds, self.tables, strict=True)
            for row in table
            if ((row.stack, row.workload), machine) not in self.apart
        }
        counts = Counter((stack, workload) for _, stack, workload in repeats)
        return min(counts.values(), default=0), max(counts.values(), default=0)

    @property
    def virtual(self) -> bool:
        """Whether the runs lived in a time of their own."""
        return any("clock" in run.environment for run in self.every)

    @cached_property
    def clock(self) -> str:
        """Which time the runs lived in, with the seeds that repeat it and what is then the same; empty for the
        machine's own. Raises ``StoreError`` where the output cannot be read."""
        if not self.virtual:
            return ""
        seeds = ", ".join(str(seed) for seed in self.seeds if seed is not None) or "0"
        nodes = (node for run in self.every for node in run.cell.spec["nodes"].values())
        costs = _cpu([node.get("cpu", {}) for node in nodes])
        output = output_of(run for run in self.every if run.outcome.status == "ok")
        virtual = f"virtual time (experimental), in which {costs}; seed {seeds}; output {output}"
        cpus = {str(run.environment.get("host", {}).get("cpu", HIDDEN)) for run in self.every} - {HIDDEN}
        if not cpus:
            return virtual
        seen = listed(sorted(cpus))
        return f"{virtual}; programs saw the CPU ({seen}), so another one may give other output"

    @property
    def spread(self) -> str:
        """What the intervals are over, in words: ``over the repeats``."""
        if any(row.machines > 1 for row in self.rows):
            return "over the machines"
        return "over the repeats" if self.times[1] > 1 else "within the runs"

    @cached_property
    def highest_own(self) -> Mapping[str, Own]:
        """The highest of ``own`` for each layer, blocklab's own process first."""
        found: dict[str, Own] = {}
        for each in sorted(self.own, key=lambda each: each.sample.value):
            found[each.sample.layer] = each
        return dict(sorted(found.items()))

    @cached_property
    def limits(self) -> Mapping[Place, Limit]:
        """The values that are the lab's own, not the layout's. What was imported no lab has limited."""
        return {} if self.imported else limits(self.grid, self.rows, self.floors.of)

    def own_limit(self, row: Row | None) -> Limit | None:
        """Why a workload's own value is limited by the lab; None for all others."""
        return self.limits.get((row.stack, row.workload, row.phase, row.metric)) if row and row.own else None

    def limit(self, row: Row | None) -> str:
        """The sentence that marks such a value; empty for all others."""
        found = self.own_limit(row)
        return found.said if found is not None else ""

    def share_limit(self, row: Row) -> str:
        """The same of a value's share of the baseline's, which says as little where the baseline is limited."""
        point = self._points.get((row.stack, row.workload))
        base = self.grid.base(point) if point is not None else ""
        beside = self.limits.get((base, row.workload, row.phase, row.metric)) if row.own else None
        own = self.limit(row)
        if beside is None or base == row.stack:
            return own
        return "; ".join([*([f"{row.stack} is {own}"] if own else []), f"{base} is {beside.said}"])

    @cached_property
    def _points(self) -> Mapping[tuple[str, str], Point]:
        return {(point.stack, point.workload): point for point in self.grid.points}

    @property
    def imported(self) -> bool:
        """Whether the values were measured elsewhere and taken from logs."""
        return any(run.files for run in self.runs.values())

    @property
    def baseline(self) -> str:
        """What the others are compared with, for people."""
        return self.grid.baseline

    @property
    def stacks(self) -> Mapping[str, Side]:
        """The stacks by label, in the order of the study."""
        return self.grid.stacks

    @property
    def workloads(self) -> Mapping[str, Side]:
        """The workloads by label, in the order of the study."""
        return self.grid.workloads

    @property
    def others(self) -> tuple[str, ...]:
        """The stacks besides the baseline, at all their levels."""
        return tuple(stack for stack in self.stacks if stack not in self.grid.baselines)

    @cached_property
    def drilled_workloads(self) -> int:
        """How many workloads have drills."""
        return len({self.workloads[each.workload].name for each in self.drills})

    def drilled_label(self, stack: str, workload: str) -> str:
        """The cell of a drill for people, without the name of the workload where there is only one."""
        if self.drilled_workloads > 1:
            return f"{stack}/{workload}"
        return f"{stack}{workload.removeprefix(self.workloads[workload].name)}"

    @cached_property
    def detailed(self) -> tuple[tuple[str, str], ...]:
        """The cells to show second by second: all in a study without factors, else for each stack and workload
        those at its first and its last levels, a dozen at most."""
        if not self.grid.factors:
            return tuple((point.stack, point.workload) for point in self.grid.points)
        stacks, workloads = ends(self.stacks), ends(self.workloads)
        cells = [(point.stack, point.workload) for point in self.grid.points]
        last = [cell for cell in cells if cell[0] in stacks and cell[1] in workloads and cell in self.measured]
        return tuple(last[:MOST_DETAILED])

    @cached_property
    def places(self) -> Mapping[tuple[str, str], tuple[Row, ...]]:
        """The rows of each workload and phase."""
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.workload, row.phase), []).append(row)
        return {place: tuple(mine) for place, mine in found.items()}

    @property
    def unmeasured(self) -> tuple[Gap, ...]:
        """The gaps of cells that have no values at all."""
        return tuple(gap for gap in self.gaps if (gap.stack, gap.workload) not in self.measured)

    @property
    def missing_repeats(self) -> tuple[Gap, ...]:
        """The gaps of cells that have values, from their other repeats."""
        return tuple(gap for gap in self.gaps if (gap.stack, gap.workload) in self.measured)

    @cached_property
    def reported(self) -> Mapping[tuple[str, str, str], tuple[Row, ...]]:
        """What the workload itself reported, by stack, workload and phase."""
        found: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.rows:
            if row.own:
                found.setdefault((row.stack, row.workload, row.phase), []).append(row)
        return {place: tuple(mine) for place, mine in found.items()}

    @cached_property
    def _phases(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.own:
                found.setdefault(row.workload, {})[row.phase] = None
        return {workload: tuple(phases) for workload, phases in found.items()}

    def phases(self, workload: str) -> tuple[str, ...]:
        """The named phases of a workload's own values, in the order of the run; ``("",)`` when it has none."""
        return self._phases.get(workload, ())

    def ping(self, stack: str, workload: str, link: str) -> float | None:
        """The median round trip (s) over a link before that cell's workload; None when not known."""
        run = self.runs.get((stack, workload))
        found = run.stack.times.get(f"link {link}", ()) if run is not None else ()
        return found[0].median if found else None

    def find(self, stack: str, workload: str, metric: str, phase: str = "") -> Row | None:
        """The value of that name, None when there is none."""
        return find(self.places.get((workload, phase), ()), stack, workload, metric, phase)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's collector of cycles, which goes through all that is held again and again while it grows."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_uncollected()
def analyse(folder: StudyFolder) -> Analysis:
    """Read a study's folder and evaluate it. Raises ``StoreError`` when there is no readable ``study.json``.

    A cell that cannot be read becomes a gap, so that one broken file does not hide the others.
    """
    manifest = folder.manifest()
    study, cells = manifest.study, asked(folder, manifest)
    # A cell that was asked for in any repeat has its place.
    wanted = {place_of(cell) for cell in cells}
    places = grid(study, [cell for cell in manifest.cells if cell.repeat == 0 and place_of(cell) in wanted])
    found = RunsRead()
    tables, builds = [], []
    for number in range(1, study.repeats + 1):
        read(folder, places, [cell for cell in cells if cell.repeat == number - 1], number, found)
        # A repeat without any has an empty table.
        for build in sorted(build for build in found.good if build[0] == number) or [(number, 0)]:
            tables.append(rows(places, found.good.get(build, {})))
            builds.append(build)
    tables = told_apart(tables)
    measured = found.measured
    bases = {(point.stack, point.workload): (places.base(point), point.workload) for point in places.points}
    unfit = misfits(found.stood, bases)
    apart = {} if manifest.pooled else unfit
    together = [
        tuple(row for row in table if ((row.stack, row.workload), machine) not in apart)
        for (_, machine), table in zip(builds, tables, strict=True)
    ]
    on = [machine for _, machine in builds]
    inputs = _inputs(found, apart)
    table = doubted(places, combined(together, places.baselines, on), inputs, study.report.y)
    # What one repeat lacks another may have.
    reasons = {
        (gap.stack, gap.workload): gap.status for gap in found.gaps if (gap.stack, gap.workload) not in measured
    }
    pairs = Repeats(together, on)
    claims = [claim for claim in study.expect if places.about(claim)]
    verdicts = tuple(judge(claim, table, places.points, reasons, pairs, inputs) for claim in claims)
    drills = tuple(each for each in found.drills if ((each.stack, each.workload), each.machine) not in apart)
    return Analysis(
        study, manifest.quick, places, cells, found.runs, measured, tuple(found.gaps), table, verdicts,
        tuple(found.stops), tuple(found.seeds), floors(folder, places, found.runs), drills, tuple(tables),
        tuple(found.own), tuple(found.every), _left_out(manifest, cells), pairs, inputs,
        tuple(found.unsteady), found.machines.labels, tuple(builds), found.where, unfit,
        apart,
    )  # fmt: skip


def _cpu(costs: Sequence[Mapping[str, str]]) -> str:
    """What the nodes' CPUs take for their work, of the fields of each one's ``CpuCost``."""
    syscalls, faults = ([float(Duration(each.get(name, "0s"))) for each in costs] for name in ("syscall", "fault"))
    if not any([*syscalls, *faults]):
        return "a CPU costs nothing"
    sources = sorted({each["source"] for each in costs if each.get("source")})
    source = f" ({listed(sources)})" if sources else ""
    return f"a system call takes {_us(syscalls)} and a page fault {_us(faults)}{source}"


def _us(seconds: Sequence[float]) -> str:
    """``2 us``, or ``1 to 16 us``."""
    low, high = (f"{1e6 * value:g}" for value in (min(seconds), max(seconds)))
    return f"{low}{NBSP}us" if low == high else f"{low} to {high}{NBSP}us"


def _inputs(found: RunsRead, apart: Collection[tuple[At, int]]) -> Inputs:
    """What the cells stood on, of the runs whose values are put together."""
    stood: dict[At, list[StackMap]] = {}
    machines: dict[At, list[int]] = {}
    for (_, machine), mine in found.good.items():
        for at, good in mine.items():
            if (at, machine) not in apart:
                stood.setdefault(at, []).append(good.run.stack)
                machines.setdefault(at, []).append(machine)
    return Inputs(stood, machines)


def doubted(places: Grid, table: Sequence[Row], inputs: Inputs, y: str) -> tuple[Row, ...]:
    """The table with what its ratios' intervals do not tell: those of two cells that did not stand on the same,
    and headlines that differ by no more than chance among so many. ``y``: the value that the layout asks for."""
    base = {(point.stack, point.workload): places.base(point) for point in places.points}
    unlike = {at for at, beside in base.items() if inputs.apart(at, (beside, at[1]))}
    found = {
        number: msgspec.structs.replace(row.relative, doubt="unlike machines")
        for number, row in enumerate(table)
        if row.relative is not None and (row.stack, row.workload) in unlike
    }
    chosen = set(map(id, headline_rows(table, y)))
    asked = [
        (number, row.relative)
        for number, row in enumerate(table)
        if id(row) in chosen and row.relative is not None and row.stack not in places.baselines
    ]
    judged = cautious([(table[at].stack, found.get(at, share)) for at, share in asked])
    found |= {at: share for (at, _), share in zip(asked, judged, strict=True)}
    return tuple(
        msgspec.structs.replace(row, relative=found[number]) if number in found else row
        for number, row in enumerate(table)
    )


def asked(folder: StudyFolder, manifest: Manifest) -> tuple[Cell, ...]:
    """The cells that the last call asked for, and those that were measured before it."""
    if manifest.todo is None:
        return manifest.cells
    keys = set(manifest.todo)
    return tuple(cell for cell in manifest.cells if cell.key in keys or folder.there(cell))


def _left_out(manifest: Manifest, cells: Sequence[Cell]) -> int:
    """How many cells are neither among these nor left to prediction."""
    there = {cell.key for cell in cells} | set(manifest.predicted)
    return sum(cell.key not in there for cell in manifest.cells)
