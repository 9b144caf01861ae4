"""A study that several machines measured: what is put together, what is kept apart, and what is said of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.charts.base import Chart
from blocklab.charts.machines import forests
from blocklab.model.terminal import Console
from blocklab.report import render, terminal_table
from blocklab.report.tables import versions, warnings
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.effects import Effect, effects
from blocklab.stats.machines import Machines
from blocklab.stats.ratio import verdict
from blocklab.stats.repeats import paired
from blocklab.stats.source import of_study
from blocklab.stats.versus import versus
from blocklab.store.folder import StudyFolder, Workers
from tests.unit import synthetic
from tests.unit.answers import answered
from tests.unit.synthetic import Worker

A, B, C = Worker("node-a"), Worker("node-b", 0.6, 0.7), Worker("node-c", 1.2, 1.3)
OTHER_IMAGE = Worker("node-d", 1.1, 0.5, {"image": "7057d1bc8cb22977"})


def made(path: Path, *workers: Worker, mixed: str = "", **more: Any) -> StudyFolder:
    """The study with a repeat on each of these machines."""
    folder = synthetic.make(path, synthetic.study(repeats=len(workers)), transactions=50, workers=workers, **more)
    if mixed:
        asked = Workers("tcp://127.0.0.1:8786", mixed)
        return StudyFolder.create(path, msgspec.structs.replace(folder.manifest(), workers=asked))
    return folder


def effect(analysis: Analysis, label: str = "drbd0, tps-scale1") -> Effect:
    return next(each for each in effects(analysis) if each.label == label)


def said(analysis: Analysis) -> str:
    return " ".join(answered(analysis).caveats).replace("\xa0", " ")


def test_ratios_are_taken_within_each_machine_and_the_machines_are_what_is_counted(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path, A, B, C, A, B, C))
    assert analysis.machines == ("node-a", "node-b", "node-c")
    found = effect(analysis)
    # What makes a machine slow cancels out, what makes its mirror slow does not.
    assert [on.share.value / found.each[0].share.value for on in found.each] == pytest.approx(
        [1, 0.7, 1.3], rel=0.02
    )
    builds = [
        row.relative.value
        for table in analysis.tables
        for row in table
        if (row.stack, row.workload, row.metric) == ("drbd0", "tps-scale1", "tps") and row.own and row.relative
    ]
    assert found.share.value == pytest.approx(paired(builds, list("abcabc")).value)
    assert found.share.half == pytest.approx(paired(builds, list("abcabc")).half)
    assert (found.share.machines, found.share.builds) == (3, 6)
    # Three machines that far apart decide less than six builds of one would.
    assert found.share.half is not None
    assert found.share.half > 3 * (paired(builds).half or 0) / 2
    assert verdict(found.share) != "one build"
    row = analysis.find("local", "tps-scale1", "tps")
    assert row is not None
    assert (row.machines, row.builds) == (3, 6)
    assert row.half is not None
    assert row.half > 0.5 * row.value


def test_where_machines_disagree_by_more_than_builds_do_that_is_said(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path, A, B, C, A, B, C))
    assert all(each.disagree for each in effects(analysis))
    text = said(analysis)
    assert "In 12 of 12 ratios machines differ by more than builds on one machine do (Cochran's Q)" in text
    assert "on node-b" in text
    assert "on node-c" in text
    assert "on 3 machines" in text
    assert analysis.spread == "over the machines"


def test_machines_that_are_alike_are_not_told_as_a_difference(tmp_path: Path) -> None:
    alike = [Worker("node-a"), Worker("node-b", 0.7)]
    analysis = analyse(made(tmp_path, *alike, *alike, *alike))
    assert not any(each.disagree for each in effects(analysis))
    assert "Cochran" not in said(analysis)
    assert "Two machines tell little of a third" in said(analysis)


def test_a_build_on_each_machine_tells_no_machine_from_a_build(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path, A, B, C))
    found = effect(analysis)
    assert (found.between, found.within, found.disagree) == (None, None, False)
    assert found.share.value == paired([on.share.value for on in found.each]).value
    assert found.share.half == paired([on.share.value for on in found.each]).half
    assert "cannot be told apart" in said(analysis)


def test_one_machine_is_as_before_whether_it_says_who_it_is_or_not(tmp_path: Path) -> None:
    plain = analyse(synthetic.make(tmp_path / "plain", synthetic.study(repeats=3), transactions=50))
    named = analyse(made(tmp_path / "named", A, A, A))
    assert plain.rows == named.rows
    assert plain.verdicts == named.verdicts
    assert not effects(named)
    assert answered(plain) == answered(named)
    assert {row.machines for row in plain.rows} == {1}
    page = render(made(tmp_path / "page", A, A)).read_text()
    assert 'id="machines"' not in page


def test_old_runs_that_do_not_say_their_machine_are_of_the_one_that_they_may_be_of() -> None:
    host = {"cpu": "Some CPU", "cpus": 2}
    found = Machines()
    old = {"site": "uml", "host": host}
    assert found.number(old) == found.number({**old, "machine": "aaaa00000000", "name": "vm"}) == 0
    # The same host name, and another machine.
    assert found.number({**old, "machine": "bbbb00000000", "name": "vm"}) == 1
    assert found.number({"site": "uml", "host": {"cpu": "Another", "cpus": 2}}) == 2
    assert found.number(old) == 0
    assert found.labels == ("vm aaaa", "vm bbbb", "Another")
    nobody = Machines()
    assert nobody.number({}) == nobody.number({"blocklab": "0.1.0"}) == 0
    assert nobody.labels == ("machine",)


def test_a_machine_with_another_image_is_never_put_together_with_the_others(tmp_path: Path) -> None:
    folder = made(tmp_path, A, A, B, B, OTHER_IMAGE)
    analysis = analyse(folder)
    found = effect(analysis)
    assert [bool(on.apart) for on in found.each] == [False, False, True]
    assert (found.share.machines, found.share.builds) == (2, 4)
    assert "The values of machine node-d are kept apart, in 9 of 9 cells: other image: 7057" in said(analysis)
    without = analyse(made(tmp_path / "without", A, A, B, B))
    assert [row.value for row in without.rows] == [row.value for row in analysis.rows]
    # Its runs stay in the exports, and its ratio beside the others'.
    assert {piece.machine for piece in of_study(folder).pieces if piece.apart} == {"node-d000000"}
    assert analysis.times == (4, 4)


def test_it_is_put_together_where_that_was_asked_for_and_that_is_said(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path, A, A, B, B, OTHER_IMAGE, mixed="pool"))
    assert effect(analysis).share.machines == 3
    assert "put together with the others', as --mixed pool asks, but do not fit in 9 of 9 cells" in said(analysis)


def test_a_floor_that_does_not_fit_keeps_a_machine_apart(tmp_path: Path) -> None:
    floors = ({"syscall": 3e-6, "noise": 4.0}, {"syscall": 12e-6, "noise": 4.0})
    quick, slow = (Worker(f"node-{n}", 1.0, 1.0, {"floor": floor}) for n, floor in enumerate(floors))
    analysis = analyse(made(tmp_path, quick, quick, slow))
    assert "other floor: a system call takes 12 us there, 3 us here" in said(analysis)


def moved(folder: StudyFolder, stack: str, worker: Worker) -> None:
    """As if another machine had measured a stack."""
    for cell in folder.manifest().cells:
        if cell.stack == stack:
            file = folder.cells / cell.key / "environment.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), **worker.told()}))


def test_a_cell_whose_baseline_is_on_another_machine_has_no_ratio_and_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path, A, A)
    moved(folder, "drbd1", B)
    analysis = analyse(folder)
    row = analysis.find("drbd1", "tps-scale1", "tps")
    assert row is not None
    assert row.relative is None
    assert (
        "Cells without a ratio, since local was not measured on their machine in their repeat: drbd1/fio"
        in said(analysis)
    )


def test_what_machines_have_of_their_own_is_no_warning(tmp_path: Path) -> None:
    host = {"kernel": "6.1.7", "cpu": "Another", "cpus": 8}
    analysis = analyse(made(tmp_path, A, Worker("node-b", environment={"host": host})))
    assert not [text for text in warnings(analysis) if "environment" in text]
    # Once for each machine rather than for each cell.
    assert dict(versions(analysis).differs)["host.kernel"] == (("node-a", "6.1.0"), ("node-b", "6.1.7"))


def test_the_page_the_terminal_and_the_json_tell_of_the_machines(tmp_path: Path) -> None:
    folder = made(tmp_path, A, B, C, A, B, C, OTHER_IMAGE)
    analysis = analyse(folder)
    page = render(folder, analysis=analysis).read_text()
    assert '<section id="machines"' in page
    assert page.count('id="machines"') == 1
    document = json.loads((folder.path / "report.json").read_text())["machines"]
    assert [(each["name"], each["runs"], bool(each["unfit"])) for each in document["each"]] == [
        ("node-a", 18, False), ("node-b", 18, False), ("node-c", 18, False), ("node-d", 9, True),
    ]  # fmt: skip
    first = document["ratios"][0]
    assert first["machines"] == 3
    assert first["disagree"]
    assert first["within"] < first["between"]
    assert [bool(on["apart"]) for on in first["each"]] == [False, False, False, True]
    console = Console(width=110, file=io.StringIO())
    console.print(terminal_table(folder, analysis, every=True))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "between machines" in text
    assert "*: machines differ by more than builds" in text


def test_the_forest_has_a_row_for_each_machine_for_all_of_them_and_for_a_further_one(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path, A, B, C, A, B, C, OTHER_IMAGE))
    chart = forests(analysis)
    assert isinstance(chart, Chart)
    assert chart.title == "Machines differ by more than builds do in 12 of 12 ratios"
    assert len(chart.panels) == 12
    for panel in chart.panels:
        rows = panel.spec["datasets"]["machines"]
        assert [row["kind"] for row in rows] == [
            "one machine", "one machine", "one machine", "kept apart", "all machines", "a further machine",
        ]  # fmt: skip
        low, high = panel.spec["layer"][4]["encoding"]["x"]["scale"]["domain"]
        assert all(low <= row["low"] <= row["high"] <= high for row in rows)
    # One build has no interval of its own.
    alone = chart.panels[0].spec["datasets"]["machines"][3]
    assert "least" not in alone
    assert forests(analyse(made(tmp_path / "one", A, A))) is None


def test_a_comparison_pairs_builds_of_the_same_machine(tmp_path: Path) -> None:
    """B is as A, but its machines took the repeats in another order."""
    one, two = (
        of_study(made(tmp_path / name, *order)) for name, order in (("a", (A, A, B, B)), ("b", (B, B, A, A)))
    )
    found = versus(one, two)
    pair = next(
        p for p in found.pairs if (p.stack, p.workload, p.metric) == ("local", "tps-scale1", "tps") and p.own
    )
    assert pair.ratio is not None
    assert pair.ratio.machines == 2
    assert pair.ratio.value == pytest.approx(1.0, abs=0.01)
