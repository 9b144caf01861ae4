"""The verdict: each planted defect is found, nothing is invented, and what was not seen is never ok."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklab.drills.bins import bins
from blocklab.drills.ledger import check
from blocklab.model.drill import Attempt, Ledger, Verdict
from blocklab.runner.drill import stages
from blocklab.stats.drills import again
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Run, ledger_of
from blocklab.workloads import Ledger as Writes
from blocklab.workloads.ledger_output import attempts
from tests.unit.golden import FOLDER
from tests.unit.shells import Shell
from tests.unit.synthetic_drills import drill, failover, history, ledger, make_drills

FAULT = 104.0
pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def times(*acknowledged: float, server: int = 0, first: int = 1) -> list[Attempt]:
    """One worker's transactions, each acknowledged at its time, 1 ms after it was sent."""
    return [
        Attempt(id, 0, at - 0.001, at - 0.001, at, "acknowledged", server)
        for id, at in enumerate(acknowledged, first)
    ]


def kept(attempts: list[Attempt]) -> Ledger:
    """A ledger of all that was acknowledged."""
    return ledger([each for each in attempts if each.answer == "acknowledged"])


def pending(id: int, sent: float, ended: float | None = None, worker: int = 0) -> Attempt:
    """A transaction in doubt."""
    return Attempt(id, worker, sent, sent, ended, "in doubt", 0, "connection lost")


