"""Import and report of a transaction log of 5 million lines: time, peak memory, size of the page and of the run.

Another size: ``python -m bench.importing --lines 1000000``.
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

from bench.common import show
from bench.parsing import write_pgbench

SECONDS, PAGE = 15.0, 6 * 10**6


def child(log: str, runs: str) -> None:
    """Measures in a process of its own: seconds with the imports, peak memory (MiB), bytes of page and runs."""
    before = time.perf_counter()
    from blocklab.imports import Options, minimal, take
    from blocklab.report import render
    from blocklab.store.folder import StudyFolder

    done = take(minimal(["local"]), None, {"local": [log]}, Path(runs), Options())
    page = render(StudyFolder(done.folder))
    took = time.perf_counter() - before
    stored = sum(path.stat().st_size for path in (done.folder / "cells").rglob("*") if path.is_file())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([took, memory, page.stat().st_size, stored]))


def main() -> None:
    """Each round in a fresh folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    rounds: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="blocklab-importing-") as folder:
        log = Path(folder) / "log"
        write_pgbench(log, options.lines)
        print(f"{options.lines:,} lines of pgbench -l, {log.stat().st_size / 2**20:.0f} MiB")
        for number in range(options.rounds):
            argv = [sys.executable, "-m", "bench.importing", "--child", str(log), f"{folder}/runs{number}"]
            rounds.append(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout))
    took, memory, page, stored = (list(column) for column in zip(*rounds, strict=True))
    show("import and report", took, "s", f"aim: {SECONDS:g} s")
    show("peak memory", memory, "MiB")
    show("page", [size / 1e6 for size in page], "MB", f"aim: {PAGE / 1e6:g} MB")
    show("the stored run", [size / 1e6 for size in stored], "MB")
    if statistics.median(took) > SECONDS or max(page) > PAGE:
        raise SystemExit("NOT reached")


if __name__ == "__main__":
    main()
