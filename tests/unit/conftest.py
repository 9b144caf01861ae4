"""What all unit tests share."""

from __future__ import annotations

import pytest

from tests.unit.golden import Golden


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares values with the files in tests/unit/golden."""
    return Golden(bool(request.config.getoption("--update-golden")))
