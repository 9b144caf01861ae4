"""A study on real nodes over two of Dask's workers on this machine, which are killed in the middle."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.fake.dasked import Cluster, ended, events, finished, folder_of, measuring, until
from tests.lab.conftest import leftovers

KILLS = 3


@pytest.fixture
def cluster(small: dict[str, Any], tmp_path: Path) -> Iterator[Cluster]:
    """Four repeats of two layouts on one node each, two cells of a second."""
    plain = {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB"}]}
    small |= {"stacks": {"plain": plain, "other": plain}, "baseline": "plain", "repeats": 4}
    small["nodes"] = {"a1": {"memory": "256MiB"}}
    del small["links"]
    options = {"direct": 1, "runtime": 1, "time_based": True}
    jobs = {"write-4k": {"rw": "randwrite", "bs": "4k"}}
    io = {"workload": "fio", "size": "16MiB", "fill": False, "options": options, "jobs": jobs}
    small["workloads"] = {"io": io}
    YAML().dump(small, tmp_path / "study.yaml")
    with Cluster(tmp_path, real={}) as started:
        started.scheduler()
        started.worker("w1")
        started.worker("w2")
        yield started


@pytest.mark.long
def test_workers_on_real_nodes_killed_at_three_moments_lose_nothing_and_leave_nothing(cluster: Cluster) -> None:
    said = cluster.place / "events.jsonl"
    process = cluster.blocklab(
        "run", "study.yaml", "--runs", "runs", "--dask", cluster.address, "--events", str(said)
    )
    moments = random.Random(3)
    for number in range(KILLS):
        # While a unit is under way at the victim, at any moment of it.
        victim = ("w1", "w2")[number % 2]
        until(lambda victim=victim: at_work(said, victim) or process.poll() is not None)  # type: ignore[misc]
        time.sleep(moments.uniform(0, 6))
        before = finished(folder_of(cluster))
        cluster.kill(victim)
        cluster.worker(victim)
        assert before.items() <= finished(folder_of(cluster)).items()
    ended(process)
    folder = folder_of(cluster)
    assert len(finished(folder)) == len(folder.manifest().cells) == 8
    lost = Counter(event["event"] for event in events(said))["lost"]
    assert lost >= 1
    until(lambda: not measuring(cluster) and not leftovers(), 60)


def at_work(file: Path, worker: str) -> bool:
    """Whether the worker has begun a unit that is not over."""
    last = ""
    for line in file.read_text().splitlines() if file.exists() else ():
        if f'"worker":"{worker}"' in line:
            last = next((name for name in ("unit", "kept", "lost") if f'"event":"{name}"' in line), last)
    return last == "unit"
