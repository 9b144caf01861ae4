"""Whether the layers agree: what a workload says that it did against what the kernel counted at each device.

Everything here is made of two readings of the kernel's counters (``probes/counters.py``), just before and just
after the workload, so it holds for all that happened in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from blocklab.model.metrics import LAYER
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Sample
from blocklab.probes.counters import Counters, Disk

Verdict = Literal["ok", "suspect", "not comparable"]
# Bottom to top; a stripe's members stand side by side.
Levels: TypeAlias = tuple[tuple[str, ...], ...]

TOLERANCE = 0.02
# What else may come to a block device while a workload runs: reads of its first and last sectors when it is
# closed.
DEVICE_SLACK = 64 * 1024
# A file system writes its own blocks beside a file's. ext4 commits its journal every 5 s, in 12 KiB where only
# times of files change: this is for 100 s of that. A longer load moves so much that 2 % of it are more.
FILE_SLACK = 256 * 1024
# An fsync writes the file system's log. Measured for 4 KiB writes, each with an fsync, one job: ext4 12 KiB for
# each of its commits, XFS 1 KiB, and most fsyncs found nothing to commit.
SYNC_SLACK = 16 * 1024
_OFF = ("", "0", "none", "null", "false")


class Io(msgspec.Struct, frozen=True):
    """How a program does its I/O, as far as the comparison depends on it."""

    file: bool
    """In a file, not on the device itself."""
    synced: bool = False
    """Each write is one with O_SYNC or O_DSYNC, which the program does not count as a sync."""
    not_comparable: str = ""
    """Why its values cannot be those of the device; empty where they must be."""
    program: str = "fio"
    """What it is called."""


class Part(msgspec.Struct, frozen=True):
    """A workload, or one phase of it, between two readings of the counters on every host.

    ``levels``: the block devices of the stack on each host, bottom to top, by the kernel's names. ``wire``: the
    interface of the replication link on each of its ends; empty without one. ``moved``: the differences by host.
    ``samples``: the workload's own; of a phase only those that carry its name count, with ``phase`` empty all do.
    ``io``: None for a workload that does not tell how many bytes it moved. ``mapped``: the lowest devices are
    mappings of others.
    """

    active: str
    levels: Mapping[str, Levels]
    moved: Mapping[str, Counters]
    samples: Sequence[Sample]
    wire: Mapping[str, tuple[str, ...]] = {}
    io: Io | None = None
    phase: str = ""
    mapped: bool = False

    @property
    def program(self) -> str:
        """What the workload is called."""
        return "the workload" if self.io is None else self.io.program


class Check(msgspec.Struct, frozen=True):
    """One comparison: ``upper`` and ``lower`` are bytes (or I/Os) as counted above and below."""

    what: str
    status: Verdict
    said: str
    upper: float | None = None
    lower: float | None = None


class Crosscheck(msgspec.Struct, frozen=True):
    """What the counters tell of a part: values of each layer, and whether they agree."""

    samples: tuple[Sample, ...]
    checks: tuple[Check, ...]

    @property
    def suspicion(self) -> str:
        """What does not agree, in sentences; empty where nothing speaks against the values."""
        return " ".join(check.said for check in self.checks if check.status == "suspect")


def fio_io(sections: Iterable[Mapping[str, str]], *, file: bool, program: str = "fio") -> Io:
    """How a program does its I/O, from fio's options of all sections that run in a part
    (``fio_jobs.Section.options``)."""
    found = list(sections)
    reasons = dict.fromkeys(reason for options in found if (reason := _why_not(options, program)))
    synced = any(options.get("sync", "0") not in _OFF for options in found)
    return Io(file, synced, "; ".join(reasons), program)


def _why_not(options: Mapping[str, str], program: str) -> str:
    """Why what it counts is not what the device gets."""
    engine = options.get("ioengine", "psync")
    if engine == "null":
        return "ioengine=null does no I/O"
    direct = options.get("direct", "0") not in _OFF or options.get("buffered", "1") in _OFF
    if engine == "mmap" or not direct:
        return (
            f"the I/O is buffered (no direct=1): {program} counts what goes to and from the page cache, and the "
            "kernel what the device gets, later or never"
        )
    if ramp := next((name for name in ("ramp_time", "ramp_size") if _number(options.get(name, "0"))), None):
        return f"{program} leaves out what it does in its {ramp}, and the kernel counts it"
    if options.get("verify", "0") not in _OFF or options.get("pre_read", "0") not in _OFF:
        return (
            f"{program} reads back what it wrote (verify), or reads all beforehand (pre_read), and does not count "
            "that"
        )
    return ""


def _number(text: str) -> bool:
    """Whether an amount with a unit (``5s``) is not nothing."""
    return any(digit in "123456789" for digit in text)


def crosscheck(part: Part) -> Crosscheck:
    """The values of each layer; the workload's against the top device's, each layer's against the one above."""
    return Crosscheck(
        (*_devices(part), *_mirrors(part), *_wire(part), *_amplification(part), *_flushes(part)),
        (*_agreement(part), *_levels_agree(part)),
    )


