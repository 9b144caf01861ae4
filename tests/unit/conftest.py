"""What all unit tests share."""

from __future__ import annotations

import pytest

from blocklab.report import build
from tests.unit.golden import Golden


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares values with the files in tests/unit/golden."""
    return Golden(bool(request.config.getoption("--update-golden")))


@pytest.fixture
def without_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that read a page; that Vega draws it is for those in tests/browser."""
    monkeypatch.setattr(build, "bundle", lambda: "/* vega */")
