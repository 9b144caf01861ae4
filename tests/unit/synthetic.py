"""A whole study folder with made-up, deterministic values, written by the store's own writer."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from blocklab.formats.load.fio.options import size as size_of
from blocklab.model.plan import Knob
from blocklab.model.sample import Parsed, Phase, Sample, Transaction
from blocklab.model.stack_map import Level, StackMap, Took, Tuned
from blocklab.store.floor import METRICS, Floor, Reading, machine_of, save_floor
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import Outcome, Rate, Record, Stopped, draft
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Cell, Study
from blocklab.workloads import Fio

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
    "blocklab": 2,
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
            "workload": "fio",
            "size": "1GiB",
            "options": {"ioengine": "libaio", "direct": 1, "iodepth": 1, "runtime": 20},
            "jobs": {
                "seq-write-1m": {"rw": "write", "bs": "1M"},
                "rand-write-1m": {"rw": "randwrite", "bs": "1M"},
                "rand-write-512k": {"rw": "randwrite", "bs": "512k"},
                "rand-write-4k": {"rw": "randwrite", "bs": "4k"},
            },
        },
        "tps-scale1": {"workload": "pgbench", "scale": 1, "clients": 10, "transactions": 1000},
        "tps-scale50": {"workload": "pgbench", "scale": 50, "clients": 10, "transactions": 1000},
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


class Worker(NamedTuple):
    """A machine on which everything is so many times as fast, and a mirror so many times again. ``environment`` is
    added to that of its runs."""

    name: str
    speed: float = 1.0
    mirror: float = 1.0
    environment: Mapping[str, Any] = {}

    def told(self) -> dict[str, Any]:
        """The environment of its runs."""
        identity = {"site": "uml", "machine": f"{self.name:0<12}", "name": self.name, "image": "cb0efbb1e15ad522"}
        return {**identity, **self.environment}

    def faster(self, cell: Cell) -> float:
        """By what a cell is faster on it."""
        return self.speed * (1.0 if cell.stack == "local" else self.mirror)


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
    lab: bool = False,
    busy: Iterable[str] = (),
    slow: Iterable[str] = (),
    workers: Sequence[Worker] = (),
) -> StudyFolder:
    """A folder of the study; cells are named ``stack/workload``. ``factor`` slows drbd1 at scale 50. ``slow``: the
    cells whose volume took 0.9 ms where 0.45 were asked for. ``workers``: the machine of each repeat.

    ``lab``: as a machine leaves it whose floor is known, with the counts of each layer and why each phase was
    measured no longer. ``busy``: the cells in which the active node's CPU was 95 % busy.
    """
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
        worker = workers[cell.repeat] if workers else Worker("")
        faster = _build(cell) * worker.faster(cell)
        parsed = Parsed() if outcome.status == "failed" else _parsed(cell, start, transactions, factor, faster)
        if cell.label in busy:
            parsed = _at_full_load(parsed)
        stops: list[Stopped] = []
        if lab and outcome.status == "ok":
            parsed = Parsed((*parsed.samples, *_counted(cell, parsed)), parsed.phases, parsed.transactions)
            stops = _stops(parsed)
        host = {"kernel": "6.1.0", "cpus": 2}
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell,
                outcome,
                environment={
                    "blocklab": "0.1.0",
                    **(LAB if lab else {"host": host}),
                    "packages": {"fio": "3.39"},
                    **(worker.told() if workers else {}),
                },
                records=_records(cell, outcome),
                knobs=_knobs(cell, outcome),
                parsed=parsed,
                stack=_stack(cell, 0.9e-3 if cell.label in slow else 0.45e-3),
                stops=stops,
            )
    if lab:
        save_floor(folder.path, floor())
    return folder


# The machine whose floor is known, and the seed of the cells' order.
LAB: dict[str, Any] = {
    "site": "uml",
    "host": {"kernel": "6.1.0", "cpu": "Some CPU @ 2.50GHz", "cpus": 2},
    "image": "cb0efbb1e15ad522",
    "shim": True,
    "seed": 20_201,
}
# With these a single 4 KiB write is the lab's on the local volume and on the mirror in the zone.
FLOOR = {
    "syscall": 3e-6, "empty.latency": 8e-6, "link.rtt": 150e-6,
    "volume.read.latency": 0.40e-3, "volume.write.latency": 0.45e-3,
    "volume.read.iops": 2500.0, "volume.write.iops": 2200.0,
    "volume.read.iops.qd32": 3600.0, "volume.write.iops.qd32": 3400.0,
    "mirror.write.latency": 0.95e-3, "mirror.write.iops": 1050.0, "mirror.write.iops.qd32": 3000.0,
    "steal.host": 0.4, "idle.host": 51.0, "steal.node": 0.1, "idle.node": 22.0,
}  # fmt: skip


def floor(**values: float) -> Floor:
    """The floor of that machine; ``values`` by name, with _ for the dots."""
    changed = {**FLOOR, **{name.replace("_", "."): value for name, value in values.items()}}
    readings = {
        name: Reading(changed.get(name, 40e-6), unit, 0.05 * changed.get(name, 40e-6), 3)
        for name, (_, unit) in METRICS.items()
    }
    return Floor(machine_of(LAB), EPOCH - 86_400, 41.0, readings)


def _at_full_load(parsed: Parsed) -> Parsed:
    rows = tuple(
        msgspec.structs.replace(row, value=5.0) if (row.metric, row.host) == ("cpu.idle", "a1") else row
        for row in parsed.samples
    )
    return Parsed(rows, parsed.phases, parsed.transactions)


def _counted(cell: Cell, parsed: Parsed) -> list[Sample]:
    """What the kernel counted at each layer: on a mirror DRBD's device, the volumes under it, and the wire."""
    rows: list[Sample] = []
    fio = cell.workload == "fio"
    for phase in parsed.phases:
        name = phase.name if fio else ""
        written = BLOCKS.get(name, 8192) * 10_000.0

        def add(metric: str, value: float, unit: str, layer: str, host: str = "a1", phase: str = name) -> None:
            rows.append(Sample(f"layer.{metric}", value, unit, layer, host, phase))

        mirrored = cell.stack != "local"
        devices = [("a1", "vda", 1.0 if mirrored else 1.01)]
        if mirrored:
            devices += [
                ("a1", "drbd1", 1.01),
                (PEERS[cell.stack][1], "vda", 1.0),
                (PEERS[cell.stack][1], "vdb", 0),
            ]
        for host, device, ratio in devices:
            add("reads", 12.0 if ratio else 0.0, "1", device, host)
            add("read.bytes", 49_152.0 if ratio else 0.0, "B", device, host)
            add("writes", 10_000.0 if ratio else 0.0, "1", device, host)
            add("write.bytes", 1.01 * written if ratio else 0.0, "B", device, host)
            if ratio and (fio or (device != "drbd1" and mirrored)):
                add("write.amplification", ratio, "1", device, host)
            if device == "vda":
                add("flushes", 0.0 if fio else 10_400.0, "1", device, host)
                if not fio:
                    add("flushes.per.transaction", 1.04, "1", device, host)
        if mirrored:
            add("tx.bytes", 1.0605 * written, "B", "vec0")
            add("rx.bytes", 0.02 * written, "B", "vec0")
            add("wire.per.byte", 1.05, "1", "vec0")
    return rows


