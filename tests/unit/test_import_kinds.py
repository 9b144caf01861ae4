"""Foreign files: each kind known by what it says, read to the right values, and its damage named with the
line."""

from __future__ import annotations

import gzip
import json
import re
import time
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.formats.clock import resolve
from blocklab.formats.found import Found
from blocklab.formats.text import Refused, digest
from blocklab.imports import kinds
from tests.unit.golden import FOLDER
from tests.unit.import_checks import clock_of, samples
from tests.unit.import_samples import BANNER, DSTAT, JDBC_TPCC, NEW, NEW_ROW, SUMMARY, unstamped

# -- iostat: the header of each sysstat, the numbers made up -----------------------------------------------------

CPU = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
    "           4.85    0.00   27.47   15.98    0.00   51.70\n\n"
)
OLD = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await  svctm  %util\n"
MIDDLE = (
    "Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await r_await w_await  "
    "svctm  %util\n"
)
SECTORS = OLD.replace("rkB/s    wkB/s", "rsec/s   wsec/s")


def read(folder: Path, text: str | bytes, name: str = "x.txt", kind: str = "") -> Found:
    """The file as what it says that it is."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return kinds.READERS.read(path, kind or kinds.READERS.kind_of(path))


def values(found: Found, metric: str) -> list[float]:
    """The time series of a metric, or its one value."""
    return [sample.value for sample in samples(found) if sample.metric == metric]


def test_iostat_of_old_sysstat_has_one_await_for_both(tmp_path: Path) -> None:
    row = "sda    0.00     2.00    0.00  500.00     0.00  2000.00     8.00     0.20    0.40   0.40  20.00\n"
    found = read(tmp_path, f"{BANNER}{OLD}{row}\n{OLD}{row}")
    # The first report counts from the boot on.
    assert (found.kind, found.host, found.rows) == ("iostat", "db1", 1)
    assert values(found, "write.iops") == [500.0] and values(found, "write.bandwidth") == [2000 * 1024.0]
    assert values(found, "write.await") == [0.0004] and values(found, "read.await") == []
    assert values(found, "queue") == [0.2] and values(found, "util") == [20.0]
    assert any("counts from the boot" in remark for remark in found.remarks)


def test_iostat_with_times_of_twelve_hours_and_megabytes(tmp_path: Path) -> None:
    row = "sda    0.00  2.00  0.00 7135.00   0.00  27.88   8.00   0.80   0.11   0.00   0.11  0.11  79.60\n"
    report = f"{CPU}{MIDDLE}{row}\n"
    found = read(tmp_path, f"{BANNER}05/31/2018 11:59:59 PM\n{report}06/01/2018 12:00:00 AM\n{report}")
    assert found.rows == 1
    assert values(found, "write.bandwidth") == [27.88 * 1024**2]
    last = clock_of(found).stamps[-1]
    assert (last.numbers, last.seconds) == ((6, 1, 2018), 0.0)


def test_iostat_in_sectors(tmp_path: Path) -> None:
    row = "sda    0.00     0.00   10.00    0.00    80.00     0.00     8.00     0.00    0.30   0.30   0.30\n"
    assert values(read(tmp_path, f"{SECTORS}{row}"), "read.bandwidth") == [80 * 512.0]


def test_iostat_of_new_sysstat(tmp_path: Path) -> None:
    text = f"2020-08-11T00:29:55+0900\n{NEW}{NEW_ROW}\n2020-08-11T00:29:56+0900\n{NEW}{NEW_ROW}"
    found = read(tmp_path, text)
    assert found.rows == 2 and values(found, "flush.iops") == [10.0, 10.0]
    assert values(found, "flush.await") == [0.0002, 0.0002] and values(found, "read.await") == [0.0003] * 2


def test_iostat_without_any_times_goes_by_the_second(tmp_path: Path) -> None:
    found = read(tmp_path, f"{NEW}{NEW_ROW}{NEW_ROW.replace('nvme0n1', 'nvme1n1')}\n" * 3)
    assert found.rows == 6 and [s.time for s in samples(found) if s.metric == "util"] == [0, 0, 1, 1, 2, 2]
    assert any("no times" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    "said",
    [
        "2023年11月20日 10時00分0{}秒", "2023年11月20日 10时00分0{}秒", "2023년 11월 20일 10시 00분 0{}초",
        "Time: 10:00:0{} AM", "11/20/2023 10:00:0{} AM",
    ],
)  # fmt: skip
def test_iostat_of_other_languages_and_ages_has_its_times(tmp_path: Path, said: str) -> None:
    banner = BANNER.replace("08/11/2020", "2023年11月20日" if "年" in said else "11/20/2023")
    reports = "".join(f"{said.format(at)}\n{CPU}{NEW}{NEW_ROW}\n" for at in range(4))
    found = read(tmp_path, banner + reports)
    assert found.bad == 0 and not any("1970" in remark for remark in found.remarks)
    times, _ = resolve(clock_of(found), "x", zone=UTC, order="mdy" if "/" in said else "", anchors=())
    # The first report counts from the boot on.
    assert times[-3:] == [1700474401.0, 1700474402.0, 1700474403.0]


@pytest.mark.parametrize("said", ["Heure : 10h00m0{}s", "10.00.0{}"])
def test_iostat_whose_times_are_not_known_says_so(tmp_path: Path, said: str) -> None:
    reports = "".join(f"{said.format(at)}\n{CPU}{NEW}{NEW_ROW}\n" for at in range(4))
    found = read(tmp_path, BANNER + reports)
    assert found.bad == 4 and found.rows == 3
    why = f"its times cannot be read (line 3: {said.format(0)!r}): its reports are put one second apart"
    assert any(why in remark for remark in found.remarks)
    data = (FOLDER / "iostat/stopped.json").read_text()
    odd = read(tmp_path, re.sub(r'"timestamp": "[^"]*"', '"timestamp": "noon"', data))
    assert any("its times cannot be read ('noon')" in remark for remark in odd.remarks)
    bare = read(tmp_path, re.sub(r'"timestamp": "[^"]*",', "", data))
    assert any("it has no times (iostat -t)" in remark for remark in bare.remarks)


def test_iostat_with_a_time_before_each_line(tmp_path: Path) -> None:
    lines = f"{BANNER}{CPU}{NEW}{NEW_ROW}\n{CPU}{NEW}{NEW_ROW}".splitlines()
    found = read(tmp_path, "".join(f"Aug 11 00:29:{55 + at // 8:02} {line}\n" for at, line in enumerate(lines)))
    assert (found.rows, found.bad, found.host) == (1, 0, "db1")


def test_iostat_with_decimal_commas(tmp_path: Path) -> None:
    comma = re.sub(r"(\d)\.(\d)", r"\1,\2", NEW_ROW)
    found = read(tmp_path, f"{NEW}{comma}")
    assert values(found, "read.iops") == [2.0] and values(found, "util") == [30.0]
    assert "line 2: decimal commas, read as points" in found.remarks


@pytest.mark.parametrize(("end", "line"), [("", 3), ("\n", 3)])
def test_a_row_that_was_cut_is_named_and_the_others_kept(tmp_path: Path, end: str, line: int) -> None:
    found = read(tmp_path, f"{NEW}{NEW_ROW}{NEW_ROW[:70]}{end}{NEW_ROW if end else ''}")
    assert found.bad == 1 and found.first_bad is not None and found.first_bad.line == line
    assert found.rows == (2 if end else 1)


def test_iostat_without_a_header_tells_its_unit_by_the_sizes(tmp_path: Path) -> None:
    row = (
        "20/08/11 00:30:{:02} xvdd 0.00 488.00 0.00 {} 0.00 0.00 0.00 0.00 0.00 9.05 4.22 0.00 128.00 1.02 49.60\n"
    )
    large = read(tmp_path, "".join(row.format(second, "61.00") for second in range(5)))
    small = read(tmp_path, "".join(row.format(second, "62464.00") for second in range(5)))
    assert values(large, "write.bandwidth") == values(small, "write.bandwidth") == [62464 * 1024.0] * 5
    assert any("in MB/s, by the sizes" in remark for remark in large.remarks)


@pytest.mark.parametrize(
    ("moved", "unit"), [("800.00", "sectors/s"), ("400.00", "kB/s"), ("0.39", "MB/s")], ids=["-x", "-k", "-m"]
)
def test_old_iostat_without_a_header_tells_its_unit_by_the_sizes(tmp_path: Path, moved: str, unit: str) -> None:
    """100 writes of 8 sectors a second, as sysstat 9 prints them."""
    row = f"00:30:{{:02}} xvdd 0.00 0.00 0.00 100.00 0.00 {moved} 8.00 0.05 0.50 0.40 4.00\n"
    found = read(tmp_path, "".join(row.format(second) for second in range(5)))
    assert values(found, "write.bandwidth") == pytest.approx([100 * 8 * 512.0] * 5, rel=0.01)
    assert any(f"in {unit}, by the sizes" in remark for remark in found.remarks)


def test_iostat_json_of_ours_and_one_that_was_killed(tmp_path: Path) -> None:
    for name in ("stopped", "killed"):
        data = (FOLDER / f"iostat/{name}.json").read_bytes()
        found = read(tmp_path, data)
        assert found.kind == "iostat-json" and found.rows
        assert all(stamp.offset == 0 for stamp in clock_of(found).stamps)


def test_the_first_report_of_iostat_json_counts_from_the_boot_on(tmp_path: Path) -> None:
    data = (FOLDER / "iostat/stopped.json").read_text()
    found = read(tmp_path, data)
    # Its time tells how long the second one is.
    assert len(clock_of(found).stamps) == data.count('"timestamp"') > 1
    assert {each.time for each in samples(found)} == set(range(1, len(clock_of(found).stamps)))
    assert any("counts from the boot" in remark for remark in found.remarks)
    document = json.loads(data)
    host = document["sysstat"]["hosts"][0]
    host["statistics"] = host["statistics"][:1]
    only = read(tmp_path, json.dumps(document, indent=1))
    assert only.rows and len(clock_of(only).stamps) == 1
    assert any("its only report" in remark for remark in only.remarks)


def test_the_only_report_of_iostat_is_an_interval(tmp_path: Path) -> None:
    found = read(tmp_path, f"{BANNER}{CPU}{NEW}{NEW_ROW}{NEW_ROW.replace('nvme0n1', 'nvme1n1')}")
    assert found.rows == 2 and values(found, "write.iops") == [500.0, 500.0]
    assert any("its only report is taken for an interval" in remark for remark in found.remarks)
    assert not any("left out" in remark for remark in found.remarks)


def test_iostat_json_cut_anywhere(tmp_path: Path) -> None:
    """Each cut gives the reports before it, none of them changed."""
    data = (FOLDER / "iostat/stopped.json").read_text()
    whole = [sample.value for sample in samples(read(tmp_path, data))]
    second = data.index('"timestamp"', data.index('"timestamp"') + 1)
    for end in range(data.index('"timestamp"', second + 1), len(data), 997):
        found = [sample.value for sample in samples(read(tmp_path, data[:end]))]
        assert found == whole[: len(found)] and found


def test_iostat_json_with_decimal_commas(tmp_path: Path) -> None:
    data = (FOLDER / "iostat/stopped.json").read_text()
    comma = re.sub(r"(: \d+)\.(\d\d)", r"\1,\2", data)
    assert comma != data
    plain, found = read(tmp_path, data), read(tmp_path, comma)
    assert [s.value for s in samples(found)] == [s.value for s in samples(plain)]
    assert any("decimal commas" in remark for remark in found.remarks)


# -- dstat -------------------------------------------------------------------------------------------------------

TABLE = (
    "You did not select any stats, using -cdngy by default.\n"
    "----system---- ----total-cpu-usage---- -dsk/total- --dsk/sda-- -net/total- ---system--\n"
    "     time     |usr sys idl wai hiq siq| read  writ: read  writ| recv  send| int   csw \n"
)


def test_dstat(tmp_path: Path) -> None:
    found = read(tmp_path, DSTAT)
    assert (found.kind, found.rows, found.bad) == ("dstat", 2, 0)
    assert values(found, "cpu.iowait") == [3.0, 1.0] and values(found, "cpu.steal") == [6.0, 2.0]
    assert values(found, "disk.write.bandwidth") == [32 * 1024.0, 91 * 1024.0**2]
    assert values(found, "tx.bandwidth") == [4190.0, 96 * 1024.0**2]
    assert "paging in" in found.remarks[0]


def test_dstat_with_a_row_that_was_cut(tmp_path: Path) -> None:
    found = read(tmp_path, f"{DSTAT}11-08 00:18:24|  4   2  92   1   2|   0\n11-08 00:18:25|  4   2")
    assert (found.rows, found.bad) == (2, 2)
    assert found.first_bad is not None and found.first_bad.line == 6


IDLE = """----total-usage---- -dsk/total- --io/total-
usr sys idl wai stl| read  writ| read  writ
  6  13  72   3   6|  33M   32k|1.20   3.00
  0   0 100   0   0|   0    12k|   0    12k
  1   0  99   0   0|   0     8k|   0  2.00
