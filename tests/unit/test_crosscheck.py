"""Whether the layers agree, on the counters of real nodes around real workloads whose bytes are known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from blocklab.model.sample import Sample
from blocklab.probes.counters import Counters, difference, parse
from blocklab.rules.crosscheck import (
    DEVICE_SLACK,
    FILE_SLACK,
    Crosscheck,
    Io,
    Levels,
    Part,
    crosscheck,
    fio_io,
)
from tests.unit.golden import FOLDER, Golden

MIRROR: dict[str, Levels] = {"a1": (("ubdb",), ("drbd0",)), "a2": (("ubdb",),)}
STRIPED: dict[str, Levels] = {
    "a1": (("ubdb", "ubdc"), ("md0",), ("drbd0",)), "a2": (("ubdb", "ubdc"), ("md0",)),
}  # fmt: skip
PLAIN: dict[str, Levels] = {"a1": (("ubdb",),)}
WIRE = {"a1": ("vec0",), "a2": ("vec0",)}
FILE, DEVICE = Io(file=True), Io(file=False)
MIB = 2**20


def moved(name: str, hosts: Sequence[str] = ("a1", "a2")) -> dict[str, Counters]:
    def read(when: str, host: str) -> Counters:
        return parse((FOLDER / "counters" / f"{name}.{when}.{host}").read_text())

    return {host: difference(read("before", host), read("after", host)) for host in hosts}


def fio(read: tuple[int, int] = (0, 0), write: tuple[int, int] = (0, 0), syncs: int = 0) -> list[Sample]:
    """(bytes, I/Os) of each direction, as ``formats.fio.report.values`` gives them for one job."""
    rows = {"read.bytes": read[0], "read.ios": read[1], "write.bytes": write[0], "write.ios": write[1]}
    rows["sync.ios"] = syncs
    units = {"bytes": "B", "ios": "1"}
    return [
        Sample(name, float(value), units[name.partition(".")[2]], "fio", "a1", "job")
        for name, value in rows.items()
        if value
    ]


# What fio told of these runs.
DIRECT = fio(write=(32 * MIB, 8192))
MIXED = fio(read=(8159232, 1992), write=(8617984, 2104))
FSYNC = fio(write=(4 * MIB, 1024), syncs=1023)
STRIPE = fio(write=(64 * MIB, 256), syncs=15)
BASE = Part("a1", MIRROR, moved("direct"), DIRECT, WIRE, FILE, "job")


def statuses(found: Crosscheck) -> set[str]:
    return {check.status for check in found.checks}


def value(found: Crosscheck, metric: str, layer: str, host: str = "a1") -> float:
    (row,) = [s for s in found.samples if (s.metric, s.layer, s.host) == (f"layer.{metric}", layer, host)]
    return row.value


def broken(part: Part, host: str, device: str, **fields: int) -> Part:
    """With some of a device's counters set to something else."""
    counters = part.moved[host]
    disk = msgspec.structs.replace(counters.disks[device], **fields)
    wrong = msgspec.structs.replace(counters, disks={**counters.disks, device: disk})
    return msgspec.structs.replace(part, moved={**part.moved, host: wrong})


@pytest.mark.parametrize(
    ("name", "shape", "told", "io"),
    [
        ("direct", MIRROR, DIRECT, FILE),
        ("mixed", MIRROR, MIXED, FILE),
        ("fsync", MIRROR, FSYNC, FILE),
        ("ext4", MIRROR, FSYNC, FILE),
        ("stripe", STRIPED, STRIPE, DEVICE),
        ("plain", PLAIN, fio(read=(16588800, 4050), write=(16965632, 4142)), DEVICE),
    ],
)
def test_real_runs_agree(name: str, shape: dict[str, Levels], told: list[Sample], io: Io, golden: Golden) -> None:
    found = crosscheck(Part("a1", shape, moved(name, tuple(shape)), told, WIRE, io, "job"))
    assert statuses(found) == {"ok"} and not found.suspicion
    golden.check(f"counters/{name}.crosscheck.json", msgspec.to_builtins(found))


