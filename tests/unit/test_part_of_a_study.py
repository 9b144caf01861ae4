"""A run or a drill of a part of a study reports on that part: what nobody asked for is not missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from blocklab import report
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from blocklab.study.types import Cell
from tests.unit.answers import answered
from tests.unit.synthetic import make, make_sweep
from tests.unit.synthetic_drills import make_drills

Chosen = Callable[[Cell], bool]


def part(folder: StudyFolder, chosen: Chosen, *, asked: bool = True) -> Analysis:
    """The folder as a call leaves it that asked for some cells only; ``asked``: and says so."""
    manifest = folder.manifest()
    keys = tuple(cell.key for cell in manifest.cells if chosen(cell))
    assert 0 < len(keys) < len(manifest.cells)
    for cell in manifest.cells:
        if cell.key not in keys:
            shutil.rmtree(folder.cells / cell.key)
    StudyFolder.create(folder.path.parent, msgspec.structs.replace(manifest, todo=keys if asked else None))
    return analyse(folder)


@pytest.mark.parametrize(
    ("made", "chosen"),
    [
        (make, lambda cell: cell.stack == "drbd1"),
        (make_sweep, lambda cell: cell.stack == "mirror" and cell.levels["rtt"] == "1ms"),
        (make_drills, lambda cell: cell.stack == "drbd-a"),
    ],
    ids=["a stack", "a stack at a level", "drills of a stack"],
)
def test_what_nobody_asked_for_is_not_missing(
    made: Callable[[Path], StudyFolder], chosen: Chosen, tmp_path: Path
) -> None:
    folder = made(tmp_path)
    count = len(folder.manifest().cells)
    analysis = part(folder, chosen)
    assert analysis.gaps == () and analysis.left_out == count - len(analysis.cells) > 0
    (line,) = [each for each in answered(analysis).caveats if each.startswith("This report covers")]
    assert f"{len(analysis.cells)} of the study's {count} cells" in line
    said = report.terminal_table(folder, analysis, every=True)
    page = report.render(folder, analysis=analysis).read_text()
    assert "never measured" not in page and "missing" not in answered(analysis).lead
    assert said is not None
    others = {cell.stack for cell in folder.manifest().cells} - {cell.stack for cell in analysis.cells}
    assert not others & set(analysis.stacks)


def test_what_was_asked_for_and_is_not_there_is_missing(tmp_path: Path) -> None:
    analysis = part(make(tmp_path), lambda cell: cell.stack == "drbd1", asked=False)
    assert {gap.status for gap in analysis.gaps} == {"missing"} and analysis.left_out == 0


def test_what_an_earlier_call_measured_stays_in_the_report(tmp_path: Path) -> None:
    folder = make(tmp_path)
    manifest = folder.manifest()
    some = tuple(cell.key for cell in manifest.cells if cell.stack == "drbd1")
    StudyFolder.create(tmp_path, msgspec.structs.replace(manifest, todo=some))
    assert analyse(folder).left_out == 0


def test_an_expectation_about_what_was_not_asked_for_is_left_out(tmp_path: Path) -> None:
    folder = make(tmp_path)
    claims = folder.manifest().study.expect
    analysis = part(folder, lambda cell: cell.stack == "drbd1")
    assert claims and not [each for each in analysis.verdicts if each.claim.relative_to == "local"]
