"""Virtual time on real kernels: exact figures, and the same bytes from the same seed. They need the image's
add-on: ``just virtual``."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import ImageError
from blocklab.runner.run import standing
from blocklab.sites.uml import image
from blocklab.sites.uml.virtual import ADDON, VirtualSite
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
    file = write(mirrored(), tmp_path)
    for name in ("first", "second"):
        done = run(file, tmp_path / name, "--clock", "virtual")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("virtual time (experimental), in which a CPU costs nothing; seed 7")
    first, second = measured(tmp_path / "first"), measured(tmp_path / "second")
    assert len(first) > 5 and first == second
    known = json.loads((tmp_path / "first" / "exact" / "report.json").read_text())
    assert known["clock"].endswith("seed 7")
    refused = run(file, tmp_path / "first", "--repeats", "2")
    assert refused.returncode == 1 and "has runs of another machine: virtual" in refused.stderr


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
