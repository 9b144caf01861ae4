"""Prints the SHA-256 of a part of a block device, read past the page cache.

checksum.py DEVICE block NAME    from its beginning, as many bytes as the block device NAME has
checksum.py DEVICE md            the data area of a member of an MD array, by its superblock
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Sequence

CHUNK = 1 << 20


def area(device: str, how: str, *name: str) -> tuple[int, int]:
    """Where the data begin and how many bytes they are."""
    if how == "block":
        with open(f"/sys/class/block/{name[0]}/size") as file:
            return 0, int(file.read()) * 512
    text = subprocess.run(["mdadm", "--examine", device], capture_output=True, text=True, check=True).stdout
    #     Array Size : 63488 KiB (62.00 MiB 65.01 MB)
    #    Data Offset : 4096 sectors
    size = re.search(r"^ *Array Size : (\d+)", text, re.MULTILINE)
    offset = re.search(r"^ *Data Offset : (\d+) sectors", text, re.MULTILINE)
    if size is None or offset is None:
        sys.exit(f"{device}: mdadm does not say where its data are")
    return int(offset[1]) * 512, int(size[1]) * 1024


def main(argv: Sequence[str]) -> int:
    """See above; our end with the reason where it cannot be read."""
    device, *how = argv[1:]
    at, left = area(device, *how)
    if not left:
        sys.exit(f"{device}: there are no data to compare")
    digest = hashlib.sha256()
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    # A server of the device may have written to memory only.
    os.fsync(file)
    memory = mmap.mmap(-1, CHUNK)
    while left:
        part = memoryview(memory)[: min(CHUNK, left)]
        got = os.preadv(file, [part], at)
        if not got:
            sys.exit(f"{device} ends at {at}, {left} bytes too early")
        digest.update(part[:got])
        at += got
        left -= got
    print(digest.hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
