"""The time that a study takes: what it is made of, its range, and what finished cells make of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from blocklab.campaign.remaining import GUESS, Machine, Remaining
from blocklab.cli.measure import about
from blocklab.model.sample import Parsed
from blocklab.model.stop import SNIA, Rule, Stop
from blocklab.model.units import Duration, Size
from blocklab.model.workload import WithData
from blocklab.rules.settle import ends
from blocklab.runner.estimate import (
    BOOT_SECONDS,
    BUILD_SECONDS,
    DATA_SECONDS,
    START_SECONDS,
    UNKNOWN_SECONDS,
    Span,
    between,
    costs,
    load,
    spoken,
)
from blocklab.runner.events import Done
from blocklab.store.run import Outcome, Stopped
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import Dd, Fio, Pgbench, Sysbench
from tests.unit.synthetic import floor

OK = Outcome("ok", seconds=80.0)
QUIET, LOUD = Machine(noise=0.001), Machine(noise=0.3)


class Clock:
    """Time that goes when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rounds(small: dict[str, Any]) -> Study:
    """The small study's two stacks under two workloads that go on in 3 to 15 rounds of 4 s, three times each."""
    stop = {"rounds": "3..15", "each": "4s"}
    one = {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write"}}, "stop": stop}
    return build({**small, "workloads": {"io": one, "more": {**one, "size": "32MiB"}}, "repeats": 3})


# -- parts ------------------------------------------------------------------------------------------------------


def test_a_stopping_rule_gives_a_range_and_a_fixed_time_does_not() -> None:
    jobs: dict[str, dict[str, str | int | float | bool]] = {"one": {"rw": "read"}, "two": {"rw": "write"}}
    ruled = load(Fio(size=Size("16MiB"), jobs=jobs, stop=Stop()))
    assert (ruled.least, ruled.most, ruled.starts) == (3 * 2 * 4, 15 * 2 * 4, (6, 30))
    assert ruled.starting(0.5) == 18 * START_SECONDS
    long = load(Pgbench(stop=Stop(at_least=Duration("5s"), at_most=Duration("60s"))))
    assert (long.least, long.most, long.starts) == (5, 60, (1, 1))
    # Each round has its warm-up.
    warm = load(Sysbench(warmup=Duration("10s")))
    assert (warm.least, warm.most) == (3 * 14, 15 * 14)
    for fixed in (Pgbench(time=Duration("20s")), Pgbench(stop=Stop(fixed=Duration("20s")))):
        assert load(fixed).least == load(fixed).most == 20
    unknown = load(Pgbench(transactions=1000))
    assert unknown.open_ended and not ruled.open_ended and load(Dd(mode="direct")).open_ended
    assert (unknown.least, unknown.most) == UNKNOWN_SECONDS


def test_what_cells_share_is_paid_once(small: dict[str, Any]) -> None:
    study = rounds(small)
    found = costs(study, cells(study))
    assert len(found) == 12
    for begin, seconds in (("boot", BOOT_SECONDS), ("build", BUILD_SECONDS)):
        assert {each.once[name] for each in found for name in each.once if name.startswith(begin)} == {seconds}
    builds = {name for each in found for name in each.once if name.startswith("build")}
    boots = {name for each in found for name in each.once if name.startswith("boot")}
    # Two layouts in each of three repeats; each repeat boots the nodes of a layout that the other has not.
    assert len(builds) == len(boots) == 6
    alone = costs(study, [each.cell for each in found if each.cell.stack == "mirror"])
    assert len({name for each in alone for name in each.once if name.startswith("boot")}) == 1


def test_data_are_loaded_once_for_each_stack(small: dict[str, Any]) -> None:
    small["workloads"] = {
        "tpcc": {"workload": "tpcc", "warehouses": 1, "time": "20s"},
        "sysbench": {"workload": "sysbench", "time": "20s"},
    }
    study = build(small)
    assert all(isinstance(each, WithData) for each in study.workloads.values())
    found = [name for each in costs(study, cells(study)) for name, s in each.once.items() if s == DATA_SECONDS]
    assert len(found) == len(set(found)) == 4


# -- where in the range -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Rule("rounds"), Rule("long"), SNIA])
def test_a_noise_that_never_meets_the_rule_ends_at_its_cap(rule: Rule) -> None:
    assert ends(rule, 0.0) == ends(rule, 0.001) == 0.0 and ends(rule, 0.3) == 1.0
    shares = [ends(rule, noise / 1000) for noise in range(0, 300, 5)]
    assert shares == sorted(shares)


def test_where_a_rule_ends_is_as_its_own_interval_has_it() -> None:
    # 1.2 x t(8 degrees of freedom) x 2 % / sqrt(9) = 1.84 %, and 2.02 % of 8 rounds.
    assert ends(Rule("rounds"), 0.02) == (9 - 3) / (15 - 3)
    assert ends(Rule("fixed", at_most=60.0), 0.3) == 0.0 and ends(Rule("rounds", least=3, most=3), 0.3) == 0.0


def test_the_floor_says_how_slow_and_how_noisy_a_machine_is() -> None:
    assert Machine.of(None) == Machine(1.0, None)
    known = msgspec.structs.replace(floor(noise=10.0), ready=2 * (BOOT_SECONDS + BUILD_SECONDS))
    assert Machine.of(known) == Machine(2.0, 0.1)


def test_before_the_start_the_noise_says_where_in_the_range(small: dict[str, Any]) -> None:
    study = rounds(small)
    parts = costs(study, cells(study))
    unknown, quiet, loud = (Remaining(parts, machine).left() for machine in (Machine(), QUIET, LOUD))
    assert unknown.likely is None and (quiet.least, quiet.most) == (loud.least, loud.most)
    assert quiet.likely is not None and loud.likely is not None
    assert quiet.least < quiet.likely < loud.likely < loud.most
    shared = {name: seconds for each in parts for name, seconds in each.once.items()}
    around = sum(each.around for each in parts) + sum(shared.values())
    settled, capped = (
        (around + sum(each.load.starting(share) for each in parts), sum(each.load.at(share) for each in parts))
        for share in (0.0, 1.0)
    )
    assert quiet.least == pytest.approx(settled[0] / GUESS + settled[1])
    assert quiet.likely == pytest.approx(sum(settled)) and loud.likely == pytest.approx(sum(capped))
    assert loud.most == pytest.approx(capped[0] * GUESS + capped[1])
    slow = Remaining(parts, Machine(3.0, 0.3)).left()
    assert slow.likely == pytest.approx(loud.likely + 2 * capped[0])


def test_it_is_said_before_the_start(small: dict[str, Any]) -> None:
    study = rounds(small)
    said = about(study, cells(study), costs(study, cells(study)), LOUD)
    left = Remaining(costs(study, cells(study)), LOUD).left()
    assert said == (
        f"12 cells on 6 layouts: {between(left.least, left.most)}, probably {spoken(left.likely or 0)}; the least "
        "if every workload settles at once, the most if none does; rates differ by 30\u00a0% from round to round "
        "on this machine"
    )
    small["workloads"] = {"tx": {"workload": "pgbench", "transactions": 1000}}
    study = build(small)
    said = about(study, cells(study), costs(study, cells(study)), LOUD)
    assert "probably" not in said and "settles" not in said and "2 cells do a fixed amount of work" in said


def test_in_computed_time_no_part_of_a_cell_is_known_before_one_was_measured(small: dict[str, Any]) -> None:
    """A load of 60 s may take 2 s of this machine's time, or 600."""
    study = rounds(small)
    parts, clock = [each.computed for each in costs(study, cells(study))], Clock()
    # Two labs in parallel.
    remaining = Remaining(parts, Machine(0.5), clock)
    first = remaining.left()
    assert first.least == pytest.approx((first.likely or 0) / GUESS) and first.most < 12 * GUESS * 120
    for each in parts[:6]:
        clock.now += 2.0
        remaining.finished(Done.of(each.cell, OK, Parsed(), [Stopped("w", "capped", rounds=15, seconds=60.0)]))
    left = remaining.left()
    # Six more of 2 s each; the guesses still count for a minute.
    assert left.likely is not None and 12 < left.likely < 60 and left.most < 100


# -- finished cells ---------------------------------------------------------------------------------------------


def test_what_finished_cells_took_replaces_the_guesses(small: dict[str, Any]) -> None:
    study = rounds(small)
    parts, clock = costs(study, cells(study)), Clock()
    remaining = Remaining(parts, QUIET, clock)
    first = remaining.left()
    for number, each in enumerate(parts[:6]):
        clock.now += 60 + 20 + (9 if number == 0 else 0)
        remaining.finished(Done.of(each.cell, OK, Parsed(), [Stopped("w", "capped", rounds=15, seconds=60.0)]))
    left = remaining.left()
    assert left.likely is not None and first.likely is not None
    # No cell was quiet, whatever the machine's floor says; those that were measured before are known best.
    assert left.likely > first.likely / 2
    assert left.most - left.least < (first.most - first.least) / 2
    # A cell that takes longer than it should is about to end; the others are still to come.
    key = parts[6].cell.key
    whole = remaining.left(key)
    clock.now += 5000
    late = remaining.left(key)
    assert 0 < late.least < whole.least and late.most < whole.most
    # What fails at once makes no cell shorter.
    remaining.finished(Done.of(parts[6].cell, Outcome("failed"), Parsed(), ()))
    again = remaining.left(parts[7].cell.key)
    assert again.likely == pytest.approx(late.likely, abs=15)


def test_a_cell_that_does_a_fixed_amount_of_work_is_known_once_it_was_measured(small: dict[str, Any]) -> None:
    tx = {"workload": "pgbench", "transactions": 1000}
    study = build({**small, "workloads": {"tx": tx}, "repeats": 2})
    parts, clock = costs(study, cells(study)), Clock()
    remaining = Remaining(parts, QUIET, clock)
    assert remaining.left().likely is None
    for each in parts[:2]:
        clock.now += 1000
        remaining.finished(Done.of(each.cell, Outcome("ok", seconds=990.0), Parsed(), ()))
    left = remaining.left()
    assert left.likely is not None and left.least < 2000 < left.most


def test_nothing_is_left_at_the_end(small: dict[str, Any]) -> None:
    study = rounds(small)
    parts, clock = costs(study, cells(study)), Clock()
    remaining = Remaining(parts, LOUD, clock)
    for each in parts:
        clock.now += 30
        remaining.finished(Done.of(each.cell, OK, Parsed(), [Stopped("w", "settled", rounds=3, seconds=12.0)]))
    assert remaining.left() == Span(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (Span(240, 400, 540), "4 to 9 min, probably 7 min"),
        (Span(45, None, 80), "45 to 80 s"),
        (Span(45, None, 180), "45 s to 3 min"),
        (Span(45, 45, 45), "45 s"),
        (Span(4800, None, 36_000), "80 min to 10 h 0 min"),
        (Span(6000, None, 13_200), "1 h 40 min to 3 h 40 min"),
    ],
)
def test_a_range_reads_as_people_say_it(span: Span, said: str) -> None:
    assert span.text == said
