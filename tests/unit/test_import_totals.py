"""A total that a tool counted beside the time series of the same: the total is the value, and what is known of the
time series alone has a name of its own. What contradicts itself, or was left out, is said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from blocklab.formats.found import Found
from blocklab.formats.text import Refused
from blocklab.imports import kinds, minimal
from blocklab.imports.importing import Options
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.findings import findings
from blocklab.stats.sentences import answer
from blocklab.store.folder import StudyFolder
from tests.unit.import_checks import take
from tests.unit.import_kinds import GOLDEN, every_kind
from tests.unit.import_series import WARM, sysbench

BEGUN = 1_600_000_000
POINT = (GOLDEN / "fio-plot/points/randread-1-1.json").read_text()


def analysed(folder: Path, files: Mapping[str, str], *stacks: str) -> Analysis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    names = stacks or ("local",)
    places = {name: [str(folder / name)] for name in names}
    return analyse(StudyFolder(take(minimal(list(names)), None, places, folder / "runs", Options()).folder))


def of_text(folder: Path, text: str, name: str = "x.txt") -> Found:
    (folder / name).write_text(text)
    return kinds.READERS.read(folder / name, kinds.READERS.kind_of(folder / name))


def values(found: Found) -> dict[str, float]:
    return {sample.metric: sample.value for sample in found.samples if sample.time is None}


def series(found: Found, metric: str) -> list[float]:
    return [sample.value for sample in found.samples if sample.metric == metric and sample.time is not None]


def fio(total: float, seconds: int = 120, **options: str) -> str:
    """fio's JSON of reads at that rate."""
    document = json.loads(POINT)
    job = document["jobs"][0]
    job["jobname"], document["timestamp_ms"] = "rd", 1000 * (BEGUN + seconds)
    job["job options"] = {**job["job options"], **options}
    ios = round(total * seconds)
    job["read"] |= {
        "iops": total, "total_ios": ios, "io_bytes": 4096 * ios, "runtime": 1000 * seconds,
        "bw_bytes": 4096 * total, "bw": 4 * total,
    }  # fmt: skip
    return json.dumps(document, indent=1)


def log(rates: Sequence[float]) -> str:
    return "".join(f"{1000 * (BEGUN + at)}, {rate:.0f}, 0, 0, 0\n" for at, rate in enumerate(rates, 1))


def test_fios_total_is_the_value_with_its_logs_beside_it(tmp_path: Path) -> None:
    total = sum(WARM) / len(WARM)
    analysis = analysed(tmp_path, {"local/fio.json": fio(total), "local/rd_iops.1.log": log(WARM)})
    found = {row.metric: row for row in analysis.rows if row.workload == "fio" and row.phase == "rd"}
    assert found["read.iops"].value == pytest.approx(total) and found["read.iops"].half is None
    # What goes with it is of the same time.
    assert found["read.ios"].value == pytest.approx(120 * found["read.iops"].value, rel=1e-4)
    assert found["read.bandwidth"].value == pytest.approx(4096 * found["read.iops"].value)
    steady = found["read.iops.steady"]
    assert steady.value == pytest.approx(1001, rel=0.001) and steady.half is not None and steady.own
    (said,) = [text for text in answer(findings(analysis)).caveats if "warm-up" in text]
    said = said.replace("\N{NO-BREAK SPACE}", " ")
    assert "most: local/fio rd" in said and "without the first 15 s" in said and "read.iops.steady" in said


def test_a_stack_without_a_warm_up_has_its_rate_beside_the_others_steady_part(tmp_path: Path) -> None:
    level = [900.0 + at % 3 for at in range(120)]
    analysis = analysed(
        tmp_path, {"local/out.txt": sysbench(WARM), "mirror/out.txt": sysbench(level)}, "local", "mirror"
    )
    whole, steady = (analysis.find("mirror", "sysbench", name) for name in ("tps", "tps.steady"))
    assert whole is not None and steady is not None and whole.relative is not None and steady.relative is not None
    assert steady.value == whole.value and steady.half == whole.half
    assert steady.relative.value < 0.91 < whole.relative.value


