"""Drills together, and how they are told: values, charts, page, terminal, files."""

from __future__ import annotations

import csv
import json
import math
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.charts.all import draw
from blocklab.charts.base import Chart
from blocklab.charts.cost import _title as cost_title
from blocklab.model.drill import Bin, Binlog, Drill, MirrorState, Missing, Stage, Status, Verdict
from blocklab.model.terminal import Console
from blocklab.report import drill_table, render, terminal_table
from blocklab.report.drill_lines import _cells
from blocklab.report.drills import MOST_IDS, NONE, drill_section, facts, fields
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.binomial import middle, share
from blocklab.stats.drill_findings import drill_details, drill_findings
from blocklab.stats.drill_view import MOST_CHOSEN, chosen, mark_of, merged, span
from blocklab.stats.drills import (
    Summary,
    before_text,
    losing_text,
    losses,
    outages,
    recovered_text,
    rto_text,
    summaries,
    tally,
)
from blocklab.stats.format import NBSP
from blocklab.stats.sentences import drill_points
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from tests.unit import synthetic
from tests.unit.readers import Reader
from tests.unit.synthetic_drills import STAGES, failover, make_drills


def made(
    status: Status = "ok", *, n: int = 1000, gone: int = 0, rto: float | None = 2.0, struck: float | None = 100.0
) -> Drill:
    """A drill with just a verdict."""
    missing = tuple(Missing(id, 100.0 + id) for id in range(gone))
    verdict = Verdict(
        status,
        acknowledged=n,
        missing=missing,
        rto_seconds=rto,
        rpo_seconds=0.01 * gone,
        last=99.9,
    )
    return Drill("1", "kill", "a1", "a2", True, ("a1", "a2"), (), (), verdict, rate=100.0, struck=struck)


def test_drills_that_a_later_call_did_not_ask_for_are_still_told(tmp_path: Path) -> None:
    plan, fewer = failover(factors={}), failover(factors={}, repeats=1)
    there = make_drills(tmp_path, plan)
    # One of the second round was never done.
    lost = next(cell for cell in cells(plan) if cell.repeat == 1)
    shutil.rmtree(there.cells / lost.key)
    folder = StudyFolder.create(tmp_path, Manifest(fewer, cells(fewer)))
    analysis = analyse(folder)
    assert len(analysis.drills) == 11 and analysis.gaps == () and render(folder).is_file()
    assert Counter(each.repeat for each in analysis.drills) == {1: 4, 2: 3, 3: 4}


def test_without_a_fault_there_is_no_outage_that_never_ended() -> None:
    """Drills that were stored before such ones failed may have none."""
    assert dict(facts(made(rto=None, struck=None)))["rto"] == "not known"
    assert dict(facts(made(rto=None)))["rto"] == "no write accepted again"
    assert dict(facts(made(gone=2)))["missing"] == "2"
    assert tally([made(rto=None, struck=None)]).endswith("0 of 1,000 acknowledged gone")


def test_a_drill_without_a_history_is_no_outage_that_never_ended() -> None:
    unread = msgspec.structs.replace(made(), verdict=Verdict("unknown", "there is no history"))
    assert dict(facts(unread))["rto"] == "not known"
    assert tally([unread]) == "1 drill: 1 unknown"
    # Of a ledger that could not be read the history tells all the same.
    assert tally([made("unknown", rto=None)]) == "1 drill: 1 unknown; 1 of 1 never came back"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    made = make_drills(tmp_path_factory.mktemp("runs"))
    render(made)
    return made


@pytest.fixture(scope="module")
def analysis(folder: StudyFolder) -> Analysis:
    return analyse(folder)


def by_label(analysis: Analysis) -> dict[str, Summary]:
    return {each.label: each for each in summaries(analysis)}


# -- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    # Clopper and Pearson's own interval for 1 of 10 is in many books; at the ends all of the 5 % is on one side.
    [(1, 10, 0.00253, 0.44502), (5, 10, 0.18709, 0.81291), (0, 50, 0.0, 1 - 0.05 ** (1 / 50)),
     (50, 50, 0.05 ** (1 / 50), 1.0), (48, 50, 0.86286, 0.99512)],
)  # fmt: skip
def test_the_interval_of_a_share(count: int, of: int, low: float, high: float) -> None:
    found = share(count, of)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-4)


