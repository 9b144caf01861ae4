"""Busy hours, percentiles, several systems on one storage, and what is said where the peak is unknown."""

from __future__ import annotations

import math
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.sizing.curve import apart, curve_of, filled, quantile, total
from blocklab.sizing.need import Options, busy_hours, need
from blocklab.sizing.series import Interval, Rates
from blocklab.sizing.show import lead
from tests.unit.synthetic_sizing import HOUR, MIDNIGHT, hourly, interval, system

# -- one system ---------------------------------------------------------------------------------------------------


def test_the_need_is_the_percentile_over_time_and_the_headroom() -> None:
    found = need([hourly("erp", range(100, 200))], Options(percentile=90, headroom=0.3))
    iops = found.amounts["iops"]
    assert (iops.observed, iops.most) == (189, 199)
    assert iops.required == pytest.approx(189 * 1.3)
    assert iops.mean == pytest.approx(149.5)
    assert iops.at == MIDNIGHT + 99 * HOUR
    assert found.peak_known
    assert found.gain is None
    (moment,) = found.moments
    assert (moment.read_size, moment.write_size) == (8192, 16384)
    assert moment.iops == pytest.approx(found.amounts["iops"].required)


def test_most_requests_and_most_bytes_may_be_at_different_times() -> None:
    small = Interval(start=0, seconds=60, rates=Rates(reads=0, writes=2000, read_bytes=0, write_bytes=2000 * 4096))
    large = Interval(
        start=60, seconds=60, rates=Rates(reads=500, writes=0, read_bytes=5e7, write_bytes=0), flushes=1
    )
    by_iops, by_bytes = need([system("erp", [small, large])], Options(headroom=0.5)).moments
    assert (by_iops.by, by_iops.write_iops, by_iops.write_size, by_iops.flushes) == ("iops", 3000, 4096, None)
    assert (by_bytes.by, by_bytes.read_iops, by_bytes.read_bandwidth, by_bytes.flushes) == (
        "bandwidth",
        750,
        7.5e7,
        1.5,
    )


def test_a_percentile_of_few_intervals_is_one_of_them() -> None:
    assert need([hourly("erp", [10, 20, 30])], Options(percentile=99)).amounts["iops"].observed == 30


def test_a_percentile_weighs_by_time_and_not_by_the_number_of_intervals() -> None:
    short = [interval(MIDNIGHT + at, 1, 1000) for at in range(10)]
    found = need([system("erp", [*short, interval(MIDNIGHT + 10, 990, 100)])], Options(percentile=98))
    assert found.amounts["iops"].observed == 100


def test_only_the_busy_hours_count_in_the_users_zone() -> None:
    erp = hourly("erp", [5000 if hour == 3 else 10 * hour for hour in range(24)])
    assert need([erp], Options(busy=busy_hours("8-18"), percentile=100)).amounts["iops"].observed == 170
    tokyo = Options(busy=busy_hours("8-18"), percentile=100, zone=ZoneInfo("Asia/Tokyo"))
    # 8 to 18 in Tokyo is 23 to 9 UTC.
    assert need([erp], tokyo).amounts["iops"].observed == 5000
    night = need([erp], Options(busy=busy_hours("22-6"), percentile=100))
    assert night.amounts["iops"].observed == 5000
    assert night.seconds == 8 * HOUR


def test_busy_hours_may_be_those_of_some_days() -> None:
    week = hourly("erp", [1000 if hour >= 5 * 24 else 10 for hour in range(7 * 24)])
    assert need([week], Options(busy=busy_hours("mon-fri 8-18"))).amounts["iops"].most == 10
    assert need([week], Options(busy=busy_hours("sat,sun 8-18"))).amounts["iops"].observed == 1000


@pytest.mark.parametrize("text", ["", "8", "8-8", "25-3", "xyz 8-18", "8-18-20", "24-3", "8:99x-9"])
def test_what_is_no_hours_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match="no hours of a day"):
        busy_hours(text)


def test_busy_hours_without_any_statistics_are_an_error_with_the_zone_as_hint() -> None:
    with pytest.raises(StudyError, match="no statistics within these hours") as caught:
        need([hourly("erp", [1, 2])], Options(busy=busy_hours("8-18")))
    assert "--zone" in caught.value.hint


# -- long averages ------------------------------------------------------------------------------------------------


def test_the_peak_of_one_long_average_is_unknown_and_never_invented() -> None:
    found = need([system("erp", [interval(MIDNIGHT, 72 * HOUR, 727)])], Options())
    assert not found.peak_known
    assert found.amounts["iops"].required == pytest.approx(727)
    assert any("average over 72 h: the peak is unknown" in remark for remark in found.remarks)
    assert "the peak is unknown" in lead(found)


def test_a_peak_factor_multiplies_long_averages_only() -> None:
    long, short = system("erp", [interval(MIDNIGHT, 72 * HOUR, 100)]), hourly("crm", [50] * 72)
    found = need([long, short], Options(peak_factor=3))
    assert found.peak_known
    iops = found.amounts["iops"]
    # What was observed is what the statistics say; the factor is the user's.
    assert (iops.required, iops.observed, iops.mean) == (350, 150, 150)
    assert found.moments[0].iops == pytest.approx(350)
    assert any("times the peak factor 3 as given" in remark for remark in found.remarks)
    assert any("crm: its intervals are short" in remark for remark in found.remarks)


def test_busy_hours_cannot_be_cut_out_of_a_long_average_and_that_is_said() -> None:
    found = need([system("erp", [interval(MIDNIGHT, 72 * HOUR, 100)])], Options(busy=busy_hours("8-18")))
    assert any("they hold the nights" in remark for remark in found.remarks)


# -- several systems ----------------------------------------------------------------------------------------------


