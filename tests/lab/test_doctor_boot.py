"""Doctor boots a real node. That nothing is left of it, ``conftest`` checks."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from blocklab.cli.doctor import boot
from blocklab.cli.main import app
from blocklab.sites import open_site
from blocklab.sites.uml import site as uml


def test_it_tells_how_long_a_node_took() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    (found,) = [each for each in json.loads(done.stdout) if each["name"] == "boot"]
    assert found["ok"] == "ok" and "booted and answered in" in found["found"]


def test_a_node_that_does_not_boot_in_time_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uml, "BOOT_SECONDS", 0.0)
    found = boot(open_site())
    assert found.ok == "fail" and "it did not boot in time" in found.found
