"""Volumes with a profile on real nodes: caps, quantiles, requests under way, discards, faults, nodes that end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import NodeLost
from blocklab.model.ground import Degrade, Slow
from blocklab.model.host import Host, Proc, must
from blocklab.model.latency import requests
from blocklab.model.plan import Equip
from blocklab.model.units import Bandwidth, Duration, Share, Size
from blocklab.runner.engine import Engine
from blocklab.sites.uml.site import UmlLab
from tests.lab.conftest import served

MIB = 1 << 20
# Seconds that something which takes none may take on a busy machine.
PATIENCE = 30.0
# One write of /dev/vda past the page cache; prints what became of it: "done" or the error's number.
WRITE = """\
import mmap, os, sys
disk = os.open("/dev/vda", os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
page.write(sys.argv[2].encode() * 4096)
try:
    os.pwrite(disk, page, int(sys.argv[1]))
    print("done")
except OSError as error:
    print(error.errno)
"""
EIO = "5\n"
FIO = ("fio", "--name=x", "--filename=/dev/vda", "--direct=1", "--ioengine=libaio", "--bs=4k", "--norandommap",
       "--time_based", "--output-format=json")  # fmt: skip


def fio(host: Host, *options: str, seconds: float = 4.0) -> dict[str, Any]:
    """fio's results of one job on the volume, after a second that does not count."""
    argv = [*FIO, f"--runtime={seconds:g}", "--ramp_time=1", "--percentile_list=50:99:99.9", *options]
    text = must(host, argv, timeout=seconds + 60)
    job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
    return job


def percentiles(host: Host, seconds: float) -> dict[str, float]:
    """Of 4 KiB writes one by one, in ns, submission included: it waits for the volume, too."""
    job = fio(host, "--rw=randwrite", "--clat_percentiles=0", "--lat_percentiles=1", seconds=seconds)
    found: dict[str, float] = job["write"]["lat_ns"]["percentile"]
    return found


def started(host: Host, folder: Path, *argv: str) -> Proc:
    """A program that is not waited for."""
    return host.spawn(argv, folder / "out", folder / "err")


def crash(lab: UmlLab, proc: Proc) -> None:
    """Kill the node a1, on which a program still runs."""
    lab.crash("a1")
    with pytest.raises(NodeLost):
        proc.wait(PATIENCE)


def write(host: Host, offset: int, letter: str) -> str:
    return must(host, ["python3", "-c", WRITE, str(offset), letter], timeout=PATIENCE)


def stored(lab: UmlLab, offset: int, size: int) -> bytes:
    file = lab.volume("s", "a1")
    assert file is not None
    with file.open("rb") as data:
        data.seek(offset)
        return data.read(size)


# -- limits and latencies --------------------------------------------------------------------------------------


def test_a_cap_holds_at_depth_and_both_directions_share_it() -> None:
    with served("a1", iops=1500) as lab:
        job = fio(lab.hosts["a1"], "--rw=randrw", "--iodepth=32")
        total = job["read"]["iops"] + job["write"]["iops"]
        # Each by itself would give 3,000. How near the cap is held is for bench.volume: machines differ.
        assert 1500 * 0.6 <= total <= 1500 * 1.01
        counted = lab.order("s", "a1", "stats")
        assert counted["in_flight_most"] >= 31 and counted["limited_seconds"] > 1


@pytest.mark.long
def test_each_direction_has_its_cap_and_large_requests_count_as_several() -> None:
    with served("a1", read_iops=800, write_iops=400, io_most=Size("64KiB")) as lab:
        job = fio(lab.hosts["a1"], "--rw=randrw", "--rwmixread=67", "--iodepth=48", "--bs=4k")
        # At one mix of the two the slower direction decides; neither is above its own.
        assert job["read"]["iops"] <= 808 and job["write"]["iops"] <= 404
        assert job["read"]["iops"] >= 600 or job["write"]["iops"] >= 300
        large = fio(lab.hosts["a1"], "--rw=randwrite", "--iodepth=8", "--bs=256k")["write"]
        # A busy machine makes it less, and nothing makes it more.
        assert 70 <= large["iops"] <= 102


@pytest.mark.long
def test_bandwidth_is_capped_and_a_burst_is_used_up_and_filled_again() -> None:
    with served("a1", iops=200, burst_iops=1000, burst_seconds=3, bandwidth=Bandwidth("200MB/s")) as lab:
        host = lab.hosts["a1"]
        load = [*FIO, "--rw=randwrite", "--iodepth=16"]
        lab.refill()
        must(host, [*load, "--runtime=8"], timeout=60)
        # 3000 from the bucket, and 200 a second, however slow the machine makes them at first.
        assert 4600 * 0.95 <= lab.order("s", "a1", "stats")["writes"] <= 4600 * 1.1
        assert lab.order("s", "a1", "stats")["burst_left"] < 300
        lab.refill()
        assert lab.order("s", "a1", "stats")["burst_left"] == pytest.approx(3000, abs=5)
        must(host, [*load, "--runtime=2"], timeout=60)
        # 200 a second would make 420 of them.
        assert lab.order("s", "a1", "stats")["writes"] > 800
    with served("a1", bandwidth=Bandwidth("20MB/s")) as lab:
        found = fio(lab.hosts["a1"], "--rw=write", "--bs=128k", "--iodepth=8")["write"]["bw_bytes"]
        assert 20e6 * 0.94 <= found <= 20e6 * 1.02


def test_more_than_sixteen_requests_are_under_way() -> None:
    """With 16 at most a volume of 20 ms would do 800 I/Os a second."""
    with served("a1", write_latency=Duration("20ms")) as lab:
        found = fio(lab.hosts["a1"], "--rw=randwrite", "--iodepth=64")["write"]["iops"]
        assert 1600 <= found <= 3250
        assert lab.order("s", "a1", "stats")["in_flight_most"] == 64


def test_a_distribution_is_never_early_and_becomes_a_constant() -> None:
    """How late it is, is judged in ``test_distribution``, by what the machine itself takes."""
    with served("a1", write_quantiles={"p50": Duration("2ms"), "p99": Duration("12ms")}) as lab:
        host = lab.hosts["a1"]
        found = percentiles(host, seconds=5)
        # About 1600 requests, and 16 of them above p99.
        assert found["50.000000"] >= 2e6 * 0.99 and found["99.000000"] >= 12e6 * 0.85
        lab.order("s", "a1", "retune", profile={"write_quantiles": None, "write_latency": 0.005})
        assert percentiles(host, seconds=1)["50.000000"] >= 5e6 * 0.99


@pytest.mark.long
def test_a_schedule_lowers_the_cap_and_ends() -> None:
    with served("a1", iops=1000, degrade=Degrade(Share("10%"), Duration("2s"), Duration("4s"))) as lab:
        host = lab.hosts["a1"]
        lab.refill()
        must(host, [*FIO, "--rw=randwrite", "--iodepth=16", "--runtime=8"], timeout=60)
        # Two periods and what ran over: half of the time at 1000 a second, half at 100.
        counted = lab.order("s", "a1", "stats")
        assert 8 * 550 * 0.85 <= counted["writes"] <= 8 * 550 * 1.25


def test_slow_spells_come_and_go() -> None:
    slow = Slow(times=20, lasts=Duration("300ms"), every=Duration("600ms"))
    with served("a1", write_latency=Duration("1ms"), slow=slow) as lab:
        lab.refill()
        job = fio(lab.hosts["a1"], "--rw=randwrite", "--clat_percentiles=0", "--lat_percentiles=1", seconds=4)
        took = job["write"]["lat_ns"]
        assert took["percentile"]["99.000000"] >= 19e6 and 0.9e6 <= took["min"] < 10e6


# -- data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
def test_discards_and_zeroes_leave_holes_and_all_else_as_it_was(disk: bool, tmp_path: Path) -> None:
    """A file on a disk is read and written by other threads."""
    with served("a1", volumes=tmp_path if disk else None, iops=100_000) as lab:
        host = lab.hosts["a1"]
        must(host, ["python3", "-c", 'open("/dev/vda", "r+b").write(b"x" * (1 << 22))'])
        must(host, ["sync"])
        assert stored(lab, 0, 4 * MIB) == b"x" * 4 * MIB
        must(host, ["blkdiscard", "--offset", "65536", "--length", "131072", "/dev/vda"])
        must(host, ["blkdiscard", "--zeroout", "--offset", str(MIB), "--length", "8192", "/dev/vda"])
        wanted = bytearray(b"x" * 4 * MIB)
        wanted[65536 : 65536 + 131072] = bytes(131072)
        wanted[MIB : MIB + 8192] = bytes(8192)
        assert stored(lab, 0, 4 * MIB) == wanted
        file = lab.volume("s", "a1")
        assert file is not None and file.stat().st_blocks * 512 <= 4 * MIB - 131072
        counted = lab.order("s", "a1", "stats")
        # No write cache: a flush is not even sent.
        assert counted["discards"] >= 1 and counted["flushes"] == 0 and counted["writes_failed"] == 0
        # Past the page cache a read gives what is stored.
        read = "import os; print(os.pread(os.open('/dev/vda', os.O_RDONLY), 2, 65535))"
        assert must(host, ["python3", "-c", read]) == "b'x\\x00'\n"


def test_a_file_on_a_disk_holds_up_nothing_and_survives_its_node(tmp_path: Path) -> None:
    with served("a1", volumes=tmp_path, write_latency=Duration("5ms")) as lab:
        found = fio(
            lab.hosts["a1"], "--rw=randwrite", "--iodepth=64", "--verify=crc32c", "--do_verify=0", seconds=2
        )
        assert found["write"]["iops"] > 16 / 5e-3
        assert lab.order("s", "a1", "stats")["in_flight_most"] == 64
        load = started(lab.hosts["a1"], tmp_path, *FIO, "--rw=randwrite", "--iodepth=64", "--runtime=60")
        time.sleep(1)
        crash(lab, load)
        lab.boot("a1")
        assert write(lab.hosts["a1"], 0, "d") == "done\n" and stored(lab, 0, 4096) == b"d" * 4096
        assert lab.order("s", "a1", "stats")["in_flight"] == 0


def test_a_shared_volume_has_one_cap_and_one_content() -> None:
    with served("a1", "a2", iops=10_000) as lab:
        assert write(lab.hosts["a2"], 8192, "q") == "done\n"
        read = "import os; print(os.pread(os.open('/dev/vda', os.O_RDONLY), 2, 8191))"
        assert must(lab.hosts["a1"], ["python3", "-c", read]) == "b'\\x00q'\n"
        assert lab.order("s", "a2", "stats")["nodes"] == 2


# -- faults at run time ----------------------------------------------------------------------------------------


def test_a_range_fails_and_nothing_else() -> None:
    with served("a1", iops=100_000) as lab:
        host = lab.hosts["a1"]
        lab.order("s", "a1", "faults", errors=[{"start": 8192, "end": 12288, "reads": False}])
        assert [write(host, at, "a") for at in (4096, 8192, 12288)] == ["done\n", EIO, "done\n"]
        counted = lab.order("s", "a1", "stats")
        assert counted["writes_failed"] >= 1 and counted["reads_failed"] == 0
        lab.order("s", "a1", "faults")
        assert write(host, 8192, "b") == "done\n"
        assert stored(lab, 4096, 12288) == b"a" * 4096 + b"b" * 4096 + b"a" * 4096


def test_a_full_volume_takes_what_it_has_room_for() -> None:
    with served("a1", iops=100_000) as lab:
        host = lab.hosts["a1"]
        assert write(host, 0, "a") == "done\n"
        lab.order("s", "a1", "faults", full=True)
        assert [write(host, at, "b") for at in (0, MIB)] == ["done\n", EIO]
        lab.order("s", "a1", "faults")
        assert write(host, MIB, "c") == "done\n"


def test_a_stalled_volume_answers_when_the_stall_ends_and_a_slow_one_late(tmp_path: Path) -> None:
    with served("a1", write_latency=Duration("1ms")) as lab:
        host = lab.hosts["a1"]
        lab.order("s", "a1", "faults", stall=True)
        waiting = started(host, tmp_path, "python3", "-c", WRITE, "0", "s")
        deadline = time.monotonic() + PATIENCE
        while not lab.order("s", "a1", "stats")["in_flight"]:
            assert time.monotonic() < deadline, "the write did not arrive"
            time.sleep(0.05)
        assert stored(lab, 0, 1) == b"\0"
        lab.order("s", "a1", "faults", slow=500)
        assert waiting.wait(PATIENCE) == 0
        assert stored(lab, 0, 1) == b"s"
        start = time.monotonic()
        assert write(host, 0, "t") == "done\n"
        assert time.monotonic() - start >= 0.5


def test_orders_that_make_no_sense_change_nothing() -> None:
    with served("a1", iops=500) as lab:
        for op, fields in (("dance", {}), ("faults", {"stal": True}), ("retune", {"profile": {"iops": -1}})):
            with pytest.raises(Exception, match="did not carry out"):
                lab.order("s", "a1", op, **fields)
        assert lab.order("s", "a1", "stats")["profile"]["iops"] == 500
        assert write(lab.hosts["a1"], 0, "a") == "done\n"


# -- nodes that are gone ---------------------------------------------------------------------------------------


def test_a_killed_node_is_noticed_and_finds_its_data_when_it_is_back(tmp_path: Path) -> None:
    with served("a1", iops=100_000) as lab:
        assert write(lab.hosts["a1"], 4096, "k") == "done\n"
        lab.order("s", "a1", "faults", stall=True)
        lost = started(lab.hosts["a1"], tmp_path, "python3", "-c", WRITE, "8192", "l")
        deadline = time.monotonic() + PATIENCE
        while not lab.order("s", "a1", "stats")["in_flight"]:
            assert time.monotonic() < deadline, "the write did not arrive"
            time.sleep(0.05)
        crash(lab, lost)
        while lab.order("s", "a1", "stats")["nodes"]:
            assert time.monotonic() < deadline, "the end of the node was not noticed"
            time.sleep(0.05)
        # What was not done yet never will be, and nobody waits for it.
        assert lab.order("s", "a1", "stats")["in_flight"] == 0
        lab.order("s", "a1", "faults")
        lab.boot("a1")
        assert stored(lab, 4096, 8192) == b"k" * 4096 + bytes(4096)
        assert write(lab.hosts["a1"], 8192, "m") == "done\n"
        read = "import os; print(os.pread(os.open('/dev/vda', os.O_RDONLY), 2, 8191))"
        assert must(lab.hosts["a1"], ["python3", "-c", read]) == "b'km'\n"
        counted = lab.order("s", "a1", "stats")
        assert counted["nodes"] == 1 and counted["connections"] == 2


def test_one_node_of_two_is_killed_and_the_other_goes_on(tmp_path: Path) -> None:
    with served("a1", "a2", write_latency=Duration("2ms")) as lab:
        load = started(lab.hosts["a1"], tmp_path, *FIO, "--rw=randwrite", "--iodepth=32", "--runtime=60")
        deadline = time.monotonic() + PATIENCE
        while lab.order("s", "a1", "stats")["writes"] < 100:
            assert time.monotonic() < deadline, "no load"
            time.sleep(0.05)
        crash(lab, load)
        assert write(lab.hosts["a2"], 0, "z") == "done\n"
        assert lab.order("s", "a2", "stats")["nodes"] == 1


def test_measuring_a_volume_changes_nothing_on_it() -> None:
    with served("a1", read_latency=Duration("1ms"), write_latency=Duration("1ms")) as lab:
        node = lab.hosts["a1"]
        Engine(lab).carry_out([Equip("a1")], "build")
        must(node, ["dd", "if=/dev/urandom", "of=/dev/vda", "bs=1M", "count=70", "oflag=direct"])
        digest = must(node, ["sha256sum", "/dev/vda"], timeout=60)
        for way in ("read", "write"):
            fact = requests("a1", "/dev/vda", way, 1e-3)
            times = fact.parse(must(node, fact.argv))
            # No upper bound: a busy machine adds to it, and nothing can take from it.
            assert 1e-3 <= float(times["least"]) <= float(times["median"]) <= float(times["most"])
        assert must(node, ["sha256sum", "/dev/vda"], timeout=60) == digest
        must(node, ["mkfs.ext4", "-q", "-F", "/dev/vda"])
        must(node, ["mount", "/dev/vda", "/mnt"])
        # What is in use is read, and never written.
        assert node.run(requests("a1", "/dev/vda", "read").argv).code == 0
        refused = node.run(requests("a1", "/dev/vda", "write").argv)
        assert refused.code != 0 and "Device or resource busy" in refused.said


def test_latencies_and_caps_are_what_the_lab_was_told_last() -> None:
    with served("a1", read_latency=Duration("2ms"), iops=50) as lab:
        node = lab.hosts["a1"]
        Engine(lab).carry_out([Equip("a1")], "build")
        (volume,) = (each.spec for each in lab._volumes)

        def reads() -> dict[str, float]:
            fact = requests("a1", "/dev/vda", "read", most=30)
            return {name: float(value) for name, value in fact.parse(must(node, fact.argv)).items()}

        lab.set_latencies(volume, {"read": 0.0}, whole=False)
        free = reads()["mean"]
        lab.set_latencies(volume, {"read": 5e-3}, whole=False)
        assert reads()["least"] >= 5e-3
        lab.set_latencies(volume, {"read": 0.0}, whole=True)
        # 33 reads at 50 a second, of which five are let through at once.
        assert reads()["mean"] > 0.8 / 50 > free
