"""A study over K of Dask's workers on this machine, whose labs are fake: speed-up, overhead, the controller.

``python -m bench.cluster``: cells that take 2 s on 1, 2, 4 and 8 workers, in turn. ``--cells 10000``: so many
that take no time, over 8 workers: the controller's memory and CPU time, and the time of the report. ``--nodes``:
real nodes, on one worker and on two with a CPU each, in turn.
"""

from __future__ import annotations

import argparse
import copy
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.common import show
from blocklab.store.folder import StudyFolder
from tests.conftest import SMALL
from tests.fake.dasked import Cluster, events, until
from tests.fake.runs import io

WORKERS = (1, 2, 4, 8)
CELL_SECONDS = 2.0


def study(place: Path, *, repeats: int, depths: int, name: str = "bench") -> Path:
    """One stack and one workload at so many depths."""
    small: dict[str, Any] = copy.deepcopy(SMALL)
    small |= {"name": name, "stacks": {"local": small["stacks"]["local"]}, "nodes": {"a1": {"memory": "256MiB"}}}
    small |= {"workloads": {"io": io(small)}, "repeats": repeats, "links": {}}
    values = list(range(1, depths + 1))
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": values}}
    YAML().dump(small, place / f"{name}.yaml")
    return place / f"{name}.yaml"


@contextmanager
def cluster(count: int, seconds: float) -> Iterator[Cluster]:
    """So many workers that have registered."""
    with (
        tempfile.TemporaryDirectory(prefix="blocklab-cluster-") as place,
        Cluster(Path(place), seconds=seconds) as made,
    ):
        made.scheduler()
        for number in range(count):
            made.worker(f"w{number}")
        for number in range(count):
            log = Path(place) / f"w{number}.log"
            until(lambda log=log: "Registered to" in log.read_text())  # type: ignore[misc]
        yield made


def measured(made: Cluster, *, repeats: int, depths: int) -> list[dict[str, Any]]:
    """The events of a study."""
    study(made.place, repeats=repeats, depths=depths)
    process = made.blocklab(
        "run", "bench.yaml", "--site", "fake", "--runs", "runs", "--dask", made.address, "--yes",
        "--events", "events.jsonl",
    )  # fmt: skip
    out, said = process.communicate()
    assert process.returncode == 0, said + out
    return events(made.place / "events.jsonl")


def span(said: list[dict[str, Any]]) -> float:
    """From the first unit's begin to the last one's end, in seconds."""
    ends: list[float] = [each["time"] for each in said if each["event"] == "kept"]
    begins: list[float] = [each["time"] for each in said if each["event"] == "unit"]
    return max(ends) - min(begins)


def speed(rounds: int, repeats: int, depths: int) -> None:
    """K workers beside one: the same study, in turn."""
    spans: dict[int, list[float]] = {count: [] for count in WORKERS}
    overheads: list[float] = []
    for _ in range(rounds):
        for count in WORKERS:
            with cluster(count, CELL_SECONDS) as made:
                said = measured(made, repeats=repeats, depths=depths)
            spans[count].append(span(said))
            for unit in {each["unit"] for each in said if each["event"] == "kept"}:
                mine = {each["event"]: each["time"] for each in said if each.get("unit") == unit}
                loads = sum(
                    each["seconds"] for each in said if each.get("unit") == unit and each["event"] == "done"
                )
                overheads.append(mine["kept"] - mine["unit"] - loads)
    print(f"{repeats} units of {depths} cells of {CELL_SECONDS:g} s")
    for count in WORKERS:
        show(f"{count} workers", spans[count], "s")
        if count > 1:
            ratios = [one / many for one, many in zip(spans[1], spans[count], strict=True)]
            show(f"  times as fast as one, by {count}", [ratio / count for ratio in ratios], "", "aim: 0.9")
    show("overhead of a unit, transfer included", overheads, "s", "aim: 0.5 s without the transfer")