def _stops(parsed: Parsed) -> list[Stopped]:
    """Phases of block I/O settle in 3 rounds, but for the last; databases are as sure as they can get."""
    found = []
    for row in parsed.samples:
        if row.time is None and row.metric in ("tps", "write.iops"):
            sure = row.phase != "rand-write-4k" and row.metric != "tps"
            half = row.value * (0.011 if sure else 0.034)
            why = "" if sure else f"{row.metric}: interval is ±3.4 %"
            rounds = 3 if sure else 12
            found.append(
                Stopped(
                    row.phase, "settled" if sure else "capped", (Rate(row.metric, row.value, half),), rounds,
                    5.0 * rounds, why=why,
                )
            )  # fmt: skip
    return found


def _records(cell: Cell, outcome: Outcome) -> list[Record]:
    code = 1 if outcome.status == "failed" else 0
    return [
        Record("build", "a1", ("test", "-b", "/dev/vda"), 0, 0.01),
        Record("build", "a1", ("mkfs.xfs", "-f", "/dev/drbd0"), code, 0.4, "cannot open" if code else ""),
        Record("workload", "a1", ("fio", "--eta=never", f"/tmp/{cell.workload} job.fio"), 0, 80.0),
    ]


def _knobs(cell: Cell, outcome: Outcome) -> list[Knob]:
    device = "/dev/vda" if cell.stack == "local" else "/dev/drbd1"
    found = [Knob("a1", "xfs", "device", device, device), Knob("a1", "postgres", "fsync", "on")]
    if cell.stack != "local":
        found.append(Knob("a1", "drbd", "net.protocol", "A" if outcome.status == "invalid" else "C", "C"))
    return found


