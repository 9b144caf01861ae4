"""Decides whether a disk of this host may be used. Runs as root, and opens nothing for writing.

disks.py survey                                         all disks, and what is on them
disks.py check ID --serial S --size BYTES --need BYTES  whether it may be used

ID is a path below /dev/disk/by-id. ``claims`` asks with ``--fd``, its own descriptor of the disk; with ``--held``,
its map that stands on the disk; and with ``--claim`` where the disk need not be zero. Each verb prints one JSON
object. A refusal has all reasons in ``refused``, and exit code 1. What could not be found out is a reason too.
Nothing overrules a reason.

A disk's serials are what lsblk shows (udev's), the kernel's serial (virtio, NVMe, MMC), SCSI's unit serial number
(VPD page 0x80) and the WWID, in this order. S has to be one of them, and of this disk alone. The name of the ID is
no source, but has to hold one of them.

The first MiB is the stamp's. The last MiB is not used: partition tables, MD, ZFS and DRBD have metadata there, and
those of a layout at the end of the disk would pass for the disk's own.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import json
import mmap
import os
import random
import re
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

BY_ID = "/dev/disk/by-id/"
MIB, BLOCK, SECTOR = 1 << 20, 4096, 512
SAMPLES = 16
MAGIC = b"blocklab-disk-stamp 1\n"
# In DRBD's metadata: 8.3 and 8.4, 8.4 while it is up, 9.
DRBD = (0x8374026B, 0x8374026C, 0x8374026D)
TABLES = {"PMBR", "aix", "atari", "bsd", "dos", "gpt", "mac", "sgi", "solaris_x86", "sun", "ultrix", "unixware"}
CALLED = {
    "LVM2_member": ("is an LVM physical volume", "vgreduce and pvremove"),
    "linux_raid_member": ("is a member of an MD array", "mdadm --zero-superblock"),
    "zfs_member": ("belongs to a ZFS pool", "zpool labelclear"),
    "crypto_LUKS": ("is encrypted by LUKS", "cryptsetup erase and wipefs --all"),
    "swap": ("is formatted as swap", "wipefs --all"),
    "drbd": ("has DRBD metadata", "drbdadm down and drbdadm wipe-md"),
}
# Beside this file, wherever that is: what runs it.
USERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "disk_users.py")


class Refused(Exception):
    """Every reason why not."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


class Use(NamedTuple):
    """Something that speaks against a disk, and what a user does about it."""

    what: str
    fix: str


class Stamp(NamedTuple):
    """What blocklab writes on a disk: a random id, the disk's serial and size (bytes), when."""

    id: str
    serial: str
    size: int
    claimed: str


class Asked(NamedTuple):
    """What the hosts file says of a disk, and how many bytes a volume takes of it."""

    id: str
    serial: str
    size: int
    need: int = 0


class Facts(NamedTuple):
    """What was read of one disk. ``others``: the serials of the other disks; ``numbers``: major:minor of it and of
    its partitions; ``holders``, ``mounts``, ``swaps``, ``arrays``, ``writers``, ``exports``: see ``disk_users``;
    ``types``: what lsblk says is on it and on its partitions; ``zero``: whether samples of it are, or of a stamped
    one all but the stamp in its first and last MiB, None where none was read; ``unknown``: what is not known."""

    path: str
    name: str
    size: int
    kind: str
    model: str = ""
    read_only: bool = False
    ids: Sequence[str] = ()
    serials: Sequence[str] = ()
    others: Mapping[str, Sequence[str]] = {}
    numbers: Mapping[str, str] = {}
    holders: Mapping[str, str] = {}
    mounts: Sequence[str] = ()
    swaps: Sequence[str] = ()
    arrays: Sequence[str] = ()
    writers: Sequence[str] = ()
    exports: Sequence[Sequence[str]] = ()
    types: Mapping[str, str] = {}
    signatures: Sequence[str] = ()
    first: bytes = b""
    last: bytes = b""
    busy: bool = False
    zero: bool | None = None
    unknown: Sequence[str] = ()


