"""What measuring itself takes of a CPU: how it is told, and that it is taken for no value of the study."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.model.sample import OWN, Parsed, Sample
from blocklab.probes import sampler
from blocklab.report import render
from blocklab.report.limits import own_text
from blocklab.runner.measure import own
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store import tables
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Record
from blocklab.study.phases import PROBE_SECONDS
from tests.unit.answers import answered
from tests.unit.synthetic import make

ARGV = sampler(PROBE_SECONDS)


def with_own(folder: StudyFolder, **of_blocklab: float) -> Analysis:
    """The folder's runs with own samples: of blocklab's process as given by cell (``drbd0_fio``)."""
    for run in folder.runs():
        label = run.cell.label.replace("/", "_")
        rows = [
            Sample(OWN, of_blocklab.get(label, 0.4), "%", "blocklab", ""),
            Sample(OWN, 0.25, "%", "probe sampler", "a1"),
            Sample(OWN, 0.31 if label == "drbd0_fio" else 0.1, "%", "probe sampler", "a2"),
        ]
        tables.write(run.folder, Parsed((*run.samples, *rows), run.phases, run.transactions))
    return analyse(folder)


def test_records_become_shares_of_a_core() -> None:
    workload = ("fio", "job")
    records = [
        Record("build", "a1", ("true",), 0, 1.0),
        Record("workload", "a1", workload, 0, 5.0, cpu=0.02),
        Record("workload", "a1", ("cat", "/proc/counters"), 0, 0.1),
        Record("workload", "a1", workload, 0, 5.0, cpu=0.08),
        Record("probe", "a1", ARGV, 0, 20.0, cpu=0.1),
        Record("probe", "a2", ARGV, 0, 20.0, cpu=0.2),
        Record("probe", "a3", ARGV, 0, 20.0),
    ]
    found = {(each.layer, each.host): each.value for each in own(records)}
    assert found == pytest.approx(
        {("blocklab", ""): 1.0, ("probe sampler", "a1"): 0.5, ("probe sampler", "a2"): 1.0}
    )
    assert {(each.metric, each.unit, each.time) for each in own(records)} == {(OWN, "%", None)}
    assert own([]) == own(records[:1]) == ()


def test_the_method_names_the_highest_of_each(tmp_path: Path) -> None:
    folder = make(tmp_path)
    analysis = with_own(folder, drbd1_fio=1.27)
    said = (
        "While a workload ran, blocklab's own process took at most 1.27 % of a core; "
        "the probes at most sampler 0.31 % on a2."
    )
    assert own_text(analysis).replace("\u00a0", " ") == said
    assert not [text for text in answered(analysis).caveats if "own process" in text]
    page = render(folder).read_text().replace("\u00a0", " ")
    assert said.replace("'", "&#39;") in page


def test_more_than_two_percent_of_a_core_is_a_limit(tmp_path: Path) -> None:
    analysis = with_own(make(tmp_path), drbd1_fio=2.4, local_fio=2.1)
    (said,) = [text for text in answered(analysis).caveats if "own process" in text]
    assert "up to 2.40 % of a core" in said.replace("\u00a0", " ") and "drbd1/fio" in said


def test_runs_that_do_not_tell_have_no_sentence(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert own_text(analyse(folder)) == "" and "own process" not in render(folder).read_text()


def test_it_is_no_figure_of_the_study(tmp_path: Path) -> None:
    folder = make(tmp_path)
    before = analyse(folder)
    after = with_own(folder)
    assert after.rows == before.rows and len(after.own) == 3 * len(after.runs)
