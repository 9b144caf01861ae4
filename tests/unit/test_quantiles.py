"""Tables of quantiles: what is drawn from them, and how far a histogram is from one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from blocklab.model.quantiles import at, distance, share, shifted

TABLE = [(0.5, 0.5e-3), (0.99, 3e-3), (0.999, 12e-3)]


def test_between_two_quantiles_the_logarithm_is_linear_and_beyond_them_it_is_constant() -> None:
    assert [at(TABLE, quantile) for quantile in (0.0, 0.5, 0.99, 0.999, 1.0)] == pytest.approx(
        [0.5e-3, 0.5e-3, 3e-3, 12e-3, 12e-3]
    )
    assert at(TABLE, 0.745) == pytest.approx((0.5e-3 * 3e-3) ** 0.5)
    # As the server draws it: volume/latency_tests.rs.
    assert [share(TABLE, seconds) for seconds in (0.0, 0.4999e-3, 0.5e-3, 3e-3, 12e-3, 1)] == pytest.approx(
        [0, 0, 0.5, 0.99, 1, 1]
    )


@given(some.floats(0.5, 0.9989))
def test_a_latency_is_at_its_own_share(quantile: float) -> None:
    assert share(TABLE, at(TABLE, quantile)) == pytest.approx(quantile, abs=1e-9)


def test_a_table_is_shifted_down_to_next_to_nothing() -> None:
    assert shifted(TABLE, 1e-3) == [(0.5, pytest.approx(1.5e-3)), (0.99, 4e-3), (0.999, pytest.approx(13e-3))]
    assert [seconds for _, seconds in shifted(TABLE, -4e-3)] == pytest.approx([1e-9, 1e-9, 8e-3])
    # All of it may be constant, and two quantiles the same.
    assert at([(0.5, 1e-3)], 0.9) == 1e-3 and share([(0.1, 1e-3), (0.9, 1e-3)], 1e-3) == 1


def drawn(factor: float = 1.0) -> list[tuple[float, float]]:
    """What many draws would be found as, all of them so much later."""
    shares = [each / 1000 for each in range(501, 1000)]
    return [
        (0.0, 0.4999e-3 * factor),
        (0.5, 0.5e-3 * factor),
        *((each, at(TABLE, each) * factor) for each in shares),
    ]


def test_the_distance_of_a_histogram() -> None:
    assert distance(TABLE, drawn()) < 0.01
    # Twice as late: where the draws begin, at 1 ms, the table has 69 %.
    assert distance(TABLE, drawn(2)) == pytest.approx(share(TABLE, 1e-3), abs=0.02)
    # 5 % late: far apart at the step of the median, and next to nothing beyond it.
    assert distance(TABLE, drawn(1.05), beyond=0.55e-3) < 0.04 < 0.45 < distance(TABLE, drawn(1.05))