def test_the_interval_of_a_share_covers() -> None:
    dice, of, true = random.Random(7), 40, 0.13
    shares = [share(sum(dice.random() < true for _ in range(of)), of) for _ in range(400)]
    assert sum(each.low <= true <= each.high for each in shares) >= 0.93 * 400
    with pytest.raises(ValueError, match="is no share"):
        share(0, 0)


def test_the_median_and_its_interval() -> None:
    assert middle([3.0, 1.0, 2.0]) == middle([1.0, 2.0, 3.0])
    few = middle([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (few.median, few.low, few.high, few.least, few.most) == (3.0, None, None, 1.0, 5.0)
    assert (middle([1.0, 2.0]).median, middle(list(map(float, range(1, 7)))).low) == (1.5, 1.0)
    # Of 50 values the 18th and the 33rd: the table of the sign test.
    fifty = middle(list(map(float, range(1, 51))))
    assert (fifty.low, fifty.high) == (18.0, 33.0)
    with pytest.raises(ValueError, match="no median"):
        middle([])


def test_drills_whose_verdict_is_unknown_prove_nothing() -> None:
    found = losses([made(n=1000), made(n=2000), made("unknown", n=50_000)])
    assert (found.ok, found.lost, found.unknown, found.drills) == (2, 0, 1, 3)
    assert found.acknowledged == 3000
    assert found.losing is not None and (found.losing.count, found.losing.of) == (0, 2)
    none = losses([made("unknown")])
    assert (none.share, none.losing, none.rpo) == (None, None, None)


def test_the_unit_is_the_crash() -> None:
    found = losses([made(n=1000), made("lost", n=1000, gone=4), made("lost", n=2000, gone=1)])
    assert (found.missing, found.worst, found.share) == (5, 4, 5 / 4000)
    assert found.losing is not None and (found.losing.count, found.losing.of) == (2, 3)
    # However many commits they had.
    clean = losses([made(n=100_000) for _ in range(20)]).losing
    assert clean is not None and losing_text(clean).replace(NBSP, " ") == "0 of 20 crashes; at most 14 % (95 %)"
    some = losses([*[made() for _ in range(17)], *[made("lost", gone=1) for _ in range(3)]]).losing
    # Clopper and Pearson for 3 of 20: 3.21 to 37.9 %.
    assert some is not None and losing_text(some).replace(NBSP, " ") == "3 of 20 crashes; 3.2 % to 38 % (95 %)"


def test_an_outage_without_end_is_infinite_in_the_median() -> None:
    three = [made(rto=2.0), made(rto=None), made(rto=None)]
    assert outages(three) == [2.0, math.inf, math.inf]
    assert rto_text(middle(outages(three))) == "never (range 2.00 to never)"
    assert (
        rto_text(middle(outages([*three, made(rto=1.0), made(rto=3.0)]))) == f"3.00{NBSP}s (range 1.00 to never)"
    )
    assert rto_text(middle(outages([made(rto=None)] * 3))) == "never"
    assert outages([made(rto=None, struck=None)]) == [], "without a fault there is none"


def rates(*counts: int) -> tuple[Bin, ...]:
    """Acknowledgements in each tenth of a second from the fault, at 100, on."""
    return tuple(Bin(100 + at / 10, 10, count) for at, count in enumerate(counts))


def back(*counts: int, **changes: Any) -> float | None:
    """When 90 % of 100/s were back, after an outage of 2 s whose first acknowledgement came at 102."""
    drill = made(rto=2.0)
    verdict = msgspec.structs.replace(drill.verdict, last=100.0, first=102.0)
    plain = {"verdict": verdict, "bins": rates(*[0] * 20, *counts)}
    return msgspec.structs.replace(drill, **{**plain, **changes}).recovered


def test_the_rate_comes_back_later_than_the_first_write() -> None:
    assert back(*[10] * 20) == 2.0
    # Cold caches: half of the rate for a second and a half, then a second with 90 in it.
    assert back(*[5] * 15, *[10] * 20) == pytest.approx(2.0 + 1.3)
    # It never does while it is watched, nor where the client was done before the second was over.
    assert back(*[5] * 40) is None
    assert back(*[5] * 15, *[10] * 20, until=104.0) is None
    # A burst of what had been waiting is no second at that rate.
    assert back(30, *[5] * 40) is None
    assert back(*[10] * 20, rate=None) is None, "there is no rate before the fault"


def test_what_came_back_is_a_value_of_its_own() -> None:
    first = {"verdict": msgspec.structs.replace(made().verdict, last=100.0, first=102.0)}
    full = msgspec.structs.replace(made(), **first, bins=rates(*[0] * 20, *[10] * 20))
    slow = msgspec.structs.replace(made(), **first, bins=rates(*[0] * 20, *[5] * 40))
    assert [each.came_back for each in (full, slow, made(rto=None))] == ["rate", "writes", "never"]
    assert made(rto=None, struck=None).came_back is None, "without a fault nothing had to come back"
    assert dict(facts(slow))["recovered"] == "not while watched" and dict(facts(full))["recovered"] == "2"
    assert "recovered" not in dict(facts(made(rto=None))), "there the RTO says it"
    unknown = dict(facts(msgspec.structs.replace(slow, rate=None)))
    assert "recovered" not in unknown, "there is no rate that could come back"


def test_a_rate_that_does_not_come_back_is_infinite_in_the_median() -> None:
    assert recovered_text(middle([math.inf, math.inf, 2.0])) == "not while watched (range 2.00 to never)"
    assert recovered_text(middle([math.inf])) == "not while watched"
    assert recovered_text(middle([1.0, 2.0, math.inf])).startswith(f"2.00{NBSP}s")


def test_the_table_counts_the_drills_whose_rate_was_not_back(analysis: Analysis) -> None:
    good = by_label(analysis)["drbd-c rtt=10ms commit=on"]
    some = msgspec.structs.replace(good, slow=1, recovered=middle([2.0, 3.0, math.inf]))
    told = fields(some)["90 % of the rate, median"]
    assert (told.text, told.small) == (f"3.00{NBSP}s", "range 2.00 to never; 1 of 3 not while watched")
    assert "90 %: 3.00" in _cells(some)[5].plain


def test_what_was_acknowledged_after_the_fault_is_told_so(analysis: Analysis) -> None:
    drill = made("lost", gone=3, struck=101.5)
    assert drill.newest_lost == -0.5 and before_text(-0.5) == f"500{NBSP}ms after the fault"
    good = by_label(analysis)["drbd-c rtt=10ms commit=on"]
    small = fields(msgspec.structs.replace(good, losses=losses([drill])))["RPO, most"].small
    assert small.endswith(f"; the newest lost 500{NBSP}ms after the fault")


def test_the_newest_lost_commit_has_an_age_too() -> None:
    drill = made("lost", gone=3, struck=102.5)
    assert drill.newest_lost == 0.5 and made().newest_lost is None
    found = losses([drill, made("lost", gone=1, struck=102.5)])
    assert found.newest is not None and (found.newest.least, found.newest.most) == (0.5, 2.5)


def test_the_tally_is_one_line() -> None:
    assert tally([]) == "no drill yet"
    assert tally([made(n=100_000) for _ in range(10)]) == (
        "10 drills: 10 ok; 0 of 1,000,000 acknowledged gone; writes again after 2.00 s (2.00 to 2.00)"
    )
    mixed = tally([made("lost", n=14_588, gone=21, rto=2.31), made("unknown"), made(rto=None)])
    assert mixed == (
        "3 drills: 1 ok, 1 lost, 1 unknown; 21 of 15,588 acknowledged gone (0.135 %); writes again after 2.31 s "
        "(range 2.00 to never); 1 of 3 never came back"
    )


def test_the_study_is_summed_up_by_cell(analysis: Analysis) -> None:
    found = by_label(analysis)
    assert len(found) == 2 + 3 * 6 and all(each.losses.drills == 3 for each in found.values())
    safe, lossy = found["drbd-c rtt=10ms commit=on"], found["drbd-a rtt=10ms commit=on"]
    assert (safe.losses.ok, safe.losses.missing) == (3, 0)
    assert (lossy.losses.lost, lossy.losses.missing > 0) == (3, True)
    assert [name for name, _ in safe.stages] == list(STAGES)
    assert safe.rto is not None and safe.stages_sum == pytest.approx(safe.rto.median, rel=0.02)
    assert (safe.mirror, safe.binlog, safe.never) == ({"in sync": 3}, {"level": 3}, 0)
    local = found["local commit=on"]
    assert (local.never, local.base, local.stages) == (3, True, ()) and local.rto is not None
    assert math.isinf(local.rto.median) and local.rto.least == math.inf
    assert local.relative is not None and local.relative.value == 1.0
    assert safe.relative is not None and safe.relative.half is not None and 0.05 < safe.relative.value < 0.25


def test_what_does_not_count_is_told_and_not_counted(tmp_path: Path) -> None:
    bad = "drbd-a/ledger rtt=10ms commit=on"
    found = analyse(make_drills(tmp_path, invalid=[bad]))
    each = by_label(found)["drbd-a rtt=10ms commit=on"]
    assert (each.void, each.void_lost, each.losses.drills) == (1, 1, 2)
    said = {each.about: each.names for each in drill_details(found) if each.kind == "drills"}
    assert said["not counted, but something was lost"] == ("drbd-a rtt=10ms commit=on (1)",)


def test_a_loss_in_a_drill_that_does_not_count_is_no_safety(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = by_label(analysis)["drbd-c rtt=10ms commit=on"]
    found = [msgspec.structs.replace(good, void=1, void_lost=1)]
    monkeypatch.setattr("blocklab.stats.drill_findings.summaries", lambda _: found)
    assert not any("Nothing that was acknowledged was lost" in text for text in drill_points(analysis))
    assert not cost_title(found).startswith("Without a loss") and cost_title([good]).startswith("Without a loss")


def test_an_unread_ledger_is_told_and_is_not_ok(tmp_path: Path) -> None:
    cell = "drbd-c/ledger rtt=2ms commit=on"
    found = analyse(make_drills(tmp_path, failover(repeats=1), unread=[cell]))
    each = by_label(found)["drbd-c rtt=2ms commit=on"]
    assert (each.losses.unknown, each.losses.acknowledged) == (1, 0)
    points = drill_points(found)
    assert any("Loss not known" in text and "drbd-c rtt=2ms commit=on" in text for text in points)
    assert "drbd-c rtt=2ms commit=on" not in points[0]
    section = drill_section(found, ())
    assert section is not None
    (row,) = [row for row in section.rows if row.names == ("drbd-c", "2ms", "on")]
    assert row.status == "unknown"


def test_what_could_not_be_told_is_no_loss(analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    known = summaries(analysis)
    unread = [msgspec.structs.replace(each, losses=losses([made("unknown")]), void=0) for each in known]
    losing = [msgspec.structs.replace(each, losses=losses([made("lost", gone=3)]), void=0) for each in known]

    def said(found: list[Summary]) -> str:
        monkeypatch.setattr("blocklab.stats.drill_findings.summaries", lambda _: found)
        return " ".join(drill_points(analysis))

    assert "without a loss" not in said(unread) and "Loss not known, so not counted: " in said(unread)
    assert "No layout came through its drills without a loss." in said(losing)
    assert "No layout is known to have come through its drills" in said([*unread[:1], *losing[1:]])


def test_the_answer_says_what_the_figures_say(analysis: Analysis) -> None:
    points = [text.replace(NBSP, " ") for text in drill_points(analysis)]
    kept = [each for each in summaries(analysis) if not each.losses.lost]
    acknowledged = sum(each.losses.acknowledged for each in kept)
    # By the factor that tells it best: at each round trip half of them lost something.
    assert points[0] == (
        "Something was lost on 2 of 10 layouts with commit=on (drbd-a rtt=2ms commit=on and drbd-a rtt=10ms "
        "commit=on) and 10 of 10 layouts with commit=off."
    )
    lost = [each.label for each in summaries(analysis) if each.losses.lost]
    assert len(lost) == 12 and {"drbd-a rtt=2ms commit=on", "drbd-a rtt=10ms commit=on"} < set(lost)
    assert points[1].startswith("Nothing that was acknowledged was lost on ")
    assert f"0 of {3 * len(kept)} crashes lost anything (of each at most 63 % do, 95 %)" in points[1]
    assert points[1].endswith(f"of {acknowledged:,} commits.")
    assert sum(text.startswith("Acknowledged transactions were lost on ") for text in points) == 1
    assert any("No write accepted again" in text and "local commit=on (3)" in text for text in points)
    assert not any("Split brain" in text or "Binary log" in text for text in points)


def test_findings_count_crashes_and_commits_have_no_bound(analysis: Analysis) -> None:
    found = {each.kind: each for each in drill_findings(analysis)}
    safe, lost = found["safe"], found["lost"]
    assert [each.name for each in safe.numbers] == ["acknowledged", "crashes, at most"]
    assert safe.value("crashes, at most") == pytest.approx(1 - 0.05 ** (1 / 3))
    (worst,) = [each for each in summaries(analysis) if each.label == lost.stack]
    assert worst.losses.losing is not None and worst.losses.newest is not None
    assert (lost.count, lost.of, lost.value("missing")) == (3, 3, worst.losses.missing)
    assert lost.value("crashes, at least") == worst.losses.losing.low
    assert lost.value("newest lost") == worst.losses.newest.least


def test_a_finding_counts_the_drills_whose_rate_was_not_back(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = by_label(analysis)["drbd-c rtt=10ms commit=on"]
    slow = msgspec.structs.replace(good, slow=2, recovered=middle([2.0, math.inf, math.inf]))
    ended = msgspec.structs.replace(good, slow=1, recovered=middle([2.0, 3.0, math.inf]))
    names = {"slow": ["not recovered"], "ended": ["recovered", "not recovered"]}
    for name, each in (("slow", slow), ("ended", ended)):
        monkeypatch.setattr("blocklab.stats.drill_findings.summaries", lambda _, each=each: [each])
        (rto,) = [each for each in drill_details(analysis) if each.kind == "rto"]
        assert [number.name for number in rto.numbers if "recovered" in number.name] == names[name]
        assert rto.value("not recovered") == each.slow


def test_losses_are_told_by_a_factor_where_there_is_one(tmp_path: Path) -> None:
    plain = drill_points(analyse(make_drills(tmp_path, failover(repeats=1, factors={}))))
    assert not any(text.startswith("Something was lost on") for text in plain)
    rtts = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "10ms"]}}
    by_rtt = drill_points(analyse(make_drills(tmp_path / "rtt", failover(repeats=1, factors=rtts))))
    assert by_rtt[0] == (
        "Something was lost on 0 of 3 layouts with rtt=0.5ms and 1 of 3 layouts with rtt=10ms (drbd-a rtt=10ms)."
    )


def test_logs_and_mirrors_that_differ_are_in_the_answer(tmp_path: Path) -> None:
    folder = make_drills(tmp_path, failover(repeats=1, factors={}))
    for cell in folder.manifest().cells:
        path = folder.cells / cell.key / "drill.json"
        plain = msgspec.json.decode(path.read_bytes(), type=Drill)
        verdict = msgspec.structs.replace(plain.verdict, binlog=Binlog("differs", 7, 2))
        path.write_bytes(
            msgspec.json.encode(msgspec.structs.replace(plain, verdict=verdict, mirror=MirrorState("split brain")))
        )
    found = {each.about: each for each in drill_details(analyse(folder))}
    assert found["split brain"].names[0] == "local (1)" and found["split brain"].count == 4
    assert found["binary log differs from the tables"].count == 4


# -- charts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def charts(analysis: Analysis) -> dict[str, Chart]:
    return {chart.name: chart for chart in draw(analysis, check=True).shown}


def test_every_cell_has_one_mark_and_zero_has_a_band(charts: dict[str, Chart], analysis: Analysis) -> None:
    panels = charts["cost"].panels
    rows = [row for panel in panels for row in panel.spec["datasets"]["cells"]]
    assert len(rows) == len(summaries(analysis)) and len({row["what"] for row in rows}) == len(rows)
    for panel in panels:
        (zero,) = panel.spec["datasets"]["zero"]
        assert panel.spec["height"] == zero["end"]
        for row in panel.spec["datasets"]["cells"]:
            # Below the band's upper edge just where nothing was lost.
            assert (row["y"] > zero["top"]) == row["lost"].startswith("0 of")
            assert 0 < row["y"] < zero["end"]
            assert row["low"] <= row["x"] <= row["high"]
    assert "Without a loss" in charts["cost"].title


def test_damage_without_a_missing_row_does_not_stand_among_what_lost_nothing(tmp_path: Path) -> None:
    folder = make_drills(tmp_path, failover(repeats=1, factors={}))
    (cell,) = [cell for cell in folder.manifest().cells if cell.stack == "drbd-c"]
    path = folder.cells / cell.key / "drill.json"
    plain = msgspec.json.decode(path.read_bytes(), type=Drill)
    verdict = msgspec.structs.replace(plain.verdict, status="lost", why="torn: x", torn=("x",))
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(plain, verdict=verdict)))
    found = analyse(folder)
    (chart,) = [chart for chart in draw(found).shown if chart.name == "cost"]
    assert {row["what"] for row in chart.panels[0].spec["datasets"]["cells"]} == {"local", "drbd-a", "drbd-b"}
    assert "damaged without a missing row: drbd-c" in chart.caption
    points = drill_points(found)
    said = "The database on drbd-c was damaged in 1 of 1 crashes (5.0 % to 100 % do, 95 %): 1 torn"
    assert any(said in text.replace(NBSP, " ") for text in points)
    assert "drbd-c" not in points[0]


