"""Two studies or runs beside each other: what pairs, what the interval says, and when a build fails on it."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import re
from pathlib import Path

import pytest
from msgspec import structs

from blocklab.errors import StudyError
from blocklab.model.terminal import Console
from blocklab.report import versus as report
from blocklab.stats.differences import differences
from blocklab.stats.guard import Condition, condition, judge
from blocklab.stats.repeats import interval
from blocklab.stats.source import Source, source
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row
from blocklab.stats.versus import Pair, headlines, versus
from blocklab.store.folder import StudyFolder
from tests.unit import versions
from tests.unit.shells import Shell

LOCAL = (1000.0, 1010.0, 990.0, 1004.0, 996.0)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


pytestmark = pytest.mark.usefixtures("without_vega")


def two(
    tmp_path: Path, a: tuple[float, ...] = LOCAL, b: tuple[float, ...] = LOCAL
) -> tuple[StudyFolder, StudyFolder]:
    return versions.make(tmp_path / "a", {"local": a}), versions.make(tmp_path / "b", {"local": b})


def tps(a: StudyFolder, b: StudyFolder) -> Pair:
    found = versus(source(a.path), source(b.path))
    return next(pair for pair in found.pairs if pair.metric == "tps")


# -- ratios -----------------------------------------------------------------------------------


def test_the_ratio_is_that_of_the_blocks_and_has_their_interval(tmp_path: Path) -> None:
    pair = tps(*two(tmp_path, b=tuple(0.8 * rate for rate in LOCAL)))
    assert pair.pairs == 5 and pair.ratio is not None and pair.ratio.half is not None
    assert pair.ratio.value == pytest.approx(0.8) and pair.ratio.half == pytest.approx(0.8 * 0.003, rel=0.01)
    assert pair.verdict == "differs"


def test_what_a_block_has_in_common_on_both_sides_cancels_out(tmp_path: Path) -> None:
    """Blocks that differ by far more than the two sides do: unpaired, nothing could be said."""
    uneven = (500.0, 1000.0, 2000.0)
    pair = tps(*two(tmp_path, uneven, (451.0, 899.0, 1802.0)))
    assert pair.ratio is not None and pair.ratio.half is not None and pair.ratio.half < 0.01
    assert pair.verdict == "differs" and pair.a.half is not None and pair.a.half > 1000


def test_noise_is_too_noisy_and_sameness_is_no_difference(tmp_path: Path) -> None:
    assert tps(*two(tmp_path / "1", b=(700.0, 1300.0, 900.0, 1200.0, 940.0))).verdict == "too noisy to say"
    assert tps(*two(tmp_path / "2", b=(1003.0, 1008.0, 992.0, 1001.0, 997.0))).verdict == "no difference shown"


def test_a_side_with_fewer_blocks_pairs_those_that_it_has(tmp_path: Path) -> None:
    assert tps(*two(tmp_path, b=(801.0, 807.0, 793.0))).pairs == 3


def test_single_builds_decide_nothing_however_sure_they_are_within_the_run(tmp_path: Path) -> None:
    a = versions.make(tmp_path / "a", {"local": [1000.0]}, noise=0.02)
    b = versions.make(tmp_path / "b", {"local": [800.0]}, noise=0.02)
    pair = tps(a, b)
    assert pair.a.half is not None and pair.a.half < 20
    assert (pair.pairs, pair.ratio, pair.verdict) == (0, Estimate(0.8), "one build")
    assert versus(source(a.path), source(b.path)).once == ("A", "B")


def test_a_figure_without_interval_decides_nothing(tmp_path: Path) -> None:
    pair = tps(
        versions.make(tmp_path / "a", {"local": [1000.0]}), versions.make(tmp_path / "b", {"local": [500.0]})
    )
    assert pair.ratio == Estimate(0.5) and pair.verdict == "one build"


def test_zero_on_side_a_has_no_ratio(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    found = versus(source(a.path), source(b.path))
    failed = next(pair for pair in found.pairs if pair.metric == "failed")
    assert failed.ratio is None and failed.verdict is None


def test_a_block_in_which_only_a_has_none_is_not_left_out_of_the_verdict(tmp_path: Path) -> None:
    """Errors: none, 5 and 5 in A, 100, 5 and 5 in B: two blocks that agree do not say that nothing changed."""

    def side(name: str, errors: tuple[float, ...]) -> Source:
        folder = versions.make(tmp_path / name, {"local": LOCAL[:3]})
        found = source(folder.path)

        def planted(rows: tuple[Row, ...], known: Estimate) -> tuple[Row, ...]:
            return tuple(
                structs.replace(row, value=known.value, half=known.half) if row.metric == "failed" else row
                for row in rows
            )

        pieces = tuple(
            structs.replace(piece, rows=planted(piece.rows, Estimate(errors[piece.cell.repeat])))
            for piece in found.pieces
        )
        return dataclasses.replace(found, pieces=pieces, rows=planted(found.rows, interval(errors)))

    found = versus(side("a", (0.0, 5.0, 5.0)), side("b", (100.0, 5.0, 5.0)))
    pair = next(pair for pair in found.pairs if pair.metric == "failed")
    assert pair.ratio is not None and pair.ratio.value == pytest.approx(11) and pair.verdict == "one build"
    (judged,) = judge([condition("failed > 1.5")], found)
    assert judged.outcome == "undecided" and "one build on a side" in judged.why


# -- what pairs -------------------------------------------------------------------------------


def test_cells_of_one_side_are_named_with_the_other_ones_reason(tmp_path: Path) -> None:
    a = versions.make(tmp_path / "a", {"local": [1000.0], "mirror": [500.0]})
    b = versions.make(tmp_path / "b", {"local": [1000.0], "mirror": [500.0]}, failed=["mirror/tx"])
    found = versus(source(a.path), source(b.path))
    (lone,) = found.lone
    assert (lone.side, lone.label, lone.gap) == ("a", "mirror/tx", "failed: a1: node lost")
    fewer = versions.make(tmp_path / "c", {"local": [1000.0]}, stacks={"local": versions.RAW["stacks"]["local"]})
    (lone,) = versus(source(fewer.path), source(a.path)).lone
    assert (lone.side, lone.label, lone.gap) == ("b", "mirror/tx", "")


def test_a_factor_that_one_side_lacks_at_one_level_does_not_tell_cells_apart(tmp_path: Path) -> None:
    one = {"clients": {"field": "workloads.tx.clients", "values": [4]}}
    several = {"clients": {"field": "workloads.tx.clients", "values": [4, 8]}}
    plain = versions.make(tmp_path / "a", {"local": [1000.0]})
    single = versions.make(tmp_path / "b", {"local": [1000.0]}, factors=one)
    swept = versions.make(tmp_path / "c", {"local": [1000.0]}, factors=several)
    assert tps(plain, single).levels == {}
    found = versus(source(single.path), source(swept.path))
    assert {str(pair.levels) for pair in found.pairs} == {"{'clients': '4'}"}
    assert [lone.label for lone in found.lone] == ["local/tx clients=8"]
    assert versus(source(plain.path), source(swept.path)).pairs == ()


def test_a_factor_that_makes_no_difference_to_a_stack_does_not_keep_it_from_being_compared(tmp_path: Path) -> None:
    """With one round trip only, also the stack without a link is said to stand at it."""
    rtt = {"field": "links.zone.rtt"}
    both = {"local": [1000.0], "mirror": [500.0]}
    swept = versions.make(tmp_path / "a", both, factors={"rtt": {**rtt, "values": ["1ms", "2ms"]}})
    single = versions.make(tmp_path / "b", both, factors={"rtt": {**rtt, "values": ["2ms"]}})
    found = versus(source(swept.path), source(single.path))
    assert {pair.place for pair in found.pairs} == {"local/tx", "mirror/tx rtt=2ms"}
    assert [lone.label for lone in found.lone] == ["mirror/tx rtt=1ms"]


def test_two_single_runs_compare_whatever_their_stacks_are_called(tmp_path: Path) -> None:
    folder = versions.make(tmp_path, {"local": [1000.0], "mirror": [500.0]}, noise=0.01)
    keys = {cell.stack: folder.cells / cell.key for cell in folder.manifest().cells}
    found = versus(source(keys["local"]), source(keys["mirror"]))
    pair = next(pair for pair in found.pairs if pair.metric == "tps")
    assert pair.stack == "local → mirror" and pair.ratio is not None
    assert pair.ratio == Estimate(0.5) and pair.verdict == "one build"


def test_a_run_that_was_copied_out_of_its_study_compares_with_the_study(tmp_path: Path) -> None:
    folder = versions.make(tmp_path, {"local": [1000.0]}, noise=0.01)
    (tmp_path / "copy").mkdir()
    copy = (folder.cells / folder.manifest().cells[0].key).rename(tmp_path / "copy" / "mine")
    other = versions.make(tmp_path / "b", {"local": [900.0]}, noise=0.01)
    found = versus(source(copy), source(other.path))
    assert [(pair.stack, pair.workload) for pair in headlines(found.pairs)] == [("local", "tx")]


# -- the command ------------------------------------------------------------------------------


def test_the_table_has_ratio_interval_verdict_and_what_differed_in_100_columns(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    a = versions.make(tmp_path / "a", {"local": LOCAL, "mirror": LOCAL}, knobs={"fsync": "on"})
    slow = tuple(0.8 * rate for rate in LOCAL)
    environment = {**versions.ENVIRONMENT, "packages": {"fio": "3.41"}, "seed": 8}
    links = {"zone": {"between": ["a1", "a2"], "rtt": "2ms"}}
    b = versions.make(
        tmp_path / "b",
        {"local": LOCAL, "mirror": slow},
        knobs={"fsync": "off"},
        environment=environment,
        links=links,
    )
    code, out, err = shell("compare", str(a.path), str(b.path))
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 100
    text = out.replace("\xa0", " ")
    assert re.search(r"mirror/tx +tps +1,000 ± 10 TPS +800 ± 8 TPS +0\.800 ± 0\.002 +differs", text), text
    assert re.search(r"local/tx +tps .* 1\.000 ± 0\.003 +no difference", text), text
    for name, before, after in (
        ("packages.fio", "3.39", "3.41"), ("seed", "7", "8"), ("links.zone.rtt", "0.001s", "0.002s"),
        ("local: a1 postgres fsync", "on", "off"),
    ):  # fmt: skip
        assert re.search(rf"{re.escape(name)} +{before} +{after}", text), name
    assert "latency.mean" not in text
    assert "latency.mean" in shell("compare", str(a.path), str(b.path), "--metric", "latency.mean")[1]
    assert "cpu.idle" in shell("compare", str(a.path), str(b.path), "--all")[1]


def test_other_machines_are_refused_without_across(tmp_path: Path, shell: Shell) -> None:
    a, _ = two(tmp_path)
    other = {**versions.ENVIRONMENT, "host": {**versions.HOST, "kernel": "6.9.9"}}
    c = versions.make(tmp_path / "c", {"local": LOCAL}, environment=other)
    code, out, err = shell("compare", str(a.path), str(c.path))
    assert code == 2 and out == "" and "host.kernel: 6.1.0 / 6.9.9" in err and "--across" in err
    code, out, err = shell("compare", str(a.path), str(c.path), "--across")
    assert code == 0 and "host.kernel" in out


def test_two_machines_of_one_kind_are_told_apart(tmp_path: Path, shell: Shell) -> None:
    """Two instances of a cloud's one kind have the same CPU, kernel and image."""
    here, there, before = (
        versions.make(tmp_path / name, {"local": LOCAL}, environment={**versions.ENVIRONMENT, **more})
        for name, more in (("a", {"machine": "aaa"}), ("b", {"machine": "bbb"}), ("c", {}))
    )
    code, out, err = shell("compare", str(here.path), str(there.path))
    assert code == 2 and out == "" and "machine: aaa / bbb" in err and "--across" in err
    first, *_ = differences(source(here.path), source(there.path))
    assert (first.part, first.name) == ("machine", "machine")
    # Runs of before do not say.
    assert shell("compare", str(before.path), str(here.path))[0] == 0


