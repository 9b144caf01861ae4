"""The stopping rule against a fixed time: patterns of the study ``provisioned-iops`` on one volume.

On one standing node every pattern is measured in four ways, each as blocklab measures a cell: for a fixed time
(A), in short rounds (the default rule), in one long run, and for the fixed time again (B). B's distance from A is
the yardstick: a rule cannot be nearer to A than A is to itself. Patterns are dealt into up to four groups, and a
group goes through the four ways before the next one begins, in the order of a balanced Latin square, so that the
machine's drift falls on all of them alike. The nodes end with this process, whatever happens.

``python -m bench.stopping --patterns 3 --fixed 5 --longest 20`` shows that it works; ``--all`` takes hours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from blocklab.errors import BlocklabError, NodeLost
from blocklab.model.sample import Parsed
from blocklab.model.stop import Stop
from blocklab.model.units import Duration, Share
from blocklab.rules.series import LEAST_VALUES, batches, standard_error, t975
from blocklab.runner.measure import Measured, measure
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.stats.summary import percentile
from blocklab.store.run import Reason
from blocklab.study.grid import port_for
from blocklab.study.read import read
from blocklab.study.shipped import shipped
from blocklab.workloads import Fio

STUDY = shipped()["provisioned-iops"]
WORKLOAD = "patterns"
A, B, ROUNDS, LONG = "fixed A", "fixed B", "rounds", "long run"
# Williams's square of four: each way stands once at each place, and once right after each other way.
SQUARE = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
LEAST_GROUP = 5
AIM, BETTER, COVERED = 1 / 4, 1 / 6, 0.90
# About what one start of fio takes beside its run time, and a cell beside its trials (fill, probes); in seconds.
_START, _CELL = 1.0, 8.0


class Found(msgspec.Struct, frozen=True):
    """A pattern measured in one way: why it ended, rounds, seconds under load; the mean of each rate (1/s) and the
    half width of its 95 % interval, None where none is known."""

    reason: Reason
    rounds: int
    seconds: float
    why: str
    rates: Mapping[str, tuple[float, float | None]]


class Cell(msgspec.Struct):
    """A group of patterns measured in one way; ``wall`` (s) is the whole cell's; a good one has no ``error``.

    ``load_average`` is the machine's of the last minute, in which a node alone counts as one.
    """

    way: str
    group: int
    wall: float
    found: dict[str, Found]
    error: str = ""
    suspicions: tuple[str, ...] = ()
    load_average: float = 0.0


class Distance(msgspec.Struct, frozen=True):
    """How far one rate of a pattern is from A's, relative to A's mean.

    ``holds``: whether the interval of the way contains A's mean; ``holds_both``: whether the interval of the
    difference contains 0, A's own uncertainty counted. None where an interval is not known. ``half``: the way's
    own interval, relative to its mean.
    """

    pattern: str
    metric: str
    main: bool
    apart: float
    half: float | None
    holds: bool | None
    holds_both: bool | None
    settled: bool


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """End the block after so many seconds, or upon SIGTERM, by ``SystemExit``: no handler of errors takes it for
    its own, so what stands is taken down."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        late = number == signal.SIGALRM
        raise SystemExit(f"stopped: not finished after {seconds / 60:.1f} minutes" if late else "stopped: SIGTERM")

    before = {number: signal.signal(number, end) for number in (signal.SIGALRM, signal.SIGTERM)}
    signal.alarm(max(1, math.ceil(seconds)))
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def workloads(fio: Fio, ways: Mapping[str, Stop], patterns: Sequence[str]) -> dict[str, Fio]:
    """The study's workload with some of its patterns and without its own run time, in each way."""
    options = {name: value for name, value in fio.options.items() if name not in ("runtime", "time_based")}
    jobs = {name: fio.all_jobs[name] for name in patterns}
    made = {
        way: msgspec.structs.replace(fio, options=options, jobs=jobs, matrix={}, stop=stop)
        for way, stop in ways.items()
    }
    for way, workload in made.items():
        for where, problem in workload.problems():
            raise SystemExit(f"{way}: {where}: {problem}")
    return made


