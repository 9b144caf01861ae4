"""How well a part of a study predicts the rest: ``python -m bench.predict RUNS``, of a study measured in full.

Prints the median and the 90th percentile of the error, how many others are in the stated 90 % interval, and what
part of the cells was measured; of the design, and of random choices of as many cells.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

from blocklab.predict.cells import measured_points
from blocklab.predict.curve import Curve, Spot
from blocklab.predict.design import chosen, usual_count
from blocklab.stats.analysis import analyse
from blocklab.stats.compare import families
from blocklab.store.folder import StudyFolder

BUSY = 90.0


def tried(spots: Sequence[Spot], rates: Sequence[float], known: Sequence[int]) -> dict[int, tuple[float, bool]]:
    """By the number of each other cell the prediction's error, and whether it is in its interval."""
    curve = Curve([spots[at] for at in known], [rates[at] for at in known])
    stacks, groups = {spots[at].stack for at in known}, {spots[at].group for at in known}
    rest = [at for at, spot in enumerate(spots) if at not in set(known)]
    rest = [at for at in rest if spots[at].stack in stacks and spots[at].group in groups]
    found = curve.intervals([spots[at] for at in rest])
    return {
        at: (abs(each.value / rates[at] - 1), each.low <= rates[at] <= each.high)
        for at, each in zip(rest, found, strict=True)
    }


def show(name: str, found: Sequence[tuple[float, bool]]) -> None:
    """One line."""
    errors = sorted(error for error, _ in found)
    middle, worst = 100 * statistics.median(errors), 100 * errors[int(0.9 * (len(errors) - 1))]
    held = 100 * statistics.fmean(inside for _, inside in found)
    print(f"  {name}, {len(errors)}: median error {middle:.1f} % (aim: 10), 90th percentile {worst:.0f} % "
          f"(aim: 30), in the 90 % interval {held:.0f} % (aim: 85 to 95)")  # fmt: skip


def main() -> None:
    """Each headline with a curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--random", type=int, default=10, help="so many random choices")
    options = parser.parse_args()
    analysis = analyse(StudyFolder(options.runs))
    seconds = sum(run.outcome.seconds for run in analysis.every)
    for family in families(analysis):
        made = measured_points(analysis, family)
        if made is None:
            continue
        spots, rates, rows = made
        busy = {
            (row.stack, row.workload) for row in analysis.rows if row.metric == "cpu.busy" and row.value > BUSY
        }  # fmt: skip
        idle = {at for at, row in enumerate(rows) if (row.stack, row.workload) not in busy}
        count = usual_count(spots)
        print(f"{family.label}: {len(spots)} cells, {len(idle)} with a CPU under {BUSY:g} %; {count} measured, "
              f"{100 * count / len(spots):.0f} % of {seconds / 60:.0f} min")  # fmt: skip
        designs = {"the design": [chosen(spots, count)]}
        designs[f"{options.random} random choices"] = [
            sorted(random.Random(seed).sample(range(len(spots)), count)) for seed in range(options.random)
        ]
        for name, each in designs.items():
            found = [pair for known in each for pair in tried(spots, rates, known).items()]
            show(f"{name}, all others", [value for _, value in found])
            show(f"{name}, CPU not the limit", [value for at, value in found if at in idle])


if __name__ == "__main__":
    main()