def test_marks_without_a_loss_do_not_hide_each_other(charts: dict[str, Chart]) -> None:
    for panel in charts["cost"].panels:
        most = panel.spec["layer"][-1]["encoding"]["x"]["scale"]["domain"][1]
        spots = [
            (row["x"] / most, row["y"]) for row in panel.spec["datasets"]["cells"] if row["lost"][:4] == "0 of"
        ]
        for at, one in enumerate(spots):
            assert all(abs(one[0] - other[0]) > 0.04 or abs(one[1] - other[1]) > 10 for other in spots[at + 1 :])


def test_more_lost_stands_higher(charts: dict[str, Chart]) -> None:
    for panel in charts["cost"].panels:
        lost = [
            (int(row["lost"].partition(" ")[0].replace(",", "")), row["y"])
            for row in panel.spec["datasets"]["cells"]
        ]
        ranked = [y for count, y in sorted(lost) if count]
        assert ranked == sorted(ranked, reverse=True)


def test_the_time_line_has_the_whole_outage(charts: dict[str, Chart], analysis: Analysis) -> None:
    (name, label, each), *_ = [pick for pick in chosen(analysis) if pick[2].stack.startswith("drbd-a")]
    (panel,) = charts[f"outage-{name.replace(' ', '-').replace('=', '-').replace('.', '-')}"].panels
    assert label.startswith("drbd-a")
    data, drill = panel.spec["datasets"], each.drill
    assert drill.verdict.last is not None and drill.verdict.first is not None and drill.struck is not None
    assert data["outage"] == [
        {"t": round(drill.verdict.last - drill.struck, 4), "to": round(drill.verdict.first - drill.struck, 4)}
    ]
    view = span(drill)
    shown = [row for row in drill.bins if view.start - 0.05 <= row.time - drill.struck <= view.end - 0.05]
    for kind in ("acknowledged", "refused", "in doubt"):
        drawn = sum(row["n"] for row in data["stack"] if row["kind"] == kind)
        assert drawn == sum(getattr(row, kind.replace(" ", "_")) for row in shown)
    names = [thing["name"].replace(NBSP, " ") for thing in data["things"]]
    assert names[0] == "kill" and sum(text.startswith(tuple(STAGES)) for text in names) == len(STAGES)
    assert len({thing["y"] for thing in data["things"]}) == len(names)
    stages = [thing for thing in data["things"] if thing["kind"] == "stage"]
    assert sum(thing["to"] - thing["t"] for thing in stages) == pytest.approx(drill.verdict.rto_seconds, abs=0.01)


