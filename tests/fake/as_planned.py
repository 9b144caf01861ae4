"""What a run did on the fake site, line by line, against what its plan says."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from blocklab.cli.plan import Command, planned
from blocklab.model import node_programs
from blocklab.model.plan import Argv
from blocklab.sites.fake import FakeSite
from blocklab.study.types import Study

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
