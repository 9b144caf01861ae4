"""MySQL and MariaDB: SHOW ENGINE INNODB STATUS and SHOW GLOBAL STATUS, and what they say of the block device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.kinds import KINDS
from blocklab.formats.text import Refused, Text, whole
from blocklab.probes import counters
from blocklab.sizing.models import innodb, mysql_model
from blocklab.sizing.models.mysql_model import PAGE
from blocklab.sizing.series import Device, Interval, Snapshot, Trust, implausible
from blocklab.sizing.snapshots import Paired, pair
from tests.unit.sizing_texts import Taken

GOLDEN = Path(__file__).parent / "golden" / "sizing"
INNODB, MYSQL = GOLDEN / "innodb", GOLDEN / "mysql"


def text_of(content: str, name: str = "status.txt") -> Text:
    *lines, cut = content.split("\n")
    return Text(Path(name), tuple(lines), cut)


def status(content: str) -> Taken:
    return Taken("mysql-status", text_of(content))


def inno(content: str) -> Taken:
    return Taken("innodb-status", text_of(content))


def sample(name: str) -> str:
    return (INNODB / name).read_text()


def seconds(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


def device(snapshot: Snapshot) -> Device:
    """What a dump's counters say of the device, since the server's start."""
    return snapshot.model(snapshot.counters)


def only(paired: Paired) -> Interval:
    (series,) = paired.series
    (interval,) = series.intervals
    return interval


def batch(values: Mapping[str, int | str], *, header: bool = True) -> str:
    lines = [f"{name}\t{value}" for name, value in values.items()]
    return "\n".join((["Variable_name\tValue"] if header else []) + lines) + "\n"


def dump(uptime: int, grown: float = 1.0, **more: int) -> dict[str, int | str]:
    """All that is used of a MariaDB whose redo log is apart, after ``grown`` times a fixed amount of work."""
    work = {
        "Aborted_clients": 0, "Binlog_commits": 100, "Binlog_group_commits": 50, "Binlog_bytes_written": 200_000,
        "Binlog_cache_use": 100, "Com_commit": 110, "Com_rollback": 10, "Innodb_data_fsyncs": 60,
        "Innodb_data_read": 16384 * 400, "Innodb_data_reads": 400, "Innodb_data_writes": 302,
        "Innodb_data_written": 16384 * 600, "Innodb_dblwr_pages_written": 300, "Innodb_dblwr_writes": 2,
        "Innodb_log_writes": 50, "Innodb_os_log_written": 500_000, "Innodb_pages_written": 300,
    }  # fmt: skip
    found = {name: int(value * grown) for name, value in work.items()}
    return {**found, "Innodb_page_size": 16384, "Uptime": uptime, "Uptime_since_flush_status": uptime, **more}


# -- against the kernel's own counts ------------------------------------------------------------------------------


def kernel(server: str) -> dict[str, float]:
    """What /proc/diskstats counted of the volume meanwhile."""
    before, after = (
        counters.parse((MYSQL / f"{server}.kernel.{when}").read_text()).disks["ubdb"]
        for when in ("before", "after")
    )
    names = ("reads", "writes", "read_bytes", "write_bytes")
    return {name: getattr(after, name) - getattr(before, name) for name in names}


@pytest.mark.parametrize("server", ["mariadb-11.8", "mysql-9.7"])
def test_requests_and_bytes_are_within_ten_percent_of_the_kernels(server: str) -> None:
    parts = [(MYSQL / f"{server}.{name}").read_text() for name in ("variables", "before", "after")]
    found = status("".join(parts))
    interval = only(pair(found.snapshots))
    for name, counted in kernel(server).items():
        mine = getattr(interval.rates, name) * interval.seconds
        # This volume has a volatile cache, so that InnoDB's syncs reach it as requests of their own.
        empty = _syncs(server) if name == "writes" else 0
        assert mine + empty == pytest.approx(counted, rel=0.10), name
    assert not implausible(interval.rates)
    first = found.snapshots[0]
    assert (first.product, first.system, first.host) == (server.partition("-")[0], "a1", "a1")
    assert first.trust is Trust.SERVER


def _syncs(server: str) -> int:
    found = []
    for when in ("before", "after"):
        lines = (MYSQL / f"{server}.{when}").read_text().splitlines()
        found.append(int(dict(line.split("\t") for line in lines)["Innodb_data_fsyncs"]))
    return found[1] - found[0]


def test_what_innodb_counts_itself_is_far_from_the_kernels() -> None:
    """The reason for the model: page writes alone, as ``Innodb_data_writes`` of MariaDB 11.8 has them."""
    found = {}
    for when in ("before", "after"):
        lines = (MYSQL / f"mariadb-11.8.{when}").read_text().splitlines()
        found[when] = dict(line.split("\t") for line in lines)
    written = int(found["after"]["Innodb_data_writes"]) - int(found["before"]["Innodb_data_writes"])
    assert written < 0.5 * kernel("mariadb-11.8")["writes"]


def test_the_redo_log_is_added_where_the_total_leaves_it_out_and_only_there() -> None:
    apart = {name.lower(): float(value) for name, value in dump(1000, 10).items()}
    # MySQL 8: the log's calls and bytes are in the totals, the doublewrite buffer's bytes are not
    inside = apart | {
        "innodb_data_writes": apart["innodb_data_writes"] + apart["innodb_log_writes"],
        "innodb_data_written": 3000 * 16384.0 + apart["innodb_os_log_written"],
    }
    setting = mysql_model.Settings(sync_binlog=1, flush_log=1)
    assert mysql_model.device(setting, PAGE, apart) == mysql_model.device(setting, PAGE, inside)


def test_the_parts_of_the_writes() -> None:
    setting = mysql_model.Settings(sync_binlog=1, flush_log=1)
    values = {name.lower(): float(value) for name, value in dump(1000).items()}
    whole_time = mysql_model.device(setting, PAGE, values)
    found, said = whole_time.counters, whole_time.remarks
    # 300 pages; a doublewrite buffer of 300 pages in requests of 256 KiB, 18.75; 50 of the redo log, 50 of the
    # binary log, and one of the file system's journal for each sync of that
    assert found["writes"] == pytest.approx(300 + 18.75 + 50 + 50 + 50)
    assert found["flushes"] == 60 + 50
    # and the bytes: a block more for each write of the binary log, and one of the journal
    assert found["write_bytes"] == 16384 * 600 + 500_000 + 50 * 512 + 200_000 + 50 * 4096 + 50 * 4096
    assert found["transactions"] == 110 + 10
    assert said == ()


@pytest.mark.parametrize(("sync_binlog", "syncs"), [("1", 50), ("10", 5), ("0", 0)])
def test_sync_binlog_decides_how_often_the_binary_log_is_synced(sync_binlog: str, syncs: int) -> None:
    content = batch({"sync_binlog": sync_binlog, "innodb_flush_log_at_trx_commit": "1"}) + batch(dump(1000))
    (snapshot,) = status(content).snapshots
    assert device(snapshot).counters["flushes"] == 60 + syncs


def test_an_unknown_sync_binlog_is_taken_as_1_and_said() -> None:
    found = status(batch(dump(1000)))
    assert device(found.snapshots[0]).counters["flushes"] == 60 + 50
    assert any("sync_binlog is not in it: taken as 1" in each for each in device(found.snapshots[0]).remarks)
    without = {name: value for name, value in dump(1000).items() if not name.startswith("Binlog")}
    assert device(status(batch(without)).snapshots[0]).remarks == ()


def test_mysql_has_no_groups_of_commits_and_its_redo_syncs_bound_them() -> None:
    values = {name: value for name, value in dump(1000).items() if not name.startswith(("Binlog_g", "Binlog_b"))}
    values |= {"Innodb_os_log_fsyncs": 40}
    found = status(batch(values))
    assert device(found.snapshots[0]).counters["flushes"] == 60 + 40
    assert any("does not count the binary log's bytes" in each for each in device(found.snapshots[0]).remarks)
    lazy = status(batch({"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "1"}) + batch(values))
    assert device(lazy.snapshots[0]).counters["flushes"] == 60 + 100
    assert any("one sync of the binary log" in each for each in device(lazy.snapshots[0]).remarks)


def test_reads_through_the_page_cache_are_trusted_less() -> None:
    found = status(batch({"innodb_flush_method": "fsync"}) + batch(dump(1000)))
    assert found.snapshots[0].trust is Trust.CACHED
    assert any("page cache" in each for each in found.remarks)


def test_commits_of_autocommit_are_taken_from_the_binary_log() -> None:
    (snapshot,) = status(batch(dump(1000, Binlog_commits=500))).snapshots
    assert device(snapshot).counters["transactions"] == 510


# -- forms of SHOW GLOBAL STATUS ----------------------------------------------------------------------------------


def boxed(values: Mapping[str, int | str]) -> str:
    rule = "+----+----+"
    rows = [f"| {name:<30} | {value:<20} |" for name, value in {"Variable_name": "Value", **values}.items()]
    return "\n".join([rule, rows[0], rule, *rows[1:], rule]) + "\n"


def vertical(values: Mapping[str, int | str]) -> str:
    return "".join(
        f"{'*' * 27} {number}. row {'*' * 27}\nVariable_name: {name}\n        Value: {value}\n"
        for number, (name, value) in enumerate(values.items(), 1)
    )


FORMS: Mapping[str, Callable[[Mapping[str, int | str]], str]] = {
    "batch": batch, "no header": lambda each: batch(each, header=False), "boxed": boxed, "vertical": vertical,
    "columns": lambda each: batch(each).replace("\t", "        "),
    "capitals": lambda each: batch({name.upper(): value for name, value in each.items()}),
    "thousands": lambda each: batch({n: f"{v:,}" if isinstance(v, int) else v for n, v in each.items()}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_two_dumps(form: str) -> None:
    content = FORMS[form](dump(1000)) + FORMS[form](dump(1100, 3))
    assert KINDS["mysql-status"].fits(content)
    found = status(content)
    assert found.found.bad == 0 and [each.uptime for each in found.snapshots] == [1000, 1100]
    interval = only(pair(found.snapshots))
    assert (interval.seconds, interval.rates.reads) == (100, 8.0)
    assert {each.product for each in found.snapshots} == {"mariadb"}


def test_mysqladmin_every_two_seconds() -> None:
    found = Taken("mysql-status", whole(MYSQL / "mariadb-11.8.mysqladmin"))
    assert [each.uptime for each in found.snapshots] == [6, 8]
    assert only(pair(found.snapshots)).seconds == 2


def test_differences_of_mysqladmin_are_added_up_again() -> None:
    found = Taken("mysql-status", whole(MYSQL / "mariadb-11.8.mysqladmin-r"))
    assert [each.uptime for each in found.snapshots] == [8, 10, 12]
    reads = [each.counters["innodb_data_reads"] for each in found.snapshots]
    assert reads == sorted(reads)
    assert any("mysqladmin -r" in each for each in found.remarks)


def test_differences_alone_are_refused() -> None:
    with pytest.raises(Refused, match="leave out -r"):
        status(boxed(dump(10, 0.1, Innodb_page_size=0)))


def test_a_vertical_dump_of_mysql_9() -> None:
    (snapshot,) = Taken("mysql-status", whole(MYSQL / "mysql-9.7.vertical")).snapshots
    assert snapshot.product == "mysql" and device(snapshot).counters["reads"] > 0


def test_a_line_of_date_is_the_time_of_the_dump_after_it() -> None:
    content = "Mon Nov 20 10:00:00 UTC 2023\n" + batch(dump(1000)) + "Mon Nov 20 10:05:00 UTC 2023\n"
    content += batch(dump(1300, 2))
    found = status(content)
    assert [each.time for each in found.snapshots] == [
        seconds(2023, 11, 20, 10), seconds(2023, 11, 20, 10, 5),
    ]  # fmt: skip
    after = status(batch(dump(1000)) + "2023-11-20 10:00:00\n" + batch(dump(1300, 2)) + "2023-11-20 10:05:00\n")
    assert [each.time for each in after.snapshots] == [each.time for each in found.snapshots]


def test_the_host_and_port_are_the_system() -> None:
    (snapshot,) = status(batch({"hostname": "db1", "port": "3307"}) + batch(dump(1000))).snapshots
    assert (snapshot.system, snapshot.host) == ("db1:3307", "db1")
    assert status(batch(dump(1000))).snapshots[0].system == ""


# -- traps --------------------------------------------------------------------------------------------------------


def test_a_restart_between_dumps_is_no_interval() -> None:
    paired = pair(status(batch(dump(1000, 9)) + batch(dump(50)) + batch(dump(110, 2))).snapshots)
    assert only(paired).seconds == 60
    assert any("restarted" in each for each in paired.remarks)


def test_two_dumps_of_one_moment_count_once() -> None:
    at = "2023-11-20 10:00:00\n"
    paired = pair(status(at + batch(dump(1000)) + at + batch(dump(1000))).snapshots)
    assert any("the same moment" in each for each in paired.remarks)
    assert [each.since_start for each in paired.series] == [True]


def test_a_counter_of_32_bits_that_started_again_is_a_restart() -> None:
    content = batch(dump(1000, Innodb_data_read=2**32 - 5)) + batch(dump(1100, 2, Innodb_data_read=100))
    paired = pair(status(content).snapshots)
    assert any("counters fell (innodb_data_read)" in each for each in paired.remarks)


def test_a_server_just_started_is_said() -> None:
    paired = pair(status(batch(dump(120))).snapshots)
    assert any("started 2 min before" in each for each in paired.remarks)


def test_a_dump_that_is_cut_is_left_out_and_named() -> None:
    first, second = batch(dump(1000)), batch(dump(1100, 2))
    found = status(first + second[: second.index("Innodb_data_writes") + 20])
    assert [each.uptime for each in found.snapshots] == [1000]
    (bad,) = found.bad
    assert bad.line == first.count("\n") + 2 and "Innodb_data_writes" in bad.text
    with pytest.raises(Refused, match=r"line 2: a status without .*Innodb_data_written"):
        status(first[: first.index("Innodb_data_written") + 22])


def test_a_value_that_is_no_whole_number_is_left_out() -> None:
    content = batch(dump(1000) | {"Innodb_data_reads": "1.5e3"}) + batch(dump(1100, 2))
    found = status(content)
    assert [each.uptime for each in found.snapshots] == [1100]
    assert any("Innodb_data_reads is '1.5e3'" in each.text for each in found.bad)


def test_after_flush_status_transactions_are_unknown_and_both_sides_of_it_are_no_interval() -> None:
    flushed = (
        batch(dump(1200, 2, Uptime_since_flush_status=100)),
        batch(dump(1300, 3, Uptime_since_flush_status=200)),
    )
    found = status("".join((batch(dump(1000)), *flushed)))
    assert "transactions" not in device(found.snapshots[1]).counters
    paired = pair(found.snapshots)
    assert only(paired).seconds == 100
    assert any("statistics were reset" in each for each in paired.remarks)


def test_times_and_uptimes_that_are_rounded_apart_are_no_reset() -> None:
    content = "2023-11-20 10:00:00\n" + batch(dump(1000, Uptime_since_flush_status=600))
    content += "2023-11-20 10:01:01\n" + batch(dump(1060, 2, Uptime_since_flush_status=660))
    assert only(pair(status(content).snapshots)).seconds == 61


def test_other_files_are_not_taken() -> None:
    for content in ("", "Innodb_data_reads are many\n", "time,reads\n1,2\n", sample("mysql-5.7.txt")):
        assert not KINDS["mysql-status"].fits(content)
    with pytest.raises(Refused):
        status("nothing\n")


# -- InnoDB status ------------------------------------------------------------------------------------------------

ONE_DUMP = [
    # file, product, when, seconds of the window, read calls, reads/s, syncs/s
    ("mysql-5.5.txt", "mysql", (2013, 11, 20, 10), 44, 31272, 12.5, 4.0),
    ("mysql-5.6.txt", "mysql", (2013, 11, 20, 10), 6, 344, 0.0, 48.33),
    ("mysql-5.7.txt", "mysql", (2018, 4, 12, 15, 14, 8), 20, 5000, 25.0, 5.25),
    ("mysql-8.0.txt", "mysql", (2023, 11, 20, 10), 14, 833, 3.0, 1.5),
    ("mysql-9.7.batch", "mysql", (2026, 11, 23, 3, 9, 53), 8, 876, 75.99, 119.97),
    ("mariadb-10.5.txt", "mariadb", (2024, 10, 23, 18, 2, 39), 6, 174, 0.0, 54.16),
    ("mariadb-10.6.txt", "mariadb", (2024, 10, 23, 18, 5, 10), 8, 190, 1.0, 58.0),
    ("mariadb-10.11.txt", "mariadb", (2024, 10, 23, 17, 51, 16), 5, 200, 0.0, 69.0),
    ("mariadb-11.4.txt", "mariadb", (2024, 10, 23, 18, 9, 19), 10, 170, 0.0, 63.59),
]


@pytest.mark.parametrize(("name", "product", "when", "window", "reads", "rate", "syncs"), ONE_DUMP)
def test_one_dump_of_each_version(
    name: str, product: str, when: tuple[int, ...], window: int, reads: int, rate: float, syncs: float
) -> None:
    content = sample(name)
    assert KINDS["innodb-status"].fits(content)
    (snapshot,) = inno(content).snapshots
    assert (snapshot.product, snapshot.time, snapshot.uptime) == (product, seconds(*when), None)
    assert device(snapshot).counters["reads"] == reads
    paired = pair([snapshot])
    assert paired.series[0].trust is Trust.WINDOW
    interval = only(paired)
    assert (interval.seconds, interval.rates.reads, interval.flushes) == (window, rate, syncs)
    assert interval.end == snapshot.time
    assert interval.rates.write_bytes is None


def test_two_dumps_are_subtracted_and_their_windows_left() -> None:
    paired = pair(inno(sample("mysql-8.0-two.txt")).snapshots)
    interval = only(paired)
    assert (interval.seconds, interval.rates.reads, interval.flushes) == (600, 100.0, 5.0)
    # 18,000 calls with 2,400 of the redo log, as many as syncs come down to 3,000 beside the pages
    assert interval.rates.writes == pytest.approx(18000 / 600, rel=0.01)
    assert interval.rates.read_bytes == 100 * 16384
    assert interval.rates.write_bytes == pytest.approx((2 * 15000 * 16384 + 12_000_000 + 512 * 2400) / 600)
    assert paired.series[0].trust is Trust.SERVER


def test_two_dumps_of_mariadb_11_whose_writes_leave_out_the_redo_log() -> None:
    content = sample("mariadb-11.8.txt")
    found = inno(content)
    first, second = found.snapshots
    assert second.time is not None and first.time is not None and second.time > first.time
    # 0 file writes, 491 syncs: each is a write of the redo log
    counted = device(first).counters
    assert counted["writes"] == 491 and counted["flushes"] == 491
    assert device(first).remarks == (innodb.OUTSIDE,)
    assert any("binary log" in each for each in found.remarks) and any("16 KiB" in each for each in found.remarks)


@pytest.mark.parametrize("name", ["mysql-9.7.table", "mysql-9.7.batch", "mariadb-11.8.batch"])
def test_a_window_of_no_seconds_is_none_and_each_form_has_the_counters(name: str) -> None:
    (snapshot,) = inno(sample(name)).snapshots
    assert {"reads", "writes", "flushes", "read_bytes", "write_bytes"} <= set(device(snapshot).counters)
    assert name == "mysql-9.7.batch" or snapshot.window is None


def test_a_file_of_an_error_log_and_several_files() -> None:
    log = "2018-04-12T15:14:08.1Z 0 [Note] InnoDB: page_cleaner\n" + sample("mysql-5.7.txt") + "[Note] end\n"
    (snapshot,) = inno(log).snapshots
    assert snapshot.line == 4
    more = inno(sample("mysql-5.7.txt").replace("15:14:08", "15:24:08").replace("5000 OS", "5600 OS")).snapshots
    assert only(pair([snapshot, *more])).rates.reads == 1.0


def test_what_a_statement_holds_is_not_read() -> None:
    assert "1 OS file reads, 2 OS file writes, 3 OS fsyncs" in sample("mysql-5.6.txt")
    assert inno(sample("mysql-5.6.txt")).snapshots[0].counters["reads"] == 344


def test_a_dump_cut_before_its_file_io_is_left_out_and_named() -> None:
    content = sample("mysql-8.0-two.txt")
    at = content.rindex("FILE I/O")
    found = inno(content[:at] + "\n")
    assert len(found.snapshots) == 1 and found.found.bad == 1
    assert found.bad[0].line == content[: content.rindex("2023-11-20")].count("\n") + 1
    assert "without 'OS file reads" in found.bad[0].text
    one = sample("mysql-5.7.txt")
    with pytest.raises(Refused, match=r"line 3: an InnoDB status without"):
        inno(one[: one.index("OS fsyncs") - 4])


def test_a_dump_truncated_in_its_transactions_is_whole() -> None:
    content = sample("mysql-5.7.txt")
    start, end = content.index("LIST OF TRANSACTIONS"), content.index("--------\nFILE I/O")
    cut = content[:start] + "... truncated...\n" + content[end:]
    assert inno(cut).snapshots[0].counters == inno(content).snapshots[0].counters


def test_a_restart_between_two_innodb_dumps() -> None:
    content = sample("mysql-8.0-two.txt").replace("60833 OS", "60 OS")
    paired = pair(inno(content).snapshots)
    assert any("counters fell (reads" in each for each in paired.remarks)


def test_a_file_of_both_is_a_status() -> None:
    content = sample("mysql-5.7.txt") + batch(dump(1000))
    assert KINDS["mysql-status"].fits(content) and not KINDS["innodb-status"].fits(content)


def test_a_text_without_a_dump_is_refused() -> None:
    with pytest.raises(Refused, match="INNODB MONITOR OUTPUT"):
        inno("END OF INNODB MONITOR OUTPUT\n")


# -- damaged files ------------------------------------------------------------------------------------------------

SAMPLES = [
    *(path.read_text() for path in sorted(INNODB.glob("*"))),
    batch(dump(1000)) + batch(dump(1100, 2)),
    "10:00:00\n" + boxed(dump(1000)) + "10:05:00\n" + boxed(dump(1300, 2)),
    vertical(dump(1000)) + batch({"sync_binlog": "1", "hostname": "a"}),
    (MYSQL / "mariadb-11.8.mysqladmin-r").read_text(),
]


def mutated(lines: Sequence[str], how: str, one: int, other: int) -> list[str]:
    found, at, to = list(lines), one % len(lines), other % len(lines)
    if how == "cut":
        found[at:] = [found[at][: other % (len(found[at]) + 1)]]
    elif how == "swap":
        found[at], found[to] = found[to], found[at]
    elif how == "twice":
        found[at:at] = found[min(at, to) : max(at, to) + 1]
    elif how == "gone":
        del found[min(at, to) : max(at, to)]
    elif how == "digits":
        found[at] = "".join("9" * (1 + other % 40) if each.isdigit() else each for each in found[at])
    elif how == "commas":
        found[at] = found[at].replace(".", ",").replace("0", "0,0")
    else:
        found[at] = found[at][: other % 50] + "\u00e9\t|" + found[at][other % 50 :]
    return found


HOWS = st.sampled_from(["cut", "swap", "twice", "gone", "digits", "commas", "junk"])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(HOWS, st.integers(0, 5000), st.integers(0, 5000)), min_size=1, max_size=4),
)
def test_damaged_files_are_refused_or_read_without_another_error(
    content: str, steps: list[tuple[str, int, int]]
) -> None:
    lines = content.split("\n")
    for how, one, other in steps:
        lines = mutated(lines, how, one, other) or [""]
    damaged = "\n".join(lines)
    for kind in ("innodb-status", "mysql-status"):
        KINDS[kind].fits(damaged)
        try:
            found = Taken(kind, text_of(damaged))
        except (Refused, StudyError):
            continue
        assert all(isinstance(each, Snapshot) for each in found.snapshots)
        assert all(value >= 0 for each in found.snapshots for value in each.counters.values())
        pair(found.snapshots)


def test_long_damaged_lines_take_no_long_time() -> None:
    long = " " * 50_000
    lines = [
        f"a{long}b",
        f"| a | {long}",
        f"| a{long}b",
        f"Variable_name: a{long}é",
        f"Value: {long}x",
        "1 " * 50_000,
    ]
    # CPU time: what else the machine does has no part in it.
    start = time.process_time()
    status("\n".join(lines) + "\n" + batch(dump(1000)))
    KINDS["mysql-status"].fits(long)
    KINDS["innodb-status"].fits("INNODB MONITOR OUTPUT" + "131120 1:00:00 " * 4000)
    assert time.process_time() - start < 5


# -- what an earlier load left in the counters decides nothing ---------------------------------------------------


def innodb_dump(at: str, calls: tuple[int, int], pages: int, log: int | None, sequence: int) -> str:
    """One dump: (file writes, syncs), pages written, calls of the redo log (None: MariaDB 10.8 on), its bytes."""
    done = "" if log is None else f"{log} log i/o's done, 0.00 log i/o's/second\n"
    return (
        f"2024-06-13 {at} 0x7f0000000001 INNODB MONITOR OUTPUT\n"
        "Per second averages calculated from the last 10 seconds\n--------\nFILE I/O\n--------\n"
        f"5810 OS file reads, {calls[0]} OS file writes, {calls[1]} OS fsyncs\n"
        f"---\nLOG\n---\nLog sequence number {sequence}\n{done}"
        "----------------------\nBUFFER POOL AND MEMORY\n----------------------\n"
        f"Percent of dirty pages(LRU & free pages): 3.860\nPages read 259, created 1265000, written {pages}\n"
        "END OF INNODB MONITOR OUTPUT\n"
    )


@pytest.mark.parametrize(
    ("log", "before", "after", "writes", "said"),
    [
        # An earlier load wrote the log 406 million times; in these 100 s it was 100 times.
        ((406_000_000, 406_000_100), (446_000_000, 3_500_000, 38_600_000), (446_700_000, 3_550_000, 39_290_000),
         7000, None),
        # The log's writes are more than the syncs by 900 a second, which the page cache collects.
        ((0, 100_000), (1000, 1000, 500), (201_000, 11_000, 100_500), 1100, innodb.COLLECTED),
        # Just on the side of "counted" before, and on the other after it: 3,000,000 earlier syncs are not added.
        (None, (39_909_000, 2_800_000, 38_460_000), (40_609_000, 3_000_000, 39_155_000), 9000, innodb.OUTSIDE),
        # The other way around: now they are counted.
        (None, (1_000_000, 900_000, 990_000), (1_800_000, 1_000_000, 1_590_000), 8000, None),
    ],
)  # fmt: skip
def test_what_is_added_is_decided_by_what_moved(
    log: tuple[int, int] | None,
    before: tuple[int, int, int],
    after: tuple[int, int, int],
    writes: float,
    said: str | None,
) -> None:
    logs = log or (None, None)
    text = innodb_dump("20:00:00", before[:2], before[2], logs[0], 10**11)
    text += innodb_dump("20:01:40", after[:2], after[2], logs[1], 10**11 + 10**8)
    paired = pair(inno(text).snapshots)
    assert only(paired).rates.writes == pytest.approx(writes, rel=1e-3)
    for remark in (innodb.COLLECTED, innodb.OUTSIDE):
        assert any(remark in each for each in paired.remarks) == (remark == said)


def test_a_window_is_corrected_as_a_pair_is() -> None:
    text = innodb_dump("20:00:00", (10_000, 1000), 500, 9000, 10**9).replace(
        "9000 log i/o's done, 0.00", "9000 log i/o's done, 50.00"
    )
    text = text.replace("---\nLOG", "0.00 reads/s, 0 avg bytes/read, 60.50 writes/s, 20.00 fsyncs/s\n---\nLOG")
    paired = pair(inno(text).snapshots)
    assert only(paired).rates.writes == pytest.approx(30.5)
    assert any(innodb.COLLECTED in each for each in paired.remarks)


def test_a_server_whose_storage_is_another_machines_has_no_rate_of_0() -> None:
    idle = {"Innodb_data_reads": 0, "Innodb_data_writes": 0, "Innodb_data_read": 114688, "Innodb_data_written": 0}
    # As of Aurora MySQL, whose own counters are in it.
    with pytest.raises(Refused, match=r"Aurora MySQL.*VolumeReadIOPs"):
        status(batch({"AuroraDb_commits": 474_000, "Com_commit": 474_000, **idle, "Uptime": 944}))
    # Without these: a server of another engine that committed.
    with pytest.raises(Refused, match="yet InnoDB wrote nothing"):
        status(batch({"Com_commit": 474_000, **idle, "Uptime": 944}))
    # A server that did nothing has a rate of 0.
    assert only(pair(status(batch({"Com_commit": 0, **idle, "Uptime": 944})).snapshots)).rates.writes == 0
