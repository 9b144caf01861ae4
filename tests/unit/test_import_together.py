"""Files that are one log: which are put together, what becomes of their values, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.imports import Options, job_file, minimal
from blocklab.store.run import Run, load
from tests.unit.golden import FOLDER
from tests.unit.import_averages import START, averaged
from tests.unit.import_checks import take

STONEWALL = "[a]\nrw=write\nnumjobs=2\n[b]\nstonewall\nrw=write\n"


def imported(folder: Path, files: Mapping[str, str], jobs: str = "") -> tuple[Run, dict[str, list[str]]]:
    """The run of one stack with these files, and what is said of each."""
    stack = folder / "local"
    stack.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (stack / name).write_text(text)
    options = Options(jobs=tuple(job_file("x.fio", jobs))) if jobs else Options()
    done = take(minimal(["local"]), None, {"local": [str(stack)]}, folder / "runs", options)
    (cell,) = (done.folder / "cells").iterdir()
    return load(cell), {Path(each.file).name: list(each.remarks) for each in done.files["local"]}


def series(run: Run, metric: str, phase: str = "") -> list[float]:
    """The values of a series in their order."""
    rows = [sample for sample in run.series() if (sample.metric, sample.phase) == (metric, phase)]
    return [row.value for row in sorted(rows, key=lambda row: row.time or 0.0)]


def value(run: Run, metric: str, phase: str = "") -> float:
    """The one value of a phase."""
    found = run.value(metric, phase)
    assert found is not None, (metric, phase)
    return found.value


def each(latency: int, start: int = START) -> str:
    """What a clone leaves that logs each I/O: 100 a second, for ten seconds."""
    return "".join(f"{start + 10 * at}, {latency}, 1, 4096, 0, 0\n" for at in range(1000))


def phases(run: Run) -> list[str]:
    """Their names."""
    return [phase.name for phase in run.phases]


# -- fio ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [START, 0], ids=["epoch", "since the start"])
def test_clones_with_a_log_each_are_added_up(tmp_path: Path, start: int) -> None:
    logs = {f"j_iops.{n}.log": averaged(100 * n, start + n) for n in (1, 2, 3, 4)}
    logs |= {f"j_clat.{n}.log": averaged(1000 * n, start + n) for n in (1, 2)}
    run, said = imported(tmp_path, logs)
    assert value(run, "write.iops", "j") == 1002
    assert series(run, "write.iops", "j") == [1004, 1000] * 5
    assert value(run, "write.clat.mean", "j") == pytest.approx(1500.5e-9)
    assert phases(run) == ["j"]
    (told,) = said["j_iops.1.log"]
    assert told.startswith("one log with j_iops.2.log, j_iops.3.log, j_iops.4.log, taken for clones of one job")
    assert "--jobs FILE" in told and told.endswith("40 rows together") and said["j_iops.2.log"] == []


def test_clones_that_logged_each_io_have_percentiles_of_all(tmp_path: Path) -> None:
    logs = {f"j_lat.{n}.log": each(1000 * n) for n in (1, 2, 3, 4)}
    run, _ = imported(tmp_path, logs)
    assert value(run, "write.ios", "j") == 4000
    assert value(run, "write.iops", "j") == 400
    assert value(run, "write.latency.mean", "j") == pytest.approx(2.5e-6)
    assert value(run, "write.latency.p99", "j") == pytest.approx(4e-6, rel=0.01)


def test_a_damaged_log_of_a_clone_keeps_its_own_damage(tmp_path: Path) -> None:
    logs = {"j_iops.1.log": averaged(100), "j_iops.2.log": averaged(200) + "garbage\n"}
    stack = tmp_path / "local"
    stack.mkdir()
    for name, text in logs.items():
        (stack / name).write_text(text)
    done = take(minimal(["local"]), None, {"local": [str(stack)]}, tmp_path / "runs", Options())
    assert {Path(each.file).name: (each.rows, each.bad) for each in done.files["local"]} == {
        "j_iops.1.log": (20, 0),
        "j_iops.2.log": (10, 1),
    }


def document(*jobs: tuple[str, str]) -> str:
    """fio's JSON with these jobs and their numjobs."""
    found = json.loads((FOLDER / "fio/stdout").read_text())
    first = found["jobs"][0]
    found["jobs"] = [{**first, "jobname": name, "job options": {"numjobs": number}} for name, number in jobs]
    return json.dumps(found, indent=1)


@pytest.mark.parametrize("jobs", [(("a", "2"), ("a", "2"), ("b", "1")), (("a", "2"), ("b", "1"))])
def test_the_json_tells_whose_clones_they_are(tmp_path: Path, jobs: tuple[tuple[str, str], ...]) -> None:
    """With an entry for each clone, and with ``group_reporting``."""
    logs = {f"p_iops.{n}.log": averaged(100 * n) for n in (1, 2, 3)}
    run, said = imported(tmp_path, {"fio.json": document(*jobs), **logs})
    assert series(run, "write.iops", "a") == [302, 300] * 5
    assert series(run, "write.iops", "b") == [301, 300] * 5
    assert said["p_iops.1.log"] == ["one log with p_iops.2.log, of other clones of a: 20 rows together"]
    assert said["p_iops.3.log"] == []