def series_halves(parsed: Parsed) -> tuple[dict[tuple[str, str], float | None], list[str]]:
    """(phase, metric) -> the half width of the 95 % interval of a fixed run's mean, from its seconds, None if they
    are too few; and the phases whose time series hold points from outside of their run, which get no interval."""
    runs = {phase.name: phase for phase in parsed.phases}
    series_by_name: dict[tuple[str, str], list[float]] = {}
    foreign = []
    for sample in parsed.samples:
        if sample.time is not None and (run := runs.get(sample.phase)):
            series_by_name.setdefault((sample.phase, sample.metric), []).append(sample.value)
            if not run.start <= sample.time <= run.end + 1:
                foreign.append(sample.phase)
    found = {at: batches(values) for at, values in series_by_name.items() if at[0] not in foreign}
    halves = {
        at: t975(len(means[0]) - 1) * standard_error(means[0]) if means else None for at, means in found.items()
    }
    return halves, list(dict.fromkeys(foreign))


def cell(stand: Standing, stack: str, workload: Fio, way: str, group: int, seed: str) -> Cell:
    """Measure all patterns of a workload, as a study's cell. An error leaves what was found before it."""
    measured = Measured()
    port, error = port_for(workload, stand.ports[stack], stand.ground), ""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="blocklab-stopping-") as raw:
        try:
            measure(
                stand.engine, workload, port, stand.facts[stack], Path(raw), measured, stand.shapes[stack], seed
            )
        except NodeLost:
            raise
        except BlocklabError as caught:
            error = caught.message
    wall = time.monotonic() - started
    halves, foreign = series_halves(measured.parsed)
    found = {
        stop.phase: Found(
            stop.reason, stop.rounds, stop.seconds, stop.why,
            {
                rate.metric: (rate.value, halves.get((stop.phase, rate.metric)) if way in (A, B) else rate.half)
                for rate in stop.rates if rate.value is not None
            },
        )
        for stop in measured.stops if stop.phase
    }  # fmt: skip
    said = (
        [f"{len(foreign)} time series hold points of other runs ({foreign[0]}): no interval from these"]
        if foreign
        else []
    )
    busy = os.getloadavg()[0]
    return Cell(way, group, wall, found, error, (*measured.suspicions, *(said if way in (A, B) else ())), busy)


def dealt(patterns: Sequence[str], count: int) -> list[list[str]]:
    """The patterns in groups as large as one another, ``count`` of them unless that leaves too few in each."""
    count = max(1, min(count, len(patterns) // LEAST_GROUP))
    return [list(patterns[number::count]) for number in range(count)]


def distances(cells: Sequence[Cell], way: str) -> list[Distance]:
    """Each rate of each pattern that was measured in that way and as A; a pattern's larger rate is ``main``."""
    by_way = {name: {p: each for c in cells if c.way == name for p, each in c.found.items()} for name in (A, way)}
    rows = []
    for pattern, first in by_way[A].items():
        other = by_way[way].get(pattern)
        main = max(first.rates, key=lambda metric: first.rates[metric][0], default="")
        for metric, (mean, own) in first.rates.items():
            if other is None or metric not in other.rates or not mean:
                continue
            value, half = other.rates[metric]
            off = abs(value - mean)
            both = None if half is None or own is None else off <= math.hypot(half, own)
            holds = None if half is None else off <= half
            width = None if half is None or not value else half / abs(value)
            rows.append(Distance(pattern, metric, metric == main, off / mean, width, holds, both,
                                 other.reason == "settled"))  # fmt: skip
    return rows


def share(answers: Sequence[bool | None]) -> str:
    """``19/20 = 95 %`` of those that are known."""
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)}/{len(known)} = {sum(known) / len(known):.0%}" if known else "unknown"


def walls(cells: Sequence[Cell], way: str) -> float:
    """Seconds that a way took, over all groups."""
    return sum(each.wall for each in cells if each.way == way)


