"""Long logs into summary, percentiles and a time series: ours next to pandas, on the same generated files.

pandas is no dependency: ``uv run --group bench just bench parsing``; without it only ours is measured. Sizes:
``python -m bench.parsing --fio 1000000 --pgbench 500000``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AIM = 2.0
_PERCENTILES = [0.5, 0.95, 0.99, 0.999, 0.9999]
_AT_ONCE = 100_000


def write_fio(path: Path, count: int) -> None:
    """50 lines in each millisecond."""
    rng = random.Random(1)
    with path.open("w") as file:
        for start in range(0, count, _AT_ONCE):
            file.writelines(
                f"{at // 50}, {int(rng.lognormvariate(11.5, 0.8))}, {int(rng.random() < 0.3)}, 4096, 0, 0\n"
                for at in range(start, min(start + _AT_ONCE, count))
            )


def write_pgbench(path: Path, count: int) -> None:
    """32 clients, 5,000 TPS, latencies log-normal around 5 ms."""
    rng = random.Random(2)
    with path.open("w") as file:
        for start in range(0, count, _AT_ONCE):
            file.writelines(
                f"{at % 32} {at // 32} {int(rng.lognormvariate(8.5, 0.7))} 0 "
                f"{1795232994 + at // 5000} {at % 5000 * 200}\n"
                for at in range(start, min(start + _AT_ONCE, count))
            )


def ours(kind: str, path: str) -> Callable[[], int]:
    """What is measured; it returns the number of rows."""
    read = getattr(importlib.import_module(f"blocklab.formats.{kind}.single"), f"{kind}_log")
    return lambda: sum(latency.count for latency in read([path]).latency.values())


def with_pandas(kind: str, path: str, lean: bool) -> Callable[[], int]:
    """The same by pandas as one writes it down, or ``lean``: only the columns that are needed, in small types."""
    pandas: Any = importlib.import_module("pandas")
    names = {"fio": "time value way size offset prio", "pgbench": "client number value script time micro"}[kind]
    options: dict[str, Any] = {"header": None, "names": names.split(), "sep": "," if kind == "fio" else " "}
    if lean:
        types = {"time": "int64", "value": "int64"} | ({"way": "int8"} if kind == "fio" else {})
        options |= {"usecols": list(types), "dtype": types}

    def work() -> int:
        rows = pandas.read_csv(path, **options)
        if kind == "fio":
            rows["time"] //= 1000
        for _, part in rows.groupby("way") if kind == "fio" else [(0, rows)]:
            part["value"].agg(["count", "mean", "std", "min", "max"])
            part["value"].quantile(_PERCENTILES)
        rows.groupby(["way", "time"] if kind == "fio" else ["time"])["value"].agg(["count", "mean", "max"])
        return len(rows)

    return work


def child(who: str, kind: str, path: str) -> None:
    """Measures in a process of its own: seconds after the imports, CPU seconds, peak memory (MiB), rows."""
    work = ours(kind, path) if who == "ours" else with_pandas(kind, path, who == "lean")
    wall, cpu = time.perf_counter(), time.process_time()
    rows = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows]))


def measure(who: str, kind: str, path: Path) -> list[float]:
    """``child`` of ``who``."""
    argv = [sys.executable, "-m", "bench.parsing", "--child", who, kind, str(path)]
    found: list[float] = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return found


def compare(kind: str, path: Path, count: int, rounds: int) -> None:
    """The ways take turns, so that a busy machine is busy for all; the values are medians."""
    who = ["ours"] + (["pandas", "lean"] if importlib.util.find_spec("pandas") else [])
    runs: dict[str, list[list[float]]] = {each: [] for each in who}
    measure("ours", kind, path)  # the file into the page cache
    for _ in range(rounds):
        for each in who:
            runs[each].append(measure(each, kind, path))
    middle = {each: [statistics.median(column) for column in zip(*runs[each], strict=True)] for each in who}
    print(f"{kind}: {count:,} lines, {path.stat().st_size / 2**20:.0f} MiB, median of {rounds}")
    print(f"  {'':<28}{'time':>9}{'CPU':>9}{'memory':>11}{'time/ours':>11}{'memory/ours':>13}")
    mine = middle["ours"]
    names = {"ours": "blocklab", "pandas": "pandas", "lean": "pandas, needed columns"}
    for each, (wall, cpu, memory, rows) in middle.items():
        if rows != count:
            raise SystemExit(f"{each} read {rows:.0f} rows of {count}")
        print(
            f"  {names[each]:<28}{wall:7.2f} s{cpu:7.2f} s{memory:7.0f} MiB{wall / mine[0]:10.1f}x"
            f"{memory / mine[2]:12.1f}x"
        )
    if "pandas" in middle:
        ratio = middle["pandas"][0] / mine[0]
        print(f"  aim: {AIM:g}x faster than pandas: {'reached' if ratio >= AIM else 'NOT reached'} ({ratio:.1f}x)")


def main() -> None:
    """Both logs; a fifth of each before it, to show that memory does not follow the length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fio", type=int, default=10_000_000, metavar="LINES")
    parser.add_argument("--pgbench", type=int, default=5_000_000, metavar="LINES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    if not importlib.util.find_spec("pandas"):
        print(
            "pandas is not installed, so there is nothing to compare with: uv run --group bench just bench parsing"
        )
    with tempfile.TemporaryDirectory(prefix="blocklab-parsing-") as folder:
        path = Path(folder) / "log"
        for kind, write, count in (("fio", write_fio, options.fio), ("pgbench", write_pgbench, options.pgbench)):
            write(path, count // 5)
            memory = measure("ours", kind, path)[2]
            print(f"{kind}: {count // 5:,} lines: blocklab takes {memory:.0f} MiB", flush=True)
            write(path, count)
            compare(kind, path, count, options.rounds)


if __name__ == "__main__":
    main()
