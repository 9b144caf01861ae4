"""A factor over the node that a workload runs on: each cell runs where its level says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.model.ground import Ground
from blocklab.model.plan import Port
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import cells, layouts, port_for, topology
from blocklab.study.read import build
from blocklab.workloads import Pgbench
from tests.fake.answers import Answers
from tests.fake.runs import go, io

WHERE = {"own": "", "remote": "b1", "near": "a2"}


@pytest.fixture
def swept(small: dict[str, Any]) -> dict[str, Any]:
    """One workload on the database's own node and on two others; a second workload that stays at home."""
    small["workloads"] = {"tx": {"workload": "pgbench", "time": "1s"}, "io": io(small)}
    small["factors"] = {"client": {"field": "workloads.tx.from", "values": WHERE}}
    small["stacks"] = {"local": small["stacks"]["local"]}
    # The fake hosts' answers know no rate and no large frames, and what is not in force is not measured.
    small["links"]["cross"] = {"between": ["a1", "b1"]}
    return small


def pgbench(site: FakeSite) -> set[tuple[frozenset[str], str, str]]:
    """(the lab's nodes, the host that ran pgbench's load, the server that it went to)."""
    return {
        (frozenset(lab.hosts), host, argv[-1].partition("host=")[2])
        for lab in site.labs
        for host, argv in lab.log
        if "pgbench" in argv and any(word.startswith("--time") for word in argv)
    }


def test_each_level_of_a_client_runs_on_its_own_node_over_its_link(swept: dict[str, Any], tmp_path: Path) -> None:
    _, _, _, site = go(build(swept), tmp_path, Answers())
    ran = pgbench(site)
    assert {(host, len(nodes)) for nodes, host, _ in ran} == {("a1", 1), ("b1", 2), ("a2", 2)}
    servers = {host: where for _, host, where in ran}
    # By the network, not by the socket of a server that the node does not have.
    assert (
        servers["a1"].startswith("/run/")
        and servers["b1"].startswith("10.77.")
        and servers["a2"].startswith("10.77.")
    )
    assert all(host in nodes for nodes, host, _ in ran)


def test_loads_that_stay_at_home_share_the_build_of_the_file(swept: dict[str, Any]) -> None:
    study = build(swept)
    found = layouts(study, cells(study))
    assert [sorted(topology(each.study, [each.stack]).nodes) for each in found] == [
        ["a1"], ["a1"], ["a1", "b1"], ["a1", "a2"],
    ]  # fmt: skip
    for layout in found:
        shape = topology(layout.study, [layout.stack])
        for cell in layout.cells:
            assert set(cell.spec["nodes"]) <= set(shape.nodes) and set(cell.spec["links"]) <= set(shape.links)


def test_a_whole_load_as_a_level_has_its_client_too(swept: dict[str, Any]) -> None:
    tx = swept["workloads"]["tx"]
    values = {"own": {"workloads.tx": tx}, "remote": {"workloads.tx": {**tx, "from": "b1"}}}
    swept["factors"] = {"client": {"values": values}}
    study = build(swept)
    remote = next(each for each in layouts(study, cells(study)) if each.cells[0].levels == {"client": "remote"})
    assert set(topology(remote.study, ["local"]).nodes) == {"a1", "b1"}


def test_levels_of_other_fields_of_a_load_share_one_build(swept: dict[str, Any]) -> None:
    swept["factors"] = {"clients": {"field": "workloads.tx.clients", "values": [1, 2, 4]}}
    study = build(swept)
    assert len(cells(study)) == 4 and len(layouts(study, cells(study))) == 1


def test_a_client_without_a_link_is_an_error_and_never_the_own_socket() -> None:
    ports = (Port("a1", "postgresql", "postgresql://postgres@/bench?host=/run/x&port=5432"),)
    workload = Pgbench(client="b1")
    with pytest.raises(StudyError, match="is to run on b1, but no link joins it to a1"):
        port_for(workload, ports, Ground({}, {}))
    assert port_for(Pgbench(client="a1"), ports, Ground({}, {})) == ports[0]
    assert port_for(Pgbench(), ports, Ground({}, {})) == ports[0]
