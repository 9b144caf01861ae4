"""Virtual time: how many real seconds one of its seconds takes, a boot to two connected mirrors, and a drill.

    python -m bench.virtual

Needs the image's add-on (``blocklab image build --with virtual-time``). Each ratio is of one stand, without its
boot. A drill is one of several, with its boots and without the data, which are loaded once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.common import mirror, show, study
from blocklab.cli.progress import Lines
from blocklab.model.host import Host, must
from blocklab.model.terminal import Console
from blocklab.model.workload import Armed
from blocklab.runner.events import AnyEvent, Done
from blocklab.runner.run import run_study, standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.virtual import VirtualSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study

ROUNDS = 3
DRILLS = 4
VOLUME = {"layer": "volume", "size": "256MiB", "read_latency": "450us", "write_latency": "450us"}
COST = {"syscall": "2us", "fault": "1us"}


def stretch(stand: Standing, what: Callable[[], object]) -> float:
    """Real seconds for a virtual one, while something is done."""
    timer = stand.engine.timer
    real, there = time.monotonic(), timer.now()
    what()
    return (time.monotonic() - real) / (timer.now() - there)


def run(host: Host, *argv: str) -> Callable[[], object]:
    """A command, to be run."""
    return lambda: must(host, argv, timeout=120)


def fio(host: Host, device: str, depth: int) -> Callable[[], object]:
    """4 KiB random writes for a second and a half."""
    argv = ["fio", "--name=x", f"--filename={device}", "--rw=randwrite", "--bs=4k", "--direct=1", "--size=64M",
            "--ioengine=libaio", f"--iodepth={depth}", "--time_based", "--runtime=1500ms"]  # fmt: skip
    return run(host, *argv)


def database() -> Study:
    """PostgreSQL on a mirror, under pgbench with ten clients."""
    layers = [{**VOLUME, "size": "512MiB"}, mirror("a2", "zone"), {"layer": "ext4"}, {"layer": "postgres"}]
    return build(
        {
            "blocklab": 2, "name": "bench", "question": "How fast is virtual time?",
            "nodes": {name: {"memory": "512MiB", "cpu": COST} for name in ("a1", "a2")},
            "links": {"zone": {"between": ["a1", "a2"], "rtt": "0.5ms"}},
            "stacks": {"m": {"on": "a1", "layers": layers}},
            "workloads": {"tx": {"workload": "pgbench", "scale": 1, "clients": 10, "transactions": 100}},
        }
    )  # fmt: skip


def crashed() -> Study:
    """PostgreSQL on a mirror over 10 ms that a client writes to, and a crash of the active node."""
    nodes = {name: {"memory": "512MiB" if name != "c1" else "256MiB", "cpu": COST} for name in ("c1", "a1", "a2")}
    ends = {"beat": ("a1", "a2"), "pair": ("a1", "a2"), "front": ("c1", "a1"), "back": ("c1", "a2")}
    links = {name: {"between": both, "rtt": "10ms" if name == "pair" else "0.5ms"} for name, both in ends.items()}
    layers = [{**VOLUME, "size": "240MiB"}, mirror("a2", "pair"), {"layer": "ext4"}, {"layer": "postgres"}]
    return build(
        {
            "blocklab": 2, "name": "drills", "question": "How fast is a drill?", "repeats": DRILLS + 1,
            "nodes": nodes, "links": links, "stacks": {"m": {"on": "a1", "layers": layers}},
            "workloads": {
                "ledger": {"workload": "ledger", "from": "c1", "clients": 4, "rate": 300, "after": "0.5s"}
            },
            "faults": {"kill": {"fault": "crash", "node": "active", "at": "0.5s..1s"}},
        }
    )  # fmt: skip


class Finished(Lines):
    """When each drill was stored, by the real clock."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.times: list[float] = []

    def __call__(self, event: AnyEvent) -> None:
        """Note it; one that was not carried out is no drill."""
        if isinstance(event, Done):
            assert event.status == "ok", event
            self.times.append(time.monotonic())


def drills() -> list[float]:
    """Real seconds of each drill but the first, which the data are loaded for."""
    study, seen = crashed(), Finished()
    grid = cells(study)
    with tempfile.TemporaryDirectory(prefix="blocklab-drills-") as runs:
        run_study(
            VirtualSite(), study, grid, StudyFolder.create(Path(runs), Manifest(study, grid, seed=0)), seen, 0
        )
    return [end - start for start, end in pairwise(seen.times)]


def main() -> None:
    """Medians of some stands, each of another seed."""
    found: dict[str, list[float]] = {}
    two = study({"m": [VOLUME, mirror("a2", "zone")], "n": [VOLUME, mirror("a2", "zone")]}, {"zone": ("a2", 0.5)})
    pgbench = database()
    for seed in range(ROUNDS):
        began = time.monotonic()
        with standing(VirtualSite(seed=seed), two, ["m", "n"]) as stand:
            found.setdefault("boot to two connected mirrors (s)", []).append(time.monotonic() - began)
            host, device = stand.lab.hosts["a1"], stand.ports["m"][-1].where
            for name, what in (
                ("two idle nodes", partial(stand.engine.timer.sleep, 20.0)),
                ("writes on a mirror, depth 1", fio(host, device, 1)),
                ("writes on a mirror, depth 32", fio(host, device, 32)),
            ):
                found.setdefault(name, []).append(stretch(stand, what))
        with standing(VirtualSite(seed=seed), pgbench, ["m"]) as stand:
            workload, port = pgbench.workloads["tx"], stand.ports["m"][-1]
            assert isinstance(workload, Armed)
            stand.engine.carry_out([*workload.prepare(port), *workload.arm(port)], "prepare")
            ten = run(stand.lab.hosts["a1"], *workload.command(port).argv)
            found.setdefault("pgbench, 10 clients, on a mirror", []).append(stretch(stand, ten))
    found["a drill (s)"] = drills()
    for name, values in found.items():
        show(name, values, "s" if "(s)" in name else "s of real time for one")


if __name__ == "__main__":
    main()