def test_rates_that_all_are_steady_have_no_second_name(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {"local/out.txt": sysbench([900.0 + at % 3 for at in range(120)])})
    assert not [row.metric for row in analysis.rows if row.metric.endswith(".steady")]
    row = analysis.find("local", "sysbench", "tps")
    assert row is not None and row.half is not None
    assert not [text for text in answer(findings(analysis)).caveats if "warm-up" in text]


def test_repeats_have_their_totals_and_their_steady_parts(tmp_path: Path) -> None:
    level = [1000.0 + at % 3 for at in range(120)]
    analysis = analysed(tmp_path, {"local/run1/out.txt": sysbench(WARM), "local/run2/out.txt": sysbench(level)})
    whole, steady = (analysis.find("local", "sysbench", name) for name in ("tps", "tps.steady"))
    assert whole is not None and steady is not None and (whole.builds, steady.builds) == (2, 2)
    assert whole.value == pytest.approx((sum(WARM) + sum(level)) / 240, rel=1e-3)
    assert steady.value == pytest.approx(1001, rel=1e-3)


def test_a_busy_cpu_does_not_make_an_import_limited_by_the_lab(tmp_path: Path) -> None:
    rows = "".join(
        " 2  0      0 2794716 295968 312724    0    0   100  2000   29   57 80 19  1  0  0 "
        f"2020-09-13 12:{27 + at // 60:02}:{at % 60:02}\n"
        for at in range(120)
    )
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
    )
    analysis = analysed(tmp_path, {"local/vmstat.txt": head + rows})
    assert any(row.metric == "cpu.busy" and row.value > 98 for row in analysis.rows)
    assert not analysis.limits and any("saturated" in text for text in answer(findings(analysis)).caveats)


@pytest.mark.parametrize("reports", ["text", "csv", "json"])
@pytest.mark.parametrize("version", ["1.0.20", "1.1.0-df89d34"])
def test_sysbench_of_any_report_and_version_is_the_same(reports: str, version: str, tmp_path: Path) -> None:
    found = of_text(tmp_path, sysbench(WARM, reports=reports, version=version))
    assert found.bad == 0 and series(found, "tps") == WARM and series(found, "latency.p95") == [0.010] * 120
    assert series(found, "qps") == [20 * rate for rate in WARM]
    assert values(found)["tps"] == pytest.approx(sum(WARM) / 120, rel=1e-4)


def test_a_damaged_report_of_sysbench_is_counted(tmp_path: Path) -> None:
    text = sysbench(WARM, reports="csv").replace("\n60,8,1002.00,", "\n60,8,")
    found = of_text(tmp_path, text)
    assert found.bad == 1 and found.first_bad is not None and len(series(found, "tps")) == 119


def test_what_sysbench_prints_beside_its_reports_is_counted(tmp_path: Path) -> None:
    text = sysbench(WARM).replace("[ 7s ]", "[ 7s ] queue length: 0, concurrency: 1\nFATAL: it hurts\n[ 7s ]")
    assert {remark for remark in of_text(tmp_path, text).remarks if "left out" in remark} == {
        "1 lines of its queue length (--rate) are left out", "1 errors (FATAL) are left out",
    }  # fmt: skip


def test_another_test_of_sysbench_is_named(tmp_path: Path) -> None:
    text = "sysbench 1.1.0 (using x)\n\nThreads started!\n\nCPU speed:\n    events per second:    39.24\n"
    with pytest.raises(Refused, match="sysbench's cpu test: only its OLTP scripts are read"):
        of_text(tmp_path, text)


def test_a_summary_that_its_time_series_contradicts_is_said(tmp_path: Path) -> None:
    remarks = of_text(tmp_path, sysbench(WARM, done=60_000)).remarks
    assert any("its tps comes to 499.9" in remark or "contradicts itself" in remark for remark in remarks)
    assert sum("contradicts itself" in remark for remark in remarks) >= 2


