"""What a connection over SSH costs: commands, output, connecting, and a cell beside the lab's own.

Nodes of the lab are the hosts, reached by real OpenSSH. The same study runs on nodes directly and on those hosts,
in turn; what a cell takes beside its workload is compared. About 4 minutes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench.common import show
from blocklab.cli.progress import Lines
from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.site import Site
from blocklab.model.terminal import Console
from blocklab.model.units import Duration, Size
from blocklab.runner.run import run_study
from blocklab.sites.ssh.site import SshSite
from blocklab.sites.uml.site import UmlSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.lab.reached import Reached, reached

NODES = ("a1", "a2", "b1")
SECONDS = 4
PAIRS = 3


def shape() -> Topology:
    """Three hosts, a disk each."""
    nodes = {name: NodeSpec(memory=Size("384MiB")) for name in NODES}
    links = {"zone": LinkSpec(("a1", "a2"), Duration("0ms")), "cross": LinkSpec(("a1", "b1"), Duration("0ms"))}
    return Topology(
        nodes, links, tuple(VolumeSpec("any", (name,), Profile(size=Size("128MiB"))) for name in NODES)
    )


def overhead(site: Site) -> float:
    """What a cell takes beside its workload (s): the median of the cells of a small study."""
    options = {"ioengine": "libaio", "direct": 1, "runtime": SECONDS, "time_based": 1}
    job = {"rw": "randwrite"}
    study = build(
        {
            "blocklab": 2, "name": "overhead", "question": "What does a cell cost?",
            "nodes": {"a1": {"memory": "384MiB"}},
            "stacks": {"one": {"on": "a1", "layers": [{"layer": "volume", "size": "96MiB"}]}},
            "workloads": {
                f"w{n}": {"workload": "fio", "size": "8MiB", "options": options, "jobs": {"w": job}}
                for n in range(4)
            },
        }
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocklab-bench-") as runs:
        grid = cells(study)
        folder = StudyFolder.create(Path(runs), Manifest(study, grid))
        run_study(site, study, grid, folder, Lines(Console(stderr=True, quiet=True)))
        return statistics.median(run.outcome.seconds - SECONDS for run in folder.runs())


def connecting(there: Reached) -> None:
    """Three hosts at once, cleaned and looked at."""
    times = []
    for _ in range(5):
        site, started = SshSite(Path(there.write())), time.perf_counter()
        site.connected()
        times.append(time.perf_counter() - started)
        site.close()
    show("connecting to three hosts", times, "s", "aim: under 5 s")


def commands(site: SshSite) -> None:
    """An empty order, a program, a hundred megabytes."""
    host = site.connected()["a1"]
    empty, true, output = [], [], []
    for _ in range(200):
        started = time.perf_counter()
        host.left()
        empty.append((time.perf_counter() - started) * 1e3)
        started = time.perf_counter()
        host.run(["/bin/true"])
        true.append((time.perf_counter() - started) * 1e3)
    for _ in range(3):
        started = time.perf_counter()
        assert len(host.run(["head", "-c", "100000000", "/dev/zero"], timeout=120.0).out) == 10**8
        output.append(100 / (time.perf_counter() - started))
    show("an empty order", empty, "ms", "aim: under 5 ms")
    show("/bin/true", true, "ms", "aim: under 15 ms")
    show("100 MB of output", output, "MB/s", "aim: 30 MB/s or more")


def main() -> None:
    """All of it."""
    with reached(shape()) as there:
        connecting(there)
        site = SshSite(Path(there.write()))
        commands(site)
        ratios = []
        for _ in range(PAIRS):
            lab, hosts = overhead(UmlSite()), overhead(site)
            ratios.append(hosts / lab)
            print(f"a cell beside its workload: {lab:.2f} s in the lab, {hosts:.2f} s over SSH")
        site.close()
        show("a cell over SSH, of the lab's", ratios, "", "aim: 1.5 at most")


if __name__ == "__main__":
    main()
