"""The new kinds beside each other, up to the analysis: what watched a workload stands beside it, or is one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from blocklab.imports import Options, minimal
from blocklab.report import render
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from tests.unit.import_checks import take
from tests.unit.import_kinds import GOLDEN


def imported(folder: Path, files: Mapping[str, str]) -> Analysis:
    stack = folder / "local"
    for name, text in files.items():
        (stack / name).parent.mkdir(parents=True, exist_ok=True)
        (stack / name).write_text(text)
    options = Options(order="mdy")
    found = StudyFolder(take(minimal(["local"]), None, {"local": [str(stack)]}, folder / "runs", options).folder)
    render(found)
    return analyse(found)


def value(analysis: Analysis, workload: str, metric: str, phase: str = "") -> float:
    row = analysis.find("local", workload, metric, phase)
    assert row is not None, metric
    return row.value


@pytest.mark.parametrize("name", ["sar.txt", "iostat-t.txt"])
def test_requests_of_both_ways_together_are_a_workload(name: str, tmp_path: Path) -> None:
    """dd wrote without reading, once it was read into memory."""
    found = imported(tmp_path, {name: (GOLDEN / name).read_text()})
    assert value(found, "io", "iops", "run") == pytest.approx(99.8, abs=0.1)
    assert value(found, "io", "write.bandwidth", "run") == pytest.approx(3.11e6, rel=0.05)


def test_hammerdbs_files_are_of_one_run_with_what_watched_it(tmp_path: Path) -> None:
    names = ("hammerdb.log", "hammerdb-profile.log", "hammerdb-counter.log")
    begun = "2022-06-30 22:4"
    rows = [
        f" 2  0      0 2185820  20480 2605548    0    0   100  4852 1242 2420 60 10 30  0  0 {begun}{at // 60}:"
        f"{at % 60:02}\n"
        for at in range(3 * 60 + 30, 5 * 60 + 30)
    ]
    head = (GOLDEN / "vmstat-tw.txt").read_text().splitlines(keepends=True)[1].replace("  gu ", "")
    files = {name: (GOLDEN / "pkb" / name).read_text() for name in names}
    found = imported(tmp_path, {**files, "vmstat.txt": head + "".join(rows)})
    assert value(found, "hammerdb", "nopm") == 8153
    assert value(found, "hammerdb", "new_order.latency.p99") == pytest.approx(0.014197)
    busy = [row.value for row in found.rows if row.metric == "cpu.busy" and row.workload == "hammerdb"]
    assert busy == [pytest.approx(70)]


def test_lines_of_progress_stand_beside_the_summary_of_their_run(tmp_path: Path) -> None:
    names = ("pgbench-9.txt", "pgbench-progress.txt")
    found = imported(tmp_path, {name: (GOLDEN / "pkb" / name).read_text() for name in names})
    # The summary's own, although the lines come to 12.2.
    assert value(found, "pgbench", "tps") == pytest.approx(13.062579)
    series = found.measured["local", "pgbench"].series
    assert [len(each) for (_, _, metric, _), each in series.items() if metric == "tps"] == [5]