def test_two_drivers_are_two_inputs(tmp_path: Path, shell: Shell) -> None:
    """As two kernels are: a mirror of DRBD 8.4 and one of 9 are not compared unless asked for."""
    old, new, before = (
        versions.make(tmp_path / name, {"local": LOCAL}, knobs=knobs)
        for name, knobs in (("a", {"driver": "8.4.11"}), ("b", {"driver": "9.3.3"}), ("c", {"fsync": "on"}))
    )
    code, out, err = shell("compare", str(old.path), str(new.path))
    assert code == 2 and out == "" and "driver: 8.4.11 / 9.3.3" in err and "--across" in err
    first, *_ = differences(source(old.path), source(new.path))
    assert (first.part, first.a, first.b) == ("machine", "8.4.11", "9.3.3")
    # Runs of before do not say.
    assert shell("compare", str(before.path), str(new.path))[0] == 0


def test_mistakes_are_one_message_and_exit_code_2(tmp_path: Path, shell: Shell) -> None:
    a, b = two(tmp_path)
    c = versions.make(tmp_path / "c", {"local": LOCAL}, workloads={"other": versions.RAW["workloads"]["tx"]})
    for argv, said in (
        ((str(a.path), str(c.path)), "no value in common"),
        ((str(a.path), str(a.path)), "A and B are both"),
        ((str(a.path), str(tmp_path / "nowhere")), "there is no"),
        ((str(a.path), str(tmp_path)), "holds no runs"),
        ((str(a.path), str(b.path), "--metric", "tsp"), "no value of that name"),
        ((str(a.path), str(b.path), "--strict"), "--strict without --fail-on"),
        ((str(a.path), str(b.path), "-o", "x.pdf"), "the page is HTML"),
        ((str(a.path), str(b.path), "-o", "."), "is a folder"),
        ((str(a.path), str(b.path), "-o", ".."), "is a folder"),
        ((str(a.path), str(b.path), "-o", str(tmp_path)), "is a folder"),
        ((str(a.path), str(b.path), "--fail-on", "tsp < 0.9"), "about no value"),
        ((str(a.path), str(b.path), "--fail-on", "tps < 0.9 stack=mirror"), "tps is there of local/tx"),
    ):
        code, out, err = shell("compare", *argv)
        assert (code, out) == (2, "") and said in " ".join(err.split()), (argv, err)


