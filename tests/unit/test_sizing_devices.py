"""Which devices count, and the device counters of iostat and /proc/diskstats as series."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.host import device_names
from blocklab.formats.kinds import KINDS
from blocklab.formats.text import Refused, Text
from blocklab.sizing import devices
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Interval, Rates, Series, Trust, without
from blocklab.sizing.snapshots import pair
from tests.unit.sizing_texts import Taken, mutated, text_of

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "sizing"
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "aws-drbd"


def series(device: str, source: str = "iostat", *, reads: float | None = 1.0, start: float = 0.0) -> Series:
    rates = Rates(
        reads=reads, writes=reads, read_bytes=1e4, write_bytes=1e4, requests=2.0 if reads is None else None
    )
    intervals = tuple(Interval(start=start + 10 * each, seconds=10.0, rates=rates) for each in range(6))
    return Series(
        system="h", source=source, trust=Trust.DEVICE, files=(Path("f"),), intervals=intervals, device=device
    )  # fmt: skip


def names(found: list[Series]) -> list[str]:
    return [one.device or one.source for one in found]


@pytest.mark.parametrize(
    ("there", "count"),
    [
        ("sda sda1 sda2 dm-0 dm-1 loop0 sr0", "sda"),
        ("sda sdb md0 drbd0", "sda sdb"),
        ("nvme0n1 nvme0n1p1 nvme1n1", "nvme0n1 nvme1n1"),
        ("nvme0n1 nvme0c0n1", "nvme0n1"),
        ("xvda1 xvdf", "xvda1 xvdf"),
        ("vda vda1 zram0 vg-data bcache0", "vda"),
        ("mmcblk0 mmcblk0p1 mmcblk0boot0", "mmcblk0"),
        ("md127 dm-0 drbd0", "md127"),
        ("drbd0 drbd1", "drbd0 drbd1"),
        ("centos-root centos-swap", "centos-root centos-swap"),
        ("ubda ubdb drbd0", "ubda ubdb"),
        ("dev259-0 dev253-0", "dev259-0"),
        ("loop0 loop1", "loop0 loop1"),
        ("sda sda1 sdb1", "sda sdb1"),
    ],
)
def test_each_request_counts_once(there: str, count: str) -> None:
    found, said = devices.chosen([series(each) for each in there.split()], [])
    assert names(found) == count.split()
    left = set(there.split()) - set(count.split())
    assert not left or all(any(each in remark for remark in said) for each in left)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("dev8-0", "sda"), ("dev8-16", "sdb"), ("dev8-17", "sdb1"), ("dev65-0", "sdq"), ("dev65-160", "sdaa"),
        ("dev128-0", "sddy"), ("dev202-80", "xvdf"), ("dev9-127", "md127"), ("dev147-0", "drbd0"),
        ("dev253-0", "dev253-0"), ("dev259-1", "dev259-1"), ("nvme0n1", "nvme0n1"), ("/dev/sdb", "sdb"),
    ],
)  # fmt: skip
def test_the_numbers_of_sar_become_the_names_of_the_kernel(given_name: str, name: str) -> None:
    assert device_names.named(given_name) == name


def test_what_was_asked_for_wins() -> None:
    found, said = devices.chosen([series(each) for each in ("sda", "sdb", "dm-0")], ["/dev/dm-0"])
    assert names(found) == ["dm-0"] and "sda" in said[0]
    found, _ = devices.chosen([series("sda"), series("sdb")], ["dev8-16"])
    assert names(found) == ["sdb"]


def test_an_unknown_device_is_refused_with_those_there() -> None:
    with pytest.raises(StudyError, match="sdz") as error:
        devices.chosen([series("sda"), series("sdb")], ["sdz"])
    assert "sda, sdb" in error.value.hint


def test_a_partition_and_its_disk_asked_for_are_said_to_count_twice() -> None:
    _, said = devices.chosen([series("sda"), series("sda1")], ["sda", "sda1"])
    assert any("twice" in each for each in said)


def test_the_host_as_a_whole_and_its_disks_are_never_added_up() -> None:
    apart, together = series("", "sar -b"), series("sda", "sar -d", reads=None)
    found, said = devices.chosen([together, apart], [])
    assert names(found) == ["sar -b"]
    assert "does not tell reads and writes apart" in said[-1]
    found, _ = devices.chosen([apart, series("sda")], [])
    assert names(found) == ["sda"]


def test_of_another_time_the_other_source_counts_too() -> None:
    found, said = devices.chosen([series("sda"), series("", "sar -b", start=30.0)], [])
    assert [(one.source, len(one.intervals)) for one in found] == [("iostat", 6), ("sar -b", 3)]
    assert "3 of 6" in said[-1]


def test_one_disk_by_its_name_and_by_numbers_that_cannot_be_translated_counts_once() -> None:
    found, said = devices.chosen([series("dev259-0", "sar -d", reads=None), series("nvme0n1")], [])
    assert names(found) == ["nvme0n1"] and "sar -d: 6 of 6" in said[-1]


def test_lvm_and_virtio_disks_by_numbers_are_told_apart_by_what_they_moved() -> None:
    upper, lower = series("dev253-0", "sar -d", reads=None), series("dev252-0", "sar -d", reads=None)
    fewer = tuple(
        Interval(
            start=each.start, seconds=each.seconds, rates=Rates(read_bytes=1e4, write_bytes=1e4, requests=1.0)
        )
        for each in lower.intervals
    )
    found, said = devices.chosen([upper, msgspec.structs.replace(lower, intervals=fewer)], [])
    assert names(found) == ["dev252-0"] and "same bytes" in said[0]


def test_cloud_volumes_and_the_disks_of_the_host_are_the_same() -> None:
    found, _ = devices.chosen([series("vol-0a", "CloudWatch EBS"), series("nvme1n1")], [])
    assert names(found) == ["nvme1n1"]
    found, _ = devices.chosen([series("vol-0a", "CloudWatch EBS"), series("", "CloudWatch EC2")], [])
    assert names(found) == ["vol-0a"]


def test_reads_and_writes_are_taken_off_what_is_told_together() -> None:
    assert without(Rates(requests=3.0), [Rates(reads=1.0, writes=1.0)]).requests == 1.0


def test_iostat_reports_cover_the_time_before_their_stamp() -> None:
    if not DATA.is_dir():
        pytest.skip(f"no {DATA.name}")
    found = Taken("iostat", text_of(DATA / "iostat_local.txt"), Reading(order="ymd"))
    (one,) = found.series
    assert one.device == "xvdd" and len(one.intervals) == 105
    assert one.intervals[0].end == 1597105795.0 and one.intervals[0].seconds == 1.0
    assert one.intervals[0].rates.reads == 0.05
    with pytest.raises(StudyError, match="may mean"):
        Taken("iostat", text_of(DATA / "iostat_local.txt"))


def row(at: str, device: str, reads: float) -> str:
    return f"{at} {device}" + f" {reads:.2f}" + " 0.00" * 14


def test_a_pause_of_iostat_belongs_to_no_report() -> None:
    times = ("10:00:10", "10:00:20", "10:00:30", "11:00:10", "11:00:20")
    lines = tuple(row(f"2024-05-01 {at}", "sda", 1.0) for at in times)
    (one,) = Taken("iostat", Text(Path("a"), lines)).series
    assert [each.seconds for each in one.intervals] == [10.0] * 5
    assert one.intervals[3].start == one.intervals[2].end + 3570.0


def test_reports_that_go_back_are_left_out_and_said() -> None:
    times = ("10:00:10", "10:00:20", "10:00:10", "10:00:20", "10:00:30")
    lines = tuple(row(f"2024-05-01 {at}", "sda", 1.0) for at in times)
    found = Taken("iostat", Text(Path("a"), lines))
    assert sum(each.seconds for each in found.series[0].intervals) <= 30.0
    assert any("not later" in each for each in found.remarks)


def test_iostat_without_times_tells_rates_and_no_duration() -> None:
    found = Taken("iostat", text_of(GOLDEN / "iostat" / "untimed.txt"))
    assert found.series[0].untimed
    assert any("how long its intervals are is not known" in each for each in found.remarks)


def test_an_iostat_that_ran_once_is_an_average_since_the_boot() -> None:
    found = Taken("iostat", Text(Path("a"), text_of(GOLDEN / "iostat" / "untimed.txt").lines[:5]))
    assert found.series[0].since_start


def test_diskstats_become_rates_between_two_dumps() -> None:
    found = Taken("diskstats", text_of(GOLDEN / "diskstats" / "dated.txt"))
    by = {one.device: one for one in pair(found.snapshots).series}
    (one,) = by["vda"].intervals
    assert (one.seconds, one.rates.reads, one.rates.writes, one.flushes) == (60.0, 10.0, 20.0, 1.0)
    assert (one.rates.read_bytes, one.rates.write_bytes) == (48000 * 512 / 60, 192000 * 512 / 60)
    assert one.read_latency == pytest.approx(0.001)


def test_milliseconds_past_32_bits_go_on() -> None:
    found = Taken("diskstats", text_of(GOLDEN / "diskstats" / "dated.txt"))
    (one,) = next(each for each in pair(found.snapshots).series if each.device == "vda").intervals
    assert one.write_latency == pytest.approx(1.0 / 1200)
    assert any("2^32" in each for each in found.remarks)


def test_counters_of_a_run_are_read_in_pairs_by_the_uptime() -> None:
    counters = HERE / "golden" / "counters"
    snapshots = [
        one
        for name in ("ramp.before.a1", "ramp.after.a1")
        for one in Taken("diskstats", text_of(counters / name)).snapshots
    ]
    by = {one.device: one for one in pair(snapshots).series}
    (one,) = by["ubdb"].intervals
    assert one.seconds == pytest.approx(28.06 - 23.25)
    assert one.rates.writes == pytest.approx((17859 - 10346) / (28.06 - 23.25))
    chosen, _ = devices.chosen(list(by.values()), [])
    assert names(chosen) == ["ubda", "ubdb"]


def test_dumps_without_times_are_told_apart_by_the_devices_that_come_again() -> None:
    lines = text_of(GOLDEN / "diskstats" / "dated.txt").lines
    found = Taken("diskstats", Text(Path("a"), tuple(each for each in lines if "UTC" not in each)))
    (one, *_) = pair(found.snapshots, every=60.0).series
    assert one.untimed and one.intervals[0].rates.reads == 10.0
    assert any("--every" in each for each in pair(found.snapshots).remarks)


def test_a_restart_between_two_dumps_makes_no_interval() -> None:
    lines = text_of(GOLDEN / "diskstats" / "dated.txt").lines
    found = Taken(
        "diskstats", Text(Path("a"), tuple(each.replace(" 1600 10 ", " 16 10 ") for each in lines)), Reading()
    )
    paired = pair(found.snapshots)
    assert all(one.device != "vda" for one in paired.series)
    assert any("counters fell" in each for each in paired.remarks)


def test_a_line_that_is_no_device_is_named() -> None:
    lines = (*text_of(GOLDEN / "diskstats" / "dated.txt").lines, "cat: /proc/diskstats: no such file")
    found = Taken("diskstats", Text(Path("a"), lines))
    assert found.found.bad == 1 and found.found.bad_rows[0].line == len(lines)


_FILES = sorted(
    [*(GOLDEN / "diskstats").iterdir(), *(GOLDEN / "iostat").iterdir(), HERE / "golden/counters/ramp.after.a1"]
)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(_FILES))
def test_damaged_files_are_refused_or_read(data: st.DataObject, path: Path) -> None:
    text = mutated(data, path.read_text())
    for kind in ("iostat", "iostat-json", "diskstats"):
        KINDS[kind].fits(text.text)
        try:
            found = Taken(kind, text)
        except (Refused, StudyError):
            continue
        every = [*found.series, *pair(found.snapshots).series]
        devices.chosen(every, [])
        for one in every:
            for each in one.intervals:
                assert each.seconds > 0
                assert all(value is None or value >= 0 for value in (each.rates.reads, each.rates.write_bytes))
