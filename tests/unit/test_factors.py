"""Factors: paths, combinations, exclusions, which cells are one, and what shares a build."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.layers import Drbd, Postgres
from blocklab.model.units import Duration
from blocklab.study.factors import combinations, of_workload, parts_of, size, variant
from blocklab.study.grid import cells, hardware, layouts, topology
from blocklab.study.read import build
from tests.unit.changed import put

RTT = {"field": "links.zone.rtt", "values": ["0.5ms", "2ms", "10ms"]}
CLIENTS = {"field": "workloads.tx.clients", "values": [1, 8]}


def with_factors(small: dict[str, Any], **factors: Any) -> dict[str, Any]:
    return {**small, "factors": factors}


def test_every_combination_is_a_cell_once(small: dict[str, Any]) -> None:
    study = build(with_factors(small, rtt=RTT, clients=CLIENTS))
    found = cells(study)
    # local has no link: its rtt makes no difference; fio has no clients.
    by = {(cell.stack, cell.workload): 0 for cell in found}
    for cell in found:
        by[cell.stack, cell.workload] += 1
    assert by == {("local", "io"): 1, ("local", "tx"): 2, ("mirror", "io"): 3, ("mirror", "tx"): 6}
    assert len({cell.key for cell in found}) == len(found) == 12
    assert size(study) == 2 * 2 * 3 * 2
    labels = [cell.label for cell in found if cell.stack == "mirror" and cell.workload == "tx"]
    assert labels[:2] == ["mirror/tx rtt=0.5ms clients=1", "mirror/tx rtt=0.5ms clients=8"]
    assert [cell.levels for cell in found if cell.stack == "local"] == [{}, {"clients": "1"}, {"clients": "8"}]


def test_a_cell_of_a_factor_has_the_key_that_it_has_without(small: dict[str, Any]) -> None:
    """What was measured for one study counts for another that meets the same point."""
    swept = {cell.label: cell.key for cell in cells(build(with_factors(small, rtt=RTT)))}
    put(small, "links.zone.rtt", "2ms")
    plain = {cell.label: cell.key for cell in cells(build(small))}
    assert swept["mirror/tx rtt=2ms"] == plain["mirror/tx"]


def test_layouts_share_builds_and_hardware(small: dict[str, Any]) -> None:
    study = build(with_factors(small, rtt=RTT, clients=CLIENTS))
    found = layouts(study, cells(study))
    assert [(each.stack, each.study.links["zone"].rtt, len(each.cells)) for each in found] == [
        ("local", Duration("0.5ms"), 3),
        ("mirror", Duration("0.5ms"), 3),
        ("mirror", Duration("2ms"), 3),
        ("mirror", Duration("10ms"), 3),
    ]
    keys = [hardware(topology(each.study, [each.stack])) for each in found]
    assert keys[1] == keys[2] == keys[3] != keys[0]


def test_an_mtu_needs_a_new_boot(small: dict[str, Any]) -> None:
    study = build(with_factors(small, mtu={"field": "links.zone.mtu", "values": [1500, 9000]}))
    keys = {
        hardware(topology(each.study, ["mirror"]))
        for each in layouts(study, cells(study))
        if each.stack == "mirror"
    }
    assert len(keys) == 2


def test_exclusions(small: dict[str, Any]) -> None:
    small |= {"exclude": [{"stack": "mirror", "rtt": ["2ms", "10ms"], "clients": 8}, {"workload": "io"}]}
    study = build(with_factors(small, rtt=RTT, clients=CLIENTS))
    assert [cell.label for cell in cells(study)] == [
        "local/tx clients=1",
        "local/tx clients=8",
        "mirror/tx rtt=0.5ms clients=1",
        "mirror/tx rtt=0.5ms clients=8",
        "mirror/tx rtt=2ms clients=1",
        "mirror/tx rtt=10ms clients=1",
    ]


def test_one_level_may_set_several_fields(small: dict[str, Any]) -> None:
    values = {
        "none": {},
        "frames": {"links.zone.mtu": 9000},
        "buffers": {
            "nodes.*.sysctl[net.ipv4.tcp_rmem]": "4096 1 2",
            "stacks.mirror.layers.drbd.net.sndbuf-size": "2M",
        },
    }
    study = build(with_factors(small, tuning={"values": values}))
    tuned = variant(study, {"tuning": "buffers"})
    assert {node.sysctl["net.ipv4.tcp_rmem"] for node in tuned.nodes.values()} == {"4096 1 2"}
    mirror = tuned.stacks["mirror"].layers[1]
    assert isinstance(mirror, Drbd) and mirror.net == {"max-buffers": 8000, "sndbuf-size": "2M"}
    assert variant(study, {"tuning": "frames"}).links["zone"].mtu == 9000
    assert variant(study, {"tuning": "none"}).stacks == study.stacks


def test_a_star_meets_every_stack_that_has_such_a_layer(small: dict[str, Any]) -> None:
    field = "stacks.*.layers.postgres.settings.fsync"
    study = build(with_factors(small, fsync={"field": field, "values": [True, False]}))
    off = variant(study, {"fsync": "false"})
    servers = [stack.layers[-1] for stack in off.stacks.values()]
    assert [isinstance(each, Postgres) and each.settings["fsync"] for each in servers] == [False, False]
    assert len(cells(study)) == 8 and not of_workload(study.factors["fsync"])


def test_a_star_passes_over_what_has_no_such_field(small: dict[str, Any]) -> None:
    clients = {"field": "workloads.*.clients", "values": [1, 8]}
    study = build(with_factors(small, clients=clients))
    assert [cell.label for cell in cells(study) if cell.stack == "local"] == [
        "local/io", "local/tx clients=1", "local/tx clients=8"
    ]  # fmt: skip
    # Whether the file gives the field or not.
    study = build(with_factors(small, by={"field": "stacks.*.layers.*.protocol", "values": ["A", "C"]}))
    assert {tuple(cell.levels) for cell in cells(study)} == {(), ("by",)}
    # A layer that another factor makes has the fields of its kind too.
    database = {"field": "stacks.*.layers.postgres", "values": {"pg": {"layer": "postgres"}}}
    durable = {"field": "stacks.*.layers.postgres.settings", "values": {"off": {"fsync": False}}}
    study = build(with_factors(small, database=database, durable=durable))
    last = variant(study, {"database": "pg", "durable": "off"}).stacks["local"].layers[-1]
    assert isinstance(last, Postgres) and last.settings == {"fsync": False}


BAD = [
    ({"field": "workloads.*.warehouses", "values": [1]}, "factors.f", "no field 'workloads.*.warehouses'"),
    ({"field": "links.zone.rtt", "values": []}, "factors.f.values", "empty"),
    ({"values": ["1ms"]}, "factors.f.field", "missing"),
    ({"field": "links.zone.rtt", "values": ["1ms", "1ms"]}, "factors.f.values[1]", "twice"),
    ({"field": "links.zone.rtt", "values": [["1ms"]]}, "factors.f.values[0]", "name each"),
    ({"values": {"a": 3}}, "factors.f.values.a", "map of fields"),
    ({"field": "links.nowhere.rtt", "values": ["1ms"]}, "factors.f", "no field 'links.nowhere.rtt'"),
    ({"field": ".", "values": ["1ms"]}, "factors.f", "no field '.'"),
    ({"values": {"a": {"": "1ms"}}}, "factors.f", "no field ''"),
    ({"field": "stacks.local.layers.drbd.protocol", "values": ["A"]}, "factors.f", "no field"),
    ({"field": "stacks.mirror.layers.drbd.protocol", "values": ["D"]}, "factors.f", "D"),
    ({"field": "links.zone.rttt", "values": ["1ms"]}, "factors.f", "rttt"),
    ({"field": "links.zone.rtt", "values": ["1ms", "9s"]}, "factors.f", "with the level 9s: links.zone.rtt"),
    ({"field": "stacks.mirror.layers.drbd.peer", "values": ["a1"]}, "factors.f", "another node"),
]


@pytest.mark.parametrize(("factor", "path", "said"), BAD)
def test_a_factor_that_cannot_be_built(small: dict[str, Any], factor: Any, path: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        build(with_factors(small, f=factor))
    assert caught.value.path == path and said in caught.value.problem


@pytest.mark.parametrize(
    ("entry", "path", "said"),
    [
        ({}, "exclude[0]", "everything"),
        ({"rt": "1ms"}, "exclude[0].rt", "no factor 'rt'"),
        ({"rtt": "3ms"}, "exclude[0].rtt", "no level '3ms'"),
        ({"stack": ["mirror", "nil"]}, "exclude[0].stack", "no level 'nil'"),
    ],
)
def test_an_exclusion_that_means_nothing(small: dict[str, Any], entry: Any, path: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        build({**with_factors(small, rtt=RTT), "exclude": [entry]})
    assert caught.value.path == path and said in caught.value.problem


def test_a_claim_at_a_level_that_is_not_there(small: dict[str, Any]) -> None:
    claim = {"metric": "tps", "workload": "tx", "stack": "mirror", "between": [0, 1], "at": {"rtt": "3ms"}}
    with pytest.raises(StudyError) as caught:
        build({**with_factors(small, rtt=RTT), "expect": [claim]})
    assert caught.value.path == "expect[0].at.rtt" and "0.5ms, 2ms, 10ms" in caught.value.problem


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_combinations_are_all_different_and_all_there(counts: list[int]) -> None:
    from tests.conftest import SMALL

    fields = ("links.zone.rtt", "links.cross.rtt", "links.zone.mtu", "workloads.tx.scale")
    values = {
        field: [f"{n}ms" if "rtt" in field else 1000 + n for n in range(count)]
        for field, count in zip(fields, counts, strict=False)
    }
    study = build(
        {**SMALL, "factors": {f"f{i}": {"field": f, "values": v} for i, (f, v) in enumerate(values.items())}}
    )
    found = [tuple(levels.items()) for levels in combinations(study)]
    expected = 1
    for count in counts:
        expected *= count
    assert len(found) == len(set(found)) == expected


def test_parts_of_a_path() -> None:
    assert parts_of("nodes.*.sysctl[net.ipv4.tcp_rmem]") == ["nodes", "*", "sysctl", "net.ipv4.tcp_rmem"]
    assert parts_of("stacks.m.layers[1].net.max-buffers") == ["stacks", "m", "layers", "1", "net", "max-buffers"]
