"""The lab's own values are marked wherever they are shown; what each layer did, and why a workload stopped."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.charts.all import draw
from blocklab.charts.base import HOLLOW, Chart
from blocklab.model.sample import Sample
from blocklab.model.terminal import Console
from blocklab.report import render, terminal_table
from blocklab.report.layers import NONE, LayerRow, layer_groups
from blocklab.report.limits import floor_tables, limited_rows
from blocklab.report.sheets import sheets
from blocklab.report.stops import order_text, stops, stops_line
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.floor import LIMITED
from blocklab.store.floor import METRICS, floor_file, keep_floor, load_floor, machine_of, save_floor
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Stopped
from blocklab.study.grid import cells
from tests.unit import synthetic
from tests.unit.answers import answered
from tests.unit.floor_samples import with_samples

NOT_MEASURED = "The lab's floor was not measured on this machine: blocklab calibrate"


pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """Of a machine whose floor is known; not to be changed."""
    runs = tmp_path_factory.mktemp("runs")
    return synthetic.make(runs, lab=True, busy=["drbd0/tps-scale1"], transactions=3000)


@pytest.fixture(scope="module")
def analysis(folder: StudyFolder) -> Analysis:
    return analyse(folder)


def caveats(analysis: Analysis) -> str:
    return "\n".join(answered(analysis).caveats).replace("\u00a0", " ")


def printed(folder: StudyFolder, tmp_path: Path) -> str:
    with (tmp_path / "out").open("w") as file:
        console = Console(width=100, record=True, file=file)
        console.print(terminal_table(folder, every=True))
    return console.export_text().replace("\u00a0", " ")


def edit(folder: StudyFolder, name: str, **changes: Any) -> None:
    """Change a JSON file of all runs."""
    for path in folder.cells.glob(f"*/{name}"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# -- the marks ------------------------------------------------------------------------------------------------


def test_figures_near_the_floor_and_at_a_busy_cpu_are_limited(analysis: Analysis) -> None:
    near = {place[:3] for place, limit in analysis.limits.items() if limit.floor}
    assert near == {("local", "fio", "rand-write-4k"), ("drbd0", "fio", "rand-write-4k")}
    row = analysis.find("drbd0", "fio", "write.latency.mean", "rand-write-4k")
    assert "1.40\u00a0ms is within 1.5 times the lab's own 0.95\u00a0ms" in analysis.limit(row)
    busy = analysis.find("drbd0", "tps-scale1", "tps")
    assert analysis.limit(busy) == f"{LIMITED}: the node's CPU was 95\u00a0% busy"
    assert analysis.limit(analysis.find("local", "tps-scale1", "tps")) == ""
    # A probe's value and a count are not the workload's speed.
    assert analysis.limit(analysis.find("drbd0", "tps-scale1", "write.await")) == ""
    assert analysis.limit(analysis.find("drbd0", "tps-scale1", "transactions")) == ""


def test_a_share_is_limited_by_either_side(analysis: Analysis) -> None:
    far = analysis.find("drbd1", "fio", "write.iops", "rand-write-4k")
    near = analysis.find("drbd0", "fio", "write.iops", "rand-write-4k")
    base = analysis.find("local", "fio", "write.iops", "rand-write-4k")
    assert far is not None and near is not None and base is not None
    assert analysis.limit(far) == "" and analysis.share_limit(far).startswith(f"local is {LIMITED}: 1,543")
    assert analysis.share_limit(near).startswith(
        f"drbd0 is {LIMITED}: 715"
    ) and "; local is" in analysis.share_limit(near)
    assert analysis.share_limit(base) == analysis.limit(base) != ""


def test_the_page_has_the_floor_and_the_words(folder: StudyFolder, analysis: Analysis) -> None:
    text = render(folder).read_text()
    assert text.count(f'">{LIMITED}</span>') == sum(
        bool(value.limited) for sheet in sheets(analysis) for row in sheet.rows for value in row.values
    )
    assert f'<span class="lab" title="{LIMITED}: the node&#39;s CPU was' in text
    assert '<section id="floor"' in text and "Some CPU @ 2.50GHz, 2 CPUs" in text
    for title, _ in METRICS.values():
        assert title in text
    assert "not measured" not in text


def test_every_figure_of_the_floor_is_in_one_group(analysis: Analysis) -> None:
    (table,) = floor_tables(analysis)
    assert len(table.rows) == len(METRICS)
    assert table.caution == ""


def test_reasons_are_told_once_for_each_phase(analysis: Analysis) -> None:
    rows, left = limited_rows(analysis)
    assert [(row.place, row.metrics) for row in rows] == [
        ("local/fio rand-write-4k", "write.iops"), ("local/fio rand-write-4k", "write.latency.mean"),
        ("drbd0/fio rand-write-4k", "write.iops"), ("drbd0/fio rand-write-4k", "write.latency.mean"),
        ("drbd0/tps-scale1", "4 values"),
    ]  # fmt: skip
    assert left == 0


def test_the_findings_name_what_is_limited(analysis: Analysis) -> None:
    said = caveats(analysis)
    assert "2 of 18: local/fio rand-write-4k and drbd0/fio rand-write-4k" in said
    assert "not measured" not in said


def test_the_terminal_marks_and_explains(folder: StudyFolder, tmp_path: Path) -> None:
    text = printed(folder, tmp_path)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "494 ± 17 TPS†" in text and "1,543 ± 52 IOPS†" in text and "833 ± 28 TPS  " in text
    assert text.count("†: limited by the lab") == 1


def test_the_files_have_the_reasons_the_floor_and_the_stops(folder: StudyFolder, analysis: Analysis) -> None:
    render(folder)
    with (folder.path / "report.csv").open(newline="") as file:
        marked = [row for row in csv.DictReader(file) if row["limited"]]
    assert len(marked) == len(analysis.limits) == 8
    assert all(row["limited"].startswith(f"{LIMITED}: ") for row in marked)
    found = json.loads((folder.path / "report.json").read_text())
    assert sum(bool(row["limited"]) for row in found["metrics"]) == 8
    assert found["floors"][0]["values"]["volume.write.latency"]["value"] == 0.45e-3
    assert found["seeds"] == [20_201] and found["repeats"] == 1
    assert [each["reason"] for each in found["stops"]].count("capped") == 9


# -- charts ---------------------------------------------------------------------------------------------------


def named(analysis: Analysis) -> Mapping[str, Chart]:
    return {chart.name: chart for chart in draw(analysis, check=True).shown}


def test_limited_bars_are_hollow_and_the_caption_says_so(analysis: Analysis, tmp_path: Path) -> None:
    chart = named(analysis)["bars"]
    rows = chart.panels[0].spec["datasets"]["shares"]
    hollow = [(row["what"], row["stack"]) for row in rows if "note" in row]
    assert hollow == [("tps-scale1", "drbd0"), ("rand-write-4k", "drbd0"), ("rand-write-4k", "drbd1")]
    assert chart.caption.endswith(HOLLOW)
    calm = named(analyse(synthetic.make(tmp_path, transactions=50)))["bars"]
    assert HOLLOW not in calm.caption
    shown = calm.panels[0].spec["datasets"]["shares"]
    assert shown and not any("note" in row for row in shown)


def test_limited_points_are_hollow(tmp_path: Path) -> None:
    study = synthetic.sweep(expect=[])
    labels = [cell.label for cell in cells(study) if cell.levels.get("threads") == "64"]
    folder = synthetic.make_sweep(tmp_path, study, seconds=5, busy=[each for each in labels if "mirror" in each])
    charts = named(analyse(folder))
    for name in ("sweep-tpcc", "share-tpcc"):
        rows = [row for panel in charts[name].panels for row in panel.spec["datasets"]["dots"]]
        assert {row["x"] for row in rows if "note" in row} == {6.0}
        assert sum("note" in row for row in rows) == 12
        assert charts[name].caption.endswith(HOLLOW)


def test_jobs_of_a_matrix_are_marked_at_their_depth(tmp_path: Path) -> None:
    charts = named(analyse(synthetic.make_patterns(tmp_path, seconds=3, lab=True, few=True)))
    (name,) = [name for name in charts if name.startswith("sweep-")]
    rows = [row for panel in charts[name].panels for row in panel.spec["datasets"]["dots"]]
    # 3,000 IOPS are within 1.5 times of 3,400, and 230 are not.
    assert any("note" in row for row in rows if row["v"] == 3000)
    assert not any("note" in row for row in rows if row["v"] < 1000)


# -- where the floor comes from -------------------------------------------------------------------------------


def test_without_a_floor_the_report_says_so_once(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)
    floor_file(folder.path, machine_of(synthetic.LAB)).unlink()
    text = render(folder).read_text().replace("&#39;", "'")
    assert text.count("was not measured on this machine") == 1 and NOT_MEASURED in text
    assert 'id="floor"' not in text and LIMITED not in text
    assert printed(folder, tmp_path).count("was not measured on this machine") == 1


def test_the_floor_of_another_image_marks_nothing(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)
    first = next(folder.cells.glob("*/environment.json"))
    edit(folder, "environment.json", image="other")
    assert not analyse(folder).limits
    told = json.loads(first.read_text())
    first.write_text(json.dumps({**told, "image": synthetic.LAB["image"]}))
    assert "The lab's floor was not measured on this machine for 8 of 9 cells" in caveats(analyse(folder))


def test_a_stack_with_an_addon_needs_the_floor_of_its_image(tmp_path: Path) -> None:
    stacks = {"local": {"on": "a1", "layers": [synthetic.RAW["stacks"]["local"]["layers"][0], {"layer": "xfs"},
                                               {"layer": "mysql"}]}}  # fmt: skip
    workloads = {"fio": synthetic.RAW["workloads"]["fio"]}
    study = synthetic.study(stacks=stacks, workloads=workloads, expect=[], baseline="")
    assert f"{NOT_MEASURED} --with mysql" in caveats(analyse(synthetic.make(tmp_path, study)))


def test_a_damaged_floor_is_said_and_hides_nothing(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)
    floor_file(folder.path, machine_of(synthetic.LAB)).write_text("{")
    analysis = analyse(folder)
    assert len(analysis.measured) == 9 and not analysis.limits
    assert "The lab's floor could not be read" in caveats(analysis) and "calibrate" in caveats(analysis)


def test_a_floor_of_a_busy_machine_is_told_with_it(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)
    save_floor(folder.path, synthetic.floor(steal_host=12.0))
    assert "12 % of this machine's CPU time was taken from it" in caveats(analyse(folder))


def test_a_run_takes_the_floor_into_the_studys_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path / "cache"))
    folder = synthetic.make(tmp_path, lab=True, missing=["local/fio"], transactions=50)
    machine = machine_of(synthetic.LAB)
    floor_file(folder.path, machine).unlink()
    (environment,) = folder.environments()
    assert keep_floor(folder.path, environment) == ""
    assert load_floor(folder.path, machine) is None
    save_floor(tmp_path / "cache", synthetic.floor())
    keep_floor(folder.path, environment, again=False)
    assert load_floor(folder.path, machine) == synthetic.floor()
    # A report made later does not change by what was calibrated since; a new run does.
    save_floor(tmp_path / "cache", synthetic.floor(link_rtt=9e-3))
    keep_floor(folder.path, environment, again=False)
    assert load_floor(folder.path, machine) == synthetic.floor()
    keep_floor(folder.path, environment)
    assert load_floor(folder.path, machine) == synthetic.floor(link_rtt=9e-3)
    floor_file(tmp_path / "cache", machine).write_text("{")
    assert "the lab's floor is left out" in keep_floor(folder.path, environment)


# -- what each layer did --------------------------------------------------------------------------------------


def rows_of(analysis: Analysis, title: str, stack: str) -> list[LayerRow]:
    (group,) = [group for group in layer_groups(analysis) if group.title == title]
    return [row for row in group.rows if row.label == stack]


def test_layers_stand_from_the_top_down_with_the_wire_between_the_nodes(analysis: Analysis) -> None:
    top, below, wire, peer = rows_of(analysis, "fio / rand-write-4k", "drbd0")
    assert [row.device for row in (top, below, wire, peer)] == [
        "drbd1 on a1", "vda on a1", "wire (vec0 of a1)", "vda on a2",
    ]  # fmt: skip
    assert (top.stack, below.stack) == ("drbd0", "")
    # 40.96 MB by fio, 1 % more at the top, and nothing of vdb on the peer, which did nothing.
    assert top.values == ("12", "10,000", "0.0492", "41.4", "1.01", NONE, NONE)
    assert below.values == ("12", "10,000", "0.0492", "41.4", "1.00", "0", NONE)
    assert wire.values == (NONE, NONE, "0.819", "43.4", "1.05", NONE, NONE)


def test_a_database_has_flushes_for_each_transaction(analysis: Analysis) -> None:
    (only,) = rows_of(analysis, "tps-scale50", "local")
    assert (only.flushes, only.per_transaction, only.per_byte) == ("10,400", "1.04", NONE)


def test_members_of_a_stripe_are_one_row(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)

    def striped(samples: list[Sample]) -> list[Sample]:
        kept = []
        for each in samples:
            if each.metric == "layer.write.amplification":
                kept.append(msgspec.structs.replace(each, layer="vda+vdb"))
                continue
            kept.append(each)
            if each.metric.startswith("layer."):
                kept.append(msgspec.structs.replace(each, layer="vdb"))
        return kept

    with_samples(folder, "local/fio", striped)
    (row,) = rows_of(analyse(folder), "fio / rand-write-4k", "local")
    assert (row.device, row.writes, row.written_mb, row.per_byte) == ("vda+vdb on a1", "20,000", "82.7", "1.01")


def test_many_phases_are_one_group_with_the_ratio_of_the_sums(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make_patterns(tmp_path, seconds=3, lab=True))
    (group,) = layer_groups(analysis)
    assert group.title == f"fio / all {len(synthetic.patterns())} phases"
    assert [row.per_byte for row in group.rows] == ["1.01", "1.01", "1.00", "1.05", "1.00"]


def test_a_suspect_cell_is_among_them(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, transactions=50)
    cell = next(cell for cell in folder.manifest().cells if cell.label == "drbd0/fio")
    path = folder.cells / cell.key / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "suspect", "error": "2 % too few"}))
    analysis = analyse(folder)
    assert rows_of(analysis, "fio / rand-write-4k", "drbd0")[0].stack == "drbd0 (suspect)"
    assert {gap.status for gap in analysis.gaps} == {"suspect"}
    assert "suspect" in render(folder).read_text()


def test_without_counts_there_is_no_such_table(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=50)
    assert layer_groups(analyse(folder)) == () and "What each layer did" not in render(folder).read_text()
    assert "what each layer did" not in printed(folder, tmp_path)


def test_the_terminal_tells_the_ratios_of_each_load(folder: StudyFolder, tmp_path: Path) -> None:
    text = printed(folder, tmp_path)
    assert "drbd1 1.01, vda 1.00, wire 1.05" in text and "vda 1.04, a2's vda 1.04" in text


# -- why a workload was stopped -----------------------------------------------------------------------------------


def test_each_phase_says_why_it_was_measured_no_longer(analysis: Analysis) -> None:
    found = stops(analysis)
    rows, left = found
    assert len(rows) == 9 and not left and {row.reason for row in rows} == {"capped"}
    assert (rows[0].place, rows[0].why) == ("local/fio rand-write-4k", "write.iops: interval is ±3.4 %")
    assert rows[0].rates == ("write: 1,543\u00a0±\u00a052\u00a0IOPS (3.4\u00a0%)",)
    said = stops_line(analysis).replace("\u00a0", " ")
    assert said == "Measured: 9 settled, 9 capped; 15 s to 60 s each; 95 % intervals ±1.1 %, at most ±3.4 %."


def test_of_many_phases_those_not_sure_are_listed(tmp_path: Path) -> None:
    folder = synthetic.make_patterns(tmp_path, seconds=3, lab=True)
    path = next(folder.cells.glob("*/stops.json"))
    stored = msgspec.json.decode(path.read_bytes(), type=list[Stopped])
    changed = [msgspec.structs.replace(stored[0], reason="drained", why="too short", rates=()), *stored[1:]]
    path.write_bytes(msgspec.json.encode(changed))
    found = stops(analyse(folder))
    assert [(row.reason, row.why, row.rates) for row in found[0]] == [("drained", "too short", ())]
    assert "Target precision not reached: " in caveats(analyse(folder))


def test_the_method_tells_the_order_and_the_repeats(folder: StudyFolder, tmp_path: Path) -> None:
    text = render(folder).read_text()
    assert "Every layout was built once; the cells that share one ran in a shuffled order (seed 20201;" in text
    assert "seed was" not in text
    other = synthetic.make(tmp_path, lab=True, transactions=50)
    edit(other, "environment.json", seed=None)
    assert order_text(analyse(other)).endswith("ran in the order of the study's file.")
    path = next(other.cells.glob("*/environment.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed": 7}))
    assert "(seed 7; --seed repeats it), some of them in the order of the file" in order_text(analyse(other))


def test_the_stops_of_all_blocks_are_told(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, synthetic.study(repeats=2), lab=True, transactions=50)
    analysis = analyse(folder)
    assert len(analysis.stops) == 36 and {stop.repeat for stop in analysis.stops} == {1, 2}
    found = stops(analysis)
    assert found[0][0].place.endswith("repeat 1") and len(found[0]) == 18
    assert order_text(analysis).startswith("Every layout was built and measured 2 times;")
    assert "Target precision not reached" in caveats(analysis)