def _stack(cell: Cell, volume: float = 0.45e-3) -> StackMap:
    """A volume, and a mirror on top of it where there is one."""
    stack = cell.spec["stack"]
    levels: list[Level] = []
    pings = {}
    for number, layer in enumerate(stack["layers"]):
        made = {"volume": "vda", "drbd": "drbd1"}.get(layer["layer"])
        peers = [each["peer"] for each in stack["layers"] if "peer" in each]
        levels += [Level(number, layer["layer"], host, (made,)) for host in (stack["on"], *peers) if made]
        if link := layer.get("link"):
            mean = 0.61e-3 if link == "zone" else 2.81e-3
            pings[f"link {link}"] = (Took(0.9 * mean, mean, mean, 1.2 * mean, 0.98 * mean, 1.02 * mean),)
    took = Took(0.9 * volume, volume, volume, 1.2 * volume, 0.98 * volume, 1.02 * volume)
    tuned = {f"writes of vda on {stack['on']}": Tuned(0.45e-3, 0.4e-3, took)}
    return StackMap(stack["on"], tuple(levels), times=pings, tuned=tuned)


def _build(cell: Cell) -> float:
    """By what each build of a layout is faster than the first."""
    return 1 + (0.0, 0.004, -0.004)[cell.repeat % 3] * (-1 if cell.stack == "local" else 1)


def _parsed(cell: Cell, start: float, transactions: int, factor: float, faster: float) -> Parsed:
    chance = random.Random(cell.label)
    if cell.workload == "fio":
        return _fio(cell, start, chance, faster)
    rate = TPS[cell.stack, cell.workload] * faster
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


def _fio(cell: Cell, start: float, chance: random.Random, faster: float) -> Parsed:
    stack = cell.stack
    rows: list[Sample] = []
    phases = []
    at = start
    for name, repeat in BLOCKS.items():
        wait = (0.58e-3 + ADDED[stack] + repeat / 60e6) / faster
        iops = 1 / wait
        phases.append(Phase(name, at, at + 20))
        for metric, value, unit in (
            ("write.iops", iops, "1/s"),
            ("write.bandwidth", iops * repeat, "B/s"),
            ("write.latency.mean", wait, "s"),
            ("write.latency.p50", 0.97 * wait, "s"),
            ("write.latency.p99", 1.4 * wait, "s"),
        ):
            rows.append(Sample(metric, value, unit, "fio", "a1", name))
        for second in range(20):
            noisy = iops * chance.gauss(1, 0.02)
            rows.append(Sample("write.iops", noisy, "1/s", "fio", "a1", name, at + second))
            rows.append(Sample("write.bandwidth", noisy * repeat, "B/s", "fio", "a1", name, at + second))
            rows.append(Sample("write.latency.mean", 1 / noisy, "s", "fio", "a1", name, at + second))
        rows += _probes(stack, at, 21, iops * repeat, iops, wait, chance)
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


def repeated(label: str) -> list[str]:
    """A cell in each of three repeats."""
    return [label, *(f"{label} (repeat {number})" for number in (2, 3))]


# A sweep: what a mirror keeps depends on the round trip, on what is flushed and on how many work at once.
RTTS = {"0.5ms": 0.5e-3, "1ms": 1e-3, "2ms": 2e-3, "4ms": 4e-3, "10ms": 10e-3, "20ms": 20e-3}
THREADS = (1, 2, 4, 8, 16, 32, 64)
SWEEP: dict[str, Any] = {
    "blocklab": 2,
    "name": "mirror-sweep",
    "question": "How much of its throughput does a database keep on a mirror, by distance and concurrency?",
    "baseline": "local",
    "nodes": {"a1": {}, "b1": {}},
    "links": {"zone": {"between": ["a1", "b1"], "rtt": "1ms"}},
    "stacks": {
        "local": {"on": "a1", "layers": [_VOLUME, {"layer": "xfs"}, {"layer": "postgres"}]},
        "mirror": {
            "on": "a1",
            "layers": [
                _VOLUME,
                {"layer": "drbd", "peer": "b1", "link": "zone"},
                {"layer": "xfs"},
                {"layer": "postgres"},
            ],
        },
    },
    "workloads": {"tpcc": {"workload": "tpcc", "warehouses": 1, "clients": 1, "time": "60s"}},
    "factors": {
        "rtt": {"field": "links.zone.rtt", "values": list(RTTS)},
        "sync_binlog": {"field": "stacks.*.layers.postgres.settings.commit_siblings", "values": [0, 1]},
        "threads": {"field": "workloads.tpcc.clients", "values": list(THREADS)},
    },
    "expect": [
        {
            "metric": "tpmc",
            "workload": "tpcc",
            "stack": "mirror",
            "at": {"rtt": "10ms", "sync_binlog": 1, "threads": 64},
            "relative_to": "local",
            "against_at": {"threads": 1},
            "between": [2, 20],
            "says": "the share that the mirror keeps at 64 threads is at least twice that at one thread",
        },
    ],
}


