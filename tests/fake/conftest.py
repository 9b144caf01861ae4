"""What all studies on a site without machines have in common."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probes there are ready at once."""
    monkeypatch.setattr("blocklab.runner.measure.PROBE_LEAD", 0.0)
    monkeypatch.setattr("blocklab.runner.measure.PROBE_LEAST", 0.0)
    monkeypatch.setattr("blocklab.runner.measure.PROBE_MOST", 0.0)
