"""The announced time of a study, before it starts and after each cell, against when it really ends."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blocklab.campaign.remaining import Machine, Remaining
from blocklab.cli.progress import Lines
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.terminal import Console
from blocklab.runner.estimate import Span, costs
from blocklab.runner.events import AnyEvent, Done
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeLab, FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.fake.answers import Fios

STOP = {"rounds": "3..9", "each": "4s"}
QUIET, LOUD = Machine(noise=0.001), Machine(noise=0.3)


class Clock:
    """Time that hosts make go."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Slow(FakeSite):
    """Nodes that take a while to boot."""

    def __init__(self, answers: Timed, boot: float) -> None:
        super().__init__(answers)
        self.boot = boot
        self.clock = answers.clock

    def start(self, topology: Topology) -> FakeLab:
        self.clock.now += self.boot
        return super().start(topology)


class Timed(Fios):
    """Hosts on which each command takes a while, and fio as long as it was told and a second."""

    def __init__(self, rate: Callable[[str, int], float], pace: float) -> None:
        super().__init__(rate)
        self.clock, self.pace = Clock(), pace
        self.site: FakeSite = Slow(self, 40 * pace)

    def __call__(self, host: str, argv: Argv) -> Result:
        before = len(self.runs)
        result = super().__call__(host, argv)
        self.clock.now += sum(seconds + 1 for _, seconds in self.runs[before:]) or self.pace
        return result


class Noted(Lines):
    """Keeps what was announced, and when."""

    def __init__(self, console: Console, remaining: Remaining, clock: Clock) -> None:
        super().__init__(console)
        self.remaining, self.clock = remaining, clock
        self.announced: list[tuple[float, Span]] = []

    def note(self) -> None:
        self.announced.append((self.clock.now, self.remaining.left()))

    def __call__(self, event: AnyEvent) -> None:
        super().__call__(event)
        if isinstance(event, Done):
            self.note()


def settles(job: str, number: int) -> float:
    return 1000.0


def never(job: str, number: int) -> float:
    return 1000.0 if number % 2 else 1300.0


def second(job: str, number: int) -> float:
    """Only one of two workloads."""
    return never(job, number) if job == "b" else settles(job, number)


@pytest.mark.parametrize("pace", [0.05, 0.2], ids=["fast", "slow"])
@pytest.mark.parametrize(
    ("rate", "machine"), [(settles, QUIET), (never, LOUD), (second, QUIET), (second, Machine())]
)
def test_a_study_ends_within_what_was_announced(
    small: dict[str, Any], tmp_path: Path, rate: Any, machine: Machine, pace: float
) -> None:
    fio = {"workload": "fio", "size": "16MiB", "fill": False, "stop": STOP}
    workloads = {name: {**fio, "jobs": {name: {"rw": "write"}}} for name in "ab"}
    study = build({**small, "workloads": workloads, "repeats": 2})
    grid, answers, said = cells(study), Timed(rate, pace), io.StringIO()
    remaining = Remaining(costs(study, grid), machine, answers.clock)
    progress = Noted(Console(file=said, width=200), remaining, answers.clock)
    progress.note()
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    assert run_study(answers.site, study, grid, folder, remaining.announcing(progress), 1) == 0
    # Taking down the last layout is no part of it.
    end = progress.announced[-1][0]
    assert len(progress.announced) == 1 + len(grid) == 9
    for when, left in progress.announced:
        assert left.least <= end - when <= left.most, (left, end - when)
    # Before the start the noise says where in the range; afterwards the finished cells do.
    first = progress.announced[0][1]
    widths = [left.most - left.least for _, left in progress.announced]
    assert widths == sorted(widths, reverse=True) and widths[-1] == 0.0
    if machine.noise is not None and rate is not second:
        assert first.likely is not None
        assert abs(first.likely - (end - 1000)) < 0.4 * (end - 1000)
    lines = [line for line in said.getvalue().splitlines() if " of 8: " in line]
    assert len(lines) == 8 and all("; left: " in line for line in lines)
