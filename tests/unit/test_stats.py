"""Values, intervals, ratios and findings."""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import StoreError
from blocklab.model.sample import Parsed, Phase
from blocklab.stats.analysis import analyse
from blocklab.stats.compare import families, items
from blocklab.stats.findings import findings
from blocklab.stats.format import NBSP, exact, listed, number, percent, plus_minus, quantity, seconds
from blocklab.stats.ratio import ratio, verdict
from blocklab.stats.summary import Estimate, percentile, weighted_mean
from blocklab.stats.values import interval, within
from blocklab.store import tables
from blocklab.store.folder import StudyFolder
from blocklab.study.types import View
from tests.unit import synthetic
from tests.unit.answers import answered


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1031.4, "1,031"), (99.97, "100"), (62.94, "62.9"), (9.999, "10.0"), (3.527, "3.53"), (0.5812, "0.581"),
     (0, "0"), (-4.25, "-4.25"), (float("nan"), "?")],
)  # fmt: skip
def test_a_number_has_three_digits_that_mean_something(value: float, text: str) -> None:
    assert number(value) == text


def test_units_are_those_that_people_use() -> None:
    assert plain(quantity(0.000581, "s")) == "0.581 ms"
    assert plain(quantity(62_914_560, "B/s")) == "62.9 MB/s"
    assert plain(quantity(1031.4, "1/s", "tps")) == "1,031 TPS"
    assert plain(quantity(3046, "1/s", "write.iops")) == "3,046 IOPS"
    assert plain(quantity(10_000, "1")) == "10,000"
    assert plain(plus_minus(1031.4, 12.3, "1/s", "tps")) == "1,031 ± 12 TPS"
    assert plain(plus_minus(1031.4, 0.04, "1/s", "tps")) == "1,031 ± 0.04 TPS"
    assert plain(plus_minus(64.0, 0.0336, "%")) == "64.0 ± 0.03 %"
    assert plain(plus_minus(1371.6, 0.000681, "1/s", "iops")) == "1,372 ± <0.01 IOPS"
    assert plain(plus_minus(0.000581, 1e-11, "s")) == "0.581 ± <0.00001 ms"
    assert [plain(percent(share)) for share in (0.479, 0.042, 0, 1.36)] == ["48 %", "4.2 %", "0 %", "136 %"]
    shares = [(1.0003, 0.0002), (1.00005, 0.00004), (0.042, 0.0002), (0.479, 0.021), (1.0, 0.0)]
    assert [plain(percent(*share)) for share in shares] == [
        "100 % ± 0.02", "100 % ± <0.01", "4.2 % ± 0.02", "48 % ± 2", "100 % ± 0.0"
    ]  # fmt: skip
    assert plain(exact(0.0027, "s")) == "2.7 ms"
    assert plain(exact(4 * 2**30, "B")) == "4 GiB"
    assert plain(seconds(200)) == "3 min 20 s"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([4, 1, 3, 2], 0.5) == 2
    assert percentile([4, 1, 3, 2], 1.0) == 4
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.floats(0.1, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_lies_within_the_values(values: list[float], rank: float) -> None:
    assert percentile(values, rank) in values


def test_a_ratio_to_zero_is_none_and_never_infinite() -> None:
    assert ratio(Estimate(5), Estimate(0)) is None
    assert ratio(Estimate(0), Estimate(5)) == Estimate(0)
    assert ratio(Estimate(5, 0.1), Estimate(10, 0.1)) == Estimate(0.5), "two runs say nothing of another build"


@pytest.mark.parametrize(
    ("value", "half", "said"),
    [
        (0.98, 0.03, "no difference shown"),
        (1.03, 0.019, "differs"),
        (1.01, 0.03, "no difference shown"),
        # It may be 9 % more.
        (1.04, 0.05, "too noisy to say"),
        (1.0, 0.0, "no difference shown"),
        (0.98, 0.06, "too noisy to say"),
        (1.0, None, "one build"),
        (0.5, None, "one build"),
        (0.98, 0.019, "differs"),
        (1.4, 0.3, "differs"),
    ],
)
def test_a_ratio_is_never_bare(value: float, half: float | None, said: str) -> None:
    assert verdict(Estimate(value, half)) == said


def test_what_would_differ_may_be_doubted() -> None:
    sure = Estimate(0.5, 0.1, 3)
    assert verdict(msgspec.structs.replace(sure, doubt="chance")) == "too noisy to say"
    assert verdict(msgspec.structs.replace(sure, doubt="unlike machines")) == "unlike machines"
    # As near to 1 as that it does not matter whether it is chance.
    assert verdict(Estimate(0.99, 0.003, 3, "chance")) == "no difference shown"
    # Of a ratio whose interval holds 1 chance has nothing to say.
    assert verdict(Estimate(1.0, 0.01, 3, "chance")) == "no difference shown"


def test_no_requests_no_mean_await() -> None:
    assert weighted_mean([1.0, 3.0], [1, 3]) == 2.5
    assert weighted_mean([1.0], [0]) is None


def test_a_probes_second_counts_only_if_all_of_it_lies_in_the_phase() -> None:
    points = [(10.0, 1.0), (10.5, 2.0), (11.0, 3.0), (20.0, 4.0), (20.1, 5.0)]
    assert [value for _, value in within(points, Phase("p", 10, 20))] == [3.0, 4.0]


def test_a_point_that_stands_for_ten_seconds_counts_only_if_all_of_them_lie_in_the_phase() -> None:
    points = [(float(at), float(at)) for at in range(0, 70, 10)]
    assert interval(points) == 10.0
    assert [value for _, value in within(points, Phase("p", 15, 60), step=interval(points))] == [30, 40, 50, 60]
    # A device that was at rest has no report, but some of the others are neighbours.
    assert interval([(at, 1.0) for at in (0.0, 10.0, 40.0, 70.0, 90.0)]) == 10.0
    # Ours are a second apart, give or take a little.
    assert interval([(0.0, 1.0), (1.01, 1.0), (2.02, 1.0)]) == interval([(3.0, 1.0)]) == interval([]) == 1.0


def test_every_figure_has_its_ratio_to_the_baselines(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path))
    row = analysis.find("drbd1", "tps-scale1", "tps")
    assert row is not None and row.relative is not None
    assert row.relative.value == pytest.approx(237 / 1031)
    own = analysis.find("local", "tps-scale1", "tps")
    assert own is not None and own.relative == Estimate(1.0)