def sweep(**changes: Any) -> Study:
    """The sweep, with top-level fields replaced."""
    return build({**copy.deepcopy(SWEEP), **changes})


def make_sweep(
    runs: Path,
    plan: Study | None = None,
    *,
    failed: Iterable[str] = (),
    seconds: int = 60,
    transactions: int = 0,
    busy: Iterable[str] = (),
) -> StudyFolder:
    """A folder of the sweep; cells are named as by ``Cell.label``. ``busy``: those of a CPU at 95 %."""
    plan = plan or sweep()
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid))
    for number, cell in enumerate(grid):
        start = EPOCH + 1000 * number
        outcome = Outcome("ok", started=start, seconds=seconds + 12.0)
        if cell.label in failed:
            outcome = Outcome("failed", "a1: exit code 1 from: mkfs.xfs -f /dev/drbd0", "", start, 3.1)
        parsed = Parsed() if outcome.status == "failed" else _tpcc(cell, start, seconds, transactions)
        if cell.label in busy:
            parsed = _at_full_load(parsed)
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell,
                outcome,
                environment={"blocklab": "0.1.0", "host": {"kernel": "6.1.0", "cpus": 2}},
                records=_records(cell, outcome) * 15,
                knobs=_knobs(cell, outcome),
                parsed=parsed,
                stack=_stack(cell),
            )
    return folder


def tpmc(stack: str, levels: Mapping[str, str]) -> float:
    """What the made-up database does: commits wait for the mirror, in groups that grow with the threads."""
    threads = int(levels.get("threads", 1))
    away = RTTS[levels["rtt"]] if stack == "mirror" and "rtt" in levels else 0.0
    flushes = 2.0 if levels.get("sync_binlog", "1") == "1" else 1.0
    work, wait = 1.2e-3, flushes * (0.5e-3 + away)
    return float(60 * 0.45 / (work * 0.9 + (work + wait) / threads**0.8))


def _tpcc(cell: Cell, start: float, seconds: int, transactions: int) -> Parsed:
    chance = random.Random(cell.label)
    rate = tpmc(cell.stack, cell.levels) * _build(cell)
    latency = 60 * int(cell.levels.get("threads", 1)) / rate
    rows = [
        Sample("tpmc", rate, "1/min", "go-tpc", "a1"),
        Sample("tps", rate / 27, "1/s", "go-tpc", "a1"),
        Sample("new_order.latency.p95", 2 * latency, "s", "go-tpc", "a1"),
        Sample("commit.group", 1.8, "1", "go-tpc", "a1"),
    ]
    rows += [
        Sample("tpmc", rate * chance.gauss(1, 0.08), "1/min", "go-tpc", "a1", time=start + second + 1)
        for second in range(seconds)
    ]
    rows += _probes_of(cell, start, seconds, rate, chance)
    every = seconds / max(1, transactions)
    done = tuple(
        Transaction(start + number * every, latency * chance.lognormvariate(-0.03, 0.25))
        for number in range(transactions)
    )
    return Parsed(tuple(rows), (Phase("tpcc", start, start + seconds),), done)


