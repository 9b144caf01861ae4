"""What ``blocklab plan`` prints is what a run does, in the same order; of drills too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.cli.plan import planned
from blocklab.model import node_programs
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.sites.fake import FakeSite
from blocklab.study.read import build
from tests.fake import runs
from tests.fake.answers import Answers
from tests.fake.as_planned import Line, compared, in_order
from tests.fake.drilled import KILL, Drilled
from tests.fake.drilled import study as drill


@pytest.mark.parametrize("stack", ["local", "mirror"])
def test_a_measurement_does_what_its_plan_says(small: dict[str, Any], tmp_path: Path, stack: str) -> None:
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {stack: small["stacks"][stack]}, stack
    study = build(small)
    _, _, bad, site = runs.go(study, tmp_path, Answers())
    assert bad == 0
    compared(study, site)


class Apart(Drilled):
    """Of a mirror whose sides are not the same."""

    def __call__(self, host: str, argv: Argv) -> Result:
        return (
            Result(0, host.encode(), b"")
            if node_programs.path("checksum") in argv
            else super().__call__(host, argv)
        )


def test_a_drill_does_what_its_plan_says(small: dict[str, Any], tmp_path: Path) -> None:
    study = drill(small, "mirror", kill=KILL)
    answers = Apart()
    answers.override["differ 0"] = Result(0, b"4096\n", b"")
    _, progress, _, site = runs.go(study, tmp_path, answers)
    (found,) = progress.drills
    assert found.took_over and found.mirror is not None
    assert (found.mirror.status, found.mirror.verified, set(found.mirror.copies)) == (
        "differs",
        4096,
        {"a1", "a2"},
    )
    compared(study, site)


def test_a_drill_without_a_survivor_starts_the_node_again(small: dict[str, Any], tmp_path: Path) -> None:
    study = drill(small, "local", kill=KILL)
    _, progress, bad, site = runs.go(study, tmp_path, Drilled())
    assert bad == 0 and [each.took_over for each in progress.drills] == [False]
    compared(study, site)


def test_the_plan_of_a_drill_names_fault_fencing_and_each_stage(small: dict[str, Any]) -> None:
    study = drill(small, "mirror", kill=KILL)
    about = list(
        dict.fromkeys(each.about.split(" ")[0] for each in planned(study, "mirror", FakeSite()) if each.about)
    )
    assert about[:5] == ["kill", "fencing", "promotion", "mount", "recovery"]
    (kill,) = [each for each in planned(study, "mirror", FakeSite()) if each.about.startswith("kill")]
    assert kill.about == f"kill at {KILL['at']} of the workload" and kill.said == "power: crash"


def test_in_order_can_fail() -> None:
    log: list[Line] = [("a", ("one",)), ("a", ("two",))]
    assert in_order(log, log) is None
    assert in_order(log[::-1], log) == ("a", ("one",))
