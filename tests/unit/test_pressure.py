"""How busy a machine was, by what its kernel counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.sites.uml import pressure
from blocklab.sites.uml.pressure import spent

STAT = "cpu  1953146 15180 668118 2987112 20086 0 5947 9514 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_seconds_of_cpu_steal_and_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_TICKS", 100)
    (tmp_path / "stat").write_text(STAT)
    found = spent(tmp_path)
    assert found["all"] == pytest.approx(56591.03) and found["steal"] == pytest.approx(95.14)
    assert found["busy"] == pytest.approx(26519.05) and "pressure" not in found
    (tmp_path / "pressure").mkdir()
    some = "some avg10=26.74 avg60=59.53 avg300=55.09 total=5185820637\n"
    (tmp_path / "pressure" / "cpu").write_text(some + "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    assert spent(tmp_path)["pressure"] == pytest.approx(5185.820637)


def process(proc: Path, pid: int, parent: int, ticks: tuple[int, int, int, int], name: str = "linux.uml") -> None:
    (proc / str(pid)).mkdir()
    numbers = " ".join(map(str, ticks))
    (proc / str(pid) / "stat").write_text(
        f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 0 81 0 0 0 {numbers} 20 0\n"
    )


def test_what_other_programs_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_TICKS", 100)
    (tmp_path / "stat").write_text(STAT)
    process(tmp_path, 1, 0, (9000, 9000, 9000, 9000), "init")
    process(tmp_path, 40, 1, (100, 50, 30, 20), "python (x) S 9")
    # A node, and a program in it.
    process(tmp_path, 41, 40, (1000, 500, 0, 0))
    process(tmp_path, 42, 41, (3000, 300, 0, 0))
    process(tmp_path, 50, 1, (7000, 0, 0, 0), "other")
    # One that ends meanwhile leaves no file, and those without a parent here are nobody's.
    (tmp_path / "60").mkdir()
    process(tmp_path, 61, 60, (800, 0, 0, 0))
    found = spent(tmp_path, root=40)
    assert found["foreign"] == pytest.approx(26519.05 - 95.14 - 2.0 - 15.0 - 33.0)


def test_this_machine_tells() -> None:
    before, after = spent(), spent()
    # Counted one after the other, so that they may be a tick apart.
    before["foreign"] -= 1.0
    assert all(before[name] <= after[name] for name in before)
