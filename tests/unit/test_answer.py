"""The words of an answer: every share with its interval, no noise told as a range, nothing untrue of the data."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from blocklab.charts.bars import bars
from blocklab.charts.base import Chart
from blocklab.charts.forest import forest
from blocklab.charts.matrix import _shares
from blocklab.charts.plan import Dot
from blocklab.imports import Options, minimal, take
from blocklab.model.terminal import Console
from blocklab.report import versus as report
from blocklab.report.terminal import terminal_table
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.differences import Difference
from blocklab.stats.finding import Finding, clear, share_range
from blocklab.stats.findings import findings
from blocklab.stats.format import NBSP
from blocklab.stats.sentences import answer, range_text, sentence
from blocklab.stats.source import source
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.stats.versus import headlines, versus
from blocklab.store.folder import StudyFolder
from tests.unit import synthetic, versions
from tests.unit.import_samples import SUMMARY
from tests.unit.shells import Shell

pytestmark = pytest.mark.usefixtures("without_vega")
# What the study's own words would have to be: a share, and how sure it is.
SURE = r"\d+(\.\d+)? % ± \d+(\.\d+)?"


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


def with_shares(analysis: Analysis, share: Callable[[Row], Estimate]) -> Analysis:
    """The same with other shares of the baseline."""
    rows = tuple(
        row if row.relative is None or row.stack in analysis.grid.baselines
        else msgspec.structs.replace(row, relative=share(row))
        for row in analysis.rows
    )  # fmt: skip
    return dataclasses.replace(analysis, rows=rows)


def imports(runs: Path, rates: dict[str, float]) -> StudyFolder:
    """pgbench's summaries of some stacks, which have no time series."""
    places = {}
    for name, rate in rates.items():
        file = runs / f"{name}.txt"
        runs.mkdir(exist_ok=True)
        file.write_text(SUMMARY.replace("1182.956212", str(rate)))
        places[name] = [str(file)]
    return StudyFolder(take(minimal(list(rates)), None, places, runs / "out", Options()).folder)


# -- shares in sentences ----------------------------------------------------------------------


def test_every_share_of_the_answer_has_its_interval(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path))
    sure = with_shares(analysis, lambda row: Estimate(row.relative.value if row.relative else 1.0, 0.01))
    found = findings(sure)
    assert [number.half for each in found.lead for number in each.numbers] == [0.01] * 4
    lead = plain(answer(found).lead)
    assert len(re.findall(SURE, lead)) == lead.count("%") == 4


def test_a_sweeps_answer_has_intervals_at_both_ends_and_leaves_out_noise(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make_sweep(tmp_path, seconds=20))

    def noisy_at_64(row: Row) -> Estimate:
        share = row.relative.value if row.relative else 1.0
        return Estimate(
            3 * share if row.levels["threads"] == "64" else share, 9.9 if row.levels["threads"] == "64" else 0.01
        )

    found = findings(with_shares(analysis, noisy_at_64))
    (lead,) = found.lead
    assert (lead.stack, lead.count, lead.of, lead.beside) == ("mirror", 12, 84, "local's tpmC")
    low, high = lead.numbers
    assert "threads=1" in low.at and "threads=32" in high.at and low.half == high.half == 0.01
    (sure,) = [each for group in found.points for each in group if each.kind == "comparisons"]
    assert (sure.of, sure.value("too noisy to say")) == (84, 12)


def uncertain(analysis: Analysis) -> Finding:
    (found,) = [each for group in findings(analysis).points for each in group if each.kind == "comparisons"]
    return found


def test_comparisons_of_one_build_decide_nothing_and_those_of_three_do(tmp_path: Path) -> None:
    once = uncertain(analyse(synthetic.make(tmp_path)))
    assert sentence([once]) == "Of 12 comparisons: 12 are of one build each and decide nothing."
    again = uncertain(analyse(synthetic.make(tmp_path / "b", synthetic.study(repeats=3))))
    assert again.value("one build") is None and again.value("differs") == 12
    assert sentence([again]).endswith(
        "Without any difference the intervals of 0.6 of 12 would leave 1 out by chance; what differs here does so "
        "among all of them (Holm)."
    )


def test_a_layout_that_stood_on_another_volume_is_no_end_of_a_range(tmp_path: Path) -> None:
    """Of three builds each; the mirror's volume took 0.9 ms where the local one's took 0.45 ms."""
    folder = synthetic.make(tmp_path, synthetic.study(repeats=3), slow=synthetic.repeated("drbd0/tps-scale1"))
    analysis = analyse(folder)
    found = findings(analysis)
    assert [(each.stack, len(each.numbers), each.count) for each in found.lead] == [
        ("drbd0", 1, 1),
        ("drbd1", 2, 0),
    ]
    assert uncertain(analysis).value("unlike machines") == 1
    (said,) = [each for each in found.caveats if each.kind == "unlike"]
    assert (said.stack, said.about, said.names) == ("drbd0", "writes of vda on a1", ("drbd0/tps-scale1",))
    assert "(worst: writes of vda on a1, 0.9 ms in drbd0 and 0.45 ms in local)" in plain(sentence([said]))
    assert [each.status for each in analysis.verdicts] == ["ok", "unknown", "ok"]


