"""One study whose repeats are measured by several fake machines, from the runs to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blocklab.report import render
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.sites.machine import GIVEN
from blocklab.stats.analysis import analyse
from blocklab.stats.caveats import often
from blocklab.stats.effects import effects
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell, Study
from tests.fake import runs
from tests.fake.links import Machine


class Told(FakeSite):
    """A fake site that tells more of its environment."""

    more: dict[str, Any] = {}

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        return {**super().environment(addons), **self.more}


def plan_of(small: dict[str, Any], repeats: int) -> Study:
    return build({**small, "workloads": {"io": runs.io(small)}, "repeats": repeats})


def work(folder: StudyFolder, study: Study, name: str, wanted: list[Cell], **more: Any) -> None:
    """What a worker of that name does with some cells."""
    site = Told(Machine(0.15))
    site.more = more
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GIVEN, name)
        assert run_study(site, study, wanted, folder, runs.Silent()) == 0


def test_repeats_on_three_workers_are_three_machines(small: dict[str, Any], tmp_path: Path) -> None:
    study = plan_of(small, 6)
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    for repeat in range(6):
        wanted = [cell for cell in cells(study) if cell.repeat == repeat]
        work(folder, study, f"w{repeat % 3}", wanted)
    analysis = analyse(folder)
    assert analysis.machines == ("w0", "w1", "w2")
    assert not analysis.apart
    assert not analysis.gaps
    found = effects(analysis)
    assert found
    # The fake hosts' fio always prints the same.
    assert {(each.share.value, each.share.machines, each.share.builds, each.disagree) for each in found} == {
        (1.0, 3, 6, False)
    }
    render(folder)
    told = json.loads((folder.path / "report.json").read_text())["machines"]
    assert [each["name"] for each in told["each"]] == ["w0", "w1", "w2"]


def test_a_worker_with_another_blocklab_is_kept_apart(small: dict[str, Any], tmp_path: Path) -> None:
    study = plan_of(small, 3)
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    for repeat, version in enumerate(("0.1.0", "0.1.0", "0.2.0")):
        wanted = [cell for cell in cells(study) if cell.repeat == repeat]
        work(folder, study, f"w{repeat}", wanted, blocklab=version)
    analysis = analyse(folder)
    assert {analysis.machines[machine] for _, machine in analysis.apart} == {"w2"}
    assert set(analysis.apart.values()) == {("other blocklab: 0.2.0, not 0.1.0",)}
    assert {row.builds for row in analysis.rows} == {2}


def test_a_layout_and_a_baseline_of_its_own_are_a_repeat_on_a_worker(
    small: dict[str, Any], tmp_path: Path
) -> None:
    """As `--split layouts` numbers them: every second repeat has one of the layouts, and each has the baseline."""
    study = plan_of({**small, "stacks": {**small["stacks"], "other": small["stacks"]["mirror"]}}, 4)
    grid = cells(study)
    mine = [cell for cell in grid if cell.stack in ("local", ("mirror", "other")[cell.repeat % 2])]
    whole = [cell for cell in grid if cell.repeat == 0 or cell in mine]
    folder = StudyFolder.create(tmp_path, Manifest(study, tuple(whole), todo=tuple(cell.key for cell in mine)))
    for repeat in range(4):
        work(folder, study, f"w{repeat % 3}", [cell for cell in mine if cell.repeat == repeat])
    analysis = analyse(folder)
    assert analysis.machines == ("w0", "w1", "w2")
    assert not analysis.gaps
    # Repeats 0 and 2 of one, 1 and 3 of the other: on two machines each.
    shares = {row.stack: row.relative for row in analysis.rows if row.own and row.value}
    assert {stack: (each.machines, each.builds) for stack, each in shares.items() if each} == {
        "local": (1, 1), "mirror": (2, 2), "other": (2, 2),
    }  # fmt: skip
    assert {row.builds for row in analysis.rows if row.stack == "local"} == {4}
    assert often(analysis) == "2 to 4 times"
