"""What ``blocklab plan`` prints is what a run does, in the same order; of drills too."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from blocklab.cli.plan import Command, planned
from blocklab.model import node_programs
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.sites.fake import FakeSite
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.fake import runs
from tests.fake.answers import Answers
from tests.fake.drilled import KILL, Drilled
from tests.fake.drilled import study as drill

# What only a run does: it looks at the counters around each run of a workload and at the clocks, gives volumes
# their whole burst, fetches files, ends what it started, and asks a mirror whether it has come apart.
BESIDE = ("tail", "date", "refill", "get", "signal", "ls")
VERBS = {"keep": "save", "restore": "restore", "empty": "restore"}


Line: TypeAlias = tuple[str, Argv]


def told(command: Command) -> Line:
    """A line of the plan as the fake lab's log has it."""
    if command.argv:
        return command.host, command.argv
    verb, *words = command.said.split()
    if verb == "write":
        return command.host, ("put", words[0])
    if verb == "power:":
        return command.host, (words[0],)
    return "", (VERBS[verb], words[-1] if verb != "empty" else "")


def ran(site: FakeSite) -> list[Line]:
    (lab,) = site.labs
    log = [(host, argv) for host, argv in lab.log if argv[0] not in BESIDE]
    # One line of the plan.
    equipped = [line for line in log if line[1][0] == "put" and line[1][1].startswith(node_programs.FOLDER)]
    assert equipped and len(equipped) % len(node_programs.NAMES) == 0
    # What a link's delay is, only measuring tells.
    return [line for line in log if line not in equipped and line[1][:3] != ("tc", "qdisc", "change")]


def whatever_delay(line: Line) -> Line:
    """A link's delay is what was measured, once it is tuned."""
    host, argv = line
    return host, tuple("us" if before == "delay" else each for before, each in pairwise(("", *argv)))


def in_order(planned: list[Line], log: list[Line]) -> Line | None:
    """The first line of the plan that the log does not have after the one before it."""
    rest = iter(log)
    return next((line for line in planned if line not in rest), None)


def compared(study: Study, site: FakeSite) -> None:
    (stack,) = study.stacks
    measured = ("put ", "set the ")
    listed = [each for each in planned(study, stack, site) if not each.said.startswith(measured)]
    lines = [whatever_delay(told(each)) for each in listed]
    log = [whatever_delay(line) for line in ran(site)]
    assert len(lines) > 20
    assert in_order(lines, log) is None
    beside = [line for line in log if line not in lines]
    assert beside == [], "a run does what no plan says"


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
