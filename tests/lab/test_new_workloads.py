"""The workloads on databases and folders, each on real nodes and the least data that it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import must
from blocklab.model.sample import Parsed
from blocklab.model.workload import Armed, Live, Ruled, WithData
from blocklab.runner.cross import Cross
from blocklab.runner.measure import Measured, measure, not_in_force
from blocklab.runner.run import standing
from blocklab.runner.single import run_until
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study.grid import port_for
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import servers

STUDY: dict[str, Any] = {
    "blocklab": 2,
    "name": "new-loads",
    "question": "Does it run?",
    # The second one writes while the first one, which is on another CPU, loads tables.
    "nodes": {"a1": {"memory": "768MiB"}, "a2": {"memory": "256MiB"}},
    "stacks": {
        "maria": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "768MiB"}, {"layer": "ext4"},
                {"layer": "mariadb", "settings": {"log_bin": True, "sync_binlog": 1}},
            ],
        },
        "pg": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "768MiB"}, {"layer": "xfs"},
                {"layer": "postgres", "settings": {"shared_buffers": "64MB"}},
            ],
        },
        "folder": {"on": "a2", "layers": [{"layer": "volume", "size": "64MiB"}, {"layer": "ext4"}]},
        "raw": {"on": "a2", "layers": [{"layer": "volume", "size": "16MiB"}]},
    },
}  # fmt: skip
TPCC = {"workload": "tpcc", "warehouses": 1, "clients": 2, "time": "2s", "warmup": "1s"}
SYSBENCH = {
    "workload": "sysbench",
    "table_size": 200,
    "clients": 2,
    "time": "2s",
    "options": {"rand-type": "uniform"},
}


def study(stacks: tuple[str, ...], workload: dict[str, object]) -> Study:
    kept = {name: stack for name, stack in STUDY["stacks"].items() if name in stacks}
    return build({**STUDY, "stacks": kept, "workloads": {"it": workload}})


@pytest.fixture(scope="module")
def stand() -> Iterator[Standing]:
    """Both servers, a folder and a device, built once."""
    io = {"workload": "dd", "mode": "none", "count": 1}
    with standing(UmlSite(), study(tuple(STUDY["stacks"]), io), list(STUDY["stacks"])) as stand:
        yield stand
        stand.engine.undo()
        assert stand.engine.warnings == []


def measured(stand: Standing, stack: str, fields: dict[str, object], folder: Path) -> dict[str, float]:
    """The values of a workload, with its data."""
    workload = study((stack,), fields).workloads["it"]
    port = port_for(workload, stand.ports[stack], stand.ground)
    stand.engine.carry_out(workload.data(port) if isinstance(workload, WithData) else (), "data")
    found = Measured()
    measure(stand.engine, workload, port, stand.facts[stack], folder, found, stand.shapes[stack])
    assert not not_in_force(found.knobs) and found.warnings == [] and found.suspicions == []
    assert len(found.parsed.phases) == 1
    series = [each for each in found.parsed.samples if each.time is not None and each.metric == "tps"]
    [phase] = found.parsed.phases
    assert series and all(phase.start < (each.time or 0) <= phase.end + 0.5 for each in series)
    return values(found.parsed)


def values(parsed: Parsed) -> dict[str, float]:
    return {each.metric: each.value for each in parsed.samples if each.time is None}


def test_tpcc_on_mariadb_and_syncs_of_a_log_meanwhile(stand: Standing, tmp_path: Path) -> None:
    settings = "SELECT @@sync_binlog, @@innodb_flush_log_at_trx_commit, @@innodb_io_capacity"
    ask = [
        "mariadb",
        "--no-defaults",
        "--skip-ssl",
        "--socket=/run/blocklab/maria/mysqld.sock",
        "-N",
        "-e",
        settings,
    ]
    before = must(stand.lab.hosts["a1"], ask)
    commit = study(("folder",), {"workload": "commit", "time": "1s"}).workloads["it"]
    place = port_for(commit, stand.ports["folder"], stand.ground)
    stand.engine.carry_out(commit.prepare(place), "prepare")
    proc = stand.lab.hosts["a2"].spawn(commit.command(place).argv, tmp_path / "stdout", tmp_path / "stderr")

    found = measured(stand, "maria", TPCC, tmp_path / "raw")
    assert found["tpmc"] > 0 and found["tps"] > 0 and found["new_order.latency.p50"] > 0
    assert {"errors", "fsyncs", "log.bytes", "lock.waits", "commit.group"} <= set(found)
    assert (tmp_path / "raw" / "workload" / "status.before").stat().st_size > 1000
    # What made the loading fast is as it was.
    assert must(stand.lab.hosts["a1"], ask) == before

    assert proc.wait(60) == 0
    raw = {name: (tmp_path / name).read_bytes() for name in ("stdout", "stderr")}
    parsed = commit.parse(raw, "a2")
    assert {"fdatasync", "fsync", "fsync-2x8k", "unsynced"} <= {phase.name for phase in parsed.phases}
    assert must(stand.lab.hosts["a2"], ["ls", place.where]).split() == ["lost+found"]


def test_sysbench_on_postgres(stand: Standing, tmp_path: Path) -> None:
    found = measured(stand, "pg", SYSBENCH, tmp_path / "raw")
    assert found["tps"] > 0 and found["latency.p50"] <= found["latency.p99"]
    assert {"errors", "commits", "log.syncs", "log.bytes"} <= set(found)


@pytest.mark.long
def test_tpcc_on_postgres(stand: Standing, tmp_path: Path) -> None:
    found = measured(stand, "pg", TPCC, tmp_path / "raw")
    assert found["tpmc"] > 0 and found["payment.latency.p50"] > 0
    assert {"errors", "commits", "log.syncs", "log.bytes", "deadlocks"} <= set(found)


def test_rounds_of_fio_and_what_each_layer_did(stand: Standing, tmp_path: Path) -> None:
    jobs = {"r": {"rw": "randread"}, "w": {"rw": "randwrite"}}
    plain = {"workload": "fio", "size": "16MiB", "options": {"direct": 1, "ioengine": "libaio"}, "jobs": jobs}
    workload = study(("folder",), {**plain, "stop": {"rounds": "2..2", "each": "2s"}}).workloads["it"]
    port = port_for(workload, stand.ports["folder"], stand.ground)
    found = Measured()
    measure(stand.engine, workload, port, stand.facts["folder"], tmp_path, found, stand.shapes["folder"], "a seed")
    assert found.warnings == [] and found.suspicions == []
    assert {(each.phase, each.rounds) for each in found.stops} == {("r", 2), ("w", 2)}
    phases = found.parsed.phases
    assert sorted(phase.name for phase in phases) == ["r", "r", "w", "w"]
    series = [each for each in found.parsed.samples if each.time is not None and each.phase]
    # fio appends to the logs that it finds, and a time series would hold those of all trials before.
    assert {each.phase: each.metric for each in series if each.metric.endswith("iops")} == {
        "r": "read.iops", "w": "write.iops",
    }  # fmt: skip
    assert all(
        any(phase.start < (each.time or 0) <= phase.end + 0.5 for phase in phases if phase.name == each.phase)
        for each in series
    )
    device = next(port for port in stand.ports["folder"] if port.kind == "block").where.rpartition("/")[2]
    counted = {(each.phase, each.metric): each.value for each in found.parsed.samples if each.layer == device}
    told = {(each.phase, each.metric): each.value for each in found.parsed.samples if each.layer == "fio"}
    for phase, way in (("r", "read"), ("w", "write")):
        assert counted[phase, f"layer.{way}.bytes"] == pytest.approx(
            told[phase, f"{way}.bytes"], rel=0.02, abs=2**18
        )


@pytest.mark.parametrize(
    ("stack", "plain", "rate"),
    [
        (
            "folder",
            {"workload": "fio", "size": "8MiB", "jobs": {"w": {"rw": "randwrite", "direct": 1}}},
            "write.iops",
        ),
        ("pg", {"workload": "pgbench", "clients": 2}, "tps"),
        ("maria", {"workload": "tpcc", "warehouses": 1, "clients": 2}, "tps"),
    ],
)
def test_a_load_that_is_ended_early_has_a_whole_summary(
    stand: Standing, tmp_path: Path, stack: str, plain: dict[str, object], rate: str
) -> None:
    workload = study((stack,), {**plain, "stop": {"at_most": "60s"}}).workloads["it"]
    port = port_for(workload, stand.ports[stack], stand.ground)
    engine, mark = stand.engine, stand.engine.mark()
    if stack == "maria" and "warehouse" not in must(stand.lab.hosts["a1"], servers.sql(port, "SHOW TABLES")):
        assert isinstance(workload, WithData)
        engine.carry_out(workload.data(port), "data")
    engine.carry_out(workload.prepare(port), "prepare")
    assert isinstance(workload, Ruled)
    [trial] = workload.trials(60).values()
    engine.carry_out(trial.arm(port) if isinstance(trial, Armed) else (), "prepare")
    assert isinstance(trial, Live)
    seen: list[float] = []

    def enough(out: bytes, err: bytes) -> bool:
        seen[:] = trial.live(out, err).get(rate, [])
        return len(seen) >= 3

    command = trial.watched(trial.command(port))
    cross = Cross(engine, stand.shapes[stack])
    raw, early = run_until(engine, command, tmp_path / "raw", cross, trial.ends_on, enough)
    parsed = trial.parse(raw, command.host)
    engine.undo(mark)
    assert early and any(value > 0 for value in seen)
    assert 2 < sum(phase.end - phase.start for phase in parsed.phases) < 45
    assert values(parsed)[rate] > 0


@pytest.mark.parametrize("stack", ["folder", "raw"])
def test_dd(stand: Standing, stack: str) -> None:
    host, port = stand.lab.hosts["a2"], stand.ports[stack][-1]
    found = {}
    for mode in ("none", "dsync", "direct"):
        workload = study((stack,), {"workload": "dd", "mode": mode, "bs": "64KiB", "size": "4MiB"}).workloads["it"]
        mark = stand.engine.mark()
        stand.engine.carry_out(workload.prepare(port), "prepare")
        order = workload.command(port)
        raw = {f"{name}.before": host.run(argv).out for name, argv in order.around.items()}
        done = host.run(order.argv)
        raw |= {f"{name}.after": host.run(argv).out for name, argv in order.around.items()}
        assert done.code == 0, done.said
        found[mode] = values(workload.parse(raw | {"stdout": done.out, "stderr": done.err}, "a2"))
        stand.engine.undo(mark)
        assert host.run(["test", "-e", f"{port.where}/blocklab.dd"]).code == 1
    assert all(each["write.bytes"] == 2**22 for each in found.values())
    if stack == "folder":
        assert found["none"]["dirty"] > found["direct"]["dirty"]
