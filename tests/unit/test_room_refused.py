"""What surely does not fit is refused before anything starts; what may fit is not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from blocklab.model.units import Size
from blocklab.study.read import build
from blocklab.study.room import held
from tests.unit.refusals import refused, well

MIB = 2**20


def volume(size: str, **fields: Any) -> dict[str, Any]:
    return {"layer": "volume", "size": size, **fields}


DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
TWO = {"count": 2}


@pytest.mark.parametrize(
    ("layers", "has"),
    [
        ([volume("64MiB")], 64 * MIB),
        ([volume("64MiB"), {"layer": "cap", "read_iops": 5}], 64 * MIB),
        # "0 245760 striped 2 128 98:16 2048 98:32 2048": what dmsetup says of two volumes of 64 MiB, in sectors
        ([volume("64MiB", **TWO), {"layer": "lvm-stripe"}], 245760 * 512),
        ([volume("64MiB", **TWO), {"layer": "stripe"}], 128 * MIB - 16384),
        ([volume("64MiB", count=4), {"layer": "raid10"}], 128 * MIB - 16384),
        # What a DRBD of 64 MiB has: 131072 sectors less 80 of its metadata.
        ([volume("64MiB"), DRBD], (131072 - 80) * 512),
        ([volume("64MiB"), {"layer": "ext4"}], 64 * MIB),
    ],
)
def test_what_a_stack_holds_at_most(small: dict[str, Any], layers: list[dict[str, Any]], has: int) -> None:
    small |= {"stacks": {"one": {"on": "a1", "layers": layers}}, "workloads": {"io": small["workloads"]["io"]}}
    small["baseline"] = ""
    assert held(build(small).stacks["one"].layers) == has


# -- file systems -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "fits"),
    [
        ([volume("16MiB"), {"layer": "xfs"}], False),
        ([volume("299MiB"), {"layer": "xfs"}], False),
        ([volume("300MiB"), {"layer": "xfs"}], True),
        ([volume("300MiB"), DRBD, {"layer": "xfs"}], False),
        ([volume("301MiB"), DRBD, {"layer": "xfs"}], True),
        ([volume("150MiB", **TWO), {"layer": "stripe"}, {"layer": "xfs"}], False),
        ([volume("152MiB", **TWO), {"layer": "stripe"}, {"layer": "xfs"}], True),
        ([volume("256MiB", **TWO), {"layer": "raid10"}, {"layer": "xfs"}], False),
        ([volume("16MiB"), {"layer": "xfs", "mkfs": ["--unsupported"]}], True),
        ([volume("16MiB"), {"layer": "ext4"}], True),
    ],
)
def test_a_file_system_on_less_than_its_mkfs_takes(
    small: dict[str, Any], layers: list[dict[str, Any]], fits: bool
) -> None:
    small |= {"stacks": {"one": {"on": "a1", "layers": layers}}, "baseline": ""}
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "1MiB"}}
    if fits:
        assert well(small)
    else:
        said = refused(small)
        assert said.startswith(
            f"stacks.one.layers[{len(layers) - 1}]: xfs needs 300 MiB, but what it stands on has"
        )
        assert said.endswith("make the volume larger, or take ext4")


def test_sizes_are_looked_at_at_every_level(small: dict[str, Any]) -> None:
    small["factors"] = {"size": {"field": "stacks.local.layers.volume.size", "values": ["400MiB", "200MiB"]}}
    assert refused(small).startswith("stacks.local.layers[1]: with size=200MiB: xfs needs 300 MiB")
    small["exclude"] = [{"stack": "local", "size": "200MiB"}]
    assert well(small)


# -- data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "fits"),
    [
        ({"workload": "tpcc", "warehouses": 1000, "time": "5s"}, {"warehouses": 2}),
        ({"workload": "pgbench", "scale": 10000, "time": "5s"}, {"scale": 30}),
        ({"workload": "sysbench", "table_size": 10_000_000, "time": "5s"}, {"table_size": 500_000}),
        ({"workload": "sysbench", "tables": 2_000, "time": "5s"}, {"tables": 20}),
    ],
)
def test_data_that_are_larger_than_the_volumes(
    small: dict[str, Any], workload: dict[str, Any], fits: dict[str, Any]
) -> None:
    small["workloads"] = {"big": workload}
    said = refused(small)
    assert (
        said.startswith("workloads.big: needs ") and "but the volumes of stack local have 512 MiB for it" in said
    )
    small["workloads"] = {"big": workload | fits}
    assert well(small)


def test_a_pgbench_that_makes_its_tables_otherwise_is_asked_for_nothing(small: dict[str, Any]) -> None:
    small["workloads"] = {
        "tx": {"workload": "pgbench", "scale": 10000, "time": "5s", "init": {"init-steps": "dt"}}
    }
    assert well(small)


# -- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "setting", "value", "fits"),
    [
        ("postgres", "shared_buffers", "4GB", False),
        ("postgres", "shared_buffers", 131072, False),
        # More than the peer has, which only keeps the other copy.
        ("postgres", "shared_buffers", "300 MB", True),
        ("postgres", "shared_buffers", "200MB", True),
        ("postgres", "shared_buffers", 16384, True),
        ("postgres", "shared_buffers", "0x10000000", True),
        ("mariadb", "innodb_buffer_pool_size", "4G", False),
        ("mariadb", "innodb_buffer_pool_size", 2**33, False),
        ("mariadb", "innodb_buffer_pool_size", "200m", True),
        ("mysql", "innodb_buffer_pool_size", "4G", False),
    ],
)
def test_a_server_that_asks_for_more_memory_than_its_node_has(
    small: dict[str, Any], server: str, setting: str, value: Any, fits: bool
) -> None:
    small["workloads"] = {"tx": {"workload": "sysbench", "time": "5s"}}
    small["stacks"]["mirror"]["layers"][-1] = {"layer": server, "settings": {setting: value}}
    if fits:
        assert well(small)
        return
    said = refused(small)
    assert said.startswith(f"stacks.mirror.layers[3].settings.{setting}: {value} is more than the whole memory of")
    assert "node a1, 512 MiB; give the server less or the node more" in said
    small["nodes"]["a1"]["memory"] = "64GiB"
    assert well(small)


def test_a_server_has_to_fit_into_the_node_that_may_take_over(small: dict[str, Any]) -> None:
    small["nodes"]["c1"] = {"memory": "256MiB"}
    small["links"] |= {f"c{node}": {"between": ["c1", node]} for node in ("a1", "a2")}
    small["stacks"]["mirror"]["layers"][-1]["settings"] = {"shared_buffers": "300MB"}
    small["workloads"] = {"writes": {"workload": "ledger", "from": "c1"}}
    assert well(small)
    small["faults"] = {"kill": {"fault": "crash", "at": "4s"}}
    assert "300MB is more than the whole memory of node a2, 256 MiB" in refused(small)


def test_memory_counts_at_the_levels_of_both_factors(small: dict[str, Any]) -> None:
    small["factors"] = {
        "memory": {"field": "nodes.a1.memory", "values": ["512MiB", "8GiB"]},
        "buffers": {"field": "stacks.local.layers.postgres.settings.shared_buffers", "values": ["64MB", "4GB"]},
    }
    assert "with memory=512MiB, buffers=4GB: 4GB is more than the whole memory of node a1" in refused(small)
    small["exclude"] = [{"memory": "512MiB", "buffers": "4GB"}]
    assert well(small)


# -- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"iops": 10**18}, "iops: must be at most 1,000,000,000,000,000 a second"),
        ({"read_bandwidth": "2000000TB/s"}, "read_bandwidth: must be at most"),
        ({"iops": 1, "burst_iops": 10**12, "burst_seconds": 10**6}, "burst_seconds: a bucket of"),
        ({"iops": -5}, "iops: must be 1 I/O per second or more"),
    ],
)
def test_limits_beyond_all_bounds(small: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    small["stacks"]["local"]["layers"][0] |= fields
    assert refused(small).startswith(f"stacks.local.layers[0].{said}")


CAPS: list[tuple[list[dict[str, Any]], str]] = [
    (
        [{"read_iops": 100}, {"read_iops": 50}],
        "layers[2].read_iops: layers[1] has set read_iops of the same device",
    ),
    ([{"profile": "ec2-m5-large"}, {"write_iops": 50}], "layers[2].write_iops: layers[1] has set write_iops"),
    ([{"write_iops": 50}, {"profile": "ec2-m5-large"}], "layers[2].profile: layers[1] has set write_iops"),
    ([{"read_iops": 100}, {"write_iops": 50}], ""),
    (
        [{"read_iops": 100, "by": "cgroup-v2"}, {"read_iops": 50, "by": "cgroup-v2"}],
        "layers[2].read_iops: layers[1]",
    ),
]


@pytest.mark.parametrize(("caps", "said"), CAPS)
def test_two_caps_of_one_device_on_the_same_thing(
    small: dict[str, Any], caps: list[dict[str, Any]], said: str
) -> None:
    layers = small["stacks"]["local"]["layers"]
    layers[1:1] = [{"layer": "cap", **cap} for cap in caps]
    if said:
        assert refused(small).startswith(f"stacks.local.{said}")
    else:
        assert well(small)


def test_caps_of_different_devices_may_limit_the_same(small: dict[str, Any]) -> None:
    cap = {"layer": "cap", "read_iops": 100}
    small["stacks"]["mirror"]["layers"][1:2] = [cap, small["stacks"]["mirror"]["layers"][1], cap]
    assert well(small)


@pytest.mark.parametrize("field", ["size", "memory"])
def test_a_number_of_hundreds_of_digits_is_an_error_with_its_place(small: dict[str, Any], field: str) -> None:
    text = "9" * 400 + "GiB"
    if field == "size":
        small["stacks"]["local"]["layers"][0]["size"] = text
    else:
        small["nodes"]["a1"]["memory"] = text
    said = refused(small)
    place = {"size": "stacks.local.layers[0].size", "memory": "nodes.a1.memory"}[field]
    assert said.startswith(f"{place}: '9999") and said.endswith("...' is more than any machine has; use less")
    with pytest.raises(ValueError, match="more than any machine has"):
        Size("9000000TiB")


def test_data_that_do_not_fit_are_told_what_does(small: dict[str, Any]) -> None:
    small["workloads"]["tx"]["scale"] = 10_000
    said = refused(small)
    match = re.search(r"; scale: (\d+) fits, or make the volumes larger$", said)
    assert match, said
    small["workloads"]["tx"]["scale"] = int(match[1])
    assert well(small)
    small["workloads"]["tx"]["scale"] = int(match[1]) + 1
    assert refused(small)