def test_a_prefix_that_is_a_job_tells_whose_clones_they_are(tmp_path: Path) -> None:
    logs = {f"b_iops.{n}.log": averaged(100 * n) for n in (2, 3)} | {"a_iops.1.log": averaged(7)}
    run, _ = imported(tmp_path, {"fio.json": document(("a", "1"), ("b", "2")), **logs})
    assert series(run, "write.iops", "a") == [8, 7] * 5
    assert series(run, "write.iops", "b") == [502, 500] * 5


def test_the_job_file_tells_whose_clones_they_are(tmp_path: Path) -> None:
    logs = {f"p_iops.{n}.log": averaged(100 * n) for n in (1, 2, 3)}
    run, said = imported(tmp_path, logs, STONEWALL)
    assert series(run, "write.iops", "a") == [302, 300] * 5
    assert series(run, "write.iops", "b") == [301, 300] * 5
    assert "of other clones of a" in said["p_iops.1.log"][0] and sorted(phases(run)) == ["a", "b"]


def test_logs_of_other_times_are_of_other_jobs(tmp_path: Path) -> None:
    logs = {f"p_iops.{n}.log": averaged(100 * n, START + (10_000 if n > 2 else 0)) for n in (1, 2, 3, 4)}
    run, said = imported(tmp_path, logs)
    assert phases(run) == ["p-1", "p-3"]
    assert series(run, "write.iops", "p-1") == [302, 300] * 5
    assert series(run, "write.iops", "p-3") == [702, 700] * 5
    assert said["p_iops.3.log"][0].startswith("taken for a job p-3, by the time at which it ran")


def test_the_same_log_of_two_runs_is_refused(tmp_path: Path) -> None:
    for name, rate in (("one", 100), ("two", 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "j_iops.1.log").write_text(averaged(rate))
    with pytest.raises(StudyError, match="the same log of two runs of fio") as caught:
        take(minimal(["local"]), None, {"local": [str(tmp_path / "*/*.log")]}, tmp_path / "runs", Options())
    assert "a folder of its own" in caught.value.hint


OLD = "".join(f"{at}, {200 + at % 7}, 1, 4096\n" for at in range(0, 5000, 2))


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("a_lat.1.log", OLD),
        ("a_clat.1.log", "".join(f"{1000 * at}, 200, 1, 0\n" for at in range(1, 9))),
        ("a_lat.1.log", OLD.replace(", 4096", ", 4096, 16384")),
    ],
    ids=["each I/O", "averaged", "log_offset"],
)
def test_a_log_whose_unit_nobody_knows_needs_the_json_beside_it(tmp_path: Path, name: str, log: str) -> None:
    with pytest.raises(StudyError, match=r"microseconds .* or nanoseconds .* put fio's JSON or text of that run"):
        imported(tmp_path, {name: log})
    # What counts I/Os has one meaning only.
    run, said = imported(tmp_path, {name: log, "a_iops.1.log": averaged(100)})
    assert said[name][0].startswith("left out: its rows have no priority")
    assert value(run, "write.iops", "a") == 100.5
    files = {name: log, "a_iops.1.log": averaged(100), "fio.json": document(("a", "1"))}
    run, _ = imported(tmp_path / "json", files)
    waits = [row.value for row in run.series() if "lat" in row.metric]
    assert waits and max(waits) < 1e-6


# -- pgbench -----------------------------------------------------------------------------------------------------


def intervals(count: int, start: int, of: int = 6) -> str:
    """What a thread with ``--aggregate-interval=10`` leaves."""
    return "".join(f"{start + 10 * at} {count} {count * 300} 9 61 {count}\n" for at in range(of))


@pytest.mark.parametrize("late", [0, 1])
def test_threads_with_intervals_are_one_run(tmp_path: Path, late: int) -> None:
    logs = {
        "pgbench_log.7": intervals(1000, 1345828500),
        **{f"pgbench_log.7.{n}": intervals(1000 + n, 1345828500 + late) for n in (1, 2, 3)},
    }
    run, said = imported(tmp_path, logs)
    assert value(run, "tps") == 400.6
    assert series(run, "tps") == [400.6] * 5
    assert value(run, "transactions") == 6 * 4006
    assert value(run, "latency.mean") == pytest.approx(300e-6)
    assert value(run, "latency.max") == pytest.approx(1003e-6)
    assert any("of other threads: 24 rows together" in text for text in said["pgbench_log.7"])


def test_an_interval_that_a_thread_lacks_is_left_out_of_the_rate(tmp_path: Path) -> None:
    logs = {"log.7": intervals(1000, 1345828500), "log.7.1": intervals(500, 1345828500, of=4)}
    run, _ = imported(tmp_path, logs)
    assert series(run, "tps") == [150] * 4
    assert value(run, "tps") == 150 and value(run, "transactions") == 8000


def test_intervals_of_two_runs_are_refused(tmp_path: Path) -> None:
    logs = {"one.log": intervals(1000, 1345828500), "two.log": intervals(1000, 1345829500)}
    with pytest.raises(StudyError, match="2 runs of pgbench"):
        imported(tmp_path, logs)