def _probes_of(cell: Cell, start: float, seconds: int, rate: float, chance: random.Random) -> list[Sample]:
    rows = []
    mirrored = cell.stack == "mirror"
    devices = [("a1", "vda"), *([("a1", "drbd1"), ("b1", "vda")] if mirrored else [])]
    for second in range(1, seconds + 1):
        time = start + second
        for host, device in devices:
            rows += [
                Sample("write.bandwidth", 400 * rate * chance.gauss(1, 0.03), "B/s", device, host, time=time),
                Sample("write.iops", rate / 20 * chance.gauss(1, 0.03), "1/s", device, host, time=time),
                Sample("write.await", (2e-3 if device == "drbd1" else 6e-4), "s", device, host, time=time),
            ]
        for host in ("a1", "b1") if mirrored else ("a1",):
            rows += [
                Sample("cpu.idle", 60.0, "%", "cpu", host, time=time),
                Sample("cpu.iowait", 1.0, "%", "cpu", host, time=time),
            ]
    return rows


def patterns(shares: Iterable[int] = (0, 10, 30, 50, 70, 90, 100)) -> dict[str, Any]:
    """fio jobs, block size by share of reads by queue depth: 124 with all shares."""
    jobs: dict[str, Any] = {}
    for repeat in ("4k", "16k", "64k", "256k"):
        for reads in shares:
            for depth in (1, 4, 16, 64) if reads % 20 else (1, 4, 16, 32, 64):
                jobs[f"rw-{repeat}-r{reads}-qd{depth}"] = {
                    "rw": "randrw", "bs": repeat, "rwmixread": reads, "iodepth": depth,
                }  # fmt: skip
    return jobs


def make_patterns(
    runs: Path, *, seconds: int = 10, lab: bool = False, plan: Study | None = None, few: bool = False
) -> StudyFolder:
    """A folder of two stacks and a fio workload of many jobs, of ``few``, or of ``plan``; ``lab`` as in
    ``make``."""
    workload = {
        "workload": "fio",
        "size": "1GiB",
        "options": {"ioengine": "libaio", "direct": 1, "runtime": seconds},
        "jobs": patterns((0, 50, 100)) if few else patterns(),
    }
    stacks = {name: RAW["stacks"][name] for name in ("local", "drbd1")}
    plan = plan or study(name="patterns", workloads={"fio": workload}, stacks=stacks, expect=[])
    jobs = fio.shapes() if isinstance(fio := plan.workloads["fio"], Fio) else {}
    grid = cells(plan)
    folder = StudyFolder.create(runs, Manifest(plan, grid))
    for number, cell in enumerate(grid):
        start = EPOCH + 10_000 * number
        outcome = Outcome("ok", started=start, seconds=3000.0)
        parsed = _patterns(cell, start, seconds, jobs)
        if lab:
            parsed = Parsed((*parsed.samples, *_counted(cell, parsed)), parsed.phases)
        with draft(folder.cells, cell.key) as under:
            under.write(
                cell, outcome, environment={"blocklab": "0.1.0", **(LAB if lab else {})},
                records=_records(cell, outcome), knobs=_knobs(cell, outcome), parsed=parsed, stack=_stack(cell),
                stops=_stops(parsed) if lab else (),
            )  # fmt: skip
    if lab:
        save_floor(folder.path, floor())
    return folder


def _patterns(cell: Cell, start: float, seconds: int, jobs: Mapping[str, Mapping[str, str]]) -> Parsed:
    chance = random.Random(cell.label)
    rows: list[Sample] = []
    phases = []
    for number, (name, job) in enumerate(jobs.items()):
        at = start + number * (seconds + 1)
        size, depth = int(size_of(job["bs"])), int(job["iodepth"])
        reads = int(job["reads"].removesuffix("%")) / 100
        wait = 0.45e-3 + (1 - reads) * ADDED[cell.stack]
        iops = min(depth / wait, 3000.0, 60e6 / size) * _build(cell)
        for way, part in (("read", reads), ("write", 1 - reads)):
            if not part:
                continue
            rows += [
                Sample(f"{way}.iops", iops * part, "1/s", "fio", "a1", name),
                Sample(f"{way}.bandwidth", iops * part * size, "B/s", "fio", "a1", name),
                Sample(f"{way}.latency.mean", depth / iops, "s", "fio", "a1", name),
            ]
            rows += [
                Sample(f"{way}.iops", iops * part * chance.gauss(1, 0.03), "1/s", "fio", "a1", name, at + second)
                for second in range(seconds)
            ]
        phases.append(Phase(name, at, at + seconds))
        rows += _probes(cell.stack, at, seconds, iops * size, iops, wait, chance)
    return Parsed(tuple(rows), tuple(phases))
