"""Rates and means of logs that leave something out: a stall, a sample, a second without any I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.imports import Options, minimal
from blocklab.report import render
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.values import Row
from blocklab.store.folder import StudyFolder
from tests.unit.golden import FOLDER
from tests.unit.import_checks import take
from tests.unit.import_samples import SUMMARY

BEGAN = 1_597_113_422


def imported(folder: Path, files: Mapping[str, str]) -> tuple[Analysis, dict[str, list[str]]]:
    """The analysis of one stack with these files, its page written, and what is said of each."""
    stack = folder / "local"
    for name, text in files.items():
        (stack / name).parent.mkdir(parents=True, exist_ok=True)
        (stack / name).write_text(text)
    done = take(minimal(["local"]), None, {"local": [str(stack)]}, folder / "runs", Options())
    found = StudyFolder(done.folder)
    render(found)
    return analyse(found), {Path(each.file).name: list(each.remarks) for each in done.files["local"]}


def row(analysis: Analysis, metric: str, workload: str = "pgbench", phase: str = "") -> Row:
    """The one value of that name."""
    found = analysis.find("local", workload, metric, phase)
    assert found is not None, metric
    return found


def series(analysis: Analysis, metric: str, workload: str = "pgbench") -> list[float]:
    """Its values by time."""
    return [value for _, value in points(analysis, metric, workload)]


def points(analysis: Analysis, metric: str, workload: str = "pgbench") -> list[tuple[float, float]]:
    """Its times and values."""
    series = analysis.measured["local", workload].series
    return [each for (_, _, name, _), every in series.items() if name == metric for each in every]


# -- pgbench -----------------------------------------------------------------------------------------------------


def transactions(seconds: range, rate: int = 100, clients: int = 4, stall: range = range(0)) -> list[str]:
    """A log of that many TPS, without those of the seconds in ``stall``."""
    rows: list[str] = []
    for second in seconds:
        for at in range(0 if second in stall else rate):
            number = len(rows)
            rows.append(
                f"{number % clients} {number // clients} {1000 + at} 0 {BEGAN + second} {at * 1_000_000 // rate}\n"
            )
    return rows


def test_a_log_with_a_part_of_the_transactions_has_no_rate(tmp_path: Path) -> None:
    """``--sampling-rate``: every tenth of a client's numbers."""
    rows = transactions(range(60), rate=1000)
    sampled = [each for at, each in enumerate(rows) if at * 7919 % 10 == 3]
    analysis, said = imported(tmp_path / "one", {"tx.log": "".join(sampled)})
    assert analysis.find("local", "pgbench", "tps", "") is None and series(analysis, "tps") == []
    assert analysis.find("local", "pgbench", "transactions", "") is None
    assert 0.001 < row(analysis, "latency.p50").value < 0.002
    (told,) = [text for text in said["tx.log"] if "--sampling-rate" in text]
    assert "of which it has 6,000" in told and "no TPS and no time series" in told
    # What pgbench itself says of the run still counts, but has no interval.
    files = {"tx.log": "".join(sampled), "summary.txt": SUMMARY}
    analysis, _ = imported(tmp_path / "two", files)
    assert row(analysis, "tps").value == 1182.956212 and row(analysis, "tps").half is None
    analysis, said = imported(tmp_path / "all", {"tx.log": "".join(rows)})
    assert row(analysis, "tps").value == pytest.approx(1000, rel=0.001)
    assert not any("clients counted" in text for text in said["tx.log"])


def test_a_log_that_begins_late_or_lacks_what_failed_is_whole(tmp_path: Path) -> None:
    rows = transactions(range(40))[400:]
    for at, why in ((50, "skipped"), (51, "failed"), (52, "serialization"), (53, "deadlock")):
        fields = rows[at].split(" ")
        rows[at] = " ".join([*fields[:2], why, *fields[3:]])
    analysis, said = imported(tmp_path, {"tx.log": "".join(rows)})
    assert row(analysis, "tps").value == pytest.approx(100, rel=0.01)
    assert not any("clients counted" in text for text in said["tx.log"])
    assert row(analysis, "failed").value == 3 and row(analysis, "skipped").value == 1


