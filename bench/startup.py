"""What a command costs before it does anything, as a multiple of ``python -c pass`` on the same machine; and what
``check`` costs for each cell of a large study."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
# As the installed script does.
START = "from blocklab.cli.start import main; main()"
CALLS = {"--version": ["--version"], "--help": ["--help"], "--help in Japanese": ["--lang", "ja", "--help"],
         "studies": ["studies"]}  # fmt: skip
# Two mirrors at 100 round trips under 50 numbers of clients: 10,000 cells, all of them different.
LARGE = """
blocklab: 2
name: large
question: How long does a check take?
nodes: {a1: {memory: 1GiB}, a2: {memory: 384MiB}}
links: {zone: {between: [a1, a2], rtt: 1ms}}
stacks:
  safe: {on: a1, layers: [&disk {layer: volume, size: 1GiB}, {layer: drbd, peer: a2, link: zone}, &fs {layer: xfs},
    &db {layer: postgres}]}
  fast: {on: a1, layers: [*disk, {layer: drbd, peer: a2, link: zone, protocol: A}, *fs, *db]}
workloads: {tx: {workload: pgbench, scale: 10, clients: 8, time: 20s}}
factors:
  rtt: {field: links.zone.rtt, values: [%s]}
  clients: {field: workloads.tx.clients, values: [%s]}
"""


def cpu(*argv: str) -> float:
    """CPU seconds of a process, the system's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Each call beside a bare interpreter, in turn: a machine that is busy is so for both."""
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.yaml"
        large.write_text(
            LARGE % (", ".join(f"{n / 10:g}ms" for n in range(1, 101)), ", ".join(map(str, range(1, 51))))
        )
        for name, call in {**CALLS, "check of 10,000 cells": ["check", str(large)]}.items():
            found, bare = [], []
            for _ in range(ROUNDS):
                bare.append(cpu(sys.executable, "-c", "pass"))
                found.append(cpu(sys.executable, "-c", START, *call))
            ratio = statistics.median(found) / statistics.median(bare)
            print(
                f"{name:<24} {statistics.median(found):6.2f} s of CPU, {ratio:5.0f} x `python -c pass`", flush=True
            )


if __name__ == "__main__":
    main()
