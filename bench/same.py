"""Two layouts that are the same, on real nodes: how often they "differ", and how wide a ratio's interval is.

``python -m bench.same`` runs one study ten times, each with another seed: a mirror beside the same mirror, three
builds of each, three patterns of fio in rounds. About 25 minutes. The nodes end with this process, whatever
happens.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from pathlib import Path

from bench.common import PLAIN, mirror
from blocklab.cli.progress import Lines
from blocklab.model.terminal import Console
from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite
from blocklab.stats.analysis import analyse
from blocklab.stats.compare import items
from blocklab.stats.ratio import verdict
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study

VOLUME = {**PLAIN, "size": "256MiB", "read_latency": "450us", "write_latency": "450us"}
AIM = 1


def study(repeats: int) -> Study:
    """Two stacks, both a mirror over half a millisecond."""
    layers = [VOLUME, mirror("a2", "zone")]
    return build(
        {
            "blocklab": 2, "name": "same", "question": "Do layouts that are the same differ?", "baseline": "one",
            "nodes": {"a1": {"memory": "512MiB"}, "a2": {"memory": "256MiB"}}, "repeats": repeats,
            "links": {"zone": {"between": ["a1", "a2"], "rtt": "0.5ms"}},
            "stacks": {name: {"on": "a1", "layers": layers} for name in ("one", "other")},
            "workloads": {
                "io": {
                    "workload": "fio", "size": "64MiB", "options": {"ioengine": "libaio", "direct": 1},
                    "jobs": {
                        "write-qd1": {"rw": "randwrite", "bs": "4k"}, "read-qd1": {"rw": "randread", "bs": "4k"},
                        "write-qd16": {"rw": "randwrite", "bs": "4k", "iodepth": 16},
                    },
                    "stop": {"rounds": "3..4", "each": "1s"},
                }
            },
        }
    )  # fmt: skip


def main() -> None:
    """Run the study so often, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    plan = study(asked.repeats)
    counts: Counter[str] = Counter()
    held, halves = 0, []
    lines = Lines(Console(stderr=True))
    for seed in range(asked.seeds):
        with tempfile.TemporaryDirectory(prefix="blocklab-same-") as runs:
            grid = cells(plan)
            folder = StudyFolder.create(Path(runs), Manifest(plan, grid, seed=seed))
            run_study(UmlSite(), plan, grid, folder, lines, seed)
            for item in items(analyse(folder)):
                for share in item.shares.values():
                    counts[verdict(share)] += 1
                    held += share.half is not None and abs(share.value - 1) <= share.half
                    halves.append(100 * (share.half or 0.0))
                    print(f"seed {seed}: {item.label} {share.value:.3f} ± {share.half or 0:.3f} {verdict(share)}")
    whole = counts.total()
    print(f"{whole} ratios: {', '.join(f'{count} {said}' for said, count in counts.most_common())}")
    print(
        f"  {counts['differs']} differ (aim: at most {AIM}); {held} intervals hold 1 ({100 * held / whole:.0f} %)"
    )
    print(f"  half width: median {statistics.median(halves):.1f} %, {min(halves):.1f} to {max(halves):.1f} %")


if __name__ == "__main__":
    main()
