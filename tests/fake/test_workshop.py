"""Layouts one after the other: when nodes boot, when volumes are copied, what a cell's record says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner.engine import Engine
from blocklab.sites.fake import FakeSite
from blocklab.study.kinds import registered
from blocklab.study.read import build
from tests.fake.answers import LOAD, Answers, FioWithData
from tests.fake.runs import go, io


@pytest.fixture
def data(sweep: dict[str, Any]) -> Iterator[None]:
    """The sweep's workload has data."""
    sweep["workloads"]["io"]["workload"] = "fio_with_data"
    with registered(FioWithData):
        yield


@pytest.fixture
def sweep(small: dict[str, Any]) -> dict[str, Any]:
    small["workloads"] = {"io": io(small)}
    small["factors"] = {
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]},
        "depth": {"field": "workloads.io.options.iodepth", "values": [1, 8]},
    }
    return small


def story(site: FakeSite, *, refills: bool = False) -> Iterator[str]:
    """The events of all labs that matter here, in order; ``refills``: with those of the volumes' bursts."""
    for number, lab in enumerate(site.labs):
        yield f"boot {number}"
        for host, argv in lab.log:
            if argv[0] == "refill":
                yield from ["refill"] * refills
            elif host == "":
                yield argv[0] if argv[1] else "empty"
            elif argv[0] in ("mkfs.ext4", "mkfs.xfs", "umount") or argv == LOAD:
                yield argv[0]
            elif "--output-format=json+" in argv:
                yield "measure"
        yield "end"
        assert lab.closed


def test_layouts_of_the_same_hardware_share_nodes(sweep: dict[str, Any], tmp_path: Path) -> None:
    folder, _, bad, site = go(build(sweep), tmp_path, Answers())
    assert bad == 0
    assert list(story(site)) == [
        "boot 0", "mkfs.xfs", "measure", "measure", "umount", "end",
        # The second round trip is a new build on the same nodes, on volumes that are empty again.
        "boot 1", "mkfs.ext4", "measure", "measure", "umount",
        "empty", "mkfs.ext4", "measure", "measure", "umount",
        "end",
    ]  # fmt: skip
    for run in folder.runs():
        wires = [record for record in run.records if record.argv[:4] == ("ip", "link", "set", "vec0")]
        assert bool(wires) == (run.cell.stack == "mirror"), run.cell.label


@pytest.mark.usefixtures("data")
def test_data_are_loaded_once_and_restored_before_each_load(sweep: dict[str, Any], tmp_path: Path) -> None:
    folder, _, bad, site = go(build(sweep), tmp_path, Answers())
    assert bad == 0
    again = ["restore", "measure", "umount"]
    assert list(story(site)) == [
        "boot 0", "mkfs.xfs", "load-the-data", "umount", "save", *again, *again, "end",
        # A mirror at another distance has the same on its volumes: its data are not loaded again.
        "boot 1", "mkfs.ext4", "load-the-data", "umount", "save", *again * 4, "end",
    ]  # fmt: skip
    for run in folder.runs():
        programs = [record.argv[0] for record in run.records]
        assert programs.count("load-the-data") == 1, (
            f"{run.cell.label}: its record must say where the data come from"
        )


@pytest.mark.usefixtures("data")
def test_each_load_finds_its_volumes_with_their_whole_burst(sweep: dict[str, Any], tmp_path: Path) -> None:
    """Building, loading data and the workload before would leave less of it to whoever happens to come later."""
    del sweep["stacks"]["mirror"], sweep["factors"]["rtt"]
    _, _, bad, site = go(build(sweep), tmp_path, Answers())
    assert bad == 0
    assert list(story(site, refills=True)) == [
        "boot 0", "mkfs.xfs", "load-the-data", "umount", "save",
        *["restore", "refill", "measure", "umount"] * 2, "end",
    ]  # fmt: skip


