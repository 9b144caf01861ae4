"""blocklab, ssh, the agents and the network between are ended at random moments of a study on hosts: no finished
cell is lost, nothing is left behind, and a disk that was not claimed stays as it was."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.host import must
from blocklab.model.units import Duration, Size
from blocklab.store.folder import StudyFolder
from tests.lab.reached import Reached, blocklab, reached, residue

MOMENTS = 20
STUDY = """\
blocklab: 2
name: killed
question: Is anything lost?
baseline: local
repeats: 3
nodes:
  a1: {memory: 512MiB}
  a2: {memory: 512MiB}
links:
  zone: {between: [a1, a2]}
stacks:
  local: {on: a1, layers: [&disk {layer: volume, size: 96MiB}, {layer: ext4}]}
  mirror: {on: a1, layers: [*disk, {layer: drbd, peer: a2, link: zone}, {layer: ext4}]}
workloads:
  one: {workload: fio, size: 8MiB, jobs: {w: {rw: randwrite, bs: 4k, runtime: 2, time_based: 1, direct: 1}}}
  two: {workload: fio, size: 8MiB, jobs: {r: {rw: randread, bs: 4k, runtime: 2, time_based: 1, direct: 1}}}
"""


@pytest.fixture
def there() -> Iterator[Reached]:
    """Two hosts with a disk for blocklab, and one with somebody's data."""
    nodes = {name: NodeSpec(memory=Size("512MiB")) for name in ("a1", "a2")}
    volumes = tuple(
        VolumeSpec("any", (name,), Profile(size=Size("128MiB")), index) for name in nodes for index in range(2)
    )
    shape = Topology(nodes, {"zone": LinkSpec(("a1", "a2"), Duration("0ms"))}, volumes)
    with reached(shape) as found:
        for name, node in found.lab.nodes.items():
            must(node, ["mkfs.ext4", "-q", "-F", found.disks[name].pop("disk1")["id"]])
            must(node, ["sync"])
        yield found


def planted(there: Reached) -> list[str]:
    """Checksums of the disks that blocklab was not given."""
    files = [there.lab.volume("any", name, 1) for name in there.lab.nodes]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file is not None]


def strike(there: Reached, what: str, process: subprocess.Popen[bytes], dice: random.Random) -> None:
    name = dice.choice(list(there.lab.nodes))
    if what == "blocklab":
        process.send_signal(signal.SIGKILL)
    elif what == "agent":
        there.lab.nodes[name].run(["pkill", "-KILL", "-f", "python3 -I -S -u -c"])
    elif what == "ssh":
        subprocess.run(["pkill", "-KILL", "-P", str(process.pid), "ssh"], check=False)
    else:
        there.bridges[name].break_off()


@pytest.mark.long
def test_whatever_ends_at_random_moments(there: Reached, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    hosts, before, dice = there.write(), planted(there), random.Random(18)
    clean = residue(there)
    folder = StudyFolder(tmp_path / "runs/killed")
    finished: set[str] = set()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for moment in range(MOMENTS):
        what = ("blocklab", "agent", "ssh", "cut")[moment % 4]
        again = [] if moment % 5 else ["--again"]
        process = subprocess.Popen(
            [sys.executable, "-m", "blocklab.cli.main", "run", "study.yaml", "--hosts", hosts, "--plain", *again],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(dice.uniform(2.0, 25.0))
            if process.poll() is None:
                strike(there, what, process, dice)
            process.wait(400)
        finally:
            process.kill()
            process.wait()
        done = (
            {run.cell.key for run in folder.runs() if run.outcome.status == "ok"}
            if folder.cells.exists()
            else set()
        )
        assert finished <= done, f"moment {moment}: a finished cell was lost when {what} ended"
        finished = done
        code, said = blocklab("down", "--hosts", hosts, folder=tmp_path)
        assert code == 0, f"moment {moment}, {what}: {said}"
        assert residue(there) == clean, f"moment {moment}, {what}"
        assert planted(there) == before
    code, said = blocklab("resume", folder=tmp_path)
    assert code == 0, said
    assert {run.outcome.status for run in folder.runs()} == {"ok"} and len(list(folder.runs())) == 12
    assert residue(there) == clean and planted(there) == before
