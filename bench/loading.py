"""What it takes to write and to read a study of 137 cells with series, as Parquet and as JSON lines (format 1).

CPU time, since one thread does it all; each way in processes of its own, taking turns; medians.
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

import msgspec

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
    """A cell's samples: a load's figures and series, and eight metrics of four devices on two nodes."""
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


def write(folder: Path, form: int, seconds: int, transactions: int) -> None:
    """The tables of all cells."""
    rows = parsed(seconds, transactions)
    for number in range(CELLS):
        cell = folder / str(number)
        cell.mkdir(exist_ok=True)
        if form == tables.PARQUET:
            tables.write(cell, rows)
        else:
            encoder = msgspec.json.Encoder()
            (cell / "samples.jsonl").write_bytes(encoder.encode_lines(rows.samples))
            (cell / "transactions.jsonl").write_bytes(encoder.encode_lines(rows.transactions))


def read(folder: Path, form: int) -> int:
    """How many samples and transactions there are, all of them kept in memory as a report does."""
    cells = [(tables.samples(cell, form), tables.transactions(cell, form)) for cell in sorted(folder.iterdir())]
    return sum(len(samples) + len(done) for samples, done in cells)


def child(folder: Path, form: int, seconds: int, transactions: int) -> None:
    """Prints CPU seconds to write and to read, peak memory (MiB) after each, and the rows."""
    start = time.process_time()
    write(folder, form, seconds, transactions)
    middle, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = read(folder, form)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([middle - start, time.process_time() - middle, memory, peak, rows]))


def main() -> None:
    """Both forms, each so many times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.folder, options.child, options.seconds, options.transactions)
        return
    found: dict[int, list[Sequence[float]]] = {1: [], 2: []}
    sizes = {}
    for _ in range(options.rounds):
        for form in found:
            with tempfile.TemporaryDirectory() as folder:
                argv = [sys.executable, "-m", "bench.loading", "--child", str(form), "--folder", folder]
                argv += ["--seconds", str(options.seconds), "--transactions", str(options.transactions)]
                done = subprocess.run(argv, check=True, capture_output=True, text=True)
                found[form].append(json.loads(done.stdout))
                sizes[form] = sum(path.stat().st_size for path in Path(folder).rglob("*.*")) / 2**20
    each = f"{options.seconds} s and {options.transactions} transactions"
    print(f"{CELLS} cells of {each} each, median of {options.rounds}")
    print(
        f"  {'':<12}{'write':>10}{'a cell':>10}{'read':>10}{'a cell':>10}{'memory':>12}{'on disk':>12}{'rows':>12}"
    )
    for form, name in ((1, "JSON lines"), (2, "Parquet")):
        put, get, _, peak, rows = (statistics.median(column) for column in zip(*found[form], strict=True))
        print(
            f"  {name:<12}{put:8.2f} s{1000 * put / CELLS:7.0f} ms{get:8.2f} s{1000 * get / CELLS:7.0f} ms"
            f"{peak:8.0f} MiB{sizes[form]:8.1f} MiB{rows:12,.0f}"
        )


if __name__ == "__main__":
    main()