# -- without a defect: ok; with one: found -----------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Attempt], Ledger, random.Random]:
    """A history and a database that kept its word. Transactions in doubt were committed, or not, or long after
    their worker's next ones, as only a live server can."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    workers = draw(st.integers(1, 5))
    attempts: list[Attempt] = []
    commits: list[tuple[float, Attempt]] = []
    for worker in range(workers):
        now = 100.0 + dice.random()
        for _ in range(draw(st.integers(1, 25))):
            now += dice.random() * 0.2
            sent = now
            now += dice.random() * 0.05 + 1e-4
            kind = dice.choices(["acknowledged", "in doubt", "refused"], [8, 2, 1])[0]
            ended = None if kind == "in doubt" and dice.random() < 0.5 else now
            found = Attempt(len(attempts) + 1, worker, sent - 0.01, sent, ended, kind, 0)  # type: ignore[arg-type]
            attempts.append(found)
            if kind == "acknowledged":
                commits.append((sent + (now - sent) * dice.random(), found))
            elif kind == "in doubt" and dice.random() < 0.6:
                commits.append((sent + dice.random() * 3, found))
    rows: dict[int, int] = {}
    tally: dict[int, tuple[int, int]] = {}
    for _, each in sorted(commits, key=lambda commit: commit[0]):
        rows[each.id] = each.worker
        tally[each.worker] = (tally.get(each.worker, (0, 0))[0] + 1, each.id)
    dice.shuffle(attempts)
    return attempts, Ledger(rows, tally, frozenset(rows)), dice


def said(attempts: list[Attempt], answer: str) -> list[Attempt]:
    return [each for each in attempts if each.answer == answer]


@given(worlds())
@settings(deadline=None)
def test_a_database_that_kept_its_word_is_ok(world: tuple[list[Attempt], Ledger, random.Random]) -> None:
    attempts, left, _ = world
    found = check(attempts, left, 100.5)
    acknowledged = said(attempts, "acknowledged")
    assert found.status == ("ok" if acknowledged else "unknown"), found.why
    assert not (found.missing or found.torn or found.unexpected)
    assert found.acknowledged == len(acknowledged) and found.attempted == len(attempts)
    assert found.in_doubt_found == sum(each.id in left.rows for each in said(attempts, "in doubt"))
    assert found.rpo_seconds == (0.0 if acknowledged else None)
    assert found.binlog is not None and found.binlog.status == "level"


def without(left: Ledger, ids: set[int]) -> Ledger:
    """A database that never had them: row and count."""
    rows = {id: worker for id, worker in left.rows.items() if id not in ids}
    tally = {}
    for worker, (_, last) in left.tally.items():
        mine = [id for id in rows if rows[id] == worker]
        tally[worker] = (len(mine), last if last in mine else max(mine, default=0))
    return Ledger(rows, tally, frozenset(rows))


@given(worlds(), st.data())
@settings(deadline=None)
def test_each_missing_row_is_found_and_named(
    world: tuple[list[Attempt], Ledger, random.Random], data: st.DataObject
) -> None:
    attempts, left, _ = world
    acknowledged = {each.id: each for each in said(attempts, "acknowledged")}
    if not acknowledged:
        return
    gone = data.draw(st.sets(st.sampled_from(sorted(acknowledged)), min_size=1))
    found = check(attempts, without(left, gone), 100.5)
    assert found.status == "lost" and {each.id for each in found.missing} == gone
    assert all(each.acknowledged == acknowledged[each.id].ended for each in found.missing)
    assert found.why.startswith(f"{len(gone):,} of {len(acknowledged):,} acknowledged transactions")
    assert found.rpo_seconds is not None and found.rpo_seconds >= 0
    # Only the row, and its count stays: torn besides.
    bare = {id: worker for id, worker in left.rows.items() if id not in gone}
    torn = check(attempts, msgspec.structs.replace(left, rows=bare), 100.5)
    assert torn.status == "lost" and torn.torn


@given(worlds(), st.sampled_from(["count up", "count down", "row too many", "refused", "wrong worker"]))
@settings(deadline=None)
def test_torn_and_unexpected_rows_are_found(world: tuple[list[Attempt], Ledger, random.Random], how: str) -> None:
    attempts, left, dice = world
    rows, tally = dict(left.rows), dict(left.tally)
    by_worker = sorted(tally)
    refused = said(attempts, "refused")
    if how.startswith("count") and by_worker:
        worker = dice.choice(by_worker)
        count, last = tally[worker]
        tally[worker] = (count + (1 if how == "count up" else -1), last)
    elif how == "row too many":
        rows[10_000] = 0
        tally[0] = (tally.get(0, (0, 0))[0] + 1, 10_000)
    elif how == "refused" and refused:
        worker = refused[0].worker
        rows[refused[0].id] = worker
        tally[worker] = (tally.get(worker, (0, 0))[0] + 1, tally.get(worker, (0, refused[0].id))[1])
    elif how == "wrong worker" and rows:
        id = dice.choice(sorted(rows))
        rows[id] += 1
    else:
        return
    found = check(attempts, Ledger(rows, tally), 100.5)
    assert found.status == "lost" and found.why
    assert found.unexpected == {"row too many": (10_000,), "refused": tuple(r.id for r in refused[:1])}.get(
        how, ()
    )
    if how != "refused":
        assert bool(found.torn) == (how != "row too many")


@given(worlds())
@settings(deadline=None)
def test_what_was_in_doubt_is_never_lost_whether_it_is_there_or_not(
    world: tuple[list[Attempt], Ledger, random.Random],
) -> None:
    attempts, left, _ = world
    doubted = {each.id for each in said(attempts, "in doubt")}
    status = check(attempts, left, 100.5).status
    for ids in [doubted, *({id} for id in doubted)]:
        found = check(attempts, without(left, ids), 100.5)
        assert (found.status, found.missing) == (status, ())


def test_a_row_that_came_before_the_last_one_is_torn_only_where_the_order_is_certain() -> None:
    attempts = [*times(101.0, 102.0, 103.0), pending(4, 103.5)]
    rows = dict.fromkeys([1, 2, 3, 4], 0)
    # 4 was in doubt when 3 had been acknowledged, so it was committed after it.
    found = check(attempts, Ledger(rows, {0: (4, 3)}), FAULT)
    assert found.torn == ("the tally of worker 0 ends with 3, but 4 was committed after it",)
    assert check(attempts, Ledger(rows, {0: (4, 4)}), FAULT).status == "ok"
    # 1 was in doubt: it may well have been committed last.
    late = [pending(1, 101.0), *times(102.0, 103.0, first=2)]
    assert check(late, Ledger(dict.fromkeys([1, 2, 3], 0), {0: (3, 1)}), FAULT).status == "ok"
    assert check(late, Ledger(dict.fromkeys([1, 2, 3], 0), {0: (3, 9)}), FAULT).torn


def test_a_worker_without_a_tally_is_torn_and_one_without_a_row_is_not() -> None:
    attempts = times(101.0, 102.0)
    assert check(attempts, Ledger({1: 0, 2: 0}, {}), FAULT).torn == (
        "worker 0 has 2 rows, and its tally counts 0",
    )
    assert check(attempts, Ledger({1: 0, 2: 0}, {0: (2, 2), 1: (0, 0)}), FAULT).status == "ok"


# -- never ok without having looked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "left", "why"),
    [
        (None, Ledger({}, {}), "there is no history"),
        ([], Ledger({}, {}), "the history is empty"),
        ([pending(1, 101.0)], Ledger({}, {}), "nothing was acknowledged, so nothing could be lost"),
        (times(101.0), None, "no route to a2"),
        ([*times(101.0), *times(102.0)], Ledger({1: 0}, {0: (1, 1)}), "the history has transaction 1 twice"),
        (
            [Attempt(1, 0, 101.0, 101.0, None, "acknowledged", 0)], Ledger({1: 0}, {0: (1, 1)}),
            "the history does not say when transaction 1 was acknowledged",
        ),
        (
            [Attempt(1, 0, math.nan, 101.0, 101.2, "acknowledged", 0)], Ledger({1: 0}, {0: (1, 1)}),
            "the history has a time of transaction 1 that is none",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_unknown(attempts: list[Attempt] | None, left: Ledger | None, why: str) -> None:
    found = check(attempts, left, FAULT, "no route to a2")
    assert (found.status, found.why, found.rpo_seconds) == ("unknown", why, None)


def test_an_unread_ledger_leaves_what_the_client_saw() -> None:
    found = check(times(103.0, 105.5), None, FAULT)
    assert (found.status, found.acknowledged, found.rto_seconds) == ("unknown", 2, 2.5)
    assert found.why == "the ledger could not be read"


def test_damage_is_lost_even_where_nothing_was_acknowledged() -> None:
    found = check([pending(1, 101.0)], Ledger({1: 0}, {0: (2, 1)}), FAULT)
    assert found.status == "lost" and "torn" in found.why


# -- how long, and how much of it --------------------------------------------------------------------------------


def test_the_outage_is_the_longest_silence_that_ends_after_the_fault() -> None:
    attempts = times(100.0, 103.0, 103.9, 106.4, 106.5, 107.0)
    found = check(attempts, kept(attempts), FAULT)
    assert (found.last, found.first) == (103.9, 106.4) and found.rto_seconds == pytest.approx(2.5)
    # Two seconds without any before the fault count for nothing.
    assert check(attempts, kept(attempts), 106.45).rto_seconds == pytest.approx(0.5)


def test_what_was_only_on_its_way_at_the_fault_is_no_end_of_the_outage() -> None:
    attempts = [*times(103.0, 103.999, 104.0005), pending(4, 104.0004), pending(5, 104.002, worker=1)]
    found = check(attempts, kept(attempts), FAULT)
    assert (found.rto_seconds, found.first, found.last) == (None, None, 104.0005)


def test_a_silence_until_the_end_has_no_end() -> None:
    # Something still came after the fault, as its time is that of the command.
    attempts = [*times(103.0, 103.9, 104.002, 104.003), pending(5, 104.01)]
    found = check(attempts, kept(attempts), FAULT, until=110.0)
    assert (found.rto_seconds, found.first, found.last) == (None, None, 104.003)
    refused = [*times(103.0, 103.9, 104.002, 104.003), Attempt(5, 0, 109.0, None, 109.5, "refused", 0)]
    assert check(refused, kept(refused), FAULT).rto_seconds is None


def test_a_silence_until_the_end_has_no_end_though_an_earlier_one_was_longer() -> None:
    """The survivor of a takeover dies, too."""
    steady = [100.0 + 0.1 * at for at in range(40)]
    old, new = times(*steady, 103.99), times(*(106.0 + 0.1 * at for at in range(20)), server=1, first=100)
    attempts = [*old, *new, pending(900, 107.95)]
    found = check(attempts, kept(attempts), FAULT, until=109.2)
    assert (found.rto_seconds, found.first) == (None, None) and found.last == pytest.approx(107.9)
    # So much is no sign of anything, though one transaction has no answer for longer.
    attempts[-1] = pending(900, 107.95, ended=109.5)
    assert check(attempts, kept(attempts), FAULT, until=108.5).rto_seconds == pytest.approx(2.01)
    # Nor is what there was in peace.
    slow = [*times(98.0, 99.99, first=700), *attempts]
    assert check(slow, kept(slow), FAULT, until=109.2).rto_seconds == pytest.approx(2.01)


def test_the_stages_are_of_the_takeovers_silence_or_there_are_none() -> None:
    marks = [("detection", 104.6), ("fencing", 104.7), ("promotion", 105.0), ("recovery", 105.8)]
    verdict = Verdict("ok", last=103.9, first=106.0, rto_seconds=2.1)
    found = stages(marks, verdict)
    assert [each.name for each in found] == [*(name for name, _ in marks), "first commit"]
    assert (found[0].start, found[-1].end) == (103.9, 106.0)
    assert [each.start for each in found[1:]] == [each.end for each in found[:-1]]
    # A link was cut before for longer, or the survivor stood still after.
    for last, first in ((90.0, 99.0), (108.0, 114.0)):
        assert stages(marks, msgspec.structs.replace(verdict, last=last, first=first)) == ()
    assert stages(marks, msgspec.structs.replace(verdict, first=None)) == stages([], verdict) == ()


def test_without_an_outage_it_is_the_longest_normal_wait() -> None:
    attempts = times(*(100.0 + 0.01 * at for at in range(1000)))
    found = check(attempts, kept(attempts), FAULT, until=110.5)
    assert found.rto_seconds == pytest.approx(0.01) and found.status == "ok"


def test_a_fault_before_the_first_acknowledgement() -> None:
    attempts = [pending(9, 100.5), *times(103.0, 103.1)]
    found = check(attempts, kept(attempts), 100.0)
    assert (found.last, found.first) == (None, 103.0) and found.rto_seconds == pytest.approx(2.5)


def test_without_a_fault_there_is_no_outage() -> None:
    found = check(times(101.0, 103.0), kept(times(101.0, 103.0)), None)
    assert (found.status, found.rto_seconds, found.last) == ("ok", None, 103.0)


def test_acknowledgements_of_the_old_primary_after_the_takeover_end_no_outage_and_are_lost() -> None:
    old = times(103.0, 103.9, first=1)
    new = times(106.0, 106.1, 109.0, server=1, first=10)
    behind = times(107.0, 108.0, first=20)
    attempts = [*old, *new, *behind]
    found = check(attempts, kept([*old, *new]), FAULT)
    assert found.status == "lost" and [each.id for each in found.missing] == [20, 21]
    assert found.why == (
        "2 of 7 acknowledged transactions are gone, 2 of them acknowledged by a server whose successor had "
        "already begun"
    )
    # From 106.1 to 109 nobody was served by the one that counts.
    assert (found.last, found.first) == (106.1, 109.0)
    assert found.rpo_seconds == pytest.approx(1.0)


def test_the_rpo_is_from_the_oldest_missing_to_the_last_acknowledgement() -> None:
    attempts = times(102.0, 103.0, 103.9, 103.95, 106.0)
    left = without(kept(attempts), {3, 4})
    assert check(attempts, left, FAULT).rpo_seconds == pytest.approx(0.05)
    only_last = without(kept(attempts), {4})
    assert check(attempts, only_last, FAULT).rpo_seconds == 0.0


def test_the_rpo_ends_with_the_outage_that_lost_it_and_not_with_the_longest() -> None:
    old, new = times(101.0, 103.0, 103.9, 103.95), times(106.0, 110.0, 120.0, server=1, first=10)
    attempts = [*old, *new]
    found = check(attempts, without(kept(attempts), {3}), FAULT)
    assert found.last == 110.0 and found.rpo_seconds == pytest.approx(0.05)
    # Or of a link that was cut before, for longer.
    stalled = [*times(90.0, 103.0, 103.9, 103.95), *times(106.0, server=1, first=10)]
    found = check(stalled, without(kept(stalled), {3}), 89.0)
    assert (found.last, found.first) == (90.0, 103.0) and found.rpo_seconds == pytest.approx(0.05)
    # Of both servers: to the end of the later one.
    found = check(attempts, without(kept(attempts), {3, 11}), FAULT)
    assert found.rpo_seconds == pytest.approx(110.0 - 103.9)


# -- the binary log ----------------------------------------------------------------------------------------------


def test_the_binary_log_is_compared_by_the_ids_of_this_run() -> None:
    attempts = [*times(101.0, 102.0, 103.0), pending(4, 103.5)]
    left = kept(attempts)
    log = msgspec.structs.replace(left, binlog=frozenset({1, 2, 4, 777}))
    found = check(attempts, log, FAULT).binlog
    assert found is not None and (found.status, found.behind, found.ahead) == ("differs", 1, 1)
    assert "lack 1 rows" in found.why and "have 1 rows" in found.why
    assert check(attempts, log, FAULT).status == "ok"
    assert check(attempts, left, FAULT).binlog is None
    unread = check(attempts, left, FAULT, binlog_unread="no such file").binlog
    assert unread is not None and (unread.status, unread.why) == ("unknown", "no such file")


# -- the time series
# --------------------------------------------------------------------------------------------------


@given(worlds(), st.sampled_from([0.05, 0.1, 1.0]))
@settings(deadline=None)
def test_bins_have_every_transaction_once(
    world: tuple[list[Attempt], Ledger, random.Random], width: float
) -> None:
    attempts, _, _ = world
    found = bins(attempts, width, edge=100.5)
    for name in ("acknowledged", "refused", "in doubt"):
        assert sum(getattr(row, name.replace(" ", "_")) for row in found) == len(said(attempts, name))
    assert sum(row.scheduled for row in found) == len(attempts)
    for at, row in enumerate(found):
        assert row.time == pytest.approx(found[0].time + at * width, abs=1e-4)
        assert (row.time - 100.5) / width == pytest.approx(round((row.time - 100.5) / width), abs=1e-3)
        assert (row.p50 is None) == (row.acknowledged == 0)
        assert row.p50 is None or row.longest is None or row.p50 <= row.longest


def test_bins_count_from_when_it_was_due() -> None:
    late = [Attempt(1, 0, 100.0, 102.0, 102.05, "acknowledged", 0)]
    found = bins(late, edge=100.0)
    assert (found[0].scheduled, found[0].acknowledged, found[-1].acknowledged) == (1, 0, 1)
    assert found[-1].longest == pytest.approx(2.05) and len(found) == 21
    assert bins([]) == ()


def test_a_broken_time_is_an_error_and_no_endless_row_of_bins() -> None:
    attempts = [*times(101.0), Attempt(2, 0, 1e12, None, None, "refused", 0)]
    with pytest.raises(ValueError, match="one of its times is wrong"):
        bins(attempts)
    with pytest.raises(ValueError, match="above 0"):
        bins(times(101.0), 0)


# -- once more, from what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", ["", "gone", "unread"])
def test_the_check_says_the_same_of_what_is_stored(tmp_path: Path, plant: str) -> None:
    plan = failover(repeats=1)
    unread = (
        [f"drbd-c/ledger rtt={rtt} commit=on" for rtt in ("0.5ms", "2ms", "10ms")] if plant == "unread" else []
    )
    folder = make_drills(tmp_path, plan, unread=unread)
    looked = 0
    for number, cell in enumerate(folder.manifest().cells):
        run = folder.run(cell)
        assert run is not None and run.drill is not None
        start = round(run.drill.struck or 0.0) - 4.0
        _, _, attempts = drill(cell, start, unread=cell.label in unread)
        # As a file would keep them.
        kept_file = msgspec.json.encode(attempts)
        attempts = msgspec.json.decode(kept_file, type=list[Attempt])
        left = ledger_of(run.folder)
        assert (left is None) == (cell.label in unread)
        if plant == "gone" and left is not None:
            some = {next(each.id for each in attempts if each.answer == "acknowledged")}
            assert again(Writes.checker, attempts, without(left, some), run.drill).status == "lost"
        else:
            assert again(Writes.checker, attempts, left, run.drill) == run.drill.verdict
        looked += 1
        assert number < 100
    assert looked == len(folder.manifest().cells)


def test_a_drill_survives_being_stored(tmp_path: Path) -> None:
    folder = make_drills(tmp_path, failover(repeats=1))
    (cell, *_) = folder.manifest().cells
    run = folder.run(cell)
    assert run is not None
    found, left, _ = drill(cell, round(run.outcome.started) + 5.0)
    assert run.drill == found and ledger_of(run.folder) == left
    assert len(run.drill.bins) > 80 and run.drill.width == 0.1


def test_a_history_from_the_generator_has_all_answers() -> None:
    attempts = history("x", latency=18e-3)
    assert {each.answer for each in attempts} == {"acknowledged", "in doubt", "refused"}
    found = check(attempts, ledger(attempts), attempts[0].scheduled + 4.0)
    assert found.status == "ok" and found.rto_seconds is not None and 1.5 < found.rto_seconds < 2.6


@pytest.fixture
def judged(tmp_path: Path) -> StudyFolder:
    """Drills whose stored verdict is what is stored beside it: of a history that lost transactions."""
    folder = make_drills(tmp_path, failover(repeats=1))
    for run in folder.runs():
        raw = run.folder / "raw" / "workload"
        raw.mkdir(parents=True)
        (raw / "history.tsv").write_bytes((FOLDER / "ledger-steady" / "blocklab-ledger.tsv").read_bytes())
        _stored(run, attempts((raw / "history.tsv").read_bytes())[0])
    return folder


def _stored(run: Run, tried: list[Attempt] | None) -> Verdict:
    assert run.drill is not None
    verdict = again(Writes.checker, tried, ledger_of(run.folder), run.drill)
    told = msgspec.structs.replace(run.drill, verdict=verdict)
    (run.folder / "drill.json").write_bytes(msgspec.json.encode(told))
    return verdict


def test_verdicts_that_are_the_same_are_decided_also_where_commits_were_lost(
    judged: StudyFolder, shell: Shell
) -> None:
    code, out, _ = shell("verdict", str(judged.path), "--json")
    found = json.loads(out)
    assert {row["again"] for row in found["verdicts"]} == {"lost"}
    assert (code, found["differ"], found["undecided"]) == (0, 0, 0)
    # Nothing is left to measure, and what is there is known.
    assert shell("resume", str(judged.path))[0] == 0


def test_a_verdict_that_is_unknown_both_times_is_undecided(judged: StudyFolder, shell: Shell) -> None:
    run, *others = judged.runs()
    (run.folder / "raw" / "workload" / "history.tsv").unlink()
    assert _stored(run, None).status == "unknown"
    code, out, _ = shell("verdict", str(judged.path))
    assert code == 3 and f"{len(others) + 1} verdicts made again, 0 differ, 1 undecided" in out
    assert f"{run.cell.label}: unknown (the same): there is no history" in out
    # So it is for those who carry drills out.
    code, _, err = shell("resume", str(judged.path))
    assert code == 3 and f"the verdict of {run.cell.label} is unknown" in " ".join(err.split())


def test_a_drill_without_a_verdict_is_undecided_and_one_that_differs_comes_first(
    judged: StudyFolder, shell: Shell
) -> None:
    run, other, *_ = judged.runs()
    (run.folder / "drill.json").unlink()
    code, out, _ = shell("verdict", str(judged.path))
    assert code == 3 and f"{run.cell.label}: unknown (the drill was not carried out to its end)" in out
    (other.folder / "raw" / "workload" / "history.tsv").unlink()
    code, out, _ = shell("verdict", str(judged.path), "--json")
    assert (code, json.loads(out)["differ"], json.loads(out)["undecided"]) == (1, 1, 2)
