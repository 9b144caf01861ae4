"""A study: stack by stack, cell by cell; what is done stays done, what fails is said."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.errors import BlocklabError, KnobError, NodeLost, StoreError, SuspectError
from blocklab.model.drill import Drill
from blocklab.model.drill import Ledger as Found
from blocklab.model.sample import Parsed
from blocklab.model.site import Lab, OneMachine, OwnTime, Site, offered
from blocklab.model.workload import Drilled, Workload
from blocklab.runner.drill import Drilling
from blocklab.runner.events import Begun, Counted, Done, Interim, Judged, Listener, OnStack, Warned
from blocklab.runner.measure import Measured, clocks, knob_error, measure, not_in_force, own, stepped
from blocklab.runner.strikes import Moment
from blocklab.runner.workshop import Standing, Workshop
from blocklab.store.floor import with_floor
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Outcome, Status, draft
from blocklab.study.factors import variant
from blocklab.study.grid import Layout, hardware, is_drill, layouts, port_for, topology
from blocklab.study.types import Cell, Study


@contextlib.contextmanager
def standing(site: Site, study: Study, stacks: Sequence[str]) -> Iterator[Standing]:
    """Start the hosts, build the stacks, and take all of it down at the end of the repeat."""
    shape = topology(study, stacks)
    ground = site.ground(shape)
    with contextlib.closing(site.start(shape)) as lab:
        stand = Standing(lab, study, stacks, ground, fresh=True)
        try:
            stand.build()
            yield stand
        finally:
            stand.engine.undo()


def run_study(
    site: Site,
    study: Study,
    cells: Sequence[Cell],
    folder: StudyFolder,
    tell: Listener,
    seed: int | None = None,
) -> int:
    """Measure ``cells`` on nodes that end with them, as ``run_cells`` has it."""
    with contextlib.closing(Workshop(site)) as workshop:
        return run_cells(workshop, study, cells, folder, tell, seed)


def run_cells(
    workshop: Workshop,
    study: Study,
    cells: Sequence[Cell],
    folder: StudyFolder,
    tell: Listener,
    seed: int | None = None,
    moment: Moment | None = None,
) -> int:
    """Measure ``cells``, each stored when it ends. The number of cells that did not end ``ok``. ``moment``: when
    the first fault of each drill strikes, if not by its seed.

    Cells that share a layout run in an order that ``seed`` decides, so that a drift of the machine does not look
    like an effect of what the study varies; without a seed as the file has them.
    """
    bad = number = 0
    for layout in in_order(layouts(study, cells)):
        addons = topology(layout.study, [layout.stack]).addons
        environment = {**with_floor(workshop.site.environment(addons)), "seed": seed}
        todo = list(layout.cells) if seed is None else shuffled(layout.cells, seed)
        patient = True
        while todo:
            group = _Group(workshop, study, layout, folder, tell, environment, seed, moment, patient)
            finished, failures = group.run(todo, number, len(cells))
            patient = group.patient
            number += finished
            bad += failures
            todo = todo[finished:]
    return bad


def shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """The cells in an order that depends on the seed and on themselves, but not on which of them are left."""
    return sorted(cells, key=lambda cell: hashlib.sha256(f"{seed} {cell.key}".encode()).digest())


def in_order(found: Sequence[Layout]) -> list[Layout]:
    """Layouts of the same hardware one after the other, so that they share booted nodes and copies of data.

    One repeat after the other, since what is compared within a repeat must have had the same machine; every second
    repeat is the other way round (A B, B A, ...), so that a drift of the machine favours no layout. Drills are
    counted, not compared: all of a layout follow each other.
    """
    repeats: dict[int, dict[str, list[Layout]]] = {}
    for layout in found:
        counted = all(is_drill(layout.study, cell.workload) for cell in layout.cells)
        alike = hardware(topology(layout.study, [layout.stack]))
        groups = repeats.setdefault(0 if counted else layout.cells[0].repeat, {})
        groups.setdefault(alike, []).append(layout)
    ordered = []
    for number, groups in repeats.items():
        mine = [layout for group in groups.values() for layout in group]
        ordered += mine[::-1] if number % 2 else mine
    return ordered


class _Group(msgspec.Struct):
    """The cells of one layout. ``patient``: whether a build that fails between two of them, or on nodes that
    others have used, is tried once more, on new nodes; one that fails again will fail always."""

    _workshop: Workshop
    _study: Study
    _layout: Layout
    _folder: StudyFolder
    _tell: Listener
    _environment: dict[str, Any]
    _seed: int | None
    _moment: Moment | None
    patient: bool

    def run(self, cells: Sequence[Cell], number: int, count: int) -> tuple[int, int]:
        """(cells stored, of them not ok). Stops early after a lost node, and after a workload's data that could
        not be made: the rest needs a new build. Raises ``StoreError``: what cannot be stored need not be
        measured."""
        finished = bad = 0
        reused = False
        try:
            with self._workshop.layout(self._layout, self._say) as turn:
                reused = turn.reused
                for cell in cells:
                    self._tell(Begun(cell.key, cell.label, number + finished + 1, count))
                    workload = variant(self._study, cell.levels).workloads[cell.workload]
                    if why := turn.given_up(workload):
                        self._never_built(cell, why)
                        finished += 1
                        bad += 1
                        continue
                    stand = turn.ready(workload, cell.key)
                    status, lost = self._cell(cell, workload, stand)
                    finished += 1
                    bad += status != "ok"
                    if lost:
                        turn.drop()
                        self._workshop.close()
                        break
                    if status in ("failed", "invalid"):
                        # A mirror that broke in it must not be the next one's.
                        turn.make_way()
            for warning in turn.warnings:
                self._tell(Warned(f"{self._layout.stack}: {warning}"))
            if turn.warnings:
                # What could not be taken down would be in the next layout's way.
                self._workshop.close()
        except BlocklabError as error:
            found = self._not_built(
                self._explained(error), cells[finished:], number + finished, count, again=reused or finished > 0
            )
            return finished + found, bad + found
        return finished, bad

    def _not_built(
        self, error: BlocklabError, rest: Sequence[Cell], number: int, count: int, *, again: bool
    ) -> int:
        """How many of the cells that are left are given up, and stored as failed, since their layout could not be
        built or taken down. ``again``: it may be worth another try."""
        # Whatever state the nodes are in, the next layout gets new ones.
        self._workshop.close()
        if not rest:
            # The values are in; a take-down that failed must not cost them.
            self._tell(Warned(f"{self._layout.stack}: {error}"))
            return 0
        if again and self.patient:
            self.patient = False
            # What was measured on it shows that it can stand; or an earlier layout may have left something.
            self._tell(Warned(f"{self._layout.stack}: {error.message}; it is built again"))
            return 0
        # One workload's data that cannot be had say nothing of the other workloads.
        rest = rest[:1] if self._workshop.of_data(error) else rest
        for done, cell in enumerate(rest, number + 1):
            self._tell(Begun(cell.key, cell.label, done, count))
            self._never_built(cell, error)
        return len(rest)

    def _explained(self, error: BlocklabError) -> BlocklabError:
        """With what the nodes lack as its hint, where it has none. One of the store goes on up."""
        if isinstance(error, StoreError):
            raise error
        error.hint = error.hint or self._workshop.shortage()
        return error

    def _say(self, text: str) -> None:
        self._tell(OnStack(self._layout.stack, text))

    def _cell(self, cell: Cell, workload: Workload, stand: Standing) -> tuple[Status, bool]:
        """Measure and store one cell: (how it ended, whether the nodes are of no more use, one being lost or still
        under a fault)."""
        port = port_for(workload, stand.ports[cell.stack], stand.ground)
        started, first = _Started(), len(stand.engine.records)
        before, _ = clocks(stand.lab.hosts, timer=stand.engine.timer)
        spent = _spent(stand.lab)
        stand.engine.times.clear()
        measured = Measured()
        error: BlocklabError | None = None
        drilling: Drilling | None = None
        with draft(self._folder.cells, cell.key) as here:
            found: Drill | None = None
            ledger: Found | None = None
            try:
                seed = "" if self._seed is None else f"{self._seed} {cell.key}"
                if isinstance(workload, Drilled) and is_drill(self._layout.study, cell.workload):
                    what = self._layout.study
                    drilling = Drilling(
                        stand, what, cell.stack, workload, here.raw, measured, f"{self._seed} {cell.key}",
                        brief=cell.repeat > 0, counting=lambda count: self._tell(Counted(cell.key, count)),
                        moment=self._moment,
                    )  # fmt: skip
                    found, ledger = drilling.run()
                else:
                    measure(
                        stand.engine,
                        workload,
                        port,
                        stand.facts[cell.stack],
                        here.raw,
                        measured,
                        stand.shapes[cell.stack],
                        seed,
                        lambda phase, rounds, rates: self._tell(Interim(cell.key, phase, rounds, tuple(rates))),
                        functools.partial(stand.correct, cell.stack),
                    )
            except BlocklabError as caught:
                error = self._explained(caught)
            if OwnTime in stand.lab.offers:
                measured.warnings += offered(stand.lab, OwnTime).doubts()
            parsed = msgspec.structs.replace(
                measured.parsed, samples=(*measured.parsed.samples, *own(stand.engine.records[first:]))
            )
            build = [record for record in stand.engine.records[:first] if record.part in ("build", "data")]
            # Any node may be gone, whatever the cell failed of: what was collected is stored all the same.
            after, lost = clocks(stand.lab.hosts, timer=stand.engine.timer)
            booted = {each.host for each in stand.engine.records[first:] if each.argv == ("power", "boot")}
            # A node that was booted meanwhile has another clock than before.
            kept = {name: clock for name, clock in before.items() if name not in booted}
            status, error = _judge(measured, error or stepped(kept, after, started.seconds()))
            outcome = _outcome(status, error, started)
            known = {name: tuple(each[name] for each in (kept, after) if name in each) for name in stand.lab.hosts}
            where = msgspec.structs.replace(
                stand.shapes[cell.stack], times=dict(stand.engine.times), clocks=known,
                machine=_shares(spent, _spent(stand.lab)),
            )  # fmt: skip
            if status == "failed" and self._folder.has(cell):
                here.drop()
                self._tell(Warned(f"{cell.label}: it failed this time, so the earlier run is kept"))
            else:
                here.write(
                    cell, outcome, environment=self._environment, stack=where,
                    records=[*build, *stand.engine.records[first:]], knobs=measured.knobs, parsed=parsed,
                    stops=measured.stops, rounds=measured.rounds, drill=found, ledger=ledger,
                )  # fmt: skip
        for warning in measured.warnings:
            self._tell(Warned(f"{cell.label}: {warning}"))
        self._tell(Done.of(cell, outcome, measured.parsed, measured.stops))
        if found is not None:
            self._tell(Judged(cell.key, msgspec.structs.replace(cell, repeat=0).label, found))
        unmended = drilling is not None and drilling.unmended
        return status, bool(lost) or isinstance(error, NodeLost) or unmended

    def _never_built(self, cell: Cell, error: BlocklabError) -> None:
        """Store a cell whose stack could not be built, so that the report shows why; a good run of it stays."""
        outcome = _outcome("failed", error, _Started())
        if self._folder.has(cell):
            self._tell(Warned(f"{cell.label}: nothing was measured, so the earlier run is kept"))
        else:
            with draft(self._folder.cells, cell.key) as here:
                here.write(cell, outcome, environment=self._environment, records=[], knobs=[], parsed=Parsed())
        self._tell(Done.of(cell, outcome, Parsed(), ()))


def _judge(measured: Measured, error: BlocklabError | None) -> tuple[Status, BlocklabError | None]:
    if error is not None:
        return "invalid" if isinstance(error, KnobError) else "failed", error
    if wrong := not_in_force(measured.knobs):
        return "invalid", knob_error(wrong, "the values are those of another layout")
    if measured.suspicions:
        more = f" (and {len(measured.suspicions) - 1} more)" if len(measured.suspicions) > 1 else ""
        return "suspect", SuspectError(f"the layers do not agree: {measured.suspicions[0]}{more}")
    return "ok", None


def _spent(lab: Lab) -> Mapping[str, float]:
    """What the hosts' machine has spent; nothing where that is not known."""
    with contextlib.suppress(OSError):
        return offered(lab, OneMachine).spent() if OneMachine in lab.offers else {}
    return {}


def _shares(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """``StackMap.machine`` between two readings."""
    gone = {name: after[name] - before[name] for name in before.keys() & after.keys()}
    whole = {"busy": "all", "steal": "all", "foreign": "all", "pressure": "time"}
    return {
        # What a process took is counted a little later than what CPUs gave.
        name: round(100 * max(0.0, gone[name]) / gone[of], 2)
        for name, of in whole.items()
        if name in gone and gone.get(of, 0) > 0
    }


class _Started:
    """When something began, and how long ago that is: by a clock that nobody sets."""

    def __init__(self) -> None:
        self.at = time.time()
        self._at = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._at


def _outcome(status: Status, error: BlocklabError | None, started: _Started) -> Outcome:
    said = (error.message, error.hint) if error else ("", "")
    return Outcome(status, *said, started.at, started.seconds())
