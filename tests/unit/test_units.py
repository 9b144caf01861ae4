"""Quantities: the unit is part of the value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.model.units import Bandwidth, BitRate, Duration, Size


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Size, "4GiB", 4 * 2**30), (Size, "1.5MiB", 1572864), (Size, "10 MB", 10_000_000),
        (Duration, "450us", 0.00045), (Duration, "2.7 ms", 0.0027), (Duration, "450µs", 0.00045),
        (Duration, "1min", 60.0), (Bandwidth, "60MB/s", 60e6), (Bandwidth, "125MiB/s", 125 * 2**20),
        (BitRate, "100Mbit/s", 1e8),
    ],
)  # fmt: skip
def test_text_becomes_a_number_in_the_base_unit(kind: type, text: str, value: float) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "raw", "hint"),
    [
        (Size, 4, "4GiB"), (Size, "4", "4GiB"), (Duration, 2.7, "2.7ms"), (Duration, "-1ms", "2.7ms"),
        (Bandwidth, "60MB", "MB/s"), (BitRate, "100MB/s", "Mbit/s"), (Size, "4Gib", "GiB"), (Size, True, "4GiB"),
        (Duration, "1,5ms", "2.7ms"), (Size, None, "4GiB"),
    ],
)  # fmt: skip
def test_a_wrong_or_missing_unit_names_the_cure(kind: type, raw: object, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        kind(raw)


@given(st.integers(0, 2**50))
def test_sizes_survive_the_round_trip(number: int) -> None:
    assert Size(str(Size(f"{number}B"))) == number


@given(st.integers(0, 10**13))
def test_durations_survive_the_round_trip(nanoseconds: int) -> None:
    duration = Duration(f"{nanoseconds}ns")
    assert Duration(str(duration)) == duration
