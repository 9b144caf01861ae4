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


def test_this_machine_tells() -> None:
    before, after = spent(), spent()
    assert all(before[name] <= after[name] for name in before)