def show_times(cells: Sequence[Cell], fixed: int) -> None:
    """Wall time of each way; of the groups that went through all four."""
    whole = {
        each.group for each in cells if {c.way for c in cells if c.group == each.group} == {A, B, ROUNDS, LONG}
    }
    cells = [each for each in cells if each.group in whole]
    if not cells:
        print("no group went through all four ways: no times")
        return
    usual = (walls(cells, A) + walls(cells, B)) / 2
    print(f"\nwall time, whole cells ({len(whole)} groups in all four ways)")
    for way in (A, B, ROUNDS, LONG):
        workload = sum(found.seconds for each in cells if each.way == way for found in each.found.values())
        line = f"  {way:<10}{walls(cells, way):9.1f} s, of which under load {workload:8.1f} s"
        if way in (ROUNDS, LONG):
            ratio = walls(cells, way) / usual
            aim = "reached" if ratio <= AIM else "NOT reached"
            line += (
                f"   {ratio:.3f} of fixed (aim: 1/4 {aim}, better 1/6 {'reached' if ratio <= BETTER else 'not'})"
            )
        print(line)
    if fixed != 60:
        print(f"  the fixed time was {fixed} s: the aims are meant against 60 s")


def show_ways(cells: Sequence[Cell]) -> None:
    """How far each way is from A, how often its interval holds A's mean, and why it ended."""
    print("\n|x - A| / A of each pattern's larger rate, and how often the stated 95 % interval contains A's mean")
    columns = "".join(f"{name:<16}" for name in ("contains A", "settled ones", "A unsure too", "every rate"))
    print(f"  {'':<10}{'median':>8}{'95th':>8}{'most':>8}   {columns}interval, ended")
    for way in (B, ROUNDS, LONG):
        rows = distances(cells, way)
        main = [row for row in rows if row.main]
        if not main:
            print(f"  {way:<10}nothing to compare")
            continue
        apart = [row.apart for row in main]
        halves = [row.half for row in main if row.half is not None]
        reasons = [found.reason for each in cells if each.way == way for found in each.found.values()]
        ended = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
        print(
            f"  {way:<10}{statistics.median(apart):8.2%}{percentile(apart, 0.95):8.2%}{max(apart):8.2%}   "
            f"{share([row.holds for row in main]):<16}"
            f"{share([row.holds for row in main if row.settled]):<16}{share([row.holds_both for row in main]):<16}"
            f"{share([row.holds for row in rows]):<16}"
            f"{f'±{statistics.median(halves):.2%}' if halves else 'none'}, {ended if way != B else 'fixed'}"
        )
    print(
        f"  aims: no further from A than B is; at least {COVERED:.0%} contain A. 'A unsure too' is the interval of"
    )
    print(f"  the difference; a fixed run's own is from its seconds, of which it needs at least {LEAST_VALUES}.")
    busiest = max((each.load_average for each in cells), default=0.0)
    print(f"  load average of the machine: up to {busiest:.1f}; a node alone is 1, and what is more disturbs")
    for each in cells:
        for said in filter(None, (each.error, *each.suspicions)):
            print(f"  group {each.group + 1}, {each.way}: {said}")


def dump(path: Path, about: Mapping[str, object], cells: Sequence[Cell]) -> None:
    """All values as JSON: what was asked for, every cell with each pattern's values, and the distances."""
    apart = {way: distances(cells, way) for way in (B, ROUNDS, LONG)}
    text = json.dumps(
        {**about, "cells": msgspec.to_builtins(cells), "distances": msgspec.to_builtins(apart)}, indent=1
    )
    path.write_text(text + "\n")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--patterns", type=int, default=20, metavar="N", help="so many of them, drawn by the seed")
    which.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument(
        "--stack",
        default="combined",
        metavar="NAME",
        help="of the study: combined has a cloud volume's cap, uncapped is as fast and uneven as the machine",
    )
    parser.add_argument("--fixed", type=int, default=60, metavar="SECONDS", help="the fixed time")
    parser.add_argument("--each", type=int, default=4, metavar="SECONDS", help="of a round")
    parser.add_argument("--rounds", default="3..15", metavar="LEAST..MOST")
    parser.add_argument("--groups", type=int, default=4, metavar="N",
                        help=f"of patterns, each with at least {LEAST_GROUP}")  # fmt: skip
    parser.add_argument("--longest", type=int, default=60, metavar="SECONDS", help="of the one long run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every pattern's values there as well")
    found = parser.parse_args()
    if found.patterns < 1 or found.groups < 1:
        parser.error("--patterns and --groups must be at least 1")
    return found