# -- pure: parsers -----------------------------------------------------------------------------------------------


def parse_lsblk(text: str) -> dict[str, dict[str, str]]:
    """``lsblk -J -o KNAME,TYPE,SERIAL,MODEL,FSTYPE`` by name, with partitions and holders. ``ValueError``."""
    # {"blockdevices": [{"kname": "sda", "type": "disk", "serial": "3", "model": "X", "fstype": null},
    #   {"kname": "sda1", "type": "part", "serial": null, "model": null, "fstype": "ext4"}]}
    # Older versions may print a tree, with a row's "children" in it.
    found: dict[str, dict[str, str]] = {}
    try:
        rows = list(json.loads(text)["blockdevices"])
        while rows:
            row = rows.pop()
            fields = {key: row[key] for key in ("kname", "type", "serial", "model", "fstype")}
            found[fields["kname"]] = {key: "" if value is None else value.strip() for key, value in fields.items()}
            rows += row.get("children", [])
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"lsblk prints what blocklab does not know ({error!r})") from error
    return found


def parse_wipefs(text: str) -> list[str]:
    """The types of all signatures in ``wipefs -J``. ``ValueError``."""
    # {"signatures": [{"device":"sdb", "offset":"0x438", "type":"ext4", "uuid":"...", "label":null}]}
    # An older one prints nothing at all where there are none.
    if not text.strip():
        return []
    try:
        rows = [row["type"] for row in json.loads(text)["signatures"]]
    except (LookupError, TypeError) as error:
        raise ValueError(f"wipefs prints what blocklab does not know ({error!r})") from error
    if not all(isinstance(kind, str) and kind for kind in rows):
        raise ValueError(f"wipefs prints what blocklab does not know ({rows})")
    return sorted(set(rows))


def stamped(first: bytes) -> Stamp | None:
    """The stamp in a disk's first block; None without one. ``ValueError`` for one that is damaged."""
    if not first.startswith(MAGIC):
        return None
    text, _, rest = first[len(MAGIC) :].partition(b"\n")
    if rest[:65] != hashlib.sha256(text).hexdigest().encode() + b"\n":
        raise ValueError("its checksum is wrong")
    try:
        return Stamp(**json.loads(text))
    except TypeError as error:
        raise ValueError("it is another version's") from error


# -- pure: decisions ---------------------------------------------------------------------------------------------


def drbd_metadata(data: bytes) -> bool:
    """Whether DRBD's magic number is in it: 8.4 and 9 have it in the last block of 4 KiB, at byte 60."""
    return any(word in DRBD for (word,) in struct.iter_unpack(">I", data))


def partition_table(facts: Facts) -> str:
    """Its kind; empty without one."""
    kinds = {kind for kind in facts.signatures if kind in TABLES}
    if b"EFI PART" in (facts.first[512:520], facts.first[4096:4104]) or b"EFI PART" in facts.last:
        kinds.add("gpt")
    if facts.first[510:512] == b"\x55\xaa":
        kinds.add("dos")
    # A GPT has an MBR in front of it.
    return "gpt" if "gpt" in kinds else ", ".join(sorted(kinds))