def test_a_long_outage_is_shown_in_longer_steps() -> None:
    plain = made()
    from blocklab.model.drill import Bin

    rows = tuple(Bin(round(100 + 0.1 * at, 1), 10, 9, 1, 0, 0.002, 0.02) for at in range(2000))
    verdict = msgspec.structs.replace(plain.verdict, last=110.0, first=250.0, rto_seconds=140.0)
    drill = msgspec.structs.replace(plain, bins=rows, struck=110.0, verdict=verdict)
    view = span(drill)
    assert view.width == pytest.approx(0.6) and (view.start, round(view.end)) == (-2.0, 142)
    together = merged(drill, view)
    assert len(together) <= 240 and together[0].scheduled == 60 and together[0].longest == 0.02
    assert sum(row.acknowledged for row in together) == 9 * 1440


def test_stages_before_the_axis_are_left_out_and_names_are_cut() -> None:
    plain = made()
    drill = msgspec.structs.replace(
        plain, stages=(Stage("x" * 60, 110.0, 110.5), Stage("early", 1.0, 2.0)), struck=110.0, bins=()
    )
    from blocklab.stats.drill_view import Span

    marks = mark_of(drill, Span(110.0, -2.0, 5.0, 0.1))
    assert [mark.kind for mark in marks] == ["fault", "stage"] and len(marks[1].label) < 50


