"""What one workload's data, a lost node or a second measurement that fails may cost: that, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import NodeLost
from blocklab.model.host import Result
from blocklab.model.plan import Argv, Port, Run, Step
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeLab, FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.kinds import registered
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads.pgbench import Pgbench
from tests.fake.answers import Answers
from tests.fake.runs import Silent, go, io

LOAD = ("load-the-data",)


class PgbenchWithData(Pgbench, frozen=True, tag="pgbench_with_data"):
    """pgbench as a workload with data of its own."""

    def data(self, port: Port) -> tuple[Step, ...]:
        return (Run(port.host, (*LOAD, str(self.scale))),)


@pytest.fixture
def mixed(small: dict[str, Any]) -> Iterator[Study]:
    """A workload with data of its own before one without, on a stack at two distances."""
    tx = {**small["workloads"]["tx"], "workload": "pgbench_with_data"}
    small["workloads"] = {"tx": tx, "more": {**tx, "clients": 4}, "other": {**tx, "scale": 2}, "io": io(small)}
    small["stacks"] = {"mirror": small["stacks"]["mirror"]}
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]}}
    small["baseline"] = "mirror"
    with registered(PgbenchWithData):
        yield build(small)


class Loads(Answers):
    """Hosts on which loading some data fails; ``loaded`` is how often which was tried."""

    def __init__(self, *errors: Result | NodeLost) -> None:
        super().__init__()
        self._errors = list(errors)
        self.loaded: list[str] = []

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[0] == LOAD[0]:
            self.loaded.append(argv[1])
            if argv[1] == "1" and self._errors:
                error = self._errors.pop(0)
                if isinstance(error, NodeLost):
                    raise error
                return error
        return super().__call__(host, argv)


FULL = Result(1, b"", b"no space left on the device\n")


def test_data_that_cannot_be_loaded_cost_only_their_loads_and_are_tried_once(mixed: Study, tmp_path: Path) -> None:
    answers = Loads(FULL, FULL, FULL, FULL)
    folder, progress, _, _ = go(mixed, tmp_path, answers)
    # Each of the two sets of data once, though four cells need the first.
    assert sorted(answers.loaded).count("1") == 1
    for rtt in ("0.5ms", "2ms"):
        for workload in ("tx", "more"):
            outcome = progress.outcomes[f"mirror/{workload} rtt={rtt}"]
            assert outcome.status == "failed" and "no space left" in outcome.error
        assert progress.outcomes[f"mirror/io rtt={rtt}"].status == "ok"
        assert "no space left" not in progress.outcomes[f"mirror/other rtt={rtt}"].error
    assert len(folder.runs()) == 8 and "2" in answers.loaded


def test_a_node_that_is_lost_while_data_are_loaded_gets_a_second_try(mixed: Study, tmp_path: Path) -> None:
    lost = NodeLost("a1", "hung")
    answers = Loads(lost)
    _, progress, _, _ = go(mixed, tmp_path, answers)
    assert answers.loaded.count("1") >= 2
    assert "hung" in progress.outcomes["mirror/tx rtt=0.5ms"].error
    assert "hung" not in progress.outcomes["mirror/more rtt=0.5ms"].error
    answers = Loads(*[lost] * 9)
    _, progress, _, _ = go(mixed, tmp_path / "always", answers)
    assert answers.loaded.count("1") == 2
    assert progress.outcomes["mirror/io rtt=2ms"].status == "ok"


def test_a_stack_that_cannot_be_built_is_tried_once_whatever_its_loads_need(mixed: Study, tmp_path: Path) -> None:
    answers = Loads()
    answers.override["mkfs.ext4"] = Result(1, b"", b"mkfs.ext4: bad\n")
    folder, _, bad, site = go(mixed, tmp_path, answers)
    assert bad == len(folder.runs()) == 8 and len(site.labs) == 2
    assert {"mkfs.ext4: bad" in run.outcome.error for run in folder.runs()} == {True}


def test_a_good_run_stays_where_measuring_it_again_never_began(small: dict[str, Any], tmp_path: Path) -> None:
    small["workloads"] = {"io": io(small)}
    study = build(small)
    folder, *_ = go(study, tmp_path, Answers())
    before = [run.outcome for run in folder.runs()]
    broken = Answers()
    broken.override["mkfs.ext4"] = Result(1, b"", b"mkfs.ext4: bad\n")
    _, progress, bad, _ = go(study, tmp_path, broken)
    local, mirror = folder.runs()
    assert bad == 1 and local.outcome != before[0], "what could be measured again replaces the old run"
    assert mirror.outcome == before[1] and mirror.values()
    assert any("mirror/io" in each and "earlier run is kept" in each for each in progress.warnings)
    assert "mkfs.ext4: bad" in progress.outcomes["mirror/io"].error


def test_a_good_run_stays_where_measuring_it_again_failed(small: dict[str, Any], tmp_path: Path) -> None:
    small["workloads"] = {"io": io(small)}
    study = build(small)
    folder, *_ = go(study, tmp_path, Answers())
    before = [run.outcome for run in folder.runs()]
    broken = Answers()
    broken.override["fio"] = Result(1, b"", b"fio: killed\n")
    _, progress, bad, _ = go(study, tmp_path, broken)
    assert bad == 2 and [run.outcome for run in folder.runs()] == before
    assert sum("it failed this time, so the earlier run is kept" in each for each in progress.warnings) == 2
    assert not [each for each in folder.cells.iterdir() if each.name.startswith(".")]


def test_nothing_is_asked_of_nodes_that_were_ended(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(self: FakeLab) -> None:
        self.log.append(("", ("close",)))

    monkeypatch.setattr(FakeLab, "close", close)
    small["workloads"] = {"io": io(small)}
    study = build(small)
    answers, lost = Answers(), NodeLost("a2", "the kernel panicked")

    def dies(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            raise lost
        return answers(host, argv)

    grid, progress, site = cells(study), Silent(), FakeSite(dies)
    folder = StudyFolder.create(tmp_path, Manifest(study, grid))
    assert run_study(site, study, grid, folder, progress) == 2
    assert [lab.log.index(("", ("close",))) - len(lab.log) for lab in site.labs] == [-1, -1]
    assert not any("undo" in each for each in progress.warnings)


def test_nodes_that_were_started_for_nothing_are_wired_by_the_first_build(mixed: Study, tmp_path: Path) -> None:
    """A layout all of whose workloads are given up builds nothing on its nodes, which the next one gets."""
    by = {cell.label: cell for cell in cells(mixed)}
    tried, given_up = by["mirror/tx rtt=0.5ms"], by["mirror/tx rtt=2ms"]
    other = msgspec.structs.replace(by["mirror/io rtt=2ms"], repeat=1, key="a" * 12)
    folder = StudyFolder.create(tmp_path, Manifest(mixed, (tried, given_up, other)))
    progress, site = Silent(), FakeSite(Loads(FULL, FULL))
    run_study(site, mixed, [tried, given_up, other], folder, progress)
    assert progress.outcomes[given_up.label].status == "failed" and len(site.labs) == 2
    assert [argv for host, argv in site.labs[1].log if host == "a1" and argv[:2] == ("ip", "addr")]
