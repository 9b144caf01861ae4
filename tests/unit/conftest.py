"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blocklab.report import build
from blocklab.sites.uml.processes import Process
from tests.unit.golden import Golden


@pytest.fixture(autouse=True, scope="module")
def _no_nodes() -> Iterator[None]:
    """No unit test boots a node: a check that comes too late would otherwise do so, and pass slowly.

    By module, for tests on real nodes may follow in the same session.
    """

    def refuse(self: Process, name: str, *_: object, **__: object) -> None:
        pytest.fail(f"a unit test would start {name}; what is tested should have refused before", pytrace=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Process, "__init__", refuse)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares values with the files in tests/unit/golden."""
    return Golden(bool(request.config.getoption("--update-golden")))


@pytest.fixture
def without_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that read a page; that Vega draws it is for those in tests/browser."""
    monkeypatch.setattr(build, "bundle", lambda: "/* vega */")
