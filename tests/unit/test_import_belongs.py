"""Which workload a file belongs to, what a workload is called, and which host and device are its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.imports import Imported, Options, job_file, minimal, read
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from tests.unit.golden import FOLDER
from tests.unit.import_averages import averaged
from tests.unit.import_checks import take
from tests.unit.import_logs import log
from tests.unit.import_samples import BANNER, NEW, NEW_ROW

FILE = """imported: 1
name: mine
question: Where does it go?
stacks:
  local: {%s}
"""


def imported(
    folder: Path, files: Mapping[str, str], *, own: str = "", jobs: str = ""
) -> tuple[Imported, Analysis, dict[str, str]]:
    """One stack with these files (``own``: its fields in the file about it), and what is first said of each."""
    stack = folder / "local"
    for name, text in files.items():
        (stack / name).parent.mkdir(parents=True, exist_ok=True)
        (stack / name).write_text(text)
    about = folder / "mine.yaml"
    about.write_text(FILE % own)
    options = Options(jobs=tuple(job_file("x.fio", jobs))) if jobs else Options()
    file, source = (read(about, ["local"]), about) if own else (minimal(["local"]), None)
    done = take(file, source, {"local": [str(stack)]}, folder / "runs", options)
    said = {Path(each.file).name: next(iter(each.remarks), "") for each in done.files["local"]}
    return done, analyse(StudyFolder(done.folder)), said


def watched(rates: Mapping[str, float], host: str = "") -> str:
    """iostat of devices that write 4 KiB so often a second: five idle seconds, twenty busy ones, five idle; an
    hour before ``log``."""
    rows = [BANNER.replace("db1", host)] if host else []
    for second in range(30):
        for device, rate in rates.items():
            writes = rate if 5 <= second < 25 else 0.0
            rows.append(
                f"2020-08-11T01:37:{second:02}+0000 {device} 0.00 {writes:.2f} 0.00 {4 * writes:.2f} 0.00 0.00 "
                f"0.00 0.00 0.00 0.50 0.20 0.00 4.00 0.20 5.00\n"
            )
    return "".join(rows)


def writes(analysis: Analysis, workload: str = "io") -> float:
    """The IOPS of a time line."""
    row = analysis.find("local", workload, "write.iops", "run")
    assert row is not None and row.own
    return row.value


UNTIMED = f"{NEW}{NEW_ROW}\n" * 20


# -- host and device ---------------------------------------------------------------------------------------------


def test_the_file_says_which_device_a_time_line_is_of(tmp_path: Path) -> None:
    # The root's logical volume, and the disk that the workload wrote to.
    files = {"iostat.txt": watched({"dm-0": 20.0, "nvme1n1": 600.0})}
    assert writes(imported(tmp_path, files)[1]) == 600
    assert writes(imported(tmp_path, files, own="device: dm-0")[1]) == 20


def test_a_mirror_counts_before_the_disk_that_it_stands_on(tmp_path: Path) -> None:
    files = {"iostat.txt": watched({"drbd0": 500.0, "sdb": 510.0, "sda": 3.0})}
    assert writes(imported(tmp_path, files)[1]) == 500


def test_the_file_says_which_host_a_time_line_is_of(tmp_path: Path) -> None:
    files = {"a.txt": watched({"sda": 300.0}, "a1"), "b.txt": watched({"sda": 900.0}, "b1")}
    assert writes(imported(tmp_path, files, own="host: a1")[1]) == 300
    assert writes(imported(tmp_path, files, own="host: B1")[1]) == 900
    assert writes(imported(tmp_path, files, own="host: b1, device: sda")[1]) == 900


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("device: nvme9n1", "stacks.local.device: no log names 'nvme9n1'; there are dm-0, nvme1n1"),
        ("host: c1", "stacks.local.host: no log names 'c1'; there are db1"),
    ],
)
def test_a_host_or_device_that_no_log_names_is_refused(tmp_path: Path, own: str, said: str) -> None:
    files = {"iostat.txt": watched({"dm-0": 20.0, "nvme1n1": 600.0}, "db1"), "tx.log": log()}
    with pytest.raises(StudyError) as caught:
        imported(tmp_path, files, own=own)
    assert said in str(caught.value) and "mine.yaml" in str(caught.value) and "one of these" in caught.value.hint


def test_a_host_and_a_device_that_nothing_names_are_taken_as_they_are(tmp_path: Path) -> None:
    done, _, _ = imported(tmp_path, {"tx.log": log()}, own="host: a1, device: nvme1n1")
    assert list(done.study.nodes) == ["a1"]


# -- what was watched without times -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload", [{"j_iops.1.log": averaged(100, 0)}, {"tx.log": log()}], ids=["fio", "pgbench"]
)
def test_what_has_no_times_belongs_to_no_load(tmp_path: Path, workload: dict[str, str]) -> None:
    """It may have begun a minute before: its first seconds are those of whatever ran then."""
    done, analysis, said = imported(tmp_path, {**workload, "iostat.txt": UNTIMED})
    assert len(done.workloads["local"]) == 1
    assert said["iostat.txt"].startswith(
        "left out: it has no times that are known (iostat -t, vmstat -t, dstat -t)"
    )
    assert not [row for row in analysis.rows if row.layer == "nvme0n1"]


def test_one_file_without_times_beside_several_loads_belongs_to_none(tmp_path: Path) -> None:
    workloads = {f"{name}/j_iops.1.log": averaged(100, 0) for name in ("c1", "c10")}
    done, analysis, said = imported(tmp_path, {**workloads, "iostat.txt": UNTIMED})
    assert done.workloads["local"] == ("c1", "c10") and said["iostat.txt"].startswith("left out: ")
    assert not [row for row in analysis.rows if row.layer == "nvme0n1"]


def test_a_time_line_without_times_is_a_load_in_a_folder_of_its_own(tmp_path: Path) -> None:
    done, analysis, _ = imported(tmp_path, {"j_iops.1.log": averaged(100, 0), "own/iostat.txt": UNTIMED})
    assert done.workloads["local"] == ("fio", "own") and writes(analysis, "own") == 500
    assert not [row for row in analysis.rows if row.workload == "fio" and row.layer == "nvme0n1"]


def test_a_job_file_tells_what_a_time_line_without_times_is(tmp_path: Path) -> None:
    files = {"tx.log": log(), "iostat.txt": UNTIMED}
    done, analysis, _ = imported(tmp_path, files, jobs="[w]\nrw=randwrite\n")
    assert done.workloads["local"] == ("pgbench", "fio")
    assert not [row for row in analysis.rows if row.workload == "pgbench" and row.layer == "nvme0n1"]


# -- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            ("fio.json", "fio/j_iops.1.log"),
            r"j_iops\.1\.log and .*fio\.json are of two workloads, both called fio",
        ),
        (("c10/fio.json", "c10/tx.log", "c10-fio/j_iops.1.log"), "both called c10-fio"),
    ],
)
def test_two_loads_of_one_name_are_refused(tmp_path: Path, files: tuple[str, ...], said: str) -> None:
    texts = {"fio.json": (FOLDER / "fio/stdout").read_text(), "tx.log": log(), "j_iops.1.log": averaged(100)}
    with pytest.raises(StudyError, match=said) as caught:
        imported(tmp_path, {file: texts[Path(file).name] for file in files})
    assert "into one folder" in caught.value.hint


def test_a_long_folder_with_two_loads_has_names_that_fit(tmp_path: Path) -> None:
    folder = "tpcc-warehouses100-threads64"
    files = {f"{folder}/tx.log": log(), f"{folder}/iostat.txt": watched({"sda": 300.0})}
    done, _, _ = imported(tmp_path / "watched", files)
    assert [name[:20] for name in done.workloads["local"]] == [folder[:20]] * 2 and len(
        set(done.workloads["local"])
    ) == 2
    files = {f"{folder}/tx.log": log(), f"{folder}/j_iops.1.log": averaged(100)}
    done, _, _ = imported(tmp_path / "tools", files)
    assert len(set(done.workloads["local"])) == 2


# -- what is the same --------------------------------------------------------------------------------------------


def test_clones_whose_logs_are_the_same_are_two(tmp_path: Path) -> None:
    """At a fixed rate (rate_iops) they are; and with blocks of 1 KiB IOPS and KiB/s are."""
    names = ("j_iops.1.log", "j_iops.2.log", "j_bw.1.log", "j_bw.2.log", "z_bw.2.log")
    _, analysis, said = imported(tmp_path, dict.fromkeys(names, averaged(100)))
    found = {metric: analysis.find("local", "fio", f"write.{metric}", "j") for metric in ("iops", "bandwidth")}
    assert {metric: row and row.value for metric, row in found.items()} == {"iops": 201, "bandwidth": 201 * 1024}
    # One of them was only copied.
    assert [name for name, text in said.items() if "the same content as" in text] == ["z_bw.2.log"]
