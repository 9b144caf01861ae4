"""The round trip of a link is set by measuring it: on a machine of any speed it is true, or known not to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.study.read import build
from tests.fake import runs
from tests.fake.answers import Answers

# 4104 bytes from 10.77.1.2: icmp_seq=1 ttl=64 time=0.604 ms
ANSWER = "4104 bytes from 10.77.1.2: icmp_seq={} ttl=64 time={:.3f} ms"


class Machine(Answers):
    """Links that take ``floor`` ms by themselves, and ``times`` the delay that they are given."""

    def __init__(self, floor: float, times: float = 1.0, lost: bool = False) -> None:
        super().__init__()
        self.floor, self.times, self.lost = floor, times, lost
        self.changes: list[float] = []

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:3] == ("tc", "qdisc", "change"):
            self.changes.append(float(argv[argv.index("delay") + 1].removesuffix("us")))
        if argv[:2] == ("ping", "-A"):
            took = self.floor + self.times * self.delay / 1e3
            text = "" if self.lost else "\n".join(ANSWER.format(number, took) for number in range(20))
            return Result(1 if self.lost else 0, text.encode(), b"")
        return super().__call__(host, argv)


def run(small: dict[str, Any], tmp_path: Path, machine: Machine) -> Any:
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {"mirror": small["stacks"]["mirror"]}, "mirror"
    folder, _, bad, _ = runs.go(build(small), tmp_path, machine)
    assert bad == 0, [each.outcome for each in folder.runs()]
    (found,) = folder.runs()
    return found


@pytest.mark.parametrize(("floor", "times"), [(0.15, 1.0), (0.38, 1.0), (0.2, 1.6), (0.05, 0.8)])
def test_what_a_machine_takes_by_itself_is_taken_off(
    small: dict[str, Any], tmp_path: Path, floor: float, times: float
) -> None:
    machine = Machine(floor, times)
    tuned = run(small, tmp_path, machine).stack.tuned["zone"]
    assert tuned.true and tuned.reached.median == pytest.approx(0.5e-3, abs=51e-6)
    assert tuned.floor.median == pytest.approx(floor / 1e3) and tuned.asked == 0.5e-3
    # Nothing added, at most three corrections and the first one.
    assert machine.changes[0] == 0 and len(machine.changes) <= 5
    assert tuned.delay == pytest.approx(machine.changes[-1] / 1e6, abs=1e-6)


def test_a_machine_that_is_too_slow_is_known_to_be(small: dict[str, Any], tmp_path: Path) -> None:
    found = run(small, tmp_path, Machine(1.7))
    tuned = found.stack.tuned["zone"]
    assert not tuned.true and tuned.delay == 0 and tuned.reached.median == pytest.approx(1.7e-3)
    # Before the workload, and after it.
    assert [each.median for each in found.stack.pings["zone"]] == pytest.approx([1.7e-3, 1.7e-3])


def test_a_link_that_answers_no_ping_keeps_its_delay(small: dict[str, Any], tmp_path: Path) -> None:
    machine = Machine(0.15, lost=True)
    found = run(small, tmp_path, machine)
    assert found.stack.tuned == {} and found.stack.pings == {}
    assert machine.changes == [0, 500]