def uses(facts: Facts, ours: str = "") -> list[Use]:
    """What is on a disk, and what uses it; ``ours`` is a holder that is meant to be there."""
    found = []
    if kind := partition_table(facts):
        found.append(Use(f"has a partition table ({kind})", f"wipefs --all {facts.path}"))
    if parts := [f"{name} ({facts.types.get(name) or '?'})" for name in facts.numbers if name != facts.name]:
        found.append(Use(f"has partitions: {', '.join(parts)}", "delete them with fdisk or parted"))
    for name, label in facts.holders.items():
        own = label.startswith("blocklab-")
        fix = f"end blocklab's run there, or dmsetup remove {name}" if own else f"take {name} down"
        if name != ours:
            found.append(Use(f"is held by {name}" + (f" ({label})" if label else ""), fix))
    found += [Use(f"is mounted at {folder}", f"umount {folder}") for folder in facts.mounts]
    found += [Use(f"is swap in use ({name})", f"swapoff /dev/{name}") for name in facts.swaps]
    arrays = [name for name in facts.arrays if name not in facts.holders]
    found += [Use(f"is in the MD array {name}", f"mdadm --stop /dev/{name}") for name in arrays]
    found += [Use(f"is open for writing in {process}", "end that process") for process in facts.writers]
    found += [Use(what, fix) for what, fix in facts.exports]
    kinds = {*facts.signatures, facts.types.get(facts.name, "")} - TABLES - {""}
    if drbd_metadata(facts.first) or drbd_metadata(facts.last):
        kinds.add("drbd")
    for kind in sorted(kinds):
        what, fix = CALLED.get(kind, (f"has the signature of {kind}", "wipefs --all"))
        found.append(Use(what, f"{fix}, for {facts.path}"))
    return found


def named_by(path: str, serials: Iterable[str]) -> bool:
    """Whether an ID's name holds one of the serials, as udev spells it: ``wwn-0x60`` holds the WWID ``naa.60``."""
    name, *bare = (
        re.sub(r"[^0-9a-z]", "", re.sub(r"^(naa|eui|uuid|nvme|t10)\.", "", text.lower()))
        for text in (os.path.basename(path), *serials)
    )
    return any(serial and serial in name for serial in bare)


def identity(facts: Facts, asked: Asked) -> Iterator[Use]:
    """Is it the disk that was meant?"""
    if not facts.serials:
        yield Use("has no serial number", "take a disk that can be told from all others")
        return
    if asked.serial not in facts.serials:
        yield Use(f"has the serial {facts.serials[0]}, not {asked.serial!r}", "correct the hosts file")
    for name in (name for name, serials in facts.others.items() if asked.serial in serials):
        yield Use(f"has the same serial as {name}", "give its WWID as serial, or take another disk")
    if not named_by(asked.id, facts.serials):
        yield Use(f"has the serial {facts.serials[0]}; {asked.id} names another", "correct the hosts file")


def fitness(facts: Facts, asked: Asked) -> Iterator[Use]:
    """Is it a disk of the right size that can be written to?"""
    if asked.size != facts.size:
        yield Use(f"has {facts.size} bytes, not {asked.size}", "correct the hosts file")
    if facts.size < asked.need + 2 * MIB:
        yield Use(f"has {facts.size} bytes; {asked.need} and 2 MiB more are needed", "take a larger disk")
    if asked.need % BLOCK:
        yield Use(f"cannot give {asked.need} bytes", f"let the volume's size be a multiple of {BLOCK}")
    if facts.kind not in ("disk", ""):
        yield Use(f"is no disk, but a {facts.kind}", "take a disk")
    if facts.read_only:
        yield Use("is read-only", "take a disk that can be written to")


def content(facts: Facts, *, claim: bool) -> Iterator[Use]:
    """Is it zero, or stamped as this very disk?"""
    by_hand = f"if nobody needs its data: dd if=/dev/zero of={facts.path} bs=4096 count=1"
    try:
        stamp = stamped(facts.first)
    except ValueError as error:
        yield Use(f"has a damaged stamp of blocklab: {error}", by_hand)
        return
    if stamp and (stamp.serial not in facts.serials or stamp.size != facts.size):
        what = f"has the stamp of another disk (serial {stamp.serial}, {stamp.size} bytes)"
        yield Use(f"{what}: a copy, or it was resized", by_hand)
    elif facts.zero is False and not claim:
        what = "was written to since it was claimed" if stamp else "is not zero"
        yield Use(what, "if nobody needs its data: blocklab disks claim")


