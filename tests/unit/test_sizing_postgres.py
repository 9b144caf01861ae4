"""psql's tables of PostgreSQL's statistics views become snapshots, in every form that psql has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.formats.database import postgres
from blocklab.formats.text import Refused, Text, head, whole
from blocklab.sizing.series import Snapshot, Trust
from blocklab.sizing.snapshots import pair
from tests.unit.sizing_texts import Taken

GOLDEN = Path(__file__).parent / "golden" / "sizing" / "postgres17"
ALL_FORMS = (
    "aligned", "border0", "border2", "csv", "expanded", "expanded0", "expanded2", "expandedA", "expandedcsv",
    "grouped", "null", "oldascii", "tabs", "unaligned", "unicode", "unicode1",
)  # fmt: skip

# Written after the documentation of PostgreSQL 15.
OLD = """\
              now              | checkpoints_timed | buffers_checkpoint | buffers_clean | buffers_backend | \
buffers_backend_fsync |      stats_reset
-------------------------------+-------------------+--------------------+---------------+-----------------+-\
----------------------+------------------------
 2023-11-20 10:{minute}:00+00 |                10 | {checkpoint} |           50 |             30 | 2 | \
2023-11-01 00:00:00+00
(1 row)

           now          | wal_records | wal_fpi | wal_bytes | wal_buffers_full | wal_write | wal_sync | stats_reset
------------------------+-------------+---------+-----------+------------------+-----------+----------+-------------
 2023-11-20 10:{minute}:00+00 | 1 | 1 | {wal} | 0 | {writes} | {writes} | 2023-11-01 00:00:00+00
(1 row)

           now          | datname | xact_commit | xact_rollback | blks_read | blk_read_time | stats_reset
------------------------+---------+-------------+---------------+-----------+---------------+-------------
 2023-11-20 10:{minute}:00+00 |      | 0 | 0 | 10 | 0 |
 2023-11-20 10:{minute}:00+00 | shop | {commits} | 10 | {read} | 0 | 2023-11-01 00:00:00+00
(2 Zeilen)