def test_every_row_is_a_figure_of_the_phase_under_a_name_of_its_own() -> None:
    found = crosscheck(BASE)
    assert len({(s.metric, s.layer, s.host) for s in found.samples}) == len(found.samples) > 30
    for sample in found.samples:
        assert sample.metric.startswith("layer.") and sample.phase == "job" and sample.time is None
        assert sample.unit in ("1", "B")


def test_a_mirror() -> None:
    found = crosscheck(BASE)
    assert value(found, "write.amplification", "drbd0") == 1.0
    assert value(found, "write.amplification", "ubdb", "a1") == 1.0
    assert value(found, "write.amplification", "ubdb", "a2") == 1.0
    assert value(found, "wire.per.byte", "vec0") == pytest.approx(36671494 / (32 * MIB))
    assert value(found, "net.sent.bytes", "drbd0") == value(found, "net.received.bytes", "drbd0", "a2") == 32 * MIB
    assert value(found, "disk.write.bytes", "drbd0", "a2") == 32 * MIB


def test_a_file_system_that_writes_its_log() -> None:
    """ext4's journal under an fsync for each write: more than 2 %, but what is to be expected of it."""
    found = crosscheck(Part("a1", MIRROR, moved("ext4"), FSYNC, WIRE, FILE, "job"))
    assert value(found, "write.amplification", "drbd0") == pytest.approx(5730304 / 4194304)
    device = crosscheck(Part("a1", MIRROR, moved("ext4"), FSYNC, WIRE, DEVICE, "job"))
    assert "Something else used the device" in device.suspicion


def test_a_stripe_counts_as_one_storey() -> None:
    found = crosscheck(Part("a1", STRIPED, moved("stripe"), STRIPE, WIRE, DEVICE, "job"))
    assert value(found, "write.bytes", "ubdb") == 32 * MIB
    assert value(found, "write.amplification", "ubdb+ubdc") == 1.0
    assert value(found, "write.amplification", "md0", "a2") == 1.0


def test_flushes_of_each_transaction() -> None:
    """pgbench's 2,000 commits on a mirror without disk-flushes: the active disk is flushed, the peer's is not."""
    done = [Sample("transactions", 2000.0, "1", "pgbench", "a1")]
    found = crosscheck(Part("a1", MIRROR, moved("pgbench"), done, WIRE))
    assert value(found, "flushes.per.transaction", "ubdb", "a1") == 1970 / 2000
    assert value(found, "flushes.per.transaction", "ubdb", "a2") == 4 / 2000
    assert [check.status for check in found.checks] == ["not comparable", "ok"]
    assert "how many bytes" in found.checks[0].said
    kinds = [Sample(f"{kind}.count", 1000.0, "1", "go-tpc", "a1") for kind in ("new_order", "payment")]
    same = crosscheck(Part("a1", MIRROR, moved("pgbench"), kinds, WIRE))
    assert value(same, "flushes.per.transaction", "ubdb") == 1970 / 2000


def test_devices_without_a_count_of_flushes_have_no_zero() -> None:
    found = crosscheck(BASE)
    assert {s.layer for s in found.samples if s.metric == "layer.flushes"} == {"ubdb"}


