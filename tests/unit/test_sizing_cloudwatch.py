"""CloudWatch's metrics become rates only where the statistic is one that means a period."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.kinds import KINDS as EVERY
from blocklab.formats.text import Refused, Text
from blocklab.sizing.models import cloudwatch
from blocklab.sizing.series import Series
from tests.unit.sizing_texts import Taken, mutated, text_of

KINDS = ("cloudwatch-json", "cloudwatch-csv")
GOLDEN = Path(__file__).parent / "golden" / "sizing" / "cloudwatch"
VOL = "vol-0123456789abcdef0"
TEN = 1714557600.0


def read(name: str) -> Taken:
    return of(text_of(GOLDEN / name))


def of(text: Text) -> Taken:
    head = text.text
    (kind,) = (name for name in KINDS if EVERY[name].fits(head))
    return Taken(kind, text)


def statistics(path: str, label: str, *points: tuple[str, dict[str, float]]) -> Taken:
    rows = [{"Timestamp": f"2024-05-01T{at}Z", **values} for at, values in points]
    return of(Text(Path(path), tuple(json.dumps({"Label": label, "Datapoints": rows}).split("\n"))))


def starts(one: Series) -> list[float]:
    return [each.start - TEN for each in one.intervals]


def test_sums_are_divided_by_the_period_and_missing_points_are_no_interval() -> None:
    (one,) = read("statistics.json").series
    assert starts(one) == [0.0, 300.0, 900.0]
    assert [each.rates.reads for each in one.intervals] == [100.0, 200.0, 300.0]
    assert {each.seconds for each in one.intervals} == {300.0}


def test_an_average_of_bytes_counts_only_with_its_number_of_samples() -> None:
    found = read("statistics.json")
    first = found.series[0].intervals[0]
    assert first.rates.read_bytes == 16384 * 30000 / 300
    assert first.rates.write_bytes is None
    assert any("VolumeWriteBytes" in each and "--statistics Sum" in each for each in found.remarks)


def test_the_total_time_and_the_operations_give_the_latency() -> None:
    assert read("statistics.json").series[0].intervals[0].read_latency == pytest.approx(15 / 30000)


def test_a_sparse_metric_has_the_period_of_the_others() -> None:
    (one,) = read("data.json").series
    assert one.device == VOL
    assert [each.rates.reads for each in one.intervals] == [1.0, 5.0, 10.0]
    assert [each.rates.writes for each in one.intervals] == [2.0, None, 20.0]


def test_averages_of_operations_are_refused_with_the_option_to_use() -> None:
    said = read("data.json").remarks
    assert any("VolumeWriteOps" in each and "--statistics Sum" in each for each in said)
    with pytest.raises(Refused, match="--statistics Sum"):
        statistics(f"{VOL}.json", "VolumeReadOps", ("10:00:00", {"Average": 4.5}), ("10:05:00", {"Average": 2.5}))


def test_what_is_not_of_storage_is_named() -> None:
    assert any("BurstBalance" in each for each in read("data.json").remarks)


def test_queries_in_the_file_tell_metric_database_and_period() -> None:
    (one,) = read("queries.json").series
    assert (one.source, one.system, one.device) == ("CloudWatch RDS", "orders", "")
    assert [(each.seconds, each.rates.reads, each.rates.writes) for each in one.intervals] == [
        (60.0, 12.5, 100.25), (60.0, 20.0, 90.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "reads"), [("console.csv", [1.0, 5.0, 10.0]), ("points.csv", [1.0, 2.0])])
def test_csv(name: str, reads: list[float]) -> None:
    found = read(name)
    assert [each.rates.reads for each in found.series[0].intervals] == reads
    assert found.series[0].device == VOL


def test_an_empty_cell_is_unknown_and_not_0() -> None:
    assert [each.rates.writes for each in read("console.csv").series[0].intervals] == [2.0, None, 20.0]


def test_volumes_are_told_apart() -> None:
    assert [each.device for each in read("points.csv").series] == [VOL, "vol-0fedcba9876543210"]


def test_without_a_statistic_many_whole_numbers_are_sums_and_fractions_are_refused() -> None:
    def result(*values: float) -> Text:
        times = [f"2024-05-01T10:0{number}:00Z" for number in range(len(values))]
        table = {"Id": "a", "Label": "VolumeReadOps", "Timestamps": times, "Values": list(values)}
        return Text(Path(f"{VOL}.json"), (json.dumps({"MetricDataResults": [table]}),))

    found = of(result(60, 120, 180, 240, 0))
    assert [each.rates.reads for each in found.series[0].intervals] == [1.0, 2.0, 3.0, 4.0, 0.0]
    assert any("read as the sum" in each for each in found.remarks)
    for values in ((60, 120, 180.2, 240, 300), (60, 60, 60, 60)):
        with pytest.raises(Refused, match="PROP"):
            of(result(*values))


def test_one_data_point_tells_no_period() -> None:
    with pytest.raises(Refused, match="period is not known"):
        statistics(f"{VOL}.json", "VolumeReadOps", ("10:00:00", {"Sum": 4.0}))


def test_two_volumes_without_names_in_one_file_are_named() -> None:
    first = json.dumps(
        {
            "Label": "VolumeReadOps",
            "Datapoints": [
                {"Timestamp": "2024-05-01T10:00:00Z", "Sum": 300.0},
                {"Timestamp": "2024-05-01T10:05:00Z", "Sum": 300.0},
            ],
        }
    )
    found = of(Text(Path("a.json"), (first, first.replace("300.0", "900.0"))))
    # None of them is left out: both do I/O.
    assert [[each.rates.reads for each in one.intervals] for one in found.series] == [[1.0, 1.0], [3.0, 3.0]]
    assert any("2 results that differ at the same time" in each for each in found.remarks)
    assert not any("taken for one volume;" in each for each in found.remarks)
    # The same result twice is one volume.
    (once,) = of(Text(Path("a.json"), (first, first))).series
    assert [each.rates.reads for each in once.intervals] == [1.0, 1.0]


def test_a_cut_file_keeps_its_whole_data_points() -> None:
    lines = text_of(GOLDEN / "statistics.json").lines[:15]
    found = of(Text(Path(f"{VOL}.json"), lines))
    assert [each.rates.reads for each in found.series[0].intervals] == [100.0, 200.0]
    assert found.found.bad == 1 and found.bad[0].line == 14


def test_merge_joins_the_metrics_of_one_volume_out_of_several_files() -> None:
    ops = statistics(f"{VOL}-a.json", "VolumeReadOps", ("10:00:00", {"Sum": 300.0}), ("10:05:00", {"Sum": 600.0}))
    size = statistics(f"{VOL}-b.json", "VolumeReadBytes", ("10:00:00", {"Sum": 3e6}), ("10:05:00", {"Sum": 6e6}))
    time = statistics(
        f"{VOL}-c.json", "VolumeTotalReadTime", ("10:00:00", {"Sum": 3.0}), ("10:05:00", {"Sum": 3.0})
    )
    (one,) = cloudwatch.merge([*ops.series, *size.series, *time.series])
    assert [(each.rates.reads, each.rates.read_bytes) for each in one.intervals] == [(1.0, 1e4), (2.0, 2e4)]
    assert [each.read_latency for each in one.intervals] == [pytest.approx(0.01), pytest.approx(0.005)]
    assert [file.name for file in one.files] == [f"{VOL}-{each}.json" for each in "abc"]


def test_merge_leaves_contradictions_and_other_sources_as_they_are() -> None:
    first = statistics("a.json", "VolumeReadOps", ("10:00:00", {"Sum": 300.0}), ("10:05:00", {"Sum": 600.0}))
    second = statistics("b.json", "VolumeReadOps", ("10:00:00", {"Sum": 900.0}), ("10:05:00", {"Sum": 600.0}))
    every = [*first.series, *second.series]
    merged = cloudwatch.merge(every)
    assert len(merged) == 2 and all(a is b for a, b in zip(merged, every, strict=True))


def test_times_of_a_volume_without_its_operations_are_no_series_in_the_end() -> None:
    time = statistics("c.json", "VolumeTotalReadTime", ("10:00:00", {"Sum": 3.0}), ("10:05:00", {"Sum": 3.0}))
    assert any("need the operations" in each for each in time.remarks)
    assert cloudwatch.merge(time.series) == []


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(path.name for path in GOLDEN.iterdir())))
def test_damaged_files_are_refused_or_read(data: st.DataObject, name: str) -> None:
    text = mutated(data, (GOLDEN / name).read_text())
    for kind in KINDS:
        EVERY[kind].fits(text.text)
        try:
            found = Taken(kind, text)
        except (Refused, StudyError):
            continue
        for one in cloudwatch.merge(found.series):
            assert all(each.seconds > 0 for each in one.intervals)
            assert all(a.end <= b.start + 1e-3 for a, b in zip(one.intervals, one.intervals[1:], strict=False))
