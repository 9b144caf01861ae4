"""Analysis, report and terminal table of a study of 137 cells with series: time, peak memory, size of the page.

Series as real probes leave them: what eight metrics of four devices on two nodes were, second by second, and
transactions one by one. The bundle of Vega is in the cache, as after the first report of a machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.common import show
from bench.loading import parsed
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.report import render
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.read import build

SECONDS, MEMORY, PAGE = 5.0, 1024.0, 6 * 10**6
CELLS = 137
EPOCH = 1_795_232_000.0


def make(runs: Path, seconds: int, transactions: int) -> Path:
    """The study's folder: 137 numbers of clients on one stack."""
    workload = {"workload": "pgbench", "scale": 10, "clients": 1, "time": f"{seconds}s"}
    layers = [{"layer": "volume", "size": "1GiB"}, {"layer": "xfs"}, {"layer": "postgres"}]
    plan = build(
        {
            "blocklab": 2, "name": "reporting", "question": "How long does a report take?", "nodes": {"a1": {}},
            "stacks": {"local": {"on": "a1", "layers": layers}}, "workloads": {"tx": workload},
            "factors": {"clients": {"field": "workloads.tx.clients", "values": list(range(1, CELLS + 1))}},
        }
    )  # fmt: skip
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid))
    like = parsed(seconds, transactions)
    done = tuple(msgspec.structs.replace(each, end=EPOCH + each.end) for each in like.transactions)
    rows = tuple(row for row in like.samples if row.layer != "fio" and row.time is not None)
    for number, cell in enumerate(grid, 1):
        own = [Sample("tps", 1000.0 + number, "1/s", "pgbench", "a1")]
        own += [Sample(f"latency.{name}", number / 1e4, "s", "pgbench", "a1") for name in ("mean", "p50", "p99")]
        own += [
            Sample("tps", 1000.0 + number + second % 7, "1/s", "pgbench", "a1", time=EPOCH + second)
            for second in range(seconds)
        ]
        whole = Parsed((*own, *rows), (Phase("tx", EPOCH, EPOCH + seconds),), done)
        with draft(folder.cells, cell.key) as under:
            under.write(cell, Outcome("ok", started=EPOCH, seconds=90.0), environment={"host": {"cpus": 2}},
                        records=(), knobs=(), parsed=whole)  # fmt: skip
    return folder.path


def child(folder: str) -> None:
    """Prints peak memory (MiB) and bytes of the page."""
    page = render(StudyFolder(Path(folder)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([memory, page.stat().st_size]))


def main() -> None:
    """Each round in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    rounds: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="blocklab-reporting-") as runs:
        folder = make(Path(runs), options.seconds, options.transactions)
        points = options.seconds * 65
        print(f"{CELLS} cells with {points:,} points of series and {options.transactions:,} transactions each")
        for _ in range(options.rounds):
            argv = [sys.executable, "-m", "bench.reporting", "--child", str(folder)]
            before = time.perf_counter()
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            rounds.append([time.perf_counter() - before, *json.loads(done.stdout)])
    took, memory, page = (list(column) for column in zip(*rounds, strict=True))
    show("report", took, "s", f"aim: {SECONDS:g} s")
    show("peak memory", memory, "MiB", f"aim: {MEMORY:g} MiB")
    show("page", [size / 1e6 for size in page], "MB", f"aim: {PAGE / 1e6:g} MB")
    if statistics.median(took) > SECONDS or max(memory) > MEMORY or max(page) > PAGE:
        raise SystemExit("NOT reached")


if __name__ == "__main__":
    main()