# -- values --------------------------------------------------------------------------------------------------


def _row(part: Part, metric: str, value: float, unit: str, layer: str, host: str) -> Sample:
    return Sample(f"{LAYER}.{metric}", float(value), unit, layer, host, part.phase)


def _devices(part: Part) -> Iterator[Sample]:
    """Counts of each device of the stack, and of each other one that did anything.

    A count that this kernel or this kind of device does not have is left out, which is not the same as 0.
    """
    for host, counters in part.moved.items():
        mine = {device for level in part.levels.get(host, ()) for device in level}
        for device, disk in counters.disks.items():
            if device not in mine and not any(msgspec.structs.astuple(disk)):
                continue
            yield _row(part, "reads", disk.reads, "1", device, host)
            yield _row(part, "read.bytes", disk.read_bytes, "B", device, host)
            yield _row(part, "writes", disk.writes, "1", device, host)
            yield _row(part, "write.bytes", disk.write_bytes, "B", device, host)
            if disk.discard_bytes is not None:
                yield _row(part, "discard.bytes", disk.discard_bytes, "B", device, host)
            if (flushes := _flushes_of(part, host, device, disk)) is not None:
                yield _row(part, "flushes", flushes, "1", device, host)


def _flushes_of(part: Part, host: str, device: str, disk: Disk) -> int | None:
    """Drivers that hand requests on count none: those of all layers but the lowest, and those of mappings."""
    above = part.levels.get(host, ())[1:]
    return None if part.mapped or any(device in level for level in above) else disk.flushes


def _mirrors(part: Part) -> Iterator[Sample]:
    """What DRBD itself counts; on the peer its block device has no traffic, only this has."""
    for host, counters in part.moved.items():
        for device, mirror in counters.drbd.items():
            yield _row(part, "net.sent.bytes", mirror.sent_bytes, "B", device, host)
            yield _row(part, "net.received.bytes", mirror.received_bytes, "B", device, host)
            yield _row(part, "disk.write.bytes", mirror.written_bytes, "B", device, host)
            yield _row(part, "disk.read.bytes", mirror.read_bytes, "B", device, host)
            yield _row(part, "al.updates", mirror.log_updates, "1", device, host)
            yield _row(part, "bm.updates", mirror.bitmap_updates, "1", device, host)