def test_json_has_everything(tmp_path: Path, shell: Shell) -> None:
    a, b = two(tmp_path, b=tuple(0.8 * rate for rate in LOCAL))
    code, out, _ = shell("compare", str(a.path), str(b.path), "--json", "--all", "--fail-on", "tps < 0.9")
    found = json.loads(out)
    row = next(row for row in found["metrics"] if row["metric"] == "tps")
    assert (
        code == 1 and row["relative"] == pytest.approx(0.8) and row["repeats"] == 5 and row["verdict"] == "differs"
    )
    assert row["a"] == pytest.approx(1000) and row["b"] == pytest.approx(800)
    assert [each["outcome"] for each in found["fail_on"]] == ["fails"]


def test_the_page_is_whole_escaped_and_asks_nobody(tmp_path: Path, shell: Shell) -> None:
    a, b = two(tmp_path, b=tuple(0.8 * rate for rate in LOCAL))
    page = tmp_path / "x.html"
    assert shell("compare", str(a.path), str(b.path), "-o", str(page), "--fail-on", "tps<0.1")[0] == 0
    text = page.read_text()
    assert "https://" not in text and "http://" not in text and "local/tx tps" in text and 'id="forest"' in text
    assert shell("compare", str(a.path), str(b.path), "-o", str(page), "--metric", "latency.mean")[0] == 0
    assert "local/tx latency.mean" in page.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.html"]


