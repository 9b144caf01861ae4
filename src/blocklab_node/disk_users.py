"""Finds what uses a disk of this host, whether or not the kernel counts it as its holder. Runs as root, and opens
nothing for writing.

disk_users.py NAME... [--but PID,...]

NAME is the kernel's name of the disk, and of each of its partitions. Some users claim nothing, so that the disk
can be opened exclusively all the same: a VM, a loop device, an NVMe or SCSI target of the kernel's.

One JSON object is printed: ``holders`` (kernel name -> its UUID if blocklab made it, else its name in
device-mapper), ``mounts`` (folders), ``swaps``, ``arrays`` (names), ``writers`` (processes that have it open for
writing, but for those of ``--but``), ``exports`` (pairs of what uses it, and how to end that), ``unknown`` (what
could not be found out).
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import json
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

# "md127 : active raid1 sdc[1] sdb[0](F)", "md1 : inactive sdb[0](S)"
ARRAY = re.compile(r"^(?P<name>md\S*) : (?P<rest>.*)$", re.MULTILINE)
# A blank in a path of /proc/self/mountinfo or /proc/swaps is \040.
ESCAPE = re.compile(r"\\([0-7]{3})")
LISTS = ("self/mountinfo", "1/mountinfo", "swaps", "mdstat")
SYS, DEV = "/sys", "/dev"
LOOP_GET_STATUS64 = 0x4C05
# Of what it fills in: the number of the file's file system, its inode, its own number if it is a device.
LOOP_STATUS, LOOP_BYTES = struct.Struct("=QQQ"), 232
# "TCM FILEIO ID: 0        File: /srv/disk 1  Size: 1048576  Mode: O_DSYNC Async: 0"
FILEIO = re.compile(r"\bFile: (?P<path>.+?)  Size: \d+")
# What the kernel lets other machines use: where the path is, what it is called, how it is ended.
EXPORTS = (
    ("kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "an NVMe target", "disable it (nvmetcli)"),
    ("kernel/config/target/core/*/*/udev_path", "a SCSI target (LIO)", "delete that backstore (targetcli)"),
    ("kernel/config/target/core/*/*/info", "a SCSI target (LIO)", "delete that backstore (targetcli)"),
    ("kernel/config/usb_gadget/*/functions/mass_storage.*/lun.*/file", "a USB gadget", "empty that file"),
    ("kernel/scst_tgt/devices/*/filename", "a SCSI target (SCST)", "remove that device (scstadmin)"),
)  # fmt: skip


# -- pure: parsers -----------------------------------------------------------------------------------------------


def unescaped(text: str) -> str:
    """A path as the kernel's lists have it."""
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def mounts_of(mountinfo: str, numbers: Mapping[str, str]) -> list[str]:
    """Where any of these devices is mounted."""
    # 36 35 98:16 / /mnt/a\040b rw,noatime shared:1 - ext4 /dev/ubdb rw; btrfs has a number of its own
    found: dict[str, None] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, source = left.split(" "), [*right.split(" "), "", ""][1]
        if len(fields) > 4 and (fields[2] in numbers.values() or source.rpartition("/")[2] in numbers):
            found[unescaped(fields[4])] = None
    return list(found)


def swaps_of(swaps: str, names: Iterable[str]) -> list[str]:
    """Which of these devices are swap in use."""
    # /dev/ubdb    partition    65532    0    -2
    used = {os.path.basename(unescaped(line.split()[0])) for line in swaps.splitlines() if line.strip()}
    return sorted(used.intersection(names))


def arrays_of(mdstat: str, names: Iterable[str]) -> list[str]:
    """The MD arrays that have any of these devices, active or not."""
    found = ((match["name"], {word.partition("[")[0] for word in match["rest"].split()}) for match in
             ARRAY.finditer(mdstat))  # fmt: skip
    return [array for array, members in found if members.intersection(names)]


def path_in(file: str, text: str) -> str:
    """The path of what is exported, in such a file of configfs; empty where none is set."""
    if not file.endswith("/info"):
        # "/dev/sdb\\n", nvmet's "(null)" where none is set, SCST's "[key]" in a second line
        path = text.partition("\n")[0].strip(' "')
        return "" if path == "(null)" else path.removesuffix(" (deleted)")
    fileio = FILEIO.search(text)
    return fileio["path"] if fileio else ""


# -- reading -----------------------------------------------------------------------------------------------------


def text_of(path: str) -> str:
    """A file of the kernel without blanks and NULs at its ends; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace").strip(" \n\0")
    except OSError:
        return ""


def entries(path: str) -> list[str]:
    """The names in a folder, sorted; empty without one."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, ProcessLookupError):
        return []


def number_of(device: int) -> str:
    """major:minor, as sysfs has it."""
    return f"{os.major(device)}:{os.minor(device)}"