def _wire(part: Part) -> Iterator[Sample]:
    """The replication link's interfaces, and what the active one sent for each byte written at the top.

    A workload from the link's other end has its own traffic on it too.
    """
    for host, name in ((host, name) for host, names in part.wire.items() for name in names):
        nic = part.moved[host].nics.get(name) if host in part.moved else None
        if nic is None:
            continue
        yield _row(part, "tx.bytes", nic.tx_bytes, "B", name, host)
        yield _row(part, "rx.bytes", nic.rx_bytes, "B", name, host)
        yield _row(part, "tx.packets", nic.tx_packets, "1", name, host)
        yield _row(part, "rx.packets", nic.rx_packets, "1", name, host)
        written = _written(part, part.active, _top(part))
        if host == part.active and written:
            yield _row(part, "wire.per.byte", nic.tx_bytes / written, "1", name, host)


def _top(part: Part) -> tuple[str, ...]:
    """The highest level on the active host; empty where the stack has no block device there."""
    return next(reversed(part.levels.get(part.active, ())), ())


def _disks(part: Part, host: str, level: tuple[str, ...]) -> list[Disk]:
    """The counters of a level's devices; empty unless all are known."""
    counters = part.moved.get(host)
    if counters is None or any(device not in counters.disks for device in level):
        return []
    return [counters.disks[device] for device in level]


def _written(part: Part, host: str, level: tuple[str, ...]) -> int | None:
    disks = _disks(part, host, level)
    return sum(disk.write_bytes for disk in disks) if disks else None


def _above(part: Part, host: str, number: int) -> tuple[str, tuple[str, ...]]:
    """Host and devices of the level above one: on a peer, what stands on its highest is on the active host."""
    for at in (host, part.active):
        levels = part.levels.get(at, ())
        if number + 1 < len(levels):
            return at, levels[number + 1]
    return "", ()


def _amplification(part: Part) -> Iterator[Sample]:
    """Bytes written at a level for each byte written at the one above, at the top for each of the workload's."""
    for host, levels in part.levels.items():
        for number, level in enumerate(levels):
            at, upper = _above(part, host, number)
            reported = (
                _written(part, at, upper) if upper else _told(part, "write.bytes") if _comparable(part) else None
            )
            written = _written(part, host, level)
            if reported and written is not None:
                yield _row(part, "write.amplification", written / reported, "1", "+".join(level), host)


def _flushes(part: Part) -> Iterator[Sample]:
    """How often a device was flushed for each transaction. A stripe's members are flushed at the same time."""
    # pgbench and sysbench tell the sum, go-tpc the count of each kind.
    done = sum(s.value for s in _own(part) if metric_of(s.metric).family in ("transactions", "count"))
    for host, levels in part.levels.items():
        for device in dict.fromkeys(device for level in levels for device in level):
            for disk in _disks(part, host, (device,)):
                if done and (flushes := _flushes_of(part, host, device, disk)) is not None:
                    yield _row(part, "flushes.per.transaction", flushes / done, "1", device, host)


# -- agreement ------------------------------------------------------------------------------------------------


def _own(part: Part) -> Iterator[Sample]:
    """The workload's values of this part."""
    for sample in part.samples:
        if sample.time is None and part.phase in ("", sample.phase):
            yield sample


def _told(part: Part, metric: str) -> float:
    return sum(sample.value for sample in _own(part) if sample.metric == metric)


def _comparable(part: Part) -> bool:
    return part.io is not None and not part.io.not_comparable


