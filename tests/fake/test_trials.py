"""Workloads that go on until they are sure, on the fake site: what ends them, what is kept when they break."""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import HostTimeout, NodeLost
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.sample import Parsed
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite, Play
from blocklab.stats.analysis import analyse
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Run, Stopped
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import Fio
from tests.fake.answers import GOLDEN, PROBE_CPU, SAMPLES, Answers, Fios
from tests.fake.runs import Silent

QUICK = {"rounds": "3..6", "each": "1s"}
PHASES = ["first", "randwrite-4k-qd1", "randwrite-4k-qd8", "randwrite-16k-qd1", "randwrite-16k-qd8"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklab.runner.single.LOOK_SECONDS", 0.0)


def fio(stop: Any = QUICK, **fields: Any) -> dict[str, Any]:
    matrix = {"rw": ["randwrite"], "bs": ["4k", "16k"], "iodepth": [1, 8]}
    whole = {"jobs": {"first": {"rw": "write"}}, "matrix": matrix, "options": {"direct": 1}}
    return {"workload": "fio", "size": "16MiB", "fill": False, "stop": stop, **whole, **fields}


def one(stop: Any = QUICK, name: str = "only") -> dict[str, Any]:
    return fio(stop, jobs={name: {"rw": "write"}}, matrix={})


def local(small: dict[str, Any], **workloads: dict[str, Any]) -> Study:
    """The study's local stack under these workloads, in this order."""
    small["stacks"].pop("mirror", None)
    return build({**small, "workloads": workloads})


def go(study: Study, runs: Path, site: FakeSite, seed: int | None = None) -> tuple[list[Run], Silent, int]:
    grid = cells(study)
    folder = StudyFolder.create(runs, Manifest(study, grid, seed=seed))
    progress = Silent()
    bad = run_study(site, study, grid, folder, progress, seed)
    assert all(lab.closed for lab in site.labs)
    assert not list(folder.cells.glob(".*"))
    assert not folder.missing([cell for cell in grid if progress.outcomes[cell.label].status == "ok"])
    return list(folder.runs()), progress, bad


def fios(study: Study, runs: Path, answers: Fios, seed: int | None = None) -> tuple[list[Run], Silent, int]:
    return go(study, runs, answers.site, seed)


def noisy(job: str, number: int) -> float:
    """A rate that never settles: it jumps by a third from run to run."""
    return 1000.0 if number % 2 else 1300.0


def stop_of(run: Run, phase: str = "") -> Stopped:
    (found,) = [each for each in run.stops if each.phase == phase]
    return found


def raw(run: Run) -> set[str]:
    return {path.name for path in (run.folder / "raw" / "workload").iterdir()}


# -- rounds --------------------------------------------------------------------------------------------------


def test_settled_phases_are_left_out_and_the_others_go_on_to_the_cap(
    small: dict[str, Any], tmp_path: Path
) -> None:
    answers = Fios(lambda job, number: noisy(job, number) if job.endswith("qd8") else 2000.0 + number)
    (run,), _, bad = fios(local(small, io=fio()), tmp_path, answers, seed=7)
    assert bad == 0 and run.outcome.status == "ok"
    for phase in PHASES:
        stop, loud = stop_of(run, phase), phase.endswith("qd8")
        assert answers.jobs().count(phase) == stop.rounds == (6 if loud else 3)
        assert (stop.reason, stop.seconds) == (("capped", 6.0) if loud else ("settled", 3.0))
        (rate,) = stop.rates
        assert rate.metric == "write.iops" and rate.half is not None and rate.value is not None
        assert rate.value == pytest.approx(1150 if loud else 2002)
        assert ("interval is ±" in stop.why) is loud
        (spread,) = [each for each in run.rounds if (each.phase, each.metric) == (phase, "write.iops")]
        assert len(spread.values) == stop.rounds
        value = run.value("write.iops", phase)
        assert value is not None and value.value == pytest.approx(rate.value)
        # What counts is added up over the rounds.
        total = run.value("write.ios", phase)
        assert total is not None and total.value == sum(spread.values)
    assert {seconds for _, seconds in answers.runs} == {1}
    assert raw(run) == {
        f"{number:02d}-{phase}" for phase in PHASES for number in range(1, stop_of(run, phase).rounds + 1)
    }


def orders(jobs: list[str]) -> list[list[str]]:
    """The order of the phases in each round, when none is left out."""
    return [jobs[at : at + len(PHASES)] for at in range(0, len(jobs), len(PHASES))]


def test_phases_are_shuffled_anew_in_each_round_and_the_seed_decides(
    small: dict[str, Any], tmp_path: Path
) -> None:
    study = local(small, io=fio())
    found: dict[str, list[list[str]]] = {}
    for name, seed in (("one", 1), ("again", 1), ("other", 2), ("as-written", None)):
        answers = Fios(noisy)
        fios(study, tmp_path / name, answers, seed)
        found[name] = orders(answers.jobs())
        assert all(sorted(each) == sorted(PHASES) for each in found[name]) and len(found[name]) == 6
    assert found["one"] == found["again"] != found["other"]
    assert len({tuple(each) for each in found["one"]}) > 1
    assert found["as-written"] == [PHASES] * 6


def test_cells_are_shuffled_by_the_seed_and_as_written_keeps_them(small: dict[str, Any], tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(6)]
    study = local(small, **{name: one(name=name) for name in names})
    found = {}
    for folder, seed in (("one", 1), ("again", 1), ("other", 2), ("as-written", None)):
        answers = Fios()
        runs, *_ = fios(study, tmp_path / folder, answers, seed)
        found[folder] = list(dict.fromkeys(answers.jobs()))
        assert {run.environment["seed"] for run in runs} == {seed}
    assert found["one"] == found["again"] != found["other"]
    assert found["as-written"] == names and sorted(found["one"]) == names


def test_a_fixed_time_is_one_run(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios(noisy)
    (run,), _, bad = fios(local(small, io=fio({"fixed": "3s"})), tmp_path, answers)
    assert bad == 0 and answers.runs == [(phase, 3) for phase in PHASES]
    for phase in PHASES:
        assert stop_of(run, phase) == Stopped(
            phase, "capped", stop_of(run, phase).rates, rounds=1, seconds=3.0, why=""
        )


def test_each_round_is_told_to_draw_its_own_lots(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []

    def reseeded(self: Fio, number: int) -> Fio:
        numbers.append(number)
        return self

    monkeypatch.setattr(Fio, "reseeded", reseeded)
    fios(local(small, io=one({"rounds": "3..3"})), tmp_path, Fios())
    assert numbers == [1, 2, 3]
    numbers.clear()
    study = local({**small, "repeats": 2}, io=one({"rounds": "3..3"}))
    fios(study, tmp_path / "one", Fios(), 1)
    first = list(numbers)
    assert len(set(first)) == 6, "both blocks drew the same seed"
    numbers.clear()
    fios(study, tmp_path / "again", Fios(), 1)
    assert numbers == first


@pytest.mark.parametrize(("total", "reason"), [([1000.0], "settled"), ([1000.0, 1300.0], "capped")])
def test_reads_and_writes_together_decide_and_each_has_its_interval(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: list[float], reason: str
) -> None:
    seed, totals = itertools.cycle([80.0, 120.0]), itertools.cycle(total)

    def steady(self: Fio, parsed: Parsed) -> Parsed:
        (written,) = [each for each in parsed.samples if each.metric == "write.iops" and each.time is None]
        writes = next(seed)
        mixed = (
            msgspec.structs.replace(written, value=writes),
            msgspec.structs.replace(written, metric="read.iops", value=next(totals) - writes),
        )
        others = tuple(each for each in parsed.samples if each is not written)
        return msgspec.structs.replace(parsed, samples=others + mixed)

    monkeypatch.setattr(Fio, "steady", steady)
    (run,), *_ = fios(local(small, io=one({"rounds": "3..6"})), tmp_path, Fios())
    stop = stop_of(run, "only")
    assert (stop.reason, stop.rounds) == (reason, 3 if reason == "settled" else 6)
    assert {rate.metric: (rate.half or 0.0) > 0.02 * (rate.value or 0.0) for rate in stop.rates} == {
        "write.iops": True, "read.iops": True
    }  # fmt: skip
    assert reason == "settled" or "write.iops + read.iops" in stop.why or "read.iops + write.iops" in stop.why


@pytest.mark.parametrize(("stop", "left_out"), [({"rounds": "3..3"}, 3), ({"fixed": "3s"}, 0), ("snia", 0)])
def test_only_rounds_leave_out_how_they_began(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: Any, left_out: int
) -> None:
    asked = []

    def steady(self: Fio, parsed: Parsed) -> Parsed:
        asked.append(parsed)
        return parsed

    monkeypatch.setattr(Fio, "steady", steady)
    fios(local(small, io=one(stop)), tmp_path, Fios())
    assert len(asked) == left_out


@pytest.mark.parametrize(("rate", "reason", "rounds"), [(None, "settled", 5), (noisy, "capped", 25)])
def test_rounds_by_snia(small: dict[str, Any], tmp_path: Path, rate: Any, reason: str, rounds: int) -> None:
    # Within 20 % of each other, without a slope: steady by the standard, whatever the interval.
    steady = [1000.0, 1090.0, 1000.0, 1090.0, 1000.0]
    answers = Fios(rate or (lambda job, number: steady[number - 1]))
    (run,), _, bad = fios(local(small, io=one("snia")), tmp_path, answers)
    stop = stop_of(run, "only")
    assert bad == 0 and (stop.reason, stop.rounds, stop.seconds) == (reason, rounds, 5.0 * rounds)
    assert ("the range is" in stop.why) == (reason == "capped")


# -- one long run --------------------------------------------------------------------------------------------

LONG = {"half_width": "2%", "at_least": "5s", "at_most": "60s"}
SUMMARY = (GOLDEN / "pgbench" / "stdout").read_bytes()


def progress_line(second: int, tps: float) -> tuple[bytes, bytes]:
    """``progress: 1795234011.003 s, 715.0 tps, lat 0.703 ms stddev 0.556, 0 failed``"""
    return b"", f"progress: {1795234010 + second}.003 s, {tps:.1f} tps, lat 0.7 ms stddev 0.5, 0 failed\n".encode()


def around(tps: float, spread: float, count: int) -> tuple[tuple[bytes, bytes], ...]:
    drawn = random.Random(4)
    return tuple(progress_line(second, drawn.gauss(tps, spread)) for second in range(count))


class Pgbenches(Answers):
    """Hosts whose pgbench is a ``Play``: those of ``plays`` one after the other, the last one again and again."""

    def __init__(self, *plays: Play | Result) -> None:
        super().__init__()
        self.plays = list(plays)

    def __call__(self, host: str, argv: Argv) -> Result:
        if any(each.startswith("--progress") for each in argv):
            return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        return super().__call__(host, argv)


def pgbench(**fields: Any) -> dict[str, Any]:
    return {"workload": "pgbench", "scale": 1, "clients": 2, "log": False, "stop": LONG, **fields}


def long(small: dict[str, Any], tmp_path: Path, *plays: Play | Result) -> tuple[list[Run], FakeSite, int]:
    site = FakeSite(Pgbenches(*plays))
    runs, _, bad = go(local(small, tx=pgbench(), then=pgbench(clients=3)), tmp_path, site)
    return runs, site, bad


def signals(site: FakeSite) -> list[int]:
    """What pgbench was sent, in order."""
    sent = [argv for lab in site.labs for _, argv in lab.log if argv[0] == "signal"]
    return [int(argv[1]) for argv in sent if any("pgbench" in each for each in argv)]


STEADY = Play(0, SUMMARY, b"", pieces=around(700, 7, 60), heeds=(signal.SIGALRM, signal.SIGTERM))


def test_a_long_run_is_ended_by_its_signal_once_it_has_settled(small: dict[str, Any], tmp_path: Path) -> None:
    (run, _), site, bad = long(small, tmp_path, STEADY)
    assert bad == 0 and signals(site) == [signal.SIGALRM] * 2
    stop = stop_of(run)
    assert stop.reason == "settled" and not stop.why and 5 <= stop.seconds < 60
    (rate,) = stop.rates
    assert rate.value == pytest.approx(700, rel=0.03) and rate.half is not None and rate.half < 15
    assert run.value("tps") is not None
    # It saw no more of the tool than it printed until then.
    assert (run.folder / "raw" / "workload" / "workload" / "stderr").read_bytes().count(b"\n") < 60


@pytest.mark.parametrize(("count", "reason"), [(20, "drained"), (60, "capped")])
def test_a_long_run_that_ends_by_itself(small: dict[str, Any], tmp_path: Path, count: int, reason: str) -> None:
    rising = tuple(progress_line(second, 500 + 20 * second) for second in range(count))
    (run, _), site, bad = long(small, tmp_path, Play(0, SUMMARY, b"", pieces=rising, ends=True))
    assert bad == 0 and signals(site) == []
    stop = stop_of(run)
    assert (stop.reason, stop.seconds) == (reason, count) and stop.why


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (Play(1, b"", b"server closed the connection\n", pieces=around(700, 200, 9), ends=True), "server closed"),
        (Play(0, b"", b"", pieces=(*around(700, 200, 9), (b"", b"progress: \xff?\n"))), "progress line"),
        (Play(0, SUMMARY[:200], b"", pieces=around(700, 200, 9), ends=True), "its summary"),
        (Play(0, b"\xff\x00", b"", pieces=STEADY.pieces, heeds=STEADY.heeds), "its summary"),
    ],
    ids=["dies", "garbage while it goes", "summary cut", "garbage after the signal"],
)
def test_a_long_run_that_breaks_is_kept_and_the_next_cell_goes_on(
    small: dict[str, Any], tmp_path: Path, play: Play, said: str
) -> None:
    (run, then), _, bad = long(small, tmp_path, play, STEADY)
    assert bad == 1 and (run.outcome.status, then.outcome.status) == ("failed", "ok")
    assert said in run.outcome.error
    stop = stop_of(run)
    assert stop.reason == "failed" and said in stop.why
    kept = run.folder / "raw" / "workload" / "workload"
    assert (kept / "stderr").read_bytes().startswith(play.pieces[0][1])
    assert run.records and run.knobs


def test_a_long_run_that_never_ends(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklab.workloads.pgbench._SPARE", -59.95)
    stuck = Play(0, b"", b"", pieces=around(700, 200, 3), heeds=())
    (run, then), site, bad = long(small, tmp_path, stuck, STEADY)
    assert bad == 1 and then.outcome.status == "ok" and "did not end" in run.outcome.error
    assert stop_of(run).reason == "failed"
    # Asked first, made to then.
    assert signals(site) == [signal.SIGTERM, signal.SIGKILL, signal.SIGALRM]


# -- what breaks in rounds -----------------------------------------------------------------------------------


def lost() -> Result:
    raise NodeLost("a1", "its kernel panicked", "Kernel panic - not syncing: test")


@pytest.mark.parametrize(
    ("broken", "said", "kept"),
    [
        (Result(1, b"half a line", b"fio: io_u error\n"), "io_u error", b"half a line"),
        (Result(0, b"{ \xff garbage", b""), "JSON", b"{ \xff garbage"),
        (Result(0, b'{"jobs": [{"jobname": 3}]}', b""), "JSON", b'{"jobs": [{"jobname": 3}]}'),
        (Result(0, b"", b""), "no JSON", b""),
        (Play(0, b"", b"", heeds=()), "did not end", b""),
        (Play(0, b"told at the end", b""), "did not end", b"told at the end"),
        (lost, "Kernel panic", None),
    ],
    ids=["dies", "garbage", "other JSON", "nothing", "never ends", "ends when told to", "node lost"],
)
def test_what_breaks_in_a_later_round_costs_its_cell_and_no_figure_from_before(
    small: dict[str, Any], tmp_path: Path, broken: Any, said: str, kept: bytes | None
) -> None:
    answers = Fios(noisy)
    answers.instead["randwrite-4k-qd8", 2] = broken
    study = local(small, io=fio(), then=one())
    (run, then), progress, bad = fios(study, tmp_path, answers)
    assert bad == 1 and (run.outcome.status, then.outcome.status) == ("failed", "ok")
    assert said in run.outcome.error and then.values() and stop_of(then, "only").reason == "capped"
    assert set(progress.outcomes) == {"local/io", "local/then"}
    # The phases before it in the order have two rounds, the others one; all of that is kept.
    assert [stop_of(run, phase).rounds for phase in PHASES] == [2, 2, 1, 1, 1]
    assert {each.reason for each in run.stops} == {"failed"}
    assert said in stop_of(run, "randwrite-4k-qd8").why
    for phase in PHASES:
        value = run.value("write.iops", phase)
        assert value is not None and value.value == (1150 if stop_of(run, phase).rounds == 2 else 1000)
    assert raw(run) == {f"01-{phase}" for phase in PHASES} | {f"02-{phase}" for phase in PHASES[:3]}
    if kept is not None:
        assert (run.folder / "raw" / "workload" / "02-randwrite-4k-qd8" / "stdout").read_bytes() == kept
        assert run.knobs and run.records
    stored = json.loads((run.folder / "stops.json").read_text())
    assert {each["reason"] for each in stored} == {"failed"}


def test_a_settled_phase_stays_settled_when_another_one_breaks(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios(lambda job, number: noisy(job, number) if "4k" in job else 1000.0)
    answers.instead["randwrite-4k-qd8", 5] = Result(1, b"", b"fio: killed\n")
    (run,), _, bad = fios(local(small, io=fio()), tmp_path, answers)
    assert bad == 1
    assert [each.phase for each in run.stops if each.reason == "failed"] == [PHASES[1], PHASES[2]]
    assert {stop_of(run, phase).reason for phase in (PHASES[0], *PHASES[3:])} == {"settled"}
    assert "randwrite-4k-qd8 failed; until then" in stop_of(run, "randwrite-4k-qd1").why


def test_the_first_round_may_break_too(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()
    answers.instead["first", 1] = Result(1, b"", b"fio: no\n")
    (run,), _, bad = fios(local(small, io=fio()), tmp_path, answers)
    assert bad == 1 and run.stops == (Stopped("first", "failed", rounds=0, why=run.outcome.error),)


# -- what watches breaks -------------------------------------------------------------------------------------


def test_probes_that_die_are_a_warning(small: dict[str, Any], tmp_path: Path) -> None:
    """Their output until then is whole, so nothing else would tell."""
    answers = Fios()
    answers.override["sampler"] = Result(3, SAMPLES, b"sampler: out of memory\n")
    (run,), progress, bad = fios(local(small, io=fio()), tmp_path, answers)
    assert bad == 0 and run.outcome.status == "ok"
    assert [text for text in progress.warnings if "probes" in text] == [
        "local/io: a1: the probes ended before the workload did, exit code 3: sampler: out of memory"
    ]
    assert {record.code for record in run.records if record.part == "probe"} == {3}
    assert (run.folder / "raw" / "probes" / "a1" / "sampler").stat().st_size > 0


def test_probes_that_live_are_no_warning(small: dict[str, Any], tmp_path: Path) -> None:
    _, progress, bad = fios(local(small, io=one()), tmp_path, Fios())
    assert bad == 0 and not [text for text in progress.warnings if "ended before" in text]


def test_probes_that_heed_nothing_are_killed(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()
    answers.override["sampler"] = Play(0, b"", b"", heeds=())
    (run,), progress, bad = fios(local(small, io=one()), tmp_path, answers)
    assert bad == 0 and run.outcome.status == "ok"
    sent = [argv[1] for _, argv in answers.site.labs[0].log if argv[0] == "signal" and "sampler" in " ".join(argv)]
    assert sent[-1] == str(int(signal.SIGKILL)) and any("probe disks" in text for text in progress.warnings)


@pytest.mark.parametrize("text", [b"", b"\xff\xfe==> /proc/", b"==> /proc/uptime <==\n5.6"])
def test_counters_that_make_no_sense_are_a_warning(small: dict[str, Any], tmp_path: Path, text: bytes) -> None:
    answers = Fios()
    answers.override["tail"] = Result(0, text, b"")
    (run,), progress, bad = fios(local(small, io=one()), tmp_path, answers)
    assert bad == 0 and run.outcome.status == "ok" and run.values()
    # Once, and not for each round.
    assert len([each for each in progress.warnings if "could not be compared" in each]) == 1


def test_counters_that_never_come_are_a_warning(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()

    def hangs(host: str, argv: Argv) -> Result:
        if argv[0] == "tail":
            raise HostTimeout(host, 1.0)
        return answers(host, argv)

    answers.site = FakeSite(hangs)
    (run,), progress, bad = fios(local(small, io=one()), tmp_path, answers)
    assert bad == 0 and run.outcome.status == "ok" and run.values()
    assert any("a1: its counters could not be read in time" in each for each in progress.warnings)


@pytest.mark.parametrize("step", [-3600.0, -5.0, 90.0, 0.8])
def test_a_clock_that_steps_fails_its_cell_with_everything_kept(
    small: dict[str, Any], tmp_path: Path, step: float
) -> None:
    answers = Fios()

    def steps(job: str, number: int) -> float:
        if (job, number) == ("first", 2):
            answers.ahead += step
        return 1000.0

    answers.rate = steps
    (run, then), _, bad = fios(local(small, io=fio(), then=one()), tmp_path, answers)
    assert bad == 1 and (run.outcome.status, then.outcome.status) == ("failed", "ok")
    assert f"a1: its clock went {step:+,.2f} s against ours" in run.outcome.error
    assert {each.reason for each in run.stops} == {"settled"} and len(run.stops) == len(PHASES)
    assert all(run.value("write.iops", phase) is not None for phase in PHASES)


def test_a_clock_that_is_just_wrong_is_no_failure(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()
    answers.ahead = -1e6
    (run,), _, bad = fios(local(small, io=one()), tmp_path, answers)
    assert bad == 0 and [each.offset for each in run.stack.clocks["a1"]] == [pytest.approx(-1e6, abs=1)] * 2


def test_our_own_clock_may_step_too(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node goes by its own; a cell never takes less than no time."""
    answers, now = Fios(), [1.8e9]
    monkeypatch.setattr("blocklab.runner.run.time.time", lambda: now[0])

    def steps(job: str, number: int) -> float:
        now[0] = 1.7e9
        return 1000.0

    answers.rate = steps
    answers.override["date"] = Result(0, b"1800000000.5\n", b"")
    (run,), _, bad = fios(local(small, io=one()), tmp_path, answers)
    assert bad == 1 and "its clock went" in run.outcome.error and 0 <= run.outcome.seconds < 60


# -- what is told meanwhile ------------------------------------------------------------------------------------


def test_each_round_is_told_with_an_interval_that_is_the_stored_one_at_the_end(
    small: dict[str, Any], tmp_path: Path
) -> None:
    answers = Fios(lambda job, number: noisy(job, number) if job.endswith("qd8") else 2000.0 + number)
    (run,), progress, _ = fios(local(small, io=fio()), tmp_path, answers, seed=7)
    assert {label for label, *_ in progress.values} == {"local/io"}
    for phase in PHASES:
        mine = [(rounds, rates) for _, name, rounds, rates in progress.values if name == phase]
        stop = stop_of(run, phase)
        # Before and after each round.
        assert [rounds for rounds, _ in mine] == sorted([*range(stop.rounds), *range(1, stop.rounds + 1)])
        assert mine[0] == (0, ()) and mine[-1] == (stop.rounds, stop.rates)


def test_a_long_run_is_told_at_each_look(small: dict[str, Any], tmp_path: Path) -> None:
    (run,), progress, _ = go(local(small, tx=pgbench()), tmp_path, FakeSite(Pgbenches(STEADY)))
    (stop,) = run.stops
    assert len(progress.values) > 3 and {rounds for _, _, rounds, _ in progress.values} == {0}
    assert progress.values[0][3] == () and progress.values[-1][3] == stop.rates


# -- what measuring takes itself -------------------------------------------------------------------------------


def test_the_cpu_of_the_probes_and_of_blocklab_is_stored(small: dict[str, Any], tmp_path: Path) -> None:
    (run,), _, _ = fios(local(small, io=one()), tmp_path, Fios())
    found = {(sample.layer, sample.host): sample for sample in run.own()}
    assert set(found) == {("blocklab", ""), ("probe sampler", "a1")}
    for record in run.records:
        if record.part == "probe":
            assert record.cpu == PROBE_CPU
    workloads = [record for record in run.records if record.part == "workload"]
    assert len(workloads) == 3 and all(record.cpu is not None and record.cpu > 0 for record in workloads)
    share = 100 * sum(record.cpu or 0.0 for record in workloads) / sum(record.seconds for record in workloads)
    assert found["blocklab", ""].value == pytest.approx(share) and found["blocklab", ""].unit == "%"
    # It is no value of the workload.
    assert not [sample for sample in run.values() if sample.layer in ("blocklab", "probe sampler")]


def test_probes_whose_cpu_is_not_known_have_no_value(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()
    answers.override["sampler"] = Play(0, SAMPLES, b"")
    (run,), _, _ = fios(local(small, io=one()), tmp_path, answers)
    assert {sample.layer for sample in run.own()} == {"blocklab"}


# -- layers that lie -----------------------------------------------------------------------------------------


def test_layers_that_agree_are_ok(small: dict[str, Any], tmp_path: Path) -> None:
    """The counters of a real node around 8,192 writes of 4 KiB, and a fio that tells of just these."""
    run, bad = mirrored(small, tmp_path, ("direct.before", "direct.after"), 8192.0)
    assert bad == 0 and run.outcome.status == "ok" and not run.outcome.error
    (row,) = [s for s in run.values() if (s.metric, s.layer) == ("layer.write.amplification", "drbd0")]
    assert row.value == 1.0


@pytest.mark.parametrize(
    ("counters", "ios", "said"),
    [
        (
            ("direct.before", "direct.after"),
            12288.0,
            r"write on drbd0: fio tells of 48.00 MiB, the kernel counted 32.00 MiB \(-33.3%\). Not all of fio's",
        ),
        (
            ("direct.before", "direct.after"),
            4096.0,
            r"write on drbd0: fio tells of 16.00 MiB, the kernel counted 32.00 MiB \(\+100.0%\). Something else",
        ),
        (
            ("direct.before", "direct.before"),
            8192.0,
            r"write on drbd0: fio tells of 32.00 MiB, the kernel counted 0.00 MiB \(-100.0%\). Not all of fio's",
        ),
    ],
    ids=["too few", "too many", "none"],
)
def test_layers_that_do_not_agree_are_suspect(
    small: dict[str, Any], tmp_path: Path, counters: tuple[str, str], ios: float, said: str
) -> None:
    run, bad = mirrored(small, tmp_path, counters, ios)
    assert bad == 1 and run.outcome.status == "suspect"
    assert re.search(rf"^the layers do not agree: only: {said}", run.outcome.error)
    # One sentence for each of three rounds.
    assert run.outcome.error.endswith("(and 2 more)")
    assert stop_of(run, "only").reason == "settled" and run.value("write.iops", "only") is not None


def mirrored(small: dict[str, Any], tmp_path: Path, counters: tuple[str, str], ios: float) -> tuple[Run, int]:
    del small["stacks"]["local"]
    answers = Fios(lambda job, number: ios)
    answers.counters = counters
    study = build({**small, "baseline": "mirror", "workloads": {"io": one()}})
    (run,), _, bad = fios(study, tmp_path, answers)
    return run, bad


# -- repeats -------------------------------------------------------------------------------------------------


def test_repeats_are_layouts_built_anew_and_compared_within_each(small: dict[str, Any], tmp_path: Path) -> None:
    study = build({**small, "workloads": {"io": one()}, "repeats": 2})
    grid = cells(study)
    assert len({cell.key for cell in grid}) == 4 and [cell.repeat for cell in grid] == [0, 0, 1, 1]
    answers, found = Fios(), [1000.0, 500.0, 2000.0, 1010.0]
    # Three rounds each: the machine is twice as fast in the second repeat.
    # The second repeat goes the other way round: the mirror first.
    answers.rate = lambda job, number: found[(0, 1, 3, 2)[(number - 1) // 3]]
    runs, _, bad = fios(study, tmp_path, answers, seed=3)
    assert bad == 0 and len(runs) == 4
    # The whole of the first repeat, then the whole of the second one, each stack made again.
    made = [argv[0] for lab in answers.site.labs for _, argv in lab.log if argv[0] in ("mkfs.xfs", "mkfs.ext4")]
    assert made == ["mkfs.xfs", "mkfs.ext4", "mkfs.ext4", "mkfs.xfs"]
    analysis = analyse(StudyFolder(tmp_path / study.name))
    rows = {row.stack: row for row in analysis.rows if row.metric == "write.iops" and row.own}
    assert len([row for row in analysis.rows if row.metric == "write.iops" and row.own]) == 2
    local, mirror = rows["local"], rows["mirror"]
    assert (local.value, mirror.value) == (1500.0, 755.0)
    # Over two repeats that differ by half the mean the interval is wide; the ratio within each is not.
    assert local.half is not None and local.half > local.value and mirror.relative is not None
    assert mirror.relative.value == pytest.approx((0.5 * 0.505) ** 0.5)
    assert mirror.relative.half is not None and mirror.relative.half < 0.05
    assert {(stop.stack, stop.repeat) for stop in analysis.stops} == {
        (stack, repeat) for stack in ("local", "mirror") for repeat in (1, 2)
    }


def test_repeats_of_the_same_hardware_are_built_anew_too(small: dict[str, Any], tmp_path: Path) -> None:
    answers = Fios()
    small["repeats"] = 2
    runs, _, bad = fios(local(small, io=one(), then=one(name="second")), tmp_path, answers)
    assert bad == 0 and len(runs) == 4 and len(answers.site.labs) == 1
    log = [argv[0] if host else f"restore {argv[1]}" for host, argv in answers.site.labs[0].log]
    kept = [each for each in log if each in ("mkfs.xfs", "umount", "restore ")]
    assert kept == ["mkfs.xfs", "umount", "restore ", "mkfs.xfs", "umount"]
