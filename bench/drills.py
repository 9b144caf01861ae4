"""Fifty drills of a mirror with PostgreSQL: what is lost, how long it is down, and how long a drill takes.

``python -m bench.drills`` takes about a quarter of an hour; ``--times 3`` shows that it works. It is the same as
``blocklab drill failover --stack drbd-c --at rtt=0.5ms --at database=postgres --times 50``, with the aims beside
the values. The nodes end with this process, whatever happens.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from blocklab.cli.progress import Lines
from blocklab.model.terminal import Console
from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite
from blocklab.stats.binomial import middle
from blocklab.stats.drills import losing_text, losses, outages, rto_text, tally
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.shipped import shipped

STUDY = shipped()["failover"]
ACKNOWLEDGED, RTO, SECONDS = 100_000, 3.0, 20.0


def main() -> None:
    """Drill, and print what was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--stack", default="drbd-c")
    parser.add_argument("--rtt", default="0.5ms")
    parser.add_argument("--database", default="postgres")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    study = msgspec.structs.replace(read(STUDY), repeats=asked.times)
    wanted = {"rtt": asked.rtt, "database": asked.database}
    grid = tuple(
        cell
        for cell in cells(study)
        if cell.stack == asked.stack and all(wanted[name] == level for name, level in cell.levels.items())
    )
    with tempfile.TemporaryDirectory(prefix="blocklab-drills-") as runs:
        folder = StudyFolder.create(Path(runs), Manifest(study, grid, seed=asked.seed))
        bad = run_study(UmlSite(), study, grid, folder, Lines(Console(stderr=True)), asked.seed)
        found = [run for run in folder.runs() if run.drill is not None]
    drills = [run.drill for run in found if run.drill is not None]
    known = losses(drills)
    took = [run.outcome.seconds for run in found]
    print(f"{len(drills)} drills, {bad} not carried out: {tally(drills)}")
    lost = "no verdict" if known.losing is None else losing_text(known.losing)
    print(f"  lost something: {lost} (aim: 0 of 50, with at least {ACKNOWLEDGED:,} acknowledged)")
    if again := outages(drills):
        print(f"  RTO: median {rto_text(middle(again))} (aim: under {RTO:g} s)")
    names = dict.fromkeys(stage.name for drill in drills for stage in drill.stages)
    for name in names:
        parts = [stage.end - stage.start for drill in drills for stage in drill.stages if stage.name == name]
        print(f"    {name:<14}{statistics.median(parts):6.2f} s")
    whole = [sum(stage.end - stage.start for stage in drill.stages) for drill in drills if drill.stages]
    print(f"    together      {statistics.median(whole):6.2f} s")
    mirrors = Counter(drill.mirror.status if drill.mirror else "none" for drill in drills)
    print(f"  mirrors afterwards: {', '.join(f'{count} {status}' for status, count in mirrors.items())}")
    print(f"  a drill: median {statistics.median(took):.1f} s, longest {max(took):.1f} (aim: under {SECONDS:g} s)")


if __name__ == "__main__":
    main()
