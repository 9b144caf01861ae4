"""fio's reports of one point each: told apart by their options, repeats among them, and the logs beside them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blocklab.charts.all import draw
from blocklab.errors import StudyError
from blocklab.imports import Imported, Options, kinds, minimal
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from blocklab.workloads.imported import ImportedWorkload
from tests.unit.golden import FOLDER
from tests.unit.import_checks import take

PLOT = FOLDER / "import/fio-plot"
POINT = (PLOT / "points/randread-1-1.json").read_text()


def report(**options: Any) -> str:
    """fio's JSON of one point; ``name`` and ``iops`` are of its job, ``at`` is when it was printed."""
    document = json.loads(POINT)
    job = document["jobs"][0]
    job["read"]["iops"] = options.pop("iops", 1000.0)
    job["jobname"] = options.pop("name", "test")
    document["timestamp_ms"] = 1000 * options.pop("at", 1_600_000_000)
    job["job options"] = {**job["job options"], **options}
    return json.dumps(document, indent=1)


def imported(folder: Path, files: Mapping[str, str], *stacks: str) -> Imported:
    """The import of files by their place, the first folder of which is the stack's."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    names = stacks or ("ssd",)
    places = {stack: [str(folder / stack)] for stack in names}
    return take(minimal(list(names)), None, places, folder / "runs", Options())


def analysis_of(done: Imported) -> Analysis:
    return analyse(StudyFolder(done.folder))


def workload(done: Imported) -> ImportedWorkload:
    """Of fio."""
    found = done.study.workloads["fio"]
    assert isinstance(found, ImportedWorkload)
    return found


def rates(done: Imported, repeat: int = 0) -> dict[str, float]:
    """IOPS of each point."""
    return {
        sample.phase: sample.value
        for run in StudyFolder(done.folder).runs()
        if run.cell.repeat == repeat
        for sample in run.values()
        if sample.metric.endswith(".iops")
    }


def test_a_folder_of_bench_fio_is_a_matrix_with_a_heat_map(tmp_path: Path) -> None:
    shutil.copytree(PLOT / "points", tmp_path / "ssd")
    done = imported(tmp_path, {})
    expected = {}
    for path in (PLOT / "points").iterdir():
        job = json.loads(path.read_text())["jobs"][0]
        options = job["job options"]
        name = f"{options['rw']}-iodepth-{options['iodepth']}-numjobs-{options['numjobs']}"
        expected[name] = job["read"]["iops"] + job["write"]["iops"]
    assert rates(done) == pytest.approx(expected) and len(expected) == 8
    found = {chart.name: chart for chart in draw(analysis_of(done)).shown}
    cells = [row for panel in found["heat-fio"].panels for row in panel.spec["datasets"]["cells"]]
    assert {row["text"] for row in cells} == {f"{value:,.0f}" for value in expected.values()}
    # The points of a file are told from those of others by its options alone, and nothing is lost.
    assert workload(done).jobs["randread-iodepth-16-numjobs-8"] == {
        "rw": "randread", "bs": "4k", "iodepth": "16", "numjobs": "8"
    }  # fmt: skip


def test_the_logs_of_a_point_belong_to_it(tmp_path: Path) -> None:
    shutil.copytree(PLOT / "logs", tmp_path / "ssd")
    done = imported(tmp_path, {})
    (run,) = StudyFolder(done.folder).runs()
    series = {(sample.phase, sample.metric) for sample in run.series()}
    for depth in (1, 16):
        kept = {metric for phase, metric in series if phase == f"randread-iodepth-{depth}"}
        assert kept >= {"read.iops", "read.bandwidth", "read.latency.mean", "read.clat.mean"}
        points = [
            each.value
            for each in run.series()
            if (each.phase, each.metric) == (f"randread-iodepth-{depth}", "read.iops")
        ]
        log = (PLOT / f"logs/randread-iodepth-{depth}-numjobs-1_iops.1.log").read_text()
        assert max(points) == max(int(value) for value in re.findall(r", (\d+), 0", log))
    assert len({phase for phase, _ in series}) == 2
    # Without a priority in its rows only the JSON beside it tells that this is an fio 3.
    mean = run.value("read.latency.mean", "randread-iodepth-1")
    assert mean is not None and 0.1 < mean.value < 10


@pytest.mark.parametrize("folder", ["run1 run2 run10", "Rep_1 Rep_2 Rep_3"])
def test_folders_of_runs_are_repeats(tmp_path: Path, folder: str) -> None:
    files = {
        f"ssd/{name}/{depth}.json": report(
            iodepth=depth, iops=1000.0 * int(depth) + number, at=1_600_000_000 + number
        )
        for number, name in enumerate(folder.split())
        for depth in ("1", "8")
    }
    done = imported(tmp_path, files)
    assert done.study.repeats == 3 and done.workloads["ssd"] == ("fio",)
    for number in range(3):
        expected = {"randread-iodepth-1": 1000.0 + number, "randread-iodepth-8": 8000.0 + number}
        assert rates(done, number) == expected
    assert any("is repeat 3 of its stack's workload" in said for said in done.said)
    rows = [
        row for row in analysis_of(done).rows if row.metric == "read.iops" and row.phase == "randread-iodepth-1"
    ]
    assert rows[0].value == 1001.0 and rows[0].builds == 3


def test_the_same_options_twice_are_a_repeat_and_it_is_said(tmp_path: Path) -> None:
    files = {
        "ssd/a.json": report(iops=1000.0), "ssd/b.json": report(iops=1100.0, at=1_600_009_000),
        "ssd/c.json": report(iodepth="8", iops=5000.0),
    }  # fmt: skip
    done = imported(tmp_path, files)
    assert rates(done, 0) == {"randread-iodepth-1": 1000.0, "randread-iodepth-8": 5000.0}
    assert rates(done, 1) == {"randread-iodepth-1": 1100.0}
    assert any(said.startswith("ssd: 1 of its files are taken for repeats") for said in done.said)
    (told,) = [file for file in done.files["ssd"] if file.name == "b.json"]
    assert any("repeat 2 of the point of a.json" in remark for remark in told.remarks)


def test_two_of_one_point_in_one_run_are_refused(tmp_path: Path) -> None:
    files = {f"ssd/run{number}/{name}.json": report(iops=number, at=1_600_000_000 + ord(name) + number)
             for number in (1, 2) for name in "ab"}  # fmt: skip
    with pytest.raises(StudyError, match=r"a\.json and .*b\.json both have a job test"):
        imported(tmp_path, files)


def test_what_else_differs_tells_points_apart_that_are_alike_on_the_axes(tmp_path: Path) -> None:
    files = {
        f"ssd/{engine}.json": report(ioengine=engine, runtime=f"{len(engine)}")
        for engine in ("libaio", "io_uring")
    }
    done = imported(tmp_path, files)
    assert set(rates(done)) == {"randread-ioengine-libaio", "randread-ioengine-io_uring"}
    assert done.study.repeats == 1
    shapes = workload(done).shapes()
    assert {shape["ioengine"] for shape in shapes.values()} == {"libaio", "io_uring"}


@pytest.mark.parametrize(("option", "shares"), [("rwmixread", ("70", "90")), ("rwmixwrite", ("30", "10"))])
def test_mixed_jobs_differ_by_their_share(tmp_path: Path, option: str, shares: tuple[str, ...]) -> None:
    files = {f"ssd/{share}.json": report(rw="randrw", **{option: share}) for share in shares}
    assert set(rates(imported(tmp_path, files))) == {"randrw-rwmixread-70", "randrw-rwmixread-90"}


def test_points_have_one_name_in_all_stacks(tmp_path: Path) -> None:
    files = {f"ssd/{depth}.json": report(iodepth=depth) for depth in ("1", "8")} | {"hdd/x.json": report(iops=9.0)}
    done = imported(tmp_path, files, "hdd", "ssd")
    rows = analysis_of(done).rows
    assert {row.stack for row in rows if row.phase == "randread-iodepth-1"} == {"hdd", "ssd"}


def test_reports_without_options_have_the_names_of_their_files(tmp_path: Path) -> None:
    document = json.loads(POINT)
    files = {}
    for name in ("one", "two"):
        del document["jobs"][0]["job options"]
        files[f"ssd/{name}.json"] = json.dumps(document, indent=1)
        document["jobs"][0]["job options"] = {}
        document["timestamp_ms"] += 1
    done = imported(tmp_path, files)
    assert set(rates(done)) == {"random-read-one", "random-read-two"}


def test_folders_called_after_the_block_size_are_one_matrix(tmp_path: Path) -> None:
    files = {
        f"ssd/sdb/{size}/{depth}.json": report(bs=size, iodepth=depth) for size in ("4k", "64k") for depth in "18"
    }
    done = imported(tmp_path, files)
    assert done.workloads["ssd"] == ("sdb",)
    assert set(rates(done)) == {f"randread-{size}-iodepth-{depth}" for size in ("4k", "64k") for depth in "18"}


def test_what_watched_all_repeats_is_in_each_and_without_times_in_none(tmp_path: Path) -> None:
    files = {
        f"ssd/run{number}/x.json": report(at=1_600_000_000 + 100 * number, iops=1000.0 + number)
        for number in (1, 2)
    }
    row = "sda    0.00  2.00  0.00 7135.00   0.00  27.88   8.00   0.80   0.11   0.00   0.11  0.11  79.60\n"
    header = (
        "Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await r_await "
        "w_await  svctm  %util\n"
    )
    done = imported(tmp_path, {**files, "ssd/iostat.txt": f"{header}{row}\n{header}{row}"})
    (told,) = [file for file in done.files["ssd"] if file.name == "iostat.txt"]
    assert not told.kind and "nothing tells which one it watched" in told.remarks[0]


@pytest.mark.parametrize(
    ("name", "lacks", "expected"),
    [
        ("pkb/fio-2.17.json", ["no bw_bytes", "no lat_ns"], {
            "read.iops": 8086.673998, "read.bytes": 1294256 * 1024, "read.latency.mean": 245.531122e-6,
            "read.latency.max": 12179e-6, "read.latency.p99": 1352e-6, "read.ios": 80891,
        }),
        ("pkb/fio-2.1.4.json", ["no bw_bytes", "no total_ios", "no lat_ns", "no timestamp", "no job options"], {
            "write.iops": 133, "write.bytes": 361984 * 1024, "write.bandwidth": 361984 * 1024 / 5.314,
            "write.latency.mean": 0.47873747, "write.latency.p99.9": 0.872448,
        }),
        ("fio-plot/logs/randread-16-1.json", ["no bw_bytes"], {
            "read.iops": 3.502218, "read.bytes": 1474560, "read.bandwidth": 1474560 / 102.792,
            "read.latency.mean": 4.554278652361115, "read.latency.p50": 4.798283776,
        }),
    ],
)  # fmt: skip
def test_json_of_older_fio_has_its_values_and_what_it_lacks(
    name: str, lacks: list[str], expected: dict[str, float]
) -> None:
    found = kinds.READERS.read(FOLDER / "import" / name, "fio-json")
    first = found.samples[0].phase
    values = {sample.metric: sample.value for sample in found.samples if sample.phase == first}
    assert {metric: values[metric] for metric in expected} == pytest.approx(expected)
    (said,) = [remark for remark in found.remarks if remark.startswith("of fio-")]
    assert re.findall(r"no [a-z_ ]+", said) == lacks


def test_logs_beside_a_report_of_fio_2_are_in_microseconds(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "import/pkb/fio-2.17.json").read_text())
    document["jobs"] = document["jobs"][:1]
    document["jobs"][0]["jobname"] = "x"
    rows = "".join(f"{1000 * at}, 245, 0, 0\n" for at in range(1, 9))
    done = imported(tmp_path, {"ssd/x.json": json.dumps(document, indent=1), "ssd/x_lat.1.log": rows})
    (run,) = StudyFolder(done.folder).runs()
    points = [each.value for each in run.series() if each.metric == "read.latency.mean"]
    assert points == pytest.approx([245e-6] * len(points)) and points


def test_texts_are_points_as_well(tmp_path: Path) -> None:
    text = (FOLDER / "import/fio/3.39.txt").read_text()
    one = text.replace("rand read", "seq-write2")
    files = {
        "ssd/1.txt": one,
        "ssd/8.txt": one.replace("iodepth=1\n", "iodepth=8\n").replace("iodepth=4\n", "iodepth=16\n"),
    }
    done = imported(tmp_path, files)
    assert set(rates(done)) == {
        "randrw-4k-iodepth-1-numjobs-2", "randrw-4k-iodepth-8-numjobs-2", "write-64k-iodepth-1-numjobs-1",
        "write-64k-iodepth-8-numjobs-1", "randread-4k-iodepth-4-numjobs-1", "randread-4k-iodepth-16-numjobs-1",
    }  # fmt: skip
