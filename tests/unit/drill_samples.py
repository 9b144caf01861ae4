"""Studies with drills as plain data."""

from __future__ import annotations

import copy
from typing import Any

from blocklab.study.read import build
from blocklab.study.types import Study

VOLUME = {"layer": "volume", "size": "384MiB"}


TOP: list[dict[str, Any]] = [{"layer": "ext4"}, {"layer": "postgres"}]


RAW: dict[str, Any] = {
    "blocklab": 2,
    "name": "drills",
    "question": "What is lost?",
    "nodes": {"a1": {}, "a2": {}, "c1": {}},
    "links": {
        "beat": {"between": ["a1", "a2"]},
        "pair": {"between": ["a1", "a2"], "rtt": "2ms"},
        "front": {"between": ["c1", "a1"]},
        "back": {"between": ["c1", "a2"]},
    },
    "stacks": {
        "local": {"on": "a1", "layers": [VOLUME, *TOP]},
        "mirror": {"on": "a1", "layers": [VOLUME, {"layer": "drbd", "peer": "a2", "link": "pair"}, *TOP]},
    },
    "workloads": {
        "writes": {"workload": "ledger", "from": "c1"},
        "tx": {"workload": "pgbench", "time": "5s"},
    },
    "faults": {"kill": {"fault": "crash", "at": "4s..8s"}},
}


def study(*drop: str, **changes: Any) -> Study:
    raw = copy.deepcopy(RAW)
    for path, value in changes.items():
        at: Any = raw
        *way, last = path.split("__")
        for name in way:
            at = at.setdefault(name, {})
        at[last] = value
    for name in drop:
        raw["stacks"].pop(name)
    return build(raw)
