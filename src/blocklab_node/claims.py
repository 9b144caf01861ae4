"""Claims a disk that ``disks`` lets through, and maps a part of it: nothing of blocklab addresses the disk itself.
Runs as root.

claims.py claim ID --serial S --size BYTES
claims.py take ID --serial S --size BYTES --need BYTES --minor N [--fresh] [--zero]
claims.py release --minor N

``claim`` makes the first and the last MiB zero, with a stamp in front; the disk need not be zero before.
``take`` writes the stamp where there is none, which needs a disk that is zero, and makes /dev/mapper/dm-N: NEED
bytes of the disk from 1 MiB on, with the minor N, so that the kernel calls it dm-N too. ``--fresh`` makes their
ends zero before, so that nothing of an earlier layout is found there, ``--zero`` all of them. What an earlier
``take`` of the same disk left at N, however it ended, is removed first. ``release`` removes the map; it may be
gone already.

One JSON object is printed. A refusal has all reasons in ``refused``, and exit code 1; nothing is mapped then.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

MIB, BLOCK, SECTOR = 1 << 20, 4096, 512
MAGIC = b"blocklab-disk-stamp 1\n"
# Of a kill signal the kernel takes notice between two pieces.
PIECE = 1 << 30
BLKZEROOUT = 0x127F
DISKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "disks.py")


class Refused(Exception):
    """Every reason why not."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


