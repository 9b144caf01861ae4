"""One small cell of each layout of the shipped studies, on real nodes: they build, measure, and come down clean.

The databases' studies are not here: loading their data takes too long. Their layouts are built in test_databases
and test_layers, their workloads run in test_new_loads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build, load_yaml, merge_patch
from blocklab.study.shipped import shipped
from tests.fake.runs import Silent

TINY = {"size": "16MiB", "stop": None, "options": {"time_based": True, "runtime": 1, "ramp_time": None}}
PATTERNS = ("4k-rand-r100", "4k-rand-r0", "4k-seq-r100", "4k-seq-r50", "4k-seq-r0", "64k-seq-r100", "64k-seq-r50",
            "64k-seq-r0")  # fmt: skip
LEVELS = ("nothing", "mtu-9000", "buffers-x4", "mtu-9000-buffers-x4")
UNTUNED = ["single", "shared", "mirror", "mirror-two-links", "mirror-cross"]
# What is left out of each study: all but one job of its workloads, all but one level of most factors.
SMALLER: dict[str, dict[str, Any]] = {
    "stripe": {
        "workloads": {"io": {**TINY, "jobs": {"rand-read-4k": None, "seq-write-1m": None, "fsync-4k": None}}},
        "factors": {
            "volumes": {"values": [2]},
            "chunk": {"values": ["64KiB"]},
            "barriers": {"values": {"on": None}},
        },
    },
    "provisioned-iops": {
        "workloads": {
            "patterns": {**TINY, "matrix": None, "jobs": {"seq-write": None}},
            "mixed": {**TINY, "jobs": {"reads": None, "writes": None, "reads-50": None}},
            "dd": {"size": "1MiB"},
        },
        "factors": {"cap": {"values": {"10000": None, "3000": None}}, "mode": {"values": ["none"]}},
    },
    "virtual-mirror": {
        "workloads": {
            "patterns": {**TINY, "jobs": dict.fromkeys(PATTERNS)},
            "tuning": {**TINY, "jobs": {"4k-seq-r0": None, "64k-seq-r0": None}},
        },
        "factors": {"tuned-by": {"values": dict.fromkeys(LEVELS)}},
        "exclude": [{"stack": "tuned", "workload": "patterns"}, {"stack": UNTUNED, "workload": "tuning"}],
    },
}


# What the others build is built in test_layers, test_mirrors and test_stripe_cap too.
QUICK = ("stripe",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in SMALLER]
)
def test_each_layout_of_a_shipped_study(name: str, tmp_path: Path) -> None:
    plain = merge_patch(load_yaml(shipped()[name]), {**SMALLER[name], "expect": None, "quick": None, "repeats": 1})
    study = build(plain)
    grid = cells(study)
    folder, progress = StudyFolder.create(tmp_path, Manifest(study, grid)), Silent()
    bad = run_study(UmlSite(), study, grid, folder, progress)
    assert bad == 0, {label: outcome.error for label, outcome in progress.outcomes.items() if outcome.error}
    assert progress.warnings == []
    assert {run.cell.stack for run in folder.runs()} == set(study.stacks)
    for run in folder.runs():
        assert any(sample.metric.endswith(".iops") and sample.value > 0 for sample in run.values()), run.cell.label
