"""pg_test_fsync: how often each way of a sync was done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

TOOL = "pg_test_fsync"
# Compare file sync methods using one 8kB write:
# Compare file sync methods using two 8kB writes:
# Compare open_sync with different write sizes:
# Non-sync'ed 8kB writes:
_SECTIONS = {
    "Compare file sync methods using one 8kB write:": "",
    "Compare file sync methods using two 8kB writes:": "-2x8k",
}
_UNSYNCED = "Non-sync'ed 8kB writes:"
#         open_datasync                      7643.743 ops/sec     131 usecs/op
#         fsync_writethrough                              n/a
#         open_datasync                                   n/a*                 (a file system without O_DIRECT)
_METHOD = re.compile(r"^ +(\w+) +(?:(\d+\.\d+) ops/sec +\d+ usecs/op|(n/a\*?))$")


def rates(lines: Iterable[tuple[float, str]]) -> Iterator[tuple[str, float, float]]:
    """(phase, operations a second, when it ended in seconds since the epoch), by its lines with their times."""
    suffix: str | None = None
    unsynced = False
    for time, line in lines:
        if line and not line.startswith((" ", "(")):
            suffix, unsynced = _SECTIONS.get(line), line == _UNSYNCED
        elif suffix is None and not unsynced:
            continue
        elif (match := _METHOD.match(line)) and match[2]:
            yield "unsynced" if unsynced else f"{match[1]}{suffix}", float(match[2]), time