def reasons(facts: Facts, asked: Asked, *, claim: bool = False, held: str = "") -> list[str]:
    """Why a disk may not be used; empty if it may. ``claim``: it need not be zero; ``held``: by this map alone."""
    found = [*identity(facts, asked), *fitness(facts, asked), *uses(facts, held), *content(facts, claim=claim)]
    known = (facts.holders, facts.mounts, facts.swaps, facts.arrays, facts.writers, facts.exports)
    if facts.busy and not any(known):
        found.append(Use("is in use, for it cannot be opened exclusively", "end what uses it (DRBD, ZFS, a VM)"))
    if held and list(facts.holders) != [held]:
        found.append(Use(f"is not held by {held} alone", "find out what else uses it"))
    said = [f"{facts.path} {use.what}: {use.fix}" for use in found]
    return said + [f"{facts.path}: {trouble}" for trouble in facts.unknown]


# -- reading -----------------------------------------------------------------------------------------------------


def tool(*argv: str) -> str:
    """What a program prints. ``ValueError`` where it cannot be run, fails, or does not end."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=120,
            check=True,
        )  # fmt: skip
    except OSError as error:
        raise ValueError(f"{argv[0]} cannot be run ({error.strerror}): install util-linux") from None
    except subprocess.SubprocessError as error:
        raise ValueError(f"{error} {getattr(error, 'stderr', None) or ''}".strip()) from None
    return done.stdout


def raw_of(path: str) -> bytes:
    """A file of the kernel; empty where it is not there or cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def text_of(path: str) -> str:
    """The same without blanks and NULs at its ends."""
    return raw_of(path).decode(errors="replace").strip(" \n\0")


def entries(path: str) -> list[str]:
    """The names in a folder, sorted; empty without one."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, ProcessLookupError):
        return []


def virtual(name: str) -> bool:
    """Whether it stands on other devices or on memory (dm, md, drbd, nbd, loop, ram, zram), or is one of several
    ways to a disk, which the kernel hides."""
    place = os.path.realpath(f"/sys/block/{name}")
    return "/virtual/block/" in place or text_of(f"{place}/hidden") == "1"


def serials_of(name: str, lsblk: str) -> list[str]:
    """In the order of the module's docstring."""
    place = f"/sys/block/{name}"
    read = {each: text_of(f"{place}/{each}") for each in ("serial", "device/serial", "wwid", "device/wwid")}
    # b"\x00\x80\x00\x0c", and 12 letters
    unit = raw_of(f"{place}/device/vpd_pg80")[4:].decode(errors="replace").strip(" \0")
    found = dict.fromkeys([lsblk, read.pop("serial"), read.pop("device/serial"), unit, *read.values()])
    # A driver without one may say so.
    return [serial for serial in found if serial.strip("0 ") and serial != "(null)"]


class Host(NamedTuple):
    """What concerns all disks: lsblk's rows, serials and ids by disk, what is not known."""

    rows: Mapping[str, Mapping[str, str]]
    serials: Mapping[str, list[str]]
    ids: Mapping[str, list[str]]
    unknown: Sequence[str]


def look() -> Host:
    """The host as it is now."""
    rows: dict[str, dict[str, str]] = {}
    unknown = []
    try:
        rows = parse_lsblk(tool("lsblk", "-J", "-o", "KNAME,TYPE,SERIAL,MODEL,FSTYPE"))
    except ValueError as error:
        unknown.append(str(error))
    ids: dict[str, list[str]] = {}
    for each in entries(BY_ID):
        ids.setdefault(os.path.basename(os.path.realpath(BY_ID + each)), []).append(BY_ID + each)
    disks = [name for name in entries("/sys/block") if not virtual(name)]
    serials = {name: serials_of(name, rows.get(name, {}).get("serial", "")) for name in disks}
    return Host(rows, serials, ids, unknown)


