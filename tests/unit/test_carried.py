"""Open-loop loads: the schedule, the program's loop, its output, and the verdict whether a layout carries them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from blocklab.errors import ParseError
from blocklab.model.plan import Port, Put
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.terminal import Console
from blocklab.model.units import dec_hook
from blocklab.model.workload import Asked
from blocklab.report import render, terminal_table
from blocklab.stats import carried
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.findings import findings
from blocklab.stats.sentences import sentence
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.workloads import AnyWorkload, OpenLoop, Pgbench, Sysbench
from blocklab_node import open_loop as node
from tests.unit import synthetic

SPEC: dict[str, Any] = {"workload": "open-loop", "size": "64MiB", "reads": 700, "writes": 300, "time": "30s"}
RAW = (Path(__file__).parent / "golden" / "open_loop" / "stdout").read_bytes()


def workload(**changes: Any) -> OpenLoop:
    found = msgspec.convert(SPEC | changes, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, OpenLoop)
    return found


# -- the workload


def test_a_plan_has_each_level_and_one_phase_without_a_rate() -> None:
    found = workload(flushes=10, levels=[100, 150])
    assert found.problems() == []
    assert found.phases == ("need-100", "need-150", "most")
    plan = json.loads(found.plan("/dev/vda"))
    assert [(each["rates"], each["depth"]) for each in plan["phases"]] == [
        ([700, 300, 10], 0), ([1050, 450, 15], 0), ([700, 300, 10], 32),
    ]  # fmt: skip
    assert found.asked_rates()["need-150"] == Asked(
        {"read.iops": 1050, "write.iops": 450, "sync.iops": 15}, 30.0, True, 150
    )
    assert workload(depth=0).phases == ("need-100", "need-120", "need-150")
    texts = [step for step in found.arm(Port("a1", "block", "/dev/vda")) if isinstance(step, Put)]
    compile(texts[0].text, "open_loop.py", "exec")
    assert "blocklab." not in texts[0].text.partition('"""')[2].partition("import")[2]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reads": 0, "writes": 0, "flushes": 5}, "reads"),
        ({"reads": -1}, "reads"),
        ({"levels": []}, "levels"),
        ({"levels": [120, 100]}, "levels"),
        ({"levels": [0, 100]}, "levels"),
        ({"read_size": "1000B"}, "read_size"),
        ({"write_size": "2MiB"}, "write_size"),
        ({"size": "1000kB"}, "size"),
        ({"time": "1.5s"}, "time"),
        ({"time": "100000s"}, "time"),
        ({"depth": 200}, "depth"),
        ({"in_flight": 8, "depth": 4}, "in_flight"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_asked(changes: dict[str, Any], field: str) -> None:
    assert field in dict(workload(**changes).problems())


def test_database_loads_with_a_rate_are_asked_for_it_too() -> None:
    assert Pgbench(options={"rate": 500}).asked_rates()[""].rates == {"tps": 500}
    assert Sysbench(options={"rate": 80}).asked_rates()[""].rates == {"tps": 80}
    assert Pgbench().asked_rates() == Sysbench().asked_rates() == {}


# -- the program


@given(some.lists(some.floats(0, 500), min_size=3, max_size=3), some.floats(0.5, 3), some.integers(0, 2**32))
def test_a_schedule_has_exactly_what_was_asked(rates: list[float], seconds: float, seed: int) -> None:
    due, ways = node.schedule(rates, seconds, random.Random(seed))
    assert [ways.count(way) for way in range(3)] == [round(rate * seconds) for rate in rates]
    assert list(due) == sorted(due) and all(0 <= at <= seconds for at in due)


class Clock:
    """Time that passes only where somebody waits, so that a busy machine changes nothing."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1.7e9 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Device:
    """Does one request after the other, each in ``each`` seconds; those of ``bad`` numbers fail."""

    def __init__(self, each: float, bad: tuple[int, ...] = ()) -> None:
        self.each, self.bad = each, bad
        self.line: list[tuple[float, int, int]] = []
        self.until = 0.0
        self.sizes: dict[int, int] = {}
        self.asked: list[tuple[int, int, int]] = []
        self.number = 0
        self.clock = Clock()
        self.blocks = 0.0

    def prepare(self, slot: int, way: int, offset: int, size: int, noise: int) -> None:
        assert 0 <= offset <= SIZE - size and offset % 4096 == 0
        self.sizes[slot] = size
        self.asked.append((way, offset, size))

    def submit(self, slots: list[int]) -> int:
        self.clock.sleep(self.blocks)
        for slot in slots:
            self.until = max(self.until, self.clock.now) + self.each
            result = -5 if self.number in self.bad else self.sizes[slot]
            self.line.append((self.until, slot, result))
            self.number += 1
        return len(slots)

    def completed(self, least: int, seconds: float) -> list[tuple[int, int]]:
        first = self.line[0][0] - self.clock.now if self.line else seconds
        # A microsecond at least: the program looks at the time in a loop.
        self.clock.sleep(max(1e-6, min(first, seconds)))
        done = [each for each in self.line if each[0] <= self.clock.now]
        del self.line[: len(done)]
        return [(slot, result) for _, slot, result in done]


SIZE = 2**20


def phase(
    device: Device, rates: list[float], seconds: float, depth: int = 0, slots: int = 16, mean: int = 8192
) -> dict[str, Any]:
    plan = node.Job(
        {"path": "", "size": SIZE, "read_size": mean, "write_size": mean, "slots": slots, "seed": 1, "phases": []}
    )
    spec = {"name": "p", "seconds": seconds, "rates": rates, "depth": depth}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "time", device.clock)
        return node.Phase(device, plan, spec, random.Random(1)).run()  # type: ignore[arg-type]


def test_the_mean_of_the_sizes_is_what_was_asked_for() -> None:
    device = Device(0.0001)
    phase(device, [1000, 1000, 0], 1.0, mean=9500)
    sizes = [size for way, _, size in device.asked if way == node.READ]
    assert set(sizes) == {8192, 12288}
    assert abs(sum(sizes) - 1000 * 9500) <= 4096
    assert {offset % 8192 for _, offset, _ in device.asked} == {0}


def test_latency_counts_from_when_a_request_was_due() -> None:
    # 100 a second of 400, and at most 16 at once: without a schedule no request would take over 0.16 s.
    found = phase(Device(0.01), [400, 0, 0], 1.0)["ways"]["read"]
    assert found["in_time"] <= 100 and found["done"] + found["never"] == 400 and found["never"] > 200
    assert found["max"] > 0.5 and found["percentiles"]["50"] > 0.2


def test_a_kernel_that_takes_no_more_is_not_the_nodes_own_lateness() -> None:
    device = Device(0.0001)
    device.blocks = 0.3
    found = phase(device, [50, 0, 0], 5.0)
    assert found["ways"]["read"]["max"] > 0.25
    assert found["lag"]["mean"] < 0.01


def test_what_keeps_up_is_all_in_time() -> None:
    found = phase(Device(0.001), [100, 50, 20], 1.0)
    assert {name: way["done"] for name, way in found["ways"].items()} == {"read": 100, "write": 50, "sync": 20}
    assert sum(way["never"] + way["lost"] for way in found["ways"].values()) == 0
    assert sum(found["ways"]["read"]["counts"]) == found["ways"]["read"]["in_time"] >= 99


def test_a_closed_loop_shows_where_it_saturates() -> None:
    found = phase(Device(0.005), [1, 1, 0], 1.0, depth=4)
    assert 100 < sum(way["in_time"] for way in found["ways"].values()) <= 201
    assert found["under_way"] == 4


def test_failed_requests_are_counted_and_have_no_latency() -> None:
    found = phase(Device(0.001, bad=(3, 5)), [50, 0, 0], 0.5)
    assert found["errors"] == {"Input/output error": 2} and found["ways"]["read"]["done"] == 23


# -- its output


def test_real_output_becomes_samples() -> None:
    found = workload(reads=560, writes=240, flushes=20, time="6s").parse({"stdout": RAW}, "a1")
    values = {(each.phase, each.metric): each.value for each in found.samples if each.time is None}
    assert {metric for _, metric in values} <= set(OpenLoop.metrics)
    assert values["need-100", "read.iops"] == 560 and values["need-100", "sync.iops"] == 20
    assert 650 < values["need-150", "read.iops"] < 750 and values["need-150", "unfinished"] == 1000
    assert values["need-150", "read.latency.p99"] > 0.5 > values["need-100", "read.latency.p99"]
    assert [each.name for each in found.phases] == ["need-100", "need-120", "need-150", "most"]
    series = [each.value for each in found.samples if each.time and each.metric == "sync.iops"]
    assert len(series) == 24


@pytest.mark.parametrize("raw", [b"", RAW[:-500], b"Killed\n", b'{"phases": []}', RAW.replace(b"need-120", b"x")])
def test_output_that_is_not_whole_is_refused(raw: bytes) -> None:
    with pytest.raises(ParseError):
        workload().parse({"stdout": raw}, "a1")


# -- the verdict


def test_intervals() -> None:
    low, high = carried.interval(1000, 1000, 30, exact=True)
    assert low is not None and high is not None and 999 < low < 1000 and high == pytest.approx(1000)
    # The same of few requests says little.
    few = carried.interval(2, 2, 10, exact=True)[0]
    assert few is not None and few < 2 * carried.ENOUGH
    by_chance = carried.interval(1000, 1000, 30)
    assert by_chance[0] == pytest.approx(1000 - 1.96 * (1000 / 30) ** 0.5)
    assert carried.interval(1000, 1000, None) == (None, None)
    assert carried.interval(1000, 1000, 30, 100, exact=True)[0] == 900


def folder(
    runs: Path,
    reached: Mapping[str, float],
    *,
    busy: float = 10.0,
    growing: bool = False,
    more: Mapping[str, float] | None = None,
    status: Any = "ok",
    workload: Mapping[str, Any] | None = None,
) -> StudyFolder:
    """A study of the layouts in ``reached``, each of which does so many requests a second at most."""
    spec = dict(workload or {**SPEC, "levels": [100, 150]})
    stacks = {name: {"on": "a1", "layers": [{"layer": "volume", "size": "1GiB"}]} for name in reached}
    plan = synthetic.study(
        name="need", baseline=next(iter(reached)), stacks=stacks, workloads={"need": spec}, expect=[], links={},
        nodes={"a1": {}},
    )  # fmt: skip
    grid = cells(plan)
    found = StudyFolder.create(runs, Manifest(plan, grid))
    for cell in grid:
        most = reached[cell.stack]
        rows: list[Sample] = []
        phases = []
        for number, (name, asked) in enumerate(plan.workloads["need"].asked_rates().items()):  # type: ignore[union-attr]
            start = synthetic.EPOCH + 40 * number
            phases.append(Phase(name, start, start + 30))
            rates = asked.rates or {"read.iops": 0.7 * most, "write.iops": 0.3 * most}
            part = min(1.0, most / asked.total) if asked.rates else 1.0
            rows += _rows(name, rates, part, growing=growing, start=start)
            rows += [Sample(metric, value, "1", "open_loop", "a1", name) for metric, value in (more or {}).items()]
            rows += [
                Sample(metric, value, "%", "cpu", "a1", time=start + second)
                for second in range(1, 30)
                for metric, value in (("cpu.idle", 100 - busy), ("cpu.iowait", 0.0))
            ]
        outcome = Outcome(status, "" if status == "ok" else "a volume was lost.", "", synthetic.EPOCH, 90.0)
        with draft(found.cells, cell.key) as under:
            under.write(
                cell, outcome, environment={"blocklab": "0.1.0", "host": {}}, records=[], knobs=[],
                parsed=Parsed(tuple(rows), tuple(phases)),
            )  # fmt: skip
    return found


def _rows(phase: str, rates: Mapping[str, float], part: float, *, growing: bool, start: float) -> list[Sample]:
    rows = []
    for metric, rate in rates.items():
        way = metric.partition(".")[0]
        rows.append(Sample(metric, rate * part, "1/s", "open_loop", "a1", phase))
        latency = 0.5e-3 if part == 1 else 4.0
        for name in ("mean", "p99", "p99.9"):
            rows.append(Sample(f"{way}.latency.{name}", latency, "s", "open_loop", "a1", phase))
        for second in range(30):
            value = latency + (0.01 * second if growing else 0.0)
            time = start + second + 1
            rows.append(Sample(f"{way}.latency.mean", value, "s", "open_loop", "a1", phase, time))
            rows.append(Sample(metric, rate * part, "1/s", "open_loop", "a1", phase, time))
    return rows


def verdicts(analysis: Analysis) -> dict[tuple[str, int], tuple[str, str]]:
    return {
        (need.stack, each.level): (each.verdict, each.why)
        for need in carried.needs(analysis)
        for each in need.phases
    }


def test_each_layout_has_a_verdict_for_each_level(tmp_path: Path) -> None:
    found = folder(tmp_path, {"fast": 4000, "just": 1200, "slow": 700})
    analysis = analyse(found)
    said = verdicts(analysis)
    assert [said[stack, level][0] for stack in ("fast", "just", "slow") for level in (100, 150)] == [
        "carried", "carried", "carried", "not carried", "not carried", "not carried",
    ]  # fmt: skip
    assert said["slow", 100][1] == "700 of 1,000/s were reached (70\xa0%)"
    fast, just, slow = carried.needs(analysis)
    assert (fast.highest, just.highest, slow.highest) == (150, 100, None)
    assert just.most == pytest.approx(1200) and just.headroom == pytest.approx(1.2)
    told = findings(analysis)
    needs = [each for group in (told.lead, *told.points) for each in group if each.kind == "need"]
    assert [(each.stack, each.verdict) for each in needs] == [
        ("fast", "carried"), ("just", "carried"), ("slow", "not carried"),
    ]  # fmt: skip
    assert [number.value for number in needs[0].all("asked")] == [700, 300]
    assert sentence(needs[:1]).startswith("fast carries 700 reads and 300 writes per second, with a p99 latency")
    assert "slow does not carry 700 reads and 300 writes per second: 700 of 1,000/s" in sentence(needs[2:])
    # What was asked for is no comparison.
    assert not any("need-1" in each.about for group in told.points for each in group)


def test_a_rate_that_the_lab_could_not_keep_is_unknown(tmp_path: Path) -> None:
    said = verdicts(analyse(folder(tmp_path, {"slow": 700, "fast": 4000}, busy=96)))
    assert said["slow", 100][0] == "unknown" and "limited by the lab" in said["slow", 100][1]
    # Whatever the lab took, the layout did it.
    assert said["fast", 100] == ("carried", "")


def test_a_node_that_sends_late_by_itself_is_the_labs_fault(tmp_path: Path) -> None:
    said = verdicts(analyse(folder(tmp_path, {"slow": 700}, more={"lag.mean": 0.2})))
    assert said["slow", 100][0] == "unknown" and "limited by the lab" in said["slow", 100][1]


def test_failed_requests_and_failed_cells_are_unknown(tmp_path: Path) -> None:
    said = verdicts(analyse(folder(tmp_path / "a", {"fast": 4000}, more={"errors": 3})))
    assert said["fast", 100] == ("unknown", "3 requests failed")
    said = verdicts(analyse(folder(tmp_path / "b", {"fast": 4000}, status="failed")))
    assert said["fast", 100] == ("unknown", "the cell is failed: a volume was lost")


def test_latency_that_still_grows_is_not_carried_for_sure(tmp_path: Path) -> None:
    said = verdicts(analyse(folder(tmp_path, {"fast": 4000}, growing=True)))
    assert said["fast", 100][0] == "unknown" and "latency still grew" in said["fast", 100][1]


def test_around_the_bound_it_is_unknown(tmp_path: Path) -> None:
    said = verdicts(analyse(folder(tmp_path, {"near": 980.5})))
    assert said["near", 100][0] == "unknown" and "run it longer" in said["near", 100][1]


def test_few_requests_prove_nothing(tmp_path: Path) -> None:
    few = {**SPEC, "reads": 2, "writes": 1, "levels": [100]}
    said = verdicts(analyse(folder(tmp_path, {"fast": 4000}, workload=few)))
    assert said["fast", 100][0] == "unknown"


def test_one_kind_that_falls_short_is_enough(tmp_path: Path) -> None:
    analysis = analyse(folder(tmp_path, {"fast": 4000}))
    asked = Asked({"read.iops": 990, "write.iops": 10}, 30, exact=True)
    kinds = (carried.RequestKind("read.iops", 990, 990), carried.RequestKind("write.iops", 10, 2))
    found = carried.Carried("fast", "need", "need-100", 100, 1000, "unknown", reached=992, low=990, high=994)
    said = carried._verdict(
        analysis, ("fast", "need", "need-100"), asked, msgspec.structs.replace(found, kinds=kinds),
        {row.metric: row for row in analysis.reported["fast", "need", "need-100"]},
    )  # fmt: skip
    assert said[0] == "not carried" and "of the writes 20" in said[1]


def test_the_page_the_terminal_and_the_json_have_it(tmp_path: Path, without_vega: None) -> None:
    found = folder(tmp_path, {"fast": 4000, "slow": 700})
    page = render(found).read_text()
    assert "Does it carry the need?" in page and "700 (70\xa0%)" in page
    document = json.loads((found.path / "report.json").read_text())
    assert [each["phases"][0]["verdict"] for each in document["carried"]] == ["carried", "not carried"]
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as text:
        console.print(terminal_table(found, every=True))
    assert "Does it carry the need?" in text.get() and "not\xa0carried" in text.get()


def test_a_study_without_rates_says_nothing_of_it(tmp_path: Path) -> None:
    analysis = analyse(synthetic.make(tmp_path, transactions=100))
    assert carried.needs(analysis) == ()
    assert not {each.kind for group in findings(analysis).points for each in group} & {"need", "needs"}
    assert carried.scheduled(analysis) == frozenset()


def test_many_layouts_are_counted(tmp_path: Path) -> None:
    analysis = analyse(folder(tmp_path, {f"s{number}": 500.0 * number for number in range(1, 9)}))
    found = findings(analysis)
    (most,), (rest,) = found.lead, found.points[0]
    assert (most.kind, most.verdict, most.count, most.of) == ("needs", "carried", 7, 8)
    assert (rest.verdict, rest.names) == ("not carried", ("s1",))
    assert sentence([rest]) == "It is not carried by 1 of 8 layouts: s1."
