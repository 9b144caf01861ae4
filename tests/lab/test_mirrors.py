"""Shared volumes, mirrors and bonded links on real nodes: built, in force, broken, taken down, built again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import NodeLost, StudyError
from blocklab.model.host import Host, must
from blocklab.model.plan import Knob
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite
from blocklab.study.read import build
from blocklab.study.types import Study
from tests.uml import uml

PLAIN = {"layer": "volume", "size": "64MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
NET = {"layer": "net-mirror", "peer": "a2", "link": "zone"}
MIB = 2**20


def study_of(small: dict[str, Any], layers: list[dict[str, Any]]) -> Study:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small)


def unchecked(study: Study, **fields: Any) -> Study:
    """With other fields of its mirror, which the check would refuse."""
    volume, mirror, *above = study.stacks["one"].layers
    layers = (volume, msgspec.structs.replace(mirror, **fields), *above)
    stack = msgspec.structs.replace(study.stacks["one"], layers=layers)
    return msgspec.structs.replace(study, stacks={"one": stack})


def rebuilt(stand: Standing, study: Study, *, over_data: bool) -> Standing:
    """The stack on the same running nodes, as planned from ``study``."""
    found = Standing(stand.lab, study, ["one"], stand.ground, fresh=False)
    found.build(over_data=over_data)
    return found


def wrong(stand: Standing, name: str = "one") -> dict[str, str]:
    """What is not in force."""
    return {knob.name: knob.value for knob in not_in_force(knobs(stand, name))}


def undone(stand: Standing) -> None:
    """Taken down without a word."""
    stand.engine.undo()
    assert stand.engine.warnings == []


def knobs(stand: Standing, name: str = "one") -> list[Knob]:
    """What the system says, without the pings, which take a while."""
    return stand.engine.ask(fact for fact in stand.facts[name] if fact.argv[0] != "ping")


# -- shared volumes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iops", [0, 400])
def test_a_shared_volume_is_used_by_one_node_and_has_one_cap(
    small: dict[str, Any], tmp_path: Path, iops: int
) -> None:
    study = study_of(small, [{**PLAIN, "iops": iops}, {"layer": "shared", "peer": "a2"}, {"layer": "ext4"}])
    with standing(UmlSite(), study, ["one"]) as stand:
        active, peer = stand.lab.hosts["a1"], stand.lab.hosts["a2"]
        device = stand.ports["one"][0].where
        assert uml(stand).volume("one", "a1") == uml(stand).volume("one", "a2")
        active.put("/mnt/one/file", b"written on the active node")
        must(active, ["sync"])
        assert not wrong(stand)
        for options in ([], ["-o", "ro,noload"]):
            assert peer.run(["mount", *options, device, "/media"]).code != 0
        assert peer.run(["dd", "if=/dev/zero", f"of={device}", "bs=4k", "count=1", "oflag=direct"]).code != 0
        if iops:
            assert together(active, peer, device, tmp_path) < 1.6 * iops
        # The plant: somebody takes the guard away and mounts it there as well.
        must(peer, ["dmsetup", "remove", "--noudevsync", "one-held-0"])
        must(peer, ["blockdev", "--setrw", device])
        must(peer, ["mount", "-o", "ro,noload", device, "/media"])
        assert peer.get("/media/file") == b"written on the active node"
        assert wrong(stand) == {
            f"read-only {device}": "no", f"mounted {device}": "/media", f"held {device}": "no",
        }  # fmt: skip
        must(peer, ["umount", "/media"])
        # The hold is gone already, which its undo says; nothing else does.
        stand.engine.undo()
        assert len(stand.engine.warnings) == 1 and "one-held-0" in stand.engine.warnings[0]
        stand = rebuilt(stand, study, over_data=True)
        assert active.get("/mnt/one/file") == b"written on the active node" and not wrong(stand)
        undone(stand)
        assert must(peer, ["blockdev", "--getro", device]) == "0\n"
        # A node that already uses it keeps the stack from being built.
        must(peer, ["mount", device, "/media"])
        with pytest.raises(Exception, match="one-held-0"):
            rebuilt(stand, study, over_data=True)


def together(active: Host, peer: Host, device: str, folder: Path) -> float:
    """I/Os per second of both nodes at the same time."""
    fio = [
        "fio", "--name=x", f"--filename={device}", "--readonly", "--rw=randread", "--bs=4k", "--direct=1",
        "--ioengine=libaio", "--iodepth=8", "--runtime=2", "--time_based", "--output-format=json",
    ]  # fmt: skip
    outs = [folder / host.name for host in (active, peer)]
    procs = [host.spawn(fio, out, folder / "err") for host, out in zip((active, peer), outs, strict=True)]
    assert [proc.wait(60) for proc in procs] == [0, 0]
    jobs = [json.loads(out.read_text())["jobs"][0] for out in outs]
    assert all(job["read"]["total_ios"] > 0 for job in jobs)
    # Both may begin apart: from the first one's start to the last one's end, in ms.
    ends = max(job["job_start"] + job["read"]["runtime"] for job in jobs)
    return float(
        sum(job["read"]["total_ios"] for job in jobs) / (ends - min(job["job_start"] for job in jobs)) * 1e3
    )


# -- mirrors over the network ----------------------------------------------------------------------------------


# Through the page cache it is in test_real_takeover too.
@pytest.mark.parametrize("direct", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_network_mirror_has_two_equal_legs_and_outlives_its_peer(small: dict[str, Any], direct: bool) -> None:
    study = study_of(
        small,
        [
            {**PLAIN, "count": 2},
            {"layer": "stripe"},
            {**NET, "connections": 2, "write_behind": 64, "timeout": "3s", "direct": direct},
            {"layer": "ext4"},
        ],
    )
    with standing(UmlSite(), study, ["one"]) as stand:
        here, there = stand.lab.hosts["a1"], stand.lab.hosts["a2"]
        found = {knob.name: knob.value for knob in knobs(stand) if knob.layer == "net-mirror"}
        assert found == {
            "state": "clean", "local leg": "active sync", "remote leg": "active sync writemostly",
            "bitmap": "Internal", "connections": "2", "timeout": "3s", "write_behind": "64",
            "server": "qemu-storage-da" if direct else "nbd-server",
        }  # fmt: skip
        assert not wrong(stand)
        # O_DIRECT is open(2)'s octal flag 040000; nobody else has the peer's stripe open.
        flags = must(there, ["sh", "-c", f"cat /proc/$(pgrep -x '{found['server']}' | tail -1)/fdinfo/*"])
        opened = [int(line.split()[1], 8) for line in flags.splitlines() if line.startswith("flags:")]
        assert any(each & 0o40000 for each in opened) == direct
        must(here, ["dd", "if=/dev/urandom", "of=/mnt/one/file", "bs=1M", "count=8", "conv=fsync"])
        digest = must(here, ["sha256sum", "/mnt/one/file"])
        undone(stand)
        for host in (here, there):
            assert host.run(["test", "-e", "/dev/md300"]).code == 1
            assert host.run(["pgrep", "-x", "nbd-server|nbd-client|qemu-storage-da"]).code == 1
        assert must(there, ["ls", "/run/blocklab"]).split() == ["node"]
        assert same_data(stand)
        uml(stand).save("file")
        uml(stand).restore("")
        stand = rebuilt(stand, study, over_data=False)
        assert must(here, ["ls", "/mnt/one"]) == "lost+found\n"
        undone(stand)
        uml(stand).restore("file")
        stand = rebuilt(stand, study, over_data=True)
        assert must(here, ["sha256sum", "/mnt/one/file"]) == digest and not wrong(stand)
        # Without its peer: the write waits for the timeout, then the local leg goes on alone, and it is said.
        uml(stand).crash("a2")
        must(here, ["dd", "if=/dev/zero", "of=/mnt/one/more", "bs=64k", "count=4", "conv=fsync"])
        local = [fact for fact in stand.facts["one"] if fact.host == "a1" and fact.layer == "net-mirror"]
        lost = {knob.name: knob.value for knob in not_in_force(stand.engine.ask(local))}
        assert lost["state"] == "clean, degraded" and lost["remote leg"] == "absent"
        with pytest.raises(NodeLost):
            must(there, ["true"])


def same_data(stand: Standing) -> bool:
    """Whether both sides' volumes hold the same, behind what MD notes at their beginning."""
    equal = []
    for index in (0, 1):
        ours, theirs = (uml(stand).volume("one", node, index) for node in ("a1", "a2"))
        assert ours is not None and theirs is not None
        mine, peers = ours.read_bytes()[4 * MIB :], theirs.read_bytes()[4 * MIB :]
        # Something was written, so that equal means something.
        assert len(mine) - mine.count(0) > MIB
        equal.append(mine == peers)
    return all(equal)


