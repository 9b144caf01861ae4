"""Mirrors, shared volumes and bonded links: their plans, and the parsers of what the system says of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.layers import drbd, filesystem, net_mirror, shared
from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.plan import Port, Run, before_data, made_once
from blocklab.model.units import Duration, Size
from blocklab.sites.fake import FakeSite
from blocklab.sites.names import ground as named
from blocklab.sites.uml import pinning, site, volumes
from blocklab.sites.uml.pinning import Pinning
from blocklab.sites.uml.site import cpu_of
from blocklab.study import links
from blocklab.study.grid import plan_ground, plan_stack, topology
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.unit.golden import FOLDER, Golden

KNOBS = FOLDER / "knobs"
VOLUME = {"layer": "volume", "size": "64MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
CRYPT = {"layer": "crypt"}
NET = {"layer": "net-mirror", "peer": "a2", "link": "zone"}

STACKS: dict[str, list[dict[str, Any]]] = {
    "shared": [{**VOLUME, "count": 2}, {"layer": "shared", "peer": "a2"}, {"layer": "stripe"}],
    "net-mirror": [VOLUME, NET, {"layer": "ext4", "mount": ["barrier=0", "nodiscard", "commit=5"]}],
    "net-mirror-spread": [
        VOLUME,
        {**NET, "write_mostly": False, "bitmap": False, "connections": 4, "timeout": "30s"},
    ],
    "net-mirror-behind": [VOLUME, {**NET, "write_behind": 256}],
    "net-mirror-direct": [VOLUME, {**NET, "direct": True}],
    "standalone": [VOLUME, {**DRBD, "standalone": True, "net": {"max-buffers": 8000}}],
    "crypt-drbd": [VOLUME, CRYPT, DRBD],
    "crypt-net-mirror": [VOLUME, CRYPT, NET],
    "drbd-crypt": [VOLUME, DRBD, {**CRYPT, "cipher": "aes-cbc-essiv:sha256", "no_write_workqueue": True}],
    "pull-ahead": [
        VOLUME,
        {**DRBD, "protocol": "A", "net": {"on-congestion": "pull-ahead", "congestion-fill": "400k"}},
    ],
}


def study_of(small: dict[str, Any], layers: list[dict[str, Any]]) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small)


def planned(study: Study) -> dict[str, Any]:
    ground = FakeSite().ground(topology(study, ["one"]))
    plan = plan_stack(study, "one", 3, ground)
    facts = [{"host": fact.host, "argv": fact.argv, "wanted": dict(fact.wanted)} for fact in plan.facts]
    found: dict[str, Any] = msgspec.to_builtins({"steps": plan.steps, "facts": facts, "ports": plan.ports})
    return found


@pytest.mark.parametrize("name", STACKS)
def test_the_plan_of_a_mirror(small: dict[str, Any], golden: Golden, name: str) -> None:
    golden.check(f"plans/{name}.json", planned(study_of(small, STACKS[name])))


def test_the_plan_of_bonded_links_and_kernel_parameters(small: dict[str, Any], golden: Golden) -> None:
    small["links"]["zone"] |= {"lanes": 2, "bond": "balance-xor", "mtu": 9000, "rate": "50Mbit/s"}
    small["nodes"]["a1"]["sysctl"] = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "vm.swappiness": 0}
    shape = topology(study_of(small, STACKS["standalone"]), ["one"])
    plan = plan_ground(shape, named(shape))
    facts = [{"host": fact.host, "argv": fact.argv, "wanted": dict(fact.wanted)} for fact in plan.facts]
    golden.check("plans/lanes.json", msgspec.to_builtins({"steps": plan.steps, "facts": facts}))


# -- the same data on the volumes ------------------------------------------------------------------------------


def test_a_standalone_mirror_puts_the_same_on_its_volumes_as_a_connected_one(small: dict[str, Any]) -> None:
    plans = []
    for alone in (False, True):
        study = study_of(small, [VOLUME, {**DRBD, "standalone": alone}, {"layer": "ext4"}])
        plans.append(plan_stack(study, "one", 0, FakeSite().ground(topology(study, ["one"]))))
    connected, alone_too = plans
    assert made_once(connected.steps) == made_once(alone_too.steps) != ()
    # Data that are going to be copied are loaded while it is connected.
    assert before_data(alone_too.steps) == connected.steps == before_data(connected.steps)
    assert [step.argv for step in alone_too.steps if isinstance(step, Run) and step.late] == [
        ("drbdadm", "disconnect", "one")
    ]


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "path", "said"),
    [
        ({**NET, "peer": "a1"}, "peer", "name another node"),
        ({**NET, "peer": "c9"}, "peer", "there are a1, a2, b1"),
        ({**NET, "link": "cross"}, "link", "cross joins a1 and b1, not a1 and a2"),
        ({**NET, "link": "none"}, "link", "there are zone, cross"),
        ({**NET, "connections": 0}, "connections", "from 1 to 16"),
        ({**NET, "timeout": "1500ms"}, "timeout", "whole seconds"),
        ({**NET, "write_behind": 256, "bitmap": False}, "write_behind", "needs the bitmap"),
        ({**NET, "write_behind": -1}, "write_behind", "from 0 (off)"),
        ({**DRBD, "peer": "a1"}, "peer", "name another node"),
        ({**DRBD, "net": {"on-congestion": "pull-ahead"}}, "net.on-congestion", "set protocol: A"),
        ({"layer": "shared", "peer": "a1"}, "peer", "name another node"),
        ({"layer": "shared", "peer": "c9"}, "peer", "there are a1, a2, b1"),
    ],
)
def test_a_mirror_that_cannot_be_built(small: dict[str, Any], layer: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_of(small, [VOLUME, layer])
    assert caught.value.path == f"stacks.one.layers[1].{path}" and said in caught.value.problem


@pytest.mark.parametrize(
    ("rtt", "layer", "path", "said"),
    [
        ("600ms", DRBD, "net", "without an answer for 0.5 s, and zone has an rtt of 0.6s; give ping-timeout: 7"),
        ("500ms", DRBD, "net", "ping-timeout: 6 or more"),
        ("2s", {**DRBD, "net": {"ping-timeout": 20}}, "net", "ping-timeout: 21 or more"),
        ("2s", {**DRBD, "net": {"ping-timeout": 30, "timeout": "20"}}, "net", "give timeout: 21 or more"),
        ("2s", {**NET, "timeout": "2s"}, "timeout", "no answer can come so soon over zone, whose rtt is 2s"),
    ],
)
def test_a_link_that_is_longer_than_a_mirror_waits(
    small: dict[str, Any], rtt: str, layer: dict[str, Any], path: str, said: str
) -> None:
    small["links"]["zone"]["rtt"] = rtt
    with pytest.raises(StudyError) as caught:
        study_of(small, [VOLUME, layer])
    assert caught.value.path == f"stacks.one.layers[1].{path}" and said in caught.value.problem


@pytest.mark.parametrize(
    ("rtt", "layer"),
    [
        ("499ms", DRBD),
        ("600ms", {**DRBD, "net": {"ping-timeout": 7}}),
        ("2s", {**NET, "timeout": "3s"}),
    ],
)
def test_a_link_that_a_mirror_can_wait_for(small: dict[str, Any], rtt: str, layer: dict[str, Any]) -> None:
    small["links"]["zone"]["rtt"] = rtt
    study_of(small, [VOLUME, layer])


def test_xfs_has_no_barriers_to_switch(small: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=r"mount\[1\]: xfs has no 'nobarrier' since Linux 4.19"):
        study_of(small, [VOLUME, {"layer": "xfs", "mount": ["noatime", "nobarrier"]}])


@pytest.mark.parametrize("mirror", [DRBD, NET])
def test_a_mirror_stands_on_one_device(small: dict[str, Any], mirror: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="there are 2 below it; join them with a stripe"):
        study_of(small, [{**VOLUME, "count": 2}, mirror])


# -- the site --------------------------------------------------------------------------------------------------


def test_a_shared_volume_has_one_server_and_a_socket_for_each_node() -> None:
    sockets = [Path("/a1.vhost"), Path("/a2.vhost")]
    profile = volumes.behaviour(Profile(size=Size("1GiB"), iops=500))
    argv = volumes.server_argv(Path("/server"), Path("/file"), sockets, Path("/control"), profile)
    assert argv[0] == "/server" and json.loads(argv[1]) == {
        "file": "/file", "sockets": ["/a1.vhost", "/a2.vhost"], "control": "/control", "profile": profile,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cpus", "found"),
    [
        ({3}, [3, 3, 3, 3]),
        ({0, 1}, [0, 1, 1, 1]),
        ({1, 4, 6}, [1, 4, 6, 4]),
    ],
)
def test_the_first_node_has_a_cpu_for_itself(
    monkeypatch: pytest.MonkeyPatch, cpus: set[int], found: list[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus)
    monkeypatch.setattr(site, "pinning", lambda: Pinning("cores", {}))
    monkeypatch.setattr(pinning, "siblings", lambda cpu: frozenset({cpu}))
    assert [cpu_of(number) for number in range(4)] == found


def test_lanes_and_shared_volumes_have_a_name_on_each_node() -> None:
    nodes = {name: NodeSpec() for name in ("a", "b", "c")}
    joined = {
        "one": LinkSpec(("a", "b"), lanes=2),
        "two": LinkSpec(("a", "c")),
        "three": LinkSpec(("c", "a"), lanes=3),
    }
    disks = (
        VolumeSpec("own", ("a",), Profile(size=Size("1GiB"))),
        VolumeSpec("both", ("a", "b"), Profile(size=Size("1GiB")), 0),
        VolumeSpec("both", ("a", "b"), Profile(size=Size("1GiB"), iops=9), 1),
    )
    ground = named(Topology(nodes, joined, disks))
    assert ground.ends["one"]["a"].nic == "bond0" and ground.ends["one"]["a"].lanes == ("vec0", "vec1")
    assert ground.ends["two"]["a"].nic == "vec2" and ground.ends["two"]["c"].lanes == ("vec0",)
    assert ground.ends["three"]["a"].nic == "bond1" and ground.ends["three"]["c"].nic == "bond0"
    assert ground.ends["three"]["c"].lanes == ("vec1", "vec2", "vec3")
    assert ground.devices["both"] == {"a": ("/dev/ubdc", "/dev/vda"), "b": ("/dev/ubdb", "/dev/vda")}


# -- what the system says --------------------------------------------------------------------------------------


def test_mdadm_detail_of_a_real_mirror() -> None:
    assert net_mirror.parse_detail((KNOBS / "mdadm-detail-net-mirror").read_text()) == {
        "state": "clean", "local leg": "active sync", "remote leg": "active sync writemostly",
        "bitmap": "Internal",
    }  # fmt: skip
    # After its peer was switched off.
    assert net_mirror.parse_detail((KNOBS / "mdadm-detail-degraded").read_text()) == {
        "state": "clean, degraded", "local leg": "active sync", "remote leg": "absent", "bitmap": "none",
    }  # fmt: skip


def test_an_nbd_device() -> None:
    text = "0      0      10.77.1.1:43958 10.77.1.2:10809\n0      0      10.77.1.1:43970 10.77.1.2:10809\n"
    assert net_mirror._connections(text) == {"connections": "2"}
    assert net_mirror._connections("") == {"connections": "0"}
    text = 'LISTEN 0      10         10.77.1.2:10809      0.0.0.0:*    users:(("nbd-server",pid=782,fd=3))\n'
    assert net_mirror._serves(text) == {"server": "nbd-server"}
    assert net_mirror._serves("") == {"server": "absent"}
    assert net_mirror._timeout("10000\n") == {"timeout": str(Duration("10s"))}


def test_the_guard_of_a_shared_volume() -> None:
    first, second = shared._guard(Port("a2", "block", "/dev/ubdb"), "one-held-0")
    wanted = {**first.wanted, **second.wanted}
    free = '{"blockdevices": [{"ro": true, "mountpoints": [null]}]}'
    assert {**first.parse(free), **second.parse("other\none-held-0\n")} == wanted
    used = '{"blockdevices": [{"ro": false, "mountpoints": ["/media", "/srv"]}]}'
    assert {**first.parse(used), **second.parse("No devices found\n")} == {
        "read-only /dev/ubdb": "no", "mounted /dev/ubdb": "/media, /srv", "held /dev/ubdb": "no",
    }  # fmt: skip


def test_a_mirror_that_pulls_ahead_is_in_force_while_it_lags() -> None:
    for state in ("Connected", "Ahead", "SyncSource"):
        assert drbd.parse_lagging(f"{state}\n") == {"cstate": state, "connection": "kept"}
    assert drbd.parse_lagging("WFConnection\n")["connection"] == "WFConnection"
    assert drbd.parse_local("UpToDate/Consistent\n") == {"dstate": "UpToDate/Consistent", "local disk": "UpToDate"}
    assert drbd.parse_driver("") == {}


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,24}", fullmatch=True), st.integers(0, 10**9)))
def test_options_of_drbd_come_back_whatever_the_length_of_their_names(options: dict[str, int]) -> None:
    # drbdsetup pads a name to 16 letters, then comes a tab.
    rows = [f"        {name.ljust(16)}\t{value}; # default" for name, value in options.items()]
    text = "\n".join(["resource one {", "    net {", *rows, "    }", "}"])
    assert drbd.parse_show(text) == {f"net.{name}": str(value) for name, value in options.items()}


def test_bonding_of_a_real_link() -> None:
    assert links._bonding((KNOBS / "bonding").read_text()) == {"lanes": "2", "bond": "balance-rr"}
    assert links._bonding("Bonding Mode: fault-tolerance (active-backup)\nSlave Interface: vec0\n") == {
        "lanes": "1", "bond": "active-backup",
    }  # fmt: skip
    for text in ("4096\t131072\t6291456\n", "4096  131072 6291456"):
        assert links._sysctl("net.ipv4.tcp_rmem", text) == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}


@pytest.mark.parametrize(
    ("asked", "shown", "kept"),
    [
        ("noatime", "rw,noatime", True),
        ("noatime", "rw,relatime", False),
        ("diratime", "rw,relatime", True),
        ("diratime", "rw,nodiratime,relatime", False),
        ("nodiscard", "rw,relatime,discard", False),
        ("discard", "rw,relatime,discard", True),
        ("defaults", "rw,relatime", True),
        ("nofail", "rw,relatime", True),
        ("attr2", "rw,relatime", True),
        ("uquota", "rw,relatime,usrquota", True),
        ("uquota", "rw,relatime,noquota", False),
        ("allocsize=1m", "rw,relatime,allocsize=1024k", True),
        ("allocsize=1G", "rw,relatime,allocsize=1048576k", True),
        ("allocsize=1m", "rw,relatime,allocsize=64k", False),
        ("logbsize=262144", "rw,relatime,logbsize=256k", True),
        ("logbsize=256k", "rw,relatime,logbsize=32k", False),
        ("nolargeio", "rw,relatime", True),
        ("nolargeio", "rw,relatime,largeio", False),
        ("bsdgroups", "rw,relatime,grpid", True),
    ],
)
def test_a_mount_option_is_in_force_or_not(asked: str, shown: str, kept: bool) -> None:
    assert in_force(asked, f"/dev/ubdb /mnt/one xfs {shown} 0 0\n") is kept


EXT4 = "/dev/ubdb /mnt/one ext4 rw,relatime 0 0\n"


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("barrier=0", "nobarrier"), ("barrier=1", "barrier"), ("barrier", "barrier"), ("nobarrier", "nobarrier"),
        ("commit=0", "commit=5"), ("commit=30", "commit=30"), ("data=writeback", "data=writeback"),
        ("auto_da_alloc=0", "noauto_da_alloc"), ("auto_da_alloc=1", "auto_da_alloc"),
        ("init_itable", "init_itable=10"), ("dioread_lock", "nodioread_nolock"), ("noload", "norecovery"),
    ],
)  # fmt: skip
def test_an_option_of_ext4_is_in_force_or_not(asked: str, listed: str) -> None:
    assert in_force(asked, f"{EXT4}rw\n{listed}\n")
    assert not in_force(asked, f"{EXT4}rw\nbsddf\n")


def test_what_a_real_ext4_lists_of_its_defaults() -> None:
    text = EXT4 + (KNOBS / "ext4-options").read_text()
    for asked in (
        "barrier=1", "commit=5", "commit=0", "auto_da_alloc", "delalloc", "errors=continue", "data=ordered",
        "data_err=ignore", "dioread_nolock", "max_batch_time=15000", "journal_checksum", "nodiscard", "stripe=0",
        "acl", "user_xattr", "bsddf", "nogrpid", "block_validity", "init_itable", "mb_optimize_scan=0",
    ):  # fmt: skip
        assert in_force(asked, text), asked
    for asked in ("nobarrier", "commit=30", "noauto_da_alloc", "discard", "data=journal", "data_err=abort", "ro"):
        assert not in_force(asked, text), asked
    # The list is of the device, which may be writable where the mount is not.
    assert not in_force("rw", text.replace("rw,relatime", "ro,relatime"))


def in_force(asked: str, text: str) -> bool:
    found = filesystem.mounted(text, "/mnt/one")
    assert found
    return all(found.get(name, "absent") == value for name, value in filesystem.in_force(asked).items())
