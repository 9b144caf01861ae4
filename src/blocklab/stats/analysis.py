"""A study's folder, read and evaluated: what every chart, table and sentence is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from blocklab.errors import StoreError
from blocklab.stats.expect import Verdict, judge
from blocklab.stats.figures import Measured, Row, find, rows
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Run
from blocklab.study.types import Cell, Study


class Gap(msgspec.Struct, frozen=True):
    """A cell without usable figures: ``status`` is ``failed``, ``invalid``, ``unreadable`` or ``missing``."""

    stack: str
    workload: str
    status: str
    error: str
    hint: str = ""


@dataclass(frozen=True)
class Analysis:
    """All that was learned from a folder; ``measured`` holds only good runs, ``runs`` every readable one."""

    study: Study
    quick: bool
    baseline: str
    cells: tuple[Cell, ...]
    runs: Mapping[tuple[str, str], Run]
    measured: Mapping[tuple[str, str], Measured]
    gaps: tuple[Gap, ...]
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """The stacks besides the baseline."""
        return tuple(stack for stack in self.study.stacks if stack != self.baseline)

    def phases(self, workload: str) -> tuple[str, ...]:
        """The named phases of a workload's own figures, in the order of the run; ``("",)`` when it has none."""
        mine = (row.phase for row in self.rows if row.workload == workload and row.load)
        return tuple(dict.fromkeys(mine))

    def ping(self, stack: str, workload: str, link: str) -> float | None:
        """The mean round trip (s) that a ping took over a link before that cell's load; None when not known."""
        run = self.runs.get((stack, workload))
        for knob in run.knobs if run is not None else ():
            if (knob.layer, knob.name) == (f"link {link}", "ping mean") and knob.value.endswith("ms"):
                return float(knob.value.removesuffix("ms")) / 1e3
        return None

    def find(self, stack: str, workload: str, metric: str, phase: str = "") -> Row | None:
        """The figure of that name, None when there is none."""
        return find(self.rows, stack, workload, metric, phase)


def analyse(folder: StudyFolder) -> Analysis:
    """Read a study's folder and evaluate it. Raises ``StoreError`` when there is no readable ``study.json``.

    A cell that cannot be read becomes a gap, so that one broken file does not hide the others.
    """
    manifest = folder.manifest()
    study = manifest.study
    baseline = study.baseline or next(iter(study.stacks))
    runs: dict[tuple[str, str], Run] = {}
    measured: dict[tuple[str, str], Measured] = {}
    gaps = []
    for cell in manifest.cells:
        at = (cell.stack, cell.workload)
        run, gap = _read(folder, cell)
        if run is not None:
            runs[at] = run
        if gap is not None:
            gaps.append(gap)
        elif run is not None:
            measured[at] = Measured(run, study.stacks[cell.stack].on)
    table = rows(study, measured, baseline)
    reasons = {(gap.stack, gap.workload): gap.status for gap in gaps}
    verdicts = tuple(judge(claim, table, reasons) for claim in study.expect)
    return Analysis(study, manifest.quick, baseline, manifest.cells, runs, measured, tuple(gaps), table, verdicts)


def _read(folder: StudyFolder, cell: Cell) -> tuple[Run | None, Gap | None]:
    try:
        run = folder.run(cell)
    except StoreError as error:
        return None, Gap(cell.stack, cell.workload, "unreadable", error.message, error.hint)
    if run is None:
        hint = "blocklab run with the same study measures what is missing"
        return None, Gap(cell.stack, cell.workload, "missing", "this cell was never measured", hint)
    if run.outcome.status != "ok":
        return run, Gap(cell.stack, cell.workload, run.outcome.status, run.outcome.error, run.outcome.hint)
    return run, None
