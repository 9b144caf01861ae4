"""What a collector put before each line, last lines without a line end, rows of another table in a file that is
known, and hosts of which nothing but CPUs or all disks together were watched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.formats.found import Found
from blocklab.formats.text import Refused
from blocklab.imports import Imported, Options, kinds, minimal
from blocklab.report.imported import span
from blocklab.stats.analysis import analyse
from blocklab.store.folder import StudyFolder
from tests.unit.import_checks import take
from tests.unit.import_kinds import GOLDEN, every_kind
from tests.unit.import_samples import SUMMARY, unstamped
from tests.unit.import_series import WARM, sysbench

PROGRESS = "".join(
    f"progress: {10 * at}.0 s, 100.0 tps, lat 10.000 ms stddev 1.000, 0 failed\n" for at in range(1, 7)
)
PREFIXES: dict[str, Callable[[int], str]] = {
    "docker compose": lambda at: "pgbench-1  | ",
    "docker compose -t": lambda at: f"pgbench-1  | 2024-03-01T10:00:{at % 60:02}.5Z ",
    "kubectl": lambda at: "[pod/bench-x7/pgbench] ",
    "kubectl --timestamps": lambda at: f"2024-03-01T10:00:{at % 60:02}.123456789Z ",
    "fabric": lambda at: "[root@db1:22] out: ",
    "journalctl": lambda at: f"Mar 01 10:00:{at % 60:02} db1 pgbench[123]: ",
    "ts": lambda at: f"Mar 01 10:00:{at % 60:02} ",
    "ts %s": lambda at: f"{1_709_287_200 + at} ",
}


def put(text: str, prefix: Callable[[int], str]) -> str:
    return "".join(f"{prefix(at)}{line}\n" for at, line in enumerate(text.splitlines()))


def of_text(folder: Path, text: str, name: str = "x.txt") -> Found:
    (folder / name).write_text(text)
    return kinds.READERS.read(folder / name, kinds.READERS.kind_of(folder / name))


def imported(folder: Path, text: str, name: str = "x.txt") -> Imported:
    (folder / name).write_text(text)
    return take(minimal(["local"]), None, {"local": [str(folder / name)]}, folder / "runs", Options())


def values(found: Found) -> dict[str, float]:
    return {sample.metric: sample.value for sample in found.samples if sample.time is None}


def series(found: Found, metric: str) -> list[float]:
    return [sample.value for sample in found.samples if sample.metric == metric and sample.time is not None]


@pytest.mark.parametrize("text", [PROGRESS, PROGRESS + SUMMARY, sysbench(WARM), unstamped("tpcc/stdout")],
                         ids=["-P", "pgbench", "sysbench", "go-tpc"])  # fmt: skip
@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_a_collector_put_before_each_line_is_no_part_of_it(prefix: str, text: str, tmp_path: Path) -> None:
    plain, found = of_text(tmp_path, text), of_text(tmp_path, put(text, PREFIXES[prefix]))
    assert (found.kind, found.bad) == (plain.kind, plain.bad) and values(found) == values(plain)
    assert series(found, "tps") == series(plain, "tps")
    assert any(remark.startswith("each of its lines begins with ") for remark in found.remarks)


def test_times_before_the_lines_are_those_of_the_run(tmp_path: Path) -> None:
    done = imported(tmp_path, put(PROGRESS, lambda at: f"2024-03-01T10:00:{10 * at:02}.5Z "))
    (file,) = done.files["local"]
    assert (file.start, file.end) == tuple(
        datetime(2024, 3, 1, 10, 0, second, 500_000, tzinfo=UTC).timestamp() for second in (0, 50)
    )
    assert not [remark for remark in file.remarks if "1970" in remark]


def test_lines_of_another_container_are_left_out_and_counted(tmp_path: Path) -> None:
    text = put(PROGRESS + SUMMARY, lambda at: "pgbench-1  | ")
    text = text.replace("\n", "\ndb-1       | LOG:  checkpoint complete\n")
    found = of_text(tmp_path, text)
    assert found.kind == "pgbench" and len(series(found, "tps")) == 6
    assert any("lines that do not (the first is line 2) are left out" in remark for remark in found.remarks)


def test_a_time_before_each_line_of_vmstat_is_read_past(tmp_path: Path) -> None:
    plain = (GOLDEN / "vmstat.txt").read_text()
    found = of_text(tmp_path, put(plain, lambda at: f"2024-03-01 10:00:{at % 60:02} "))
    assert found.kind == "vmstat" and series(found, "cpu.user") == series(of_text(tmp_path, plain), "cpu.user")


@pytest.mark.parametrize(
    "kind", ["sar", "vmstat", "dstat-csv", "sysbench", "pgbench-aggregate", "go-tpc", "iostat"]
)
def test_a_last_line_that_lacks_its_line_end_alone_is_read(kind: str, tmp_path: Path) -> None:
    sample = next(sample for sample in every_kind() if sample.kind == kind)
    text = sample.text.rstrip("\n")
    whole, found = of_text(tmp_path, sample.text, sample.name), of_text(tmp_path, text, sample.name)
    assert found.bad == 0 and found.samples == whole.samples


def test_a_last_line_that_may_be_cut_is_left_out_and_not_called_damaged(tmp_path: Path) -> None:
    text = (
        "".join(f"0 {at} 2241 0 {1175850568 + at // 10} {at % 10}0000{at % 10}\n" for at in range(100)) + "0 99 22"
    )
    (file,) = imported(tmp_path, text).files["local"]
    assert file.bad == 1 and file.odd[0].startswith("its last line (101) has no line end, so it may be cut")
    assert not [odd for odd in file.odd if "damaged" in odd]


def test_queries_beside_tpc_c_are_another_table(tmp_path: Path) -> None:
    """As text and as JSON."""
    for text, query in (
        (unstamped("tpcc/stdout"),
         '[{"Avg(ms)":"1.0","Count":"1","Operation":"Q1","Prefix":"[Current] ","Sum(ms)":"1"}]'),
        (next(each.text for each in every_kind() if each.kind == "go-tpc" and each.text.startswith("[C")),
         "[Current] Q12    - Count: 1, Sum(ms): 9945.8, Avg(ms): 9944.7"),
    ):  # fmt: skip
        plain = of_text(tmp_path, text)
        lines = text.splitlines()
        found = of_text(tmp_path, "\n".join([*lines[:2], query, *lines[2:]]) + "\n")
        assert found.bad == 0 and found.samples == plain.samples
        assert "1 lines of the queries of CH-benCHmark (Q1 to Q22, QphH) are left out" in found.remarks


def test_rows_of_other_statistics_of_sar_are_not_damaged(tmp_path: Path) -> None:
    text = (GOLDEN / "sar.txt").read_text().rstrip("\n")
    more = (
        "\n\n19:20:57          BUS  idvendor    idprod  maxpower      manufact   product\n"
        "19:20:58            3      8087        24         0             x       hub\n\n"
        "Summary           BUS  idvendor    idprod  maxpower      manufact   product\n"
        "Summary             3      8087        24         0             x       hub\n"
    )
    assert of_text(tmp_path, text + more).bad == 0


DSTAT = (
    '"Dstat 0.7.4 CSV output"\n"Author:","A <a@example.org>",,,,"URL:","https://example.org/"\n'
    '"Host:","db1",,,,"User:","root"\n"Cmdline:","dstat -t --output x.csv 1",,,,"Date:","{date}"\n\n'
    '"system","dsk/sda",\n"time","read","writ"\n{rows}'
)


@pytest.mark.parametrize(
    ("date", "days", "first", "last"),
    [
        ("25 Mar 2021 10:00:00 UTC", ("25-03", "25-03"), "2021-03-25", "2021-03-25"),
        ("02 Aug 2021 10:00:00 CEST", ("02-08", "02-08"), "2021-08-02", "2021-08-02"),
        ("02 Aug 2021 10:00:00 JST", ("08-02", "08-02"), "2021-08-02", "2021-08-02"),
        # Past New Year's Eve.
        ("31 Dec 2021 10:00:00 UTC", ("31-12", "01-01"), "2021-12-31", "2022-01-01"),
    ],
)
def test_the_header_of_a_dstat_csv_tells_year_and_order(
    date: str, days: tuple[str, str], first: str, last: str, tmp_path: Path
) -> None:
    rows = "".join(f"{day} 10:00:{at:02},1048576.0,2097152.0\n" for day in days for at in range(30))
    (file,) = imported(tmp_path, DSTAT.format(date=date, rows=rows)).files["local"]
    assert file.start is not None and file.end is not None
    assert [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" for at in (file.start, file.end)] == [first, last]


def test_a_span_over_midnight_has_both_days() -> None:
    late = datetime(2024, 3, 5, 23, 59, 31, tzinfo=UTC).timestamp()
    assert span(late, late + 20) == "2024-03-05 23:59:31 to 23:59:51"
    assert span(late, late + 59) == "2024-03-05 23:59:31 to 2024-03-06 00:00:30"


VMSTAT = (
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    + " 2  0      0 2794716 295968 312724    0    0   100  2000   29   57 20 10 60 10  0\n"
    * 61
)
SAR_U = "Linux 5.14.0 (db1) \t2024-03-25 \t_x86_64_\t(4 CPU)\n\n" + (
    "10:00:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
    + "".join(
        f"10:{at:02}:00        all     20.00      0.00     10.00      5.00      0.00     65.00\n"
        for at in range(1, 30)
    )
)
DSTAT_ALL = (
    "----total-usage---- -dsk/total- -net/total-\nusr sys idl wai stl| read  writ| recv  send\n"
    + " 20  10  60  10   0|   0    20M|   0     0 \n" * 41
)


@pytest.mark.parametrize(("text", "seconds", "metric", "value"), [
    (VMSTAT, 60, "write.bandwidth", 2000 * 1024), (DSTAT_ALL, 40, "write.bandwidth", 20 * 1024**2),
    (SAR_U, 29 * 60, "", 0.0), (VMSTAT.replace("100  2000", "  0     0"), 60, "", 0.0),
], ids=["vmstat", "dstat", "sar -u", "vmstat of idle disks"])  # fmt: skip
def test_what_watched_a_host_alone_is_a_workload_of_its_own(
    text: str, seconds: int, metric: str, value: float, tmp_path: Path
) -> None:
    done = imported(tmp_path, text)
    assert done.workloads == {"local": ("io",)} and any(f"one run of {seconds} s" in said for said in done.said)
    analysis = analyse(StudyFolder(done.folder))
    rows = {row.metric: row.value for row in analysis.rows}
    assert rows["cpu.busy"] == pytest.approx(100 - 60 - 10 if text != SAR_U else 30)
    assert not metric or rows[metric] == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fio: pid=4879, err=84/file:io_u.c:2141, func=io_u_queued_complete, error=Invalid argument\n",
         r"errors \(84\)"),
        ("fio: engine foo not loadable\nfio: failed to load it\n", "messages, no report in it: fio: engine foo"),
        ("verify: bad magic header 0, wanted acca at file /dev/sdb offset 0, length 4096\n"
         "fio: pid=1, err=84/file:a.c:1, func=verify, error=Invalid\n", r"errors \(84\), no report"),
    ],
)  # fmt: skip
def test_messages_of_fio_without_a_report_are_said_to_be_that(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"fio (?:ended with|printed) {why}"):
        of_text(tmp_path, text)


def test_texts_of_fio_that_look_the_same_are_points_of_their_own_unless_declared(tmp_path: Path) -> None:
    text = next(sample.text for sample in every_kind() if sample.kind == "fio-text")
    for name in ("direct.txt", "buffered.txt"):
        (tmp_path / "local").mkdir(exist_ok=True)
        # Other files, as a time and a pid make them.
        (tmp_path / "local" / name).write_text(f"# {name}\n{text}")
    places = {"local": [str(tmp_path / "local")]}
    done = take(minimal(["local"]), None, places, tmp_path / "runs", Options())
    (run,) = StudyFolder(done.folder).runs()
    names = {sample.phase for sample in run.values()}
    assert len(names) == 2 * len({name.rpartition("-")[0] for name in names})
    assert all(name.endswith(("-direct", "-buffered")) for name in names)
    for number, name in enumerate(("direct.txt", "buffered.txt"), 1):
        (tmp_path / f"local/run{number}").mkdir()
        (tmp_path / "local" / name).rename(tmp_path / f"local/run{number}/x.txt")
    done = take(minimal(["local"]), None, places, tmp_path / "runs2", Options())
    assert done.study.repeats == 2


def test_many_unknown_files_do_not_repeat_what_is_known(tmp_path: Path) -> None:
    from blocklab.sizing.gather import Asked, gather

    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"Dear database {number},\nhow are you?\n")
    with pytest.raises(StudyError) as caught:
        gather(sorted(tmp_path.iterdir()), Asked())
    assert "iostat" not in caught.value.problem and caught.value.hint.count("iostat") <= 2