def test_a_job_of_fio_whose_rate_is_not_its_count_is_said(tmp_path: Path) -> None:
    document = json.loads(fio(1000.0))
    document["jobs"][0]["read"]["iops"] = 2000.0
    (said,) = [each for each in of_text(tmp_path, json.dumps(document, indent=1)).remarks if "contradicts" in each]
    assert "job rd contradicts itself: its IOPS (read) is 2000" in said


def test_no_sound_file_contradicts_itself(tmp_path: Path) -> None:
    for sample in every_kind():
        path = tmp_path / sample.name
        path.write_text(sample.text)
        found = kinds.READERS.read(path, sample.kind)
        assert not [each for each in found.remarks if "contradicts" in each], (sample.kind, found.remarks)


def test_fio_with_logs_of_another_run_is_said(tmp_path: Path) -> None:
    files = {"local/fio.json": fio(5000.0), "local/rd_iops.1.log": log(WARM)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = take(minimal(["local"]), None, {"local": [str(tmp_path / "local")]}, tmp_path / "runs", Options())
    assert any("rd_iops.1.log comes to 938" in said and "of rd" in said for said in done.said), done.said


@pytest.mark.parametrize("between", ["", "\n", ",", " , \n", "\n\n"])
@pytest.mark.parametrize("array", [False, True])
def test_reports_of_one_run_of_fio_are_all_seen(between: str, array: bool, tmp_path: Path) -> None:
    first, last = fio(900.0, 60), fio(1000.0, 120)
    text = f"[{first}{between}{last}]" if array else f"{first}{between}{last}"
    found = of_text(tmp_path, text)
    assert values(found)["read.iops"] == 1000.0
    assert "2 reports of one run (--status-interval): the last one is taken" in found.remarks


@pytest.mark.parametrize("array", [False, True])
def test_reports_of_two_runs_of_fio_in_one_file_are_refused(array: bool, tmp_path: Path) -> None:
    text = fio(900.0) + fio(1000.0, bs="8k")
    with pytest.raises(Refused, match="holds several runs"):
        of_text(tmp_path, f"[\n{text.replace('}{', '},{')}\n]" if array else text)


def intervals(*more: str) -> str:
    return "".join(
        " ".join((f"{1_700_000_000 + 10 * at} 100 2500000 62600000000 20000 30000", *more)) + "\n"
        for at in range(6)
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), {}),
        (("5000 260000 100 1000",), {"lag.mean": 50e-6, "lag.max": 1e-3}),
        (("5000 260000 100 1000", "3"), {"lag.mean": 50e-6, "lag.max": 1e-3, "skipped": 18}),
        (("0 0 0 0", "0", "4 5", "2 0"), {"retried": 24, "retries": 30, "failed": 12}),
        # Nothing tells a 0 that was counted from one of what was not asked for.
        (("0 0 0 0", "0", "0 0", "0 0"), {}),
    ],
)  # fmt: skip
def test_the_intervals_of_pgbench_tell_what_was_not_done_at_once(
    more: tuple[str, ...], expected: dict[str, float], tmp_path: Path
) -> None:
    found = values(of_text(tmp_path, intervals(*more)))
    usual = {"tps", "transactions", "latency.mean", "latency.max"}
    assert {name: value for name, value in found.items() if name not in usual} == pytest.approx(expected)
    assert found["tps"] == 10 and found["transactions"] == 600


def test_columns_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    remarks = of_text(tmp_path, intervals("0 0 0 0", "0", "0 0", "0 0", "1 2")).remarks
    assert "2 of its columns are not known, and left out" in remarks


def test_the_lines_of_pgbench_tell_what_failed(tmp_path: Path) -> None:
    text = "".join(
        f"progress: {at}.0 s, 100.0 tps, lat 10.000 ms stddev 1.000, 2 failed, lag 0.1 ms, 3 skipped, 1 retried, "
        "4 retries\n"
        for at in range(1, 11)
    )
    found = values(of_text(tmp_path, text))
    assert [found[name] for name in ("failed", "skipped", "retried", "retries")] == [20, 30, 10, 40]
