"""The answer on one screen: absolute values, what each layout costs, what it is worth, what to do next."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from blocklab.model.terminal import Console
from blocklab.report import render, terminal_table
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.limits import Limit
from blocklab.stats.overview import Amount, Bound, Overview, cost, overview
from blocklab.stats.summary import Estimate
from blocklab.stats.worth import next_step, worth
from blocklab.store.folder import StudyFolder
from tests.unit import synthetic, synthetic_drills

pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """Of one build of each layout; not to be changed."""
    return synthetic.make(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def analysis(folder: StudyFolder) -> Analysis:
    return analyse(folder)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def amount(found: Overview, layout: str, column: str) -> Amount:
    (place,) = [at for at, each in enumerate(found.columns) if each.title == column and not each.beside]
    (there,) = [each.amounts[place] for each in found.layouts if each.label == layout]
    assert there is not None
    return there


def printed(folder: StudyFolder, width: int = 80, *, every: bool = False) -> list[str]:
    with (folder.path / "out").open("w") as file:
        console = Console(width=width, record=True, file=file)
        console.print(terminal_table(folder, every=every))
    return plain(console.export_text()).splitlines()


def test_each_layout_has_its_own_values_and_what_it_costs(analysis: Analysis) -> None:
    found = overview(analysis)
    assert [each.label for each in found.layouts] == ["local", "drbd0", "drbd1"]
    assert found.layouts[0].baseline and found.layouts[1].about.startswith("mirror on a2")
    own = amount(found, "local", "tps-scale50")
    assert own.cost == "" and own.share is None and own.text.endswith("TPS")
    mirror = amount(found, "drbd1", "tps-scale50")
    assert mirror.value is not None and mirror.share is not None and own.value is not None
    assert mirror.share.value == pytest.approx(mirror.value / own.value)
    assert plain(mirror.cost) == f"{100 * (1 - mirror.share.value):.0f} % less" and mirror.worse


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (59.7e6, "The same on every layout, at the volume's cap of 60.0 MB/s: seq-write-1m"),
        (30e6, "The same on every layout (30.0 MB/s): seq-write-1m"),
    ],
)
def test_what_no_layout_changes_has_no_column(analysis: Analysis, value: float, says: str) -> None:
    rows = [
        msgspec.structs.replace(row, value=value) if row.own and row.metric == "write.bandwidth" else row
        for row in analysis.rows
    ]
    found = overview(replace(analysis, rows=tuple(rows)))
    (same,) = found.alike
    assert plain(same.sentence).startswith(says)
    assert "rand-write-1m" in same.names and not {each.title for each in found.columns} & set(same.names)
    assert overview(analysis).alike == ()


@pytest.mark.parametrize(
    ("limited", "bound"), [("", ""), ("local", "at least"), ("drbd0", "at most"), ("local drbd0", "unclear")]
)
def test_a_value_that_the_lab_limits_makes_a_bound(analysis: Analysis, limited: str, bound: Bound) -> None:
    limits = {(stack, "tps-scale50", "", "tps"): Limit("limited by its CPU", False) for stack in limited.split()}
    marked = replace(analysis)
    object.__setattr__(marked, "limits", limits)
    found = amount(overview(marked), "drbd0", "tps-scale50")
    assert found.bound == bound and bool(found.why) == bool(limited)
    assert found.cost.startswith({"": "", "at least": "≥ ", "at most": "≤ ", "unclear": "? "}[bound])


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Estimate(0.47), "53 % less"), (Estimate(0.47, 0.07), "53 ± 7 % less"), (Estimate(2.12), "112 % more"),
        (Estimate(0.9999), "0 % less"), (Estimate(1.0), "0 % more"),
    ],
)  # fmt: skip
def test_a_ratio_is_a_cost(share: Estimate, text: str) -> None:
    assert plain(cost(share)) == text


@pytest.mark.parametrize(
    ("share", "throughput", "text"),
    [
        (0.5, True, "≥ 50 % less"),
        (1.5, True, "≤ 50 % more"),
        (1.5, False, "≥ 50 % more"),
        (0.5, False, "≤ 50 % less"),
    ],
)
def test_a_baseline_that_the_lab_limits_makes_costs_larger_and_gains_smaller(
    share: float, throughput: bool, text: str
) -> None:
    assert plain(cost(Estimate(share), "at least", throughput=throughput)) == text


def test_one_build_is_a_first_look_and_three_are_not(analysis: Analysis, tmp_path: Path) -> None:
    first, *_ = worth(analysis)
    assert first.startswith("One build of each layout: a first look.")
    step = next_step(analysis, "my.yaml")
    assert step is not None and step.command == "blocklab run my.yaml --repeats 3"
    thrice = analyse(synthetic.make(tmp_path, synthetic.study(repeats=3)))
    first, *_ = worth(thrice)
    assert first.startswith("3 builds of each layout; ± is the 95 % interval over them. ")
    assert " differences are significant" in first
    assert "±" in amount(overview(thrice), "drbd0", "tps-scale50").cost


def test_no_more_than_two_lines_and_the_worst_limit_first(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, lab=True, busy=["local/tps-scale1"], failed=["drbd1/fio"])
    found = worth(analyse(folder))
    assert len(found) == 2 and found[1].startswith("1 of 9 cells have no results: drbd1/fio (failed)")
    step = next_step(analyse(folder), "")
    assert step is not None and step.command == "blocklab resume"


def test_a_study_without_values_has_no_table(tmp_path: Path) -> None:
    everything = [
        f"{stack}/{load}" for stack in ("local", "drbd0", "drbd1") for load in synthetic.study().workloads
    ]
    folder = synthetic.make(tmp_path, missing=everything)
    found = overview(analyse(folder))
    assert found.layouts == () and worth(analyse(folder)) == ()
    assert any("There is no answer yet" in line for line in printed(folder))


def test_a_sweep_is_shown_at_its_ends_and_says_what_is_left_out(tmp_path: Path) -> None:
    found = overview(analyse(synthetic.make_sweep(tmp_path, seconds=5)))
    assert {"local sync_binlog=0", "mirror rtt=20ms sync_binlog=1"} <= {each.label for each in found.layouts}
    assert found.columns[0].title == "tpcc threads=1" and found.columns[-1].title == "tpcc threads=64"
    assert plain(found.left_out) == "Layouts not shown: 10. Columns not shown: 2."


def test_drills_tell_of_loss_and_downtime_first(tmp_path: Path) -> None:
    folder = synthetic_drills.make_drills(tmp_path)
    found = overview(analyse(folder))
    assert [each.title for each in found.columns[:2]] == ["crashes with loss", "downtime (RTO)"]
    lost = [each.amounts[0] for each in found.layouts if each.amounts[0] is not None]
    assert {each.state for each in lost} >= {"ok", "lost"}
    assert all(plain(each.cost).startswith("≤") for each in lost if each.state == "ok")


@pytest.mark.parametrize("make", [synthetic.make, synthetic.make_sweep, synthetic_drills.make_drills])
def test_the_terminal_ends_with_the_answer_within_24_lines(make: object, tmp_path: Path) -> None:
    assert callable(make)
    folder = make(tmp_path)
    lines = printed(folder)
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert any("blocklab" in line for line in lines[-2:])
    every = printed(folder, 100, every=True)
    assert len(every) > len(lines) and any("blocklab" in line for line in every[-2:])


def test_page_and_json_have_the_same_values(folder: StudyFolder, analysis: Analysis) -> None:
    page = plain(render(folder).read_text())
    document = json.loads((folder.path / "report.json").read_text())
    for layout in overview(analysis).layouts:
        for each in layout.amounts:
            assert each is not None and plain(each.text) in page and plain(each.cost) in page
    mirror = document["overview"]["layouts"][1]
    assert mirror["label"] == "drbd0" and mirror["amounts"][0]["value"] > 0
    assert document["worth"] == list(worth(analysis))
    # The table comes before every sentence.
    assert page.index('class="values sheet overview"') < page.index('id="findings"') < page.index('id="method"')
