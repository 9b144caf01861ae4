"""The ledger on real nodes: a client writes over a link, servers are killed, and what is found is judged."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import CommandError
from blocklab.model.drill import Attempt
from blocklab.model.drill import Ledger as Found
from blocklab.model.dsn import Dsn
from blocklab.model.host import Host, must
from blocklab.model.plan import Port, Run
from blocklab.model.units import Duration
from blocklab.model.workload import WithData
from blocklab.runner.measure import Measured, measure
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study.grid import plan_stack, port_for
from blocklab.study.read import build
from blocklab.workloads import Ledger, ledger_found, ledger_output, servers
from blocklab.workloads.ledger import HISTORY

pytestmark = pytest.mark.long

STUDY: dict[str, Any] = {
    "blocklab": 2,
    "name": "ledger",
    "question": "Is it on record?",
    "nodes": {"a1": {"memory": "768MiB"}, "app": {"memory": "256MiB"}},
    "links": {"lan": {"between": ["a1", "app"], "rtt": "0.5ms"}},
    "stacks": {
        "pg": {
            "on": "a1",
            "layers": [{"layer": "volume", "size": "512MiB"}, {"layer": "xfs"}, {"layer": "postgres"}],
        },
        "row": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "512MiB"}, {"layer": "ext4"},
                {"layer": "mariadb", "settings": {"log_bin": True, "sync_binlog": 1, "binlog_format": "ROW"}},
            ],
        },
        "mixed": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "512MiB"}, {"layer": "ext4"},
                {"layer": "mariadb", "settings": {"log_bin": True, "sync_binlog": 1}},
            ],
        },
    },
    "workloads": {"it": {"workload": "ledger", "from": "app"}},
}  # fmt: skip
SERVER = "a1"
SOON = 60.0


@pytest.fixture(scope="module")
def stand() -> Iterator[Standing]:
    """Three servers on one node, with the ledger's tables, and the client's node."""
    study = build(STUDY)
    with standing(UmlSite(), study, list(study.stacks)) as stand:
        workload = study.workloads["it"]
        assert isinstance(workload, WithData)
        for stack in study.stacks:
            stand.engine.carry_out(workload.data(port_for(workload, stand.ports[stack], stand.ground)), "data")
        yield stand
        stand.engine.undo()
        assert stand.engine.warnings == []


def ledger(**fields: Any) -> Ledger:
    """A workload on the client's node."""
    return Ledger(client="app", **fields)


def port_of(stand: Standing, stack: str) -> Port:
    return port_for(ledger(), stand.ports[stack], stand.ground)


def counters(out: Path) -> list[dict[str, float]]:
    """The writer's counters so far; the last line may be cut."""
    return [json.loads(line) for line in out.read_bytes().split(b"\n")[:-1]]


def until(what: Callable[[], Any]) -> None:
    """Waits until it is true."""
    limit = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.05)


def found(stand: Standing, stack: str) -> Found:
    """What the server has, and its binary log."""
    port = port_of(stand, stack)
    raw = {name: must(stand.lab.hosts["app"], argv).encode() for name, argv in ledger_found.reads(port).items()}
    for name, argv in ledger_found.logs(raw).items():
        done = stand.lab.hosts[SERVER].run(argv)
        raw |= {name: done.out, f"{name}.stderr": done.err}
    return msgspec.structs.replace(ledger_found.found(raw), binlog=ledger_found.binlog(raw))


def crash(stand: Standing, stack: str) -> None:
    """SIGKILL to the server's process."""
    files = {"pg": "/mnt/pg/postgres/postmaster.pid"}
    host = stand.lab.hosts[SERVER]
    pid = must(host, ["head", "-n", "1", files.get(stack, f"/run/blocklab/{stack}-server.pid")]).strip()
    must(host, ["kill", "-KILL", pid])
    until(lambda: host.run(["kill", "-0", pid]).code)