def test_the_answer_is_short_and_names_no_pairs(tmp_path: Path) -> None:
    for made in (synthetic.make, synthetic.make_sweep, synthetic.make_patterns):
        found = answer(findings(analyse(made(tmp_path / made.__name__))))
        assert len(found.points) <= 5
        (said,) = [each for each in found.points if "comparison" in each] or [""]
        assert "drbd" not in said and "mirror" not in said


def test_a_share_that_is_known_is_an_end_of_a_range_whatever_the_number_of_comparisons() -> None:
    shares = [(Estimate(0.5, 0.16, 3, "chance"), "x"), (Estimate(0.7, 0.1, 3), "y")]
    among = share_range("m", shares, "a", throughput=True)
    assert plain(range_text([among])) == "m keeps from 50 % ± 16 (x) to 70 % ± 10 (y) of a"


def test_ranges_are_made_of_what_can_be_said() -> None:
    noisy, low, high = Estimate(0.97, 0.53), Estimate(0.35, 0.02), Estimate(0.5)
    assert clear([noisy, high, low], lambda each: each) == [low, high]
    alike = share_range(
        "m", [(Estimate(0.501, 0.02), "x"), (Estimate(0.499, 0.04), "y")], "a's TPS", throughput=True
    )
    assert plain(range_text([alike])) == "m keeps 50 % ± 4 throughout of a's TPS"
    none = share_range("mirror", [(noisy, "")] * 3, "local's TPS", throughput=True)
    assert range_text([none]) == "mirror is too noisy, or of unlike machines, to tell a share of local's TPS"
    some = share_range("b", [(low, "x"), (noisy, "y"), (high, "z")], "local's TPS", throughput=True)
    assert (some.count, some.of, some.verdict) == (1, 3, "keeps")
    assert plain(range_text([some, none])) == (
        "b keeps from 35 % ± 2 (x) to 50 % (z) of local's TPS (left out as too noisy, or as of unlike machines: "
        "1 of 3 of b and 3 of 3 of mirror)"
    )


def test_of_single_figures_no_median_was_taken(tmp_path: Path) -> None:
    study = synthetic.sweep(factors={"rtt": synthetic.SWEEP["factors"]["rtt"]}, expect=[])
    analysis = with_shares(
        analyse(synthetic.make_sweep(tmp_path, study, seconds=5)),
        lambda row: Estimate(row.relative.value if row.relative else 1.0),
    )
    (found,) = [each for group in findings(analysis).points for each in group if each.kind == "factor"]
    said = plain(sentence([found]))
    assert re.fullmatch(r"tpcc by rtt: the share of local is \d+ % at 0\.5ms and [\d.]+ % at 20ms\.", said)


def test_a_matrix_has_intervals_at_both_ends_and_leaves_out_noise() -> None:
    shares = {"1": Estimate(2.5, 2.0), "4": Estimate(0.4, 0.02), "16": Estimate(0.6, 0.03)}
    dots = [Dot("mirror", {"iodepth": depth}, 1.0, None, share, base=False) for depth, share in shares.items()]
    analysis = cast(Analysis, SimpleNamespace(baseline="local"))
    assert plain(_shares(analysis, dots, "1/s", "iops")) == (
        "mirror keeps from 40 % ± 2 (iodepth=4) to 60 % ± 3 (iodepth=16) of local's IOPS (left out as too noisy, "
        "or as of unlike machines: 1 of 3 of mirror)"
    )
    assert _shares(analysis, [], "1/s", "iops") == ""


def test_the_terminals_sweep_has_no_bare_share(tmp_path: Path) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    factors = {name: synthetic.SWEEP["factors"][name] for name in ("rtt", "threads")}
    study = synthetic.sweep(repeats=3, factors=factors, expect=[])
    console.print(terminal_table(synthetic.make_sweep(tmp_path, study, seconds=5), every=True))
    lines = [line for line in plain(console.export_text()).splitlines() if re.match(r" (1|2|4|8|16|32|64) ", line)]
    assert lines and all(len(line.rstrip()) <= 100 for line in lines)
    assert all(len(re.findall(SURE, line)) == line.count("%") for line in lines)


# -- what is imported -------------------------------------------------------------------------


def test_imported_summaries_are_not_said_to_be_noisy_or_short(tmp_path: Path) -> None:
    analysis = analyse(imports(tmp_path, {"local": 1200.0, "mirror": 600.0}))
    (lead,) = findings(analysis).lead
    assert (lead.stack, lead.verdict, lead.numbers[0].value) == ("mirror", "keeps", 0.5)
    assert (uncertain(analysis).of, uncertain(analysis).value("one build")) == (1, 1)
    drawn = bars(analysis)
    assert isinstance(drawn, Chart) and drawn.caption.endswith("There are no intervals: each is of one build.")
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal_table(StudyFolder(next((tmp_path / "out").iterdir())), analysis, every=True))
    assert "a share without ±: one build each" in console.export_text()


