"""What a host says of itself: its machine, for the fingerprint, and the names that are taken there. Pure
parsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blocklab.model import numbers
from blocklab.model.plan import Argv

# One command each, whose text the functions below read.
MACHINE: Mapping[str, Argv] = {
    "id": ("cat", "/etc/machine-id"),
    "kernel": ("uname", "-r"),
    "name": ("uname", "-n"),
    "cpuinfo": ("cat", "/proc/cpuinfo"),
    "memory": ("cat", "/proc/meminfo"),
    "system": ("cat", "/etc/os-release"),
}
TAKEN: Mapping[str, Argv] = {
    "blocks": ("ls", "/sys/block"),
    "tcp": ("cat", "/proc/net/tcp", "/proc/net/tcp6"),
    "mounts": ("cat", "/proc/mounts"),
    "drbd": ("ls", "/etc/drbd.d"),
}
# DRBD, PostgreSQL, MariaDB and MySQL, NBD: port, and what uses it.
PORTS = {
    numbers.DRBD_PORT: "DRBD", numbers.POSTGRES_PORT: "PostgreSQL", numbers.MYSQL_PORT: "MariaDB",
    numbers.NBD_PORT: "NBD",
}  # fmt: skip
LISTEN = "0A"
# Before the names that a run gives to what it makes on a host.
PREFIX = "blocklab-"


def machine(texts: Mapping[str, str]) -> dict[str, Any]:
    """Kernel, CPU, number of CPUs, memory in bytes, and system, of the texts of ``MACHINE``."""
    cpus = [
        line.partition(":")[2].strip() for line in texts["cpuinfo"].splitlines() if line.startswith("model name")
    ]
    # processor	: 0
    count = sum(line.startswith("processor") for line in texts["cpuinfo"].splitlines())
    # MemTotal:       16374220 kB
    memory = next(
        (int(line.split()[1]) for line in texts["memory"].splitlines() if line.startswith("MemTotal:")), 0
    )
    # PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
    names = [line for line in texts["system"].splitlines() if line.startswith("PRETTY_NAME=")]
    return {
        "kernel": texts["kernel"].strip(),
        "cpu": cpus[0] if cpus else "",
        "cpus": count,
        "memory": memory * 1024,
        "system": names[0].partition("=")[2].strip('"') if names else "",
    }


def family(os_release: str) -> str:
    """Whose packages a system has: ``debian``, ``rhel``, ``suse``, ``amazon``, or its own ID."""
    # ID="amzn", ID=rocky / ID_LIKE="rhel centos fedora"
    fields = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    own = fields.get("ID", "").strip('"')
    like = [own, *fields.get("ID_LIKE", "").strip('"').split()]
    if own == "amzn":
        return "amazon"
    for known in ("debian", "rhel", "suse"):
        if known in like or (known == "debian" and "ubuntu" in like) or (known == "rhel" and "fedora" in like):
            return known
    return own


def taken(texts: Mapping[str, str], first: int, count: int) -> Iterator[str]:
    """What is there already of the names and numbers that ``count`` stacks would use, in words."""
    blocks = set(texts["blocks"].split())
    ports = set(listening(texts["tcp"]))
    for number in range(first, first + count):
        for device in sorted(_devices(number) & blocks):
            yield f"/dev/{device} is there already"
        for numbered, what in PORTS.items():
            if (port := numbered.of(number)) in ports:
                yield f"something listens on port {port}, which would be {what}'s"
    for line in texts["mounts"].splitlines():
        # /dev/drbd0 /mnt/drbd0 xfs rw,noatime 0 0
        where = line.split(" ")[1] if line.count(" ") > 1 else ""
        if where.startswith(f"/mnt/{PREFIX}"):
            yield f"{where} is a mount point already"
    for name in texts["drbd"].split():
        if name.startswith(PREFIX):
            yield f"/etc/drbd.d/{name} is there already"


def _devices(number: int) -> set[str]:
    """The kernel's names of what a stack may make. nbd has all of its devices as soon as it is loaded."""
    return {
        numbered.name(number, index)
        for numbered in numbers.RANGES
        if numbered.kind in ("drbd", "md", "dm") and numbered is not numbers.DISK
        for index in range(numbered.each)
    }


def taken_minors(blocks: str, first: int, disks: int) -> Iterator[str]:
    """Which device-mapper minors of the disks are there already."""
    there = set(blocks.split())
    for disk in range(first, first + disks):
        if (device := numbers.DISK.name(disk)) in there:
            yield f"/dev/{device} is there already"


def listening(text: str) -> Iterator[int]:
    """The TCP ports on which something listens."""
    #   sl  local_address rem_address   st tx_queue rx_queue ...
    #    0: 0100007F:1538 00000000:0000 0A 00000000:00000000 ...
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] == LISTEN:
            yield int(fields[1].rpartition(":")[2], 16)
