"""How often a study's ratios hold the truth, and how often layouts that are the same "differ": by simulation.

A study of layouts that are all the same is carried out on a machine whose rate is known in each second: in the
order in which the runner takes the cells, with its stopping rule, three builds of each layout, ratios within each
repeat, and the verdicts of a report. The truth is a ratio of 1. ``python -m bench.inference`` prints the tables of
docs/adr/0026 and 0031; it starts no node.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from blocklab.model.stop import EACH, LEAST_ROUNDS, MOST_ROUNDS, Stop
from blocklab.rules.settle import Settled, from_rounds
from blocklab.runner.run import in_order, shuffled
from blocklab.stats.holm import LEVEL, cautious
from blocklab.stats.pool import pool
from blocklab.stats.ratio import verdict
from blocklab.stats.repeats import paired
from blocklab.stats.steady import stalls
from blocklab.stats.summary import Estimate
from blocklab.study.grid import cells, layouts
from blocklab.study.read import build
from blocklab.study.types import Study

NOISE = 0.03
HALF = Stop().rule().half_width
# What a layout takes to build, and a cell beside its workload, in seconds.
BUILD, BESIDE = 4, 1
SPREADS = (0.0, 0.01, 0.02, 0.05)
# Of studies on several machines: the spread between builds, that between machines, and (machines, builds on each).
FLEET = 0.02
BETWEEN = (0.0, 0.05, 0.20)
FLEETS = ((2, 3), (3, 3), (5, 3), (10, 3), (3, 1), (10, 1))

Second = Callable[[], float]
Machine = Callable[[random.Random], Second]


def autoregressive(dice: random.Random, sd: float, keep: float) -> Second:
    """Noise of that standard deviation whose neighbours are correlated by ``keep``."""
    level = dice.gauss(0, sd)

    def next_() -> float:
        nonlocal level
        level = keep * level + math.sqrt(1 - keep**2) * dice.gauss(0, sd)
        return level

    return next_


def white(dice: random.Random) -> Second:
    """Noise, and nothing else."""
    return lambda: 1 + dice.gauss(0, NOISE)


def correlated(keep: float) -> Machine:
    """Noise whose neighbours resemble each other."""

    def machine(dice: random.Random) -> Second:
        noise = autoregressive(dice, NOISE, keep)
        return lambda: 1 + noise()

    return machine


def drifting(dice: random.Random) -> Second:
    """White noise on a level that goes up and down by 3 % within two minutes."""
    level = autoregressive(dice, 0.03, math.exp(-1 / 120))
    return lambda: 1 + level() + dice.gauss(0, NOISE)


def shifting(dice: random.Random) -> Second:
    """White noise on a level that falls by 15 % and comes back, after two minutes on average."""
    low = dice.random() < 0.5

    def next_() -> float:
        nonlocal low
        low ^= dice.random() < 1 / 120
        return (0.85 if low else 1.0) + dice.gauss(0, NOISE)

    return next_


def stalling(dice: random.Random) -> Second:
    """White noise, and 3 of 100 seconds at a fifth."""
    return lambda: (0.2 if dice.random() < 0.03 else 1.0) + dice.gauss(0, NOISE)


MACHINES: dict[str, Machine] = {
    "white noise": white, "AR(1) 0.5": correlated(0.5), "AR(1) 0.9": correlated(0.9),
    "drift of 3 %, 120 s": drifting, "level shifts of 15 %": shifting, "rare stalls": stalling,
}  # fmt: skip


def study(stacks: int, workloads: int, repeats: int) -> Study:
    """So many stacks, all the same."""
    layers: list[dict[str, Any]] = [{"layer": "volume", "size": "1GiB"}]
    job = {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write", "bs": "4k"}}}
    return build(
        {
            "blocklab": 2, "name": "same", "question": "Do layouts that are the same differ?", "baseline": "s0",
            "nodes": {"a1": {}}, "repeats": repeats,
            "stacks": {f"s{number}": {"on": "a1", "layers": layers} for number in range(stacks)},
            "workloads": {f"w{number}": job for number in range(workloads)},
        }
    )  # fmt: skip


def measured(second: Second) -> tuple[float, list[float]]:
    """One workload, in rounds one after the other until they are enough: its value, and its seconds."""
    means: list[float] = []
    seconds: list[float] = []
    found: Settled | None = None
    while found is None or not (found.settled or len(means) == MOST_ROUNDS):
        rates = [1000 * second() for _ in range(int(EACH))]
        seconds += rates
        means.append(sum(rates) / len(rates))
        if len(means) >= LEAST_ROUNDS:
            found = from_rounds(means, HALF, LEAST_ROUNDS, MOST_ROUNDS)
    assert found.value is not None
    return found.value, seconds


@functools.cache
def order(stacks: int, workloads: int, repeats: int) -> Sequence[tuple[int, list[tuple[str, str]]]]:
    """(repeat, the (stack, workload) of one build after the other), as the runner goes through the study."""
    plan = study(stacks, workloads, repeats)
    return [
        (each.cells[0].repeat, [(cell.stack, cell.workload) for cell in shuffled(each.cells, 1)])
        for each in in_order(layouts(plan, cells(plan)))
    ]


def values_of(
    dice: random.Random, machine: Machine, spread: float, size: tuple[int, int, int]
) -> tuple[dict[tuple[str, str], list[float]], bool]:
    """The values of a whole study by cell, repeat by repeat; and whether a stall is told."""
    second = machine(dice)
    values: dict[tuple[str, str], list[float]] = {}
    told = False
    for _, built in order(*size):
        faster = math.exp(dice.gauss(0, spread))
        for _ in range(BUILD):
            second()
        for at in built:
            for _ in range(BESIDE):
                second()
            value, seconds = measured(second)
            values.setdefault(at, []).append(value * faster)
            told = told or stalls(seconds, 1.0) is not None
    return values, told


def campaign(
    dice: random.Random, machine: Machine, spread: float, size: tuple[int, int, int]
) -> tuple[list[tuple[str, Estimate]], bool]:
    """The ratios of a whole study, as a report has them, with the layout of each; and whether a stall is told."""
    values, told = values_of(dice, machine, spread, size)
    ratios = [
        (stack, paired([mine / base for mine, base in zip(found, values["s0", workload], strict=True)]))
        for (stack, workload), found in values.items()
        if stack != "s0"
    ]
    doubted = cautious(ratios)
    return [(stack, share) for (stack, _), share in zip(ratios, doubted, strict=True)], told


def fleet(
    dice: random.Random, between: float, machines: int, repeats: int
) -> tuple[list[float], list[int], float]:
    """A study of two layouts that differ on each machine, by ``between`` (standard deviation) around a ratio of 1:
    the ratios, the machine of each, and what they differ by on one machine more."""
    ratios, on = [], []
    for number in range(machines):
        values, _ = values_of(dice, white, FLEET, (2, 1, repeats))
        effect = math.exp(dice.gauss(0, between))
        found = zip(values["s1", "w0"], values["s0", "w0"], strict=True)
        ratios += [effect * mine / base for mine, base in found]
        on += [number] * repeats
    return ratios, on, dice.gauss(0, between)


def fleets(asked: argparse.Namespace) -> None:
    """A row for each number of machines, a column for each spread between them."""
    print("| machines x builds | " + " | ".join(f"{between:.0%} between machines" for between in BETWEEN) + " |")
    print("| --- |" + " --- |" * len(BETWEEN))
    for machines, repeats in FLEETS:
        shown = []
        for between in BETWEEN:
            dice = random.Random(f"{asked.seed} {machines} {repeats} {between} fleets")
            found = [fleet(dice, between, machines, repeats) for _ in range(asked.fleets)]
            shown.append(_fleet_text(found))
        print(f"| {machines} x {repeats} | {' | '.join(shown)} |", flush=True)


def _fleet_text(found: Sequence[tuple[list[float], list[int], float]]) -> str:
    held = false = builds = said = further = 0
    halves = []
    for ratios, on, more in found:
        share, alone = paired(ratios, on), paired(ratios)
        held += abs(share.value - 1) <= (share.half or 0.0)
        false += verdict(share) == "differs"
        builds += abs(alone.value - 1) <= (alone.half or 0.0)
        halves.append(share.half or 0.0)
        whole = pool([math.log(ratio) for ratio in ratios], on)
        said += whole.chance is not None and whole.chance < LEVEL
        further += whole.low is not None and whole.high is not None and whole.low <= more <= whole.high
    machines, count = len({*found[0][1]}), len(found[0][1])
    # Single builds do not tell machines apart, and two machines nothing of a further one.
    known = (True, True, True, count > machines, count > machines > 2)
    counts = (held, false, builds, said, further)
    shown = [percent(n, len(found)) if is_known else "–" for n, is_known in zip(counts, known, strict=True)]
    return " / ".join([*shown, f"{100 * statistics.median(halves):.1f} %"])


def in_turn(dice: random.Random, machine: Machine, spread: float, builds: int) -> tuple[Estimate, int]:
    """Were both layouts to stand at once, with their rounds in turn (A B, B A): the ratio, and the time (s)."""
    second, passed, ratios = machine(dice), 0, []
    for _ in range(builds):
        faster = [math.exp(dice.gauss(0, spread)) for _ in range(2)]
        for _ in range(2 * BUILD):
            second()
        passed += 2 * BUILD
        means: list[list[float]] = [[], []]
        done: list[float | None] = [None, None]
        while None in done:
            for at in (0, 1) if len(means[0]) % 2 else (1, 0):
                if done[at] is None:
                    means[at].append(sum(second() for _ in range(int(EACH))) / EACH)
                    passed += int(EACH)
                    found = from_rounds(means[at], HALF, LEAST_ROUNDS, MOST_ROUNDS)
                    over = (len(means[at]) >= LEAST_ROUNDS and found.settled) or len(means[at]) == MOST_ROUNDS
                    done[at] = found.value if over else None
        base, mine = (value or 0.0 for value in done)
        ratios.append(mine * faster[1] / (base * faster[0]))
    return paired(ratios), passed


def percent(part: float, whole: float) -> str:
    """``95.2 %``."""
    return f"{100 * part / whole:.1f} %"


def table(asked: argparse.Namespace, kind: str, cell: Callable[[random.Random, Machine, float], str]) -> None:
    """A row for each machine, a column for each spread between builds."""
    print("| machine | " + " | ".join(f"{spread:.0%} between builds" for spread in SPREADS) + " |")
    print("| --- |" + " --- |" * len(SPREADS))
    for name, machine in MACHINES.items():
        shown = [
            cell(random.Random(f"{asked.seed} {name} {spread} {kind}"), machine, spread) for spread in SPREADS
        ]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


def one(dice: random.Random, machine: Machine, spread: float, asked: argparse.Namespace) -> str:
    """Of studies of two layouts under one workload."""
    held = false = flagged = 0
    for _ in range(asked.campaigns):
        [(_, share)], told = campaign(dice, machine, spread, (2, 1, asked.repeats))
        held += abs(share.value - 1) <= (share.half or 0.0)
        false += verdict(share) == "differs"
        flagged += told
    return " / ".join(percent(count, asked.campaigns) for count in (held, false, flagged))


def many(dice: random.Random, machine: Machine, spread: float, asked: argparse.Namespace) -> str:
    """Of studies of four layouts and a baseline under twelve workloads."""
    alone = among = 0
    for _ in range(asked.many):
        found, _ = campaign(dice, machine, spread, (5, 12, asked.repeats))
        alone += any(abs(share.value - 1) > (share.half or 0.0) for _, share in found)
        among += any(verdict(share) == "differs" for _, share in found)
    return " / ".join(percent(count, asked.many) for count in (alone, among))


def compared(dice: random.Random, machine: Machine, spread: float, asked: argparse.Namespace) -> str:
    """The median half width of a ratio, and the time it takes: rounds in turn, and more builds instead."""
    shown = []
    for builds in (asked.repeats, asked.repeats + 1, asked.repeats + 2):
        ways = [functools.partial(in_order_of, builds=builds)]
        ways += [functools.partial(in_turn, builds=builds)] if builds == asked.repeats else []
        for way in ways:
            found = [way(dice, machine, spread) for _ in range(asked.many)]
            half = statistics.median(share.half or 0.0 for share, _ in found)
            shown.append(f"{100 * half:.1f} % in {statistics.fmean(took for _, took in found):.0f} s")
    return " / ".join(shown)


def in_order_of(dice: random.Random, machine: Machine, spread: float, builds: int) -> tuple[Estimate, int]:
    """As the runner does it: the ratio of two layouts, and the time (s)."""
    passed = 0
    second = machine(dice)

    def counted() -> float:
        nonlocal passed
        passed += 1
        return second()

    [(_, share)], _ = campaign(dice, lambda _: counted, spread, (2, 1, builds))
    return share, passed


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=1000, help="studies of one comparison, for each figure")
    parser.add_argument("--many", type=int, default=200, help="studies of 48 comparisons")
    parser.add_argument("--fleets", type=int, default=1000, help="studies on several machines, for each figure")
    parser.add_argument("--only", choices=["fleets"], help="just this table")
    parser.add_argument("--repeats", type=int, default=3, help="builds of each layout")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if not asked.only:
        one_machine(asked)
    print(
        f"\n{asked.fleets} studies of two layouts on several machines; noise of {NOISE:.0%} a second, {FLEET:.0%} "
        "between builds. Coverage of the ratio's interval / false `differs` / coverage were machines left out of "
        "account / machines said to disagree / coverage of a further machine / half width (median):\n"
    )
    fleets(asked)


def one_machine(asked: argparse.Namespace) -> None:
    """Print the tables of docs/adr/0026."""
    print(
        f"{asked.campaigns} studies of two layouts that are the same, {asked.repeats} builds of each; noise of "
        f"{NOISE:.0%} a second. Coverage of the ratio's interval / false `differs` / stalls told:\n"
    )
    table(asked, "one", functools.partial(one, asked=asked))
    print(
        f"\n{asked.many} studies of 48 comparisons. At least one false `differs`, by itself / among all (Holm):\n"
    )
    table(asked, "many", functools.partial(many, asked=asked))
    print(
        f"\nHalf width of a ratio (median of {asked.many}) and time: {asked.repeats} builds / rounds in turn / "
        f"{asked.repeats + 1} builds / {asked.repeats + 2} builds:\n"
    )
    table(asked, "compared", functools.partial(compared, asked=asked))


if __name__ == "__main__":
    main()
