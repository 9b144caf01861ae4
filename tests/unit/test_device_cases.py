"""Device counters as they were found: what was read wrong once, and other files of the same kinds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from blocklab.formats.clock import stamp
from blocklab.formats.found import Found
from blocklab.formats.host import identity
from blocklab.formats.host.device_names import named
from blocklab.formats.text import Refused
from blocklab.imports import Options, kinds, minimal, take
from blocklab.report.imported import span
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.need import Need, need
from blocklab.sizing.need import Options as NeedOptions
from blocklab.sizing.reading import Reading
from blocklab.store.folder import StudyFolder

CASES = Path(__file__).parents[2].parent / "shared" / "data" / "cases"
NEW = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz  aqu-sz  %util\n"
)
ROW = "100.00  400.00  0.00  0.00  1.00  4.00  50.00  800.00  0.00  0.00  1.00  16.00  0.15  10.00"
LINUX = "Linux 6.1.0 (db1) \t2024-03-25 \t_x86_64_\t(4 CPU)\n\n"
SAR_D = "10:00:00          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util\n"


def sized(path: Path, first: str = "") -> tuple[Need, list[str]]:
    """What is needed, and what is said."""
    gathered = gather([path], Asked(reading=Reading(first_report=first)))
    return need(gathered.systems, NeedOptions()), list(gathered.remarks)


def of(folder: Path, text: str, first: str = "") -> tuple[Need, list[str]]:
    path = folder / "x.txt"
    path.write_text(text)
    return sized(path, first)


def imported(folder: Path, text: str, first: str = "") -> Found:
    path = folder / "x.txt"
    path.write_text(text)
    return kinds.READERS.read(path, kinds.READERS.kind_of(path), first)


def case(name: str) -> Path:
    """A file of the cases; skips where they are not there."""
    found = list(CASES.glob(name))
    if not found:
        pytest.skip(f"no {name} beside the repository")
    return found[0]


def reports(count: int, row: str = f"sda {ROW}\n", head: str = NEW, step: int = 10) -> str:
    """So many reports of iostat -t."""
    times = (f"2024-03-25T10:{at * step // 60:02}:{at * step % 60:02}+0000\n" for at in range(count))
    return "".join(f"{time}{head}{row}\n" for time in times)


def before(text: str, prefix: Callable[[int], str]) -> str:
    """The same with something before each line."""
    return "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(text.splitlines()))


# -- the cases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "iops", "megabytes", "seconds", "resolution"),
    [
        ("05-*/one.txt", 150, 1.2288, 20, 5), ("05-*/iostat.txt", 450, 3.6864, 20, 5),
        ("07-*/virtio.txt", 100, 1.2288, 3600, 600), ("09-*/many.txt", 330, 4.055, 60, 10),
        ("19-*/de.txt", 150, 1.2288, 30, 10), ("19-*/zh.txt", 150, 1.2288, 30, 10),
        ("21-*/d.txt", 150, 1.2288, 30, 10), ("23-*/both.txt", 150, 1.6384, 60, 10),
        ("30-*/pretty.txt", 150, 1.2288, 30, 10), ("30-*/short.txt", 150, 1.2288, 30, 10),
        ("37-*/iostat.json", 150, 1.2275, 20, 10), ("38-*/iostat.json", 950, 1.2288, 30, 10),
        ("40-*/diskstats.txt", 153, 1.253, 20, 10), ("40-*/after-6.3.txt", 150, 1.2288, 20, 10),
    ],
)  # fmt: skip
def test_a_case_has_the_right_value(
    name: str, iops: float, megabytes: float, seconds: float, resolution: float
) -> None:
    found, _ = sized(case(name))
    assert found.amounts["iops"].observed == pytest.approx(iops)
    assert found.amounts["bandwidth"].observed == pytest.approx(megabytes * 1e6, rel=1e-3)
    assert found.seconds == pytest.approx(seconds) and found.resolution == pytest.approx(resolution)


def test_the_sums_at_the_end_of_sar_are_no_damage() -> None:
    path = case("27-*/sar.txt")
    assert kinds.READERS.read(path, kinds.READERS.kind_of(path)).bad == 0


# -- a prefix of each line ---------------------------------------------------------------------------------------

PREFIXES: dict[str, Callable[[int], str]] = {
    "ts": lambda line: f"Mar 25 10:00:{min(59, line // 4 * 10):02} ",
    "epoch": lambda line: f"{1711360800 + line // 4 * 10}.{line % 4:06} ",
    "container": lambda line: f"db-1  | 2024-03-25T10:00:{line // 4 * 10:02}.00000000{line % 4}Z ",
    "brackets": lambda line: f"[2024-03-25 10:00:{line // 4 * 10:02}] ",
}


@pytest.mark.parametrize("prefix", list(PREFIXES))
def test_a_time_before_each_line_is_the_time_of_its_report(tmp_path: Path, prefix: str) -> None:
    body = "".join(f"{NEW}sda {ROW}\nsdb {ROW}\n\n" for _ in range(5))
    text = before(body, PREFIXES[prefix])
    found, _ = of(tmp_path, text)
    assert found.amounts["iops"].observed == pytest.approx(300) and found.resolution == 10
    assert found.seconds == pytest.approx(50)
    again = imported(tmp_path, text)
    assert again.kind == "iostat" and again.rows == 10 and not again.bad and not again.untimed


def test_vmstat_with_a_time_before_each_line_has_that_time(tmp_path: Path) -> None:
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    row = " 2  0      0 2794716 295968 312724    0    0     1     3   29   57  0  0 99  1  0\n"
    text = before(head + row * 4, lambda line: f"2024-03-25 10:00:{max(0, line - 2) * 5:02}.00{line} ")
    found = imported(tmp_path, text)
    assert found.kind == "vmstat" and not found.untimed and found.rows == 3 and not found.bad


def test_a_name_before_each_line_is_taken_off_and_said(tmp_path: Path) -> None:
    found, said = of(tmp_path, before(reports(4), lambda line: "db1 iostat: "))
    assert found.amounts["iops"].observed == pytest.approx(150)
    assert any("db1 iostat: " in each and "taken off" in each for each in said)


def test_times_that_jitter_are_no_weights(tmp_path: Path) -> None:
    """One second more or less is when the line was written, not how long the report is."""
    late = [0, 1, 0, 1, 1, 0]
    text = "".join(
        f"{1711360800 + 5 * at + late[at]} {line}\n" for at in range(6) for line in (NEW[:-1], f"sda {ROW}")
    )
    found, _ = of(tmp_path, text)
    assert found.resolution == 5 and found.seconds == pytest.approx(30, abs=1.5)


# -- which device counts -----------------------------------------------------------------------------------------


def sar_d(rows: Mapping[str, tuple[float, ...]]) -> str:
    """``sar -d`` of devices with so many requests of 8 KiB a second in each interval."""
    count = len(next(iter(rows.values())))
    lines = [
        f"10:0{at + 1}:00  {name} {rates[at]:.2f} {rates[at] * 8:.2f} 0.00 8.00 0.10 1.00 5.00\n"
        for at in range(count)
        for name, rates in rows.items()
    ]
    return LINUX + SAR_D + "".join(lines)


@pytest.mark.parametrize(
    ("rows", "iops"),
    [
        ({"dev252-0": (100, 80, 90), "dev252-1": (10, 0, 5), "dev252-2": (90, 80, 85)}, 100),
        # Two virtio disks, the second one always less busy: the numbers tell that it is a disk.
        ({"dev252-0": (100, 80, 90), "dev252-16": (10, 5, 9)}, 110),
        # More than the whole is no part of it.
        ({"dev253-0": (10, 80, 10), "dev253-1": (70, 10, 70)}, 90),
        ({"dev259-0": (100, 80, 90), "dev259-1": (100, 80, 90)}, 100),
        ({"dev259-0": (100, 10, 90), "dev259-1": (20, 80, 10)}, 120),
        # LVM on a disk; and a virtio disk beside one that did little.
        ({"dev8-0": (100, 100, 100), "dev253-0": (100, 100, 100)}, 100),
        ({"dev8-0": (1, 1, 1), "dev252-0": (100, 100, 100)}, 101),
    ],
)
def test_numbers_of_devices_never_count_a_request_twice(
    tmp_path: Path, rows: Mapping[str, tuple[float, ...]], iops: float
) -> None:
    found, _ = of(tmp_path, sar_d(rows))
    assert found.amounts["iops"].most == pytest.approx(iops)


def test_what_cannot_be_known_is_said_with_what_to_do(tmp_path: Path) -> None:
    _, said = of(tmp_path, sar_d({"dev252-0": (100.0, 80.0), "dev252-1": (100.0, 80.0)}))
    assert any("dev252-1 never did more than dev252-0" in each and "--device" in each for each in said)


def test_an_import_sees_the_disk_and_not_its_partition(tmp_path: Path) -> None:
    rows = {"dev252-1": (100.0,) * 12, "dev252-0": (100.0,) * 12}
    (tmp_path / "x.txt").write_text(sar_d(rows).replace("10:010:", "10:10:").replace("10:011:", "10:11:")
                                    .replace("10:012:", "10:12:"))  # fmt: skip
    done = take(minimal(["local"]), None, {"local": [str(tmp_path / "x.txt")]}, tmp_path / "runs", Options())
    (run,) = StudyFolder(done.folder).runs()
    assert run.knobs[0].value == "/dev/dev252-0"


@pytest.mark.parametrize(
    ("head", "paths", "counts"),
    [
        (0.0, (150.0,), {"nvme3c33n1"}),
        (150.0, (150.0,), {"nvme3n1"}),
        (0.0, (70.0, 80.0), {"nvme3c33n1", "nvme3c34n1"}),
    ],
)
def test_of_native_multipath_the_side_with_the_requests_counts(
    tmp_path: Path, head: float, paths: tuple[float, ...], counts: set[str]
) -> None:
    rates = {"nvme3n1": head, **{f"nvme3c{33 + at}n1": rate for at, rate in enumerate(paths)}}
    text = sar_d({name: (rate,) * 3 for name, rate in rates.items()})
    found, said = of(tmp_path, text)
    assert found.amounts["iops"].observed == pytest.approx(150)
    assert any(f"counted are {', '.join(sorted(counts))}" in each for each in said)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("dev8-256", "sdiw"), ("dev8-257", "sdiw1"), ("dev65-256", "sdjm"), ("dev135-240", "sdiv"),
        ("dev202-268435456", "xvda"), ("dev202-268439553", "xvdq1"), ("dev8-240", "sdp"),
    ],
)  # fmt: skip
def test_disks_past_the_first_majors_have_names_of_their_own(number: str, name: str) -> None:
    assert named(number) == name


def test_partitions_are_told_from_disks_by_name() -> None:
    assert [identity.disk_of(each) for each in ("sda1", "nvme0n1p2", "nvme3c33n1", "sda")] == [
        "sda", "nvme0n1", "nvme3n1", "",
    ]  # fmt: skip


# -- the first report --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "rows"), [("", 3), ("boot", 3), ("interval", 4)])
def test_the_user_says_what_the_first_report_is(tmp_path: Path, first: str, rows: int) -> None:
    found = imported(tmp_path, LINUX + reports(4), first)
    assert found.rows == rows and not found.tables[0].since_boot
    assert first or any("--first-report interval" in each for each in found.remarks)


def test_totals_beside_rates_show_what_the_first_report_is(tmp_path: Path) -> None:
    head = "Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd\n"
    interval = "sda             150.00       400.00       800.00         0.00       4000       8000          0\n"
    boot = "sda               3.00        40.00        80.00         0.00    4000000    8000000          0\n"
    shown = imported(tmp_path, LINUX + reports(3, interval, head))
    assert shown.rows == 3 and any("totals and rates" in each for each in shown.remarks)
    text = (LINUX + reports(3, interval, head)).replace(interval, boot, 1)
    sure = imported(tmp_path, text)
    assert sure.rows == 2 and not any("--first-report" in each for each in sure.remarks)


def test_a_report_that_came_an_interval_after_the_header_is_one(tmp_path: Path) -> None:
    body = LINUX + "".join(f"{NEW}sda {ROW}\n\n" for _ in range(3))
    found = imported(
        tmp_path, before(body, lambda line: f"2024-03-25 10:00:{0 if line < 2 else 10 * ((line + 1) // 3):02} ")
    )
    assert found.rows == 3 and any("after the header" in each for each in found.remarks)


# -- other shapes ------------------------------------------------------------------------------------------------


def test_pretty_reports_of_several_parts_are_one(tmp_path: Path) -> None:
    parts = (
        "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n"
        "  100.00    400.00     0.00   0.00    1.00     4.00 sda\n\n"
        "     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device\n"
        "   50.00    800.00     0.00   0.00    1.00    16.00 sda\n\n"
        "     f/s f_await  aqu-sz  %util Device\n    5.00    0.10    0.15  10.00 sda\n"
    )
    found, _ = of(tmp_path, LINUX + reports(3, "", parts))
    assert found.amounts["iops"].observed == pytest.approx(150) and found.seconds == 20
    assert found.amounts["flushes"].observed == pytest.approx(5)


def test_sums_of_sar_in_any_language_are_no_damage(tmp_path: Path) -> None:
    sums = "Résumé          BUS  idvendor    idprod\nRésumé            3      8087        24\n"
    moyenne = "Moyenne :         DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util\n"
    text = sar_d({"sda": (10.0, 20.0)}) + f"\n{moyenne}Moyenne :         sda     15.00 1 1 1 1 1 1\n\n{sums}"
    assert imported(tmp_path, text).bad == 0
    assert imported(tmp_path, text + "sda  10.00 80.00\n").bad == 1


def test_a_last_line_without_an_end_counts_if_it_is_whole(tmp_path: Path) -> None:
    text = (LINUX + reports(3)).rstrip("\n")
    assert (imported(tmp_path, text).rows, imported(tmp_path, text).bad) == (2, 0)
    assert (imported(tmp_path, text[:-1]).rows, imported(tmp_path, text[:-1]).bad) == (1, 1)


def test_throughput_that_nothing_makes_right_is_left_out_and_said(tmp_path: Path) -> None:
    wrong = ROW.replace("800.00", "77777.00")
    found, said = of(tmp_path, LINUX + reports(4, f"sda {wrong}\n"))
    assert "write_bandwidth" not in found.amounts and found.amounts["iops"].observed == pytest.approx(150)
    assert any("contradict each other" in each and "left out" in each for each in said)


def test_requests_in_flight_of_idle_intervals_alone_are_not_told(tmp_path: Path) -> None:
    rows = "".join(
        f"10:0{at}:00  {rate:.2f} {rate:.2f} 0.00 {rate * 16:.2f} 0.00\n" for at, rate in ((1, 9), (2, 0), (3, 9))
    )
    found, _ = of(tmp_path, f"{LINUX}10:00:00          tps      rtps      wtps   bread/s   bwrtn/s\n{rows}")
    assert found.amounts["iops"].observed == pytest.approx(9) and "concurrency" not in found.amounts


# -- times -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "Mo 25. Mär 10:00:00 CET 2024", "lun. 25 mars 2024 10:00:00 CET", "lun 25 mar 2024 10:00:00 CET",
        "2024年 03月 25日 星期一 10:00:00 CST", "2024年  3月 25日 月曜日 10:00:00 JST",
        "2024. 03. 25. (월) 10:00:00 KST", "Пн 25 мар 2024 10:00:00 MSK", "ma 25 mrt 2024 10:00:00 CET",
        "Mon Mar 25 10:00:00 CET 2024",
    ],
)  # fmt: skip
def test_date_is_read_in_other_languages(written: str) -> None:
    found = stamp(written)
    assert found is not None and (found.numbers, found.seconds, found.sure) == ((2024, 3, 25), 36000.0, True)


@pytest.mark.parametrize("written", ["hello 25 10:00:00 2024", "25 10:00:00 2024", "Mo 25. Mär Apr 10:00:00 2024"])
def test_what_is_no_date_is_none(written: str) -> None:
    assert stamp(written) is None


def test_a_date_that_cannot_be_read_says_how_to_take_it(tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    disk = "   8       0 sda {0} 0 8000 1000 500 0 16000 1000 0 500 2000\n"
    path.write_text("".join(f"th 25 xyz 10:00:{at}0 ICT 2567\n{disk.format(1000 * (at + 1))}" for at in range(3)))
    with pytest.raises(Exception, match="LC_ALL=C date") as refused:
        sized(path)
    assert not isinstance(refused.value, Refused)


def test_a_range_of_times_has_the_date_of_its_end_where_that_is_another_day() -> None:
    assert span(1709683171.0, 1709683230.0) == "2024-03-05 23:59:31 to 2024-03-06 00:00:30"
    assert span(1709683171.0, 1709683172.0) == "2024-03-05 23:59:31 to 23:59:32"


# -- many rows ---------------------------------------------------------------------------------------------------


def test_memory_grows_by_columns_and_not_by_objects(tmp_path: Path) -> None:
    """A row costs what its values take as numbers: 8 bytes each, some of them twice for a moment."""
    peaks = []
    for count in (500, 2500):
        path = tmp_path / f"{count}.txt"
        rows = "".join(f"nvme{disk}n1 {ROW}\n" for disk in range(10))
        with path.open("w") as file:
            file.write(LINUX)
            for at in range(count):
                file.write(f"2024-03-25T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}+0000\n{NEW}{rows}\n")
        tracemalloc.start()
        sized(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (2000 * 10) < 400