def test_the_page_says_on_which_node_a_probe_was(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    found = versus(source(a.path), source(b.path))
    (busy,) = [pair for pair in found.pairs if pair.metric == "cpu.busy"]
    shown = [busy, structs.replace(busy, host="a2")]
    text = report.page(dataclasses.replace(found, pairs=(*found.pairs, shown[1])), shown)
    for said in ("cpu on a1", "cpu on a2", "pgbench"):
        assert f'<span class="by">{said}</span>' in text


# -- conditions -------------------------------------------------------------------------------


def test_a_planted_slowdown_fails_and_noise_does_not(tmp_path: Path, shell: Shell) -> None:
    """The same spread from block to block, with and without 20 % less."""
    chance = random.Random(4)

    def noisy(factor: float) -> tuple[float, ...]:
        return tuple(factor * 1000 * chance.gauss(1, 0.03) for _ in range(6))

    a = versions.make(tmp_path / "a", {"local": noisy(1.0)})
    same = versions.make(tmp_path / "b", {"local": noisy(1.0)})
    slow = versions.make(tmp_path / "c", {"local": noisy(0.8)})
    argv = ("--fail-on", "tps < 0.95", "--fail-on", "latency.mean > 1.05")
    assert shell("compare", str(a.path), str(same.path), *argv)[0] == 0
    code, out, _ = shell("compare", str(a.path), str(slow.path), *argv)
    assert code == 1 and "✗ fails: tps < 0.95: local/tx tps is 0." in out
    assert "✗ fails: latency.mean > 1.05" in out
    # It is about B against A, and not the other way round.
    assert shell("compare", str(slow.path), str(a.path), *argv)[0] == 0


def test_what_is_in_doubt_fails_only_when_strict(tmp_path: Path, shell: Shell) -> None:
    a, b = two(tmp_path, (1000.0, 1000.0, 1000.0), (700.0, 1100.0, 900.0))
    argv = ("compare", str(a.path), str(b.path), "--fail-on", "tps < 0.95")
    code, out, _ = shell(*argv)
    assert code == 0 and "? undecided: tps < 0.95" in out
    assert shell(*argv, "--strict")[0] == 1


def test_a_cell_that_broke_in_b_fails_the_condition(tmp_path: Path, shell: Shell) -> None:
    a = versions.make(tmp_path / "a", {"local": LOCAL, "mirror": LOCAL})
    b = versions.make(tmp_path / "b", {"local": LOCAL, "mirror": LOCAL[:1]}, failed=["mirror/tx"])
    code, out, _ = shell("compare", str(a.path), str(b.path), "--fail-on", "tps < 0.5")
    assert code == 1 and "mirror/tx" in out and "B has no values" in out
    assert shell("compare", str(a.path), str(b.path), "--fail-on", "tps < 0.5 stack=local")[0] == 0
    # Probes' values are no promise of the cell.
    assert shell("compare", str(a.path), str(b.path), "--fail-on", "cpu.idle < 0.5")[0] == 0


def test_a_cell_that_b_does_not_have_has_not_passed(tmp_path: Path, shell: Shell) -> None:
    a = versions.make(tmp_path / "a", {"local": LOCAL, "mirror": LOCAL})
    b = versions.make(tmp_path / "b", {"local": LOCAL}, stacks={"local": versions.RAW["stacks"]["local"]})
    argv = ("compare", str(a.path), str(b.path), "--fail-on", "tps < 0.95")
    code, out, _ = shell(*argv)
    assert code == 0 and "✓ passes: tps < 0.95: 1 of 2 values" in out
    assert "? undecided: tps < 0.95: mirror/tx (B does not have this cell)" in out
    assert shell(*argv, "--strict")[0] == 1
    # What the condition is not about, and what only B has, leave it alone.
    assert shell(*argv[:-1], "tps < 0.95 stack=local", "--strict")[0] == 0
    assert shell("compare", str(b.path), str(a.path), "--fail-on", "tps < 0.95", "--strict")[0] == 0
    # About nothing that both have it is refused, as before.
    assert shell(*argv[:-1], "tps < 0.95 stack=mirror")[0] == 2


def test_a_condition_is_about_one_level_of_a_factor(tmp_path: Path, shell: Shell) -> None:
    swept = {"clients": {"field": "workloads.tx.clients", "values": [4, 8]}}
    a, b = (versions.make(tmp_path / name, {"local": LOCAL}, factors=swept) for name in "ab")
    argv = ("compare", str(a.path), str(b.path), "--fail-on")
    code, out, _ = shell(*argv, "tps < 0.95 clients=8")
    assert code == 0 and "✓ passes: tps < 0.95 clients=8: 1 of 1 values" in out
    assert "2 of 2 values" in shell(*argv, "tps < 0.95")[1]
    for text, said in (
        ("tps < 0.95 clients=9", "tps is there of local/tx clients=4"),
        ("tps < 0.95 threads=8", "threads is no filter"),
    ):
        code, _, err = shell(*argv, text)
        assert code == 2 and said in " ".join(err.split())
    assert "there are stack, workload, phase, clients" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "share", "outcome"),
    [
        ("tps < 0.95", Estimate(0.90, 0.04), "fails"),
        ("tps < 0.95", Estimate(0.90, 0.06), "undecided"),
        ("tps < 0.95", Estimate(0.96, 0.02), "undecided"),
        ("tps < 0.95", Estimate(0.99, 0.02), "passes"),
        ("tps < 0.95", Estimate(0.50), "undecided"),
        ("tps < 0.95", None, "undecided"),
        ("tps > 1.1", Estimate(1.3, 0.1), "fails"),
        ("tps >= 1.1", Estimate(1.15, 0.1), "undecided"),
        ("tps > 1.1", Estimate(1.0, 0.05), "passes"),
    ],
)
def test_the_interval_decides(text: str, share: Estimate | None, outcome: str) -> None:
    assert condition(text).judge(share) == outcome


