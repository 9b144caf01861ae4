"""Stripes and caps on real nodes: built, built over their data, taken down without residue; caps that hold."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest

from blocklab.model.host import Host, must
from blocklab.model.node_programs import program
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.uml import uml

VOLUMES = {"layer": "volume", "size": "64MiB", "count": 2}
ONE = {"layer": "volume", "size": "64MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
# Without a journal: making one would take its time under a low cap.
EXT4 = {"layer": "ext4", "mkfs": ["-O", "^has_journal"]}
V1, V2 = "cgroup-v1", "cgroup-v2"

STACKS: dict[str, list[dict[str, Any]]] = {
    # Two caps on one device share a mount.
    "raid10": [VOLUMES, {"layer": "raid10", "layout": "far"}, {"layer": "cap", "read_iops": 5000},
               {"layer": "cap", "write_iops": 5000}, EXT4],
    "lvm_stripe": [VOLUMES, {"layer": "cap", "write_iops": 5000, "by": V2}, {"layer": "lvm-stripe"},
                   {"layer": "cap", "profile": "azure-d8s-v3", "by": V2}, EXT4],
    "stripe": [VOLUMES, {"layer": "cap", "write_iops": 5000}, {"layer": "stripe", "chunk": "128KiB"},
               {"layer": "cap", "profile": "azure-d8s-v3"}, DRBD, {"layer": "cap", "read_iops": 5000}, EXT4],
    # Two headers, and a mirror that copies what is below all three layers.
    "crypt": [VOLUMES, {"layer": "crypt"}, {"layer": "cap", "write_iops": 5000}, {"layer": "stripe"}, DRBD, EXT4],
}  # fmt: skip


def study_of(small: dict[str, Any], layers: list[dict[str, Any]]) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": small["workloads"]["io"]}
    return build(small)


def residue(host: Host) -> list[str]:
    """Arrays, device-mapper targets, controllers, mounts and groups that a take-down left."""
    found = re.findall(r"^md\d+ .*", host.run(["cat", "/proc/mdstat"]).text, re.MULTILINE)
    found += [line for line in must(host, ["dmsetup", "ls"]).splitlines() if "No devices" not in line]
    found += [
        line for line in must(host, ["cat", "/proc/mounts"]).splitlines() if re.search("/cap-.* cgroup", line)
    ]
    found += [line for line in must(host, ["cat", "/proc/self/cgroup"]).splitlines() if not line.endswith(":/")]
    found += must(host, ["ls", "/run/blocklab", "/dev/mapper"]).split()
    return [each for each in found if each not in ("/run/blocklab:", "node", "/dev/mapper:", "control")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "stripe" else name for name in STACKS]
)
def test_a_stack_is_built_over_its_data_and_anew_without_residue(small: dict[str, Any], name: str) -> None:
    data = os.urandom(200_000)
    study = study_of(small, STACKS[name])
    with standing(UmlSite(), study, ["one"]) as stand:
        host, folder = stand.lab.hosts["a1"], stand.ports["one"][-1].where
        assert not not_in_force(stand.engine.ask(stand.facts["one"]))
        host.put(f"{folder}/file", data)
        take_down(stand)
        over = Standing(stand.lab, study, ["one"], stand.ground, fresh=False)
        over.build(over_data=True)
        assert not not_in_force(over.engine.ask(over.facts["one"]))
        assert host.get(f"{folder}/file") == data
        take_down(over)
        uml(stand).restore("")
        again = Standing(stand.lab, study, ["one"], stand.ground, fresh=False)
        again.build()
        assert not not_in_force(again.engine.ask(again.facts["one"]))
        assert host.run(["test", "-e", f"{folder}/file"]).code == 1
        take_down(again)


def test_caps_of_both_versions_follow_each_other_on_one_node(small: dict[str, Any]) -> None:
    """The controller belongs to one version at a time, and a worker of the kernel's hands it over."""
    studies = {by: study_of(small, [ONE, {"layer": "cap", "write_iops": 500, "by": by}, EXT4]) for by in (V1, V2)}
    with standing(UmlSite(), studies[V1], ["one"]) as stand:
        for by in (V2, V1, V2, V1, V2):
            take_down(stand)
            stand = Standing(stand.lab, studies[by], ["one"], stand.ground, fresh=False)
            stand.build()
            assert not not_in_force(stand.engine.ask(stand.facts["one"]))
        take_down(stand)