"""


def test_an_idle_row_of_dstat_is_no_header(tmp_path: Path) -> None:
    found = read(tmp_path, IDLE)
    assert (found.rows, found.bad) == (2, 0)
    assert values(found, "cpu.idle") == [100.0, 99.0]
    assert values(found, "disk.write.bandwidth") == [12 * 1024.0, 8 * 1024.0]
    # I/Os go by thousands.
    assert values(found, "disk.write.iops") == [12_000.0, 2.0]
    assert not any("not kept" in remark for remark in found.remarks)


def test_the_first_row_of_dstat_counts_from_the_boot_on(tmp_path: Path) -> None:
    for text in (IDLE, IDLE + IDLE):
        found = read(tmp_path, text)
        assert values(found, "cpu.idle") == [100.0, 99.0] * text.count("usr")
        assert "its first row counts from the boot on: left out" in found.remarks
    # What is blank was no row at all.
    assert not any("counts from the boot" in remark for remark in read(tmp_path, DSTAT).remarks)
    with pytest.raises(Refused, match="no complete row but its first"):
        read(tmp_path, "".join(IDLE.splitlines(keepends=True)[:3]))


def test_dstat_of_several_disks(tmp_path: Path) -> None:
    row = "11-08 00:18:2{}|  4   2  92   1   0   1|   0    91M:   0    80M| 348k   96M|  13k 2643 \n"
    found = read(tmp_path, TABLE + row.format(1) + row.format(2))
    assert (found.rows, found.bad) == (1, 0)
    assert values(found, "disk.write.bandwidth") == [91 * 1024.0**2]
    assert values(found, "write.bandwidth") == [80 * 1024.0**2]
    # A name may leave no room for dashes.
    named = TABLE.replace("--dsk/sda--", "dsk/nvme0n1").replace("-net/total-", "-net/ens160")
    found = read(tmp_path, named + row.format(1) + row.format(2))
    assert [sample.layer for sample in samples(found) if sample.metric == "write.bandwidth"] == ["nvme0n1"]
    assert [sample.layer for sample in samples(found) if sample.metric == "tx.bandwidth"] == ["net/ens160"]


@pytest.mark.parametrize("line", ["-" * 60 + "+" + "-" * 60, "-" * 60 + " Run 1", "-" * 60])
def test_a_long_line_of_dashes_is_soon_seen_to_be_no_dstat(line: str) -> None:
    # It took twice as long for each dash: with 60 this test would not end.
    assert not kinds.KINDS["dstat"].fits(f"{line}\n")


def test_a_long_line_is_soon_seen_to_be_no_iostat() -> None:
    before = time.process_time()
    assert not kinds.KINDS["iostat"].fits("x" * 65_536)
    # It took 20 s.
    assert time.process_time() - before < 5


CSV = """"Dstat 0.7.2 CSV output"
"Author:","A <a@example.org>",,,,"URL:","https://example.org/"
"Host:","db1",,,,"User:","root"
"Cmdline:","dstat -Tcd",,,,"Date:","11 Aug 2020 00:18:21"

