"""Long logs: values against a plain computation, the percentiles' bound, and everything that can be wrong."""

from __future__ import annotations

import math
import re
import statistics
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.formats.load.fio.single import fio_log
from blocklab.formats.load.logs import reader as reading
from blocklab.formats.load.logs.summary import (
    RELATIVE_ERROR,
    BadLine,
    Latency,
    LogSummary,
    Numbered,
    Second,
    every_second,
)
from blocklab.formats.load.pgbench.single import pgbench_log

RANKS = {"p50": 5000, "p95": 9500, "p99": 9900, "p99.9": 9990, "p99.99": 9999}
WAYS = ("read", "write", "trim")
GOOD = "5, 1500, 0, 4096, 0, 0\n"
DONE = "0 1 9989 0 1795232994 315096\n"


def check(found: Latency, rows: list[tuple[int, int]], unit: float) -> None:
    """``rows``: second and value of each row, in the log's unit."""
    values = sorted(value for _, value in rows)
    assert found.count == len(values)
    assert found.mean == pytest.approx(statistics.fmean(values) / unit, rel=1e-9)
    spread = statistics.stdev(values) / unit if len(values) > 1 else 0.0
    assert found.stddev == pytest.approx(spread, rel=1e-6, abs=1e-9 * max(values) / unit)
    assert (found.min, found.max) == pytest.approx((values[0] / unit, values[-1] / unit), rel=1e-12)
    assert list(found.percentiles) == list(RANKS)
    for name, part in RANKS.items():
        exact = values[math.ceil(len(values) * part / 10_000 - 1e-12) - 1]
        bound = 0.0 if exact < 2048 else exact * RELATIVE_ERROR / unit
        assert abs(found.percentiles[name] - exact / unit) <= bound + 1e-12 * exact / unit, name
    by_second: dict[int, list[int]] = {}
    for second, value in rows:
        by_second.setdefault(second, []).append(value)
    assert [(each.time, each.count) for each in found.series] == [
        (second, len(by_second[second])) for second in sorted(by_second)
    ]
    for each in found.series:
        those = by_second[each.time]
        assert each.mean == pytest.approx(statistics.fmean(those) / unit, rel=1e-9)
        assert each.max == pytest.approx(max(those) / unit, rel=1e-12)


