"""A study: stack by stack, cell by cell; what is done stays done, what fails is said."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from blocklab.errors import BlocklabError, KnobError, NodeLost
from blocklab.model.host import Lab, Site
from blocklab.model.plan import Fact, Port
from blocklab.model.sample import Parsed
from blocklab.runner.engine import Engine
from blocklab.runner.measure import Measured, measure, not_in_force, offsets
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Outcome, Status, draft
from blocklab.study.grid import plan_ground, plan_stack, port_for, topology
from blocklab.study.types import Cell, Study


class Progress(Protocol):
    """Who is told what happens."""

    def stack(self, name: str, text: str) -> None:
        """A stack is being built, or stands, or is gone."""

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """A cell begins."""

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed) -> None:
        """A cell is stored."""

    def warning(self, text: str) -> None:
        """Something that does not stop the study."""


@dataclass
class Standing:
    """Stacks that stand: their lab, the engine that built them, and each stack's facts and ports."""

    lab: Lab
    engine: Engine
    facts: dict[str, tuple[Fact, ...]] = field(default_factory=dict)
    ports: dict[str, tuple[Port, ...]] = field(default_factory=dict)


@contextlib.contextmanager
def standing(site: Site, study: Study, stacks: Sequence[str]) -> Iterator[Standing]:
    """Start the hosts, build the stacks, and take all of it down at the end of the block."""
    shape = topology(study, stacks)
    ground = site.ground(shape)
    lab = site.start(shape)
    engine = Engine(lab.hosts)
    stand = Standing(lab, engine)
    try:
        links = plan_ground(shape, ground)
        engine.carry_out(links.steps, "build")
        for number, name in enumerate(stacks):
            plan = plan_stack(study, name, number, ground)
            engine.carry_out(plan.steps, "build")
            stand.facts[name] = links.facts + plan.facts
            stand.ports[name] = plan.ports
        yield stand
    finally:
        try:
            engine.undo()
        finally:
            lab.close()


def run_study(site: Site, study: Study, cells: Sequence[Cell], folder: StudyFolder, progress: Progress) -> int:
    """Measure ``cells``, each stored when it ends. The number of cells that did not end ``ok``."""
    environment = site.environment()
    bad = 0
    number = 0
    for name in dict.fromkeys(cell.stack for cell in cells):
        todo = [cell for cell in cells if cell.stack == name]
        while todo:
            group = _Group(site, study, name, folder, progress, environment)
            finished, failures = group.run(todo, number, len(cells))
            number += finished
            bad += failures
            todo = todo[finished:]
    return bad


class _Group:
    """The cells of one stack on one build of it."""

    def __init__(
        self,
        site: Site,
        study: Study,
        stack: str,
        folder: StudyFolder,
        progress: Progress,
        environment: dict[str, Any],
    ) -> None:
        self._site = site
        self._study = study
        self._stack = stack
        self._folder = folder
        self._progress = progress
        self._environment = environment

    def run(self, cells: Sequence[Cell], number: int, count: int) -> tuple[int, int]:
        """(cells stored, of them not ok). Stops early after a lost node: the rest needs a new build."""
        finished = bad = 0
        self._progress.stack(self._stack, "building")
        started = time.monotonic()
        try:
            with standing(self._site, self._study, [self._stack]) as stand:
                self._progress.stack(self._stack, f"stands after {time.monotonic() - started:.1f} s")
                for cell in cells:
                    self._progress.cell(number + finished + 1, count, cell)
                    status, lost = self._cell(cell, stand)
                    finished += 1
                    bad += status != "ok"
                    if lost:
                        break
            for warning in stand.engine.warnings:
                self._progress.warning(f"{self._stack}: {warning}")
        except BlocklabError as error:
            if finished == len(cells):
                # The figures are in; a take-down that failed must not cost them.
                self._progress.warning(f"{self._stack}: {error}")
                return finished, bad
            for cell in cells[finished:]:
                self._progress.cell(number + finished + 1, count, cell)
                self._never_built(cell, error)
                finished += 1
                bad += 1
        return finished, bad

    def _cell(self, cell: Cell, stand: Standing) -> tuple[Status, bool]:
        """Measure and store one cell: (how it ended, whether a node was lost)."""
        workload = self._study.workloads[cell.workload]
        port = port_for(workload, stand.ports[cell.stack])
        started, first = time.time(), len(stand.engine.records)
        measured = Measured()
        error: BlocklabError | None = None
        with draft(self._folder.cells, cell.key) as here:
            try:
                measure(stand.engine, workload, port, stand.facts[cell.stack], here.raw, measured)
            except BlocklabError as caught:
                error = caught
            status, error = _judge(measured, error)
            outcome = _outcome(status, error, started)
            build = [record for record in stand.engine.records[:first] if record.part == "build"]
            # Any node may be gone, whatever the cell failed of: what was collected is stored all the same.
            clocks, lost = offsets(stand.lab.hosts)
            environment = {**self._environment, "clock_offsets": clocks}
            here.write(
                cell, outcome, environment=environment, records=[*build, *stand.engine.records[first:]],
                knobs=measured.knobs, parsed=measured.parsed,
            )  # fmt: skip
        for warning in measured.warnings:
            self._progress.warning(f"{cell.label}: {warning}")
        self._progress.done(cell, outcome, measured.parsed)
        return status, bool(lost) or isinstance(error, NodeLost)

    def _never_built(self, cell: Cell, error: BlocklabError) -> None:
        """Store a cell whose stack could not be built, so that the report shows why."""
        outcome = _outcome("failed", error, time.time())
        with draft(self._folder.cells, cell.key) as here:
            here.write(cell, outcome, environment=self._environment, records=[], knobs=[], parsed=Parsed())
        self._progress.done(cell, outcome, Parsed())


def _judge(measured: Measured, error: BlocklabError | None) -> tuple[Status, BlocklabError | None]:
    if error is not None:
        return "failed", error
    wrong = not_in_force(measured.knobs)
    if wrong:
        first = wrong[0]
        return "invalid", KnobError(
            first.host, f"{first.layer} {first.name}", str(first.wanted), first.value,
            hint=f"{len(wrong)} knobs are not in force; the figures are those of another layout",
        )  # fmt: skip
    return "ok", None


def _outcome(status: Status, error: BlocklabError | None, started: float) -> Outcome:
    return Outcome(
        status, error.message if error else "", error.hint if error else "", started, time.time() - started
    )
