"""Prints what single requests of 4 KiB to a block device take, in microseconds, a line each.

latency.py DEVICE read|write COUNT

One after the other, past the page cache, spread over the device. A write puts back what was read there, and only
where nothing else has the device open; so nothing changes.
"""

from __future__ import annotations

import mmap
import os
import sys
import time

SIZE = 4096
# The first ones also pay for what is cold.
WARM = 3
# Further apart no driver puts requests together.
MOST_SPAN = 64 << 20


def main(argv: list[str]) -> int:
    """See above."""
    device, way, count = argv[1], argv[2], int(argv[3])
    writes = way == "write"
    file = os.open(device, os.O_DIRECT | (os.O_RDWR | os.O_EXCL if writes else os.O_RDONLY))
    span = min(os.lseek(file, 0, os.SEEK_END), MOST_SPAN)
    step = max(1, span // SIZE // (count + WARM)) * SIZE
    # Direct I/O wants memory on a page's border.
    page = mmap.mmap(-1, SIZE)
    times = []
    for number in range(count + WARM):
        at = number * step % (span - SIZE + 1)
        if writes:
            os.preadv(file, [page], at)
        began = time.perf_counter()
        done = os.pwritev(file, [page], at) if writes else os.preadv(file, [page], at)
        times.append(time.perf_counter() - began)
        if done != SIZE:
            sys.exit(f"{device}: {done} of {SIZE} bytes at {at}")
    print("\n".join(f"{1e6 * each:.1f}" for each in times[WARM:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
