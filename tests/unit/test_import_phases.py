"""Times of every form, and the jobs that a time line shows: found where they are, and not where they are not."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.clock import Clock, resolve, stamp
from blocklab.imports.phases import Second, Span, spans
from blocklab.imports.timeline import Phases, job_file, line_of, phases_of
from blocklab.model.sample import Sample
from blocklab.workloads.fio_jobs import Section
from tests.unit.import_checks import watched

NOON = datetime(2020, 8, 11, 12, tzinfo=UTC).timestamp()


def times(*texts: str, order: str = "", anchors: tuple[float, ...] = (), zone: str = "UTC") -> list[str]:
    """What the texts mean, in UTC."""
    stamps = tuple(found for text in texts if (found := stamp(text)) is not None)
    assert len(stamps) == len(texts)
    at = UTC if zone == "UTC" else ZoneInfo(zone)
    known, _ = resolve(Clock(stamps), "x.txt", zone=at, order=order, anchors=anchors)
    return [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M:%S}" if each is not None else "" for each in known]


@pytest.mark.parametrize(
    "text",
    [
        "2020-08-11T00:29:55+0000", "2020-08-11 00:29:55", "2020-08-11T09:29:55+09:00", "2020/08/11 12:29:55 AM",
        "08/31/2020 00:29:55", "31.08.2020 00:29:55", "Tue Aug 11 00:29:55 UTC 2020", "11 Aug 2020 12:29:55 AM",
        "1597105795", "[2020-08-11 00:29:55]",
    ],
)  # fmt: skip
def test_times_that_can_mean_one_thing_only(text: str) -> None:
    assert times(text) in (["2020-08-11 00:29:55"], ["2020-08-31 00:29:55"])


@pytest.mark.parametrize("text", ["xvdd", "25:00:00", "2020-08-11", "13:00:00 PM", "0.00 0.00", ""])
def test_what_is_no_time(text: str) -> None:
    assert stamp(text) is None


def test_a_date_that_may_mean_several_days_is_an_error_with_its_cure() -> None:
    with pytest.raises(StudyError, match=r"2020-08-11 .ymd., 2011-08-20 .dmy.") as caught:
        times("20/08/11 00:29:55")
    assert caught.value.hint == "say which: --dates ymd|dmy"
    assert times("20/08/11 00:29:55", order="dmy") == ["2011-08-20 00:29:55"]
    assert times("20/08/11 00:29:55", anchors=(NOON,)) == ["2020-08-11 00:29:55"]
    assert times("11-08 00:29:55", anchors=(NOON,)) == ["2020-08-11 00:29:55"]
    # Only one order has both days.
    assert times("08/11/20 00:29:55", "08/31/20 00:29:55")[0] == "2020-08-11 00:29:55"


def test_a_damaged_date_does_not_spoil_the_others() -> None:
    good = [f"2020-08-11 00:29:{second:02}" for second in range(60)]
    assert times(*good[:30], "2020-18-11 00:29:30", *good[31:]) == [*good[:30], "", *good[31:]]
    with pytest.raises(StudyError, match="not valid in any order"):
        times(good[0], "2020-18-11 00:29:30")


def test_zones_midnight_and_missing_dates() -> None:
    assert times("2020-08-11 00:29:55", zone="Asia/Tokyo") == ["2020-08-10 15:29:55"]
    assert times("23:59:59", "00:00:01", anchors=(NOON,)) == ["2020-08-11 23:59:59", "2020-08-12 00:00:01"]
    assert times("11:59:59 PM", "12:00:01 AM") == ["1970-01-01 23:59:59", "1970-01-02 00:00:01"]
    _, said = resolve(Clock((stamp("10:00:00") or pytest.fail(),)), "x", zone=UTC, order="", anchors=())
    assert said == ["its times have no date: put on 1970-01-01", "its times have no zone: read as UTC"]


def at(text: str) -> float:
    """A moment in UTC."""
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def test_times_without_a_date_stand_as_near_to_the_sure_ones_as_can_be() -> None:
    night = times("00:00:00", "09:00:00", zone="Asia/Tokyo", anchors=(at("2020-08-10 15:30:00"),))
    assert night == ["2020-08-10 15:00:00", "2020-08-11 00:00:00"]
    assert times("23:59:00", "00:03:00", anchors=(at("2020-08-11 00:01:00"),))[0] == "2020-08-10 23:59:00"
    assert times("00:01:00", anchors=(at("2020-08-10 23:59:00"),)) == ["2020-08-11 00:01:00"]
    # It watched for long before the workload began.
    assert times("01:00:00", "15:00:00", anchors=(at("2020-08-11 14:00:00"),))[0] == "2020-08-11 01:00:00"


def first_line(*day: int, order: str = "", anchors: tuple[float, ...] = ()) -> list[str]:
    """What is said of a time without a date under such a first line."""
    clock = Clock((stamp("10:00:00") or pytest.fail(),), day)
    _, said = resolve(clock, "x.txt", zone=UTC, order=order, anchors=anchors)
    return said[:1]


def test_a_first_line_that_may_mean_several_days_is_no_guess() -> None:
    with pytest.raises(
        StudyError, match=r"x.txt: its first line may mean 2020-08-11 .mdy., 2020-11-08 .dmy."
    ) as no:
        first_line(8, 11, 2020)
    assert no.value.hint == "say which: --dates mdy|dmy"
    plain = "its times have no date: 2020-{}, as its first line says"
    assert first_line(8, 31, 2020) == [plain.format("08-31")] and first_line(8, 8, 2020) == [plain.format("08-08")]
    assert first_line(8, 11, 2020, order="dmy") == [plain.format("11-08")]
    read = ", read as month, day, year: so it is near the sure times beside it"
    assert first_line(8, 11, 2020, anchors=(NOON,)) == [plain.format("08-11") + read]


def test_times_of_several_zones_are_right_and_said() -> None:
    texts = ("2020-08-11T00:29:55+0000", "2020-08-11T09:29:56+0900")
    assert times(*texts) == ["2020-08-11 00:29:55", "2020-08-11 00:29:56"]
    stamps = tuple(found for text in texts if (found := stamp(text)) is not None)
    _, said = resolve(Clock(stamps), "x", zone=UTC, order="", anchors=())
    assert said == ["its times are of several zones, or some have none"]


# -- phases ------------------------------------------------------------------------------------------------------


def line(*pieces: tuple[int, float, float, float], noise: float = 0.0, seed: int = 1) -> list[Second]:
    """Pieces of (seconds, IOPS, request size, await in ms)."""
    rng = random.Random(seed)
    found: list[Second] = []
    for seconds, iops, size, wait in pieces:
        for _ in range(seconds):
            rate = iops * rng.lognormvariate(0, noise) if noise else iops
            found.append(Second(float(len(found)), rate, rate * size, wait / 1e3 if rate else None))
    return found


def test_an_idle_gap_parts_two_jobs_that_do_the_same() -> None:
    assert spans(line((5, 0, 0, 0), (10, 500, 4096, 1), (1, 0, 0, 0), (10, 500, 4096, 1))) == [
        Span(5, 14), Span(16, 25)
    ]  # fmt: skip


def test_a_change_of_the_request_size_alone_is_a_change() -> None:
    (first, second) = spans(line((20, 500, 131072, 9), (20, 500, 4096, 9)))
    assert first.first == 0 and 18 <= first.last <= 19 and 20 <= second.first <= 21 and second.last == 39


def test_a_queue_that_drains_for_a_moment_parts_two_jobs_of_the_same_rate() -> None:
    assert spans(line((15, 488, 131072, 9.05), (1, 488, 131072, 6.97), (15, 488, 131072, 9.05))) == [
        Span(0, 14), Span(16, 30)
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.25))
def test_a_load_whose_rate_wanders_is_not_cut_to_pieces(seed: int, noise: float) -> None:
    assert len(spans(line((60, 800, 4096, 1), noise=noise, seed=seed))) <= 2


def test_the_parts_of_seconds_at_the_ends_are_left_out() -> None:
    assert spans(line((3, 0, 0, 0), (1, 200, 4096, 1), (12, 1000, 4096, 1), (1, 400, 4096, 1), (3, 0, 0, 0))) == [
        Span(4, 15)
    ]  # fmt: skip


def test_nothing_in_a_time_line_of_an_idle_device() -> None:
    assert spans(line((20, 0, 0, 0))) == [] and spans([]) == []


def samples() -> list[Sample]:
    """A device that was busy twice, 15 s each."""
    return [
        Sample(metric, value * (1 + at // 30), unit, "sda", "h", time=1000.0 + at)
        for at in [*range(15), *range(30, 45)]
        for metric, value, unit in (("write.iops", 100.0, "1/s"), ("write.bandwidth", 4e5, "B/s"))
    ] + [
        Sample(metric, 0.0, "1/s", "sda", "h", time=1000.0 + at)
        for at in range(15, 30)
        for metric in ("write.iops", "write.bandwidth")
    ]


def found(samples: list[Sample], *jobs: Section) -> Phases:
    """The phases of one stack."""
    line = line_of("local", watched(samples))
    assert line is not None
    (made,) = phases_of([line], jobs)
    return made


def test_phases_get_the_names_of_the_jobs_where_these_fit() -> None:
    sections = job_file("x.fio", "[global]\nruntime=15\ntime_based\n[a]\nrw=write\n[b]\nrw=randwrite\n")
    made = found(samples(), *sections)
    assert [phase.name for phase in made.phases] == ["a", "b"]
    rates = {each.phase: each.value for each in made.values if each.metric == "write.iops" and each.time is None}
    assert rates == {"a": 100.0, "b": 200.0}
    assert "30 of 45 intervals; what falls between them is left out" in made.said[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a]\nruntime=15\n", "has 1 jobs, but the time line of sda shows 2 parts"),
        ("[a]\nruntime=60\ntime_based\n[b]\nruntime=15\n", "runs for 60 s"),
    ],
)
def test_a_time_line_stays_one_run_where_the_jobs_do_not_fit(text: str, why: str) -> None:
    made = found(samples(), *job_file("x.fio", text))
    assert [phase.name for phase in made.phases] == ["run"]
    assert any(why in said for said in made.said)


def test_a_job_file_without_jobs_is_refused() -> None:
    with pytest.raises(StudyError, match=r"no .section. in it"):
        job_file("x.fio", "[global]\nrw=write\n")