def written(folder: Path, text: str | bytes, name: str = "lat.log") -> Path:
    """A log file."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


VALUES = st.one_of(st.integers(0, 5000), st.integers(0, 10**8), st.integers(0, 10**15))
TIMES = st.one_of(st.integers(0, 5000), st.integers(1_795_232_906_000, 1_795_232_999_999), st.integers(0, 10**17))
FIO_ROWS = st.lists(st.tuples(TIMES, VALUES, st.integers(0, 2)), min_size=1, max_size=60)
TAILS = st.sampled_from(["", ", 0", ", 16384, 1", ", 123456789012, 0x4001", ", 0, 0, 7"])


@given(FIO_ROWS, TAILS)
@example([(0, 0, 0)], "")
@example([(999, 10**18 - 1, 2), (1000, 1, 2)], ", 0")
@settings(max_examples=300, deadline=None)
def test_a_fio_log_is_what_a_plain_computation_gives(rows: list[tuple[int, int, int]], tail: str) -> None:
    text = "".join(f"{time}, {value}, {way}, 4096{tail}\n" for time, value, way in rows)
    with tempfile.TemporaryDirectory() as folder:
        found = fio_log([written(Path(folder), text)])
    assert (found.bad, found.first_bad, found.remarks, found.left_out) == (0, None, (), {})
    assert list(found.latency) == [name for way, name in enumerate(WAYS) if way in {row[2] for row in rows}]
    for way, name in enumerate(WAYS):
        if name in found.latency:
            check(found.latency[name], [(time // 1000, value) for time, value, each in rows if each == way], 1e9)


ENDS = st.one_of(st.integers(1_795_232_994, 1_795_233_100), st.integers(10**9, 10**14))


@given(st.lists(st.tuples(ENDS, VALUES, st.integers(0, 999_999)), min_size=1, max_size=60), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_pgbench_log_is_what_a_plain_computation_gives(rows: list[tuple[int, int, int]], lag: bool) -> None:
    lines = [
        f"{number % 7} {number} {value} 0 {second} {micro}{f' {micro}' if lag else ''}\n"
        for number, (second, value, micro) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = pgbench_log([written(Path(folder), "".join(lines))])
    assert (found.bad, list(found.latency)) == (0, ["transaction"])
    check(found.latency["transaction"], [(second, value) for second, value, _ in rows], 1e6)


def test_blocks_and_files_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 257)
    rows = [(number * 37, (number * number * 7919) % 3_000_017, number % 3) for number in range(3000)]
    lines = [f"{time}, {value}, {way}, 4096, 0, 0\n" for time, value, way in rows]
    lines[1500] = "rubbish\n"
    parts = ["".join(lines[:1000]), "".join(lines[1000:])]
    found = fio_log([written(tmp_path, part, f"{number}.log") for number, part in enumerate(parts)])
    assert found.bad == 1 and found.first_bad == BadLine(str(tmp_path / "1.log"), 501, "rubbish")
    del rows[1500]
    for way, name in enumerate(WAYS):
        check(found.latency[name], [(time // 1000, value) for time, value, each in rows if each == way], 1e9)


def test_the_percentiles_are_within_the_bound_over_the_whole_range(tmp_path: Path) -> None:
    values = sorted({round(1.0007**power) for power in range(0, 50_000, 3)} | set(range(4100)))
    worst = 0.0
    for value in values[:: len(values) // 300]:
        # All ranks are that value; the two others keep it from being the least or the greatest.
        text = "0, 0, 0, 1\n" + f"0, {value}, 0, 1\n" * 50_000 + f"0, {10**18 - 1}, 0, 1\n"
        latency = fio_log([written(tmp_path, text)]).latency["read"]
        for given_back in latency.percentiles.values():
            off = abs(given_back * 1e9 - value) / max(value, 1)
            assert off <= (RELATIVE_ERROR if value >= 2048 else 1e-12)
            worst = max(worst, off)
    assert worst > RELATIVE_ERROR / 2, "the bound is far from what it bounds"


@pytest.mark.parametrize(
    "bad",
    [
        "5, 15", "5, 1500, 0, 40", "5, 1500, 3, 4096, 0, 0", "5, -1500, 0, 4096, 0, 0", "", " ",
        "5, 1500,7, 0, 4096, 0, 0", "5,5, 1500, 0, 4096, 0, 0", "5, 1500, 0, 4096, 0, 0, 7",
        "x, 1500, 0, 4096, 0, 0",
        "5,1500,0,4096,0,0", "5, , 0, 4096, 0, 0", "5,, 1500 0, 4096, 0, 0", "5,1500 , 0, 4096, 0, 0",
        ", 1500, 0, 4096, 0, 0", "5, 1500, 0, 4096, 0, ", "5, 1500.5, 0, 4096, 0, 0", "5, 1500, 00, 4096, 0, 0",
        "5, " + "9" * 19 + ", 0, 4096, 0, 0", "5, 1500, 0, 4096, 0, 0\0", "5 ,1500 ,0 ,4096 ,0 ,0",
        "5, 15\r00, 0, 4096, 0, 0", "time, value", "5, 1500, 0, 4096, 0,  0",
    ],
)  # fmt: skip
def test_a_bad_line_of_fio_is_named_and_the_good_ones_stay(tmp_path: Path, bad: str) -> None:
    path = written(tmp_path, GOOD * 3 + bad + "\n" + GOOD * 2)
    found = fio_log([path])
    assert (found.bad, found.first_bad) == (1, BadLine(str(path), 4, bad))
    assert found.latency["read"].count == 5 and found.latency["read"].max == pytest.approx(1.5e-6)


@pytest.mark.parametrize(
    "bad",
    [
        "0 1 9989", "0 1 9989 0 1795232994", "0 1 9989 0 1795232994 1315096", "0 1 -9989 0 1795232994 315096",
        "0 1 9989,5 0 1795232994 315096", "1795232994 5601 1542744 483552416 61 2573", "0 1 gone 0 1795232994 3",
        "0 1  9989 0 1795232994 315096", " 0 1 9989 0 1795232994 315096", "0 1 9989 0 1795232994 315096 ",
        "0 1 9989 0 1795232994 315096 12", "0 1 9989 0 0795232994 315096",
    ],
)  # fmt: skip
def test_a_bad_line_of_pgbench_is_named_and_the_good_ones_stay(tmp_path: Path, bad: str) -> None:
    path = written(tmp_path, DONE * 3 + bad + "\n" + DONE * 2)
    found = pgbench_log([path])
    assert (found.bad, found.first_bad) == (1, BadLine(str(path), 4, bad))
    assert found.latency["transaction"].count == 5


def test_every_way_to_spoil_a_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """The fast way takes exactly what the pattern of a row allows, and reads the same out of it."""
    for byte in range(len(GOOD) - 1):
        for other in b"0a ,\n\r-.\x00\xff":
            line = bytearray(GOOD.encode())
            line[byte] = other
            found = fio_log([written(tmp_path, GOOD.encode() * 3 + bytes(line) + GOOD.encode() * 3)])
            # A newline makes two lines of one.
            good = [
                match
                for each in bytes(line)[:-1].split(b"\n")
                if (match := re.fullmatch(rb"(\d+), (\d+), ([012]), \d+, \d+, (?:\d+|0x[0-9a-f]+)", each))
            ]
            assert sum(latency.count for latency in found.latency.values()) == 6 + len(good), line
            assert found.bad == bytes(line).count(b"\n") - len(good), line


def test_a_last_line_without_its_end_is_counted_and_not_used(tmp_path: Path) -> None:
    for cut in range(1, len(GOOD)):
        path = written(tmp_path, GOOD * 3 + GOOD[:cut])
        found = fio_log([path])
        assert (found.bad, found.first_bad) == (1, BadLine(str(path), 4, GOOD[:cut], True))
        assert found.latency["read"].count == 3
    found = pgbench_log([path := written(tmp_path, DONE[:-3])])
    assert (found.bad, found.first_bad, found.latency) == (1, BadLine(str(path), 1, DONE[:-3], True), {})


def test_a_first_line_that_was_cut_does_not_make_the_others_bad(tmp_path: Path) -> None:
    found = fio_log([path := written(tmp_path, "5, 1500, 0, 40\n" + GOOD * 3)])
    assert (found.bad, found.first_bad) == (1, BadLine(str(path), 1, "5, 1500, 0, 40"))
    assert found.latency["read"].count == 3


def test_cr_lf_is_read_and_remarked_once(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + GOOD.replace("\n", "\r\n") * 100)
    found = fio_log([path])
    assert (found.bad, found.latency["read"].count) == (0, 101)
    assert found.remarks == (f"{path}: line 2: the line ends in CR and LF; read as if it were LF",)


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    for text, read in ((GOOD, fio_log), (DONE, pgbench_log)):
        for count in (1, 3):
            found = read([written(tmp_path, b"\xef\xbb\xbf" + text.encode() * count)])
            assert found.bad == 0 and sum(each.count for each in found.latency.values()) == count
    assert fio_log([path := written(tmp_path, b"\xef\xbb\xbf")]).remarks == (f"{path}: empty",)


def test_each_clients_numbers_are_kept(tmp_path: Path) -> None:
    rows = [f"{at % 3} {at // 3 + 7} 100 0 {1795232994 + at // 100} {at}\n" for at in range(900)]
    # The same transactions in another order, some of them without a latency.
    rows[30] = "0 17 skipped 0 1795232994 30\n"
    rows[899] = "2 306 serialization 0 1795233002 899\n"
    for order in (rows, rows[::-1], rows[450:] + rows[:450]):
        found = pgbench_log([written(tmp_path, "".join(order))])
        assert found.clients == {client: Numbered(7, 306, 300) for client in range(3)}
        assert (found.numbered, found.rows) == (900, 900) and sum(found.left_out.values()) == 2
    odd = [*rows, "99999999999 7 100 0 1795232995 1\n", "99999999999 8 100 0 1795232995 1\n"]
    found = pgbench_log([written(tmp_path, "".join(odd))])
    assert found.clients == {**dict.fromkeys(range(3), Numbered(7, 306, 300)), 99999999999: Numbered(7, 8, 2)}
    found = pgbench_log([written(tmp_path, "".join(rows[::10]))])
    assert (found.rows, found.numbered) == (90, 873)


def test_every_second_of_a_course_is_there() -> None:
    one, two = Second(10, 5, 0.1, 0.2), Second(13, 6, 0.1, 0.2)
    assert every_second("x", []) == [] and every_second("x", [one]) == [one]
    assert every_second("x", [one, two]) == [one, Second(11, 0, 0.0, 0.0), Second(12, 0, 0.0, 0.0), two]
    with pytest.raises(ParseError, match="jump by 999,990 s after 10: a damaged row, or two runs"):
        every_second("x", [one, Second(1_000_000, 1, 0.1, 0.1)])


def test_an_empty_file_is_remarked_and_no_file_is_an_error(tmp_path: Path) -> None:
    empty, good = written(tmp_path, ""), written(tmp_path, GOOD, "good.log")
    found = fio_log([empty, good])
    assert found.remarks == (f"{empty}: empty",) and found.latency["read"].count == 1
    assert fio_log([empty]) == LogSummary({}, {}, 0, None, (f"{empty}: empty",)) and fio_log([]).latency == {}
    with pytest.raises(ParseError, match=r"gone\.log cannot be read"):
        fio_log([tmp_path / "gone.log"])


def test_a_file_without_a_row_is_all_bad(tmp_path: Path) -> None:
    found = pgbench_log([written(tmp_path, b"\x89PNG\r\n\x1a\n" * 50)])
    assert (found.latency, found.bad) == ({}, 100)


def test_a_line_longer_than_a_block_is_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 256)
    for length in (255, 256, 257, 1000, 5000):
        for end in (b"\n" + GOOD.encode() * 20, b""):
            path = written(tmp_path, GOOD.encode() * 2 + b"\0" * length + end)
            found = fio_log([path])
            assert found.bad == 1 and found.first_bad is not None and found.first_bad.line == 3
            assert found.latency["read"].count == 2 + 20 * bool(end), length


def test_what_pgbench_did_not_do_is_left_out_by_name(tmp_path: Path) -> None:
    lines = ["3 0 skipped 0 1412881037 914578 5217\n", "3 1 failed 0 1412881037 914578 -3\n"]
    found = pgbench_log([written(tmp_path, (DONE[:-1] + " 12\n") * 4 + "".join(lines) * 2)])
    assert found.left_out == {"skipped": 2, "failed": 2} and found.bad == 0
    second = Second(1795232994, 4, 0.009989, 0.009989)
    assert found.latency["transaction"].series == (second,)


def test_what_is_held_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    import tracemalloc

    peaks = []
    for lines in (100_000, 800_000):
        path = written(
            tmp_path, "".join(f"{at % 9000}, {at * 7 % 10**7}, {at % 2}, 4096, 0\n" for at in range(lines))
        )
        tracemalloc.start()
        found = fio_log([path])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert sum(latency.count for latency in found.latency.values()) == lines
    assert peaks[1] < 1.2 * peaks[0] < 40e6