# -- DRBD ------------------------------------------------------------------------------------------------------


def test_drbd_connects_at_once_over_a_long_way(small: dict[str, Any]) -> None:
    """At 60 ms the calls of both sides used to cross, and a word of the peer's came after the new UUID."""
    small["links"]["zone"]["rtt"] = "60ms"
    with standing(UmlSite(), study_of(small, [PLAIN, DRBD]), ["one"]) as stand:
        assert not wrong(stand)
        for host in ("a1", "a2"):
            log = must(stand.lab.hosts[host], ["dmesg"])
            assert "Handshake successful" in log, host
            assert "crossed" not in log and "UpToDate -> Inconsistent" not in log, host


@pytest.mark.long
def test_drbd_is_built_over_its_data_connected_or_alone(small: dict[str, Any]) -> None:
    ahead = {
        "on-congestion": "pull-ahead", "congestion-fill": "400k", "congestion-extents": 1000,
        "sndbuf-size": "2M", "rcvbuf-size": "1M", "max-buffers": 8000, "max-epoch-size": 8000,
        "unplug-watermark": 16,
    }  # fmt: skip

    def mirror(**fields: Any) -> Study:
        return study_of(small, [PLAIN, {**DRBD, **fields}, {"layer": "ext4"}])

    with standing(UmlSite(), mirror(), ["one"]) as stand:
        here, there = stand.lab.hosts["a1"], stand.lab.hosts["a2"]
        here.put("/mnt/one/file", b"x" * 100_000)
        undone(stand)
        uml(stand).save("file")
        for fields in (
            {"standalone": True, "net": {"max-buffers": 8000}},
            # What was written alone reaches the peer when both are built together again.
            {"protocol": "B"},
            {"protocol": "A", "net": ahead},
        ):
            stand = rebuilt(stand, mirror(**fields), over_data=True)
            found = knobs(stand)
            assert not not_in_force(found), fields
            states = {knob.name: knob.value for knob in found if knob.name in ("cstate", "dstate")}
            if "standalone" in fields:
                assert states == {"cstate": "StandAlone", "dstate": "UpToDate/DUnknown"}
                here.put("/mnt/one/alone", b"y" * 100_000)
            elif "net" not in fields:
                assert states == {"cstate": "Connected", "dstate": "UpToDate/UpToDate"}
            assert here.get("/mnt/one/file") == b"x" * 100_000
            assert here.get("/mnt/one/alone") == b"y" * 100_000
            undone(stand)
            for host in (here, there):
                assert " cs:" not in must(host, ["cat", "/proc/drbd"])
                assert must(host, ["ls", "/etc/drbd.d"]) == "global_common.conf\n"
        # Back to when there was but one file, on both sides.
        uml(stand).restore("file")
        stand = rebuilt(stand, mirror(), over_data=True)
        assert not wrong(stand)
        assert must(here, ["ls", "/mnt/one"]).split() == ["file", "lost+found"]
        undone(stand)
        # From scratch, with an option that the kernel clamps: the value in force is told.
        with pytest.raises(StudyError, match=r"al-extents: 65534 is more .*: at most 6433"):
            mirror(disk={"al-extents": 65534})
        uml(stand).restore("")
        stand = rebuilt(stand, unchecked(mirror(standalone=True), disk={"al-extents": 65534}), over_data=False)
        assert {knob.host: knob.value for knob in not_in_force(knobs(stand))} == {"a1": "6433", "a2": "6433"}
        undone(stand)