"""

# Written after the documentation of PostgreSQL 18.
NEW = """\
now,backend_type,object,context,reads,read_bytes,writes,write_bytes,extends,extend_bytes,fsyncs,stats_reset
2025-11-20 10:00:00+00,client backend,relation,normal,100,1638400,10,81920,4,131072,0,2025-11-01 00:00:00+00
2025-11-20 10:00:00+00,client backend,relation,bulkread,20,2621440,0,0,,,,2025-11-01 00:00:00+00
2025-11-20 10:00:00+00,client backend,wal,normal,0,0,50,819200,,,50,2025-11-01 00:00:00+00
2025-11-20 10:00:00+00,client backend,wal,init,,,1,16777216,,,1,2025-11-01 00:00:00+00
now,wal_records,wal_fpi,wal_bytes,wal_buffers_full,stats_reset
2025-11-20 10:00:00+00,9,1,500000,0,2025-11-01 00:00:00+00
"""


def text(*parts: str, path: str = "stats.txt") -> Text:
    *lines, cut = "".join(parts).split("\n")
    return Text(Path(path), tuple(lines), cut)


def read(*parts: str) -> Taken:
    return Taken("postgres-stats", text(*parts))


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def old(minute: str = "00", checkpoint: int = 1000, wal: int = 10**6, writes: int = 100, read: int = 500) -> str:
    return OLD.format(minute=minute, checkpoint=checkpoint, wal=wal, writes=writes, commits=10 * writes, read=read)


def only(found: Taken) -> Snapshot:
    (snapshot,) = found.snapshots
    return snapshot


def said(found: Taken) -> str:
    return "\n".join(found.remarks)


@pytest.mark.parametrize("form", ALL_FORMS)
def test_every_form_of_psql_gives_the_same_counters(form: str) -> None:
    path = GOLDEN / f"{form}.txt"
    assert postgres.fits(head(path))
    found = Taken("postgres-stats", whole(path))
    counters = only(found).counters
    # The aligned sample was printed first, before 39 more blocks were read.
    assert counters["read_bytes"] == pytest.approx(3384090624.0, rel=1e-3)
    assert counters["write_bytes"] == 6708464934.0
    assert counters["flushes"] == 76625.0
    assert counters["transactions"] == pytest.approx(226830, abs=50)
    assert counters["read_seconds"] == pytest.approx(203.2, abs=0.1)
    assert only(found).time == pytest.approx(1795403736, abs=3)
    assert only(found).counting_since == pytest.approx(1795403254.21, abs=0.01)
    assert not found.found.bad


def test_the_difference_is_what_the_kernel_counted_at_the_volume() -> None:
    found = [Taken("postgres-stats", whole(GOLDEN / name)) for name in ("before.txt", "after.txt")]
    (series,) = pair([each for one in found for each in one.snapshots]).series
    (interval,) = series.intervals
    moved = {name: getattr(interval.rates, name) * interval.seconds for name in ("writes", "write_bytes")}
    # /proc/diskstats of the volume at the same two moments: 163747 - 119438 writes, 14668223 - 13318674 sectors.
    assert moved["writes"] / (163747 - 119438) == pytest.approx(1.08, abs=0.01)
    assert moved["write_bytes"] / ((14668223 - 13318674) * 512) == pytest.approx(1.01, abs=0.01)
    assert interval.transactions is not None
    assert interval.transactions * interval.seconds == pytest.approx(14690)
    assert series.product == "postgresql"
    assert series.trust is Trust.CACHED
    assert series.source == "PostgreSQL pg_stat_io, pg_stat_wal, pg_stat_database"


def test_reads_are_said_to_be_of_the_page_cache_and_requests_to_be_joined() -> None:
    found = read(golden("aligned"))
    assert "page cache" in said(found)
    assert "fewer write requests" in said(found)
    assert "temp_bytes" in said(found)


def test_direct_io_is_no_page_cache() -> None:
    direct = " debug_io_direct \n-----------------\n data, wal\n(1 row)\n\n"
    found = read(direct, golden("aligned"))
    assert only(found).trust is Trust.SERVER
    assert "page cache" not in said(found)


@pytest.mark.parametrize("form", ["tuples", "tuplesA"])
def test_rows_without_a_header_are_refused_with_the_option_to_drop(form: str) -> None:
    assert postgres.fits(golden(form))
    with pytest.raises(Refused, match="without -t"):
        read(golden(form))


def test_wrapped_values_are_refused() -> None:
    assert postgres.fits(golden("wrapped"))
    with pytest.raises(Refused, match=r"line 9: .*wrapped"):
        read(golden("wrapped"))


@pytest.mark.parametrize("form", ["datestyle", "datestyle2", "datestyle3", "epoch", "now_apart", "stdin"])
def test_times_in_every_style(form: str) -> None:
    snapshot = only(read(golden(form)))
    assert snapshot.time == pytest.approx(1795403738 if form != "now_apart" else 1795403686, abs=1)
    assert snapshot.counting_since == pytest.approx(1795403254.2, abs=0.1)


def test_watch_gives_one_snapshot_each_time() -> None:
    found = read(golden("watch"))
    assert [each.time for each in found.snapshots] == [1795403681, 1795403683, 1795403685]
    assert len(pair(found.snapshots).series[0].intervals) == 2


def test_watch_of_other_languages_and_of_old_clients() -> None:
    table = "\n wal_bytes | wal_write | wal_sync\n-----------+-----------+----------\n {} | 1 | 1\n(1 行)\n\n"
    times = ("Mon 20 Nov 2023 10:00:00 AM UTC (every 60s)", "Watch every 60s\tMon Nov 20 10:01:00 2023")
    found = read(*(f"   {time}\n{table.format(number)}" for number, time in enumerate(times)))
    assert [each.time for each in found.snapshots] == [1700474400, 1700474460]


def test_a_line_of_date_is_the_time_of_the_tables_after_it() -> None:
    table = " wal_bytes | wal_write | wal_sync\n-----------+-----------+----------\n 1 | 1 | 1\n(1 row)\n\n"
    found = read("Mon Nov 20 10:00:00 UTC 2023\n", table, "Mon Nov 20 10:05:00 UTC 2023\n", table, table)
    assert [each.time for each in found.snapshots] == [1700474400, 1700474700, None]


def test_postgres_15_takes_the_buffers_and_the_blocks_read() -> None:
    found = read(old())
    snapshot = only(found)
    assert snapshot.counters == {
        "reads": 510.0, "read_bytes": 510 * 8192.0, "writes": 1080.0 + 100,
        "write_bytes": (1080 + 100) * 8192.0 + 10**6, "flushes": 102.0, "transactions": 1010.0,
    }  # fmt: skip
    assert snapshot.source == "PostgreSQL pg_stat_wal, pg_stat_database, pg_stat_bgwriter"


def test_postgres_18_has_the_bytes_and_the_wal_in_pg_stat_io() -> None:
    counters = only(read(NEW)).counters
    assert counters["reads"] == 120.0
    assert counters["read_bytes"] == 1638400 + 2621440
    assert counters["write_bytes"] == 81920 + 131072 + 819200 + 16777216
    # 10 blocks, 50 writes of WAL, and what was added to files and a new segment in requests of 256 KiB.
    assert counters["writes"] == 10 + 50 + 131072 / 262144 + 64
    assert counters["flushes"] == 51.0
    assert "UNDERSTATED" not in said(read(NEW))


def test_pg_stat_io_alone_says_loudly_that_the_wal_is_missing() -> None:
    found = read(golden("csv").split("now,wal_records")[0])
    assert "UNDERSTATED" in said(found)
    assert "transactions are missing" in said(found)
    assert "flushes" not in only(found).counters


def test_pg_stat_database_alone_tells_no_writes() -> None:
    found = read(old().split("(1 row)\n\n")[2])
    assert set(only(found).counters) == {"reads", "read_bytes", "transactions"}
    assert "writes of data are missing" in said(found)


def test_wal_alone_tells_no_reads() -> None:
    found = read(golden("epoch"))
    assert set(only(found).counters) == {"writes", "write_bytes", "flushes"}
    assert only(found).trust is Trust.SERVER
    assert only(found).uptime == pytest.approx(484.2, abs=0.1)


def test_columns_left_out_leave_the_bytes_unknown() -> None:
    counters = only(read("backend_type,context,reads,writes,extends\nclient backend,normal,5,6,7\n")).counters
    assert counters == {"reads": 5.0, "writes": 13.0}


def test_the_order_of_columns_does_not_matter() -> None:
    assert only(read("extends,writes,op_bytes,reads,context\n,,8192,5,normal\n")).counters["read_bytes"] == 40960.0


def test_full_wal_buffers_are_joined_by_the_kernel() -> None:
    counters = only(read("wal_bytes,wal_buffers_full,wal_write,wal_sync\n1000000,64,100,36\n")).counters
    assert counters["writes"] == 36 + 64 / 32
    assert counters["write_bytes"] == 1000000 + 36 * 8192


def test_writes_that_are_flushes_by_themselves() -> None:
    assert only(read("wal_bytes,wal_write,wal_sync\n1000000,100,0\n")).counters["flushes"] == 100.0


def test_a_restart_makes_counters_fall_and_is_left_out() -> None:
    found = read(
        old("00"), old("01", 2000, 2 * 10**6, 200, 600), old("02", 10, 10**4, 1, 5), old("03", 20, 20**4, 3, 9)
    )
    paired = pair(found.snapshots)
    assert [each.start for each in paired.series[0].intervals] == [1700474400, 1700474520]
    assert any("fell" in remark for remark in paired.remarks)


def test_a_reset_of_one_view_is_left_out() -> None:
    reset = old("01", 2000, 2 * 10**6, 200, 600).replace(
        "2023-11-01 00:00:00+00\n(1 row)\n\n           now          | datname",
        "2023-11-20 10:00:30+00\n(1 row)\n\n           now          | datname",
    )
    paired = pair(read(old("00"), reset).snapshots)
    assert any("statistics were reset" in remark for remark in paired.remarks)
    assert all(series.since_start for series in paired.series)


def test_a_moment_without_one_of_the_views_is_not_subtracted() -> None:
    cut = "".join(old("01", 2000, 2 * 10**6, 200, 600).partition("           now          | wal_records")[:1])
    assert not [each for each in pair(read(old("00"), cut).snapshots).series if not each.since_start]


def test_a_table_that_was_cut_is_left_out_with_its_line() -> None:
    whole_one, _, rest = golden("aligned").partition("(6 rows)")
    found = read("\n".join(whole_one.split("\n")[:-3]), "\n\n", rest.lstrip("\n"))
    assert "line 1: pg_stat_io left out: it has no '(N rows)'" in said(found)
    assert only(found).source.startswith("PostgreSQL pg_stat_wal, pg_stat_database")


def test_a_cut_table_alone_is_refused() -> None:
    with pytest.raises(Refused, match=r"\(N rows\)"):
        read(golden("aligned").split("(6 rows)")[0])


def test_a_last_line_without_its_end_is_not_counted() -> None:
    cut = golden("csv").split("now,wal_records")[0][:-30]
    with pytest.raises(Refused, match="line 7 is cut"):
        read(cut)


def test_a_csv_with_fewer_rows_than_the_other_is_left_out() -> None:
    io = golden("csv").split("now,wal_records")[0]
    later = "\n".join(
        line for line in io.replace("03:15:35", "03:16:35").split("\n") if "checkpointer" not in line
    )
    found = read(io, later)
    assert "it has 5 rows, another one here has 6" in said(found)
    assert len(found.snapshots) == 1


def test_a_damaged_number_is_named_and_not_counted() -> None:
    found = read(golden("aligned").replace("| 2296302886 |", "| 22963x2886 |"))
    assert "'22963x2886' is no number" in said(found)
    assert "pg_stat_wal" not in only(found).source


def test_a_row_that_is_there_twice_is_not_summed() -> None:
    io = golden("csv").split("now,wal_records")[0].split("\n")
    with pytest.raises(Refused, match="a row twice"):
        read("\n".join([*io[:-1], io[2], ""]))


def test_thousands_and_decimal_commas() -> None:
    german = " reads | op_bytes | read_time\n-------+----------+---\n 1.234.567 | 8.192 | 19.012,5\n(1 Zeile)\n"
    counters = only(read(german)).counters
    assert counters["reads"] == 1234567
    assert counters["read_bytes"] == 1234567 * 8192.0
    assert counters["read_seconds"] == pytest.approx(19.0125)


def test_statements_and_tables_are_not_taken_for_the_server() -> None:
    with pytest.raises(Refused, match="no table"):
        read("queryid,calls,wal_bytes\n1,2,3\n")
    assert not postgres.fits("queryid,calls,wal_bytes\n1,2,3\n")
    assert not postgres.fits("BACKGROUND THREAD\nsrv_master_thread loops: 1 srv_active\n")


def test_untimed_dumps_ask_for_how_far_they_are_apart() -> None:
    table = "wal_bytes,wal_write,wal_sync\n{},1,1\n\n"
    found = read(table.format(1), table.format(2))
    assert [each.time for each in found.snapshots] == [None, None]
    assert "SELECT now(), *" in said(found)
    assert len(pair(found.snapshots, every=60.0).series[0].intervals) == 1


def test_two_databases_of_one_moment_are_added_and_one_alone_is_said() -> None:
    table = "datname,xact_commit,xact_rollback,blks_read\nshop,5,1,10\n"
    assert only(read(table, "crm,7,0,1\n")).counters["transactions"] == 13.0
    assert "pg_stat_database of shop only" in said(read(table))


SAMPLES = [golden(name) for name in (*ALL_FORMS, "watch", "stdin", "datestyle3")] + [old() + old("01"), NEW]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A sample with lines cut, doubled, moved, or its characters changed."""
    lines = draw(st.sampled_from(SAMPLES)).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cut", "double", "move", "drop", "comma", "crlf", "char", "end"])):
            case "cut":
                lines[at] = lines[at][: draw(st.integers(0, max(0, len(lines[at]))))]
            case "double":
                lines.insert(at, lines[at])
            case "move":
                lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
            case "drop":
                lines = lines[:at] + lines[at + 1 :] or [""]
            case "comma":
                lines = [line.replace(".", ",") for line in lines]
            case "crlf":
                lines = [f"{line}\r" for line in lines]
            case "char":
                where = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:where] + draw(st.text(max_size=3)) + lines[at][where + 1 :]
            case _:
                lines = lines[: at + 1]
    return "\n".join(lines)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_damaged_files_never_end_in_a_traceback(damaged: str) -> None:
    postgres.fits(damaged)
    try:
        found = read(damaged)
    except (Refused, StudyError):
        return
    assert all(value >= 0 for each in found.snapshots for value in each.counters.values())
    pair(found.snapshots)
