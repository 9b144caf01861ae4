"""A drill that does not come to its end leaves no fault behind: what follows has the same nodes and links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner.events import AnyEvent, Counted
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeLab, FakeSite, Play
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads.ledger import PROGRAM
from tests.fake.answers import Answers
from tests.fake.clients import COUNT, go
from tests.fake.runs import Silent, io

LINE = (json.dumps(COUNT).encode() + b"\n", b"")
LOSSY = {"lossy": {"fault": "link-loss", "link": "cross", "loss": "5%", "at": "0s"}}
FROZEN = {"pause": {"fault": "freeze", "at": "0s"}}

Client = Callable[[], Result]


def dies() -> Result:
    """A client that says a few lines, the faults striking after the first, and ends much too early."""
    return Play(1, b"", b"ledger: gone\n", pieces=(LINE,) * 4, ends=True)


class Struck(Answers):
    """Hosts whose ledger client is one that a test gives; the link's second end has no netem of its own."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[0] == PROGRAM and "--version" not in argv:
            return self._client()
        return super().__call__(host, argv)


def drill(small: dict[str, Any], faults: dict[str, Any], **more: Any) -> Study:
    small["stacks"] = {"plain": small["stacks"]["local"]}
    small["links"] = {"cross": {"between": ["a1", "b1"], "rtt": "2ms"}}
    small["workloads"] = {"writes": {"workload": "ledger", "from": "b1"}, **more}
    small["faults"], small["baseline"] = faults, "plain"
    return build(small)


def at(lab: FakeLab, host: str, *words: str) -> list[int]:
    """Where in the lab's log a host was told commands with all of these words."""
    return [i for i, (who, argv) in enumerate(lab.log) if who == host and all(word in argv for word in words)]


def test_a_link_is_whole_again_after_its_client_died(small: dict[str, Any], tmp_path: Path) -> None:
    progress, site, bad = go(drill(small, LOSSY), tmp_path, Struck(dies))
    assert bad == 1 and "ledger: gone" in progress.outcomes["plain/writes"].error
    (lab,) = site.labs
    for host in ("a1", "b1"):
        (struck,) = at(lab, host, "replace", "loss")
        mended = [i for i in at(lab, host, "tc", "qdisc") if i > struck]
        assert mended and "loss" not in lab.log[mended[0]][1], f"{host} goes on losing packets"
    # It has no netem of its own, so that no undo of the link would have removed the fault's.
    assert "del" in lab.log[at(lab, "b1", "tc", "qdisc")[-1]][1]


def test_a_frozen_node_is_thawed_before_anything_is_asked_of_it(small: dict[str, Any], tmp_path: Path) -> None:
    _, site, bad = go(drill(small, FROZEN), tmp_path, Struck(dies))
    assert bad == 1
    log = site.labs[0].log
    frozen, thawed = log.index(("a1", ("freeze",))), log.index(("a1", ("thaw",)))
    assert not [argv for host, argv in log[frozen + 1 : thawed] if host == "a1"]
    assert [argv for host, argv in log[thawed + 1 :] if host == "a1"], "its stack is taken down"


def test_ctrl_c_in_a_drill_mends_and_stays_ctrl_c(small: dict[str, Any], tmp_path: Path) -> None:
    class Stopped(Silent):
        def __call__(self, event: AnyEvent) -> None:
            if isinstance(event, Counted) and event.count.acknowledged == 3:
                raise KeyboardInterrupt

    rows = (json.dumps({**COUNT, "acknowledged": number}).encode() + b"\n" for number in range(1, 9))
    client = Play(0, b"", b"", pieces=tuple((row, b"") for row in rows))
    study, site = drill(small, {**LOSSY, **FROZEN}), FakeSite(Struck(lambda: client))
    grid = cells(study)
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    with pytest.raises(KeyboardInterrupt):
        run_study(site, study, grid, folder, Stopped())
    (lab,) = site.labs
    assert ("a1", ("freeze",)) in lab.log and ("a1", ("thaw",)) in lab.log
    assert at(lab, "b1", "replace", "loss") and at(lab, "b1", "tc", "del")


def test_a_fault_that_strikes_half_way_is_mended_as_a_whole(small: dict[str, Any], tmp_path: Path) -> None:
    class Stopped(Struck):
        def __call__(self, host: str, argv: Argv) -> Result:
            if "loss" in argv:
                raise KeyboardInterrupt
            return super().__call__(host, argv)

    study, site = drill(small, LOSSY), FakeSite(Stopped(dies))
    grid = cells(study)
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    with pytest.raises(KeyboardInterrupt):
        run_study(site, study, grid, folder, Silent())
    assert at(site.labs[0], "b1", "tc", "del")


def test_what_cannot_be_mended_costs_the_nodes_and_not_the_first_error(
    small: dict[str, Any], tmp_path: Path
) -> None:
    class Stuck(Struck):
        def __call__(self, host: str, argv: Argv) -> Result:
            # Healing the end without a netem of its own.
            if argv[:3] == ("tc", "qdisc", "replace") and "loss" not in argv and host == "b1":
                return Result(2, b"", b"RTNETLINK: busy\n")
            return super().__call__(host, argv)

    study = drill(small, {**LOSSY, **FROZEN}, io=io(small))
    progress, site, bad = go(study, tmp_path, Stuck(dies))
    assert "ledger: gone" in progress.outcomes["plain/writes"].error
    assert any("could not be mended" in each and "busy" in each for each in progress.warnings)
    assert ("a1", ("thaw",)) in site.labs[0].log, "one that cannot be healed does not keep the others from it"
    assert bad == 1 and progress.outcomes["plain/io"].status == "ok"
    assert len(site.labs) == 2 and not at(site.labs[0], "a1", "--output-format=json+"), "not over a lossy link"
