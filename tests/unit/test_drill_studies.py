"""Which studies have drills that can be carried out: all that is refused is refused before anything starts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from blocklab.errors import StudyError
from blocklab.faults.base import FaultBase
from blocklab.model.fault import Scene
from blocklab.model.plan import Run, Step
from blocklab.model.workload import Drilled
from blocklab.study.drill_phases import Write, strikes_of, writing
from blocklab.study.drills import nominal, scene
from blocklab.study.grid import cells, is_drill, layouts, plan_stack, topology
from blocklab.study.kinds import registered
from tests.unit.drill_samples import TOP, VOLUME, study


def test_only_ledgers_are_drills_and_faults_are_in_their_keys_alone() -> None:
    plain, other = study(), study(faults__kill={"fault": "crash", "at": "5s"})
    assert is_drill(plain, "writes") and not is_drill(plain, "tx")
    keys = [{(cell.stack, cell.workload): cell.key for cell in cells(each)} for each in (plain, other)]
    for at in keys[0]:
        assert (keys[0][at] == keys[1][at]) == (at[1] == "tx"), at
    # Both loads of a stack stand on the same build.
    assert len(layouts(plain, cells(plain))) == 2


def test_a_drill_has_the_links_that_its_client_and_its_monitor_need() -> None:
    assert set(topology(study(), ["mirror"]).links) == {"beat", "pair", "front", "back"}
    assert set(topology(study(), ["local"]).links) == {"front"}
    assert set(topology(study(faults={}), ["mirror"], ["tx"]).links) == {"pair"}


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"workloads": {"tx": {"workload": "pgbench", "time": "5s"}}}, "faults", "no workload uses faults"),
        ({"faults__cut": {"fault": "link-cut", "link": "pair", "at": "5s"}}, "faults.cut.link", "no link 'pair'"),
        ({"faults__cut": {"fault": "link-cut", "link": "nope", "at": "5s"}}, "faults.cut.link", "nope"),
        ({"faults__bad": {"fault": "volume-error", "at": "5s"}}, "faults.bad.node", "fragile"),
        ({"faults__bad": {"fault": "crash", "node": "b9", "at": "5s"}}, "faults.bad.node", "b9"),
        ({"faults__bad": {"fault": "crash", "node": "peer", "at": "5s"}}, "faults.bad.node", "peer"),
        ({"faults__bad": {"fault": "crash"}}, "faults.bad.at", "when does it strike"),
        ({"faults__bad": {"fault": "crash", "at": "8s..4s"}}, "faults.bad.at", "earlier"),
        ({"faults__bad": {"fault": "crash", "at": "soon"}}, "faults.bad.at", "soon"),
        ({"takeover": {"misses": 0}}, "takeover.misses", "1 to 100"),
        ({"takeover": {"interval": "1ms"}}, "takeover.interval", "20ms"),
        ({"links__beat__rtt": "100ms", "takeover": {"interval": "20ms"}}, "takeover.misses", "link beat, which"),
        ({"links__beat__rtt": "60ms", "takeover": {"interval": "20ms"}}, "takeover.misses", "rtt of 0.06s; give"),
        ({"workloads__writes": {"workload": "ledger", "from": "c1", "patience": "2min"}},
         "workloads.writes.patience", "to 60s"),
        ({"workloads__writes": {"workload": "ledger"}}, "workloads.writes.from", "survive"),
        ({"workloads__writes": {"workload": "ledger", "from": "c1", "rate": 0}},
         "workloads.writes.rate", "at least"),
        ({"links__back": {"between": ["c1", "a1"]}}, "workloads.writes.from", "a2, which may take over"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out_is_refused(changes: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(**changes)
    assert caught.value.path == path and said in caught.value.problem


def test_two_writers_on_a_shared_disk_are_refused() -> None:
    layers = [VOLUME, {"layer": "shared", "peer": "a2"}, *TOP]
    stacks = {"disk": {"on": "a1", "layers": layers}}
    assert study(stacks=stacks)
    with pytest.raises(StudyError, match="two nodes would write to one file system"):
        study(stacks=stacks, takeover={"fence": False})


def test_a_shared_disk_needs_a_link_for_the_monitor() -> None:
    layers = [VOLUME, {"layer": "shared", "peer": "a2"}, *TOP]
    links = {"front": {"between": ["c1", "a1"]}, "back": {"between": ["c1", "a2"]}}
    with pytest.raises(StudyError, match="over which the monitor pings"):
        study(stacks={"disk": {"on": "a1", "layers": layers}}, links=links)


def test_the_monitor_has_to_have_time_for_an_answer_at_every_level() -> None:
    assert study(links__beat__rtt="59ms", takeover={"interval": "20ms"})
    assert study("mirror", links__beat__rtt="100ms", takeover={"interval": "20ms"}), "nobody pings"
    with pytest.raises(StudyError, match=r"with the level 700ms: takeover.misses: 3 times 0.2s are over"):
        study(factors={"rtt": {"field": "links.beat.rtt", "values": ["1ms", "700ms"]}})


def test_the_monitor_follows_the_mirror_by_the_name_that_it_has_on_its_hosts() -> None:
    """On hosts of one's own all names have a prefix."""
    what = study()
    workload = what.workloads["writes"]
    assert isinstance(workload, Drilled)
    ground = msgspec.structs.replace(nominal(topology(what, ["mirror"])), prefix="blocklab-")
    write = writing(what, "mirror", workload, ground, ())[-1]
    assert isinstance(write, Write)
    ((monitor,),) = (succession.monitors for succession in write.successions)
    (sign,) = json.loads(monitor.argv[-1])
    assert (monitor.host, monitor.of) == ("a2", "a1")
    assert sign["argv"] == ["drbdsetup", "events2", "blocklab-mirror"]
    up = [step.argv for step in plan_stack(what, "mirror", 0, ground).steps if isinstance(step, Run)]
    assert ("drbdadm", "up", "blocklab-mirror") in up


