"""Takes all room of a file system with one file: reserves blocks in halving steps, down to the last one.

Reserving blocks takes milliseconds where writing them would take as long as the volume is big.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """``fill.py FILE``."""
    path = argv[1]
    with open(path, "wb") as file:
        block = os.statvfs(path).f_frsize
        size, step = 0, 1 << 40
        while step >= block:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EFBIG):
                    sys.exit(f"{path}: {error.strerror}")
                step //= 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
