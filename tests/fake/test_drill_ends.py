"""When a drill counts and when it ends: what the monitor says, what the client does, how a takeover fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.model.clock import Timer
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Run, Wait
from blocklab.runner import drill as module
from blocklab.runner.strikes import End
from blocklab.sites.fake import FakeLab, Play
from blocklab.study import takeover as recipes
from blocklab.study.drill_phases import NOTICE_SECONDS
from blocklab.study.drills import nominal
from blocklab.study.grid import topology
from blocklab.study.read import build
from blocklab.workloads.ledger import PROGRAM
from tests.fake.drilled import FULL, KILL, MISSED, Drilled, count, drilled, said, study


class Late(Drilled):
    """Nodes of which some have a clock that is late, by 5 s."""

    def __init__(self, *late: str) -> None:
        super().__init__()
        self.late = set(late)

    def __call__(self, host: str, argv: Argv) -> Result:
        self.ahead = -5.0 if host in self.late else 0.0
        return super().__call__(host, argv)


def test_a_node_that_was_booted_has_another_clock(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, boot = Late("a1"), FakeLab.boot

    def booted(lab: FakeLab, name: str) -> None:
        boot(lab, name)
        answers.late.discard(name)

    monkeypatch.setattr(FakeLab, "boot", booted)
    progress, _, outcome = drilled(study(small, "mirror", kill=KILL), tmp_path, answers)
    assert answers.late == set() and (outcome.status, len(progress.drills)) == ("ok", 1), outcome.error


def test_a_node_taken_for_dead_before_any_fault_is_no_drill(small: dict[str, Any], tmp_path: Path) -> None:
    """It would be fenced, the crash would find it dead, and the survivor's outage would be nobody's."""
    late = {"fault": "crash", "at": "60s"}
    progress, site, outcome = drilled(study(small, "mirror", kill=late), tmp_path, Drilled())
    assert outcome.status == "failed" and progress.drills == []
    assert f"its monitor declared a1 dead before any fault struck ({MISSED})" in outcome.error
    assert "more misses" in outcome.hint
    assert ("a1", ("crash",)) not in site.labs[0].log, "nothing is wrong with it"


def test_faults_wait_for_the_monitor_to_hear_the_node(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARD_SECONDS", 0.1)
    deaf = Play(0, b"", b"", pieces=(said("started"),))
    _, site, outcome = drilled(study(small, "mirror", kill=KILL), tmp_path, Drilled(watch=deaf))
    assert outcome.status == "failed" and "got no answer from a1" in outcome.error
    assert ("a1", ("crash",)) not in site.labs[0].log


def test_a_fault_that_finds_its_node_dead_is_told_and_not_counted(small: dict[str, Any], tmp_path: Path) -> None:
    faults = {"pause": {"fault": "freeze", "at": "0s"}, "kill": {"fault": "crash", "at": "0.2s"}}
    progress, _, outcome = drilled(study(small, "mirror", **faults), tmp_path, Drilled())
    (drill,) = progress.drills
    assert outcome.status == "ok" and drill.took_over and drill.fault == "pause"
    assert [each.what for each in drill.events if each.what.startswith("kill")] == ["kill did not strike"]
    assert any("kill did not strike: no node of it (a1) was alive" in each for each in progress.warnings)


def test_a_takeover_that_fails_is_told_though_the_client_has_ended_by_then(
    small: dict[str, Any], tmp_path: Path
) -> None:
    class Fails(Drilled):
        def __call__(self, host: str, argv: Argv) -> Result:
            if host == "a2" and argv[:2] == ("drbdadm", "primary"):
                return Result(17, b"", b"Multiple primaries not allowed\n")
            return super().__call__(host, argv)

    # One more look at it would find it gone.
    client = Play(0, b"", b"", pieces=tuple(count(number) for number in range(1, 5)), ends=True)
    progress, _, outcome = drilled(study(small, "mirror", kill=KILL), tmp_path, Fails(client))
    (drill,) = progress.drills
    assert outcome.status == "ok" and not drill.took_over and drill.struck is not None
    assert any("the takeover failed" in each and "Multiple primaries" in each for each in progress.warnings)


def test_a_client_whose_time_is_over_ends_the_drill_only_after_a_fault(
    small: dict[str, Any], tmp_path: Path
) -> None:
    client = Play(0, b"", b"", pieces=tuple(count(number) for number in range(1, 8)), ends=True)
    hosts = Drilled(client, Play(0, b"", b"", pieces=(said("answered"),)))
    progress, _, outcome = drilled(study(small, "mirror", full=FULL), tmp_path / "after", hosts)
    assert outcome.status == "ok" and len(progress.drills) == 1
    late = {**FULL, "at": "60s"}
    progress, _, outcome = drilled(study(small, "mirror", full=late), tmp_path / "before", hosts)
    assert outcome.status == "failed" and "it ended too early" in outcome.error and progress.drills == []


def test_the_client_has_time_for_the_slowest_takeover(small: dict[str, Any], tmp_path: Path) -> None:
    what = study(small, "mirror", kill=KILL)
    _, site, _ = drilled(what, tmp_path, Drilled())
    recipe = recipes.takeover(what, "mirror", 0, nominal(topology(what, ["mirror"])))
    steps = [step for stage in recipe.stages for step in stage.steps]
    slowest = sum(each.timeout for each in steps if isinstance(each, Run))
    slowest += sum(each.seconds for each in steps if isinstance(each, Wait))
    (argv,) = (argv for _, argv in site.labs[0].log if argv[0] == PROGRAM and "--version" not in argv)
    (seconds,) = (float(word.removeprefix("--seconds=")) for word in argv if word.startswith("--seconds="))
    assert seconds > slowest + what.takeover.wait > 600


def test_the_client_gets_the_time_that_it_needs_to_end(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL would cost the history's end. What is due gets its turn within the patience, and then its answer."""
    waited = []
    monkeypatch.setattr(module, "NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(module, "stop", lambda proc, number, seconds=5.0: waited.append(seconds))
    drilled(study(small, "local", full=FULL), tmp_path, Drilled())
    assert waited == [2 * 30 + module.SPARE_SECONDS]


def test_a_fault_without_a_survivor_gets_its_time_to_show(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database on a file system without room writes on where it has made files before."""
    given = []

    class Seen(End):
        def __init__(self, after: float, wait: float, notice: float, timer: Timer) -> None:
            given.append(notice)
            super().__init__(after, wait, 0.0, timer)

    monkeypatch.setattr(module, "End", Seen)
    drilled(study(small, "local", full=FULL), tmp_path, Drilled())
    assert given == [NOTICE_SECONDS]


def test_a_node_that_is_taken_in_again_gets_all_its_wires(small: dict[str, Any], tmp_path: Path) -> None:
    """Also those of another workload's client, which no longer reaches it once the survivor is active."""
    small["nodes"]["d1"] = {"memory": "256MiB"}
    study(small, "mirror", kill=KILL)
    small["links"] |= {"far": {"between": ["a1", "d1"]}, "far2": {"between": ["a2", "d1"]}}
    small["workloads"]["tx"] = {"workload": "pgbench", "from": "d1", "time": "2s"}
    progress, site, _ = drilled(build(small), tmp_path, Drilled())
    assert progress.drills[0].took_over
    log = [argv for host, argv in site.labs[0].log if host == "a1"]
    booted = log.index(("boot",))

    def wires(part: list[Argv]) -> set[str]:
        return {argv[-1] for argv in part if argv[:3] == ("ip", "addr", "add")}

    assert wires(log[booted:]) == wires(log[:booted]) and len(wires(log)) >= 3


def test_a_survivor_that_dies_too_is_booted_to_read_the_ledger(small: dict[str, Any], tmp_path: Path) -> None:
    both = {"kill": KILL, "again": {"fault": "crash", "node": "peer", "at": "1s"}}
    progress, site, outcome = drilled(study(small, "mirror", **both), tmp_path, Drilled())
    (drill,) = progress.drills
    assert outcome.status == "ok" and drill.took_over
    log = site.labs[0].log
    assert {host for host, argv in log if argv == ("crash",)} == {"a1", "a2"}
    assert sorted(host for host, argv in log if argv == ("boot",)) == ["a1", "a2"]
    assert "node lost" not in drill.verdict.why