def test_two_imports_are_compared_without_words_about_noise_or_repeats(tmp_path: Path) -> None:
    a, b = (imports(tmp_path / name, {"local": rate}) for name, rate in (("a", 1200.0), ("b", 600.0)))
    found = versus(source(a.path), source(b.path))
    shown = headlines(found.pairs)
    assert (
        report.summary(found, shown)
        == "Of 1 value in B, beside A's: 1 of one build on a side, which decides nothing."
    )
    assert {pair.verdict for pair in found.pairs if pair.own and pair.ratio} == {"one build"}
    said = report.one_build(found)
    assert said.count("was imported from logs: how much another would differ is not known") == 2
    drawn = forest(shown, "A", "B", "")
    assert isinstance(drawn, Chart) and "each is of one build, and has no interval" in drawn.caption
    # Nothing is said of nodes that nobody described, and a layout is told in words.
    names = {each.name for each in found.differences}
    assert not [name for name in names if name.startswith("nodes.")]


def test_one_side_may_be_imported_and_the_other_measured(tmp_path: Path) -> None:
    a = imports(tmp_path / "a", {"local": 1200.0})
    b = versions.make(
        tmp_path / "b", {"local": [1000.0]}, noise=0.02, workloads={"pgbench": versions.RAW["workloads"]["tx"]}
    )
    found = versus(source(a.path), source(b.path))
    said = report.one_build(found)
    assert said.startswith("A was imported from logs: how much") and "B was measured on one build" in said
    assert not [each for each in found.differences if each.name.startswith("nodes.a1.")]


def test_the_key_has_the_marks_that_are_shown(tmp_path: Path) -> None:
    """Percentiles have no interval either, but none of them is in the table."""
    folder = synthetic.make(tmp_path)
    analysis = with_shares(
        analyse(folder),
        lambda row: Estimate(
            row.relative.value if row.relative else 1.0, None if "latency" in row.metric else 0.01
        ),
    )
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(terminal_table(folder, analysis, every=True))
    assert "without ±" not in console.export_text()


# -- where a page goes ------------------------------------------------------------------------


def test_a_page_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    folder = versions.make(tmp_path / "runs", {"local": [1000.0]})
    (tmp_path / "x.html").mkdir()
    for output, said in ((".", "is a folder"), ("/", "is a folder"), (str(tmp_path / "x.html"), "is a folder"),
                         ("page.pdf", "the page is HTML")):  # fmt: skip
        code, _, err = shell("report", str(folder.path), "-o", output)
        assert code == 2 and said in " ".join(err.split()) and "hint" in err
    code, _, err = shell("report", str(folder.path), "-o", str(tmp_path / "none" / "x.html"))
    assert code == 1 and "there is no folder" in " ".join(err.split())


# -- what differed ----------------------------------------------------------------------------


def test_a_layout_that_differs_is_told_in_words(tmp_path: Path) -> None:
    volume, fs, db = {"layer": "volume", "size": "1GiB"}, {"layer": "xfs"}, {"layer": "postgres"}
    drbd = {"layer": "drbd", "peer": "a2", "link": "zone"}

    def made(name: str, *layers: Mapping[str, object]) -> StudyFolder:
        stacks = {"local": {"on": "a1", "layers": list(layers)}}
        return versions.make(tmp_path / name, {"local": [1000.0]}, stacks=stacks)

    a, b = made("a", volume, fs, db), made("b", volume, {**drbd, "protocol": "A"}, fs, db)
    told = versus(source(a.path), source(b.path)).differences
    assert Difference(
        "study", "stacks.local.layers", "volume, xfs, postgres", "volume, drbd, xfs, postgres"
    ) in told  # fmt: skip
    # The mirror's own fields are no differences of something that both have.
    assert not [each for each in told if "drbd" in each.name or "{" in each.a + each.b or "(" in each.a + each.b]
    c = made("c", volume, drbd, fs, db)
    told = versus(source(b.path), source(c.path)).differences
    assert [(each.name, each.a, each.b) for each in told] == [("stacks.local.layers.drbd.protocol", "A", "C")]


def test_what_one_study_lacks_is_one_line(tmp_path: Path) -> None:
    a = versions.make(tmp_path / "a", {"local": [1000.0]})
    b = versions.make(
        tmp_path / "b", {"local": [1000.0]}, stacks={"local": versions.RAW["stacks"]["local"]},
        nodes={"a1": {}, "a2": {}, "a3": {}},
    )  # fmt: skip
    told = {each.name: (each.a, each.b) for each in versus(source(a.path), source(b.path)).differences}
    assert told["stacks.mirror"] == ("volume, drbd, xfs, postgres", "absent")
    assert set(told) == {"stacks.mirror", "nodes.a3"} and told["nodes.a3"][0] == "absent"