@pytest.mark.parametrize(("percent", "wrong"), [(-50, True), (-3, True), (-1, False), (1, False), (4, True)])
def test_a_wrong_counter_is_suspect(percent: int, wrong: bool) -> None:
    part = broken(BASE, "a1", "drbd0", write_bytes=32 * MIB * (100 + percent) // 100)
    # The layer below is not what this is about.
    part = broken(part, "a1", "ubdb", write_bytes=64 * MIB)
    found = crosscheck(part)
    assert ("suspect" in statuses(found)) == wrong
    if wrong:
        assert f"{percent:+d}.0%" in found.suspicion and "drbd0" in found.suspicion


def test_fios_own_figure_may_be_the_wrong_one() -> None:
    told = [msgspec.structs.replace(s, value=s.value * 1.03) for s in DIRECT if s.metric == "write.bytes"]
    found = crosscheck(msgspec.structs.replace(BASE, samples=told))
    assert "fio tells of 32.96 MiB, the kernel counted 32.00 MiB (-2.9%)" in found.suspicion


def test_missing_ios_are_suspect() -> None:
    found = crosscheck(broken(BASE, "a1", "drbd0", writes=4096))
    assert "fio tells of 8,192, the kernel counted 4,096" in found.suspicion
    assert not crosscheck(broken(BASE, "a1", "drbd0", writes=4096, write_merges=4096)).suspicion
    assert not crosscheck(broken(BASE, "a1", "drbd0", writes=80000)).suspicion


def test_a_layer_that_does_not_pass_on_what_it_took() -> None:
    found = crosscheck(broken(BASE, "a1", "ubdb", write_bytes=31 * MIB))
    assert "31.00 MiB to ubdb below it. A layer did not pass on" in found.suspicion
    assert not crosscheck(broken(BASE, "a1", "ubdb", write_bytes=31 * MIB, discard_bytes=MIB)).suspicion
    # A peer may be behind.
    assert not crosscheck(broken(BASE, "a2", "ubdb", write_bytes=0)).suspicion


def test_a_write_that_was_under_way_before_the_load_is_not_missing_below() -> None:
    """A mirror over 20 ms counts it when the peer has answered; its disk had it before the first reading."""
    reading = msgspec.structs.replace(BASE, io=None, samples=[])

    def suspicion(upper: int) -> str:
        part = broken(broken(reading, "a1", "drbd0", write_bytes=upper), "a1", "ubdb", write_bytes=0)
        return crosscheck(part).suspicion

    assert not suspicion(4096)
    assert "A layer did not pass on" in suspicion(MIB)


@pytest.mark.parametrize(("io", "slack"), [(FILE, FILE_SLACK), (DEVICE, DEVICE_SLACK)])
def test_small_totals_have_an_absolute_slack_upwards_only(io: Io, slack: int) -> None:
    small = msgspec.structs.replace(BASE, io=io, samples=fio(write=(MIB, 256)))

    def suspicion(counted: int) -> str:
        part = broken(broken(small, "a1", "drbd0", write_bytes=counted, writes=256), "a1", "ubdb", writes=256)
        return crosscheck(part).suspicion

    assert not suspicion(MIB) and not suspicion(MIB + slack)
    assert suspicion(int(MIB * 1.02) + slack + 512)
    assert suspicion(MIB - MIB // 32)


def test_io_that_fio_did_not_do() -> None:
    found = crosscheck(broken(BASE, "a1", "drbd0", read_bytes=MIB, reads=256))
    assert "read on drbd0: fio tells of 0.00 MiB, the kernel counted 1.00 MiB. Something else" in found.suspicion


def test_buffered_io_is_not_passed_in_silence() -> None:
    """A real run: fio wrote 32 MiB into the page cache and the device got nothing of it."""
    io = fio_io([{"rw": "randwrite", "ioengine": "libaio"}], file=True)
    found = crosscheck(Part("a1", MIRROR, moved("buffered"), DIRECT, WIRE, io, "job"))
    assert statuses(found) == {"not comparable"} and "buffered" in found.checks[0].said
    assert not [s for s in found.samples if s.metric == "layer.write.amplification"]
    direct = crosscheck(Part("a1", MIRROR, moved("buffered"), DIRECT, WIRE, FILE, "job"))
    assert "Not all of fio's I/O reached the device" in direct.suspicion


def test_a_ramp_is_not_comparable() -> None:
    """A real run: 21.6 MiB after a ramp of a second, 29.3 MiB counted."""
    told = fio(write=(22675456, 5533))
    io = fio_io([{"direct": "1", "ramp_time": "1"}], file=True)
    found = crosscheck(Part("a1", MIRROR, moved("ramp"), told, WIRE, io, "job"))
    assert found.checks[0].status == "not comparable" and "ramp_time" in found.checks[0].said
    assert crosscheck(Part("a1", MIRROR, moved("ramp"), told, WIRE, FILE, "job")).suspicion


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"direct": "1"}, ""),
        ({"buffered": "0"}, ""),
        ({"direct": "1", "ramp_time": "0s", "verify": "0"}, ""),
        ({}, "buffered"),
        ({"direct": "0"}, "buffered"),
        ({"direct": "1", "ioengine": "mmap"}, "buffered"),
        ({"direct": "1", "ioengine": "null"}, "no I/O"),
        ({"direct": "1", "ramp_time": "5s"}, "ramp_time"),
        ({"direct": "1", "verify": "crc32c"}, "verify"),
        ({"direct": "1", "pre_read": "1"}, "pre_read"),
    ],
)
def test_which_options_can_be_compared(options: dict[str, str], why: str) -> None:
    io = fio_io([{"direct": "1"}, options], file=False)
    assert (why in io.not_comparable) if why else not io.not_comparable