def test_a_damaged_row_is_no_part_that_is_missing(tmp_path: Path) -> None:
    rows = transactions(range(40))
    rows[100:130] = ["damage\n"] * 30
    analysis, said = imported(tmp_path, {"tx.log": "".join(rows)})
    assert row(analysis, "tps").value == pytest.approx(100, rel=0.02)
    assert not any("clients counted" in text for text in said["tx.log"])


@pytest.mark.parametrize("seconds", [80, 25], ids=["by the second", "in parts"])
def test_a_stall_is_in_the_course_and_leaves_no_interval(tmp_path: Path, seconds: int) -> None:
    stall = range(seconds // 4, seconds // 2)
    analysis, _ = imported(tmp_path, {"tx.log": "".join(transactions(range(seconds), stall=stall))})
    found = row(analysis, "tps")
    assert found.value == pytest.approx(75, rel=0.05)
    assert found.half is None
    zeros = sum(value == 0 for value in series(analysis, "tps"))
    assert zeros / len(series(analysis, "tps")) == pytest.approx(0.25, abs=0.03)
    # No transaction, no latency.
    assert min(series(analysis, "latency.mean")) > 0


def test_a_log_whose_times_jump_is_left_out(tmp_path: Path) -> None:
    rows = transactions(range(40))
    rows[-1] = rows[-1].replace(str(BEGAN + 39), str(BEGAN + 9_000_000))
    with pytest.raises(StudyError, match=r"jump by 8,999,961 s after .*; cut it into a file for each run"):
        imported(tmp_path, {"tx.log": "".join(rows)})


def test_two_runs_at_one_time_are_not_threads_of_one(tmp_path: Path) -> None:
    logs = {"one.log": "".join(transactions(range(30))), "two.log": "".join(transactions(range(30), rate=50))}
    with pytest.raises(StudyError, match=r"two runs of pgbench at one time: both have a client 0") as caught:
        imported(tmp_path, logs)
    assert "a folder of its own" in caught.value.hint


def test_a_course_without_times_begins_where_the_log_does(tmp_path: Path) -> None:
    lines = [f"progress: {at}.0 s, {100 + at % 2}.0 tps, lat 1.0 ms stddev 0.1, 0 failed\n" for at in range(1, 41)]
    files = {"tx.log": "".join(transactions(range(40))), "out.txt": "".join(lines) + SUMMARY}
    analysis, _ = imported(tmp_path, files)
    assert series(analysis, "tps") == [101, 100] * 20
    assert points(analysis, "tps")[0][0] == pytest.approx(BEGAN + 1, abs=0.01)
    alone, _ = imported(tmp_path / "alone", {"out.txt": "".join(lines) + SUMMARY})
    assert series(alone, "tps") == [101, 100] * 20 and row(alone, "tps").half is not None


# -- fio ---------------------------------------------------------------------------------------------------------


def averaged(*values: int) -> str:
    """A log of one clone that writes, of one row a second; a second of 0 has no row."""
    return "".join(f"{1000 * at}, {value}, 1, 0, 0\n" for at, value in enumerate(values, 1) if value)


def test_seconds_without_any_io_count(tmp_path: Path) -> None:
    values = [1000 + at % 5 for at in range(60)]
    iops = [*values[:30], *[0] * 20, *values[30:]]
    logs = {"j_iops.1.log": averaged(*iops), "j_bw.1.log": averaged(*(4 * value for value in iops))}
    analysis, _ = imported(tmp_path, logs)
    found = row(analysis, "write.iops", "fio", "j")
    assert found.value == pytest.approx(1002 * 60 / 80) and found.half is None
    assert series(analysis, "write.iops", "fio").count(0) == 20
    assert row(analysis, "write.bandwidth", "fio", "j").value == pytest.approx(1002 * 4096 * 60 / 80)


def test_seconds_without_any_io_count_where_each_io_is_logged(tmp_path: Path) -> None:
    times = [10 * at for at in range(8000) if not 3000 <= at < 5000]
    log = "".join(f"{at}, 1000000, 1, 4096, 0, 0\n" for at in times)
    analysis, _ = imported(tmp_path, {"j_lat.1.log": log})
    found = row(analysis, "write.iops", "fio", "j")
    assert found.value == pytest.approx(75, rel=0.02) and found.half is None
    assert series(analysis, "write.iops", "fio").count(0) == 20
    assert min(series(analysis, "write.latency.mean", "fio")) > 0


FAST, SLOW = 1_000_000, 100_000_000


def test_a_mean_latency_counts_each_io_alike(tmp_path: Path) -> None:
    lat, iops = averaged(*[FAST] * 30, *[SLOW] * 30), averaged(*[1000] * 30, *[10] * 30)
    true = (30 * 1000 * 1e-3 + 30 * 10 * 0.1) / (30 * 1010)
    logs = {
        "j_lat.1.log": lat,
        "j_iops.1.log": iops,
        "j_clat.1.log": averaged(*[FAST // 2] * 30, *[SLOW // 2] * 30),
    }
    analysis, said = imported(tmp_path / "both", logs)
    assert row(analysis, "write.latency.mean", "fio", "j").value == pytest.approx(true)
    assert row(analysis, "write.clat.mean", "fio", "j").value == pytest.approx(true / 2)
    assert not any("but no mean" in text for each in said.values() for text in each)
    analysis, said = imported(tmp_path / "alone", {"j_lat.1.log": lat})
    assert analysis.find("local", "fio", "write.latency.mean", "j") is None
    assert series(analysis, "write.latency.mean", "fio") == [1e-3] * 30 + [0.1] * 30
    assert any("_iops.log or fio's JSON" in text for text in said["j_lat.1.log"])


def test_a_mean_latency_is_fios_own_where_that_is_known(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    document["jobs"] = document["jobs"][:1]
    name = document["jobs"][0]["jobname"]
    files = {"fio.json": json.dumps(document, indent=1), f"{name}_lat.1.log": averaged(*[FAST] * 30)}
    analysis, said = imported(tmp_path, files)
    mean = document["jobs"][0]["write"]["lat_ns"]["mean"] / 1e9
    assert row(analysis, "write.latency.mean", "fio", name).value == pytest.approx(mean)
    assert not any("but no mean" in text for text in said[f"{name}_lat.1.log"])


# -- what was watched --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 10])
def test_a_report_that_reaches_before_the_load_is_none_of_it(tmp_path: Path, every: int) -> None:
    """The device does 1,000 IOPS while the workload runs, and nothing before and after it."""
    busy = range(25, 70)
    reports = []
    for end in range(every, 100, every):
        rate = 1000 * sum(at in busy for at in range(end - every, end)) / every
        at = BEGAN - 25 + end
        zeros = "0.00 " * 5
        reports.append(f"{at} sda 0.00 {rate:.2f} 0.00 {4 * rate:.2f} {zeros}0.50 0.20 0.00 4.00 0.20 5.00\n")
    files = {"tx.log": "".join(transactions(range(45))), "iostat.txt": "".join(reports)}
    analysis, _ = imported(tmp_path, files)
    assert row(analysis, "write.iops").value == 1000


def test_a_link_that_leads_to_nothing_is_named(tmp_path: Path) -> None:
    stack = tmp_path / "local"
    stack.mkdir()
    (stack / "gone.log").symlink_to(stack / "nowhere.log")
    (stack / "folder").symlink_to(tmp_path)
    _, said = imported(tmp_path, {"tx.log": "".join(transactions(range(40)))})
    assert said["gone.log"] == ["left out: cannot be read: No such file or directory"] and len(said) == 2


def test_a_metric_that_seldom_has_a_point_is_of_the_same_steps_as_the_others(tmp_path: Path) -> None:
    """There is no await in a second without a request."""
    reports = []
    for at in range(45):
        reads = 10.0 if at in (0, 15, 30) else 0.0
        wait = 1.0 if reads else 0.0
        rest = f"{reads * 4:.2f} 800.00 {'0.00 ' * 4}{wait:.2f} 0.20 0.00 4.00 4.00 0.20 5.00"
        reports.append(f"{BEGAN + 1 + at} sda {reads:.2f} 200.00 {rest}\n")
    files = {"tx.log": "".join(transactions(range(45))), "iostat.txt": "".join(reports)}
    analysis, _ = imported(tmp_path, files)
    assert row(analysis, "read.await").value == pytest.approx(1e-3)
