"""What all unit tests share.

pytest reads the option only when this folder is named: ``pytest tests/unit --update-golden``.
"""

from __future__ import annotations

import pytest

from tests.unit.golden import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares values with the files in tests/unit/golden."""
    return Golden(bool(request.config.getoption("--update-golden", default=False)))
