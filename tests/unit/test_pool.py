"""Values of several machines put together: against formulas, tables, and simulation."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.rules.series import t975
from blocklab.stats.pool import beyond_f, pool

VALUES = [0.61, 0.64, 0.58]


def student(values: list[float]) -> float:
    return t975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


@pytest.mark.parametrize("machines", [[], ["a", "a", "a"], ["a", "b", "c"]])
def test_one_machine_and_one_build_on_each_are_students_interval_over_the_builds(machines: list[str]) -> None:
    found = pool(VALUES, machines)
    assert (found.centre, found.half) == (statistics.fmean(VALUES), student(VALUES))
    assert (found.between, found.within, found.chance, found.low) == (None, None, None, None)


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert pool([2.0], ["a"]).half is None
    with pytest.raises(statistics.StatisticsError):
        pool([])


def test_equal_numbers_of_builds_are_students_interval_over_the_machines_means() -> None:
    found = pool([1.0, 1.1, 2.0, 2.2, 3.0, 3.1], list("aabbcc"))
    means = [1.05, 2.1, 3.05]
    assert found.centre == pytest.approx(statistics.fmean(means))
    assert found.half == pytest.approx(student(means))
    assert found.within == pytest.approx(math.sqrt((0.005 + 0.02 + 0.005) / 3))
    # Variance of the means, less what the builds alone would make.
    between = statistics.variance(means) - 0.01 / 2
    assert found.between == pytest.approx(math.sqrt(between))
    error = statistics.variance(means) / 3
    assert found.high == pytest.approx(found.centre + t975(2) * math.sqrt(between + error))
    assert found.chance is not None
    assert found.chance < 0.001


def test_unequal_numbers_weigh_machines_more_alike_the_more_they_differ() -> None:
    alike = pool([1.0, 1.2, 0.9, 1.1, 1.05], list("aaaab"))
    assert alike.between == 0
    assert alike.centre == pytest.approx(1.05)
    apart = pool([1.0, 1.2, 0.9, 1.1, 9.0], list("aaaab"))
    assert apart.between is not None
    assert apart.between > 5
    assert apart.centre == pytest.approx((1.05 + 9) / 2, rel=0.01)


def test_machines_that_agree_by_luck_are_no_surer_than_their_builds() -> None:
    values = [0.9, 1.1, 0.9001, 1.1]
    assert pool(values, list("aabb")).half == pytest.approx(student(values))


def test_values_that_are_all_the_same_are_no_error() -> None:
    found = pool([0.5, 0.5, 0.5, 0.5], list("aabb"))
    assert (found.centre, found.half, found.between, found.chance) == (0.5, 0.0, 0.0, 1.0)
    exact = pool([0.5, 0.5, 0.7, 0.7], list("aabb"))
    assert exact.chance == 0
    assert exact.centre == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("value", "above", "below", "chance"),
    # Tables of F: 5 % and 1 %.
    [(161.448, 1, 1, 0.05), (18.513, 1, 2, 0.05), (6.944, 2, 4, 0.05), (10.925, 2, 6, 0.01), (2.393, 9, 20, 0.05),
     (4.965, 1, 10, 0.05), (1.0, 7, 7, 0.5), (0.0, 2, 3, 1.0), (0.05, 2, 20, 0.9514),
     (1e-30, 1, 3, 1.0), (1e300, 2, 3, 0.0), (math.inf, 2, 3, 0.0)],
)  # fmt: skip
def test_the_f_distribution_is_that_of_tables(value: float, above: int, below: int, chance: float) -> None:
    assert beyond_f(value, above, below) == pytest.approx(chance, abs=1e-4)


@given(
    st.lists(st.tuples(st.floats(-10, 10), st.sampled_from("abc")), min_size=2, max_size=9),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_scale_and_place_change_nothing_else(pairs: list[tuple[float, str]], factor: float, shift: float) -> None:
    values, machines = [round(value, 3) for value, _ in pairs], [machine for _, machine in pairs]
    plain, moved = pool(values, machines), pool([factor * value + shift for value in values], machines)
    assert moved.centre == pytest.approx(factor * plain.centre + shift, abs=1e-6)
    assert moved.half == pytest.approx(factor * (plain.half or 0.0), abs=1e-5)
    assert min(values) - 1e-9 <= plain.centre <= max(values) + 1e-9


def test_the_interval_holds_the_truth_and_the_test_is_seldom_wrong() -> None:
    """Of 600 simulated sets each: three machines with three builds; the error is under a point."""
    dice = random.Random(31)
    for spread in (0.0, 0.05, 0.20):
        held = said = 0
        for _ in range(600):
            shifts = [dice.gauss(0, spread) for _ in range(3)]
            values = [shift + dice.gauss(0, 0.05) for shift in shifts for _ in range(3)]
            found = pool(values, [number for number in range(3) for _ in range(3)])
            held += abs(found.centre) <= (found.half or 0)
            said += (found.chance or 0) < 0.05
        assert held >= 0.93 * 600
        if not spread:
            assert said <= 0.08 * 600
    assert said > 500
