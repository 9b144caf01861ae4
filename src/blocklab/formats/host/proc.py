"""What the kernel prints of its own counters: /proc/diskstats, /proc/net/dev, /proc/stat and /proc/uptime."""

from __future__ import annotations

import enum
import re

from blocklab.errors import ParseError

DISKSTATS, NICS, STAT, UPTIME = "/proc/diskstats", "/proc/net/dev", "/proc/stat", "/proc/uptime"
SECTOR = 512
"""Bytes of a sector in /proc/diskstats, whatever the device's own sectors are."""


class Field(enum.IntEnum):
    """The numbers of a device: https://docs.kernel.org/admin-guide/iostats.html. Times are in ms; discards since
    Linux 4.18, flushes since 5.5."""

    READS = 0
    READ_MERGES = 1
    READ_SECTORS = 2
    READ_TIME = 3
    WRITES = 4
    WRITE_MERGES = 5
    WRITE_SECTORS = 6
    WRITE_TIME = 7
    IN_FLIGHT = 8
    BUSY_TIME = 9
    WEIGHTED_TIME = 10
    DISCARDS = 11
    DISCARD_MERGES = 12
    DISCARD_SECTORS = 13
    DISCARD_TIME = 14
    FLUSHES = 15
    FLUSH_TIME = 16


#   98      16 ubdb 101 0 629 3 1899 0 398990 2682 0 320 2685 0 0 0 0 6 0
# major minor name, and the fields
DISK = re.compile(r"\s*\d{1,4}\s+\d{1,7}\s+(?P<name>[A-Za-z]\S*)(?P<fields>(?:\s+\d{1,20}){11,30})\s*$")
"""A line of /proc/diskstats."""
# Inter-|   Receive                                                |  Transmit
#  face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls ...
#     lo: 2076526    3602    0    0    0     0          0         0  2076526    3602    0    0    0     0  0  0
_INTERFACE = re.compile(r"^ *([^\s:]+): *(\d+(?: +\d+){15}) *$")
# cpu  209 0 6 301 0 0 0 0 0 0
#      user nice system idle iowait irq softirq steal guest guest_nice: in ticks since boot, all CPUs together
_CPU = re.compile(r"^cpu +(\d+(?: \d+)*) ?$", re.MULTILINE)
_FIELDS = 8
# 28.06 4.58
_UPTIME = re.compile(r"\s*(\d{1,10}\.\d\d) \d{1,12}\.\d\d\s*$")
# ==> /proc/diskstats <==
_HEADER = re.compile(r"^==> (/proc/\S+) <==\n", re.MULTILINE)


def numbers(match: re.Match[str]) -> list[int]:
    """Those of a line of ``DISK``, by ``Field``, at least 11."""
    return [int(field) for field in match["fields"].split()]


def disks(text: str | None) -> dict[str, list[int]]:
    """The numbers of each device in /proc/diskstats's text, by ``Field``, at least 11. Raises ``ParseError``."""
    found = {}
    for line in (text or "").splitlines():
        match = DISK.match(line)
        if match is None:
            raise ParseError(DISKSTATS, "a line is not a device with at least 11 numbers", line)
        found[match["name"]] = numbers(match)
    if not found:
        raise ParseError(DISKSTATS, "not one device in it", text or "", hint="is /proc mounted on the node?")
    return found


def interfaces(text: str | None) -> dict[str, list[int]]:
    """The 16 numbers of each interface in /proc/net/dev's text: 8 of what was received, 8 of what was sent.
    Raises ``ParseError``."""
    lines = (text or "").splitlines()
    if len(lines) < 3 or not lines[0].startswith("Inter-|"):
        raise ParseError(NICS, "not a table of interfaces", text or "")
    found = {}
    for line in lines[2:]:
        match = _INTERFACE.match(line)
        if match is None:
            raise ParseError(NICS, "a line is not an interface with 16 numbers", line)
        found[match[1]] = [int(field) for field in match[2].split()]
    return found


def ticks(text: str | None) -> list[int]:
    """Of all CPUs together in /proc/stat's text: user, nice, system, idle, iowait, irq, softirq, steal. Raises
    ``ParseError``."""
    found = _CPU.search(text or "")
    counted = [int(field) for field in found[1].split()][:_FIELDS] if found else []
    if len(counted) < _FIELDS:
        raise ParseError(STAT, f"no cpu line of at least {_FIELDS} numbers", text or "")
    return counted


def uptime(line: str) -> float | None:
    """The seconds since the boot in the line of /proc/uptime; None for another line."""
    match = _UPTIME.match(line)
    return float(match[1]) if match else None


def files(text: str) -> dict[str, tuple[str, ...]]:
    """The text of each file that ``tail -v`` printed, by its path, in order where one was asked for twice."""
    # "text of one file\n\n==> /proc/net/dev <==\ntext of the next one\n"
    parts = _HEADER.split(text)
    found: dict[str, tuple[str, ...]] = {}
    for path, content in zip(parts[1::2], parts[2::2], strict=True):
        found[path] = (*found.get(path, ()), content.rstrip("\n"))
    return found
