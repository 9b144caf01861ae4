"""Clients that a drill would take along, rates and answers that their link has no time for."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.study.grid import topology
from tests.unit.drill_samples import RAW, TOP, VOLUME, study

# The active node and its survivor as clients; beat joins the two.
CRASH = {"fault": "crash", "at": "4s"}


def from_(client: str, **fields: Any) -> dict[str, Any]:
    return {"workload": "ledger", "from": client, **fields}


def refused(*drop: str, **changes: Any) -> str:
    with pytest.raises(StudyError) as caught:
        study(*drop, **changes)
    return f"{caught.value.path}: {caught.value.problem}"


# -- a client on a node that goes down ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        CRASH, {**CRASH, "node": "peer"}, {"fault": "link-cut", "link": "pair", "at": "5s"},
        {"fault": "power-cut", "at": "5s"},
    ],
)  # fmt: skip
def test_the_active_node_is_no_place_for_a_client(fault: dict[str, Any]) -> None:
    said = refused("local", workloads__writes=from_("a1"), faults={"it": fault})
    assert said.startswith("workloads.writes.from: a1 is the active one on stack mirror, and its history is lost")
    assert "give it a node of its own" in said


@pytest.mark.parametrize(
    "fault",
    [
        {**CRASH, "node": "peer"}, {**CRASH, "node": "a2"}, {"fault": "power-cut", "at": "5s"},
        {"fault": "freeze", "node": "a2", "at": "5s", "for": "1s"},
    ],
)  # fmt: skip
def test_no_fault_ends_the_client_with_the_peer(fault: dict[str, Any]) -> None:
    said = refused("local", workloads__writes=from_("a2"), faults={"it": fault})
    assert said.startswith("workloads.writes.from: a2 is hit by the fault it on stack mirror")


def test_the_survivor_may_be_the_client_of_a_fault_that_spares_it() -> None:
    assert study("local", workloads__writes=from_("a2"))
    # Where nothing breaks, a client may be anywhere.
    assert study("local", workloads__writes=from_("a1"), faults={})


def test_a_client_that_is_excluded_from_a_stack_does_not_go_down_with_it() -> None:
    workloads = {**RAW["workloads"], "inside": from_("a2")}
    faults = {"it": {**CRASH, "node": "a2"}}
    assert "workloads.inside.from: a2 is hit" in refused("local", workloads=workloads, faults=faults)
    # One is left, so that the fault is seen.
    assert study("local", workloads=workloads, faults=faults, exclude=[{"stack": "mirror", "workload": "inside"}])


# -- what the link has no time for --------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1_000_000, 10**9, 10**15])
def test_a_rate_beyond_all_nodes(rate: int) -> None:
    said = refused(workloads__writes=from_("c1", rate=rate))
    assert said.startswith(f"workloads.writes.rate: {rate}: give 999,999 a second at most")


def test_what_follows_an_outage_has_an_end() -> None:
    assert refused(workloads__writes=from_("c1", after="10000min")).startswith(
        "workloads.writes.after: 600000s: give"
    )
    assert study(workloads__writes=from_("c1", after="10min"))


def test_a_rate_beyond_the_connections_and_their_link() -> None:
    link = {"between": ["c1", "a1"], "rtt": "50ms"}
    said = refused(links__front=link, workloads__writes=from_("c1", rate=5000, connections=1))
    assert said.startswith("workloads.writes.rate: stack local cannot sustain 5000/s: the link front has an")
    assert "1 connections make 10 at most; give more connections or a lower rate" in said
    assert study(links__front=link, workloads__writes=from_("c1", rate=10, connections=1))
    assert study(links__front=link, workloads__writes=from_("c1", rate="max", connections=1))
    # At a level of a factor as well.
    said = refused(
        links__front=link,
        workloads__writes=from_("c1", rate=10, connections=1),
        factors={"rate": {"field": "workloads.writes.rate", "values": [5, 50]}},
    )
    assert said.startswith(
        "factors.rate: with the level 50: workloads.writes.rate: stack local cannot sustain 50/s"
    )


@pytest.mark.parametrize(
    ("rtt", "patience", "well"),
    [("100ms", "60ms", False), ("1s", "50ms", False), ("100ms", "200ms", False), ("100ms", "201ms", True)],
)
def test_a_patience_that_no_answer_meets(rtt: str, patience: str, well: bool) -> None:
    for link, hosts in (("front", ["c1", "a1"]), ("back", ["c1", "a2"])):
        changes = {f"links__{link}": {"between": hosts, "rtt": rtt}}
        writes = from_("c1", patience=patience)
        if well:
            assert study(**changes, workloads__writes=writes)
        else:
            said = refused(**changes, workloads__writes=writes)
            assert said.startswith("workloads.writes.patience: ") and f"the link {link} to {hosts[1]}" in said


def test_an_answer_may_be_early_where_the_round_trip_varies() -> None:
    link = {"between": ["c1", "a1"], "rtt": "100ms", "jitter": "20ms"}
    assert study(links__front=link, workloads__writes=from_("c1", patience="60ms"))


# -- who is asked -------------------------------------------------------------------------------------------------


def test_without_faults_nothing_takes_over_so_no_link_leads_there() -> None:
    links = {name: RAW["links"][name] for name in ("beat", "pair", "front")}
    assert "needs a link to a2, which may take over" in refused(links=links)
    calm = study(links=links, faults={})
    assert set(topology(calm, ["mirror"], ["writes"]).links) == {"pair", "front"}


CUT = {"fault": "link-cut", "link": "pair", "at": "5s"}


@pytest.mark.parametrize(
    "exclude",
    [
        [{"stack": "local"}],
        [{"stack": "local", "workload": "writes"}],
        [{"stack": "local", "rtt": ["1ms", "2ms"]}],
        [{"stack": "local", "rtt": "1ms"}, {"stack": "local", "rtt": "2ms"}],
    ],
)
def test_a_stack_of_which_no_drill_is_left_need_not_have_what_a_fault_breaks(
    exclude: list[dict[str, Any]],
) -> None:
    rtt = {"rtt": {"field": "links.pair.rtt", "values": ["1ms", "2ms"]}}
    assert "faults.cut.link: the stack local has no link 'pair'" in refused(faults={"cut": CUT}, factors=rtt)
    assert study(faults={"cut": CUT}, factors=rtt, exclude=exclude)


def test_a_stack_of_which_a_drill_is_left_at_one_level_must_have_it() -> None:
    rtt = {"rtt": {"field": "links.pair.rtt", "values": ["1ms", "2ms"]}}
    for exclude in ([{"stack": "local", "rtt": "1ms"}], [{"stack": "local", "workload": "tx"}]):
        assert "has no link 'pair'" in refused(faults={"cut": CUT}, factors=rtt, exclude=exclude)


def test_the_words_of_faults_are_no_names_of_nodes() -> None:
    layers = [VOLUME, *TOP]
    nodes: dict[str, Any] = {"active": {}, "c1": {}}
    links = {"front": {"between": ["c1", "active"]}}
    stacks = {"local": {"on": "active", "layers": layers}}
    assert refused(nodes=nodes, links=links, stacks=stacks).startswith("nodes.active: is a reserved name")
    assert study(nodes=nodes, links=links, stacks=stacks, faults={})
