"""What a study needs of its site: refused by name where the site lacks it, done without where it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import SetupError
from blocklab.model.plan import Power as PowerStep
from blocklab.model.site import EmulatedLinks, EmulatedVolumes, Power, Refill, Room, Snapshots, offered, words
from blocklab.runner.engine import Engine
from blocklab.runner.run import run_study
from blocklab.sites.fake import OFFERS, FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.kinds import registered
from blocklab.study.needs import site_problems
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.fake.answers import LOAD, Answers, FioWithData
from tests.fake.drilled import KILL
from tests.fake.drilled import study as drill
from tests.fake.labs import lab
from tests.fake.runs import Silent, io


def lacking(study: Study, *without: type) -> dict[str, str]:
    return dict(site_problems(study, cells(study), OFFERS - set(without)))


def test_a_link_with_a_delay_needs_emulated_links(small: dict[str, Any]) -> None:
    found = lacking(build(small), EmulatedLinks)
    assert list(found) == ["links.zone.rtt"]
    assert "its own rtt" in found["links.zone.rtt"] and "emulated links" in found["links.zone.rtt"]
    small["links"]["zone"].pop("rtt")
    assert lacking(build(small), EmulatedLinks) == {}


def test_a_volume_with_a_cap_needs_emulated_volumes(small: dict[str, Any]) -> None:
    assert lacking(build(small), EmulatedVolumes) == {}
    small["stacks"]["local"]["layers"][0]["iops"] = 3000
    assert list(lacking(build(small), EmulatedVolumes)) == ["stacks.local.layers[0]"]


def test_a_crash_and_fencing_need_power(small: dict[str, Any]) -> None:
    study = drill(small, "mirror", kill=KILL)
    assert list(lacking(study, Power)) == ["faults.kill", "takeover.fence"]
    assert lacking(study) == {}


@pytest.mark.parametrize(
    "fault", [{"fault": "link-cut"}, {"fault": "link-loss"}, {"fault": "link-slow", "rtt": "50ms"}]
)
def test_a_fault_of_a_link_needs_emulated_links(small: dict[str, Any], fault: dict[str, Any]) -> None:
    study = drill(small, "mirror", far={**fault, "link": "zone", "at": "1s"})
    assert "faults.far" in lacking(study, EmulatedLinks) and lacking(study) == {}


def test_a_lab_without_a_capability_says_which(small: dict[str, Any]) -> None:
    for capability in (Power, Snapshots, Refill):
        site = FakeSite(without=[capability])
        with pytest.raises(SetupError, match=words(capability)):
            offered(lab("a1", site=site), capability)
    engine = Engine(lab("a1", site=FakeSite(without=[Power])))
    with pytest.raises(SetupError, match="no power"):
        engine.carry_out([PowerStep("a1", "crash")], "fault")


def story(small: dict[str, Any], tmp_path: Path, *without: type) -> list[str]:
    """What happens to nodes and volumes in a study with data, on a site that lacks something."""
    del small["stacks"]["mirror"]
    small["workloads"] = {"io": {**io(small), "workload": "fio_with_data"}}
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 8]}}
    site = FakeSite(Answers(), without=without)
    with registered(FioWithData):
        study = build(small)
        folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
        assert run_study(site, study, cells(study), folder, Silent()) == 0
    events = []
    for each in site.labs:
        assert each.closed
        events.append("boot")
        for _, argv in each.log:
            if argv[0] in ("save", "restore", "refill", "mkfs.xfs") or argv == LOAD:
                events.append("empty" if argv == ("restore", "") else argv[0])
            elif "--output-format=json+" in argv:
                events.append("measure")
    return events


def test_without_snapshots_data_are_loaded_on_new_nodes_each_time(small: dict[str, Any], tmp_path: Path) -> None:
    each = ["boot", "mkfs.xfs", "load-the-data", "refill", "measure"]
    assert story(small, tmp_path, Snapshots) == each * 2


def test_with_all_capabilities_they_are_loaded_once(small: dict[str, Any], tmp_path: Path) -> None:
    first = ["boot", "mkfs.xfs", "load-the-data", "save"]
    assert story(small, tmp_path) == [*first, *["restore", "refill", "measure"] * 2]


def test_volumes_without_a_burst_are_not_refilled(small: dict[str, Any], tmp_path: Path) -> None:
    assert "refill" not in story(small, tmp_path, Refill, Room)
