"""The numbers that blocklab gives to what it makes on a host: minors of devices, and TCP ports. One table for all.

A stack has a number on its host (``Place.number``), and from it each layer has its own here. Stacks that stand
together have numbers near each other, and there are no two ranges of a kind from which they would get the same;
``tests/unit/test_numbers.py`` holds the table to that.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

TOGETHER = 100
"""How many stacks stand together at most."""
MOST = 1000 + TOGETHER
"""A stack's number is less: on given hosts they count from ``first``, which is 1000 at most."""


class Range(NamedTuple):
    """Numbers of a kind. Each stack has ``each`` of them, from ``first`` on."""

    kind: Literal["drbd", "md", "nbd", "dm", "tcp"]
    """What must not be there twice: the kernel's name of a device before its number, or a port."""
    first: int
    each: int = 1

    def of(self, number: int, index: int = 0) -> int:
        """A stack's ``index``-th one."""
        if not 0 <= index < self.each:
            raise ValueError(f"a stack has {self.each} of these numbers, and no one at {index}")
        return self.first + self.each * number + index

    def name(self, number: int, index: int = 0) -> str:
        """The kernel's name of the device with that number."""
        return f"{self.kind}{'-' if self.kind == 'dm' else ''}{self.of(number, index)}"

    def path(self, number: int, index: int = 0) -> str:
        """The device itself. A mapping has the kernel's name too, so that iostat, /proc/diskstats, /sys and
        /proc/mounts all speak of the same device."""
        return f"/dev/{'mapper/' if self.kind == 'dm' else ''}{self.name(number, index)}"

    def has(self, number: int) -> bool:
        """Whether a number is one of these."""
        return self.first <= number < self.of(MOST)


DRBD = Range("drbd", 0)
STRIPE = Range("md", 0)
NET_MIRROR = Range("md", 300)
NET_LEG = Range("nbd", 0)

# The kernel gives the lowest free minors to mappings that ask for none, such as the holds of ``shared``, which a
# takeover leaves where they are, and cryptsetup's. So ours begin far above.
LVM = Range("dm", 500)
# Of the disks of given hosts, by the disk's number.
DISK = Range("dm", 600)
# A stack has up to eight volumes.
FRAGILE = Range("dm", 1000, 8)
CRYPT = Range("dm", 10_000, 8)

MYSQL_PORT = Range("tcp", 3306)
POSTGRES_PORT = Range("tcp", 5432)
DRBD_PORT = Range("tcp", 7000)
NBD_PORT = Range("tcp", 10_809)
"""NBD's registered port, and up."""

RANGES = tuple(value for value in list(globals().values()) if isinstance(value, Range))
