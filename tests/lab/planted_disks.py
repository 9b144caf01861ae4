"""What users have on their disks, planted on volumes of a node; each with the reasons for which it is refused."""

from __future__ import annotations

import os
import re
import signal
import struct
import time
import uuid
import zlib
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from blocklab.model.host import must
from blocklab_node import claims
from tests.lab.bare_disks import BareDisk

MIB = 1 << 20
SIZE = 64 * MIB
LVM = (
    "--config", "activation/udev_sync=0 activation/udev_rules=0 activation/monitoring=0 backup/backup=0 "
    "backup/archive=0 devices/use_devicesfile=0",
)  # fmt: skip

# Run at the end, in this order.
Undo: TypeAlias = list[Callable[[], object]]
# On the first disk; the second is there for what needs two.
Plant: TypeAlias = Callable[[BareDisk, BareDisk], Undo]


def run(disk: BareDisk, *argv: str) -> None:
    """On the disk's host."""
    must(disk.host, argv)


def later(disk: BareDisk, *argv: str) -> Undo:
    """To be run at the end."""
    return [partial(must, disk.host, argv)]


def meanwhile(disk: BareDisk, said: str, *argv: str) -> Undo:
    """Run on the host until the end; this returns when it has said so."""
    out = disk.folder / "out"
    proc = disk.host.spawn(argv, out, disk.folder / "err")
    deadline = time.monotonic() + 60
    while said not in out.read_text():
        assert proc.poll() is None and time.monotonic() < deadline, (disk.folder / "err").read_text()
        time.sleep(0.05)
    return [partial(proc.signal, signal.SIGKILL), partial(proc.wait, 60)]


def gpt(disk: BareDisk, _: BareDisk) -> Undo:
    sectors = SIZE // 512
    entry = uuid.uuid4().bytes_le * 2 + struct.pack("<QQQ", 2048, sectors - 2049, 0) + bytes(72)
    entries = entry + bytes(127 * 128)
    for here, other, at in ((1, sectors - 1, 2), (sectors - 1, 1, sectors - 33)):
        fields = (here, other, 34, sectors - 34, uuid.uuid5(uuid.NAMESPACE_DNS, "x").bytes_le, at, 128, 128)
        tail = struct.pack("<QQQQ16sQIII", *fields, zlib.crc32(entries))
        whole = b"EFI PART" + struct.pack("<II", 0x10000, 92)
        digest = zlib.crc32(whole + bytes(8) + tail)
        disk.write(here * 512, whole + struct.pack("<II", digest, 0) + tail)
        disk.write(at * 512, entries)
    disk.write(
        446, struct.pack("<8BII", 0, 0, 2, 0, 0xEE, 255, 255, 255, 1, sectors - 1) + bytes(48) + b"\x55\xaa"
    )
    run(disk, "blockdev", "--rereadpt", disk.device)
    return []


def mbr(disk: BareDisk, _: BareDisk) -> Undo:
    part = struct.pack("<8BII", 0, 0, 2, 0, 0x83, 255, 255, 255, 2048, 65536)
    disk.write(446, part + bytes(48) + b"\x55\xaa")
    run(disk, "blockdev", "--rereadpt", disk.device)
    return []


