"""A study on two machines: which shares of the baseline agree, which do not, which cannot be told, and what the
layouts stood on."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from blocklab.model.stack_map import StackMap
from blocklab.report.across import answer
from blocklab.stats.across import Across, Share, across
from blocklab.stats.source import source
from blocklab.stats.versus import versus
from blocklab.store.folder import StudyFolder
from blocklab.study.types import Cell
from tests.unit import versions
from tests.unit.machines import LOCAL, RTT, hosts, lab, on
from tests.unit.shells import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("COLUMNS", "100")
    return Shell(monkeypatch, capsys)


pytestmark = pytest.mark.usefixtures("without_vega")


def beside(a: StudyFolder, b: StudyFolder, within: float = 0.1) -> Across:
    return across(versus(source(a.path), source(b.path)), within)


def only(found: Across) -> Share:
    (share,) = found.shares
    return share


def said(a: StudyFolder, b: StudyFolder) -> str:
    found = versus(source(a.path), source(b.path))
    return answer(found, across(found)).replace("\xa0", " ")


# -- verdicts ---------------------------------------------------------------------------------


def test_shares_agree_where_the_values_do_not(tmp_path: Path) -> None:
    a, b = lab(tmp_path), hosts(tmp_path)
    share = only(beside(a, b))
    assert (share.verdict, share.why, share.baseline, share.pair.pairs) == ("agree", "", "local/tx", 5)
    assert share.pair.a.value == pytest.approx(0.5, rel=0.01) and share.pair.ratio is not None
    assert share.pair.ratio.value == pytest.approx(1, abs=0.01) and 0.003 < (share.pair.ratio.half or 0) < 0.03
    assert said(a, b) == (
        "1 of 1 share agrees within 10 %; writes of volume 1 on a1 took 0.45 ms in A and 0.71 ms in B."
    )


def test_a_planted_difference_is_found_among_shares_that_agree(tmp_path: Path) -> None:
    """At one of five round trips the mirror keeps a fifth more on the hosts."""
    a, b = lab(tmp_path, factors=RTT), hosts(tmp_path, planted={"mirror rtt=5ms": 0.6}, factors=RTT)
    found = beside(a, b)
    assert {dict(share.pair.cell[2])["rtt"]: share.verdict for share in found.shares} == {
        "1ms": "agree", "2ms": "agree", "5ms": "differ", "10ms": "agree", "20ms": "agree",
    }  # fmt: skip
    (differs,) = [share for share in found.shares if share.verdict == "differ"]
    assert "writes of volume 1 on a1 took 0.45" in differs.why
    assert said(a, b).startswith(
        "4 of 5 shares agree within 10 %, 1 differs (mirror/tx rtt=5ms tps: 0.50 in A, 0.60 in B); writes of"
    )


def test_a_small_difference_that_is_sure_is_one(tmp_path: Path) -> None:
    """Within 10 %, and its interval leaves 1 out."""
    assert only(beside(lab(tmp_path), hosts(tmp_path, share=0.53))).verdict == "differ"


def test_too_wide_an_interval_is_unknown(tmp_path: Path) -> None:
    wide = hosts(tmp_path, builds=(1.0, 1.25, 0.8, 1.1, 0.9))
    share = only(beside(lab(tmp_path), wide))
    assert share.verdict == "unknown" and re.fullmatch(r"too wide: B / A is from 0\.7\d to 1\.2\d", share.why), (
        share
    )
    assert said(lab(tmp_path / "1"), wide).startswith("0 of 1 share agrees within 10 %, 1 is unknown; ")
    # That close they surely are.
    assert only(beside(lab(tmp_path / "2"), wide, within=0.3)).verdict == "agree"


def test_one_build_on_a_side_is_unknown(tmp_path: Path) -> None:
    share = only(beside(lab(tmp_path), hosts(tmp_path, share=0.9, builds=(1.0,))))
    assert (share.verdict, share.why) == ("unknown", "one build in B")


def test_what_leaves_1_out_by_chance_is_unknown(tmp_path: Path) -> None:
    """Alone it would differ; among five no longer."""
    near = {"mirror rtt=5ms": 0.5 * 1.025}
    one = {"rtt": {**RTT["rtt"], "values": ["5ms"]}}
    alone = only(
        beside(lab(tmp_path / "1", factors=one), hosts(tmp_path / "1", share=near["mirror rtt=5ms"], factors=one))
    )
    assert alone.verdict == "differ"
    found = beside(lab(tmp_path, factors=RTT), hosts(tmp_path, planted=near, factors=RTT), within=0.02)
    share = next(each for each in found.shares if "rtt=5ms" in each.pair.label)
    assert (share.verdict, share.why) == ("unknown", "no more than chance among 5 shares")


def test_a_share_of_unlike_volumes_is_unknown(tmp_path: Path) -> None:
    """On the hosts the mirror's volume is twice as slow as the baseline's."""

    def stood(cell: Cell) -> StackMap:
        return on(volume=1.4e-3 if cell.stack == "mirror" else 0.71e-3)(cell)

    share = only(beside(lab(tmp_path), hosts(tmp_path, share=0.3, stood=stood)))
    assert share.verdict == "unknown" and share.why.startswith("in B, writes of vda on a1 took 1.4")


def test_what_explains_a_difference_is_told_or_that_nothing_does(tmp_path: Path) -> None:
    slow = only(beside(lab(tmp_path), hosts(tmp_path, share=0.4, stood=on(link=1.9e-3))))
    assert slow.why.replace("\xa0", " ") == "link zone took 1.00 ms in A and 1.90 ms in B"
    same = only(beside(lab(tmp_path / "1"), hosts(tmp_path / "1", share=0.4, stood=on())))
    assert same.why.replace("\xa0", " ") == "no volume or link took over 25 % longer on one side"
    none = only(beside(lab(tmp_path / "2", stood=None), hosts(tmp_path / "2", share=0.4, stood=None)))
    assert none.why == "no volume or link was timed on both sides"


def test_a_share_of_a_limited_baseline_says_so(tmp_path: Path) -> None:
    a, b = (source(make(tmp_path).path) for make in (lab, hosts))
    b = dataclasses.replace(b, limited=lambda row: "limited by the lab: CPU" if row.stack == "local" else "")
    assert only(across(versus(a, b))).pair.limited == "B is of a baseline that is limited by the lab: CPU"


# -- what has no counterpart ------------------------------------------------------------------


def test_other_levels_have_no_counterpart(tmp_path: Path, shell: Shell) -> None:
    some = {"rtt": {**RTT["rtt"], "values": ["1ms", "2ms"]}}
    a, b = lab(tmp_path, factors=RTT), hosts(tmp_path, factors=some)
    assert len(beside(a, b).shares) == 2
    assert said(a, b).startswith("2 of 2 shares agree within 10 %; 3 cells have no counterpart; writes")
    code, out, _ = shell("compare", str(a.path), str(b.path), "--across")
    assert code == 0 and "only in A: mirror/tx rtt=20ms" in out


def test_a_cell_whose_baseline_failed_has_no_share(tmp_path: Path, shell: Shell) -> None:
    a, b = lab(tmp_path), hosts(tmp_path, failed=["local/tx", *(f"local/tx (repeat {n})" for n in range(2, 6))])
    found = beside(a, b)
    assert found.shares == () and [(each.label, each.gap) for each in found.lone] == [
        ("mirror/tx", "no value of local/tx, its baseline")
    ]
    code, out, err = shell("compare", str(a.path), str(b.path), "--across")
    assert (code, err) == (0, "") and "A and B have no share of a baseline in common; 2 cells have no" in out
    assert "no share to compare: mirror/tx (no value of local/tx, its baseline)" in out
    assert "only in A: local/tx (B: failed: a1: node lost)" in out


def test_shares_of_two_baselines_are_not_compared(tmp_path: Path) -> None:
    stacks = {**versions.RAW["stacks"], "third": versions.RAW["stacks"]["local"]}
    a = lab(tmp_path, stacks=stacks, tps={"local": LOCAL, "mirror": LOCAL, "third": LOCAL})
    b = lab(tmp_path / "b", stacks=stacks, baseline="third", tps={"local": LOCAL, "mirror": LOCAL, "third": LOCAL})
    found = beside(a, b)
    assert found.shares == ()
    assert {(each.side, each.label): each.gap for each in found.lone} == {
        ("a", "third/tx"): "it is the baseline", ("b", "local/tx"): "it is the baseline",
        ("a", "mirror/tx"): "in A a share of local/tx, in B of third/tx",
    }  # fmt: skip


def test_single_runs_have_shares_of_one_build(tmp_path: Path) -> None:
    a, b = lab(tmp_path), hosts(tmp_path)
    runs = [next(each.cells / c.key for c in each.manifest().cells if c.stack == "mirror") for each in (a, b)]
    share = only(across(versus(*map(source, runs))))
    assert (share.verdict, share.baseline, share.why) == ("unknown", "local/tx", "one build in A and B")


# -- what they stood on -----------------------------------------------------------------------


def test_the_inputs_are_those_of_each_side(tmp_path: Path) -> None:
    found = beside(lab(tmp_path), hosts(tmp_path, stood=on("dm-932", 0.71e-3, 1.3e-3)))
    assert [(each.what, each.mine, each.other, each.asked) for each in found.inputs] == [
        ("writes of volume 1 on a1", 0.45e-3, 0.71e-3, (0.45e-3, 0.45e-3)),
        ("link zone", 1.0e-3, 1.3e-3, (1.0e-3, 1.0e-3)),
    ]
    assert found.cpus == ("Some CPU @ 2.50GHz, 2 CPUs", "EPYC 9R14, 4 CPUs")
    ((host, (mine, other)),) = found.busy.items()
    assert host == "a1" and mine == other == pytest.approx(49, abs=1)


@pytest.mark.parametrize(
    ("environment", "cpus"),
    [
        ({}, "not known"),
        ({"host": {"cpus": 4}}, "not known"),
        ({"host": {"cpu": "M1", "cpus": 1}}, "M1, 1 CPU"),
        ({"hosts": ["a1"]}, "not known"),
        ({"hosts": {"a1": {"cpu": "X"}, "a2": {"cpu": "Y", "cpus": 2}}}, "a1: X; a2: Y, 2 CPUs"),
    ],
)
def test_an_environment_says_what_it_knows(tmp_path: Path, environment: dict[str, Any], cpus: str) -> None:
    assert beside(lab(tmp_path), hosts(tmp_path, environment=environment)).cpus[1] == cpus


# -- the command ------------------------------------------------------------------------------


def test_the_shares_stand_before_the_values_in_100_columns(tmp_path: Path, shell: Shell) -> None:
    a, b = lab(tmp_path), hosts(tmp_path, share=0.6)
    code, out, err = shell("compare", str(a.path), str(b.path), "--across")
    text = out.replace("\xa0", " ")
    assert (code, err) == (0, "") and max(map(len, text.splitlines())) <= 100
    assert text.splitlines()[3].startswith("0 of 1 share agrees within 10 %, 1 differs (mirror/tx tps: 0.50 in A,")
    assert re.search(r"share of local +metric +A +B +B / A +verdict", text)
    assert re.search(r"mirror/tx +tps +0\.50\d? ± 0\.\d+ +0\.60\d? ± 0\.\d+ +1\.\d+ ± 0\.\d+ +differ *\n", text), (
        text
    )
    assert re.search(r"writes of volume 1 on a1, 0\.45 ms asked +0\.45 ms +0\.71 ms", text)
    assert re.search(r"CPU +Some CPU @ 2\.50GHz, 2 CPUs +EPYC 9R14, 4 CPUs", text)
    assert text.index("share of local") < text.index("what they stood on") < text.index("local/tx    tps")
    # Without it they are refused, with it as a hint.
    code, out, err = shell("compare", str(a.path), str(b.path))
    assert (code, out) == (2, "") and "--across" in err and "shares" in err


def test_the_document_has_shares_and_inputs(tmp_path: Path, shell: Shell) -> None:
    a, b = lab(tmp_path), hosts(tmp_path, share=0.6)
    found = json.loads(shell("compare", str(a.path), str(b.path), "--across", "--json")[1])["across"]
    (row,) = found["shares"]
    assert (row["stack"], row["baseline"], row["metric"], row["verdict"]) == (
        "mirror",
        "local/tx",
        "tps",
        "differ",
    )
    assert row["a"] == pytest.approx(0.5, rel=0.01) and row["b"] == pytest.approx(0.6, rel=0.01)
    assert row["relative"] == pytest.approx(1.2, rel=0.02) and row["repeats"] == 5 and row["unit"] == "1"
    assert found["inputs"][0] == {
        "what": "writes of volume 1 on a1", "a": 0.45e-3, "b": 0.71e-3, "asked_a": 0.45e-3, "asked_b": 0.45e-3,
    }  # fmt: skip
    assert found["within"] == 0.1 and found["answer"].startswith("0 of 1 share")
    plain = json.loads(shell("compare", str(a.path), str(lab(tmp_path / "b").path), "--json")[1])
    assert plain["across"] is None


def test_shares_of_another_metric(tmp_path: Path, shell: Shell) -> None:
    a, b = lab(tmp_path), hosts(tmp_path)
    argv = ("compare", str(a.path), str(b.path), "--across", "--metric")
    out = shell(*argv, "latency.mean")[1].replace("\xa0", " ")
    assert re.search(r"mirror/tx +latency\.mean +(2|1\.9)\S* ± \S+ +(2|1\.9)\S* ± \S+ +\S+ ± \S+ +agree", out), out
    assert "no share of a baseline in common" in shell(*argv, "cpu.idle")[1]


@pytest.mark.parametrize("within", ["0", "10", "0%", "100%", "-5%", "close", ""])
def test_a_wrong_tolerance_is_refused(tmp_path: Path, shell: Shell, within: str) -> None:
    a, b = lab(tmp_path), hosts(tmp_path)
    code, out, err = shell("compare", str(a.path), str(b.path), "--across", "--within", within)
    assert (code, out) == (2, "") and "--within" in err and "10%" in err
    code, out, err = shell("compare", str(a.path), str(b.path), "--within", "5%")
    assert (code, out) == (2, "") and "add --across" in err


def test_the_page_has_a_section_of_shares(tmp_path: Path, shell: Shell) -> None:
    a, b = lab(tmp_path), hosts(tmp_path, share=0.6)
    page = tmp_path / "x.html"
    assert shell("compare", str(a.path), str(b.path), "--across", "-o", str(page))[0] == 0
    text = page.read_text()
    assert text.count('id="across"') == text.count('id="shares"') == text.count('id="forest"') == 1
    assert "0 of 1 share agrees" in text and "EPYC 9R14, 4 CPUs" in text
    assert shell("compare", str(a.path), str(lab(tmp_path / "b").path), "-o", str(page))[0] == 0
    assert 'id="across"' not in page.read_text()
