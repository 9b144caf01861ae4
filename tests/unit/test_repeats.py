"""Studies that are measured several times: what is taken within each repeat, and what is said of how often."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from blocklab.charts.all import draw
from blocklab.charts.bars import WIDEST, bars
from blocklab.charts.base import Chart
from blocklab.report import render
from blocklab.report.stops import order_text
from blocklab.report.tables import versions
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.expect import judge
from blocklab.stats.grid import Point
from blocklab.stats.ratio import verdict
from blocklab.stats.repeats import Repeats, combined
from blocklab.stats.source import of_study
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.types import Expectation
from tests.unit import synthetic
from tests.unit.answers import answered


def row(stack: str, value: float, workload: str = "small", metric: str = "tps") -> Row:
    return Row(stack, workload, "", metric, value, "1/s", "pgbench", "a1", own=True)


# The second block's machine was half as fast.
BLOCKS = [
    [row("local", 1000.0), row("mirror", 500.0), row("local", 800.0, "large"), row("mirror", 200.0, "large")],
    [row("local", 500.0), row("mirror", 255.0), row("local", 400.0, "large"), row("mirror", 98.0, "large")],
    [row("local", 750.0), row("mirror", 367.5), row("local", 600.0, "large"), row("mirror", 153.0, "large")],
]
TABLE = [row("local", 750.0), row("mirror", 374.2), row("local", 600.0, "large"), row("mirror", 150.3, "large")]
CELLS = [
    Point(stack, workload, stack, workload) for stack in ("local", "mirror") for workload in ("small", "large")
]


def test_a_claim_on_a_share_is_judged_within_each_block() -> None:
    claim = Expectation("tps", "small", "mirror", (0.46, 0.54), relative_to="local")
    found = judge(claim, TABLE, CELLS, {}, Repeats(BLOCKS))
    assert found.found == pytest.approx((0.5 * 0.51 * 0.49) ** (1 / 3)) and found.half is not None
    assert found.half < 0.03 and found.status == "ok"
    # One block has nothing to pair.
    assert judge(claim, TABLE, CELLS, {}, Repeats(BLOCKS[:1])).found == pytest.approx(374.2 / 750)


def test_so_is_a_share_against_another_share() -> None:
    claim = Expectation("tps", "small", "mirror", (1.5, 3), relative_to="local", against="large")
    found = judge(claim, TABLE, CELLS, {}, Repeats(BLOCKS))
    ratios = (0.5 / 0.25, 0.51 / 0.245, 0.49 / 0.255)
    assert found.found == pytest.approx((ratios[0] * ratios[1] * ratios[2]) ** (1 / 3))
    assert found.half is not None and found.status == "ok"


def test_blocks_that_lack_a_figure_or_divide_by_zero_do_not_count() -> None:
    repeats = [*BLOCKS, [row("local", 0.0), row("mirror", 3.0)], [row("mirror", 3.0)]]
    share = Repeats(repeats).share([row("mirror", 0)], [row("local", 0)])
    assert share is not None and share.value == pytest.approx((0.5 * 0.51 * 0.49) ** (1 / 3))
    assert Repeats(repeats[2:]).share([row("mirror", 0)], [row("local", 0)]) is None


def test_a_ratio_that_one_block_has_keeps_its_interval() -> None:
    first, second = row("mirror", 500.0), row("mirror", 480.0)
    first = msgspec.structs.replace(first, relative=Estimate(0.5, 0.02))
    (found,) = combined([[first], [second]])
    assert found.value == 490.0 and found.relative == Estimate(0.5, 0.02)


def make(tmp_path: Path, keep: int) -> Analysis:
    """Three blocks asked for; ``keep`` of them were measured."""
    folder = synthetic.make(tmp_path, synthetic.study(repeats=3), transactions=50)
    for cell in folder.manifest().cells:
        if cell.repeat >= keep:
            shutil.rmtree(folder.cells / cell.key)
    return analyse(StudyFolder(folder.path))


def caveats(analysis: Analysis) -> str:
    return " ".join(answered(analysis).caveats)


@pytest.mark.parametrize(("keep", "times"), [(3, "3 times"), (2, "2 of 3 times")])
def test_it_is_told_how_often_everything_was_measured(tmp_path: Path, keep: int, times: str) -> None:
    analysis = make(tmp_path, keep)
    assert f"Everything was measured {times}, each time on layouts that were built again." in caveats(analysis)
    assert order_text(analysis).startswith(f"Every layout was built and measured {times}")
    assert analysis.spread == "over the repeats"


def test_after_the_first_block_nothing_is_said_to_be_repeated(tmp_path: Path) -> None:
    analysis = make(tmp_path, 1)
    assert "Each cell is of one build of its layout." in caveats(analysis) and "blocklab resume" in caveats(
        analysis
    )
    assert analysis.spread == "within the runs"
    assert order_text(analysis).startswith("Every layout was built and measured 1 of 3 times")


def test_the_page_counts_runs_of_all_blocks_and_tells_where_one_differs(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, synthetic.study(repeats=2), transactions=50)
    last = folder.manifest().cells[-1]
    file = folder.cells / last.key / "environment.json"
    file.write_text(file.read_text().replace("6.1.0", "6.12.0"))
    page = render(folder).read_text()
    assert "18 of 18 cells measured" in page
    told = dict(versions(analyse(folder)).differs)["host.kernel"]
    assert (last.label, "6.12.0") in told and len(told) == 18
    assert "did not all run in the same environment: host.kernel was 6.1.0 and 6.12.0" in page


def test_an_endless_interval_does_not_make_an_endless_axis(tmp_path: Path) -> None:
    """Of two blocks that disagree the interval of the logarithms is enormous."""
    folder = synthetic.make(tmp_path, synthetic.study(repeats=2), transactions=50)
    for cell in folder.manifest().cells:
        if (cell.stack, cell.workload, cell.repeat) == ("drbd0", "tps-scale1", 1):
            for name in folder.cells.glob(f"{cell.key}/samples.parquet"):
                other = next(
                    c for c in folder.manifest().cells if c.stack == "drbd1" and c.workload == "tps-scale1"
                )
                shutil.copy(folder.cells / other.key / "samples.parquet", name)
    chart = bars(analyse(folder))
    assert isinstance(chart, Chart)
    rows = chart.panels[0].spec["datasets"]["shares"]
    wide = next(each for each in rows if each["stack"] == "drbd0" and each["what"].startswith("tps-scale1"))
    assert wide["high"] > 1000 and wide["edge"] <= wide["share"] + 100 * WIDEST + 1e-6


def test_a_study_of_one_stack_is_not_told_to_compare(tmp_path: Path) -> None:
    plan = synthetic.study(
        stacks={"local": synthetic.RAW["stacks"]["local"]}, links={}, nodes={"a1": {}}, expect=[],
    )  # fmt: skip
    lead = answered(analyse(synthetic.make(tmp_path, plan, transactions=50))).lead
    assert lead.startswith("There is one layout, local")


def test_a_line_is_not_pressed_flat_by_an_endless_interval(tmp_path: Path) -> None:
    plan = synthetic.sweep(repeats=2, factors={"threads": synthetic.SWEEP["factors"]["threads"]}, expect=[])
    folder = synthetic.make_sweep(tmp_path, plan, seconds=5)
    here = {cell.label: cell for cell in folder.manifest().cells}
    slow, fast = here["mirror/tpcc threads=1 (repeat 2)"], here["local/tpcc threads=64 (repeat 2)"]
    shutil.copy(folder.cells / fast.key / "samples.parquet", folder.cells / slow.key / "samples.parquet")
    chart = next(each for each in draw(analyse(folder), check=True).shown if each.name == "share-tpcc")
    spec = chart.panels[0].spec
    rows = [row for row in spec["datasets"]["dots"] if row["of threads"] == "1"]
    assert max(row["high"] for row in rows) > 1000, "the table has all of it"
    scales = [
        layer["encoding"]["y"]["scale"] for layer in spec["layer"] if "scale" in layer["encoding"].get("y", {})
    ]
    most = max(row["v"] for row in spec["datasets"]["dots"])
    assert scales and all(scale["domain"][1] <= 2.2 * max(most, 100) for scale in scales)


def test_blocks_that_agree_to_the_last_digit_show_no_difference(tmp_path: Path) -> None:
    """Percentiles of fio come in bins, counts are what a study sets."""
    folder = synthetic.make(tmp_path, synthetic.study(repeats=3), transactions=50)
    rows = {(row.stack, row.workload, row.metric): row for row in analyse(folder).rows if row.own}
    same = rows["drbd0", "tps-scale1", "transactions"].relative
    assert same is not None and verdict(same) == "no difference shown"
    assert (same.value, same.builds) == (1.0, 3) and same.half == pytest.approx(0.003, rel=0.01)
    assert rows["local", "tps-scale1", "transactions"].relative == Estimate(1.0), "to itself it has none"


def test_later_blocks_may_have_some_of_the_cells_only(tmp_path: Path) -> None:
    """Drills are repeated; what else a study measures is not."""
    plan = synthetic.study(repeats=3)
    folder = synthetic.make(tmp_path, plan, transactions=50)
    some = tuple(c for c in cells(plan) if c.repeat == 0 or (c.stack, c.workload) == ("drbd1", "tps-scale50"))
    StudyFolder.create(tmp_path, Manifest(plan, some))
    found = analyse(folder)
    assert not found.gaps and found.times == (1, 3)
    assert len(found.every) == len(some) == 11
    assert [len({row.stack for row in table}) for table in found.tables] == [3, 1, 1]
    assert len(of_study(folder).pieces) == 11
    assert render(folder).exists()
