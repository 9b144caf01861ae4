"""Virtual time on real kernels: exact figures, and the same bytes from the same seed. They need the image's
add-on: ``just virtual``."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from blocklab.campaign.needs import at_once
from blocklab.errors import ImageError
from blocklab.model.site import OwnTime, Snapshots, offered
from blocklab.runner.run import standing
from blocklab.sites.machine import hides_itself
from blocklab.sites.uml import image
from blocklab.sites.uml.virtual import ADDON, VirtualSite
from blocklab.store.folder import StudyFolder
from blocklab.store.run import HIDDEN, Run
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.lab.commands import BLOCKLAB, write

# Anything from scheduling to a slow disk could make two real runs differ by more than that.
CLOSE_US = 10.0


@pytest.fixture(scope="module", autouse=True)
def _addon() -> None:
    try:
        image.require((ADDON,))
    except ImageError as error:
        pytest.skip(f"{error.message}: just virtual")


def mirrored(volume: str = "450us", rtt: str = "0.5ms") -> dict[str, Any]:
    """A study of one mirror, under fio at queue depth 1."""
    disk = {"layer": "volume", "size": "64MiB", "read_latency": volume, "write_latency": volume}
    load = {"ioengine": "libaio", "direct": 1, "iodepth": 1, "bs": "4k", "runtime": 0.3}
    return {
        "blocklab": 2, "name": "exact", "question": "What does a mirror cost?", "baseline": "drbd", "repeats": 1,
        "nodes": {"a1": {"memory": "256MiB"}, "a2": {"memory": "256MiB"}},
        "links": {"zone": {"between": ["a1", "a2"], "rtt": rtt}},
        "stacks": {"drbd": {"on": "a1", "layers": [disk, {"layer": "drbd", "peer": "a2", "link": "zone"}]}},
        "workloads": {
            "io": {"workload": "fio", "size": "4MiB", "options": load, "jobs": {"w": {"rw": "randwrite"}}}
        },
    }  # fmt: skip


def run(file: Path, runs: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [*BLOCKLAB, "run", str(file), "--runs", str(runs), "--plain", "--seed", "7", *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def measured(runs: Path) -> dict[str, str]:
    """Hashes of all that the nodes printed and of all series, by the file's place."""
    found = [path for path in (runs / "exact" / "cells").glob("*/raw/**/*") if path.is_file()]
    found += (runs / "exact" / "cells").glob("*/series*")
    return {str(path.relative_to(runs)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_two_runs_of_one_seed_are_the_same_bytes(tmp_path: Path) -> None:
    """One cell after the other, and at once as far as there are CPUs."""
    study = mirrored()
    # What netem draws for each packet comes from the seed too.
    study["links"]["zone"]["jitter"] = "0.1ms"
    study["stacks"]["disk"] = {"on": "a1", "layers": study["stacks"]["drbd"]["layers"][:1]}
    file = write(study, tmp_path)
    for name, count in (("first", "1"), ("second", "2")):
        done = run(file, tmp_path / name, "--clock", "virtual", "--parallel", count)
        assert done.returncode == 0, done.stderr
        several = at_once(VirtualSite(), build(study), cells(build(study)), int(count))
        assert ("2 labs in parallel" in done.stderr) == bool(several)
        assert "virtual time (experimental), in which a CPU costs nothing; seed 7" in " ".join(done.stdout.split())
    first, second = measured(tmp_path / "first"), measured(tmp_path / "second")
    assert len(first) > 5 and first == second
    known = [json.loads((tmp_path / name / "exact" / "report.json").read_text()) for name in ("first", "second")]
    assert known[0]["clock"] == known[1]["clock"] and "; seed 7; output " in known[0]["clock"]
    refused = run(file, tmp_path / "first", "--repeats", "2")
    assert refused.returncode == 1 and "has runs of another machine: virtual" in refused.stderr


def test_programs_do_not_see_the_machines_cpu() -> None:
    if not hides_itself(Path("/proc/cpuinfo").read_text()):
        pytest.skip("this machine's CPU cannot have CPUID fault")
    with standing(VirtualSite(seed=1), build(mirrored()), ["drbd"]) as stand:
        host = stand.lab.hosts["a1"]
        # What the C library knows of the CPU: x86.cpu_features.basic.model=0x1a
        said = host.run(["/lib64/ld-linux-x86-64.so.2", "--list-diagnostics"]).text
        known = dict(line.split("=", 1) for line in said.splitlines() if line.startswith("x86.cpu_features."))
        asked = ("basic.family", "basic.model", "xsave_state_size", "level3_cache_size")
        assert [int(known[f"x86.cpu_features.{name}"], 0) for name in asked] == [6, 26, 0, 8 << 20]
        assert platform.release() not in host.run(["cat", "/proc/cpuinfo"]).text
    assert VirtualSite().environment()["host"] == {"cpu": HIDDEN, "cpus": 1}


def write_us(study: dict[str, Any]) -> float:
    """The mean latency of a write on the mirror, once its activity log has all that is written to."""
    with standing(VirtualSite(seed=1), build(study), ["drbd"]) as stand:
        argv = [
            "fio", "--name=x", f"--filename={stand.ports['drbd'][-1].where}", "--rw=randwrite", "--bs=4k",
            "--direct=1", "--ioengine=libaio", "--size=16M", "--time_based",
            "--ramp_time=500ms", "--runtime=500ms", "--output-format=json",
        ]  # fmt: skip
        text = stand.lab.hosts["a1"].run(argv, timeout=60).text
    mean: float = json.loads(text[text.index("{") :])["jobs"][0]["write"]["lat_ns"]["mean"] / 1e3
    return mean


MORE = ((0.25, 0.1), (0.25, 5.0), (5.0, 1.0), (20.0, 5.0))
FAR = [pytest.param(*each, marks=pytest.mark.long) for each in MORE]


@pytest.mark.parametrize(("rtt", "volume"), [(0.5, 0.45), *FAR])
def test_a_write_on_a_mirror_takes_the_volume_and_the_round_trip(rtt: float, volume: float) -> None:
    study = mirrored(f"{volume * 1000:g}us", f"{rtt}ms")
    assert abs(write_us(study) - 1000 * (rtt + volume)) <= CLOSE_US


@pytest.mark.long
def test_nodes_find_each_other_in_fifty_of_fifty_boots() -> None:
    for seed in range(50):
        with standing(VirtualSite(seed=seed), build(mirrored()), ["drbd"]) as stand:
            assert stand.ports["drbd"][-1].where == "/dev/drbd0"


# It waits in a loop for a flag that its child sets 30 ms later.
SPINNING = """
import mmap, os, time
flag = mmap.mmap(-1, 1)
if not os.fork():
    time.sleep(0.03)
    flag[0] = 1
    os._exit(0)
while not flag[0]:
    pass
print("seen")
"""


@pytest.mark.long
def test_a_process_that_waits_in_a_loop_cannot_stop_the_clock() -> None:
    with standing(VirtualSite(seed=1), build(mirrored()), ["drbd"]) as stand:
        lab = offered(stand.lab, OwnTime)
        assert lab.doubts() == []
        assert stand.lab.hosts["a1"].run(["python3", "-c", SPINNING], timeout=60).text == "seen\n"
        (doubt,) = lab.doubts()
        # It is told of these nodes, and of others only where they have the data.
        stand.engine.undo()
        copies = offered(stand.lab, Snapshots)
        copies.save("data")
        lab.begin("once more")
        assert lab.doubts() == []
        copies.restore("data")
        assert lab.doubts() == [f"while the data were loaded, {doubt}"]
    assert re.fullmatch(r"a1: python3 computed for 10 s or more .* without it for [3-6]0 ms; .*", doubt)


CPU = {"syscall": "2us", "fault": "1us"}


def crashed() -> dict[str, Any]:
    """A study whose asynchronous mirror loses what is under way, 10 ms of it."""
    nodes = {name: {"memory": "512MiB" if name != "c1" else "256MiB", "cpu": CPU} for name in ("c1", "a1", "a2")}
    ends = {"beat": ("a1", "a2", "0.5ms"), "pair": ("a1", "a2", "10ms"),
            "front": ("c1", "a1", "0.5ms"), "back": ("c1", "a2", "0.5ms")}  # fmt: skip
    layers = [
        {"layer": "volume", "size": "240MiB", "read_latency": "450us", "write_latency": "450us"},
        {"layer": "drbd", "peer": "a2", "link": "pair", "protocol": "A"},
        {"layer": "ext4"},
        {"layer": "postgres"},
    ]
    return {
        "blocklab": 2, "name": "exact", "question": "What does a crash lose?", "nodes": nodes,
        "links": {name: {"between": [one, other], "rtt": rtt} for name, (one, other, rtt) in ends.items()},
        "stacks": {"a": {"on": "a1", "layers": layers}},
        "workloads": {
            "ledger": {"workload": "ledger", "from": "c1", "clients": 4, "rate": 300, "after": "0.5s"}
        },
        "faults": {"kill": {"fault": "crash", "node": "active", "at": "0.5s..1s"}},
    }  # fmt: skip


def drill(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BLOCKLAB, "drill", *argv, "--plain"],
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.long
def test_a_crash_happens_again_and_can_be_searched(tmp_path: Path) -> None:
    file, runs = write(crashed(), tmp_path), tmp_path / "runs"
    done = drill(str(file), "--clock", "virtual", "--seed", "3", "--search", "2", "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    (stored,) = (runs / "exact" / "cells").glob("*/drill.json")
    first = json.loads(stored.read_text())
    lost = [each["id"] for each in first["verdict"]["missing"]]
    # 10 ms of 300 transactions a second, and those whose answers were on their way.
    assert 1 <= len(lost) <= 6 and first["mirror"]["status"] == "in sync"
    (searched,) = (runs / "exact").glob("search-*.json")
    moments = json.loads(searched.read_text())
    assert len(moments) == 2 and all(each["verdict"] == "lost" for each in moments)
    again = drill(str(file), "--replay", first["seed"], "--runs", str(runs))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "the same as before, transaction by transaction" in again.stderr + again.stdout
    there = StudyFolder(runs / "exact" / "replays" / "exact")
    (run,) = there.runs()
    history = "raw/workload/history.tsv"
    assert (run.folder / history).read_bytes() == (stored.parent / history).read_bytes()
    refused = drill(str(file), "--replay", "9 abc", "--runs", str(runs))
    assert refused.returncode == 2 and f"there are {first['seed']!r}" in refused.stderr


def iops(run: Run) -> float:
    sample = run.value("write.iops", "w")
    assert sample is not None, run.outcome
    return sample.value


@pytest.mark.long
def test_layouts_of_every_kind_stand_in_virtual_time(tmp_path: Path) -> None:
    study = mirrored()
    disk = {"layer": "volume", "size": "300MiB", "read_latency": "450us", "write_latency": "450us"}
    net = {"layer": "net-mirror", "peer": "a2", "link": "zone"}
    study["stacks"] |= {
        "stripe": {"on": "a1", "layers": [{**disk, "count": 2}, {"layer": "stripe"}, {"layer": "xfs"}]},
        "cap": {"on": "a1", "layers": [disk, {"layer": "cap", "write_iops": 500}]},
        "ext4": {"on": "a1", "layers": [disk, {"layer": "ext4"}]},
        "cached": {"on": "a1", "layers": [disk, net]},
        "net": {"on": "a1", "layers": [disk, {**net, "direct": True}]},
    }
    done = run(write(study, tmp_path), tmp_path, "--clock", "virtual")
    assert done.returncode == 0, done.stderr
    found = {each.cell.stack: iops(each) for each in StudyFolder(tmp_path / "exact").runs()}
    assert found["cap"] == pytest.approx(500, rel=0.1)
    # The server of "cached" has acknowledged a write once it is in its node's memory.
    takes = {"drbd": 0.95e-3, "stripe": 0.45e-3, "ext4": 0.45e-3, "net": 0.95e-3, "cached": 0.5e-3}
    for stack, seconds in takes.items():
        assert found[stack] == pytest.approx(1 / seconds, rel=0.1), stack


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_databases_give_the_same_bytes_too(tmp_path: Path, database: str) -> None:
    study = mirrored()
    for node in study["nodes"].values():
        node |= {"cpu": CPU, "memory": "640MiB"}
    settings = {"log_bin": True, "innodb_buffer_pool_size": "128M"} if database == "mariadb" else {}
    volume, mirror = study["stacks"]["drbd"]["layers"]
    volume["size"] = "512MiB"
    study["stacks"]["drbd"]["layers"] = [
        volume,
        mirror,
        {"layer": "ext4"},
        {"layer": database, "settings": settings},
    ]
    study["workloads"] = {
        "postgres": {"tx": {"workload": "pgbench", "scale": 1, "clients": 4, "transactions": 100}},
        "mariadb": {"tx": {"workload": "sysbench", "tables": 1, "table_size": 1000, "clients": 4, "time": "1s"}},
    }[database]
    file = write(study, tmp_path)
    for name in ("first", "second"):
        done = run(file, tmp_path / name, "--clock", "virtual")
        assert done.returncode == 0, done.stderr
    first, second = measured(tmp_path / "first"), measured(tmp_path / "second")
    assert len(first) > 5 and first == second
