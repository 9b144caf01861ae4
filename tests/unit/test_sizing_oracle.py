"""Oracle's reports: which table counts, which numbers are refused, and what is left of a damaged file."""

from __future__ import annotations

import csv
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocklab.formats.database.oracle.tables import Numbers, ReportRow, moment, month
from blocklab.formats.kinds import KINDS as EVERY
from blocklab.formats.text import Refused, Text, head, whole
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Rates, Series, Trust
from tests.unit.sizing_texts import Taken

KINDS = {name: EVERY[name] for name in ("awr-html", "awr-text", "statspack")}
GOLDEN = Path(__file__).parent / "golden" / "sizing" / "oracle"
REAL = Path(__file__).parents[2].parent / "shared" / "data" / "awr"
MIB = 2.0**20
# What all reports of the hour have.
HOUR = Rates(reads=500.0, writes=200.0, read_bytes=6.25 * MIB, write_bytes=1.875 * MIB)


def kinds(path: Path) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.fits(head(path))]


def read(path: Path, reading: Reading | None = None) -> Taken:
    (kind,) = kinds(path)
    return Taken(kind, whole(path), reading)


def only(path: Path) -> Series:
    (series,) = read(path).series
    return series


def changed(tmp_path: Path, name: str, change: Callable[[str], str]) -> Path:
    path = tmp_path / name
    before = (GOLDEN / name).read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["DBS", "DBT", "DBV", "DBW", "DBY"])
def test_real_reports_are_within_one_percent_of_what_is_expected_and_read_in_two_seconds(name: str) -> None:
    if not REAL.is_dir():
        pytest.skip("the five real reports are not beside the repository")
    with (REAL / "expected.csv").open(encoding="utf-8") as file:
        expected = next(row for row in csv.DictReader(file) if row["file"] == f"AWR_{name}.html")
    # CPU time: what else the machine does has no part in it.
    began = time.process_time()
    series = only(REAL / expected["file"])
    assert time.process_time() - began < 2
    (interval,) = series.intervals
    rates = interval.rates
    found = {
        "elapsed_min": interval.seconds / 60, "read_requests_per_s": rates.reads,
        "write_requests_per_s": rates.writes, "requests_per_s": rates.together,
        "read_mb_per_s": (rates.read_bytes or 0) / MIB, "write_mb_per_s": (rates.write_bytes or 0) / MIB,
        "mb_per_s": ((rates.read_bytes or 0) + (rates.write_bytes or 0)) / MIB,
    }  # fmt: skip
    for column, value in found.items():
        # Of 0.37 MB/s the expected value has two digits only.
        assert value == pytest.approx(float(expected[column]), rel=0.01, abs=0.006), column
    assert series.system == name
    assert series.trust is Trust.SERVER
    assert series.product == "oracle"
    rac = expected["instances"] == "2"
    assert series.instance == ("" if rac else f"{name.lower()}1")
    # IOStat by Function of every RAC report is nonsense: a request of 5 bytes.
    assert ("backup" in interval.parts) is not rac
    assert any("IOStat by Function is not used" in remark for remark in series.remarks) is rac
    if name == "DBS":
        assert interval.start == datetime(2022, 1, 23, 10, 0, 39, tzinfo=UTC).timestamp()
        assert interval.parts["backup"] == Rates(
            reads=27.32, writes=7.91, read_bytes=41.859 * MIB, write_bytes=7.795 * MIB
        )
        assert interval.parts["smart scan"].reads == 133.0