"epoch","total cpu usage",,,,,,"dsk/sda",
"epoch","usr","sys","idl","wai","hiq","siq","read","writ"
1597104000.892,0.054,0.035,99.883,0.029,0.0,0.1,900000.5,2e3
1597104001.892,0.0,0.0,100.0,0.0,0.0,0.0,216711.5,1e3
"""


def test_dstat_csv(tmp_path: Path) -> None:
    found = read(tmp_path, f"{CSV}1597104002.892,0.0,0.0,100.0,0.0,0.0,0.0,0.0\n")
    assert (found.kind, found.host, found.rows, found.bad) == ("dstat-csv", "db1", 1, 1)
    assert values(found, "read.bandwidth") == [216711.5] and values(found, "write.bandwidth") == [1000.0]
    assert clock_of(found).stamps[0].seconds == 1597104001.892
    assert "its first row counts from the boot on: left out" in found.remarks


def test_dstat_csv_of_two_runs_in_one_file_and_of_several_disks(tmp_path: Path) -> None:
    second = CSV.replace('"read","writ"', '"dsk/sda:read","dsk/sda:writ"').replace("15971040", "15971050")
    found = read(tmp_path, CSV + second)
    assert (found.rows, found.bad) == (2, 0)
    assert values(found, "read.bandwidth") == [216711.5] * 2


# -- pgbench -----------------------------------------------------------------------------------------------------


def test_pgbench_summaries_old_and_new(tmp_path: Path) -> None:
    assert values(read(tmp_path, SUMMARY), "tps") == [1182.956212]
    new = read(tmp_path, (FOLDER / "pgbench/stdout").read_bytes())
    assert new.kind == "pgbench" and len(values(new, "tps")) == 1


def test_a_pgbench_summary_with_decimal_commas_and_crlf(tmp_path: Path) -> None:
    text = SUMMARY.replace("1182.956212 (", "1182,956212 (").replace("8.456 ms", "8,456 ms").replace("\n", "\r\n")
    found = read(tmp_path, text)
    assert values(found, "tps") == [1182.956212] and values(found, "latency.mean") == [0.008456]
    assert [remark.partition(":")[0] for remark in found.remarks] == ["line 1", "line 9"]


def test_a_pgbench_summary_without_its_end_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no tps in its summary"):
        read(tmp_path, SUMMARY[:-80])


def test_a_pgbench_summary_of_old_has_no_latency(tmp_path: Path) -> None:
    found = read(tmp_path, SUMMARY.replace("latency average = 8.456 ms\n", ""))
    assert values(found, "tps") == [1182.956212] and values(found, "latency.mean") == []
    assert any("no latency average" in remark for remark in found.remarks)


def test_a_course_without_times_is_kept(tmp_path: Path) -> None:
    """``-P 1`` without ``--progress-timestamp``, as sysbench's and go-tpc's."""
    tail = "lat 2.986 ms stddev 2.108, 0 failed"
    lines = [f"progress: {at}.0 s, {1000 + at}.0 tps, {tail}\n" for at in (1, 2, 3)]
    found = read(tmp_path, "".join(lines) + SUMMARY)
    series = [(each.time, each.value) for each in samples(found) if each.time is not None and each.metric == "tps"]
    assert series == [(1.0, 1001.0), (2.0, 1002.0), (3.0, 1003.0)]
    assert any("no times (--progress-timestamp): it is put on 1970-01-01" in remark for remark in found.remarks)
    assert (found.start, found.end) == (None, None)
    stamped = "".join(lines).replace("progress: ", "progress: 159711342")
    found = read(tmp_path, stamped + SUMMARY)
    assert found.start == 1597113420 and not any("1970" in remark for remark in found.remarks)


@pytest.mark.parametrize("tail", ["", " 3005", " 4304 1"])
def test_pgbench_logs_of_every_version(tmp_path: Path, tail: str) -> None:
    rows = [
        f"{at % 4} {at // 4} {1000 + at} 0 {1597113422 + at // 100} {at % 100 * 10000}{tail}\n"
        for at in range(1000)
    ]
    found = read(tmp_path, "".join(rows))
    assert (found.kind, found.rows, len(found.transactions)) == ("pgbench-log", 1000, 1000)
    assert found.end == 1597113431.99
    assert values(found, "latency.max") == [0.001999]


def test_a_damaged_pgbench_log(tmp_path: Path) -> None:
    rows = [f"0 {at} 1000 0 {1597113422 + at} 5\n" for at in range(60)]
    rows[30] = rows[30][:12] + "\n"
    found = read(tmp_path, "".join(rows)[:-4])
    assert (found.rows, found.bad) == (58, 2)
    assert found.first_bad is not None and found.first_bad.line == 31


def test_pgbench_aggregated(tmp_path: Path) -> None:
    rows = [f"{1345828501 + 10 * at} 5000 {5000 * 300} 483552416 61 2573\n" for at in range(4)]
    found = read(tmp_path, "".join(rows) + "1345828541 12 3")
    assert found.kind == "pgbench-aggregate" and (found.rows, found.bad) == (4, 1)
    assert values(found, "tps") == [500.0] * 4 and values(found, "latency.mean")[0] == pytest.approx(0.0003)


# -- fio ---------------------------------------------------------------------------------------------------------


def test_fio_json_behind_other_text(tmp_path: Path) -> None:
    data = (FOLDER / "fio/stdout").read_bytes()
    found = read(tmp_path, b"fio: a warning {\n" + data)
    jobs = [job["jobname"] for job in json.loads(data[data.index(b"{") :])["jobs"]]
    assert found.kind == "fio-json" and [phase.name for phase in found.phases] == jobs


def test_fio_json_of_3_16_has_neither_starts_nor_percentiles_of_the_whole(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    for job in document["jobs"]:
        del job["job_start"]
        for way in ("read", "write", "trim"):
            job[way]["clat_ns"]["percentile"] = job[way]["lat_ns"].pop("percentile", {})
            job[way]["lat_ns"].pop("N", None)
    found = read(tmp_path, json.dumps(document, indent=1))
    assert len(found.phases) == len(document["jobs"]) and found.end == document["timestamp_ms"] / 1000
    assert any(".latency.p99" in sample.metric for sample in samples(found))
    assert any("completion (clat)" in r for r in found.remarks) and any(
        "reckoned back" in r for r in found.remarks
    )


def test_clones_of_a_job_are_added_up(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    document["jobs"] = [document["jobs"][0]] * 3
    one = document["jobs"][0]["write"]
    found = read(tmp_path, json.dumps(document, indent=1))
    assert values(found, "write.iops") == [pytest.approx(3 * one["iops"])]
    assert values(found, "write.latency.mean") == [pytest.approx(one["lat_ns"]["mean"] / 1e9)]
    assert values(found, "write.latency.p99") == [] and any("clones added up" in r for r in found.remarks)


@pytest.mark.parametrize("change", [{"error": 5}, {"ios": 0}], ids=["error", "no I/O"])
def test_one_job_that_failed_leaves_the_others(tmp_path: Path, change: dict[str, int]) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    first, *others = document["jobs"]
    names = {job["jobname"] for job in others}
    if "error" in change:
        first["error"] = 5
    else:
        for way in ("read", "write", "trim"):
            first[way]["total_ios"] = 0
    found = read(tmp_path, json.dumps(document, indent=1))
    assert {sample.phase for sample in samples(found)} == {phase.name for phase in found.phases} == names
    assert found.rows == len(others)
    why = "ended with error 5" if "error" in change else "did no I/O"
    assert f"job {first['jobname']} {why}: left out" in found.remarks
    # Its number stays its own, for the logs beside it.
    assert found.jobs[0] == first["jobname"]
    document["jobs"] = [first]
    with pytest.raises(Refused, match=why):
        read(tmp_path, json.dumps(document, indent=1))


def test_a_job_one_of_whose_clones_failed_is_left_out_as_a_whole(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    first, other, *_ = document["jobs"]
    document["jobs"] = [first, other, {**other, "error": 5}]
    found = read(tmp_path, json.dumps(document, indent=1))
    assert {sample.phase for sample in samples(found)} == {first["jobname"]}


def reports(*changes: dict[str, Any]) -> bytes:
    """fio's JSON as often as there are changes of its first job (``ios``: how many writes), one a minute."""
    whole = []
    for number, change in enumerate(changes):
        document = json.loads((FOLDER / "fio/stdout").read_text())
        document["timestamp_ms"] += 60_000 * number
        job = document["jobs"][0]
        for name, value in change.items():
            if name == "ios":
                job["write"]["total_ios"] = value
            elif name == "alone":
                document["jobs"] = [job]
            elif name == "ran":
                job["write"]["runtime"] = value
            elif name == "began":
                job["job_start"] = document["timestamp_ms"] + value
            else:
                job[name] = value
        whole.append(json.dumps(document, indent=1))
    return "\n".join(whole).encode()