def test_the_peak_of_the_sums_is_less_than_the_sum_of_the_peaks() -> None:
    erp, crm = hourly("erp", [10, 100, 10, 10]), hourly("crm", [10, 10, 10, 80])
    found = need([erp, crm], Options(percentile=100))
    iops = found.amounts["iops"]
    assert (iops.observed, iops.bound) == (110, 180)
    assert found.gain == pytest.approx(1 - 110 / 180)
    assert iops.at == MIDNIGHT + HOUR
    assert [member.observed["iops"] for member in found.members] == [100, 80]


def test_systems_with_other_intervals_are_added_on_a_common_grid() -> None:
    fine = system("fine", [interval(MIDNIGHT + 60 * at, 60, at) for at in range(60)])
    found = need([fine, hourly("coarse", [100])], Options(percentile=100))
    assert found.amounts["iops"].observed == 159
    assert found.amounts["iops"].mean == pytest.approx(100 + 29.5)


def test_time_in_which_not_all_systems_were_seen_does_not_count() -> None:
    found = need([hourly("erp", [10] * 10), hourly("crm", [5000, 10, 10])], Options(percentile=100))
    assert found.left_out_seconds == 7 * HOUR
    assert found.seconds == 3 * HOUR


def test_systems_that_were_never_seen_together_need_the_sum_of_their_peaks() -> None:
    later = system("crm", [interval(MIDNIGHT + 1000 * HOUR, HOUR, 70)])
    found = need([hourly("erp", [10, 100]), later], Options())
    assert not found.together
    assert found.amounts["iops"].required == 170
    assert found.amounts["iops"].at is None
    assert found.gain is None
    assert any("upper bound" in remark for remark in found.remarks)


def test_a_system_without_times_is_added_by_its_peak() -> None:
    found = need([hourly("erp", [10, 100]), hourly("crm", [7, 3], untimed=True)], Options(percentile=100))
    assert not found.together
    assert found.amounts["iops"].required == 107


def test_a_rate_that_one_system_does_not_tell_is_not_told_of_the_sum() -> None:
    blind = system("blind", [Interval(start=MIDNIGHT, seconds=HOUR, rates=Rates(read_bytes=1.0, write_bytes=2.0))])
    found = need([hourly("erp", [10]), blind], Options())
    assert "iops" not in found.amounts
    assert found.amounts["read_bandwidth"].observed == 5 * 8192 + 1


def test_requests_in_flight_are_rate_times_latency() -> None:
    erp = system("erp", [interval(MIDNIGHT, 60, 1000, read_latency=0.002, write_latency=0.001)])
    assert need([erp], Options()).amounts["concurrency"].observed == pytest.approx(500 * 0.002 + 500 * 0.001)
    assert "concurrency" not in need([hourly("erp", [10])], Options()).amounts


def test_statistics_without_any_rate_are_an_error() -> None:
    with pytest.raises(StudyError, match="neither requests nor bytes"):
        need([system("blind", [Interval(start=0, seconds=1, rates=Rates())])], Options())


# -- the pieces ---------------------------------------------------------------------------------------------------


def test_parts_are_taken_off_on_request() -> None:
    with_backup = Interval(
        start=0, seconds=60, rates=Rates(reads=100, writes=10, read_bytes=1e6, write_bytes=1e5),
        parts={"backup": Rates(reads=60, read_bytes=9e5)},
    )  # fmt: skip
    assert curve_of([with_backup]).values["iops"][0] == 110
    assert curve_of([with_backup], ["backup"]).values["iops"][0] == 50
    assert curve_of([with_backup], ["backup"]).values["bandwidth"][0] == pytest.approx(2e5)


def test_of_intervals_that_overlap_the_shortest_is_kept() -> None:
    hours = [(interval(HOUR * at, HOUR, 1), f"hour{at}") for at in range(24)]
    kept, dropped = apart([(interval(0, 24 * HOUR, 1), "day"), *hours, (interval(HOUR, HOUR, 1), "again")])
    assert [each.start for each in kept] == [HOUR * at for at in range(24)]
    assert dropped == [("again", "hour1"), ("day", "hour0")]


def test_another_source_fills_the_time_and_the_flushes_that_the_first_one_lacks() -> None:
    first = curve_of([interval(0, 10, 100)])
    other = curve_of([interval(0, 10, 999, flushes=7), interval(10, 10, 50, flushes=3)])
    both = filled(first, other)
    assert both.values["iops"].tolist() == [100, 50]
    assert both.values["flushes"].tolist() == [7, 3]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1e5), min_size=1, max_size=8), min_size=1, max_size=4),
    st.sampled_from([50.0, 90.0, 99.0, 100.0]),
)
def test_the_sum_conserves_the_requests_and_never_exceeds_the_sum_of_the_peaks(
    rates: list[list[float]], percentile: float
) -> None:
    curves = [
        curve_of([interval(7.0 * (number + 1) * at, 7.0 * (number + 1), value) for at, value in enumerate(values)])
        for number, values in enumerate(rates)
    ]
    both = total(curves)
    for at, seconds in zip(both.starts, both.seconds, strict=True):
        middle = at + seconds / 2
        expected = sum(c.values["iops"][np.searchsorted(c.starts, middle, side="right") - 1] for c in curves)
        mine = both.values["iops"][np.searchsorted(both.starts, middle, side="right") - 1]
        assert mine == pytest.approx(expected)
    top = quantile(both.values["iops"], both.seconds, percentile / 100)
    assert top <= sum(float(c.values["iops"].max()) for c in curves) * (1 + 1e-9)


def test_a_quantile_of_nothing_is_no_number() -> None:
    assert math.isnan(quantile(np.array([math.nan]), np.array([1.0]), 0.5))