def revive(stand: Standing, stack: str) -> None:
    """The server's own start, until it succeeds: PostgreSQL's waits for the children of the one that died."""
    [start] = [
        step.argv
        for step in plan_stack(build(STUDY), stack, list(STUDY["stacks"]).index(stack), stand.ground).steps
        if isinstance(step, Run) and ("start" in step.argv[-1:] or "--start" in step.argv)
    ]
    until(lambda: stand.lab.hosts[SERVER].run(start).code == 0)


def crashed(
    stand: Standing, stack: str, workload: Ledger, folder: Path
) -> tuple[list[Attempt], ledger_output.History]:
    """The history of a run in which the server is killed, and comes back after the workload's patience."""
    port, host = port_of(stand, stack), stand.lab.hosts["app"]
    argv = workload.writer(port, (ledger_address(port),), 300.0).argv
    proc = host.spawn(argv, folder / "stdout", folder / "stderr")
    out = folder / "stdout"
    until(lambda: counters(out) and counters(out)[-1]["acknowledged"] > 200)
    crash(stand, stack)
    time.sleep(float(workload.patience) + 0.2)
    revive(stand, stack)
    before = counters(out)[-1]["acknowledged"]
    until(lambda: counters(out)[-1]["acknowledged"] > before + 200)
    proc.signal(signal.SIGTERM)
    assert proc.wait(SOON) == 0, (folder / "stderr").read_text()
    tried, history = ledger_output.attempts(host.get(HISTORY))
    last = counters(out)[-1]
    counted = {
        name: sum(each.answer == name for each in tried) for name in ("acknowledged", "refused", "in doubt")
    }
    told = {"acknowledged": "acknowledged", "refused": "refused", "in doubt": "in_doubt"}
    assert {name: last[key] for name, key in told.items()} == counted
    assert last["scheduled"] == len(tried) and history.whole
    return tried, history


def ledger_address(port: Port) -> str:
    """Where the server is, as the client sees it."""
    return Dsn.of(port.where).address


def judged(tried: list[Attempt], there: Found) -> None:
    """Every acknowledged row is there, no refused one, and none that nobody tried."""
    by_answer: dict[str, set[int]] = {}
    for each in tried:
        by_answer.setdefault(each.answer, set()).add(each.id)
    mine = {key for key in there.rows if key >= min(each.id for each in tried)}
    assert by_answer["acknowledged"] <= mine
    assert not by_answer.get("refused", set()) & mine
    assert mine <= by_answer["acknowledged"] | by_answer.get("in doubt", set())
    workers = {each.id: each.worker for each in tried}
    assert all(there.rows[key] == workers[key] for key in mine)
    # The tally, which each transaction updates along with its row.
    for worker, (count, last) in there.tally.items():
        rows = [key for key, owner in there.rows.items() if owner == worker]
        assert (count, last) == (len(rows), max(rows, default=0))


@pytest.mark.parametrize(("stack", "rate"), [("pg", 500), ("pg", "max"), ("row", 500), ("mixed", "max")])
def test_what_a_killed_server_acknowledged_is_there(
    stand: Standing, tmp_path: Path, stack: str, rate: Any
) -> None:
    workload = ledger(rate=rate, patience=Duration("500ms"))
    tried, history = crashed(stand, stack, workload, tmp_path)
    assert history.rate == (None if rate == "max" else rate)
    there = found(stand, stack)
    judged(tried, there)
    failed = [each for each in tried if each.answer != "acknowledged"]
    assert failed and all(each.why for each in failed)
    if rate == 500:
        # Due at even intervals, whatever became of them; the outage was longer than their patience.
        assert history.start is not None
        times = [each.scheduled for each in tried]
        assert times == [pytest.approx(history.start + index / 500, abs=2e-6) for index in range(len(times))]
        waited = [each for each in failed if each.sent is None]
        assert waited and {each.why for each in waited} <= {"no connection", "no free connection"}
    if stack != "pg":
        # Synchronised with each commit, it has all that the tables have.
        assert there.binlog == frozenset(there.rows)