def rules(asked: argparse.Namespace) -> dict[str, Stop]:
    """The stopping rule of each way. Raises ``SystemExit`` for one that a study could not have either."""
    fixed = Stop(fixed=Duration(f"{asked.fixed}s"))
    made = {
        A: fixed, B: fixed,
        ROUNDS: Stop(rounds=asked.rounds, each=Duration(f"{asked.each}s")),
        LONG: Stop(half_width=Share("2%"), at_least=Duration("5s"), at_most=Duration(f"{asked.longest}s")),
    }  # fmt: skip
    for way, stop in made.items():
        for field, problem in stop.problems():
            raise SystemExit(f"{way}: {field}: {problem}")
    return made


def expected(ways: Mapping[str, Stop], patterns: int, groups: int) -> tuple[float, float]:
    """The least and the most seconds that all of it takes."""
    least = most = 10 + _CELL * groups * len(ways)
    for stop in ways.values():
        rule = stop.rule()
        starts = (rule.least, rule.most) if rule.kind == "rounds" else (1, 1)
        shortest = min(rule.longest, max(rule.shortest, LEAST_VALUES)) if rule.kind == "long" else rule.shortest
        least += patterns * (shortest + starts[0] * _START)
        most += patterns * (rule.longest + starts[1] * _START)
    return least, most


def go(asked: argparse.Namespace, fio: Fio, ways: Mapping[str, Stop], groups: Sequence[Sequence[str]],
       cells: list[Cell]) -> None:  # fmt: skip
    """Measure every group in every way, into ``cells``, until a node is lost."""
    names = random.Random(f"{asked.seed} ways").sample(list(ways), len(ways))
    started = time.monotonic()
    with standing(UmlSite(), read(STUDY), [asked.stack]) as stand:
        for number, group in enumerate(groups):
            made = workloads(fio, ways, group)
            for way in (names[place] for place in SQUARE[number % len(SQUARE)]):
                try:
                    cells.append(cell(stand, asked.stack, made[way], way, number, f"{asked.seed} {number} {way}"))
                except NodeLost as error:
                    raise SystemExit(f"stopped: {error.message}") from error
                took = f"{cells[-1].wall:.0f} s for {len(cells[-1].found)} patterns"
                print(f"{time.monotonic() - started:6.0f} s  group {number + 1}/{len(groups)}, {way}: {took}",
                      flush=True)  # fmt: skip


def main() -> None:
    """Say how long it takes, measure, print and keep what there is even where it ended early."""
    asked = options()
    fio = read(STUDY).workloads[WORKLOAD]
    assert isinstance(fio, Fio)
    names, ways = list(fio.all_jobs), rules(asked)
    count = len(names) if asked.all else min(asked.patterns, len(names))
    patterns = random.Random(asked.seed).sample(names, count)
    groups = dealt(patterns, asked.groups)
    least, most = expected(ways, count, len(groups))
    limit = 1.2 * most + 120
    print(f"{count} of {len(names)} patterns (seed {asked.seed}) in {len(groups)} groups: takes {least / 60:.0f} "
          f"to {most / 60:.0f} minutes, and is ended after {limit / 60:.0f}", flush=True)  # fmt: skip
    cells: list[Cell] = []
    try:
        with bounded(limit):
            go(asked, fio, ways, groups, cells)
    finally:
        if asked.json:
            about = {name: str(value) if isinstance(value, Path) else value for name, value in vars(asked).items()}
            dump(asked.json, {"asked": about, "patterns": patterns}, cells)
        show_times(cells, asked.fixed)
        show_ways(cells)


if __name__ == "__main__":
    main()
