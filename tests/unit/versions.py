"""Small studies in which every value of every block is set, for tests of comparison and export."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.model.plan import Knob
from blocklab.model.sample import Parsed, Phase, Sample, Transaction
from blocklab.model.stack_map import StackMap
from blocklab.stats.grid import label_of
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell

HOST: dict[str, Any] = {"kernel": "6.1.0", "cpu": "Some CPU @ 2.50GHz", "cpus": 2}
ENVIRONMENT: dict[str, Any] = {
    "blocklab": "0.1.0", "site": "uml", "host": HOST, "image": "cb0efbb1e15ad522", "shim": True, "seed": 7,
    "packages": {"fio": "3.39"},
}  # fmt: skip
EPOCH = 1_795_232_000.0
_VOLUME = {"layer": "volume", "size": "1GiB"}
RAW: dict[str, Any] = {
    "blocklab": 2,
    "name": "two",
    "question": "What does a mirror cost?",
    "baseline": "local",
    "nodes": {"a1": {}, "a2": {}},
    "links": {"zone": {"between": ["a1", "a2"], "rtt": "1ms"}},
    "stacks": {
        "local": {"on": "a1", "layers": [_VOLUME, {"layer": "xfs"}, {"layer": "postgres"}]},
        "mirror": {
            "on": "a1",
            "layers": [
                _VOLUME, {"layer": "drbd", "peer": "a2", "link": "zone"}, {"layer": "xfs"}, {"layer": "postgres"},
            ],
        },
    },
    "workloads": {"tx": {"workload": "pgbench", "scale": 1, "clients": 4, "transactions": 1000}},
}  # fmt: skip


def make(
    runs: Path,
    tps: Mapping[str, Sequence[float]],
    *,
    failed: Sequence[str] = (),
    lacks: str = "",
    environment: Mapping[str, Any] = ENVIRONMENT,
    knobs: Mapping[str, str] | None = None,
    noise: float = 0.0,
    stood: Callable[[Cell], StackMap] | None = None,
    **changes: Any,
) -> StudyFolder:
    """A study's folder. ``tps`` has for each stack, or stack at its levels, a rate for each block; others are
    not measured.

    ``failed``: labels of cells that ended badly; ``lacks``: a metric that no run has.

    ``noise``: by what part the seconds of a series go up and down; 0: there is no series, and so no interval.
    ``stood``: what a cell stood on.
    """
    blocks = max(len(values) for values in tps.values())
    plan = build({**copy.deepcopy(RAW), "repeats": blocks, **changes})
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid))
    for number, cell in enumerate(grid):
        rates = tps.get(label_of(cell.stack, cell.levels), tps.get(cell.stack, ()))
        if cell.repeat >= len(rates):
            continue
        start = EPOCH + 100 * number
        bad = cell.label in failed
        outcome = Outcome("failed", "a1: node lost", "", start, 3.0) if bad else Outcome("ok", "", "", start, 60.0)
        rows = [] if bad else [r for r in _rows(rates[cell.repeat], start, noise) if r.metric != lacks]
        done = [] if bad else [Transaction(start + n / 10, 0.004 + n / 1e5) for n in range(20)]
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell, outcome, environment=dict(environment), records=[],
                knobs=[Knob("a1", "postgres", name, value) for name, value in (knobs or {"fsync": "on"}).items()],
                parsed=Parsed(tuple(rows), (Phase("tx", start, start + 40),), tuple(done)),
                stack=None if stood is None else stood(cell),
            )  # fmt: skip
    return folder


def _rows(rate: float, start: float, noise: float) -> list[Sample]:
    rows = [
        Sample("tps", rate, "1/s", "pgbench", "a1"),
        Sample("latency.mean", 4 / rate, "s", "pgbench", "a1"),
        Sample("failed", 0.0, "1", "pgbench", "a1"),
    ]
    chance = random.Random(str(rate))
    for second in range(40):
        if noise:
            rows.append(
                Sample("tps", rate * chance.gauss(1, noise), "1/s", "pgbench", "a1", time=start + second + 1)
            )
        rows.append(Sample("cpu.idle", 50.0 + second % 3, "%", "cpu", "a1", time=start + second + 1))
    return rows