def test_a_planted_loss_is_found(stand: Standing, tmp_path: Path) -> None:
    for stack in ("pg", "row"):
        port, host = port_of(stand, stack), stand.lab.hosts["app"]
        argv = ledger().writer(port, (ledger_address(port),), 1.0).argv
        must(host, argv)
        tried, _ = ledger_output.attempts(host.get(HISTORY))
        gone = next(each for each in tried if each.answer == "acknowledged")
        must(host, servers.sql(port, f"DELETE FROM ledger WHERE id = {gone.id}"))
        there = found(stand, stack)
        assert gone.id not in there.rows
        with pytest.raises(AssertionError):
            judged(tried, there)
        # Committed once, so a replica was told of it.
        assert there.binlog is None or there.binlog - there.rows.keys() == {gone.id}
        must(host, servers.sql(port, f"INSERT INTO ledger VALUES ({gone.id}, {gone.worker}, '')"))


@pytest.mark.parametrize("stack", ["pg", "mixed"])
def test_measured_as_a_load(stand: Standing, tmp_path: Path, stack: str) -> None:
    workload = ledger(rate=50, clients=4, time=Duration("2s"))
    measured = Measured()
    measure(
        stand.engine, workload, port_of(stand, stack), stand.facts[stack], tmp_path, measured, stand.shapes[stack]
    )
    assert measured.warnings == [] and measured.suspicions == []
    values = {each.metric: each.value for each in measured.parsed.samples if each.time is None}
    assert values["acknowledged"] == 100 and values["refused"] == values["in_doubt"] == 0
    assert 0 < values["tps"] <= 50 and 0 < values["latency.p50"] <= values["latency.max"]
    assert {"late.max", "log.bytes"} <= set(values) and len(measured.parsed.transactions) == 100
    assert stand.lab.hosts["app"].run(["test", "-e", HISTORY]).code == 1


def test_a_rate_that_the_node_cannot_send_is_refused(stand: Standing) -> None:
    workload = ledger(rate=100_000)
    mark = stand.engine.mark()
    with pytest.raises(CommandError, match=r"this node can send about [\d,]+ a second.*not 100,000: ask for less"):
        stand.engine.carry_out(workload.prepare(port_of(stand, "pg")), "prepare")
    stand.engine.undo(mark)
    must(stand.lab.hosts["app"], ["blocklab-ledger", "--can=20", "--history=/var/tmp/x"])


def test_servers_that_are_no_ledger_are_said(stand: Standing) -> None:
    host, port = stand.lab.hosts["app"], port_of(stand, "pg")

    def said(workload: Ledger, *more: str) -> str:
        done = host.run([*workload.writer(port, (ledger_address(port),), SOON).argv, *more], timeout=2 * SOON)
        assert done.code == 1, done.said
        return done.said

    assert "the tally has 8 workers, not 9" in said(ledger(clients=9))
    assert "the database has no ledger" in said(ledger(), "--database=postgres")


@pytest.mark.parametrize("stack", ["pg", "row"])
def test_of_several_servers_the_one_that_accepts_is_found(stand: Standing, stack: str) -> None:
    host, port = stand.lab.hosts["app"], port_of(stand, stack)
    nobody, refusing = "10.255.255.1:5432", f"{ledger_address(port)}:9"
    workload = ledger(patience=Duration("10s"))
    must(host, workload.writer(port, (nobody, refusing, ledger_address(port)), 3.0).argv)
    tried, history = ledger_output.attempts(host.get(HISTORY))
    assert len(history.servers) == 3 and {each.server for each in tried} == {2}
    assert {(each.answer, each.why) for each in tried} == {("acknowledged", "")}


def test_a_writer_without_a_server_ends_in_time(stand: Standing, tmp_path: Path) -> None:
    """On two addresses, of which one is nobody's and one refuses."""
    host: Host = stand.lab.hosts["app"]
    port = port_of(stand, "pg")
    workload = ledger(rate=100, patience=Duration("300ms"))
    done = host.run(workload.writer(port, ("10.255.255.1:5432", f"{ledger_address(port)}:9"), 1.0).argv)
    assert done.code == 0
    tried, history = ledger_output.attempts(host.get(HISTORY))
    assert len(tried) == 100 and history.whole and {each.answer for each in tried} == {"refused"}
    assert all(each.sent is None for each in tried)