def users_of(names: Iterable[str]) -> dict[str, Any]:
    """What uses a disk and its partitions, as ``disk_users`` finds it, but for us and who started us.
    ``ValueError``."""
    own = f"{os.getpid()},{os.getppid()}"
    found: dict[str, Any] = json.loads(tool(sys.executable, "-I", "-S", USERS, "--but", own, *names))
    return found


def read_at(fd: int, at: int, size: int) -> bytes:
    """From the disk, not from the page cache."""
    with mmap.mmap(-1, size) as memory:
        if os.preadv(fd, [memory], at) != size:
            raise OSError(errno.EIO, f"{size} bytes at {at} cannot be read")
        return memory[:]


def all_zero(fd: int, size: int, *, stamped: bool) -> bool:
    """A sample of at least 2 MiB: the first, the last and some random MiB. Of a stamped disk only what nobody but
    its owner has written to: the rest of the first MiB, and the last one."""
    chance = random.SystemRandom()
    inner = (chance.randrange(0, size - MIB + 1, BLOCK) for _ in range(0 if stamped else SAMPLES))
    first = read_at(fd, 0, MIB)[SECTOR if stamped else 0 :]
    return first == bytes(len(first)) and all(read_at(fd, at, MIB) == bytes(MIB) for at in (size - MIB, *inner))


def facts_of(host: Host, name: str, fd: int, *, busy: bool, held: str = "") -> Facts:
    """All that is known of one disk, which is open; ``held`` is a map that is meant to stand on it."""
    place, path = f"/sys/block/{name}", f"/dev/{name}"
    inside = [each for each in entries(place) if os.path.exists(f"{place}/{each}/partition")]
    numbers = {each: text_of(f"/sys/class/block/{each}/dev") for each in (name, *inside)}
    row, unknown, signatures = host.rows.get(name, {}), list(host.unknown), []
    size = int(text_of(f"{place}/size")) * SECTOR
    if {number_of(os.fstat(fd)), number_of(os.stat(path))} != {numbers[name]}:
        unknown.append("its name in /dev leads to another device; wait for udev, and try again")
    if not row and not unknown:
        unknown.append("lsblk does not list it")
    used: dict[str, Any] = {}
    try:
        signatures = parse_wipefs(tool("wipefs", "-J", "--no-act", path))
        used = users_of(numbers)
        unknown += used.pop("unknown")
    except ValueError as error:
        unknown.append(str(error))
    facts = Facts(
        path, name, size, row.get("type", ""), row.get("model") or text_of(f"{place}/device/model"),
        text_of(f"{place}/ro") != "0", host.ids.get(name, []), host.serials.get(name, []),
        {other: serials for other, serials in host.serials.items() if other != name}, numbers,
        types={each: host.rows[each]["fstype"] for each in numbers if each in host.rows},
        signatures=signatures, busy=busy, unknown=unknown, **used,
    )  # fmt: skip
    if size < 2 * MIB:
        return facts
    facts = facts._replace(first=read_at(fd, 0, 2 * BLOCK), last=read_at(fd, size - 2 * BLOCK, 2 * BLOCK))
    if uses(facts, held) or (busy and not held):
        return facts
    return facts._replace(zero=all_zero(fd, size, stamped=facts.first.startswith(MAGIC)))


def number_of(status: os.stat_result) -> str:
    """major:minor of a device."""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


@contextlib.contextmanager
def opened(name: str) -> Iterator[tuple[int, bool]]:
    """(descriptor, whether others use the disk). It is ours alone as long as it is open, unless others use it."""
    busy, mode = False, os.O_RDONLY | os.O_DIRECT
    try:
        fd = os.open(f"/dev/{name}", mode | os.O_EXCL)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # It is read all the same, for the other reasons.
        busy, fd = True, os.open(f"/dev/{name}", mode)
    try:
        yield fd, busy
    finally:
        os.close(fd)