# -- links -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_two_lanes_carry_a_mirror_nearly_twice_as_fast(small: dict[str, Any]) -> None:
    lane = {"between": ["a1", "a2"], "rtt": "0.5ms", "rate": "20Mbit/s", "mtu": 9000}
    small["nodes"]["a1"]["sysctl"] = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "vm.swappiness": 1}
    small["links"] = {
        "single": lane,
        "double": {**lane, "lanes": 2},
        "hashed": {**lane, "lanes": 2, "bond": "balance-xor"},
    }
    small["stacks"] = {
        name: {"on": "a1", "layers": [PLAIN, {**DRBD, "link": name}]} for name in ("single", "double", "hashed")
    }
    small["baseline"] = "single"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    study = build(small)
    with standing(UmlSite(), study, list(study.stacks)) as stand:
        here = stand.lab.hosts["a1"]
        assert not any(wrong(stand, name) for name in study.stacks)
        seconds: dict[str, float] = {}
        sent: dict[str, list[int]] = {}
        for name in study.stacks:
            lanes = stand.ground.ends[name]["a1"].lanes
            before = [packets(here, nic) for nic in lanes]
            started = time.monotonic()
            device = stand.ports[name][-1].where
            must(here, ["dd", "if=/dev/zero", f"of={device}", "bs=256k", "count=12", "oflag=direct"])
            seconds[name] = time.monotonic() - started
            sent[name] = [packets(here, nic) - was for nic, was in zip(lanes, before, strict=True)]
        # 3 MiB take 1.26 s at 20 Mbit/s.
        assert seconds["single"] > 1.1
        assert min(sent["double"]) > 150 and max(sent["double"]) < 1.2 * min(sent["double"])
        # One TCP stream has one hash, so one lane carries all of it; DRBD's few acknowledgements are a second one.
        assert min(sent["hashed"]) < max(sent["hashed"]) / 5 and seconds["hashed"] > 1.1
        must(
            here,
            ["ping", "-M", "do", "-s", "8900", "-c", "1", "-w", "20", stand.ground.ends["double"]["a2"].address],
        )
        undone(stand)
        assert "netem" not in must(here, ["tc", "qdisc", "show"])
        # The same nodes, another delay.
        small["links"]["double"] = {**small["links"]["double"], "rtt": "5ms"}
        slower = Standing(stand.lab, build(small), ["double"], stand.ground, fresh=False)
        slower.build(over_data=True)
        assert not wrong(slower, "double")
        slower.engine.ask(slower.facts["double"])
        assert slower.engine.times["link double"][-1].least > 4.5e-3
        undone(slower)


