"""``size`` and ``import`` of a long iostat: time as a multiple of splitting and converting its lines, and memory.

Another size: ``python -m bench.counters --rows 100000``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.common import show

DEVICES = 20
# Of the baseline's time, and MiB for a million rows.
SIZE, IMPORT, MEMORY = 8.0, 16.0, 400.0
_HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
)
_ROW = "400.00 0.00 0.00 1.00 4.00 50.00 800.00 0.00 0.00 1.00 16.00" + 8 * " 0.00" + " 0.15 10.00"


def write(path: Path, rows: int) -> None:
    """A report each second of twenty disks."""
    begin = datetime(2024, 3, 5, tzinfo=UTC)
    with path.open("w") as file:
        file.write("Linux 6.1.0 (db1) \t2024-03-05 \t_x86_64_\t(4 CPU)\n\n")
        for at in range(rows // DEVICES):
            file.write(f"{begin + timedelta(seconds=at):%Y-%m-%dT%H:%M:%S+0000}\n{_HEADER}")
            file.writelines(f"nvme{disk}n1  {100 + disk + at % 7}.00  {_ROW}\n" for disk in range(DEVICES))
            file.write("\n")


def child(what: str, log: str, runs: str) -> None:
    """One of the three in a process of its own: seconds of CPU, and peak memory (MiB)."""
    before = time.process_time()
    if what == "baseline":
        with Path(log).open() as file:
            for line in file:
                tokens = line.split()
                if len(tokens) > 20 and tokens[0] != "Device":
                    list(map(float, tokens[1:]))
    elif what == "size":
        from blocklab.sizing.gather import Asked, gather
        from blocklab.sizing.need import Options, need

        need(gather([Path(log)], Asked()).systems, Options())
    else:
        from blocklab.imports import Options as Reading
        from blocklab.imports import minimal, take
        from blocklab.report import render
        from blocklab.store.folder import StudyFolder

        render(StudyFolder(take(minimal(["local"]), None, {"local": [log]}, Path(runs), Reading()).folder))
    print(json.dumps([time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def main() -> None:
    """Each of the three in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    took: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="blocklab-counters-") as folder:
        log = Path(folder) / "iostat.txt"
        write(log, options.rows)
        print(f"{options.rows:,} rows of iostat -x, {log.stat().st_size / 2**20:.0f} MiB")
        for what in ("baseline", "size", "import"):
            argv = [sys.executable, "-m", "bench.counters", "--child", what, str(log), f"{folder}/runs"]
            took[what] = tuple(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout))
    base = took["baseline"][0]
    ratios = {what: took[what][0] / base for what in ("size", "import")}
    show("size", [ratios["size"]], "times the baseline", f"aim: {SIZE:g}")
    show("import and report", [ratios["import"]], "times the baseline", f"aim: {IMPORT:g}")
    show("peak memory of size", [took["size"][1]], "MiB")
    show("peak memory of import", [took["import"][1]], "MiB", f"aim: {MEMORY:g} MiB")
    if ratios["size"] > SIZE or ratios["import"] > IMPORT or took["import"][1] > MEMORY:
        raise SystemExit("NOT reached")


if __name__ == "__main__":
    main()