@pytest.mark.parametrize(
    ("name", "kind", "source"),
    [
        ("awr-10.2.html", "awr-html", "Oracle AWR"), ("awr-19.html", "awr-html", "Oracle AWR"),
        ("awr-19-rac.html", "awr-html", "Oracle AWR"), ("awr-11.2.txt", "awr-text", "Oracle AWR"),
        ("awr-11.2-de.txt", "awr-text", "Oracle AWR"), ("awr-19.txt", "awr-text", "Oracle AWR"),
        ("statspack-19.txt", "statspack", "Statspack"),
    ],
)  # fmt: skip
def test_the_same_hour_is_the_same_in_every_release_and_format(name: str, kind: str, source: str) -> None:
    path = GOLDEN / name
    assert kinds(path) == [kind]
    found = read(path)
    (series,) = found.series
    (interval,) = series.intervals
    assert interval.rates == HOUR
    assert (interval.seconds, interval.flushes, interval.transactions) == (3600.0, 45.0, 51.0)
    assert interval.read_latency == pytest.approx(0.00125)
    assert interval.write_latency == pytest.approx(0.0008025, rel=1e-3)
    assert (series.system, series.source, series.instance) == ("SHOP", source, "")
    assert series.host == ("" if "rac" in name else "dbhost1")
    assert (found.bad, found.found.bad) == ((), 0)
    assert any("redo writes" in remark for remark in series.remarks)
    assert any("mean wait for 'db file sequential read'" in remark for remark in series.remarks)


def test_parts_are_rman_smart_scan_and_temp() -> None:
    (interval,) = only(GOLDEN / "awr-19.txt").intervals
    assert interval.parts == {
        "backup": Rates(reads=10.0, writes=5.0, read_bytes=MIB, write_bytes=MIB / 2),
        "smart scan": Rates(reads=2.0, writes=0.0, read_bytes=MIB / 4, write_bytes=0.0),
        "temp": Rates(reads=4.0, writes=2.0, read_bytes=0.2 * MIB, write_bytes=0.2 * MIB),
    }
    (statspack,) = only(GOLDEN / "statspack-19.txt").intervals
    assert statspack.parts == {"backup": interval.parts["backup"]}


def test_functions_of_a_rac_report_that_cannot_be_are_not_used_but_its_files_are() -> None:
    series = only(GOLDEN / "awr-19-rac.html")
    assert set(series.intervals[0].parts) == {"temp"}
    assert [remark for remark in series.remarks if "IOStat by Function is not used" in remark]


def test_a_part_larger_than_the_whole_is_not_one(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.txt", lambda text: re.sub(r"(RMAN +3.5G +) 10.0", r"\g<1>900.0", text))
    series = only(path)
    assert "backup" not in series.intervals[0].parts
    assert any("900 reads a second in a part of 500" in remark for remark in series.remarks)


def test_a_pluggable_database_is_a_system_of_its_own_and_page_heads_are_no_rows() -> None:
    series = only(GOLDEN / "awr-19-pdb.txt")
    assert series.system == "SHOP/PDB1"
    assert series.instance == "shop1"
    rates = series.intervals[0].rates
    assert (rates.reads, rates.writes, rates.read_bytes) == (20.0, 10.0, MIB / 2)
    assert rates.write_bytes == pytest.approx(MIB / 5)
    assert any("container PDB1 alone" in remark for remark in series.remarks)


def test_blocks_of_9i_are_never_requests() -> None:
    series = only(GOLDEN / "statspack-9.2.txt")
    (interval,) = series.intervals
    assert interval.rates == Rates(read_bytes=720 * 8192.0, write_bytes=180 * 8192.0)
    assert interval.flushes == 45.0
    assert any("blocks, not requests" in remark for remark in series.remarks)


def test_blocks_of_9i_without_the_size_of_a_block_are_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "statspack-9.2.txt", lambda text: text.replace("Std Block Size:         8K", ""))
    with pytest.raises(Refused, match="neither an IO Profile"):
        read(path)


def test_load_profile_alone_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-11.2.txt", lambda text: text[: text.index("Instance Activity Stats")])
    with pytest.raises(Refused, match=r"neither an IO Profile nor Instance Activity .* cut off"):
        read(path)