def test_what_fio_reported_meanwhile_is_one_run_and_the_last_report_counts(tmp_path: Path) -> None:
    found = read(tmp_path, reports(*({"ios": 10 * n, "ran": 60_000 * n} for n in (1, 2, 3))))
    assert values(found, "write.ios")[0] == 30
    assert any("3 reports of one run (--status-interval): the last one" in remark for remark in found.remarks)
    ramp = {"job options": {"ramp_time": "5"}}
    # After its ramp a job begins again.
    found = read(tmp_path, reports({"ios": 50, **ramp}, {"ios": 20, "began": -10, **ramp}))
    assert values(found, "write.ios")[0] == 20


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({"ios": 29}, "JSON 2 counts less of job"),
        ({"ios": 31, "began": -9_000}, "JSON 2 has a job .* that began after the one before it was printed"),
        ({"ios": 30, "job options": {"bs": "8k"}}, "JSON 2 has other jobs or options"),
        ({"ios": 30, "jobname": "other"}, "JSON 2 has other jobs or options"),
        ({"ios": 40, "ran": 20_000}, "JSON 2 did more of job .* in no more time"),
        ({"ios": 40, "ran": 20_400}, "JSON 2 was printed 60 s after the one before it, but its jobs ran for 0 s"),
    ],
)
def test_several_runs_in_one_file_of_fio_are_left_out(tmp_path: Path, after: dict[str, Any], why: str) -> None:
    alone = {"alone": True}
    with pytest.raises(Refused, match=f"holds several runs .{why}.*; cut it into a file for each run"):
        read(tmp_path, reports({"ios": 30, "ran": 20_000, **alone}, {**after, **alone}))


