"""What it takes to write and to read a study of 137 cells with series, as Parquet.

CPU time, since one thread does it all; each time in a process of its own; medians.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from blocklab.model.sample import Parsed, Sample, Transaction
from blocklab.store import tables

CELLS = 137
DEVICES = ("vda", "drbd1", "vec0", "cpu")
METRICS = (
    "read.iops",
    "write.iops",
    "read.bandwidth",
    "write.bandwidth",
    "read.await",
    "write.await",
    "queue",
    "util",
)


def parsed(seconds: int, transactions: int) -> Parsed:
    """A cell's samples: a workload's values and series, and eight metrics of four devices on two nodes."""
    chance = random.Random(1)
    rows = [Sample(f"write.latency.p{n}", chance.random(), "s", "fio", "a1", "4k") for n in range(40)]
    for second in range(seconds):
        at = 1_795_232_000.0 + second
        for metric in ("write.iops", "write.bandwidth", "write.latency.mean"):
            rows.append(Sample(metric, chance.gauss(1000, 30), "1/s", "fio", "a1", "4k", at))
        for host in ("a1", "a2"):
            for device in DEVICES:
                rows += [Sample(each, chance.gauss(1000, 30), "1/s", device, host, "", at) for each in METRICS]
    done = tuple(Transaction(n / 1000, chance.expovariate(200)) for n in range(transactions))
    return Parsed(tuple(rows), (), done)


def write(folder: Path, seconds: int, transactions: int) -> None:
    """The tables of all cells."""
    rows = parsed(seconds, transactions)
    for number in range(CELLS):
        cell = folder / str(number)
        cell.mkdir(exist_ok=True)
        tables.write(cell, rows)


def read(folder: Path) -> int:
    """How many samples and transactions there are, all of them kept in memory as a report does."""
    cells = [(tables.samples(cell), tables.transactions(cell)) for cell in sorted(folder.iterdir())]
    return sum(len(samples) + len(done) for samples, done in cells)


def child(folder: Path, seconds: int, transactions: int) -> None:
    """Prints CPU seconds to write and to read, peak memory (MiB) after each, and the rows."""
    start = time.process_time()
    write(folder, seconds, transactions)
    middle, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = read(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([middle - start, time.process_time() - middle, memory, peak, rows]))


def main() -> None:
    """So many times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.folder, options.seconds, options.transactions)
        return
    found: list[Sequence[float]] = []
    size = 0.0
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            argv = [sys.executable, "-m", "bench.loading", "--child", "--folder", folder]
            argv += ["--seconds", str(options.seconds), "--transactions", str(options.transactions)]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout))
            size = sum(path.stat().st_size for path in Path(folder).rglob("*.*")) / 2**20
    put, get, _, peak, rows = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"{CELLS} cells of {options.seconds} s and {options.transactions} transactions, median of {len(found)}")
    print(
        f"  write {put:.2f} s, read {get:.2f} s, memory {peak:.0f} MiB, on disk {size:.1f} MiB, {rows:,.0f} rows"
    )


if __name__ == "__main__":
    main()
