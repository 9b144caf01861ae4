"""Small studies through the command line, on real nodes: what is stored, what fails, what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blocklab.store.folder import StudyFolder
from tests.lab.commands import BLOCKLAB, PLAIN, write


def call(*argv: str, cwd: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(cwd)}
    return subprocess.run(
        [*BLOCKLAB, *argv], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )


def test_a_study_is_measured_reported_and_then_finished(small: dict[str, Any], tmp_path: Path) -> None:
    small["stacks"].pop("local")
    small["baseline"] = "mirror"
    # On a busy node a probe may miss a second, and a rate takes two of them.
    small["workloads"]["io"]["options"]["runtime"] = 4
    small["expect"] = [
        {"metric": "tps", "workload": "tx", "stack": "mirror", "between": [1, 100000], "says": "it runs"}
    ]
    study = write(small, tmp_path)
    first = call("run", str(study), cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "Expectations: " in first.stdout and "report: " in first.stdout
    folder = StudyFolder(tmp_path / "runs" / "small")
    io, tx = folder.runs()
    assert io.value("write.iops", "write-4k") is not None and tx.value("tps") is not None
    # Those until the first of the clients was through.
    assert 20 < len(tx.transactions) <= 40
    assert {knob.name for knob in io.knobs} >= {"net.protocol", "delay", "mount.noatime", "dstate"}
    assert all(knob.in_force for knob in [*io.knobs, *tx.knobs])
    assert io.environment["packages"]["drbd-utils"].startswith("9.")
    for host in ("a1", "a2"):
        assert all(abs(each.offset) < 10 for each in io.stack.clocks[host])
        # Every probe of every node was there, with values inside the run.
        layers = {sample.layer for sample in io.series() if sample.host == host}
        assert {"drbd0", "ubdb", "vec0", "cpu"} <= layers
    # What measuring took itself: the probes on every node, and blocklab.
    for run in (io, tx):
        own = {(sample.layer, sample.host): sample.value for sample in run.own()}
        watched = {("probe sampler", host) for host in ("a1", "a2")}
        assert set(own) == {("blocklab", ""), *watched}
        assert all(0 < value < 100 for value in own.values()), own
    assert {record.part for record in io.records} >= {"build", "prepare", "knob", "workload", "probe"}
    page = (folder.path / "report.html").read_text()
    assert "Does it build?" in page and "http://" not in page.split("<script")[0]
    values = json.loads((folder.path / "report.json").read_text())
    assert values["study"]

    before = [(run.folder / "result.json").stat().st_mtime_ns for run in folder.runs()]
    again = call("run", str(study), cwd=tmp_path)
    assert again.returncode == 0 and "finished: all 2 cells are measured" in again.stderr
    assert before == [(run.folder / "result.json").stat().st_mtime_ns for run in folder.runs()]


@pytest.mark.long
def test_a_claim_about_a_link_that_no_machine_can_be_as_fast_as_is_unknown(
    small: dict[str, Any], tmp_path: Path
) -> None:
    # Any link takes more than that by itself.
    small["links"]["zone"]["rtt"] = "1us"
    small["workloads"] = {
        "io": {"workload": "fio", "size": "16MiB", "options": {"direct": 1, "runtime": 1},
               "jobs": {"w": {"rw": "randwrite", "bs": "4k"}}}
    }  # fmt: skip
    claim = {"metric": "write.latency.mean", "workload": "io", "phase": "w", "stack": "mirror"}
    small["expect"] = [{**claim, "between": ["0s", "1us"], "says": "a mirror adds next to nothing"}]
    done = call("run", str(write(small, tmp_path)), "--repeats", "2", "--stack", "mirror", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "runs" / "small" / "report.json").read_text())["verdicts"]
    assert (found["status"], found["builds"]) == ("unknown", 2)
    assert "link zone took " in found["sentence"] and ": this machine alone takes " in found["sentence"]


def test_on_a_machine_that_is_busy_with_other_work_no_true_claim_fails(
    small: dict[str, Any], tmp_path: Path
) -> None:
    """A write to a volume of 2 ms takes 2 ms. With every CPU busy it may take longer: then nobody can tell."""
    small["stacks"] = {
        "local": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB", "write_latency": "2ms"}]}
    }
    small["baseline"] = "local"
    small["workloads"] = {
        "io": {"workload": "fio", "size": "16MiB", "options": {"direct": 1, "runtime": 2},
               "jobs": {"w": {"rw": "randwrite", "bs": "4k"}}}
    }  # fmt: skip
    claim = {"metric": "write.latency.mean", "workload": "io", "phase": "w", "stack": "local"}
    small["expect"] = [{**claim, "between": ["1.8ms", "2.2ms"], "says": "it takes the volume's 2 ms"}]
    study = write(small, tmp_path)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        done = call("run", str(study), "--repeats", "2", cwd=tmp_path)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "runs" / "small" / "report.json").read_text())
    (found,) = report["verdicts"]
    assert found["status"] in ("ok", "unknown"), found["sentence"]
    assert "other work" in {each["kind"] for each in report["findings"]}


def test_a_full_volume_fails_its_cell_the_others_go_on_and_the_exit_code_is_1(
    small: dict[str, Any], tmp_path: Path
) -> None:
    job = {"w": {"rw": "write", "bs": "64k"}}
    small["stacks"] = {"tiny": {"on": "a1", "layers": [{**PLAIN, "size": "64MiB"}, {"layer": "ext4"}]}}
    small["baseline"] = "tiny"
    small["workloads"] = {
        # All of the volume, of which the file system takes its part.
        "too-big": {"workload": "fio", "size": "64MiB", "jobs": job, "options": {"direct": 1}},
        "fits": {"workload": "fio", "size": "16MiB", "jobs": job, "options": {"direct": 1}},
    }
    done = call("run", str(write(small, tmp_path)), cwd=tmp_path)
    assert done.returncode == 1
    big, fits = StudyFolder(tmp_path / "runs" / "small").runs()
    assert fits.outcome.status == "ok"
    assert big.outcome.status == "failed"
    assert big.outcome.error.startswith("a1: exit code") and "fio" in big.outcome.error
    assert "No space left on device" in big.outcome.error and "No space left on device" in done.stderr
    assert "failed" in (tmp_path / "runs" / "small" / "report.html").read_text()


def test_a_knob_that_changes_under_way_makes_the_cell_invalid(small: dict[str, Any], tmp_path: Path) -> None:
    """The workload itself changes a setting of the stack: the values are not those of the layout asked for."""
    small["stacks"].pop("mirror")
    small["stacks"]["local"]["layers"][2]["settings"] = {"work_mem": "8MB"}
    plant = "ALTER SYSTEM SET work_mem = '1MB';\nSELECT pg_reload_conf();\nSELECT pg_sleep(0.2);\n"
    small["workloads"] = {
        "tx": {**small["workloads"]["tx"], "clients": 1, "transactions": 1, "scripts": {"plant": plant}}
    }
    done = call("run", str(write(small, tmp_path)), cwd=tmp_path)
    assert done.returncode == 1
    (run,) = StudyFolder(tmp_path / "runs" / "small").runs()
    assert run.outcome.status == "invalid"
    assert "work_mem should be 8MB, but the running system says 1MB" in run.outcome.error
