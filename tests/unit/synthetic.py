"""A whole study folder with made-up, deterministic figures, written by the store's own writer."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocklab.model.plan import Knob
from blocklab.model.sample import Parsed, Phase, Sample, Transaction
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, Record, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell, Study

EPOCH = 1_795_232_000.0
# What the mirror adds to a write, and what each stack keeps of the local transactions.
ADDED = {"local": 0.0, "drbd0": 0.75e-3, "drbd1": 2.95e-3}
TPS = {
    ("local", "tps-scale1"): 1031.0,
    ("drbd0", "tps-scale1"): 494.0,
    ("drbd1", "tps-scale1"): 237.0,
    ("local", "tps-scale50"): 1305.0,
    ("drbd0", "tps-scale50"): 971.0,
    ("drbd1", "tps-scale50"): 833.0,
}
BLOCKS = {"seq-write-1m": 2**20, "rand-write-1m": 2**20, "rand-write-512k": 2**19, "rand-write-4k": 4096}
PEERS = {"local": ("a1",), "drbd0": ("a1", "a2"), "drbd1": ("a1", "b1")}

_VOLUME = {"layer": "volume", "size": "4GiB", "write_latency": "450us", "iops": 3000, "bandwidth": "60MB/s"}
RAW: dict[str, Any] = {
    "blocklab": 1,
    "name": "drbd-az",
    "question": "What does a DRBD mirror cost PostgreSQL, in the zone and across zones?",
    "baseline": "local",
    "nodes": {"a1": {"memory": "2GiB"}, "a2": {}, "b1": {}},
    "links": {
        "zone": {"between": ["a1", "a2"], "rtt": "0.5ms"},
        "cross": {"between": ["a1", "b1"], "rtt": "2.7ms"},
    },
    "stacks": {
        "local": {"on": "a1", "layers": [_VOLUME, {"layer": "xfs"}, {"layer": "postgres"}]},
        "drbd0": {
            "on": "a1",
            "layers": [
                _VOLUME,
                {"layer": "drbd", "peer": "a2", "link": "zone", "net": {"max-buffers": 8000}},
                {"layer": "xfs"},
                {"layer": "postgres"},
            ],
        },
        "drbd1": {
            "on": "a1",
            "layers": [
                _VOLUME,
                {"layer": "drbd", "peer": "b1", "link": "cross", "net": {"max-buffers": 8000}},
                {"layer": "xfs"},
                {"layer": "postgres"},
            ],
        },
    },
    "workloads": {
        "fio": {
            "load": "fio",
            "size": "1GiB",
            "options": {"ioengine": "libaio", "direct": 1, "iodepth": 1, "runtime": 20},
            "jobs": {
                "seq-write-1m": {"rw": "write", "bs": "1M"},
                "rand-write-1m": {"rw": "randwrite", "bs": "1M"},
                "rand-write-512k": {"rw": "randwrite", "bs": "512k"},
                "rand-write-4k": {"rw": "randwrite", "bs": "4k"},
            },
        },
        "tps-scale1": {"load": "pgbench", "scale": 1, "clients": 10, "transactions": 1000},
        "tps-scale50": {"load": "pgbench", "scale": 50, "clients": 10, "transactions": 1000},
    },
    "expect": [
        {
            "metric": "write.latency.mean",
            "workload": "fio",
            "phase": "rand-write-4k",
            "stack": "local",
            "between": ["0.45ms", "0.80ms"],
            "says": "a 4 KiB write on the local volume takes the volume's 0.45 ms and little more",
        },
        {
            "metric": "tps",
            "workload": "tps-scale1",
            "stack": "drbd0",
            "relative_to": "local",
            "between": [0.4, 0.65],
            "says": "at scale 1 the mirror in the zone keeps about half of the transactions",
            "source": "AWS 2020, raw logs: 53 %",
        },
        {
            "metric": "tps",
            "workload": "tps-scale50",
            "stack": "drbd1",
            "relative_to": "local",
            "against": "tps-scale1",
            "between": [1.5, 6],
            "says": "at scale 1 all clients wait for the same row, so that every commit's round trip adds up",
        },
    ],
    "notes": ["Volumes are sparse files in memory."],
}


def study(**changes: Any) -> Study:
    """The study, with top-level fields replaced."""
    return build({**copy.deepcopy(RAW), **changes})


def make(
    runs: Path,
    plan: Study | None = None,
    *,
    failed: Iterable[str] = (),
    invalid: Iterable[str] = (),
    missing: Iterable[str] = (),
    quick: bool = False,
    transactions: int = 10_000,
    factor: float = 1.0,
) -> StudyFolder:
    """A folder of the study; cells are named ``stack/workload``. ``factor`` slows drbd1 at scale 50."""
    plan = plan or study()
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid, quick))
    for number, cell in enumerate(grid):
        if cell.label in missing:
            continue
        outcome = Outcome("ok", started=EPOCH + 1000 * number, seconds=93.2)
        if cell.label in failed:
            hint = "look at raw/console.txt"
            outcome = Outcome("failed", "a1: exit code 1 from: mkfs.xfs -f /dev/drbd0", hint, EPOCH, 3.1)
        if cell.label in invalid:
            said = "a1: net.protocol should be C, but the running system says A"
            outcome = Outcome("invalid", said, "check drbd.conf", EPOCH, 9.0)
        start = EPOCH + 1000 * number
        parsed = Parsed() if outcome.status == "failed" else _parsed(cell, start, transactions, factor)
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell,
                outcome,
                environment={
                    "blocklab": "0.1.0",
                    "host": {"kernel": "6.1.0", "cpus": 2},
                    "packages": {"fio": "3.39"},
                },
                records=_records(cell, outcome),
                knobs=_knobs(cell, outcome),
                parsed=parsed,
            )
    return folder


def _records(cell: Cell, outcome: Outcome) -> list[Record]:
    code = 1 if outcome.status == "failed" else 0
    return [
        Record("build", "a1", ("test", "-b", "/dev/vda"), 0, 0.01),
        Record("build", "a1", ("mkfs.xfs", "-f", "/dev/drbd0"), code, 0.4, "cannot open" if code else ""),
        Record("load", "a1", ("fio", "--eta=never", f"/tmp/{cell.workload} job.fio"), 0, 80.0),
    ]


def _knobs(cell: Cell, outcome: Outcome) -> list[Knob]:
    device = "/dev/vda" if cell.stack == "local" else "/dev/drbd1"
    found = [Knob("a1", "xfs", "device", device, device), Knob("a1", "postgres", "fsync", "on")]
    if cell.stack != "local":
        found.append(Knob("a1", "drbd", "net.protocol", "A" if outcome.status == "invalid" else "C", "C"))
        link = "zone" if cell.stack == "drbd0" else "cross"
        found.append(Knob("a1", f"link {link}", "ping mean", "0.61ms" if link == "zone" else "2.81ms"))
    return found


def _parsed(cell: Cell, start: float, transactions: int, factor: float) -> Parsed:
    chance = random.Random(cell.label)
    if cell.workload == "fio":
        return _fio(cell.stack, start, chance)
    rate = TPS[cell.stack, cell.workload]
    if (cell.stack, cell.workload) == ("drbd1", "tps-scale50"):
        rate *= factor
    return _pgbench(cell.stack, start, rate, transactions, chance)


def _pgbench(stack: str, start: float, rate: float, count: int, chance: random.Random) -> Parsed:
    seconds = count / rate
    latency = 10 / rate
    done = tuple(
        Transaction(start + (number + 1) / rate, latency * chance.lognormvariate(-0.03, 0.25))
        for number in range(count)
    )
    rows = [
        Sample("tps", rate, "1/s", "pgbench", "a1"),
        Sample("transactions", float(count), "1", "pgbench", "a1"),
        Sample("failed", 0.0, "1", "pgbench", "a1"),
        Sample("latency.mean", latency, "s", "pgbench", "a1"),
        Sample("latency.p50", 0.96 * latency, "s", "pgbench", "a1"),
        Sample("latency.p99", 1.9 * latency, "s", "pgbench", "a1"),
    ]
    for second in range(int(seconds)):
        value = rate * chance.gauss(1, 0.04)
        rows.append(Sample("tps", value, "1/s", "pgbench", "a1", time=start + second + 1))
    rows += _probes(stack, start, max(3, int(seconds)), 8192 * rate, rate, ADDED[stack] + 0.5e-3, chance)
    return Parsed(tuple(rows), (Phase("pgbench", start, start + seconds),), done)


def _fio(stack: str, start: float, chance: random.Random) -> Parsed:
    rows: list[Sample] = []
    phases = []
    at = start
    for name, block in BLOCKS.items():
        wait = 0.58e-3 + ADDED[stack] + block / 60e6
        iops = 1 / wait
        phases.append(Phase(name, at, at + 20))
        for metric, value, unit in (
            ("write.iops", iops, "1/s"),
            ("write.bandwidth", iops * block, "B/s"),
            ("write.latency.mean", wait, "s"),
            ("write.latency.p50", 0.97 * wait, "s"),
            ("write.latency.p99", 1.4 * wait, "s"),
        ):
            rows.append(Sample(metric, value, unit, "fio", "a1", name))
        for second in range(20):
            noisy = iops * chance.gauss(1, 0.02)
            rows.append(Sample("write.iops", noisy, "1/s", "fio", "a1", name, at + second))
            rows.append(Sample("write.bandwidth", noisy * block, "B/s", "fio", "a1", name, at + second))
            rows.append(Sample("write.latency.mean", 1 / noisy, "s", "fio", "a1", name, at + second))
        rows += _probes(stack, at, 21, iops * block, iops, wait, chance)
        at += 21
    return Parsed(tuple(rows), tuple(phases))


def _probes(
    stack: str, start: float, seconds: int, bandwidth: float, iops: float, wait: float, chance: random.Random
) -> list[Sample]:
    rows = []
    devices = [("a1", "vda")] + ([("a1", "drbd1"), (PEERS[stack][1], "vda")] if stack != "local" else [])
    for second in range(1, seconds + 1):
        time = start + second
        for host, device in devices:
            noise = chance.gauss(1, 0.03)
            lower = wait - ADDED[stack] if device == "vda" else wait
            rows += [
                Sample("write.bandwidth", bandwidth * noise, "B/s", device, host, time=time),
                Sample("write.iops", iops * noise, "1/s", device, host, time=time),
                Sample("write.await", lower / noise, "s", device, host, time=time),
            ]
        for host in PEERS[stack]:
            busy = 30 * chance.gauss(1, 0.1)
            rows += [
                Sample("cpu.idle", 100 - busy, "%", "cpu", host, time=time),
                Sample("cpu.iowait", 0.0, "%", "cpu", host, time=time),
                Sample("cpu.user", busy / 2, "%", "cpu", host, time=time),
                Sample("cpu.system", busy / 2, "%", "cpu", host, time=time),
            ]
    return rows
