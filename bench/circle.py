"""The whole circle of sizing on the lab: statistics of a database under a known load, the need, and its proof.

``python -m bench.circle`` takes some nine minutes. It runs the shipped study ``sizing`` (TPC-C on MariaDB, several
layouts), gives the statistics that the server printed around TPC-C on the ample layout to ``blocklab size``, holds
the need against what that node's kernel counted at the volume, runs the study that ``size`` wrote, and holds its
verdict for each layout against what TPC-C did there. Aims: within 10 %, the same verdicts, under ten minutes. The
nodes end with this process, whatever happens.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import msgspec

from blocklab.cli.progress import Lines
from blocklab.model.terminal import Console
from blocklab.model.units import Size
from blocklab.probes import counters
from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite
from blocklab.sizing import layouts
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.need import Need, Options, need
from blocklab.sizing.study import study_text
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.carried import needs
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.shipped import shipped

STUDY = shipped()["sizing"]
AIM, MINUTES = 0.10, 10.0
# TPC-C that keeps so much of what it does on the ample layout is carried; two runs of it differ by some per cent.
KEPT = 0.85
SECONDS = 8
FILE = Size("64MiB")


def main() -> None:
    """Run the circle, and print what was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="Keep the runs in this folder.")
    asked = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="blocklab-circle-") as place:
        runs = asked.runs or Path(place)
        first = measured(STUDY, runs)
        found = need_of(first)
        path = runs / "need.yaml"
        path.write_text(
            study_text(
                found, layouts.of_study(STUDY), "need", seconds=SECONDS, transactions=False, working_set=FILE
            )
        )
        second = measured(path, runs)
        compare(analyse(first), analyse(second))
    took = (time.monotonic() - started) / 60
    print(f"{'the whole circle':<44} {took:8.1f} min  (aim: under {MINUTES:g})")


def measured(path: Path, runs: Path) -> StudyFolder:
    """The study's folder with all of its cells."""
    study = read(path)
    grid = cells(study)
    folder = StudyFolder.create(runs, Manifest(study, grid, seed=1), path)
    run_study(UmlSite(), study, grid, folder, Lines(Console(stderr=True)), 1)
    return folder


def need_of(folder: StudyFolder) -> Need:
    """The need of the database on the ample layout, out of what it printed itself, beside the kernel's counts."""
    run = next(run for run in folder.runs() if run.cell.stack == "ample")
    raw = folder.path / "cells" / run.cell.key / "raw" / "workload"
    gathered = gather([raw / "status.before", raw / "status.after"], Asked())
    found = need(gathered.systems, Options())
    before, after = (counters.parse((raw / f"counters.a1.{when}").read_text()) for when in ("before", "after"))
    moved = counters.difference(before, after)
    disk = msgspec.structs.asdict(moved.disks["vda"])
    for name, counted in (
        ("read_iops", disk["reads"]), ("read_bandwidth", disk["read_bytes"]),
        ("write_iops", disk["writes"]), ("write_bandwidth", disk["write_bytes"]),
    ):  # fmt: skip
        mine, kernel = found.amounts[name].observed, counted / moved.time
        print(
            f"{name:<20} need {mine:14,.0f}  kernel {kernel:14,.0f}  {mine / kernel:6.3f} (aim: within {AIM:.0%})"
        )
    return found


def compare(tpcc: Analysis, proof: Analysis) -> None:
    """TPC-C's share on each layout beside the verdict on the need."""
    rates = {row.stack: row.value for row in tpcc.rows if row.metric == "tpmc" and row.own}
    busy = {place[0] for place in tpcc.limits}
    same = known = 0
    verdicts = {each.stack: each for each in needs(proof)}
    for stack, each in verdicts.items():
        share = rates[stack] / rates["ample"]
        did = "carried" if share >= KEPT else "unknown" if stack in busy else "not carried"
        said = each.base.verdict
        known += "unknown" not in (did, said)
        same += did == said != "unknown"
        p99 = max((kind.p99 or 0.0) for kind in each.base.kinds)
        print(
            f"{stack:<24} TPC-C keeps {share:5.0%}: {did:<12} need: {said:<12} p99 {p99 * 1e3:8.2f} ms, most "
            f"{each.headroom or 0:5.2f} x"
        )
    print(f"{'same verdicts, of those that both can tell':<44} {same} of {known}  (aim: all)")


if __name__ == "__main__":
    main()
