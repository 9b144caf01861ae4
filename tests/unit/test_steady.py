"""Stalls, and bursts that are used up: told, since a mean over a short run hides them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blocklab.model.sample import Phase, Sample
from blocklab.stats.analysis import analyse
from blocklab.stats.findings import findings
from blocklab.stats.steady import Unsteady, unsteady
from blocklab.stats.values import Measured
from blocklab.store.run import Outcome, Run
from blocklab.study.types import Cell
from tests.unit import synthetic, synthetic_drills


def told(rounds: Sequence[Sequence[float]], metric: str = "tps") -> list[tuple[str, float, float]]:
    """(kind, seconds, by) of a run that goes in rounds, a minute apart, with these rates second by second. The
    tool reports a part of a second at either end of a round, too."""
    samples, phases = [Sample(metric, 1.0, "1/s", "pgbench", "a1")], []
    for number, rates in enumerate(rounds):
        start = 60.0 * number
        phases.append(Phase("tx", start, start + len(rates) + 0.5))
        each = [5.0, *rates, 5.0]
        samples += [
            Sample(metric, rate, "1/s", "pgbench", "a1", time=start + second + 0.02)
            for second, rate in enumerate(each)
        ]
    run = Run(Path(), Cell("k", "m", "tx", {}), Outcome("ok"), {}, (), (), tuple(samples), tuple(phases), ())
    return [(each.kind, each.count, round(each.by, 2)) for each in unsteady("m", "tx", Measured(run, "a1"))]


def noisy(chance: random.Random, count: int, rate: float = 1000.0) -> list[float]:
    return [rate * chance.gauss(1, 0.03) for _ in range(count)]


def test_what_is_noisy_only_is_steady() -> None:
    chance = random.Random(1)
    for _ in range(200):
        assert told([noisy(chance, 4) for _ in range(5)]) == []
        assert told([noisy(chance, 60)]) == []


def test_a_stall_is_told_and_a_part_of_a_second_at_a_rounds_end_is_none() -> None:
    chance = random.Random(2)
    rounds = [noisy(chance, 4) for _ in range(4)]
    rounds[2][1] = 190.0
    assert told(rounds) == [("stalls", 1.0, 0.0)]


def test_a_second_without_events_among_few_is_chance() -> None:
    assert told([[9.0, 10.0, 2.0, 11.0, 10.0, 9.0, 10.0, 12.0]]) == []


def test_a_burst_that_is_used_up_is_told_wherever_it_ends() -> None:
    chance = random.Random(3)
    within = [*noisy(chance, 20), *noisy(chance, 40, 600.0)]
    [(kind, seconds, by)] = told([within])
    assert (kind, seconds) == ("fell", 20.0) and by == pytest.approx(0.4, abs=0.03)
    [(kind, seconds, _)] = told([noisy(chance, 4), noisy(chance, 4, 600.0), noisy(chance, 4, 600.0)])
    assert (kind, seconds) == ("fell", 4.0)
    # What warms up does not fall.
    assert told([[*noisy(chance, 20, 600.0), *noisy(chance, 40)]]) == []


def test_a_long_run_is_looked_at_as_a_whole() -> None:
    chance = random.Random(4)
    [(kind, seconds, _)] = told([[*noisy(chance, 1200), *noisy(chance, 2400, 600.0)]])
    assert kind == "fell" and seconds == pytest.approx(1200, abs=60)


def test_the_answer_names_the_worst(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path))
    assert analysis.unsteady == ()
    found = (
        Unsteady("local", "tx", "", "stalls", 1, 60), Unsteady("mirror", "tx", "", "stalls", 9, 60),
        Unsteady("mirror", "io", "4k", "fell", 20, 60, 0.4),
    )  # fmt: skip
    stalls, fell = [
        each for each in findings(replace(analysis, unsteady=found)).caveats if each.kind == "unsteady"
    ]
    assert (stalls.verdict, stalls.about, stalls.count, stalls.value("for")) == ("stalls", "mirror/tx", 2, 9)
    assert (fell.verdict, fell.about, fell.count, fell.value("by")) == ("fell", "mirror/io 4k", 1, 0.4)


def test_a_drills_fault_is_no_stall(tmp_path: Path) -> None:
    analysis = analyse(synthetic_drills.make_drills(tmp_path))
    assert analysis.drills and analysis.unsteady == ()