def test_those_that_lost_something_are_chosen_before_more_of_the_same(analysis: Analysis) -> None:
    picked = chosen(analysis)
    assert len(picked) == MOST_CHOSEN and len({name for name, *_ in picked}) == MOST_CHOSEN
    assert all(each.drill.verdict.status == "lost" for *_, each in picked)
    assert len({(each.stack, each.workload) for *_, each in picked}) >= 10


# -- page, terminal, files ---------------------------------------------------------------------------------------


def test_the_page_tells_of_drills(folder: StudyFolder, analysis: Analysis) -> None:
    reader = Reader((folder.path / "report.html").read_text())
    assert " Drills " in reader.text and "drills.csv" in reader.links
    for point in drill_points(analysis):
        assert point.replace(NBSP, " ") in reader.text
    for each in summaries(analysis):
        mine = each.losses
        assert f"{mine.missing:,} of {mine.acknowledged:,}" in reader.text
    *_, drilled = chosen(analysis)[0]
    first = drilled.drill.verdict.missing[0]
    assert f"{first.id} " in reader.text and "with the time of their acknowledgement" in reader.text
    assert reader.text.count("Events (") == MOST_CHOSEN
    assert len((folder.path / "report.html").read_bytes()) < 2_000_000
    assert "3/N" not in reader.text and "3/N" not in (folder.path / "report.html").read_text()


