"""Faults that the package does not know, without its base class: ``model.protocols.Fault`` is all they have."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from blocklab.cli.plan import planned
from blocklab.model.fault import Scene
from blocklab.model.plan import Run, Step
from blocklab.model.site import Power
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import cells
from blocklab.study.kinds import registered
from blocklab.study.needs import site_problems
from tests.fake.drilled import Drilled, drilled, study


class Reaped(msgspec.Struct, frozen=True, tag_field="fault", tag="reaped"):
    """The database's processes, killed by name."""

    at: str = "0s"
    when: str = ""
    lasts: float | None = None

    def moments(self) -> tuple[float, float]:
        return 0.0, 0.0

    def moment(self, dice: random.Random) -> float:
        return 0.0

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        return []

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        return (Run(scene.active, ("toy-reaper", scene.stack)),)


class Pulled(Reaped, frozen=True, tag="pulled"):
    """One that only a site with power can do."""

    needs: ClassVar[tuple[type, ...]] = (Power,)


def test_a_toy_fault_goes_through_check_plan_and_run(small: dict[str, Any], tmp_path: Path) -> None:
    stack = "mirror"
    with registered(Reaped, Pulled):
        what = study(small, stack, reaped={"fault": "reaped"})
        assert not any(path.startswith("faults.") for path, _ in site_problems(what, cells(what), ()))
        struck = [each for each in planned(what, stack, FakeSite()) if each.part == "fault"]
        assert [(each.host, each.argv, each.about) for each in struck] == [
            ("a1", ("toy-reaper", stack), "reaped at 0s of the workload")
        ]
        _, site, outcome = drilled(what, tmp_path, Drilled())
    assert outcome.status == "ok", outcome
    assert ("a1", ("toy-reaper", stack)) in [each for lab in site.labs for each in lab.log]


def test_what_a_toy_fault_needs_of_its_site_is_refused_without(small: dict[str, Any]) -> None:
    with registered(Reaped, Pulled):
        what = study(small, "local", pulled={"fault": "pulled"})
        ((path, problem),) = [each for each in site_problems(what, cells(what), ()) if "faults" in each[0]]
        assert path == "faults.pulled" and problem.startswith("a pulled, which needs ")
        assert not any(path.startswith("faults.") for path, _ in site_problems(what, cells(what), (Power,)))
