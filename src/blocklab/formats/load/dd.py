"""dd: what it copied, and how long that took."""

from __future__ import annotations

import re

# 104857600 bytes (105 MB, 100 MiB) copied, 0.0623 s, 1.7 GB/s
# 512 bytes copied, 6.5e-05 s, 7.9 MB/s
_COPIED = re.compile(r"^(\d+) bytes (?:\(.*\) )?copied, (\d+(?:\.\d+)?(?:e[+-]?\d+)?) s, ", re.MULTILINE)


def copied(err: str) -> tuple[int, float] | None:
    """Bytes and seconds; None without the line that tells them."""
    match = _COPIED.search(err)
    return (int(match[1]), float(match[2])) if match else None
