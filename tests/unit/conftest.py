"""What all unit tests share."""

from __future__ import annotations

import pytest
from golden import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares values with the files in tests/unit/golden."""
    return Golden(bool(request.config.getoption("--update-golden")))
