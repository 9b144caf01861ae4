"""Made-up drills, seeded: histories with what the database has afterwards, and a whole study of them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocklab.drills.bins import bins
from blocklab.drills.ledger import check
from blocklab.model.drill import Answer, Attempt, Drill, Event, Ledger, MirrorState, Stage
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell, Study
from tests.unit.synthetic import EPOCH

STAGES = {"detection": 0.62, "fencing": 0.06, "promotion": 0.21, "mount": 0.09, "recovery": 0.85,
          "first commit": 0.05}  # fmt: skip


def history(
    seed: object,
    *,
    start: float = EPOCH,
    rate: float = 400.0,
    workers: int = 8,
    before: float = 4.0,
    down: float = 1.9,
    after: float = 3.0,
    latency: float = 2e-3,
    back: bool = True,
) -> list[Attempt]:
    """An open-loop history with an outage of ``down`` seconds from ``start + before`` on, in the order in which
    the transactions were due."""
    dice = random.Random(str(seed))
    fault, returned = start + before, start + before + down
    end = returned + after
    free = [start] * workers
    broken = [False] * workers
    found = []
    for id in range(1, int((end - start) * rate)):
        due = start + id / rate
        worker = id % workers
        sent = max(due, free[worker])
        took = latency * dice.lognormvariate(0, 0.3)
        answer: Answer = "acknowledged"
        server, why, ended = int(sent >= returned), "", sent + took
        if sent < fault < sent + took:
            # On its way when the node died: some had their answer, most did not.
            answer, ended, why = "in doubt", fault + 0.3, "connection lost"
            broken[worker] = True
        elif fault <= sent < returned or (sent >= returned and not back):
            answer, ended, why = "refused", sent + 0.05, "connection refused"
            broken[worker] = True
        free[worker] = ended
        found.append(Attempt(id, worker, due, sent, ended, answer, server if back else 0, why))
    return found


def ledger(
    attempts: Iterable[Attempt], seed: object = 0, *, gone: Iterable[int] = (), log: bool = False
) -> Ledger:
    """What a database has that keeps its word but for ``gone``: all acknowledged, and some of those in doubt."""
    dice = random.Random(str(seed))
    lost = set(gone)
    rows: dict[int, int] = {}
    tally: dict[int, tuple[int, int]] = {}
    for attempt in sorted(attempts, key=lambda each: each.ended or each.scheduled):
        kept = attempt.answer == "acknowledged" or (attempt.answer == "in doubt" and dice.random() < 0.5)
        if kept and attempt.id not in lost:
            rows[attempt.id] = attempt.worker
            tally[attempt.worker] = (tally.get(attempt.worker, (0, 0))[0] + 1, attempt.id)
    return Ledger(rows, tally, frozenset(rows) if log else None)


_VOLUME = {"layer": "volume", "size": "1GiB"}
_TOP = [{"layer": "ext4"}, {"layer": "postgres"}]


def _mirror(protocol: str) -> dict[str, Any]:
    drbd = {"layer": "drbd", "peer": "a2", "link": "zone", "protocol": protocol}
    return {"on": "a1", "layers": [_VOLUME, drbd, *_TOP]}


FAILOVER: dict[str, Any] = {
    "blocklab": 2,
    "name": "failover",
    "question": "What does a crash of the primary lose, and how long is it down?",
    "baseline": "local",
    "nodes": {"a1": {}, "a2": {}, "app": {}},
    "links": {
        "zone": {"between": ["a1", "a2"], "rtt": "2ms"},
        "first": {"between": ["app", "a1"]},
        "second": {"between": ["app", "a2"]},
    },
    "stacks": {
        "local": {"on": "a1", "layers": [_VOLUME, *_TOP]},
        "drbd-c": _mirror("C"),
        "drbd-b": _mirror("B"),
        "drbd-a": _mirror("A"),
    },
    "workloads": {"ledger": {"workload": "ledger", "from": "app", "clients": 8, "time": "9s"}},
    "faults": {"kill": {"fault": "crash", "at": "4s"}},
    "factors": {
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms", "10ms"]},
        "commit": {"field": "stacks.*.layers.postgres.settings.synchronous_commit", "values": ["on", "off"]},
    },
    "repeats": 3,
}
_RTT = {"0.5ms": 0.5e-3, "2ms": 2e-3, "10ms": 10e-3}


def failover(**changes: Any) -> Study:
    """The study, with top-level fields replaced."""
    return build({**copy.deepcopy(FAILOVER), **changes})


def rate_of(cell: Cell) -> float:
    """What the made-up database does."""
    away = _RTT.get(cell.levels.get("rtt", ""), 0.0) if cell.stack in ("drbd-c", "drbd-b") else 0.0
    sync = 0.8e-3 if cell.levels.get("commit", "on") == "on" else 0.1e-3
    return 0.5 / (0.6e-3 + (sync + away if cell.levels.get("commit", "on") == "on" else sync))


def drill(cell: Cell, start: float, *, unread: bool = False) -> tuple[Drill, Ledger | None, list[Attempt]]:
    """One drill of a cell: asynchronous mirrors lose what was on its way, and asynchronous commits what was not
    yet written; the local disk has no survivor."""
    seed = f"{cell.label}"
    dice = random.Random(seed)
    survivor = "" if cell.stack == "local" else "a2"
    rate = rate_of(cell) * dice.uniform(0.95, 1.05)
    fault = start + 4.0
    down = sum(STAGES.values()) * dice.uniform(0.92, 1.1)
    attempts = history(seed, start=start, rate=rate, down=down, back=bool(survivor), latency=4 / rate)
    window = 0.0
    if cell.stack == "drbd-a":
        window += _RTT.get(cell.levels.get("rtt", ""), 0.0) / 2 * dice.uniform(0.5, 1.5)
    if cell.levels.get("commit") == "off":
        window += dice.uniform(0.05, 0.3)
    gone = [
        each.id
        for each in attempts
        if each.answer == "acknowledged" and each.ended and fault - window < each.ended <= fault
    ]
    left = None if unread else ledger(attempts, seed, gone=gone, log=True)
    verdict = check(attempts, left, fault, "a2: the server did not come up: no route to host", until=start + 9)
    stages, at = [], verdict.last or fault
    if survivor and verdict.rto_seconds:
        for name, share in STAGES.items():
            took = share / sum(STAGES.values()) * verdict.rto_seconds
            stages.append(Stage(name, at, at + took))
            at += took
    events = [
        Event(fault, "kill", "a1: SIGKILL"),
        Event(fault + 0.02, "mirror lost its connection", "drbd1: Connected -> NetworkFailure"),
        Event(fault + 0.21, "ping without an answer", "1 of 3"),
        Event(fault + 0.41, "ping without an answer", "2 of 3"),
        Event(fault + 0.61, "taken for dead", "3 pings without an answer"),
    ]
    mirror = MirrorState("in sync", 0, {"a1": "6f1e", "a2": "6f1e"}, 1.4) if survivor else None
    found = Drill(
        seed, "kill", "a1", survivor, bool(survivor), ("a1", "a2") if survivor else ("a1",),
        tuple(events if survivor else events[:1]), tuple(stages), verdict, mirror, rate, fault, start + 9,
        bins(attempts, edge=fault),
    )  # fmt: skip
    return found, left, attempts


def make_drills(
    runs: Path, plan: Study | None = None, *, unread: Iterable[str] = (), invalid: Iterable[str] = ()
) -> StudyFolder:
    """A folder of the study; cells are named as by ``Cell.label``."""
    plan = plan or failover()
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid))
    for number, cell in enumerate(grid):
        start = EPOCH + 100 * number
        found, left, _ = drill(cell, start, unread=cell.label in unread)
        outcome = Outcome("ok", started=start - 5, seconds=17.0)
        if cell.label in invalid:
            outcome = Outcome("invalid", "a1: net.protocol should be C, but the running system says A")
        rate = found.rate or 0.0
        samples = [Sample("tps", rate, "1/s", "ledger", "a1")]
        samples += [Sample("tps", rate, "1/s", "ledger", "a1", time=start + second + 1) for second in range(4)]
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell, outcome, environment={"blocklab": "0.1.0"}, records=[], knobs=[],
                parsed=Parsed(tuple(samples), (Phase("ledger", start, start + 4),)), drill=found, ledger=left,
            )  # fmt: skip
    return folder