def run(*argv: str, fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    """A program's end. ``Refused`` where it cannot be run."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, pass_fds=fds,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise Refused(f"{argv[0]} cannot be run ({error.strerror}): install device-mapper's dmsetup") from None


def dmsetup(*words: str) -> str:
    """What it prints. ``Refused``."""
    done = run("dmsetup", *words)
    if done.returncode:
        raise Refused(f"dmsetup {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def checked(asked: argparse.Namespace, *more: str, fds: Sequence[int] = ()) -> dict[str, Any]:
    """The disk, as ``disks`` prints it. ``Refused`` with its reasons."""
    disk = (asked.id, "--serial", asked.serial, "--size", str(asked.size), "--need", str(asked.need))
    done = run(sys.executable, "-I", "-S", DISKS, "check", *disk, *more, fds=fds)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise Refused(f"disks.py check ended with {done.returncode}: {done.stderr.strip()}") from None
    if done.returncode or "refused" in found:
        raise Refused(*found.get("refused", ["disks.py check gave no reason"]))
    return found


def stamp_text(serial: str, size: int) -> bytes:
    """A first block with a new stamp: in one sector, so that no crash leaves half of it. ``Refused``."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = json.dumps({"id": os.urandom(16).hex(), "serial": serial, "size": size, "claimed": now}).encode()
    whole = MAGIC + text + b"\n" + hashlib.sha256(text).hexdigest().encode() + b"\n"
    if len(whole) > SECTOR:
        raise Refused(f"the serial {serial!r} is too long for a stamp: take another disk")
    return whole.ljust(BLOCK, b"\0")


def stamped(asked: argparse.Namespace, fd: int, *more: str) -> dict[str, Any]:
    """The disk, once its stamp is on it. ``Refused``."""
    given = (*more, "--fd", str(fd))
    found = checked(asked, *given, fds=[fd])
    if found["stamp"] and found["zero"]:
        return found
    with mmap.mmap(-1, MIB) as memory:
        # Of a disk that is not claimed by hand all of this is zero already.
        os.pwritev(fd, [memory], asked.size - MIB)
        memory[:BLOCK] = stamp_text(asked.serial, asked.size)
        os.pwritev(fd, [memory], 0)
    os.fsync(fd)
    return checked(asked, *given, fds=[fd])


def parse_maps(text: str) -> dict[int, tuple[str, str]]:
    """minor -> (name, UUID) out of ``dmsetup info``. ``ValueError``."""
    # "600|dm-600|blocklab-600-3f0c" a line; "No devices found" without any
    lines = (line.split("|") for line in text.splitlines() if line != "No devices found")
    return {int(minor): (name, uuid) for minor, name, uuid in lines}


def maps() -> dict[int, tuple[str, str]]:
    """The host's device-mapper devices, also those without a table. ``Refused``."""
    run("modprobe", "dm-mod")
    columns = ("-c", "--noheadings", "--separator", "|", "-o", "minor,name,uuid")
    return parse_maps(dmsetup("info", *columns))


def uuid_of(asked: argparse.Namespace) -> str:
    """Of the map of this disk at this minor: by it a later call knows its own."""
    disk = hashlib.sha256(f"{asked.serial} {asked.size}".encode()).hexdigest()[:16]
    return f"blocklab-{asked.minor}-{disk}"


def clear(asked: argparse.Namespace) -> None:
    """Remove what an earlier ``take`` of the same disk left. ``Refused`` where anything else has name or minor."""
    for minor, (name, uuid) in maps().items():
        if asked.minor == minor or name == f"dm-{asked.minor}":
            if (minor, uuid) != (asked.minor, uuid_of(asked)):
                what = f"device-mapper has {name} (UUID {uuid or 'none'}) at minor {minor}"
                raise Refused(f"{what}: take another minor, or remove it if nobody needs it")
            dmsetup("remove", "--retry", name)


@contextlib.contextmanager
def exclusive(asked: argparse.Namespace, *more: str) -> Iterator[int]:
    """The disk's descriptor, while nobody else can claim it. ``Refused``."""
    try:
        if not stat.S_ISBLK(os.stat(asked.id).st_mode):
            raise OSError
        fd = os.open(asked.id, os.O_RDWR | os.O_EXCL | os.O_DIRECT)
    except OSError as error:
        checked(asked, *more)
        # Whatever it was is over.
        raise Refused(f"{asked.id} could not be opened ({error.strerror}), but could be now: try again") from None
    try:
        yield fd
    finally:
        os.close(fd)


def claim(asked: argparse.Namespace) -> dict[str, Any]:
    """After a user has typed the serial."""
    asked.need = 0
    with exclusive(asked, "--claim") as fd:
        return stamped(asked, fd, "--claim")


def take(asked: argparse.Namespace) -> dict[str, Any]:
    """Check, stamp, map. Nobody else can claim the disk between the check and the map, but for the moment in which
    device-mapper takes over, since the two exclude each other: so all is checked again behind it."""
    began, own, path = time.monotonic(), f"dm-{asked.minor}", f"/dev/mapper/dm-{asked.minor}"
    clear(asked)
    try:
        with exclusive(asked) as fd:
            before = stamped(asked, fd)
            number = os.stat(before["path"]).st_rdev
            if asked.fresh:
                # udev would start an array or a volume group of an earlier layout as soon as the map is there.
                for at in (MIB, asked.need):
                    write_zeroes(fd, at, at + MIB)
                os.fsync(fd)
            # dmsetup wants a major number beside the minor; the kernel takes its own.
            named = ("--major", "1", "--minor", str(asked.minor), "--uuid", uuid_of(asked))
            dmsetup("create", own, "--notable", *named)
        table = f"0 {asked.need // SECTOR} linear {os.major(number)}:{os.minor(number)} {MIB // SECTOR}"
        dmsetup("load", own, "--table", table)
        dmsetup("resume", own)
        # Without udev nobody else makes it.
        dmsetup("mknodes", own)
        after = checked(asked, "--held", own)
        in_force = dmsetup("table", own).strip()
        if in_force != table or os.stat(path).st_rdev != os.stat(f"/dev/{own}").st_rdev:
            raise Refused(f"{path} has the table {in_force!r}, not {table!r}")
        if after["stamp"] != before["stamp"]:
            raise Refused(f"{before['path']} was written to while it was taken: find out what uses it")
        if asked.zero:
            zero(path, asked.need)
    except BaseException:
        with contextlib.suppress(Refused):
            clear(asked)
        raise
    seconds = round(time.monotonic() - began, 3)
    return {"path": path, "name": own, "disk": before["path"], "bytes": asked.need, "stamp": before["stamp"],
            "zeroed": asked.zero, "seconds": seconds}  # fmt: skip


def zero(path: str, size: int) -> None:
    """By the kernel's own call; by writing where it has none."""
    fd = os.open(path, os.O_WRONLY | os.O_EXCL | os.O_DIRECT)
    try:
        for at in range(0, size, PIECE):
            end = min(at + PIECE, size)
            try:
                fcntl.ioctl(fd, BLKZEROOUT, struct.pack("=QQ", at, end - at))
            except OSError:
                write_zeroes(fd, at, end)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_zeroes(fd: int, at: int, end: int) -> None:
    """From byte ``at`` to ``end``."""
    with mmap.mmap(-1, MIB) as memory, memoryview(memory) as view:
        while at < end:
            with view[: min(MIB, end - at)] as piece:
                at += os.pwritev(fd, [piece], at)


def release(asked: argparse.Namespace) -> dict[str, Any]:
    """The undo of ``take``."""
    name, uuid = maps().get(asked.minor, ("", ""))
    if name and not uuid.startswith(f"blocklab-{asked.minor}-"):
        raise Refused(f"dm-{asked.minor} is {name} (UUID {uuid or 'none'}), not blocklab's: it stays")
    if name:
        dmsetup("remove", "--retry", name)
    return {"released": asked.minor, "was_there": bool(name)}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="claims.py")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, sizes in (("claim", ["--size"]), ("take", ["--size", "--need", "--minor"])):
        one = verbs.add_parser(verb)
        one.add_argument("id")
        one.add_argument("--serial", required=True)
        for name in sizes:
            one.add_argument(name, type=int, required=True)
    for flag in ("--fresh", "--zero"):
        verbs.choices["take"].add_argument(flag, action="store_true")
    verbs.add_parser("release").add_argument("--minor", type=int, required=True)
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """One verb; 1 where it refuses."""
    asked = arguments(argv[1:])
    try:
        found = {"claim": claim, "take": take, "release": release}[asked.verb](asked)
    except (Refused, OSError, ValueError) as error:
        found = {"refused": error.reasons if isinstance(error, Refused) else [f"{asked.verb}: {error}"]}
    print(json.dumps(found))
    return int("refused" in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
