"""The floor is measured by itself: at the first run on a machine, and again when it is a day old."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.campaign import floor as module
from blocklab.errors import SetupError
from blocklab.runner.events import AnyEvent
from blocklab.store.floor import METRICS, Floor, Reading, load_floor, machine_of, save_floor

ENVIRONMENT: dict[str, Any] = {
    "site": "uml", "machine": "0123456789ab", "image": "cb0e", "shim": True,
    "host": {"kernel": "6.1.0", "cpu": "Some CPU @ 2.50GHz", "cpus": 2, "pinning": "cores"},
}  # fmt: skip


class Calls:
    """Measuring that is only counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.count, self.wrong = 0, False
        self.options: dict[str, Any] = {}
        self.folder = folder
        monkeypatch.setenv("BLOCKLAB_CACHE", str(folder))
        monkeypatch.setattr(module, "open_site", lambda name, addons: (name, tuple(addons)))
        monkeypatch.setattr(module, "calibrate", self.calibrate)

    def calibrate(self, site: Any, **options: Any) -> Floor:
        self.count += 1
        self.options = options
        if self.wrong:
            raise SetupError("no room")
        values = {name: Reading(1.0, unit, 0.0, 1) for name, (_, unit) in METRICS.items()}
        return Floor(machine_of(ENVIRONMENT), time.time(), 17.0, values)

    def run(self, environment: dict[str, Any] = ENVIRONMENT) -> str:
        said: list[AnyEvent] = []
        module.fresh_floor("uml", (), environment, said.append)
        return "\n".join(str(event) for event in said)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    return Calls(monkeypatch, tmp_path)


def test_it_is_measured_once_a_day(calls: Calls) -> None:
    assert "under 20 s" in calls.run() and calls.run() == "" and calls.count == 1
    assert calls.options["budget"] < 20
    known = load_floor(calls.folder, machine_of(ENVIRONMENT))
    assert known is not None
    save_floor(calls.folder, msgspec.structs.replace(known, when=time.time() - module.DAY - 1))
    calls.run()
    assert calls.count == 2


@pytest.mark.parametrize("host", [{"pinning": "one"}, {"kernel": "6.12.0"}])
def test_another_machine_or_place_for_its_nodes_is_measured_again(calls: Calls, host: dict[str, str]) -> None:
    calls.run()
    calls.run({**ENVIRONMENT, "host": {**ENVIRONMENT["host"], **host}})
    calls.run({**ENVIRONMENT, "machine": "ba9876543210"})
    assert calls.count == 3


def test_a_machine_that_is_not_known_has_none(calls: Calls) -> None:
    assert calls.run({"site": "fake"}) == "" and calls.count == 0


def test_a_study_runs_without_one_that_cannot_be_measured(calls: Calls) -> None:
    calls.wrong = True
    assert "the floor cannot be measured: no room" in calls.run()