def numbers_at(path: str) -> set[str]:
    """Of the device at a path, or of the one that the file there lies on. ``OSError``."""
    status = os.stat(path)
    return {number_of(status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev)}


def holders_of(names: Iterable[str]) -> dict[str, str]:
    """What stands on these devices."""
    found = {}
    for holder in (each for name in names for each in entries(f"{SYS}/class/block/{name}/holders")):
        uuid = text_of(f"{SYS}/block/{holder}/dm/uuid")
        found[holder] = uuid if uuid.startswith("blocklab-") else text_of(f"{SYS}/block/{holder}/dm/name")
    return found


def writers_of(numbers: Iterable[str], but: Iterable[str]) -> list[str]:
    """The processes that have one of these devices open for writing, but for some: a VM's disk is open in a
    process that claims nothing."""
    return [
        f"{text_of(f'/proc/{pid}/comm')} (process {pid})"
        for pid in entries("/proc")
        if pid.isdigit() and pid not in but and any(writes(pid, fd, numbers) for fd in entries(f"/proc/{pid}/fd"))
    ]


def writes(pid: str, fd: str, numbers: Iterable[str]) -> bool:
    """Whether a process has one of these devices open for writing there."""
    try:
        path = os.readlink(f"/proc/{pid}/fd/{fd}")
        if not path.startswith("/dev/"):
            return False
        status = os.stat(path)
    except OSError:
        # It has ended, or closed it.
        return False
    # "flags:  02100002"
    flags = re.search(r"^flags:\s+(\d+)$", text_of(f"/proc/{pid}/fdinfo/{fd}"), re.MULTILINE)
    ours = stat.S_ISBLK(status.st_mode) and number_of(status.st_rdev) in numbers
    return ours and (flags is None or int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY)


def below_loop(name: str) -> set[str]:
    """The numbers of what a loop device stands on. ``OSError``."""
    try:
        # The kernel's own word, whatever has become of the path since.
        fd = os.open(f"{DEV}/{name}", os.O_RDONLY)
        try:
            lies_on, _, is_device = LOOP_STATUS.unpack_from(fcntl.ioctl(fd, LOOP_GET_STATUS64, bytes(LOOP_BYTES)))
        finally:
            os.close(fd)
        return {number_of(is_device or lies_on)}
    except OSError:
        return numbers_at(text_of(f"{SYS}/block/{name}/loop/backing_file").removesuffix(" (deleted)"))


def below_export(file: str) -> set[str]:
    """The numbers of what is exported by such a file; empty where nothing is. ``OSError``."""
    path = path_in(file, text_of(file))
    try:
        return numbers_at(path) if path else set()
    except OSError:
        if text_of(os.path.join(os.path.dirname(file), "enable")) == "0":
            return set()
        raise


def exports_of(numbers: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """What uses one of these devices without claiming it, and how that is ended: (what, fix, ""); or ("", "", what
    could not be found out)."""
    wanted = set(numbers)
    for name in entries(f"{SYS}/block"):
        if name.startswith("loop") and (backing := text_of(f"{SYS}/block/{name}/loop/backing_file")):
            try:
                if wanted & below_loop(name):
                    yield f"is used by the loop device {name} ({backing})", f"losetup --detach /dev/{name}", ""
            except OSError as error:
                yield "", "", f"what the loop device {name} stands on ({backing}): {error.strerror}"
    for pattern, what, fix in EXPORTS:
        for file in sorted(glob.glob(f"{glob.escape(SYS)}/{pattern}")):
            short = os.path.dirname(file).removeprefix(f"{SYS}/kernel/")
            try:
                if wanted & below_export(file):
                    yield f"is used by {what}: {short}", fix, ""
            except OSError as error:
                yield "", "", f"what {what} uses ({path_in(file, text_of(file))}, {short}): {error.strerror}"


def users(names: Sequence[str], but: Sequence[str]) -> dict[str, Any]:
    """As the module's docstring has it."""
    numbers = {name: text_of(f"{SYS}/class/block/{name}/dev") for name in names}
    own, first, swaps, mdstat = (text_of(f"/proc/{each}") for each in LISTS)
    unknown = [] if own else ["/proc/self/mountinfo cannot be read"]
    exports = list(dict.fromkeys(exports_of(numbers.values())))
    unknown += [f"cannot be found out: {doubt}" for _, _, doubt in exports if doubt]
    return {
        "holders": holders_of(names), "mounts": mounts_of(f"{own}\n{first}", numbers),
        "swaps": swaps_of(swaps, names), "arrays": arrays_of(mdstat, names),
        "writers": writers_of(numbers.values(), but), "exports": [[what, fix] for what, fix, _ in exports if what],
        "unknown": unknown,
    }  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="disk_users.py")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--but", default="")
    asked = parser.parse_args(argv[1:])
    print(json.dumps(users(asked.names, [str(os.getpid()), *asked.but.split(",")])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