def _agreement(part: Part) -> Iterator[Check]:
    """The workload's bytes and I/Os against the kernel's at the top device."""
    top = _top(part)
    name = "+".join(top)
    what = f"{part.program} and {name or 'the top device'}"
    if part.io is None:
        yield Check(what, "not comparable", "This workload does not tell how many bytes it moved.")
        return
    if part.io.not_comparable:
        yield Check(
            what, "not comparable", f"{part.program} and the kernel cannot be compared: {part.io.not_comparable}."
        )
        return
    disks = _disks(part, part.active, top)
    if not disks:
        yield Check(what, "not comparable", f"{part.active} has no counters of {name or 'a device of the stack'}.")
        return
    syncs = _told(part, "sync.ios") + (_told(part, "write.ios") if part.io.synced else 0.0)
    slack = FILE_SLACK if part.io.file else DEVICE_SLACK
    if not any(_told(part, f"{way}.bytes") for way in ("read", "write")):
        # A device may round a discard, or leave it out: trims are not compared.
        yield Check(what, "not comparable", f"{part.program} tells of no read and no write.")
    for way in ("read", "write"):
        reported, ios = _told(part, f"{way}.bytes"), _told(part, f"{way}.ios")
        counted = sum(getattr(disk, f"{way}_bytes") for disk in disks)
        most = reported * (1 + TOLERANCE) + slack
        if way == "write" and part.io.file:
            most += syncs * SYNC_SLACK
        if reported or counted > most:
            yield _bytes(f"{what}: {way}", f"{way} on {name}", reported, counted, most, part.program)
        if reported:
            requests = sum(getattr(disk, f"{way}s") + getattr(disk, f"{way}_merges") for disk in disks)
            yield _ios(f"{what}: {way} I/Os", f"{way} I/Os on {name}", ios, requests, part.program)


def _bytes(what: str, where: str, reported: float, counted: float, most: float, program: str) -> Check:
    """The kernel may count as much more as the slack allows, and less only within the tolerance."""
    values = f"{where}: {program} tells of {_mib(reported)}, the kernel counted {_mib(counted)}"
    if reported:
        values += f" ({(counted - reported) / reported:+.1%})"
    if counted < reported * (1 - TOLERANCE):
        why = (
            f"Not all of {program}'s I/O reached the device (or its counter is wrong), so {program}'s value is "
            "not its."
        )
        return Check(what, "suspect", f"{values}. {why}", reported, counted)
    if counted > most:
        why = "Something else used the device at the same time, or a layer between made more of it."
        return Check(what, "suspect", f"{values}. {why}", reported, counted)
    if counted > reported * (1 + TOLERANCE):
        why = "The rest is no more than what closing a device or a file system's own blocks may take."
        return Check(what, "ok", f"{values}. {why}", reported, counted)
    return Check(what, "ok", f"{values}.", reported, counted)


def _ios(what: str, where: str, reported: float, requests: float, program: str) -> Check:
    """Each I/O is one request or more: the kernel splits large ones, and a device that hands flushes on counts
    them as writes. What it merges is in ``requests``. So only too few can be wrong."""
    values = f"{where}: {program} tells of {reported:,.0f}, the kernel counted {requests:,.0f}"
    if requests < reported * (1 - TOLERANCE):
        said = f"{values}. Not all of {program}'s I/Os reached the device, or its counter is wrong."
        return Check(what, "suspect", said, reported, requests)
    return Check(what, "ok", f"{values}.", reported, requests)


def _levels_agree(part: Part) -> Iterator[Check]:
    """On the active host a layer's devices must get all that is written above it; none of blocklab's layers
    compresses. (A peer may lag: protocol A, write-behind, a page cache.)

    Zeros that are written above may arrive as discards.
    """
    levels = part.levels.get(part.active, ())
    for below, above in pairwise(levels):
        upper = _written(part, part.active, above)
        disks = _disks(part, part.active, below)
        if not upper or not disks:
            continue
        lower = sum(disk.write_bytes + (disk.discard_bytes or 0) for disk in disks)
        names = "+".join(above), "+".join(below)
        values = f"{_mib(upper)} were written to {names[0]}, and {_mib(lower)} to {names[1]} below it"
        # Below, what is under way at the first reading may be counted already, and above only later.
        missing = lower < upper * (1 - TOLERANCE) - FILE_SLACK
        said = f"{values}. A layer did not pass on what it took." if missing else f"{values}."
        yield Check(f"{names[0]} and {names[1]}", "suspect" if missing else "ok", said, upper, lower)


def _mib(amount: float) -> str:
    return f"{amount / 2**20:,.2f} MiB"