FROZEN = {"fault": "freeze", "node": "peer", "at": "5s"}


@pytest.mark.parametrize(
    ("pause", "other"),
    [
        (FROZEN, {"fault": "link-cut", "link": "pair", "at": "8s"}),
        (FROZEN, {"fault": "link-cut", "link": "pair", "at": "3s..6s"}),
        (FROZEN, {"fault": "link-cut", "link": "pair", "at": "1s", "for": "5s"}),
        (FROZEN, {"fault": "link-cut", "link": "pair", "when": "settled"}),
        ({**FROZEN, "node": "active"}, {"fault": "volume-full", "at": "8s"}),
        (FROZEN, {"fault": "link-cut", "link": "pair", "at": "5s"}),
    ],
)
def test_nothing_can_be_done_on_a_node_that_is_frozen_to_the_end(
    pause: dict[str, Any], other: dict[str, Any]
) -> None:
    with pytest.raises(StudyError) as caught:
        study("local", faults={"pause": pause, "other": other})
    assert (
        caught.value.path == "faults.pause.for" and "other may strike or be mended there" in caught.value.problem
    )
    # It waits for the thaw.
    assert study("local", faults={"pause": {**pause, "for": "9s"}, "other": other})


@pytest.mark.parametrize(
    "other",
    [
        {"fault": "crash", "node": "peer", "at": "8s"},
        {"fault": "volume-full", "at": "8s"},
        {"fault": "link-cut", "link": "pair", "at": "1s"},
        {"fault": "link-cut", "link": "pair", "at": "1s", "for": "2s"},
        {"fault": "link-cut", "link": "pair", "direction": "from active", "at": "8s"},
    ],
)
def test_what_a_frozen_node_is_not_needed_for_may_overlap(other: dict[str, Any]) -> None:
    assert study("local", faults={"other": other, "pause": FROZEN})


BROKEN = {"fault": "volume-error", "at": "3s", "for": "3s"}
DARK = {"fault": "power-cut", "at": "10s"}


@pytest.mark.parametrize("kind", ["drbd", "net-mirror"])
def test_a_power_cut_after_the_active_side_was_given_up_is_refused(kind: str) -> None:
    """The stack would start from the side that lacks what was written since."""
    mirror = {"layer": kind, "peer": "a2", "link": "pair"}
    stacks = {"s": {"on": "a1", "layers": [VOLUME, {"layer": "fragile"}, mirror, *TOP]}}
    with pytest.raises(StudyError) as caught:
        study(stacks=stacks, faults={"broken": BROKEN, "dark": DARK})
    assert caught.value.path == "faults.dark.at" and "would be after broken" in caught.value.problem
    for broken, dark in (
        ({**BROKEN, "node": "peer"}, DARK), (BROKEN, {**DARK, "at": "2s"}),
        ({"fault": "volume-stall", "at": "3s", "for": "3s"}, DARK),
    ):  # fmt: skip
        assert study(stacks=stacks, faults={"broken": broken, "dark": dark})


def test_a_stack_of_one_copy_may_lose_its_power_after_its_volume() -> None:
    for layer in ([], [{"layer": "shared", "peer": "a2"}]):
        layers = [VOLUME, *layer, {"layer": "fragile"}, *TOP]
        assert study(stacks={"s": {"on": "a1", "layers": layers}}, faults={"broken": BROKEN, "dark": DARK})


class Unplug(FaultBase, frozen=True, tag="unplug"):
    """A fault that the package does not know, as CONTRIBUTING.md says."""

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        return (Run(scene.active, ("unplug", scene.stack)),)


def test_a_fault_of_ones_own_strikes_once_it_is_registered() -> None:
    faults = {"pull": {"fault": "unplug", "at": "5s"}}
    with pytest.raises(StudyError, match="invalid value 'unplug'"):
        study(faults=faults)
    with registered(Unplug):
        made = study(faults=faults)
        here = scene(made, "mirror", 0, nominal(topology(made, ["mirror"])))
    (pull,) = strikes_of(made.faults, here)
    assert pull.strike.steps == (Run("a1", ("unplug", "mirror")),)
    # It has no way to be mended, so it stays.
    assert pull.mend.steps == () and pull.mend_there == {}