def test_conditions_are_read_with_their_filters() -> None:
    found = condition(" write.latency.p99 >1.2  stack=mirror phase=rand-4k ")
    assert found == Condition(
        "write.latency.p99 >1.2 stack=mirror phase=rand-4k", "write.latency.p99", False, 1.2,
        {"stack": "mirror", "phase": "rand-4k"},
    )  # fmt: skip


@pytest.mark.parametrize("text", ['tps < 0.95 commits="waited for"', "tps < 0.95 commits='waited for' "])
def test_a_level_with_blanks_stands_in_quotes(text: str) -> None:
    assert condition(text).only == {"commits": "waited for"}


@pytest.mark.parametrize("text", ["tps < 0.95 commits=waited for", "tps < 0.95 commits='waited for", "tps < 1 a="])
def test_a_wrong_filter_is_refused_with_its_cure(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        condition(text)
    assert 'commits="waited for"' in caught.value.hint


@pytest.mark.parametrize(
    "text", ["", "tps", "tps < ", "tps == 1", "tps < -1", "tps < 0", "tps < 1 x", "0.9 > tps"]
)
def test_a_wrong_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        condition(text)
    assert "tps < 0.95" in caught.value.hint


def test_a_condition_takes_the_loads_own_figure_before_a_probes(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    found = versus(source(a.path), source(b.path))
    (judged,) = judge([condition("tps < 0.9")], found)
    assert judged.outcome == "passes"
    (judged,) = judge([condition("cpu.idle < 0.9")], found)
    assert "cpu on a1" in judged.label


def test_the_terminal_says_when_there_is_only_one_build(tmp_path: Path) -> None:
    a = versions.make(tmp_path / "a", {"local": [1000.0]}, noise=0.02)
    b = versions.make(tmp_path / "b", {"local": [800.0]}, noise=0.02)
    found = versus(source(a.path), source(b.path))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report.terminal(found, headlines(found.pairs)))
    assert "B was measured on one build" in " ".join(console.export_text().split())
    often = versions.make(tmp_path / "c", {"local": LOCAL})
    assert report.one_build(versus(source(a.path), source(often.path))).startswith("A was measured on one build")
    assert not report.one_build(versus(source(often.path), source(often.path)))