def filesystem(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", disk.device)
    return []


def xfs(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "mkfs.xfs", "-q", "-K", "--unsupported", disk.device)
    return []


def mounted(disk: BareDisk, other: BareDisk) -> Undo:
    filesystem(disk, other)
    run(disk, "mkdir", "-p", "/mnt/in use")
    run(disk, "mount", disk.device, "/mnt/in use")
    return later(disk, "umount", "/mnt/in use")


def mounted_elsewhere(disk: BareDisk, other: BareDisk) -> Undo:
    """Where no list of mounts shows it."""
    filesystem(disk, other)
    run(disk, "mkdir", "-p", "/mnt/hidden")
    script = f"mount {disk.device} /mnt/hidden && echo mounted && exec sleep 600"
    return meanwhile(disk, "mounted", "unshare", "--mount", "--propagation", "private", "sh", "-c", script)


def lvm(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "pvcreate", *LVM, disk.device)
    run(disk, "vgcreate", *LVM, "prod", disk.device)
    run(disk, "lvcreate", *LVM, "--noudevsync", "-W", "n", "-Z", "n", "-L", "8m", "-n", "data", "prod")
    return later(disk, "vgchange", *LVM, "--noudevsync", "--activate", "n", "prod")


def lvm_inactive(disk: BareDisk, other: BareDisk) -> Undo:
    for undo in lvm(disk, other):
        undo()
    return []


def lvm_alone(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "pvcreate", *LVM, disk.device)
    return []


def md(disk: BareDisk, other: BareDisk) -> Undo:
    both = (disk.device, other.device)
    run(disk, "mdadm", "--create", "/dev/md77", "--run", "--level=1", "--raid-devices=2", "--assume-clean",
        "--bitmap=none", *both)  # fmt: skip
    return later(disk, "mdadm", "--stop", "/dev/md77")


def md_stopped(disk: BareDisk, other: BareDisk) -> Undo:
    for undo in md(disk, other):
        undo()
    return []


def md_at_the_end(disk: BareDisk, other: BareDisk) -> Undo:
    run(disk, "mdadm", "--create", "/dev/md77", "--run", "--level=1", "--raid-devices=2", "--assume-clean",
        "--bitmap=none", "--metadata=1.0", disk.device, other.device)  # fmt: skip
    run(disk, "mdadm", "--stop", "/dev/md77")
    return []


def md_inactive(disk: BareDisk, other: BareDisk) -> Undo:
    md_stopped(disk, other)
    run(disk, "mdadm", "--incremental", disk.device)
    # md127 : inactive ubdb[0](S)
    (name,) = re.findall(r"^(md\S+) : inactive", disk.host.get("/proc/mdstat").decode(), re.MULTILINE)
    return later(disk, "mdadm", "--stop", f"/dev/{name}")


def swap(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "mkswap", disk.device)
    return []


def swap_on(disk: BareDisk, other: BareDisk) -> Undo:
    swap(disk, other)
    run(disk, "swapon", disk.device)
    return later(disk, "swapoff", disk.device)


def luks(disk: BareDisk, _: BareDisk) -> Undo:
    names = b"aes".ljust(32, b"\0") + b"xts-plain64".ljust(32, b"\0") + b"sha256".ljust(32, b"\0")
    disk.write(
        0, b"LUKS\xba\xbe\0\1" + names + bytes(64) + b"0a1b2c3d-0000-4000-8000-000000000000".ljust(40, b"\0")
    )
    return []


def drbd(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "drbdmeta", "--force", "0", "v08", disk.device, "internal", "create-md")
    return []


def drbd_9(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "drbdmeta", "--force", "0", "v09", disk.device, "internal", "create-md", "2")
    return []


def holder(disk: BareDisk, _: BareDisk) -> Undo:
    table = f"0 2048 linear {disk.device} 8"
    run(disk, "dmsetup", "create", "theirs", "--noudevsync", "--table", table)
    # Without udev nobody else makes its name.
    run(disk, "dmsetup", "mknodes", "theirs")
    return later(disk, "dmsetup", "remove", "--noudevsync", "theirs")


def opened(disk: BareDisk, _: BareDisk) -> Undo:
    """Exclusively, as DRBD and ZFS do, of which the kernel shows no holder."""
    code = f"import os, time; os.open('{disk.device}', os.O_EXCL); print('open', flush=True); time.sleep(600)"
    return meanwhile(disk, "open", "python3", "-c", code)


def open_in_a_process(disk: BareDisk, _: BareDisk) -> Undo:
    """As a VM's disk is."""
    code = f"import os, time; os.open('{disk.device}', os.O_RDWR); print('open', flush=True); time.sleep(600)"
    return meanwhile(disk, "open", "python3", "-c", code)


def xdr(name: bytes, value: int | bytes) -> bytes:
    """A pair of a ZFS label: a number of 64 bits or a text."""
    kind, data = (8, struct.pack(">Q", value)) if isinstance(value, int) else (9, text_of(value))
    pair = text_of(name) + struct.pack(">II", kind, 1) + data
    return struct.pack(">II", len(pair) + 8, len(pair) + 8) + pair


def text_of(text: bytes) -> bytes:
    """Its length, and itself in whole words."""
    return struct.pack(">I", len(text)) + text.ljust(-(-len(text) // 4) * 4, b"\0")


def zfs(disk: BareDisk, _: BareDisk) -> Undo:
    """The labels: a list of names and values, and a ring of uberblocks."""
    pairs: dict[bytes, int | bytes] = {
        b"version": 5000, b"name": b"tank", b"state": 0, b"txg": 4, b"pool_guid": 7**20, b"guid": 3**30,
    }  # fmt: skip
    text = struct.pack(">4B2I", 1, 1, 0, 0, 0, 1) + b"".join(xdr(*pair) for pair in pairs.items())
    ring = (struct.pack("<QQQ", 0x00BAB10C, 5000, 4) + bytes(1000)) * 128
    for label in (0, 256 * 1024, SIZE - 512 * 1024, SIZE - 256 * 1024):
        disk.write(label + 16 * 1024, text)
        disk.write(label + 128 * 1024, ring)
    return []


def read_only(disk: BareDisk, _: BareDisk) -> Undo:
    run(disk, "blockdev", "--setro", disk.device)
    return []


def some_bytes(disk: BareDisk, _: BareDisk) -> Undo:
    disk.write(300_000, os.urandom(5))
    return []


def last_bytes(disk: BareDisk, _: BareDisk) -> Undo:
    disk.write(SIZE - 70_000, b"x")
    return []


def middle(disk: BareDisk, _: BareDisk) -> Undo:
    """Found by the samples in between."""
    disk.write(MIB, os.urandom(SIZE - 2 * MIB))
    return []


def stamp_of_another(disk: BareDisk, other: BareDisk) -> Undo:
    disk.write(0, claims.stamp_text(other.serial, SIZE))
    return []


def stamp_of_another_size(disk: BareDisk, _: BareDisk) -> Undo:
    disk.write(0, claims.stamp_text(disk.serial, SIZE // 2))
    return []


def damaged_stamp(disk: BareDisk, _: BareDisk) -> Undo:
    disk.write(0, claims.stamp_text(disk.serial, SIZE))
    disk.write(60, b"?")
    return []


SIGNATURE = "has the signature of "
CASES: list[tuple[Plant, list[str]]] = [
    (gpt, ["has a partition table (gpt)", "has partitions: ubdb1"]),
    (mbr, ["has a partition table (dos)", "has partitions: ubdb1"]),
    (filesystem, [SIGNATURE + "ext4"]),
    (xfs, [SIGNATURE + "xfs"]),
    (mounted, ["is mounted at /mnt/in use", SIGNATURE + "ext4"]),
    (mounted_elsewhere, [SIGNATURE + "ext4", "is in use"]),
    (lvm, ["(prod-data)", "is an LVM physical volume"]),
    (lvm_inactive, ["is an LVM physical volume"]),
    (lvm_alone, ["is an LVM physical volume"]),
    (md, ["is held by md77", "is a member of an MD array"]),
    (md_stopped, ["is a member of an MD array"]),
    (md_at_the_end, ["is a member of an MD array"]),
    (md_inactive, ["is held by md", "is a member of an MD array"]),
    (swap, ["is formatted as swap"]),
    (swap_on, ["is swap in use", "is formatted as swap"]),
    (luks, ["is encrypted by LUKS"]),
    (drbd, ["has DRBD metadata"]),
    (drbd_9, ["has DRBD metadata"]),
    (holder, ["(theirs)"]),
    (opened, ["is in use, for it cannot be opened exclusively"]),
    (open_in_a_process, ["is open for writing in python3 (process "]),
    (zfs, ["belongs to a ZFS pool"]),
    (read_only, ["is read-only"]),
    (some_bytes, ["is not zero"]),
    (last_bytes, ["is not zero"]),
    (middle, ["is not zero"]),
    (stamp_of_another, ["has the stamp of another disk (serial S0001"]),
    (stamp_of_another_size, [f"has the stamp of another disk (serial S0000, {SIZE // 2} bytes)"]),
    (damaged_stamp, ["has a damaged stamp"]),
]
