"""One study on two fake machines, from the run to the comparison of its shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blocklab.report.across import answer
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.stats.across import across
from blocklab.stats.source import Source, source
from blocklab.stats.versus import versus
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.fake import runs
from tests.fake.links import Machine


def measured(small: dict[str, Any], path: Path, machine: str, round_trip: float) -> Source:
    """The small study on a machine whose links take ``round_trip`` (ms) by themselves."""
    plan = build({**small, "workloads": {"io": runs.io(small)}, "repeats": 2})
    site = FakeSite(Machine(round_trip))
    site.machine = machine
    folder = StudyFolder.create(path, Manifest(plan, cells(plan)))
    assert run_study(site, plan, cells(plan), folder, runs.Silent()) == 0
    return source(folder.path)


def test_what_a_run_stored_is_what_the_shares_are_compared_by(small: dict[str, Any], tmp_path: Path) -> None:
    """The fake hosts' fio always prints the same, so that all shares agree; only their links differ."""
    a = measured(small, tmp_path / "a", "here", 0.15)
    b = measured(small, tmp_path / "b", "there", 1.7)
    found = versus(a, b)
    assert [each.name for each in found.machine] == ["machine"]
    laid = across(found)
    assert laid.shares and {(each.verdict, each.baseline) for each in laid.shares} == {("agree", "local/io")}
    (link,) = [each for each in laid.inputs if each.what == "link zone"]
    assert link.asked == (0.5e-3, 0.5e-3) and abs(link.mine - 0.5e-3) < 51e-6 and abs(link.other - 1.7e-3) < 51e-6
    count = len(laid.shares)
    text = answer(found, laid).replace("\xa0", " ")
    assert text.startswith(f"{count} of {count} shares agree within 10 %; link zone took ") and text.endswith(
        "in B."
    )