def test_a_cut_report_keeps_what_is_there(tmp_path: Path) -> None:
    for name in ("awr-19.txt", "awr-19.html"):
        series = only(changed(tmp_path, name, lambda text: text[: text.index("physical read total multi") + 25]))
        rates = series.intervals[0].rates
        assert (rates.reads, rates.writes, rates.read_bytes) == (HOUR.reads, HOUR.writes, HOUR.read_bytes)
        # The IO Profile has one decimal; the exact totals are in what is cut off.
        assert rates.write_bytes == pytest.approx(1.9 * MIB, rel=0.02)
        assert series.intervals[0].flushes is None
        assert any("cut off" in remark for remark in series.remarks)


def test_a_number_in_which_the_file_is_cut_is_not_read(tmp_path: Path) -> None:
    for name in ("awr-11.2.txt", "awr-10.2.html"):
        path = changed(tmp_path, name, lambda text: text[: text.index("720,000") + 3])
        rates = only(path).intervals[0].rates
        assert rates == Rates(reads=500.0, read_bytes=6.25 * MIB)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("WORKLOAD REPOSITORY COMPARE PERIOD REPORT\n\nSnapshot Set\n", "compare periods"),
        ("<html><head><title>AWR Compare Period Report for DB: X</title></head><body></body>", "compare periods"),
        ("ASH Report For SHOP/shop1\n\nDB Name\n", "ASH report"),
        ("          ADDM Report for Task 'TASK_12'\n          ----\n", "ADDM report"),
        ("<html><title>ASH Report - From 10-Jun</title><body><h1>ASH Report For SHOP/shop</h1>", "ASH report"),
        ("WORKLOAD REPOSITORY SQL Report\n\nSnapshot Period Summary\n", "one SQL statement"),
        ("STATSPACK SQL report for Old Hash Value: 1\n", "one SQL statement"),
    ],
)
def test_other_reports_of_oracle_are_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "other"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=why):
        read(path)


def test_a_restart_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.txt", lambda text: text.replace("02-Jun-26 08:22", "10-Jun-26 10:30"))
    with pytest.raises(Refused, match="line 9: the instance was started 2026-06-10 10:30:00, after"):
        read(path)
    error = tmp_path / "error.txt"
    error.write_text(
        "WORKLOAD REPOSITORY report for\nERROR at line 1:\n"
        "ORA-20200: The instance was shutdown between snapshots 21 and 68\n",
        encoding="utf-8",
    )
    with pytest.raises(Refused, match="line 3: Oracle made no report"):
        read(error)


def test_an_interval_without_length_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.html", lambda text: text.replace(" 60.00 (mins)", " 0.00 (mins)"))
    with pytest.raises(Refused, match="of one moment"):
        read(path)