@pytest.mark.usefixtures("data")
def test_other_data_are_another_copy(sweep: dict[str, Any], tmp_path: Path) -> None:
    sweep["factors"] = {"mkfs": {"field": "stacks.local.layers.xfs.mkfs", "values": {"a": [], "b": ["-K"]}}}
    del sweep["stacks"]["mirror"]
    _, _, bad, site = go(build(sweep), tmp_path, Answers())
    assert bad == 0
    made = ["mkfs.xfs", "load-the-data", "umount", "save", "restore", "measure", "umount"]
    assert list(story(site)) == ["boot 0", *made, "empty", *made, "end"]


@pytest.mark.usefixtures("data")
def test_volumes_that_are_still_in_use_are_not_copied(sweep: dict[str, Any], tmp_path: Path) -> None:
    answers = Answers()

    def busy(host: str, argv: Argv) -> Result:
        return Result(32, b"", b"target is busy") if argv[0] == "umount" else answers(host, argv)

    folder, _, bad, site = go(build(sweep), tmp_path, busy)
    assert bad == len(folder.runs()) == 6
    assert "save" not in list(story(site))
    assert {"still in use" in run.outcome.error for run in folder.runs()} == {True}


def test_a_lost_node_costs_its_cell_and_the_rest_gets_new_nodes(sweep: dict[str, Any], tmp_path: Path) -> None:
    from blocklab.errors import NodeLost

    answers, seen = Answers(), []

    def dies(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            seen.append(argv)
            if len(seen) == 3:
                raise NodeLost(host, "the kernel panicked")
        return answers(host, argv)

    folder, _, bad, site = go(build(sweep), tmp_path, dies)
    assert bad == 1 and len(folder.runs()) == 6
    assert [event for event in story(site) if event.startswith("boot")] == ["boot 0", "boot 1", "boot 2"]


@pytest.mark.usefixtures("data")
def test_a_rebuild_that_fails_once_costs_no_cell(sweep: dict[str, Any], tmp_path: Path) -> None:
    """Between two workloads the stack is taken down and built again over its data: that may go wrong by chance."""
    from blocklab.errors import NodeLost

    answers, seen = Answers(), []

    def dies(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            seen.append("measured")
        elif argv[0] == "mount" and seen == ["measured"]:
            seen.append("lost")
            raise NodeLost(host, "the kernel panicked")
        return answers(host, argv)

    folder, progress, bad, site = go(build(sweep), tmp_path, dies)
    assert bad == 0 and {run.outcome.status for run in folder.runs()} == {"ok"} and len(folder.runs()) == 6
    assert "lost" in seen and len(site.labs) == 3
    assert any("the kernel panicked" in text and "built again" in text for text in progress.warnings)


@pytest.mark.usefixtures("data")
def test_a_rebuild_that_always_fails_is_tried_twice(sweep: dict[str, Any], tmp_path: Path) -> None:
    answers, seen = Answers(), []

    def stuck(host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            seen.append("measured")
        busy = argv[0] == "umount" and seen
        return Result(32, b"", b"target is busy") if busy else answers(host, argv)

    sweep["factors"]["depth"]["values"] = [1, 2, 4, 8, 16]
    del sweep["factors"]["rtt"], sweep["stacks"]["mirror"]
    folder, _, bad, site = go(build(sweep), tmp_path, stuck)
    statuses = [run.outcome.status for run in folder.runs()]
    assert sorted(statuses) == ["failed"] * 4 + ["ok"] and bad == 4
    # The data are not loaded again and again.
    assert list(story(site)).count("load-the-data") == 2


@pytest.mark.usefixtures("data")
def test_a_warning_of_before_does_not_mean_that_volumes_are_in_use(
    sweep: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A knob that cannot be read is a warning of the stack while it stands."""
    carry_out = Engine.carry_out

    def warns(self: Engine, steps: Any, part: str) -> None:
        carry_out(self, steps, part)
        self.warnings.append("cannot read knob")

    monkeypatch.setattr(Engine, "carry_out", warns)
    folder, _, bad, _ = go(build(sweep), tmp_path, Answers())
    assert bad == 0 and {run.outcome.status for run in folder.runs()} == {"ok"}
