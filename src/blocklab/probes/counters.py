"""What the kernel has counted on a node so far: each block device, network interface and mirror, at one time.

https://docs.kernel.org/admin-guide/iostats.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.host.proc import DISKSTATS, NICS, SECTOR, UPTIME, Field, disks, files, interfaces, uptime
from blocklab.model.plan import Argv
from blocklab.probes.drbd import devices

_MIRRORS = "/proc/drbd"
# One process that opens four small files: 3 ms more than starting any process takes. The time comes first and
# last, so that a cut is noticed. Where a file is missing (/proc/drbd, while its module is not loaded) tail prints
# the others and exits with 1: run it without asking for exit code 0, and let ``parse`` judge.
ARGV: Argv = ("tail", "-n", "+1", "-v", UPTIME, DISKSTATS, NICS, _MIRRORS, UPTIME)


class Disk(msgspec.Struct, frozen=True):
    """Requests of a block device that have ended. None where the kernel is too old to count them.

    ``writes`` has flushes without data in it, as writes of 0 bytes; a request that was merged with another one is
    in ``*_merges`` and not in ``reads`` or ``writes``. ``flushes`` are those of devices that queue requests
    (ubd, virtio, NVMe, SCSI, NBD); for devices that hand them on (drbd, md, dm) the kernel counts none.
    """

    reads: int
    read_merges: int
    read_bytes: int
    writes: int
    write_merges: int
    write_bytes: int
    discards: int | None = None
    discard_bytes: int | None = None
    flushes: int | None = None


class Nic(msgspec.Struct, frozen=True):
    """What an interface received and sent: Ethernet frames, headers in the bytes."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


class DrbdCounts(msgspec.Struct, frozen=True):
    """What DRBD itself counts of one device: data to and from the peer, data on the local disk (bytes), and
    updates of its activity log and bitmap."""

    sent_bytes: int
    received_bytes: int
    written_bytes: int
    read_bytes: int
    log_updates: int
    bitmap_updates: int


class Counters(msgspec.Struct, frozen=True):
    """One node's counters. ``time``: seconds since its boot, which no step of a clock changes; of a difference,
    the seconds that it spans."""

    time: float
    disks: Mapping[str, Disk]
    nics: Mapping[str, Nic]
    drbd: Mapping[str, DrbdCounts]


T = TypeVar("T", Disk, Nic, DrbdCounts)


def parse(text: str) -> Counters:
    """What ``ARGV`` printed. Raises ``ParseError`` where a file but /proc/drbd is missing, or the end."""
    found = files(text)
    missing = [name for name in (UPTIME, DISKSTATS, NICS) if name not in found]
    if missing:
        raise ParseError("counters", f"without {', '.join(missing)}", text, hint="is /proc mounted on the node?")
    if len(found[UPTIME]) != 2:
        raise ParseError("counters", "the output was cut: it does not end with the time", text)
    first = _seconds(found[UPTIME][0])
    _seconds(found[UPTIME][1])
    nics = {name: Nic(each[0], each[1], each[8], each[9]) for name, each in interfaces(found[NICS][0]).items()}
    counted = {name: _disk(fields) for name, fields in disks(found[DISKSTATS][0]).items()}
    return Counters(first, counted, nics, _mirrors(found.get(_MIRRORS, ("",))[0]))


def _seconds(text: str) -> float:
    seconds = uptime(text)
    if seconds is None:
        raise ParseError(UPTIME, "not two numbers of seconds", text)
    return seconds


def _disk(field: Sequence[int]) -> Disk:
    discards = len(field) > Field.DISCARD_TIME
    return Disk(
        reads=field[Field.READS], read_merges=field[Field.READ_MERGES],
        read_bytes=field[Field.READ_SECTORS] * SECTOR, writes=field[Field.WRITES],
        write_merges=field[Field.WRITE_MERGES], write_bytes=field[Field.WRITE_SECTORS] * SECTOR,
        discards=field[Field.DISCARDS] if discards else None,
        discard_bytes=field[Field.DISCARD_SECTORS] * SECTOR if discards else None,
        flushes=field[Field.FLUSHES] if len(field) > Field.FLUSH_TIME else None,
    )  # fmt: skip


def _mirrors(text: str) -> dict[str, DrbdCounts]:
    # DRBD 9 has that file too, with its version and no devices in it.
    if not text or text.startswith("version: 9."):
        return {}
    found = {}
    for name, device in devices(text).items():
        counted = device.counters
        kib = [counted[key] * 1024 for key in ("sent", "received", "written", "read")]
        found[name] = DrbdCounts(kib[0], kib[1], kib[2], kib[3], counted["al-writes"], counted["bm-writes"])
    return found


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted in between. A device that came up in between counts from zero.

    Raises ``ParseError`` for a device that vanished, a counter that went back, and a node that booted again.
    """
    if after.time < before.time:
        raise ParseError(UPTIME, f"the node booted again: up for {before.time:g} s, then for {after.time:g} s")
    return Counters(
        after.time - before.time,
        _each(DISKSTATS, before.disks, after.disks),
        _each(NICS, before.nics, after.nics),
        _each(_MIRRORS, before.drbd, after.drbd),
    )


def _each(file: str, before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T]:
    if gone := sorted(before.keys() - after.keys()):
        raise ParseError(
            file, f"{', '.join(gone)} vanished during the workload", hint="what it counted is lost; measure again"
        )
    return {name: _less(f"{file}: {name}", before.get(name), counted) for name, counted in after.items()}


def _less(where: str, before: T | None, after: T) -> T:
    """``after - before``, field by field."""
    if before is None:
        return after
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    kind: Callable[..., T] = type(after)
    return kind(**{name: _change(where, name, old[name], value) for name, value in new.items()})


def _change(where: str, name: str, before: int | None, after: int | None) -> int | None:
    if before is None or after is None:
        return None
    if after >= before:
        return after - before
    raise ParseError(
        where, f"its {name} went back from {before} to {after}",
        hint="it was reset: made again, or connected again; on a 32-bit kernel it may also have gone past 2^32, "
        "on a 64-bit one nothing comes to its end",
    )  # fmt: skip
