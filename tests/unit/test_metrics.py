"""The registry of metrics knows all that blocklab's parsers emit, and says what becomes of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from blocklab.model.metrics import known, metric, quoted
from blocklab.model.probe import Probe
from blocklab.model.sample import Histogram, Parsed, Sample, Transaction
from blocklab.probes import PROBES
from blocklab.rules.rounds import merged
from blocklab.stats.format import quantity, unit_of
from blocklab.workloads import AnyWorkload
from blocklab.workloads.imported import ImportedWorkload
from blocklab.workloads.open_loop import OpenLoop
from tests.unit.golden import FOLDER


def parsed_samples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every sample in every golden file: what each parser made of a tool's real output."""

    def found(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and {"metric", "unit", "layer", "host"} <= value.keys():
            yield value
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from found(each)

    for path in sorted(FOLDER.rglob("*.json")):
        try:
            text = json.loads(path.read_bytes())
        except ValueError:
            # What a tool printed, and no JSON document of ours.
            continue
        yield from ((str(path.relative_to(FOLDER)), sample) for sample in found(text))


def test_every_metric_that_a_parser_emits_is_in_the_registry_with_its_unit() -> None:
    wrong: set[tuple[str, str, str]] = set()
    samples = list(parsed_samples())
    for name, sample in samples:
        each = known(sample["metric"])
        # A counter's time series is how many there were in each second.
        by_second = each is not None and each.kind == "counter" and "time" in sample
        if each is None or sample["unit"] != ("1/s" if by_second else each.unit):
            wrong.add((name, sample["metric"], sample["unit"]))
    assert not wrong
    # All parsers have golden files, of which these are some of the layers.
    assert {sample["layer"] for _, sample in samples} >= {
        "fio",
        "pgbench",
        "sysbench",
        "mysql",
        "postgresql",
        "cpu",
    }


@pytest.mark.parametrize(
    ("name", "of", "family", "kind"),
    [
        ("tps", "", "tps", "rate"),
        ("read.iops", "read", "iops", "rate"),
        ("read.latency.p99.9", "read", "latency.p99.9", "percentile"),
        ("new_order.count", "new_order", "count", "counter"),
        ("log.bytes", "", "log.bytes", "rate"),
        ("layer.write.bytes", "layer", "write.bytes", "counter"),
        ("disk.read", "", "disk.read", "rate"),
        ("disk.read.bandwidth", "disk.read", "bandwidth", "rate"),
        ("write.clat.latency.max", "write.clat", "latency.max", "extreme"),
        ("write.slat.mean", "write", "slat.mean", "mean"),
    ],
)
def test_a_name_is_taken_apart_by_its_family(name: str, of: str, family: str, kind: str) -> None:
    each = known(name)
    assert each is not None
    assert (each.name, each.of, each.family, each.kind) == (name, of, family, kind)


def test_a_family_that_must_stand_alone_is_not_known_of_something() -> None:
    assert known("read.tps") is None
    assert known("toy.frobs") is None
    assert metric("toy.frobs").kind == "gauge"


def rounds(name: str, unit: str, *values: float) -> float:
    """What the rounds of one phase come to."""
    each = [Parsed((Sample(name, value, unit, "x", "a1"),)) for value in values]
    return merged(each)[0].samples[0].value


def test_rounds_are_put_together_by_kind() -> None:
    assert rounds("write.bytes", "B", 1, 2) == 3
    assert rounds("read.latency.max", "s", 1, 2) == 2
    assert rounds("latency.min", "s", 1, 2) == 1
    assert rounds("latency.p99", "s", 1, 2) == 1.5
    # Its name ends like a counter's, but it is bytes a second.
    assert rounds("log.bytes", "B/s", 1, 2) == 1.5


def test_percentiles_are_those_of_all_rounds_operations() -> None:
    """999 fast writes in one round, 1,001 slow ones in the other: half of all are slow, and the mean of the two
    medians is a time that nothing took."""

    def round_(median: float, bins: tuple[tuple[float, int], ...]) -> Parsed:
        sample = Sample("write.latency.p50", median, "s", "fio", "a1", "w")
        return Parsed((sample,), histograms=(Histogram("write.latency", "w", "a1", bins),) if bins else ())

    fast, slow = round_(1e-3, ((1e-3, 999),)), round_(9e-3, ((2e-3, 1), (9e-3, 1000)))
    assert merged([fast, slow])[0].samples[0].value == 2e-3
    # Where one does not tell, the rounds' own percentiles have to do.
    assert merged([fast, round_(9e-3, ())])[0].samples[0].value == pytest.approx(5e-3)
    # A round without writes has none of them to tell of.
    assert merged([slow, Parsed((Sample("read.iops", 1.0, "1/s", "fio", "a1", "w"),))])[0].samples[0].value == 9e-3


def test_percentiles_of_logged_transactions_are_exact() -> None:
    each = [
        Parsed(
            tuple(Sample(name, high, "s", "pgbench", "a1") for name in ("latency.p99", "latency.p99.9")),
            transactions=tuple(Transaction(at, high if at == 0 else 1.0) for at in range(100)),
        )
        for high in (5.0, 7.0)
    ]  # fmt: skip
    found = {sample.metric: sample.value for sample in merged(each)[0].samples}
    # Of 200 the 198th, and the last.
    assert found == {"latency.p99": 1.0, "latency.p99.9": 7.0}


def test_a_round_without_a_rate_had_none_and_a_round_without_a_latency_says_nothing() -> None:
    none = Parsed((Sample("write.iops", 8.0, "1/s", "x", "a1"), Sample("write.latency.p99", 8.0, "s", "x", "a1")))
    both = Parsed(
        (
            *none.samples,
            Sample("read.iops", 4.0, "1/s", "x", "a1"),
            Sample("read.latency.p99", 4.0, "s", "x", "a1"),
        )
    )
    found = {each.metric: each.value for each in merged([both, none])[0].samples}
    assert found["read.iops"] == 2.0
    assert found["read.latency.p99"] == 4.0


def test_users_quote_transactions_before_requests_and_requests_before_bytes() -> None:
    assert quoted(["tps", "latency.p99", "tpmc"]) == ["tpmc"]
    assert quoted(["write.bandwidth", "read.iops", "write.iops"]) == ["read.iops", "write.iops"]
    assert quoted(["write.bandwidth", "cpu.user"]) == ["write.bandwidth"]
    assert quoted(["cpu.user"]) == []


def test_values_are_shown_in_the_unit_that_users_quote() -> None:
    assert quantity(1200.0, "1/s", "tps") == "1,200\u00a0TPS"
    assert quantity(1200.0, "1/s", "fsyncs") == "1,200\u00a0/s"
    assert [unit_of(name) for name in ("write.iops", "tpmc", "read.bandwidth")] == [
        "write IOPS",
        "tpmC",
        "read MB/s",
    ]


@pytest.mark.parametrize("kind", get_args(AnyWorkload), ids=lambda kind: kind.__struct_config__.tag)
def test_a_workload_tells_beforehand_all_that_it_reports(kind: type) -> None:
    if issubclass(kind, ImportedWorkload):
        pytest.skip("what was imported was measured by others")
    if issubclass(kind, OpenLoop):
        pytest.skip("test_carried.py does it, which parses its output")
    declared = set(kind.metrics)  # type: ignore[attr-defined]
    assert all(known(name) is not None for name in declared)
    # The goldens of its own runs, and of its server's counters.
    tag = str(kind.__struct_config__.tag)  # type: ignore[attr-defined]
    found = {sample["metric"] for name, sample in parsed_samples() if re.match(rf"{tag}(-[a-z]+)?/", name)}
    assert found, "no golden output of it"
    assert found <= declared
    assert set(getattr(kind, "rates", ())) <= declared


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_tells_beforehand_all_that_it_measures(probe: Probe) -> None:
    found = {sample["metric"] for name, sample in parsed_samples() if re.match(rf"{probe.name}9?/", name)}
    assert found and found <= set(probe.metrics)
    assert all(known(name) is not None for name in probe.metrics)