def test_writes_that_sync_by_themselves() -> None:
    assert fio_io([{"direct": "1", "sync": "dsync"}], file=True).synced
    assert not fio_io([{"direct": "1", "sync": "none"}], file=True).synced
    told = fio(write=(4 * MIB, 1024))
    part = Part("a1", MIRROR, moved("ext4"), told, WIRE, Io(file=True, synced=True), "job")
    assert not crosscheck(part).suspicion
    assert crosscheck(msgspec.structs.replace(part, io=FILE)).suspicion


def test_a_workload_is_called_what_it_is_called() -> None:
    part = broken(BASE, "a1", "drbd0", write_bytes=0)
    other = crosscheck(msgspec.structs.replace(part, io=msgspec.structs.replace(FILE, program="the workload")))
    assert other.checks[0].what == "the workload and drbd0: write" and "so the workload's value" in other.suspicion
    assert crosscheck(msgspec.structs.replace(BASE, io=None)).checks[0].what == "the workload and drbd0"


@pytest.mark.parametrize("name", ["drbd0", "ubdz", "md9"])
def test_whether_flushes_are_counted_goes_by_the_place_in_the_stack(name: str) -> None:
    disks = {name if key == "drbd0" else key: disk for key, disk in BASE.moved["a1"].disks.items()}
    hosts = {**BASE.moved, "a1": msgspec.structs.replace(BASE.moved["a1"], disks=disks)}
    part = msgspec.structs.replace(BASE, levels={"a1": (("ubdb",), (name,))}, moved=hosts)
    flushed = {s.layer for s in crosscheck(part).samples if s.metric == "layer.flushes" and s.host == "a1"}
    assert name not in flushed and "ubdb" in flushed
    mapped = crosscheck(msgspec.structs.replace(part, mapped=True)).samples
    assert not [s for s in mapped if s.metric == "layer.flushes"]


def test_what_cannot_be_known_is_said() -> None:
    unknown = crosscheck(msgspec.structs.replace(BASE, levels={"a1": (("ubdb",), ("nvme0n1",))}))
    assert [check.status for check in unknown.checks] == ["not comparable"]
    assert "no counters of nvme0n1" in unknown.checks[0].said
    nothing = crosscheck(msgspec.structs.replace(BASE, levels={}, wire={}))
    assert statuses(nothing) == {"not comparable"}
    other = crosscheck(msgspec.structs.replace(BASE, phase="another"))
    assert "fio tells of no read and no write" in other.checks[0].said and other.suspicion


def test_all_phases_together() -> None:
    half = fio(write=(16 * MIB, 4096))
    both = [*half, *(msgspec.structs.replace(s, phase="second") for s in half)]
    series = Sample("write.bytes", 1e9, "B", "fio", "a1", "job", time=1.0)
    found = crosscheck(msgspec.structs.replace(BASE, samples=[*both, series], phase=""))
    assert statuses(found) == {"ok"} and found.checks[0].upper == 32 * MIB
    assert "suspect" in statuses(crosscheck(msgspec.structs.replace(BASE, samples=both)))