def packets(host: Host, nic: str) -> int:
    """How many it has sent."""
    return int(
        json.loads(must(host, ["ip", "-s", "-j", "link", "show", "dev", nic]))[0]["stats64"]["tx"]["packets"]
    )


# Numbers that come: all that are sent, or those until five seconds of silence, for the kernel may drop some.
RECEIVE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    line.bind(("", 4711))
    print("listens", flush=True)
    line.settimeout(60)
    found = [int(line.recv(100))]
    line.settimeout(5)
    try:
        while len(found) < 500:
            found.append(int(line.recv(100)))
    except TimeoutError:
        pass
print(*found)
"""
SEND = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    for number in range(500):
        line.sendto(b"%d" % number, (sys.argv[1], 4711))
"""


@pytest.mark.long
def test_jitter_does_not_change_the_order_of_packets(small: dict[str, Any], tmp_path: Path) -> None:
    """TCP takes packets that were overtaken for lost ones."""
    small["links"]["zone"] |= {"rtt": "5ms", "jitter": "2ms"}
    with standing(UmlSite(), study_of(small, [PLAIN, DRBD]), ["one"]) as stand:
        here, there = (stand.lab.hosts[name] for name in ("a1", "a2"))
        assert not wrong(stand)
        out = tmp_path / "out"
        receiver = there.spawn(["python3", "-c", RECEIVE], out, tmp_path / "err")
        deadline = time.monotonic() + 60
        while not out.exists() or b"listens" not in out.read_bytes():
            assert receiver.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        must(here, ["python3", "-c", SEND, stand.ground.ends["zone"]["a2"].address])
        assert receiver.wait(120) == 0, (tmp_path / "err").read_text()
        numbers = [int(word) for word in out.read_text().split()[1:]]
        assert len(numbers) > 20 and numbers == sorted(numbers)


@pytest.mark.long
def test_two_lanes_do_not_stop_a_slow_volume(small: dict[str, Any]) -> None:
    """The kernel by itself loses the volume's interrupt after some hundred MB: the second fault in shim.c."""
    if image.require().shim is None:
        pytest.skip("the image was built without a C compiler")
    small["links"]["zone"] |= {"rate": "400Mbit/s", "lanes": 2}
    slow = {**PLAIN, "size": "256MiB", "read_latency": "300us", "write_latency": "300us"}
    with standing(UmlSite(), study_of(small, [slow, NET]), ["one"]) as stand:
        fio = [
            "fio", "--name=x", f"--filename={stand.ports['one'][-1].where}", "--rw=write", "--bs=128k",
            "--direct=1", "--ioengine=libaio", "--iodepth=4", "--time_based", "--runtime=8",
        ]  # fmt: skip
        # fio would wait for its writes for ever.
        must(stand.lab.hosts["a1"], fio, timeout=60)


# -- file systems ----------------------------------------------------------------------------------------------


def test_ext4_flushes_unless_it_is_told_not_to(small: dict[str, Any]) -> None:
    def ext4(*mount: str) -> Study:
        return study_of(small, [PLAIN, {"layer": "ext4", "mount": list(mount)}])

    with standing(UmlSite(), ext4("barrier=0", "commit=5", "noatime"), ["one"]) as stand:
        host = stand.lab.hosts["a1"]
        # One may be late, of what mkfs wrote.
        assert not wrong(stand) and flushes_of_syncs(host) <= 1
        undone(stand)
        stand = rebuilt(stand, ext4("barrier=1", "nodiscard", "commit=7"), over_data=True)
        assert not wrong(stand) and flushes_of_syncs(host) >= 5
        must(host, ["mount", "-o", "remount,barrier=0,commit=9", "/mnt/one"])
        assert wrong(stand) == {"mount.barrier": "absent", "mount.commit=7": "absent"}
        undone(stand)


def flushes_of_syncs(host: Host) -> int:
    """How many flushes reach the volume of five writes with fsync."""

    def flushes() -> int:
        # read I/Os, merges, sectors, ms, write ..., in flight, ms, ms, discard ..., flush I/Os, ms
        return int(host.get("/sys/block/ubdb/stat").split()[15])

    must(host, ["sync"])
    before = flushes()
    for _ in range(5):
        must(host, ["dd", "if=/dev/urandom", "of=/mnt/one/file", "bs=4k", "count=1", "conv=fsync"])
    return flushes() - before