def test_the_top_device_is_compared_though_its_name_differs(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path))
    tops = {
        row.stack: row
        for row in analysis.rows
        if row.top and row.metric == "write.await" and row.phase == "rand-write-4k"
    }
    assert {stack: row.layer for stack, row in tops.items()} == {
        "local": "vda",
        "drbd0": "drbd1",
        "drbd1": "drbd1",
    }
    share = tops["drbd1"].relative
    assert share is not None and share.value == pytest.approx(3.6 / 0.648, rel=0.05)


def test_a_failed_or_invalid_or_broken_or_missing_cell_is_a_gap_and_has_no_figures(tmp_path: Path) -> None:
    folder = synthetic.make(
        tmp_path, failed=["drbd0/fio"], invalid=["drbd0/tps-scale1"], missing=["drbd1/tps-scale50"]
    )
    broken = next(cell for cell in folder.manifest().cells if cell.label == "drbd1/fio")
    (folder.cells / broken.key / "samples.parquet").write_text("{")
    analysis = analyse(folder)
    assert {f"{gap.stack}/{gap.workload}": gap.status for gap in analysis.gaps} == {
        "drbd0/fio": "failed",
        "drbd0/tps-scale1": "invalid",
        "drbd1/fio": "unreadable",
        "drbd1/tps-scale50": "missing",
    }
    assert not {(row.stack, row.workload) for row in analysis.rows} & {
        (gap.stack, gap.workload) for gap in analysis.gaps
    }
    caveats = plain(" ".join(answered(analysis).caveats))
    assert "4 of 9 cells have no results" in caveats and "drbd0/fio (failed)" in caveats


def test_a_folder_that_is_no_studys_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no study\.json"):
        analyse(StudyFolder(tmp_path))


def test_large_requests_are_told_in_megabytes_and_small_ones_in_operations(tmp_path: Path) -> None:
    metrics = {item.label: item.metric for item in items(analyse(synthetic.make(tmp_path)))}
    assert metrics["seq-write-1m"] == "write.bandwidth"
    assert metrics["rand-write-4k"] == "write.iops"
    assert next(iter(metrics)) == "tps-scale1"


def test_the_answer_has_the_shares_the_contrast_and_the_confirmed_claim(tmp_path: Path) -> None:
    found = findings(analyse(synthetic.make(tmp_path)))
    near, far = found.lead
    assert (near.kind, near.stack, near.verdict, near.beside) == ("range", "drbd0", "keeps", "local's TPS")
    assert plain(near.note) == "mirror on a2, 0.5 ms away"
    assert [(each.at, round(each.value, 2)) for each in far.numbers] == [
        ("tps-scale1", 0.23),
        ("tps-scale50", 0.64),
    ]
    # What the expectations say stands in their table.
    (last,) = found.points[-1]
    assert (last.kind, last.of, last.value("ok"), last.value("unknown"), last.count) == (
        "expectations", 3, None, 3, 3,
    )  # fmt: skip
    assert [each.kind for each in found.caveats] == ["floor", "repeats"] and found.caveats[1].verdict == "run"