def many(cells: int) -> None:
    """The controller of a study of many cells: all of them at no time."""
    with cluster(8, 0.0) as made:
        study(made.place, repeats=8 * 5, depths=cells // 40)
        argv = [
            sys.executable, "-m", "bench.cluster", "--controller", str(made.place), made.address,
        ]  # fmt: skip
        print(subprocess.run(argv, check=True, text=True, capture_output=True).stdout, end="")
        folder = StudyFolder(made.place / "runs" / "bench")
        began = time.monotonic()
        report = [sys.executable, "-m", "blocklab.cli.main", "report", str(folder.path)]
        subprocess.run(report, check=True, capture_output=True)
        print(f"report: {time.monotonic() - began:.1f} s (aim: 60 s)")


def controller(place: Path, address: str) -> None:
    """Hand out and take back, and say what this process took."""
    from blocklab.cluster.control import Controller
    from blocklab.cluster.scheduler import opened
    from blocklab.store.folder import Manifest, Workers
    from blocklab.study.grid import cells
    from blocklab.study.read import read

    what = read(place / "bench.yaml")
    grid, workers = cells(what), Workers(address)
    todo = tuple(cell.key for cell in grid)
    manifest = Manifest(what, grid, seed=1, site="fake", workers=workers, todo=todo)
    folder = StudyFolder.create(place / "runs", manifest)
    began, used = time.monotonic(), time.process_time()
    with opened(workers) as there:
        bad = Controller(folder, there, lambda event: None).run(grid)
    took, used = time.monotonic() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = used / len(grid)
    share = 100 * each * 8 / CELL_SECONDS
    print(f"{len(grid):,} cells, {bad} bad, in {took:.0f} s; the controller: {memory:.0f} MiB (aim: 300), "
          f"{each * 1e3:.1f} ms of CPU a cell: {share:.1f} % of a core with 8 workers and cells of "
          f"{CELL_SECONDS:g} s (aim: 20 %), {100 * used / took:.0f} % here, where they take no time")  # fmt: skip


def nodes(rounds: int) -> None:
    """Real nodes: a volume under fio on one worker, and on two with a CPU each."""
    options = {"direct": 1, "runtime": 4, "time_based": True, "ioengine": "libaio"}
    fio = {"workload": "fio", "size": "32MiB", "fill": False, "options": options}
    plain = {"layer": "volume", "size": "64MiB", "write_latency": "450us"}
    what = {
        "blocklab": 2, "name": "bench", "question": "What do two workers on one machine do?", "repeats": 6,
        "nodes": {"a1": {"memory": "256MiB"}}, "stacks": {"plain": {"on": "a1", "layers": [plain]}},
        "workloads": {"io": {**fio, "jobs": {"write-4k": {"rw": "randwrite", "bs": "4k"}}}},
        "factors": {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 32]}},
    }  # fmt: skip
    spans: dict[int, list[float]] = {1: [], 2: []}
    iops: dict[tuple[int, str], list[float]] = {}
    for _ in range(rounds):
        for count in spans:
            folder = tempfile.TemporaryDirectory(prefix="blocklab-cluster-")
            with folder as place, Cluster(Path(place), real={}) as made:
                YAML().dump(what, made.place / "bench.yaml")
                made.scheduler()
                for number in range(count):
                    made.worker(f"w{number}", cpu=number if count > 1 else None)
                process = made.blocklab(
                    "run", "bench.yaml", "--runs", "runs", "--dask", made.address, "--events", "events.jsonl"
                )
                out, said = process.communicate()
                assert process.returncode == 0, said + out
                spans[count].append(span(events(made.place / "events.jsonl")))
                for run in StudyFolder(made.place / "runs" / "bench").runs():
                    value = run.value("write.iops", "write-4k")
                    assert value is not None
                    iops.setdefault((count, run.cell.levels["depth"]), []).append(value.value)
    for count, seconds in spans.items():
        show(f"{count} workers: 6 repeats of 2 cells", seconds, "s")
    show("  two are so many times as fast", [a / b for a, b in zip(spans[1], spans[2], strict=True)], "")
    for (count, depth), values in sorted(iops.items()):
        show(f"{count} workers, depth {depth}: write IOPS", values, "1/s")


def main() -> None:
    """One of the four."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=16)
    parser.add_argument("--depths", type=int, default=5)
    parser.add_argument("--cells", type=int, default=0)
    parser.add_argument("--nodes", action="store_true", help="on real nodes")
    parser.add_argument("--controller", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.controller:
        controller(Path(options.controller[0]), options.controller[1])
    elif options.nodes:
        nodes(options.rounds)
    elif options.cells:
        many(options.cells)
    else:
        speed(options.rounds, options.repeats, options.depths)


if __name__ == "__main__":
    main()
