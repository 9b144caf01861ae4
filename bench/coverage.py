"""How often the stated 95 % interval holds the mean, by simulation: ADR 15's rules under a machine that drifts.

A campaign is an hour of a machine whose speed drifts while 20 loads are measured on it. Its rate in each second is
1 + drift + first-order autoregressive noise. Each rule measures one workload in it and states an interval; the
truth is the mean over the whole hour. ``python -m bench.coverage`` prints the table; it starts no node.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Sequence

from blocklab.model.stop import AT_LEAST, AT_MOST, EACH, LEAST_ROUNDS, MOST_ROUNDS, Stop
from blocklab.rules.settle import Settled, from_rounds, long_run

HOUR, CELLS = 3600, 20
NOISE, CORRELATION = 0.03, 0.5
HALF = Stop().rule().half_width


def pulled(dice: random.Random, sd: float, seconds: float) -> list[float]:
    """A drift of standard deviation ``sd`` about its mean, to which it returns within ``seconds``."""
    keep = math.exp(-1 / seconds)
    level, found = dice.gauss(0, sd), []
    for _ in range(HOUR):
        level = keep * level + math.sqrt(1 - keep**2) * dice.gauss(0, sd)
        found.append(level)
    return found


def walk(dice: random.Random, step: float) -> list[float]:
    """A random walk of ``step`` a second."""
    level, found = 0.0, []
    for _ in range(HOUR):
        level += dice.gauss(0, step)
        found.append(level)
    return found


DRIFTS: dict[str, Callable[[random.Random], list[float]]] = {
    "none": lambda dice: [0.0] * HOUR,
    "sd 1 %, about a mean within 2 min": lambda dice: pulled(dice, 0.01, 120),
    "sd 3 %, within 2 min": lambda dice: pulled(dice, 0.03, 120),
    "sd 3 %, within 10 min": lambda dice: pulled(dice, 0.03, 600),
    "random walk, 0.05 % for each root of a second": lambda dice: walk(dice, 0.0005),
}


def machine(dice: random.Random, drift: Sequence[float]) -> list[float]:
    """The rate in each second of the hour."""
    noise, found = 0.0, []
    for level in drift:
        noise = CORRELATION * noise + math.sqrt(1 - CORRELATION**2) * dice.gauss(0, NOISE)
        found.append(1 + level + noise)
    return found


def by_long_run(rates: Sequence[float], start: int) -> tuple[Settled, float]:
    """One run that is looked at each second: what it found, and how long it took (s)."""
    for seconds in range(int(AT_LEAST), int(AT_MOST) + 1):
        found = long_run(rates[start : start + seconds], 1.0, HALF, AT_LEAST)
        if found.settled:
            return found, seconds
    return found, AT_MOST


def by_rounds(rates: Sequence[float], dice: random.Random) -> tuple[Settled, float]:
    """Rounds at some place in each turn of all cells: what they found, and how long they took (s)."""
    each, means = int(EACH), []
    for turn in range(MOST_ROUNDS):
        at = turn * CELLS * each + dice.randrange(CELLS) * each
        means.append(statistics.fmean(rates[at : at + each]))
        if len(means) >= LEAST_ROUNDS:
            found = from_rounds(means, HALF, LEAST_ROUNDS, MOST_ROUNDS)
            if found.settled:
                break
    return found, each * len(means)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{asked.campaigns} campaigns; noise sd {NOISE:.0%}, correlation {CORRELATION}; half width {HALF:.0%}, "
          f"{LEAST_ROUNDS} to {MOST_ROUNDS} rounds of {EACH:g} s\n")  # fmt: skip
    print("| drift | one long run: coverage, time | rounds: coverage, time | fixed 60 s: coverage |")
    print("| --- | --- | --- | --- |")
    for name, drift in DRIFTS.items():
        dice = random.Random(f"{asked.seed} {name}")
        held: dict[str, list[bool]] = {"long": [], "rounds": [], "fixed": []}
        took: dict[str, list[float]] = {"long": [], "rounds": []}
        for _ in range(asked.campaigns):
            rates = machine(dice, drift(dice))
            truth, start = statistics.fmean(rates), dice.randrange(HOUR - 60)
            for rule, (found, seconds) in (
                ("long", by_long_run(rates, start)),
                ("rounds", by_rounds(rates, dice)),
            ):
                took[rule].append(seconds)
                if found.value is not None and found.half is not None:
                    held[rule].append(abs(found.value - truth) <= found.half)
            whole = rates[start : start + 60]
            found = long_run(whole, 1.0, math.inf, 0.0)
            if found.settled and found.value is not None and found.half is not None:
                held["fixed"].append(abs(found.value - truth) <= found.half)
        share = {rule: f"{sum(answers) / len(answers):.0%}".replace("%", " %") for rule, answers in held.items()}
        cells = [f"{share[rule]}, {statistics.median(took[rule]):.0f} s" for rule in took]
        print(f"| {name} | {' | '.join(cells)} | {share['fixed']} |", flush=True)


if __name__ == "__main__":
    main()
