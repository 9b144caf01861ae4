"""Cells whose machine was busy with other work: how many, and the worst of them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.caveats import caveats
from blocklab.stats.finding import Finding, Number
from blocklab.stats.floor import OTHERS, PRESSURE
from tests.unit.synthetic import make

QUIET = {"busy": 60.0, "steal": 0.1, "foreign": 1.0, "pressure": 90.0}


def told(analysis: Analysis, *machines: dict[str, float]) -> list[Finding]:
    """The caveat of a study whose first cells had these machines, and whose others had a quiet one."""
    every = [
        msgspec.structs.replace(run, stack=msgspec.structs.replace(run.stack, machine=machine))
        for run, machine in zip(
            analysis.every, [*machines, *[QUIET] * (len(analysis.every) - len(machines))], strict=True
        )
    ]
    return [each for each in caveats(replace(analysis, every=tuple(every))) if each.kind == "other work"]


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(make(tmp_path_factory.mktemp("runs")))


def test_a_machine_of_its_own_is_no_caveat(analysis: Analysis) -> None:
    # The lab's own nodes may keep CPUs busy, and wait for each other.
    assert told(analysis) == []
    assert told(analysis, {**QUIET, "foreign": OTHERS, "steal": OTHERS}) == []
    assert told(analysis, {"busy": 99.0, "steal": 0.0, "pressure": PRESSURE}) == []
    assert told(analysis, {}) == []


@pytest.mark.parametrize(
    ("machine", "verdict", "share"),
    [
        ({**QUIET, "steal": 8.0}, "steal", 0.08),
        ({**QUIET, "foreign": 40.0, "steal": 8.0}, "foreign", 0.4),
        ({"busy": 99.0, "steal": 0.0, "pressure": 75.0}, "pressure", 0.75),
    ],
)
def test_each_sign_is_told(analysis: Analysis, machine: dict[str, float], verdict: str, share: float) -> None:
    first, count = analysis.every[0].cell.label, len(analysis.every)
    numbers = (Number(pytest.approx(share)),)  # type: ignore[arg-type]
    assert told(analysis, machine) == [
        Finding("other work", first, numbers=numbers, verdict=verdict, count=1, of=count)
    ]


def test_the_worst_of_several_cells_is_named(analysis: Analysis) -> None:
    (found,) = told(analysis, {**QUIET, "foreign": 10.0}, {**QUIET, "steal": 30.0}, {**QUIET, "foreign": 20.0})
    assert (found.about, found.verdict, found.count) == (analysis.every[1].cell.label, "steal", 3)


def test_cells_that_do_not_tell_and_failed_ones_are_not_counted(analysis: Analysis) -> None:
    (found,) = told(analysis, {**QUIET, "foreign": 40.0}, {}, {})
    assert (found.count, found.of) == (1, len(analysis.every) - 2)
    first = analysis.every[0]
    failed = msgspec.structs.replace(first, outcome=msgspec.structs.replace(first.outcome, status="failed"))
    other = replace(analysis, every=(failed, *analysis.every[1:]))
    assert told(other, {**QUIET, "foreign": 40.0}) == []
