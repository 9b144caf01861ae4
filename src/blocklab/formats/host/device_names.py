"""The names of block devices, as the kernel has them."""

from __future__ import annotations

import functools
import re

# dev8-16   dev259-0   (sar -d without -p)
NUMBERED = re.compile(r"dev(\d{1,4})-(\d{1,10})")
"""A device by its major and minor."""
# Majors that are the same on every kernel, with the minors of one disk:
# https://docs.kernel.org/admin-guide/devices.html. 252 to 254 and 259 are given out as drivers load.
_MAJORS = {
    **dict.fromkeys((8, *range(65, 72), *range(128, 136)), ("sd", 16)), 202: ("xvd", 16), 94: ("dasd", 4),
    3: ("hd", 64), 98: ("ubd", 16), 179: ("mmcblk", 8),
}  # fmt: skip
_EXTENDED = 1 << 28
_PLAIN_MAJORS = {1: "ram", 2: "fd", 7: "loop", 9: "md", 11: "sr", 147: "drbd"}


@functools.lru_cache(4096)
def named(device: str) -> str:
    """A device's name as the kernel has it: ``sdb`` for sar's ``dev8-16``. Others stay as they are."""
    device = device.removeprefix("/dev/")
    match = NUMBERED.fullmatch(device)
    if match is None:
        return device
    major, minor = int(match[1]), int(match[2])
    if major in _PLAIN_MAJORS:
        return f"{_PLAIN_MAJORS[major]}{minor}"
    if major not in _MAJORS:
        return device
    kind, each = _MAJORS[major]
    return _numbered(kind, major, minor, each)


def _numbered(kind: str, major: int, minor: int, each: int) -> str:
    disk, part = divmod(minor, each)
    if kind == "sd":
        # 8 has the disks 0 to 15, 65 to 71 those to 127, 128 to 135 those to 255; the next 256 have the same
        # majors with minors from 256 on, and so forth.
        row = 0 if major == 8 else major - 64 if major < 128 else major - 120
        disk = 256 * (disk // 16) + 16 * row + disk % 16
    if kind == "xvd" and minor >= _EXTENDED:
        # Disks from the 17th on have 256 minors each.
        disk, part = divmod(minor - _EXTENDED, 256)
    if kind == "mmcblk":
        return f"mmcblk{disk}" + (f"p{part}" if part else "")
    letters = ""
    disk += 1
    while disk:
        disk, letter = divmod(disk - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return f"{kind}{letters}" + (str(part) if part else "")