def test_drills_that_lost_something_and_are_not_shown_are_counted(folder: StudyFolder, analysis: Analysis) -> None:
    lost = sum(each.drill.verdict.status == "lost" for each in analysis.drills) - MOST_CHOSEN
    left = len(analysis.drills) - MOST_CHOSEN
    assert lost > MOST_CHOSEN
    said = f"Of the other {left}, {lost} of which lost something, drills.csv has a line each."
    assert said in Reader((folder.path / "report.html").read_text()).text


def test_a_study_without_drills_says_nothing_of_them(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    text = Reader(render(folder).read_text()).text
    assert "Drills" not in text and not (folder.path / "drills.csv").exists()
    assert "drills" not in json.loads((folder.path / "report.json").read_text())
    assert "no drill" in drill_table(folder).plain  # type: ignore[union-attr]


def test_a_long_list_of_losses_is_capped_with_a_count(tmp_path: Path) -> None:
    folder = make_drills(tmp_path, failover(repeats=1, factors={}))
    (cell,) = [cell for cell in folder.manifest().cells if cell.stack == "drbd-a"]
    path = folder.cells / cell.key / "drill.json"
    plain = msgspec.json.decode(path.read_bytes(), type=Drill)
    missing = tuple(Missing(id, (plain.struck or 0.0) - 1e-3 * id) for id in range(1, 1001))
    verdict = msgspec.structs.replace(
        plain.verdict, status="lost", why="</script><script>alert('x')</script>", missing=missing,
        torn=("worker 1 has 3 rows, and its tally counts 4",), unexpected=(99, 100),
    )  # fmt: skip
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(plain, verdict=verdict, fault="<b>bang</b>")))
    page = render(folder).read_text()
    reader = Reader(page)
    assert "1000 lost, with the time" in reader.text and f"And {1000 - MOST_IDS} more" in reader.text
    assert "torn: worker 1 has 3 rows" in reader.text and "unexpected rows: 99, 100" in reader.text
    assert "<script>alert" not in page and "fault <b>bang</b>" in reader.text


