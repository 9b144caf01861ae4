"""A need that a capped volume carries, and one that it does not: on a real node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from blocklab.store.folder import StudyFolder

CAP = 1000


@pytest.mark.long
def test_a_volume_carries_what_is_below_its_cap_and_nothing_above(tmp_path: Path) -> None:
    document = {
        "blocklab": 2,
        "name": "need",
        "question": "Does it carry the need?",
        "baseline": "capped",
        "nodes": {"a1": {"memory": "256MiB"}},
        "stacks": {"capped": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB", "iops": CAP}]}},
        "workloads": {
            "need": {
                "workload": "open-loop", "size": "32MiB", "reads": 420, "writes": 180, "flushes": 10,
                "levels": [100, 250], "time": "6s",
            }
        },
    }  # fmt: skip
    study = tmp_path / "need.yaml"
    YAML().dump(document, study)
    done = subprocess.run(
        [sys.executable, "-m", "blocklab.cli.main", "run", str(study)],
        cwd=tmp_path, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "runs" / "need" / "report.json").read_text())["carried"]
    below, above = found["phases"]
    assert below["verdict"] == "carried", below
    assert above["verdict"] == "not carried", above
    # A volume that rested has saved up a little, and flushes are not under the cap.
    assert 0.9 * CAP < above["reached"] < 1.2 * CAP
    assert 0.9 * CAP < found["most"] < 1.2 * CAP
    assert above["kinds"][0]["p99"] > 3 * below["kinds"][0]["p99"] and above["kinds"][0]["p99"] > 0.3
    (run,) = StudyFolder(tmp_path / "runs" / "need").runs()
    # What it says that it did is what the kernel counted, and nothing failed.
    assert run.outcome.status == "ok", run.outcome.error
    errors = run.value("errors", "need-250")
    assert errors is not None and errors.value == 0