def test_when_the_figures_say_otherwise_the_answer_does_too(tmp_path: Path) -> None:
    found = findings(analyse(synthetic.make(tmp_path, synthetic.study(repeats=3), factor=0.4)))
    (last,) = found.points[-1]
    assert (last.value("ok"), last.value("failed"), last.count) == (2, 1, 0)
    assert found.lead[1].numbers[-1].value < 0.6


def test_a_claim_without_an_interval_is_counted_as_undecided(tmp_path: Path) -> None:
    claim = {**synthetic.RAW["expect"][2], "between": [1.5, 6]}
    study = synthetic.study(expect=[{**claim, "says": "scale 50 hides the round trip"}])
    points = answered(analyse(synthetic.make(tmp_path, study, factor=0.37))).points
    assert points[-1] == "Expectations of the study: 1 undecided."


def test_a_claim_about_a_cell_that_failed_is_undecided(tmp_path: Path) -> None:
    study = synthetic.study(repeats=3)
    found = answered(analyse(synthetic.make(tmp_path, study, failed=synthetic.repeated("drbd1/tps-scale50"))))
    assert "2 confirmed and 1 undecided" in " ".join(found.points)


def test_without_any_figure_there_is_no_answer(tmp_path: Path) -> None:
    everything = [f"{s}/{w}" for s in synthetic.RAW["stacks"] for w in synthetic.RAW["workloads"]]
    assert "There is no answer yet" in answered(analyse(synthetic.make(tmp_path / "a", missing=everything))).lead
    others = [label for label in everything if not label.startswith("local/")]
    assert "nothing to compare" in answered(analyse(synthetic.make(tmp_path / "b", missing=others))).lead


def test_a_quick_run_says_so(tmp_path: Path) -> None:
    assert any("quick run" in text for text in answered(analyse(synthetic.make(tmp_path, quick=True))).caveats)


@pytest.mark.parametrize(
    ("busy", "where", "skewed"),
    [
        (["local"], "a1 on local", "The overhead of slower layouts is understated."),
        (["drbd0"], "a1 on drbd0", "The overhead of these layouts is overstated."),
        (["local", "drbd0"], "a1 on local, a1 on drbd0",
         "Overhead is understated beside local, and overstated where a layout's own CPU was saturated."),
    ],
)  # fmt: skip
def test_a_saturated_cpu_is_said_with_the_answer(tmp_path: Path, busy: list[str], where: str, skewed: str) -> None:
    folder = synthetic.make(tmp_path)
    assert not any("CPU" in text for text in answered(analyse(folder)).caveats)
    for cell in folder.manifest().cells:
        if cell.label not in [f"{stack}/tps-scale1" for stack in busy]:
            continue
        under = folder.cells / cell.key
        samples = tuple(
            msgspec.structs.replace(row, value=3.0) if (row.metric, row.host) == ("cpu.idle", "a1") else row
            for row in tables.samples(under)
        )
        tables.write(under, Parsed(samples))
    (told,) = (plain(text) for text in answered(analyse(folder)).caveats if "CPU" in text)
    assert told.startswith(
        f"The CPU was saturated (at least 97 % busy) in tps-scale1 ({where}), in {len(busy)} of 9 cells: "
    ) and told.endswith(skewed)


def test_runs_that_are_read_at_once_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = synthetic.make(tmp_path, transactions=100)
    paths = [folder.cells / cell.key for cell in folder.manifest().cells]
    ahead = tables.ahead(paths)
    assert set(ahead) == set(paths)
    for path, groups in ahead.items():
        assert tables.series_by_name(path, groups) == tables.series_by_name(path)
    asked: list[int] = []
    rows = tables._rows

    def counted(files: Sequence[str], select: str, more: str) -> list[tuple[Any, ...]]:
        asked.extend([len(files)] if "samples" in files[0] else [])
        return rows(files, select, more)

    monkeypatch.setattr(tables, "_rows", counted)
    before = analyse(folder)
    assert sum(asked) == len(paths) and len(asked) == math.ceil(len(paths) / 8) < len(paths)
    # One that is damaged hides none of those that it would be read with.
    (paths[1] / "samples.parquet").write_text("{")
    (paths[2] / "samples.parquet").unlink()
    after = analyse(folder)
    assert [gap.status for gap in after.gaps] == ["unreadable"] * 2
    assert [run.folder for run in after.every] == [path for path in paths if path not in paths[1:3]]
    assert all(run in before.every for run in after.every)


def test_an_analysis_leaves_the_collector_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        analyse(StudyFolder(tmp_path))
    assert gc.isenabled()
    analyse(synthetic.make(tmp_path, transactions=100))
    assert gc.isenabled()


def test_comparisons_are_made_once_of_an_analysis(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path, transactions=100))
    assert items(analysis) is items(analysis) and families(analysis) is families(analysis)
    asked = msgspec.structs.replace(analysis.study, report=View(y="latency.p99"))
    other = dataclasses.replace(analysis, study=asked)
    assert {item.metric for item in items(other)} != {item.metric for item in items(analysis)}
