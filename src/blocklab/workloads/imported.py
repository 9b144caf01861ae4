"""A workload that blocklab did not run: its values were imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from blocklab.formats.load.fio.options import SHAPING
from blocklab.model.plan import Kind, Port, Step
from blocklab.model.sample import Parsed
from blocklab.model.workload import Command
from blocklab.workloads import fio_shapes
from blocklab.workloads.base import WorkloadBase


class ImportedWorkload(WorkloadBase, tag="imported", frozen=True, kw_only=True):
    """A workload that somebody else ran, whose values ``blocklab import`` took from logs.

    It cannot be run, so ``run``, ``check``, ``plan`` and ``up`` refuse it. Its values have the names that
    blocklab's own workloads give them.

    Example::

        pgbench: {workload: imported, says: pgbench -c 10 -t 1000 at scale 1}
    """

    takes: ClassVar[tuple[Kind, ...]] = ("block",)
    refused: ClassVar[tuple[str, ...]] = ("from",)
    imported: ClassVar[Literal[True]] = True

    says: str = ""
    """What the workload was, in the words of whoever ran it."""
    jobs: dict[str, dict[str, str]] = {}
    """Of fio's jobs the options by which their phases can be laid out, as its JSON or ``--jobs`` has them."""

    @property
    def phases(self) -> tuple[str, ...] | None:
        """As its logs say."""
        return None

    @property
    def phase_count(self) -> int:
        """Those of fio's jobs, where they are known."""
        return max(1, len(self.jobs))

    def shapes(self) -> dict[str, dict[str, str]]:
        return {
            name: fio_shapes.shape(options)
            | {option: value for option, value in options.items() if option not in SHAPING}
            for name, options in self.jobs.items()
        }

    def problems(self) -> list[tuple[str, str]]:
        return []

    def prepare(self, port: Port) -> tuple[Step, ...]:
        return ()

    def command(self, port: Port) -> Command:
        """It cannot be run; ``study.check`` refuses it before anything could try."""
        raise NotImplementedError

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``blocklab.imports`` has read it already."""
        raise NotImplementedError
