"""Which studies have drills that can be carried out: all that is refused is refused before anything starts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.study.grid import cells, is_drill, layouts, topology
from blocklab.study.read import build
from blocklab.study.types import Study

VOLUME = {"layer": "volume", "size": "384MiB"}
TOP: list[dict[str, Any]] = [{"layer": "ext4"}, {"layer": "postgres"}]
RAW: dict[str, Any] = {
    "blocklab": 1,
    "name": "drills",
    "question": "What is lost?",
    "nodes": {"a1": {}, "a2": {}, "c1": {}},
    "links": {
        "beat": {"between": ["a1", "a2"]},
        "pair": {"between": ["a1", "a2"], "rtt": "2ms"},
        "front": {"between": ["c1", "a1"]},
        "back": {"between": ["c1", "a2"]},
    },
    "stacks": {
        "local": {"on": "a1", "layers": [VOLUME, *TOP]},
        "mirror": {"on": "a1", "layers": [VOLUME, {"layer": "drbd", "peer": "a2", "link": "pair"}, *TOP]},
    },
    "workloads": {
        "writes": {"load": "ledger", "from": "c1"},
        "tx": {"load": "pgbench", "time": "5s"},
    },
    "faults": {"kill": {"fault": "crash", "at": "4s..8s"}},
}


def study(*drop: str, **changes: Any) -> Study:
    raw = copy.deepcopy(RAW)
    for path, value in changes.items():
        at: Any = raw
        *way, last = path.split("__")
        for name in way:
            at = at.setdefault(name, {})
        at[last] = value
    for name in drop:
        raw["stacks"].pop(name)
    return build(raw)


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
        ({"workloads": {"tx": {"load": "pgbench", "time": "5s"}}}, "faults", "no load would see them"),
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
        ({"workloads__writes": {"load": "ledger"}}, "workloads.writes.from", "survive"),
        ({"workloads__writes": {"load": "ledger", "from": "c1", "rate": 0}}, "workloads.writes.rate", "at least"),
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
