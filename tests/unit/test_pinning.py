"""Where nodes run is decided by what waking another CPU takes on this machine."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from blocklab.sites.uml import pinning as module
from blocklab.sites.uml.pinning import LEAST, MOST, chosen, cpus_of, pinning, round_trip, siblings


@pytest.mark.parametrize(
    ("trips", "choice"),
    [
        # Sapphire Rapids and EPYC, both virtual, two CPUs.
        ({"one": 11e-6, "cores": 65e-6}, "cores"),
        ({"one": 20e-6, "cores": 680e-6}, "one"),
        ({"one": 20e-6, "cores": 680e-6, "siblings": 90e-6}, "siblings"),
        ({"one": 20e-6, "siblings": 90e-6}, "siblings"),
        ({"one": 20e-6}, "one"),
    ],
)
def test_a_cpu_that_wakes_too_slowly_is_not_used(trips: dict[str, float], choice: str) -> None:
    assert chosen(trips) == choice


def test_the_cpus_of_each_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "siblings", lambda cpu: frozenset({0, 2} if cpu in (0, 2) else {1, 3}))
    assert cpus_of("cores", [0, 1, 2, 3]) == [0, 1, 3]
    assert cpus_of("siblings", [0, 1, 2, 3]) == [0, 2]
    assert cpus_of("one", [0, 1, 2, 3]) == [0]
    # Nothing but siblings.
    assert cpus_of("cores", [0, 2]) == [0, 2]


@pytest.mark.parametrize(
    ("text", "found"), [("0,2\n", {0, 2}), ("4-7\n", {4, 5, 6, 7}), ("3\n", {3}), ("", {3}), ("x", {3})]
)
def test_siblings_are_read_from_the_kernel(tmp_path: Path, text: str, found: set[int]) -> None:
    (tmp_path / "cpu3" / "topology").mkdir(parents=True)
    (tmp_path / "cpu3" / "topology" / "thread_siblings_list").write_text(text)
    assert siblings(3, tmp_path) == found
    assert siblings(9, tmp_path) == {9}


def test_a_round_trip_is_measured_and_leaves_nothing_behind() -> None:
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    began = time.monotonic()
    found = round_trip(cpu, cpu, 0.02)
    # Half of them took at least the median, however busy the machine is.
    assert 0 < found * LEAST / 2 < time.monotonic() - began
    assert os.sched_getaffinity(0) == allowed
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_it_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    asked: list[tuple[int, ...]] = []

    def measured(cpus: tuple[int, ...]) -> dict[str, float]:
        asked.append(cpus)
        return {"one": 1e-5, "cores": 2 * MOST}

    monkeypatch.setattr(module, "measured", measured)
    for _ in range(2):
        module._pinning.cache_clear()
        assert pinning().choice == "one"
    (file,) = (tmp_path / "pinning").iterdir()
    assert asked == [(0, 1)] and json.loads(file.read_text())["trips"]["cores"] == 2 * MOST
    module._pinning.cache_clear()