def resolve(path: str) -> str:
    """The kernel's name of the whole disk that an ID leads to. ``Refused``."""
    name, target = path[len(BY_ID) :], os.path.realpath(path)
    if not path.startswith(BY_ID) or not name or "/" in name:
        raise Refused(f"{path} is no name below {BY_ID}: take one that survey shows")
    if not os.path.islink(path):
        raise Refused(f"{path} is no link as udev makes them: take one that survey shows")
    try:
        status = os.stat(path)
    except OSError as error:
        raise Refused(f"{path} leads to {target}: {error.strerror}; attach the disk") from None
    if not stat.S_ISBLK(status.st_mode):
        raise Refused(f"{path} leads to {target}, which is no block device: correct the link")
    place = os.path.realpath(f"/sys/dev/block/{number_of(status)}")
    kernel, whole = os.path.basename(place), os.path.basename(os.path.dirname(place))
    if os.path.exists(f"{place}/partition"):
        raise Refused(f"{path} is the partition {kernel} of {whole}: take a whole disk")
    if virtual(kernel):
        raise Refused(f"{path} is {kernel}, which stands on something else: take a disk itself")
    return kernel


# -- verbs -------------------------------------------------------------------------------------------------------


def shown(facts: Facts) -> dict[str, Any]:
    """A disk as the verbs print it."""
    try:
        stamp = stamped(facts.first)
    except ValueError:
        stamp = None
    return {
        "path": facts.path, "name": facts.name, "ids": list(facts.ids), "model": facts.model, "size": facts.size,
        "serial": next(iter(facts.serials), ""), "serials": list(facts.serials), "zero": facts.zero,
        "uses": [use.what for use in uses(facts)], "stamp": stamp._asdict() if stamp else None,
    }  # fmt: skip


def survey() -> dict[str, Any]:
    """All whole disks."""
    host, found = look(), []
    for name in host.serials:
        try:
            with opened(name) as (fd, busy):
                facts = facts_of(host, name, fd, busy=busy)
        except OSError as error:
            # A drive without a medium.
            facts = Facts(f"/dev/{name}", name, 0, "", unknown=[f"cannot be read: {error.strerror}"])
        facts = facts._replace(ids=sorted(facts.ids, key=lambda each: not named_by(each, facts.serials)))
        best, serial = next(iter(facts.ids), ""), next(iter(facts.serials), "")
        why = reasons(facts, Asked(best or serial, serial, facts.size))
        if not best:
            why.append(f"{facts.path} has no name below {BY_ID}: let udev make one")
        found.append({**shown(facts), "usable": not why, "refused": why})
    return {"disks": found}


def check(asked: Asked, given: int, *, claim: bool, held: str) -> dict[str, Any]:
    """The disk, where it may be used. ``Refused``, ``OSError``."""
    name = resolve(asked.id)
    with contextlib.nullcontext((given, False)) if given >= 0 else opened(name) as (fd, busy):
        facts = facts_of(look(), name, fd, busy=busy, held=held)
    if why := reasons(facts, asked, claim=claim, held=held):
        raise Refused(*why)
    return shown(facts)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="disks.py")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("survey")
    one = verbs.add_parser("check")
    one.add_argument("id")
    one.add_argument("--serial", required=True)
    one.add_argument("--size", type=int, required=True)
    one.add_argument("--need", type=int, required=True)
    one.add_argument("--fd", type=int, default=-1)
    one.add_argument("--held", default="")
    one.add_argument("--claim", action="store_true")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """One verb; 1 where it refuses."""
    asked = arguments(argv[1:])
    try:
        if os.geteuid() != 0:
            raise Refused("disks.py does not run as root: let the hosts file say become: sudo")
        if asked.verb == "survey":
            found = survey()
        else:
            disk = Asked(asked.id, asked.serial, asked.size, asked.need)
            found = check(disk, asked.fd, claim=asked.claim, held=asked.held)
    except (Refused, OSError, ValueError) as error:
        found = {"refused": error.reasons if isinstance(error, Refused) else [f"{asked.verb}: {error}"]}
    print(json.dumps(found))
    return int("refused" in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