def test_elapsed_that_contradicts_the_times_is_refused_and_a_change_of_the_clock_is_said(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.html", lambda text: text.replace(" 60.00 (mins)", " 600.00 (mins)"))
    with pytest.raises(Refused, match=r"Elapsed says 600\.00 min, but its snapshots are 60\.00 min apart"):
        read(path)
    path = changed(tmp_path, "awr-19.html", lambda text: text.replace("10-Jun-26 11:00:07", "10-Jun-26 12:00:07"))
    series = only(path)
    assert series.intervals[0].seconds == 3600.0
    assert any("change of the clock" in remark for remark in series.remarks)


def test_the_length_is_known_where_times_are_missing(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.txt", lambda text: text.replace("Begin Snap:", "Begin:"))
    assert only(path).intervals[0].start == datetime(2026, 6, 10, 10, 0, 7, tzinfo=UTC).timestamp()
    path = changed(tmp_path, "awr-19.txt", lambda text: text.replace("Elapsed:", "Gone:"))
    series = only(path)
    assert (series.untimed, series.intervals[0].seconds) == (False, 3600.0)
    path = changed(tmp_path, "awr-19.txt", lambda text: re.sub(r"(Begin|End) Snap:", "Snap:", text))
    series = only(path)
    assert (series.untimed, series.intervals[0].seconds) == (True, 3600.0)


def test_times_are_of_the_zone_that_is_given() -> None:
    there = Reading(zone=timezone(timedelta(hours=9)))
    (series,) = read(GOLDEN / "awr-19.txt", there).series
    assert series.intervals[0].start == datetime(2026, 6, 10, 1, 0, 7, tzinfo=UTC).timestamp()


def test_two_reports_in_a_file_are_two_series_and_a_twin_counts_once(tmp_path: Path) -> None:
    for name in ("awr-19.txt", "awr-19.html", "statspack-19.txt"):
        first = (GOLDEN / name).read_text(encoding="utf-8")
        path = tmp_path / name
        path.write_text(first + first.replace("10-Jun-26", "11-Jun-26"), encoding="utf-8")
        series = read(path).series
        assert [each.intervals[0].rates for each in series] == [HOUR, HOUR]
        assert series[1].intervals[0].start - series[0].intervals[0].start == 86400.0
        path.write_text(first + first, encoding="utf-8")
        found = read(path)
        assert len(found.series) == 1
        assert any("is there twice" in remark for remark in found.remarks)


def test_a_total_that_its_own_rate_contradicts_is_left_out_by_name_and_line(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-11.2.txt", lambda text: text.replace(" 1,800,000 ", " 1,800     "))
    found = read(path)
    assert found.series[0].intervals[0].rates.reads is None
    assert found.series[0].intervals[0].rates.writes == 200.0
    assert "'physical read total io requests': 1,800 in 3,600 s is not 500.00 a second" in found.bad[0].text
    assert "physical read total IO" in path.read_text(encoding="utf-8").split("\n")[found.bad[0].line - 1]


def test_a_number_too_wide_for_its_column_is_taken_from_the_rate(tmp_path: Path) -> None:
    path = changed(tmp_path, "statspack-19.txt", lambda text: text.replace("23,592,960,000", "##############"))
    found = read(path)
    assert found.series[0].intervals[0].rates.read_bytes == 6.25 * MIB
    assert any("too wide" in bad.text for bad in found.bad)


def test_a_row_with_a_torn_total_does_not_count_at_all(tmp_path: Path) -> None:
    found = read(changed(tmp_path, "awr-11.2.txt", lambda text: text.replace(" 1,800,000 ", " 1,8#0,000 ")))
    assert found.series[0].intervals[0].rates.reads is None
    assert [bad.text for bad in found.bad] == ["'physical read total IO requests': '1,8#0,000' is no number"]


def test_a_torn_time_of_the_start_does_not_lose_the_report(tmp_path: Path) -> None:
    path = changed(tmp_path, "awr-19.txt", lambda text: text.replace("02-Jun-26 08:22", "02-J#n-26 08:22"))
    assert only(path).intervals[0].rates == HOUR


def test_a_profile_whose_sum_is_wrong_is_not_used(tmp_path: Path) -> None:
    path = changed(
        tmp_path, "awr-19.txt",
        lambda text: text.replace("             700.0           500.0", "             700.0            50.0"),
    )  # fmt: skip
    found = read(path)
    assert found.series[0].intervals[0].rates == HOUR
    assert any("do not make 700.0" in bad.text for bad in found.bad)


def test_a_statistic_that_is_there_twice_with_two_values_is_not_used(tmp_path: Path) -> None:
    row = "redo writes                                 162,000           45.0           0.9\n"
    other = "redo writes                                 324,000           90.0           1.8\n"
    found = read(changed(tmp_path, "awr-11.2.txt", lambda text: text.replace(row, row + other)))
    assert found.series[0].intervals[0].flushes is None
    assert any("twice" in bad.text for bad in found.bad)
    assert only(
        changed(tmp_path, "awr-11.2.txt", lambda text: text.replace(row, row * 2))
    ).intervals[0].flushes == 45.0  # fmt: skip


def test_two_formats_of_numbers_in_one_report_are_refused_with_their_lines(tmp_path: Path) -> None:
    german = (GOLDEN / "awr-11.2-de.txt").read_text(encoding="utf-8")
    english = (GOLDEN / "awr-11.2.txt").read_text(encoding="utf-8")
    at = "Instance Activity Stats"
    path = tmp_path / "mixed.txt"
    path.write_text(english[: english.index(at)] + german[german.index(at) :], encoding="utf-8")
    with pytest.raises(Refused, match=r"line \d+: '.*' and line \d+: '.*' are numbers of two languages"):
        read(path)


@pytest.mark.parametrize(
    ("sure", "text", "value"),
    [
        ("727.1", "1,234", 1234.0), ("727,1", "1.234", 1234.0), ("727,1", "1.234.567,8", 1234567.8),
        ("727,1", "1 234,5", 1234.5), ("727,1", "1\u202f234\u202f567,5", 1234567.5), ("727.1", "1'234.5", 1234.5),
        ("727.1", ".026", 0.026), ("727.1", "1.234", 1.234), ("727,1", "1,234", 1.234), ("727.1", "1,23", None),
        ("727.1", "1,2345", None), ("727.1", "-5.0", None), ("727.1", "1.4E+03", None), ("727.1", "####", None),
        ("727.1", "", None), ("727.1", ".", None), ("727.1", "٣", None), ("727.1", "N/A", None),
    ],
)  # fmt: skip
def test_numbers_follow_the_format_of_the_whole_report(sure: str, text: str, value: float | None) -> None:
    assert Numbers([(1, sure)]).read(text) == value


def test_a_report_whose_numbers_decide_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="line 7: '1,234' may be thousands or a fraction"):
        Numbers([(7, "1,234"), (8, "17")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("132132  23-Jan-22 10:00:39", (2022, 1, 23, 10, 0, 39)), ("10-MRZ-16 10:00:04", (2016, 3, 10, 10, 0, 4)),
        ("10-M\u00c4R-16 10:00", (2016, 3, 10, 10, 0, 0)), ("01-F\u00c9VR.-22 08:00", (2022, 2, 1, 8, 0, 0)),
        ("01-MARS -22 08:00", (2022, 3, 1, 8, 0, 0)), ("05-AO\ufffdT  -22 08:00", (2022, 8, 5, 8, 0, 0)),
        ("10-ENE-24 01:02:03", (2024, 1, 10, 1, 2, 3)), ("10-SET-2024 01:02:03", (2024, 9, 10, 1, 2, 3)),
        ("23-12月-22 10:00:39", (2022, 12, 23, 10, 0, 39)), ("23-1月 -22 10:00:39", (2022, 1, 23, 10, 0, 39)),
        ("23-1\ufffd\ufffd-22 10:00:39", (2022, 1, 23, 10, 0, 39)),
        ("10-12-13 09:34:16", (2013, 12, 10, 9, 34, 16)),
    ],
)  # fmt: skip
def test_dates_are_read_in_many_languages(text: str, expected: tuple[int, ...]) -> None:
    assert moment(ReportRow(1, ()), text) == datetime(*expected)  # type: ignore[arg-type]


def test_an_unknown_month_or_an_impossible_day_is_refused_with_its_line() -> None:
    assert month("XYZ") is None
    with pytest.raises(Refused, match="line 5: 'XYZ' is no month"):
        moment(ReportRow(5, ()), "10-XYZ-22 10:00:00")
    with pytest.raises(Refused, match="line 6: '31-Feb-22 10:00:00' is no time"):
        moment(ReportRow(6, ()), "31-Feb-22 10:00:00")
    assert moment(ReportRow(7, ()), "nothing") is None


def test_other_files_are_not_taken_for_reports() -> None:
    for text in ("", "<html><body>hello</body></html>", "WORKLOAD", "Device r/s w/s\n", "STATSPACK is a tool"):
        assert not [name for name, kind in KINDS.items() if kind.fits(text)]


# Where a number is changed without a trace, no reader can know; these changes tear lines and marks.
def _cut(text: str, at: random.Random) -> str:
    return text[: at.randrange(len(text))]


def _crlf(text: str, at: random.Random) -> str:
    return text.replace("\n", "\r\n")


def _commas(text: str, at: random.Random) -> str:
    return re.sub(r"\d[\d.,]*\d", lambda match: match[0].translate(str.maketrans(".,", ",.")), text)


def _blanks(text: str, at: random.Random) -> str:
    return re.sub(r"(?<=\d),(?=\d{3})", "\u00a0", text)


def _lines(text: str, at: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(at.randrange(1, 12)):
        one, two = at.randrange(len(lines)), at.randrange(len(lines))
        match at.randrange(3):
            case 0:
                lines.insert(one, lines[two])
            case 1:
                lines[one], lines[two] = lines[two], lines[one]
            case _:
                lines.pop(one)
                lines.append("")
    return "\n".join(lines)


def _letters(text: str, at: random.Random) -> str:
    found = list(text)
    for _ in range(at.randrange(1, 40)):
        found[at.randrange(len(found))] = at.choice("\0<>-~:.,#\t9 \u00e4\ufffd\u0663'\"&")
    return "".join(found)


CHANGES = (_cut, _crlf, _commas, _blanks, _lines, _letters)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(path.name for path in GOLDEN.iterdir())),
    changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_a_damaged_report_is_read_or_refused_but_never_a_thousand_times_off(
    name: str, changes: list[Callable[[str, random.Random], str]], seed: int
) -> None:
    at = random.Random(seed)
    text = (GOLDEN / name).read_text(encoding="utf-8")
    for change in changes:
        text = change(text, at) or "x"
    *lines, rest = text.replace("\r\n", "\n").split("\n")
    whole_text = Text(Path(name), tuple(lines), rest)
    for kind in KINDS:
        KINDS[kind].fits(text)
        try:
            found = Taken(kind, whole_text)
        except Refused as refused:
            assert str(refused)
            continue
        for series in found.series:
            (interval,) = series.intervals
            assert interval.seconds > 0
            if _letters not in changes:
                for field in ("reads", "writes", "read_bytes", "write_bytes"):
                    value = getattr(interval.rates, field)
                    assert value is None or value <= 1.1 * getattr(HOUR, field)


def paged(text: str, lines: int) -> str:
    """As SQL*Plus prints ``select output from table(awr_report_text(..))`` with so many lines on a page."""
    rows = text.splitlines()
    heads = ["", "OUTPUT", "-" * 80]
    pages = [rows[at : at + lines] for at in range(0, len(rows), lines)]
    return "\n".join(row for page in pages for row in (*heads, *page)) + "\n"


@pytest.mark.parametrize("lines", [11, 14, 24, 60])
@pytest.mark.parametrize("name", ["awr-19.txt", "awr-11.2.txt"])
def test_page_heads_cut_no_table(tmp_path: Path, name: str, lines: int) -> None:
    """Wherever they fall: in a head, in a table, between its ruler and its rows."""
    path = changed(tmp_path, name, lambda text: paged(text, lines))
    (plain,), (cut,) = only(GOLDEN / name).intervals, only(path).intervals
    for field in ("rates", "flushes", "transactions", "read_latency", "write_latency"):
        assert getattr(cut, field) == getattr(plain, field), field


def test_latency_is_that_of_the_events_that_nearly_all_waits_are_of(tmp_path: Path) -> None:
    """Waits for single blocks were 100 of 785,100, and their 0.5 ms stood for all."""

    def add(text: str) -> str:
        (row,) = (line for line in text.splitlines() if line.startswith("db file sequential read      1,5"))
        direct = row.replace("db file sequential read", "direct path read       ")
        direct = direct.replace("1,500,000", "9,000,000").replace(" 1,875", "18,000").replace("1.25ms", "2.00ms")
        return text.replace(f"{row}\n", f"{direct}\n{row}\n", 1)

    (plain,) = only(GOLDEN / "awr-19.txt").intervals
    (interval,) = only(changed(tmp_path, "awr-19.txt", add)).intervals
    assert plain.read_latency == pytest.approx(0.00125)
    assert interval.read_latency is not None and 0.0018 < interval.read_latency < 0.002
