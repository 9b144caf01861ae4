"""Many ratios at once: the chance of even one false difference among them stays what one's would be."""

from __future__ import annotations

import math
import random

import pytest

from blocklab.stats.holm import beyond, cautious, digamma, trigamma
from blocklab.stats.ratio import verdict
from blocklab.stats.repeats import paired
from blocklab.stats.summary import Estimate


@pytest.mark.parametrize(
    ("t", "df", "chance"),
    # Quantiles of Student's t from printed tables.
    [(12.7062, 1, 0.05), (4.3027, 2, 0.05), (3.1824, 3, 0.05), (2.2281, 10, 0.05), (63.657, 1, 0.01),
     (9.9248, 2, 0.01), (4.0321, 5, 0.01), (2.6006, 200, 0.01), (0.0, 7, 1.0)],
)  # fmt: skip
def test_the_tails_of_students_t(t: float, df: int, chance: float) -> None:
    assert beyond(t, df) == pytest.approx(chance, rel=2e-3)


def test_digamma_and_trigamma_at_halves() -> None:
    assert digamma(2) == pytest.approx(-0.577216, abs=1e-6) and digamma(1) == pytest.approx(-1.963510, abs=1e-6)
    assert digamma(9) == pytest.approx(1.388871, abs=1e-6), "of 4.5"
    assert trigamma(2) == pytest.approx(math.pi**2 / 6) and trigamma(1) == pytest.approx(math.pi**2 / 2)
    assert trigamma(9) == pytest.approx(0.248725, abs=1e-6), "of 4.5"


def campaign(
    dice: random.Random, ratios: list[float], spread: float, builds: int = 3
) -> list[tuple[int, Estimate]]:
    """Ratios over so many builds, of which each is off by a chance of its own."""
    return [
        (at, paired([ratio * math.exp(dice.gauss(0, spread)) for _ in range(builds)]))
        for at, ratio in enumerate(ratios)
    ]


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.05])
def test_of_many_equal_layouts_hardly_ever_one_differs(spread: float) -> None:
    dice = random.Random(1)
    alone = among = 0
    for _ in range(300):
        found = campaign(dice, [1.0] * 48, spread)
        alone += any(verdict(share) == "differs" for _, share in found)
        among += any(verdict(share) == "differs" for share in cautious(found))
    assert among / 300 <= 0.08
    assert alone / 300 > 0.5 or not spread, "each by itself they do"


def test_what_differs_much_still_does_among_many() -> None:
    """Half of 48 layouts keep 80 %, at 2 % between builds."""
    dice = random.Random(2)
    found = cautious(campaign(dice, [0.8] * 24 + [1.0] * 24, 0.02))
    assert sum(verdict(share) == "differs" for share in found[:24]) >= 22
    assert all(verdict(share) != "differs" for share in found[24:])
    doubted = [share for share in found if share.doubt == "chance"]
    assert doubted and all(share.half is not None for share in doubted), "its interval is told all the same"


def test_spreads_that_are_not_alike_do_not_borrow_from_each_other() -> None:
    """One of ten layouts differs from build to build by twenty times as much as the others."""
    dice = random.Random(3)
    false = 0
    for _ in range(300):
        steady = campaign(dice, [1.0] * 9, 0.005)
        wild = campaign(dice, [1.0], 0.1)
        false += any(verdict(share) == "differs" for share in cautious([*steady, (9, wild[0][1])]))
    assert false / 300 <= 0.08


def test_what_has_no_interval_or_another_doubt_takes_no_part() -> None:
    once, unlike = Estimate(0.5), Estimate(0.5, 0.01, 3, "unlike machines")
    sure = Estimate(0.5, 0.01, 3)
    assert cautious([(0, once), (1, unlike), (2, sure)]) == [once, unlike, sure]
    # Three builds that agree by chance: by itself it would differ, beside 19 that vary more it does not.
    near = Estimate(0.93, 0.06, 3)
    assert verdict(near) == "differs"
    many = cautious([(0, near), *((at, Estimate(1.0, 0.2, 3)) for at in range(1, 20))])
    assert verdict(many[0]) == "too noisy to say"
