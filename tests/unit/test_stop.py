"""How long a workload is measured: what a study may say, and what rounds and repeats make of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.model.sample import Parsed, Phase, Sample, Spread
from blocklab.model.stop import AnyStop, Rule, Stop, rule_of
from blocklab.model.units import Share, dec_hook
from blocklab.model.workload import Ruled
from blocklab.rules.rounds import merged
from blocklab.stats.repeats import combined, interval, paired
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Measured, Row, sure
from blocklab.store.run import Outcome, Rate, Run, Stopped
from blocklab.study.types import Cell
from blocklab.workloads import AnyWorkload, Dd, Fio, Pgbench, Sysbench, Tpcc


def stop(raw: Any) -> Any:
    return msgspec.convert(raw, AnyStop, dec_hook=dec_hook)


def workload(**raw: Any) -> Fio | Pgbench | Sysbench | Tpcc:
    found: AnyWorkload = msgspec.convert(raw, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Ruled)
    return found


# --- what a study may say


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ({}, Rule("rounds", 0.02, 3, 15, 4.0)),
        ({"rounds": "2..4", "each": "2s", "half_width": "5%"}, Rule("rounds", 0.05, 2, 4, 2.0)),
        ({"at_most": "20s"}, Rule("long", at_least=5.0, at_most=20.0)),
        ({"at_most": "3s"}, Rule("long", at_least=3.0, at_most=3.0)),
        ({"at_least": "2.5s"}, Rule("long", at_least=2.5, at_most=60.0)),
        ({"fixed": "30s"}, Rule("fixed", at_most=30.0)),
        ("snia", Rule("snia", least=5, most=25, each=5.0)),
    ],
)
def test_rules(raw: Any, rule: Rule) -> None:
    found = stop(raw)
    assert isinstance(found, str) or list(found.problems()) == []
    assert rule_of(found) == rule


@pytest.mark.parametrize(
    ("raw", "field", "why"),
    [
        ({"fixed": "3s", "half_width": "1%"}, "fixed", "stands alone"),
        ({"fixed": "3s", "at_most": "9s"}, "fixed", "stands alone"),
        ({"rounds": "3..5", "at_most": "9s"}, "rounds", "not both"),
        ({"each": "3s", "at_least": "9s"}, "rounds", "not both"),
        ({"half_width": "0%"}, "half_width", "above 0.3%"),
        ({"half_width": "80%"}, "half_width", "below 50%"),
        ({"rounds": "3"}, "rounds", "like 3..15"),
        ({"rounds": "1..3"}, "rounds", "at least 2"),
        ({"rounds": "5..3"}, "rounds", "like 3..15"),
        ({"each": "1.5s"}, "each", "whole seconds"),
        ({"each": "0s"}, "each", "at least 1s"),
        ({"at_most": "0.5s"}, "at_most", "whole seconds"),
        ({"at_least": "9s", "at_most": "5s"}, "at_least", "not above at_most"),
    ],
)
def test_problems_of_rules(raw: Any, field: str, why: str) -> None:
    assert why in dict(stop(raw).problems())[field]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"workload": "tpcc", "time": "5s", "stop": {}}, "a fixed length already"),
        ({"workload": "pgbench", "transactions": 5, "stop": "snia"}, "a fixed length already"),
        ({"workload": "sysbench", "stop": {"at_most": "9s"}}, "cannot be ended early"),
        (
            {"workload": "fio", "size": "1MiB", "jobs": {"a": {"rw": "read", "runtime": 3}}, "stop": {}},
            "a fixed length already",
        ),
        ({"workload": "fio", "jobtext": "[a]\nrw=read\nruntime=3\n", "stop": {}}, "a job file runs as it says"),
    ],
)
def test_a_rule_and_a_length_exclude_each_other(raw: dict[str, Any], problem: str) -> None:
    assert problem in dict(workload(**raw).problems())["stop"]


def test_who_has_a_rule() -> None:
    assert workload(workload="tpcc").rule() == workload(workload="sysbench").rule() == Stop().rule()
    assert workload(workload="tpcc", time="5s").rule() is None
    assert workload(workload="pgbench").rule() == Stop().rule()
    assert not isinstance(Dd(mode="none", count=1), Ruled)
    fio = {"workload": "fio", "size": "1MiB", "jobs": {"a": {"rw": "read"}, "b": {"rw": "write"}}}
    assert workload(**fio).rule() is None
    both = workload(**fio, stop={"rounds": "3..5", "each": "2s"})
    assert both.rule() == Rule("rounds", 0.02, 3, 5, 2.0) and both.problems() == []


def test_trials_are_the_same_load_cut_short() -> None:
    whole = workload(
        workload="fio", size="4MiB", options={"direct": 1}, jobs={"a": {"rw": "read"}},
        matrix={"bs": ["4k", "8k"]}, stop={},
    )  # fmt: skip
    trials = whole.trials(7.0)
    assert list(trials) == ["a", "4k", "8k"]
    one = trials["8k"]
    assert isinstance(one, Fio) and one.problems() == [] and one.rule() is None and one.lasts() == 7
    assert list(one.all_jobs) == ["8k"] and one.all_jobs["8k"] == {"bs": "8k", "time_based": True, "runtime": 7}
    assert one.options == {"direct": 1}


def test_per_cent() -> None:
    assert Share("2%") == 0.02 and str(Share("2.5%")) == "2.5%"
    with pytest.raises(ValueError, match="has no unit"):
        Share(0.02)


# --- rounds


def sample(metric: str, value: float, unit: str = "1/s", time: float | None = None) -> Sample:
    return Sample(metric, value, unit, "fio", "a1", "p", time)


def test_rounds_are_put_together_by_what_a_figure_is() -> None:
    rounds = []
    for iops, at in ((10.0, 100.0), (30.0, 105.0)):
        found = (
            sample("read.iops", iops), sample("read.ios", 10 * iops, "1"), sample("read.latency.max", iops, "s"),
            sample("read.bandwidth", 4096 * iops, "B/s"),
            sample("read.latency.p99", iops / 2, "s"), sample("read.iops", iops, time=at),
        )  # fmt: skip
        rounds.append(Parsed(found, (Phase("p", at, at + 1),)))
    rounds.append(Parsed((sample("write.iops", 3.0), sample("write.latency.p99", 4.0, "s"))))
    parsed, spreads = merged(rounds)
    values = {each.metric: each.value for each in parsed.samples if each.time is None}
    # A round without reads read nothing, but it has no latency of reads.
    assert values["read.iops"] == pytest.approx(40 / 3) and values["read.ios"] == 400
    assert values["read.bandwidth"] == pytest.approx(4096 * values["read.iops"])
    assert values["read.latency.max"] == 30 and values["read.latency.p99"] == 10
    assert values["write.iops"] == 1.0 and values["write.latency.p99"] == 4.0
    assert [each.value for each in parsed.samples if each.time is not None] == [10.0, 30.0]
    assert len(parsed.phases) == 2
    assert {each.metric: each.values for each in spreads}["read.iops"] == (10.0, 30.0, 0.0)


# --- repeats


def row(value: float, share: float | None, stack: str = "mirror") -> Row:
    relative = None if share is None else Estimate(share)
    return Row(stack, "io", "p", "read.iops", value, "1/s", "fio", "a1", 0.5, relative=relative, own=True)


def test_one_block_keeps_its_own_interval() -> None:
    assert combined([[row(5.0, 0.5)]]) == (row(5.0, 0.5),)


def test_shares_are_taken_within_blocks() -> None:
    """The second block ran on a machine half as fast: the values differ much, their ratio does not."""
    blocks = [[row(100.0, 0.50)], [row(50.0, 0.51)], [row(75.0, 0.49)]]
    [found] = combined(blocks)
    assert found.value == 75 and found.half is not None and found.half > 50
    assert found.relative is not None and found.relative.half is not None
    assert found.relative.value == pytest.approx((0.50 * 0.51 * 0.49) ** (1 / 3))
    assert found.relative.half < 0.03


def test_a_block_that_lacks_a_figure_leaves_it_to_the_others() -> None:
    found = combined([[row(1.0, 1.0), row(9.0, 0.3, "other")], [row(3.0, 1.0)]])
    assert [(each.stack, each.value) for each in found] == [("mirror", 2.0), ("other", 9.0)]
    share = found[0].relative
    assert share is not None and (share.value, share.builds) == (1.0, 2)
    assert share.half == pytest.approx(0.003, rel=0.01), "no interval is 0"
    [itself] = combined([[row(1.0, 1.0)], [row(3.0, 1.0)]], ["mirror"])
    assert itself.relative == Estimate(1.0), "a baseline's share of itself is no measurement"


def test_intervals_of_blocks() -> None:
    assert interval([4.0]) == Estimate(4.0)
    # Student's t for 2 degrees of freedom, standard deviation 1: 4.3027 / sqrt(3).
    assert interval([1.0, 2.0, 3.0]).half == pytest.approx(2.4842, abs=1e-3)
    assert paired([0.5, 2.0]).value == pytest.approx(1.0)
    assert paired([0.0, 1.0]).value == 0.5
    assert (paired([1e-200, 1e200]).half or 0) > 1e100


# --- a fixed time: one round


def run_of(stops: tuple[Stopped, ...], rounds: tuple[Spread, ...], seconds: int) -> Measured:
    series = tuple(sample("read.iops", 100.0 + number % 5, time=float(number)) for number in range(seconds))
    run = Run(
        Path(), Cell("k", "s", "w", {}), Outcome("ok"), {}, (), (), (sample("read.iops", 102.0), *series),
        (Phase("p", 0.0, float(seconds)),), (), stops, rounds,
    )  # fmt: skip
    return Measured(run, "a1")


def test_a_fixed_time_has_the_interval_of_its_course() -> None:
    stop = Stopped("p", "capped", (Rate("read.iops", 102.0),))
    spread = Spread("p", "read.iops", "fio", "a1", (102.0,))
    alone = run_of((stop,), (spread,), 40)
    assert sure(alone, alone.run.values()[0]).half
    # Too short for one: none is made up.
    brief = run_of((stop,), (spread,), 5)
    assert sure(brief, brief.run.values()[0]).half is None
    # Several rounds know better than their time series.
    several = run_of(
        (msgspec.structs.replace(stop, rates=(Rate("read.iops", 101.0, 7.0),)),),
        (msgspec.structs.replace(spread, values=(95.0, 101.0, 107.0)),), 40,
    )  # fmt: skip
    assert sure(several, several.run.values()[0]) == Estimate(101.0, 7.0)


@pytest.mark.parametrize(("metric", "half"), [("tps", True), ("errors", False), ("latency.p99", False)])
def test_a_course_is_the_interval_of_a_mean_only(metric: str, half: bool) -> None:
    """120 errors are not "120 +- 0.5" because there were 2 +- 0.5 in each second."""
    series = tuple(sample(metric, 2.0 + number % 5, time=float(number)) for number in range(40))
    run = Run(
        Path(), Cell("k", "s", "w", {}), Outcome("ok"), {}, (), (), (sample(metric, 120.0), *series),
        (Phase("p", 0.0, 40.0),), (), (), (),
    )  # fmt: skip
    found = sure(Measured(run, "a1"), run.samples[0])
    assert found.value == 120.0 and (found.half is not None) == half


def rounds_of(
    metric: str, values: tuple[float, ...], *more: Sample, unit: str = "s", spec: dict[str, Any] | None = None
) -> Estimate:
    """What is said of a value whose rounds were these; IOPS settled."""
    own = sample(metric, sum(values) / len(values), unit)
    stop = Stopped("p", "settled", (Rate("read.iops", 100.0, 1.0), Rate("tps", 90.0, 0.9)), len(values))
    spread = Spread("p", metric, "fio", "a1", values)
    run = Run(
        Path(), Cell("k", "s", "w", spec or {}), Outcome("ok"), {}, (), (), (own, *more),
        (Phase("p", 0.0, 40.0),), (), (stop,), (spread,),
    )  # fmt: skip
    return sure(Measured(run, "a1"), own)


def test_a_cold_first_round_is_neither_in_a_figure_nor_in_its_interval() -> None:
    found = rounds_of("read.latency.mean", (10e-3, 1.00e-3, 1.01e-3, 0.99e-3))
    assert found.value == pytest.approx(1e-3) and found.half is not None and 0 < found.half < 0.1e-3
    # Nothing is left out where the first is as the others.
    assert rounds_of("read.latency.mean", (1.02e-3, 1.0e-3, 1.01e-3, 0.99e-3)).value == pytest.approx(1.005e-3)


def test_the_largest_value_has_no_interval() -> None:
    assert rounds_of("read.latency.max", (3.0, 2.0, 4.0)).half is None


def test_tpmc_leaves_out_the_warm_up_that_tps_leaves_out() -> None:
    found = rounds_of("tpmc", (2400.0, 2700.0), sample("tps", 85.0), unit="1/min")
    assert found.value == pytest.approx(2550 * 90 / 85) and found.half == pytest.approx(found.value * 0.01)
    assert rounds_of("tpmc", (2400.0, 2700.0), unit="1/min") == Estimate(2550.0)


def test_a_long_run_leaves_the_warm_up_out_of_bandwidth_too() -> None:
    """A volume that bursts to 300 IOPS for 10 s and has 100 from then on: 150 altogether."""
    own, mib = sample("write.bandwidth", 150.0 * 2**20, "B/s"), 2**20
    stop = Stopped("p", "settled", (Rate("write.iops", 100.0, 2.0),), cut=15.0)
    run = Run(
        Path(), Cell("k", "s", "w", {}), Outcome("ok"), {}, (), (), (own, sample("write.iops", 150.0)),
        (Phase("p", 0.0, 40.0),), (), (stop,), (),
    )  # fmt: skip
    assert sure(Measured(run, "a1"), own) == Estimate(100.0 * mib, 2.0 * mib)
    # Each direction goes with its own.
    other = sample("read.bandwidth", 7.0, "B/s")
    assert sure(Measured(run, "a1"), other) == Estimate(7.0)


def test_snias_figures_are_those_of_its_whole_window() -> None:
    window = (66.0, 60.0, 60.0, 60.0, 60.0)
    assert rounds_of("read.bandwidth", window, unit="B/s").value == 60.0
    found = rounds_of("read.bandwidth", window, unit="B/s", spec={"workload": {"stop": "snia"}})
    assert found.value == pytest.approx(61.2) and found.half is not None and found.half > 0
