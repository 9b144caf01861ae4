"""What a user installs runs on real nodes: the wheel alone, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wheel


@pytest.mark.long
def test_quickstart_of_the_wheel(tmp_path: Path) -> None:
    """On a machine that is set up; of the example one layout."""
    made = wheel.built(wheel.ROOT, "wheel", tmp_path)
    programs = wheel.installed(made, tmp_path / "environment")
    place = tmp_path / "elsewhere"
    place.mkdir()
    argv = [programs / "blocklab", "quickstart", "--stack", "local", "--plain"]
    said = wheel.well(wheel.run(argv, place, timeout=900))
    assert "report: runs/drbd-az-quick/report.html" in said
    assert (place / "runs/drbd-az-quick/report.html").exists()