def test_a_fio_json_that_was_cut_is_left_out(tmp_path: Path) -> None:
    data = (FOLDER / "fio/stdout").read_bytes()
    with pytest.raises(Refused, match="cannot be read"):
        read(tmp_path, data[: len(data) // 2])


@pytest.mark.parametrize("kind", ["lat", "bw", "iops"])
def test_fio_logs_by_the_end_that_fio_gives_their_names(tmp_path: Path, kind: str) -> None:
    found = read(tmp_path, (FOLDER / f"fio/1_{kind}.log").read_bytes(), f"seq_{kind}.1.log")
    assert found.kind == f"fio-{kind}" and found.order == 1 and [phase.name for phase in found.phases] == ["seq"]
    assert found.start is not None and samples(found)


def test_a_fio_log_with_several_rows_a_second(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(f"{500 * at}, 1000, 1, 0, 0\n" for at in range(1, 11)), "w_iops.1.log")
    assert values(found, "write.iops") == [1000.0] * 6


def test_a_fio_log_of_another_name_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "mine.log"
    path.write_bytes((FOLDER / "fio/0_lat.log").read_bytes())
    with pytest.raises(StudyError, match="may be fio-lat, fio-clat") as caught:
        kinds.READERS.kind_of(path)
    assert caught.value.hint == f"say which: --as fio-lat={path}"
    assert kinds.READERS.read(path, "fio-lat").kind == "fio-lat"


def test_a_fio_log_with_each_io(tmp_path: Path) -> None:
    rows = "".join(f"{at}, {100_000 + at}, 1, 4096, 0, 0\n" for at in range(0, 5000, 2))
    found = read(tmp_path, rows + "5001, 17", "w_lat.1.log")
    assert (found.rows, found.bad) == (2500, 1)
    assert values(found, "write.iops")[0] == 500.0 and len(values(found, "write.latency.p99.9")) == 1
    counted = read(tmp_path, rows.replace(", 1, 4096", ", 0, 4096"), "w_iops.1.log")
    assert values(counted, "read.iops")[0] == 500.0 and any("IOPS are counted" in r for r in counted.remarks)


# -- go-tpc and sysbench -----------------------------------------------------------------------------------------


def as_text(found: str) -> str:
    """go-tpc's JSON as its text: Histogram.Summary() of go-tpc 1.0.12 prints the same numbers."""
    names = (
        "Takes(s)", "Count", "TPM", "Sum(ms)", "Avg(ms)", "50th(ms)", "90th(ms)", "95th(ms)", "99th(ms)",
        "99.9th(ms)", "Max(ms)",
    )  # fmt: skip
    lines = []
    for line in found.splitlines():
        if line.startswith('[{"efficiency"'):
            (score,) = json.loads(line)
            lines.append(
                f"tpmC: {score['tpmC']}, tpmTotal: {score['tpmTotal']}, efficiency: {score['efficiency']}"
            )
        elif line.startswith("[{"):
            for row in json.loads(line):
                fields = ", ".join(f"{name}: {row[name]}" for name in names)
                lines.append(f"{row['Prefix'].strip()} {row['Operation']} - {fields}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def by_metric(found: Found) -> dict[str, float]:
    """Without the time series."""
    return {sample.metric: sample.value for sample in samples(found) if sample.time is None}


def test_go_tpc_as_json_and_as_text_come_to_the_same(tmp_path: Path) -> None:
    stamped = read(tmp_path, (FOLDER / "tpcc/stdout").read_bytes())
    plain = read(tmp_path, unstamped("tpcc/stdout"))
    text = read(tmp_path, as_text(unstamped("tpcc/stdout")))
    assert {each.kind for each in (stamped, plain, text)} == {"go-tpc"}
    # What go-tpc printed, not what a workload of ours makes of the same seconds.
    assert {s.value for each in (stamped, plain, text) for s in each.samples if s.metric == "tpmc"} == {1306.1}
    assert by_metric(plain) == by_metric(text) == by_metric(stamped)
    assert stamped.start is not None and plain.start is None and text.phases[0].start == 0
    series = [sample for sample in text.samples if sample.time is not None]
    assert series and all(0 <= (sample.time or 0) < 100 for sample in series)


def test_go_tpc_without_its_summary_is_left_out(tmp_path: Path) -> None:
    text = as_text(unstamped("tpcc/stdout"))
    with pytest.raises(Refused, match=r"go-tpc: no"):
        read(tmp_path, text[: text.index("[Summary]")])


def test_go_tpc_that_ends_before_its_score_says_so(tmp_path: Path) -> None:
    text = as_text(unstamped("tpcc/stdout"))
    score = text.index("tpmC")
    for end in (score, score + 10):
        with pytest.raises(Refused, match="go-tpc: no tpmC line in its output, which ends before it"):
            read(tmp_path, text[:end])
    # All of the number is there, and go-tpc prints one decimal.
    found = read(tmp_path, text[: score + 12])
    assert text[score : score + 12] == "tpmC: 1306.1" and found.bad == 0
    assert [sample.value for sample in found.samples if sample.metric == "tpmc"] == [1306.1]


def test_go_tpc_without_times_has_about_the_course_that_it_had_with_them(tmp_path: Path) -> None:
    stamped = read(tmp_path, (FOLDER / "tpcc/stdout").read_bytes())
    for text in (unstamped("tpcc/stdout"), as_text(unstamped("tpcc/stdout"))):
        plain = read(tmp_path, text)
        series_by_name = [
            [sample.value for sample in each.samples if sample.time is not None and sample.metric == "tps"]
            for each in (plain, stamped)
        ]
        assert series_by_name[0] == pytest.approx(series_by_name[1], rel=0.1) and len(series_by_name[0]) == 3


def test_sysbench_with_and_without_a_histogram(tmp_path: Path) -> None:
    stamped = read(tmp_path, (FOLDER / "sysbench/stdout").read_bytes())
    plain = unstamped("sysbench/stdout")
    assert by_metric(read(tmp_path, plain)) == by_metric(stamped)
    bare = re.sub(r"^ +\d+\.\d+ \|\*.*\n", "", plain, flags=re.MULTILINE)
    found = read(tmp_path, bare.replace("99th percentile", "95th percentile"))
    assert by_metric(found)["latency.p95"] == pytest.approx(0.16445) and "latency.p99" not in by_metric(found)


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("kind", ["pgbench", "go-tpc", "go-tpc as text", "sysbench"])
def test_several_runs_in_one_file_are_left_out(tmp_path: Path, kind: str, stamped: bool) -> None:
    name = {"pgbench": "pgbench/stdout", "sysbench": "sysbench/stdout"}.get(kind, "tpcc/stdout")
    one = (FOLDER / name).read_text() if stamped else unstamped(name)
    one = as_text(one) if kind == "go-tpc as text" else one
    read(tmp_path, one)
    with pytest.raises(Refused, match=r"holds 3 runs .* in lines \d+, \d+, \d+.; cut it into a file for each run"):
        read(tmp_path, one * 3)


# -- JdbcRunner: what its own documents show, with the seconds in between left out --------------------------------

JDBC_LOG = """\
2023-03-28 11:06:19 [INFO ] > JdbcRunner 1.3.1
2023-03-28 11:06:19 [INFO ] [Config]
Program start time   : 20230328-110619
Script filename      : test.js
JDBC URL             : jdbc:mysql://localhost/tutorial
Warmup time          : 10 sec
Measurement time     : 60 sec
Number of tx types   : 1
Parameter 9          : 0
2023-03-28 11:06:21 [INFO ] [Warmup] -9 sec, 1978 tps, (1978 tx)
2023-03-28 11:06:30 [INFO ] [Warmup] 0 sec, 3996 tps, (37033 tx)
2023-03-28 11:06:31 [INFO ] [Progress] 1 sec, 4014 tps, 4014 tx
2023-03-28 11:06:32 [INFO ] [Progress] 2 sec, 4060 tps, 8074 tx
2023-03-28 11:06:33 [INFO ] [Progress] 3 sec, 4082 tps, 12156 tx
2023-03-28 11:07:29 [INFO ] [Progress] 59 sec, 4054 tps, 238734 tx
2023-03-28 11:07:30 [INFO ] [Progress] 60 sec, 4061 tps, 242795 tx
2023-03-28 11:07:30 [INFO ] [Total tx count] 242795 tx
2023-03-28 11:07:30 [INFO ] [Throughput] 4046.6 tps
2023-03-28 11:07:30 [INFO ] [Response time (minimum)] 0 msec
2023-03-28 11:07:30 [INFO ] [Response time (50%tile)] 0 msec
2023-03-28 11:07:30 [INFO ] [Response time (90%tile)] 0 msec
2023-03-28 11:07:30 [INFO ] [Response time (95%tile)] 0 msec
2023-03-28 11:07:30 [INFO ] [Response time (99%tile)] 0 msec
2023-03-28 11:07:30 [INFO ] [Response time (maximum)] 10 msec
2023-03-28 11:07:30 [INFO ] < JdbcRunner SUCCESS
"""


def test_jdbcrunners_log_has_figures_and_the_course_after_the_warm_up(tmp_path: Path) -> None:
    found = read(tmp_path, JDBC_LOG)
    assert by_metric(found) == {
        "tps": pytest.approx(242795 / 60),
        "transactions": 242795.0,
        "latency.max": pytest.approx(0.010),
    }
    series = [sample for sample in samples(found) if sample.time is not None]
    assert [sample.value for sample in series] == [4014, 4060, 4082, 4054, 4061] and found.bad == 0
    # Not one of the medians is 0: they are only known to be under a millisecond.
    assert any("5 of its response times are 0 msec" in remark for remark in found.remarks)
    assert clock_of(found).stamps[0].seconds == 11 * 3600 + 6 * 60 + 30
    assert clock_of(found).stamps[int(series[-1].time or 0)].seconds == 11 * 3600 + 7 * 60 + 30


def test_jdbcrunner_tells_its_kinds_of_transactions_apart(tmp_path: Path) -> None:
    found = read(tmp_path, JDBC_TPCC)
    found_values = by_metric(found)
    # What its own documents come to.
    assert found_values["tpmc"] == pytest.approx(7129.5, abs=0.05)
    assert found_values["tps"] == pytest.approx((106943 + 106937 + 10695 + 10700 + 10694) / 900)
    assert (
        found_values["stock_level.latency.p99"] == pytest.approx(0.301) and found_values["delivery.count"] == 10700
    )
    assert "order_status.latency.min" not in found_values and found_values[
        "new_order.latency.min"
    ] == pytest.approx(0.003)
    series = [sample.value for sample in samples(found) if sample.time is not None and sample.metric == "tpmc"]
    assert series == [60 * 125, 60 * 119]
    assert clock_of(found).stamps[0].numbers == (2023, 3, 31)
    said = "its times have no date: 2023-03-31, by its program start time (2023-03-31 13:23:21)"
    assert said in found.remarks
    assert clock_of(found).stamps[0].sure


def test_jdbcrunner_that_warmed_up_past_midnight_measured_on_the_next_day(tmp_path: Path) -> None:
    found = read(tmp_path, JDBC_TPCC.replace("20230331-132321", "20230331-235500"))
    assert clock_of(found).stamps[0].numbers == (2023, 4, 1)
    damaged = read(tmp_path, JDBC_TPCC.replace("20230331-132321", "20231331-132321"))
    assert clock_of(damaged).stamps[0].numbers == ()


def test_jdbcrunner_with_a_trace_and_behind_a_call_that_loads(tmp_path: Path) -> None:
    trace = "[receiver] [jdbcrunner.Manager$Receiver#run] "
    traced = re.sub(r"\[INFO \] (?=\[Progress|\[Total)", trace, JDBC_LOG)
    assert by_metric(read(tmp_path, traced)) == by_metric(read(tmp_path, JDBC_LOG))
    loading = JDBC_LOG[: JDBC_LOG.index("2023-03-28 11:06:21")]
    assert by_metric(read(tmp_path, loading + JDBC_LOG)) == by_metric(read(tmp_path, JDBC_LOG))


def test_jdbcrunner_without_its_summary_or_with_two_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no summary"):
        read(tmp_path, JDBC_LOG[: JDBC_LOG.index("2023-03-28 11:07:30 [INFO ] [Total")])
    with pytest.raises(Refused, match="2 measurements; cut it"):
        read(tmp_path, JDBC_LOG + JDBC_LOG)
    found = read(tmp_path, JDBC_LOG.replace("[Progress] 2 sec, 4060 tps", "[Progress] 2 sec, 40"))
    assert found.bad == 1 and found.first_bad is not None and found.first_bad.line == 13


# -- what is none of them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (gzip.compress(b"0 1 9989 0 1795232994 315096\n"), "packed, a gzip file: gunzip FILE"),
        (b"\x01\0\0\0", "binary"),
        ("transaction type: x".encode("utf-16"), "UTF-16"),
        (b"MIT License\n\nCopyright\n", "not recognised"),
    ],
    ids=["empty", "gzip", "binary", "utf-16", "prose"],
)
def test_what_is_no_log_is_refused_with_the_reason(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "x_lat.log"
    path.write_bytes(data)
    with pytest.raises(Refused, match=why):
        kinds.READERS.kind_of(path)


def test_a_file_that_cannot_be_read_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match="cannot be read: Input/output error"):
        digest(Path("/proc/self/mem"))