def take_down(stand: Standing) -> None:
    """Undo all; nothing is left on any node, and nothing failed."""
    stand.engine.undo()
    assert stand.engine.warnings == []
    assert not [each for host in stand.lab.hosts.values() for each in residue(host)]


def test_planted_changes_are_found_not_in_force(small: dict[str, Any]) -> None:
    layers: list[dict[str, Any]] = [VOLUMES, {"layer": "raid10"}, {"layer": "cap", "read_iops": 500}, EXT4]
    with standing(UmlSite(), study_of(small, layers), ["one"]) as stand:
        host = stand.lab.hosts["a1"]
        limit = "/run/blocklab/cap-md0/blkio.throttle.read_iops_device"
        must(host, program("verbs", "write", limit, "{number} 0", "/dev/md0"))
        must(host, ["mdadm", "--fail", "/dev/md0", "/dev/ubdc"])
        wrong = {knob.name: knob.value for knob in not_in_force(stand.engine.ask(stand.facts["one"]))}
        assert wrong == {
            "read_iops": "none", "Active Devices": "1", "Failed Devices": "1", "members": "/dev/ubdb",
        }  # fmt: skip


def rate(host: Host, file: str, flag: str, *, count: int) -> float:
    """4 KiB writes per second of dd, its own way of counting."""
    said = host.run(["dd", "if=/dev/zero", f"of={file}", "bs=4096", f"count={count}", flag], timeout=60).said
    # 819200 bytes (819 kB, 800 KiB) copied, 0.108431 s, 75.6 MB/s
    match = re.search(r"copied, ([\d.]+(?:e-\d+)?) s", said)
    assert match is not None, said
    return count / float(match[1])


@pytest.mark.parametrize("by", [V1, V2])
def test_a_cap_counts_direct_writes_and_not_buffered_ones(small: dict[str, Any], by: str) -> None:
    layers: list[dict[str, Any]] = [ONE, {"layer": "cap", "write_iops": 500, "by": by}, EXT4]
    with standing(UmlSite(), study_of(small, layers), ["one"]) as stand:
        host = stand.lab.hosts["a1"]
        # A tenth of a second's I/Os may go at once. No lower bound: a busy machine may be slower than the cap.
        assert rate(host, "/mnt/one/new", "oflag=direct", count=500) < 500 * 1.25
        # Even with the wait for the disk at its end: what the page cache joins counts as one.
        assert rate(host, "/mnt/one/new", "conv=fsync", count=4000) > 1.5 * 500


@pytest.mark.long
@pytest.mark.parametrize("by", [V1, V2])
def test_a_bandwidth_cap_holds_for_what_the_page_cache_writes(small: dict[str, Any], by: str) -> None:
    layers: list[dict[str, Any]] = [ONE, {"layer": "cap", "write_bandwidth": "4MiB/s", "by": by}, EXT4]
    with standing(UmlSite(), study_of(small, layers), ["one"]) as stand:
        host = stand.lab.hosts["a1"]
        # 16 MiB take four seconds. The page cache would take them at once, and so would a volume without a limit.
        assert rate(host, "/mnt/one/new", "conv=fsync", count=4096) < 1024 * 1.25
        # Written back by the kernel's own threads.
        started = time.monotonic()
        must(host, ["dd", "if=/dev/zero", "of=/mnt/one/other", "bs=1M", "count=16"])
        must(host, ["sync"])
        assert time.monotonic() - started > 4 / 1.25


def test_a_cap_holds_for_the_writes_of_a_mirror(small: dict[str, Any]) -> None:
    layers: list[dict[str, Any]] = [ONE, {"layer": "cap", "write_iops": 500}, DRBD]
    with standing(UmlSite(), study_of(small, layers), ["one"]) as stand:
        assert rate(stand.lab.hosts["a1"], "/dev/drbd0", "oflag=direct", count=400) < 500 * 1.25
