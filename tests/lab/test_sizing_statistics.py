"""A server's own statistics against what the kernel counted at its volume, on a real node with a real database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from blocklab.probes import counters
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.need import Options, need
from blocklab.store.folder import StudyFolder

SETTINGS = {
    "log_bin": True, "sync_binlog": 1, "innodb_flush_log_at_trx_commit": 1, "innodb_flush_method": "O_DIRECT",
    "innodb_buffer_pool_size": "16M", "innodb_log_file_size": "32M", "innodb_snapshot_isolation": False,
}  # fmt: skip


@pytest.mark.long
def test_the_need_of_mariadb_is_what_the_kernel_counted_at_its_volume(tmp_path: Path) -> None:
    document = {
        "blocklab": 2,
        "name": "source",
        "question": "What does it ask of its volume?",
        "baseline": "one",
        "nodes": {"a1": {"memory": "768MiB"}},
        "stacks": {
            "one": {
                "on": "a1",
                "layers": [
                    # A volume as a cloud's: without a volatile cache, so that flushes are no requests.
                    {"layer": "volume", "size": "512MiB", "write_latency": "450us"},
                    {"layer": "xfs"},
                    {"layer": "mariadb", "settings": SETTINGS},
                ],
            }
        },
        "workloads": {
            "tx": {"workload": "sysbench", "tables": 2, "table_size": 60000, "clients": 8, "time": "10s"}
        },
    }
    study = tmp_path / "source.yaml"
    YAML().dump(document, study)
    done = subprocess.run(
        [sys.executable, "-m", "blocklab.cli.main", "run", str(study)],
        cwd=tmp_path, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = StudyFolder(tmp_path / "runs" / "source")
    (run,) = folder.runs()
    raw = folder.path / "cells" / run.cell.key / "raw" / "workload"
    found = need(gather([raw / "status.before", raw / "status.after"], Asked()).systems, Options())
    before, after = (counters.parse((raw / f"counters.a1.{when}").read_text()) for when in ("before", "after"))
    disk = msgspec.structs.asdict(counters.difference(before, after).disks["vda"])
    for metric, counted in (
        ("read_iops", "reads"), ("read_bandwidth", "read_bytes"), ("write_iops", "writes"),
        ("write_bandwidth", "write_bytes"),
    ):  # fmt: skip
        # The server tells its uptime in whole seconds, so counts are compared and not rates.
        assert found.amounts[metric].observed * found.seconds == pytest.approx(disk[counted], rel=0.10), metric
    assert found.amounts["transactions"].observed > 1
