"""Expectations: ok, failed, unknown; never a number that was not measured."""

from __future__ import annotations

from typing import Any

import pytest

from blocklab.stats.expect import Verdict, judge
from blocklab.stats.figures import Row
from blocklab.stats.format import NBSP
from blocklab.study.types import Expectation


def row(stack: str, workload: str, value: float, metric: str = "tps", unit: str = "1/s", **more: Any) -> Row:
    fields: dict[str, Any] = {"phase": "", "layer": "pgbench", "host": "a1", "load": True, **more}
    return Row(stack=stack, workload=workload, metric=metric, value=value, unit=unit, **fields)


TABLE = (
    row("local", "small", 1000.0),
    row("mirror", "small", 250.0),
    row("local", "large", 1300.0),
    row("mirror", "large", 650.0),
    row("idle", "small", 0.0),
    row("local", "fio", 0.00058, "write.latency.mean", "s", phase="4k", layer="fio"),
    row("mirror", "fio", 0.0013, "write.await", "s", phase="4k", layer="drbd0", load=False, top=True),
    row("mirror", "fio", 0.0005, "write.await", "s", phase="4k", layer="vda", load=False),
)


def verdict(*, gaps: dict[tuple[str, str], str] | None = None, **claim: Any) -> Verdict:
    fields = {"metric": "tps", "workload": "small", "stack": "mirror", "between": (0.2, 0.3), **claim}
    return judge(Expectation(**fields), TABLE, gaps or {})


def words(found: Verdict) -> str:
    return found.sentence.replace(NBSP, " ")


def test_a_share_within_its_bounds() -> None:
    found = verdict(relative_to="local")
    assert (found.status, found.found) == ("ok", 0.25)
    assert words(found) == "tps of mirror in small is 25 % of local's (250 TPS of 1,000 TPS)."
    assert found.expected.replace(NBSP, " ") == "20 % to 30 %"


@pytest.mark.parametrize(("between", "status"), [((0.25, 1), "ok"), ((0, 0.25), "ok"), ((0.26, 1), "failed")])
def test_bounds_belong_to_the_range(between: tuple[float, float], status: str) -> None:
    assert verdict(relative_to="local", between=between).status == status


def test_a_time_is_compared_in_its_own_unit() -> None:
    claim: dict[str, Any] = {"metric": "write.latency.mean", "workload": "fio", "phase": "4k", "stack": "local"}
    found = verdict(**claim, between=("0.45ms", "0.8ms"))
    assert found.status == "ok"
    assert words(found) == "write.latency.mean of local in fio, 4k is 0.58 ms."
    assert found.expected.replace(NBSP, " ") == "0.45 ms to 0.8 ms"
    assert verdict(**claim, between=("0.1ms", "500us")).status == "failed"


def test_a_share_against_another_workloads_share() -> None:
    found = verdict(workload="large", relative_to="local", against="small", between=(1.5, 3))
    assert (found.status, found.found) == ("ok", 2.0)
    assert "2.00 times the share" in found.sentence


def test_the_probes_figure_is_that_of_the_top_device() -> None:
    found = verdict(metric="write.await", workload="fio", phase="4k", between=("1ms", "2ms"))
    assert (found.status, found.found) == ("ok", 0.0013)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"metric": "qps"}, "mirror/small has no figure qps"),
        ({"stack": "gone"}, "the cell gone/small is failed"),
        ({"relative_to": "absent"}, "the cell absent/small was never measured"),
        ({"relative_to": "idle"}, "tps of idle in small is 0, so there is no ratio to it"),
        ({"workload": "fio", "metric": "write.latency.mean", "stack": "local"}, "needs a phase: 4k"),
        ({"workload": "fio", "phase": "8k", "metric": "write.await"}, "mirror/fio, 8k has no figure write.await"),
        ({"relative_to": "local", "against": "fio"}, "has no figure tps"),
    ],
)
def test_what_was_not_measured_is_unknown_with_the_reason(claim: dict[str, Any], reason: str) -> None:
    gaps = {("gone", "small"): "failed", ("absent", "small"): "missing"}
    found = verdict(gaps=gaps, **claim)
    assert (found.status, found.found) == ("unknown", None)
    assert reason in found.sentence


def test_a_share_of_zero_is_a_number_but_not_something_to_compare_with() -> None:
    assert verdict(stack="idle", relative_to="local", between=(0, 0.1)).status == "ok"
    table = (*TABLE, row("idle", "large", 5.0))
    claim = Expectation("tps", "large", "idle", (0, 9), relative_to="local", against="small")
    found = judge(claim, table, {})
    assert found.status == "unknown" and "is 0" in found.sentence


def test_an_interval_over_a_bound_is_told() -> None:
    table = (row("local", "small", 1000.0, half=20.0), row("mirror", "small", 250.0, half=10.0))
    near = judge(Expectation("tps", "small", "mirror", (0.24, 0.5), relative_to="local"), table, {})
    far = judge(Expectation("tps", "small", "mirror", (0.1, 0.5), relative_to="local"), table, {})
    assert (near.status, near.close) == ("ok", True)
    assert (far.status, far.close) == ("ok", False)