def test_the_terminals_table_fits_a_hundred_columns(folder: StudyFolder, tmp_path: Path) -> None:
    for table in (drill_table(folder), terminal_table(folder, every=True)):
        console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
        console.print(table)
        console.file.close()
        text = console.export_text()
        assert all(len(line) <= 100 for line in text.splitlines())
        assert "✗ lost 3/3" in text and "✓ ok 3/3" in text and "60 drills: " in text
        assert "90 %: " in text and "3 of 3 never" in text


@pytest.mark.parametrize(
    ("drills", "void", "void_lost", "said"),
    [
        ([made() for _ in range(19)] + [made("unknown")], 0, 0, "? unknown 1/20"),
        ([made(), made()], 1, 1, "✗ lost 1/3"),
        ([made("lost", gone=1), made()], 1, 0, "✗ lost 1/2"),
        ([made(), made()], 1, 0, "✓ ok 2/2"),
        ([], 1, 1, "✗ lost 1/1"),
        ([], 1, 0, "? unknown"),
    ],
)
def test_the_terminal_counts_the_drills_that_have_the_verdict(
    analysis: Analysis, drills: list[Drill], void: int, void_lost: int, said: str
) -> None:
    good = by_label(analysis)["drbd-c rtt=10ms commit=on"]
    rto = good.rto if drills else None
    each = msgspec.structs.replace(good, losses=losses(drills), rto=rto, void=void, void_lost=void_lost)
    cells = [cell.plain for cell in _cells(each)]
    assert cells[1] == said
    # Of drills that do not count it is not known whether writes were accepted again.
    assert cells[5].startswith(fields(each)["RTO, median"].text) and (cells[5] == NONE) == (not drills)


