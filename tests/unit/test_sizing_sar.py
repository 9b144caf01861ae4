"""sar's text and sadf's JSON and CSV as series, of old and new versions, and where they are damaged."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats import kinds
from blocklab.formats.text import Refused, Text
from blocklab.sizing import devices
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Rates, Series
from tests.unit.sizing_texts import Taken, mutated, text_of

GOLDEN = Path(__file__).parent / "golden" / "sizing" / "sar"
KINDS = {name: kinds.KINDS[name] for name in ("sar", "sadf-json", "sadf-csv", "iostat", "iostat-json")}
SAR_FILES = sorted(path.name for path in GOLDEN.iterdir())
START = datetime(2026, 11, 23, 2, 57, 25, tzinfo=UTC).timestamp()


def of(text: Text, reading: Reading | None = None) -> Taken:
    (name,) = [name for name, kind in KINDS.items() if kind.fits(text.text)]
    return Taken(name, text, reading)


def read(name: str, reading: Reading | None = None) -> Taken:
    return of(text_of(GOLDEN / name), reading)


def lines(*rows: str) -> Text:
    return Text(Path("sar.txt"), rows)


def by_device(found: Taken) -> dict[str, Series]:
    return {one.device: one for one in found.series}


@pytest.mark.parametrize("name", ["restart.txt", "sadf.json", "sadf.csv"])
def test_devices_and_the_whole_host_of_one_file(name: str) -> None:
    by = by_device(read(name))
    assert {key: one.source for key, one in by.items()} == {"vda": "sar -d", "": "sar -b"}
    assert all(one.system == one.host == "vm" for one in by.values())
    disk, host = by["vda"].intervals[0], by[""].intervals[0]
    assert (disk.start, disk.seconds, host.start, host.seconds) == (START, 2.0, START, 2.0)
    assert disk.rates == Rates(read_bytes=116 * 1024.0, write_bytes=21680 * 1024.0, requests=1019.5)
    assert host.rates == Rates(reads=5.0, writes=904.0, read_bytes=232 * 512.0, write_bytes=43360 * 512.0)


@pytest.mark.parametrize("name", ["restart.txt", "pretty.txt", "sadf.json", "sadf.csv", "sadf-epoch.csv"])
def test_no_interval_goes_across_a_restart(name: str) -> None:
    found = read(name)
    one = by_device(found)["vda"]
    assert [each.start - START for each in one.intervals] == [0.0, 2.0, 4.0, 6.0, 8.0, 134.0]
    assert [each.seconds for each in one.intervals] == [2.0] * 5 + [1.0]
    assert any("restarts of the host: 1;" in each for each in found.remarks)


def test_averages_at_the_end_are_no_interval() -> None:
    assert len(by_device(read("b.txt"))[""].intervals) == 5
    assert read("b.txt").found.bad == 0


def test_discards_among_the_requests_are_said() -> None:
    assert any("TRIM" in each for each in read("pretty.txt").remarks)


def test_numbers_for_humans_are_refused_with_the_command() -> None:
    with pytest.raises(Refused, match=r"sar -h.*sar -d -b -u -f"):
        read("human.txt")


def test_an_old_version_with_two_days_and_a_clock_of_12_hours() -> None:
    found = read("rhel6-12h.txt", Reading(order=""))
    by = by_device(found)
    assert list(by) == ["sda", "sdb", "dev253-0"]
    at = [datetime.fromtimestamp(each.start, UTC) for each in by["sdb"].intervals]
    assert at == [
        datetime(2019, 12, 31, 23, 40, 1, tzinfo=UTC),
        datetime(2019, 12, 31, 23, 50, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC),
    ]
    assert [each.rates.write_bytes for each in by["sdb"].intervals] == [20000 * 512, 40000 * 512, 60000 * 512]
    assert found.found.bad == 0


def test_one_wait_is_of_the_only_kind_of_requests_there_was() -> None:
    by = by_device(read("rhel6-12h.txt"))
    first, second = by["sdb"].intervals[:2]
    assert (first.read_latency, first.write_latency) == (None, 0.005)
    assert (second.read_latency, second.write_latency) == (None, None)


def test_lvm_on_disks_does_not_count_again() -> None:
    found, said = devices.chosen(read("rhel6-12h.txt").series, [])
    assert [one.device for one in found] == ["sda", "sdb"]
    assert "dev253-0" in said[0]


def test_other_languages_write_times_and_decimals_their_way() -> None:
    found = read("korean.txt")
    one = by_device(found)["nvme0n1"]
    assert [each.rates.requests for each in one.intervals] == [2.0, 4.0]
    assert [each.rates.read_bytes for each in one.intervals] == [0.0, 16 * 1024.0]
    assert any("decimal commas" in each for each in found.remarks)


def test_a_zone_behind_the_time_is_no_device() -> None:
    one = by_device(read("zone.txt"))[""]
    assert [each.rates.reads for each in one.intervals] == [4.0, 0.0]


def test_times_are_of_the_zone_that_was_given() -> None:
    tokyo = Reading(zone=timezone(timedelta(hours=9)))
    assert read("b.txt", tokyo).series[0].intervals[0].start == START - 9 * 3600
    assert read("sadf.json", tokyo).series[0].intervals[0].start == START


def test_dates_that_may_mean_two_days_ask() -> None:
    text = "\n".join(text_of(GOLDEN / "b.txt").lines).replace("11/23/26", "11/03/2026").split("\n")
    with pytest.raises(StudyError, match="may mean"):
        of(lines(*text))
    found = of(lines(*text), Reading(order="dmy"))
    assert datetime.fromtimestamp(found.series[0].intervals[0].start, UTC).month == 3


HEADER = "Linux 5.4.0 (h) \t2026-11-23 \t_x86_64_\t(2 CPU)"
NAMES = "10:00:00          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util"


def sar_row(at: str, tps: str = "1.00", device: str = "sda") -> str:
    return f"{at}          {device}      {tps}      4.00      4.00      8.00      0.00      0.00      0.00"


def test_a_damaged_row_is_named_and_not_counted() -> None:
    found = of(
        lines(HEADER, NAMES, sar_row("10:10:00"), sar_row("10:20:00", "1,019.50"), sar_row("10:30:00")[:40])
    )
    assert [each.rates.requests for each in found.series[0].intervals] == [1.0]
    assert [each.line for each in found.found.bad_rows] == [4, 5]


def test_a_time_that_was_there_before_counts_once() -> None:
    again = (HEADER, NAMES, sar_row("10:10:00"), sar_row("10:20:00"))
    found = of(lines(*again, *again))
    assert len(found.series[0].intervals) == 2
    assert any("there before" in each for each in found.remarks)


def test_two_statistics_of_one_day_one_after_the_other_are_of_that_day() -> None:
    b = "10:00:00          tps      rtps      wtps   bread/s   bwrtn/s"
    rows = [f"10:{minute}:00         2.00      1.00      1.00      8.00      8.00" for minute in (10, 20)]
    found = of(lines(HEADER, "", b, *rows, "", NAMES, sar_row("10:10:00"), sar_row("10:20:00")))
    by = by_device(found)
    assert by["sda"].intervals[0].start == by[""].intervals[0].start
    assert by["sda"].intervals[-1].end == by[""].intervals[-1].end


def test_the_cpu_and_other_statistics_are_passed_over() -> None:
    cpu = ("10:00:00        CPU     %user     %nice", "10:10:00        all      1.00      0.00", "")
    found = of(lines(HEADER, "", *cpu, NAMES, sar_row("10:10:00"), "", *cpu))
    assert len(found.series) == 1 and found.found.bad == 0


def test_sar_without_disks_is_refused_with_the_command() -> None:
    with pytest.raises(Refused, match="sar -d -b -u -f FILE"):
        of(lines(HEADER, "", "10:00:00        CPU     %user     %nice", "10:10:00        all      1.00      0.00"))


def test_a_single_row_after_no_header_is_refused() -> None:
    with pytest.raises(Refused, match="no complete row"):
        of(lines(HEADER, NAMES))


def test_json_that_is_cut_keeps_its_whole_reports() -> None:
    text = (GOLDEN / "sadf.json").read_text()
    *whole, cut = text[: text.index('"time": "02:57:33"')].split("\n")
    found = of(Text(Path("a"), tuple(whole), cut))
    assert [len(one.intervals) for one in found.series] == [3, 3]
    assert found.found.bad == 1


def test_json_of_several_days_in_one_file() -> None:
    text = (GOLDEN / "sadf.json").read_text()
    found = of(Text(Path("a"), tuple((text + text.replace("2026-11-23", "2026-11-24")).split("\n"))))
    assert [len(one.intervals) for one in found.series] == [12, 12]


def test_json_with_decimal_commas() -> None:
    text = re.sub(r"(\d)\.(\d\d)", r"\1,\2", (GOLDEN / "sadf.json").read_text())
    assert by_device(of(Text(Path("a"), tuple(text.split("\n")))))["vda"].intervals[0].rates.requests == 1019.5


def test_json_of_an_old_version_has_sectors_and_no_kilobytes() -> None:
    text = re.sub(r'"[rwd]kB": [\d.]+, ', "", (GOLDEN / "sadf.json").read_text())
    one = by_device(of(Text(Path("a"), tuple(text.split("\n")))))["vda"]
    assert one.intervals[0].rates.write_bytes == 43360 * 512


def test_csv_of_an_old_version_has_dashes_in_its_times() -> None:
    found = of(lines(
        "# hostname;interval;timestamp;DEV;tps;rd_sec/s;wr_sec/s;avgrq-sz;avgqu-sz;await;svctm;%util",
        "mail-srv01g;599;2013-09-19 00-45-01;dev8-0;13,89;0,28;766,76;55,24;0,21;15,44;1,59;2,21",
        "mail-srv01g;600;2013-09-19 00-55-01;dev8-0;13,89;0,28;766,76;55,24;0,21;15,44;1,59",
    ))  # fmt: skip
    (one,) = found.series
    assert (one.device, one.intervals[0].rates.requests, one.intervals[0].seconds) == ("sda", 13.89, 599.0)
    assert [each.line for each in found.found.bad_rows] == [3]


def test_the_json_of_iostat_and_of_sadf_are_told_apart() -> None:
    for name, kind in (("sar/sadf.json", "sadf-json"), ("iostat/iso.json", "iostat-json")):
        head = (GOLDEN.parent / name).read_text()
        assert [each for each in KINDS if KINDS[each].fits(head)] == [kind]


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(SAR_FILES))
def test_damaged_files_are_refused_or_read(data: st.DataObject, name: str) -> None:
    text = mutated(data, (GOLDEN / name).read_text())
    for kind in ("sar", "sadf-json", "sadf-csv"):
        KINDS[kind].fits(text.text)
        try:
            found = Taken(kind, text)
        except (Refused, StudyError):
            continue
        devices.chosen(found.series, [])
        for one in found.series:
            assert all(each.seconds > 0 for each in one.intervals)
            assert len({each.end for each in one.intervals}) == len(one.intervals)


def test_iostat_without_x_has_requests_of_both_ways_and_cpus_are_no_disks() -> None:
    folder = GOLDEN.parent.parent / "import"
    (one,) = of(text_of(folder / "iostat-t.txt"), Reading(order="mdy")).series
    assert one.intervals[0].rates == Rates(read_bytes=15444 * 1024.0, write_bytes=5332 * 1024.0, requests=1288.0)
    with pytest.raises(Refused, match="iostat -c has no disks; take iostat -t -x 10"):
        of(text_of(folder / "iostat-c.txt"))
    both = of(text_of(folder / "sar.txt"), Reading(order="mdy"))
    assert [each.device for each in both.series] == ["", "vda"]