def test_the_csv_has_a_line_for_each_drill(folder: StudyFolder, analysis: Analysis) -> None:
    with (folder.path / "drills.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(analysis.drills) == 60
    (row,) = [
        row for row in rows
        if (row["stack"], row["factor.rtt"], row["factor.commit"], row["repeat"]) == ("drbd-a", "10ms", "on", "2")
    ]  # fmt: skip
    assert (row["status"], row["verdict"], row["fault"], row["mirror"]) == ("ok", "lost", "kill", "in sync")
    assert int(row["missing"]) > 0 and math.isclose(
        sum(float(part.partition("=")[2]) for part in row["stages"].split()), float(row["rto"]), rel_tol=1e-3
    )
    assert [row["rto"] for row in rows if row["stack"] == "local"] == [""] * 6
    assert [row["came_back"] for row in rows if row["stack"] == "local"] == ["never"] * 6
    assert all((row["came_back"] == "rate") == bool(row["recovered"]) for row in rows)


def test_the_json_has_cells_and_drills(folder: StudyFolder) -> None:
    found = json.loads((folder.path / "report.json").read_text())["drills"]
    assert len(found["cells"]) == 20 and len(found["each"]) == 60
    assert found["cells"][0]["losses"]["losing"]["of"] == 3
    assert found["each"][0]["verdict"]["status"] in ("ok", "lost") and not found["each"][0]["bins"]
    # No outage of the local disk has an end; of three drills there is no interval, which is another thing.
    local = next(each for each in found["cells"] if each["stack"] == "local")
    assert (local["rto"]["median"], local["rto"]["low"], local["recovered"]["most"]) == ("never", None, "never")
    assert {each["came_back"] for each in found["each"] if each["stack"] == "local"} == {"never"}
    mirror = next(each for each in found["each"] if each["stack"] == "drbd-c")
    assert mirror["came_back"] == "rate" and mirror["recovered"] >= mirror["verdict"]["rto_seconds"]
