"""fio's latency log with a line for each I/O (``write_lat_log`` without ``log_avg_msec``).
https://fio.readthedocs.io/en/latest/fio_doc.html#log-file-formats"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from blocklab.workloads.fio_output import DIRECTIONS
from blocklab.workloads.logs.columns import Lines
from blocklab.workloads.logs.reader import Reader
from blocklab.workloads.logs.summary import LogSummary
from blocklab.workloads.logs.tally import Tally

_NANOSECONDS = 1e9

# 123, 456789, 1, 4096                                  time (ms), latency (ns), direction, block size: fio 2
# 123, 456789, 1, 4096, 0                               with the priority: fio 3
# 123, 456789, 1, 4096, 16384, 0                        with the offset (log_offset)
# 1795232906580, 456789, 0, 4096, 16384, 0x4001         log_unix_epoch; priority in full (log_prio)
# 123, 456789, 1, 4096, 16384, 0, 122871                issue time (log_issue_time)
_ROW = re.compile(rb"(\d{1,18}), (\d{1,18}), ([012])(?:, (?:\d+|0x[0-9a-f]+)){1,4}")


class _Fio:
    """The rules; the rows add up in ``tally``, a lane for each direction."""

    tool = "fio"
    between = b", "
    row = _ROW
    fields = 3

    def __init__(self) -> None:
        self.tally = Tally(len(DIRECTIONS))

    def plain(self, match: re.Match[bytes]) -> bytes:
        """Time, latency, direction."""
        return b"%b, %b, %b\n" % match.groups()

    def without(self, match: re.Match[bytes]) -> str:
        """Every row has a latency."""
        return ""

    def take(self, lines: Lines) -> bool:
        """By direction and second of the log's clock."""
        ways = lines.digits(2)
        if ways is None or ways.max() >= len(DIRECTIONS):
            return False
        times, values = lines.numbers(0), lines.numbers(1)
        if times is None or values is None:
            return False
        times //= 1000
        self.tally.add(times, values, ways)
        return True


def fio_log(paths: Iterable[str | Path]) -> LogSummary:
    """The values of a latency log, of all its files (one for each clone of a job), by direction.

    The lines of a file have as many fields as most of its first 1000 rows; one with fewer was cut. The last line
    needs its newline. A decimal comma makes a line bad, since fields are apart by a comma *and* a space. Raises
    ``ParseError`` for a file that cannot be read.
    """
    rules = _Fio()
    reader = Reader(rules)
    reader.read(paths)
    found = {name: rules.tally.latency(lane, _NANOSECONDS) for lane, name in enumerate(DIRECTIONS)}
    return LogSummary(
        {name: latency for name, latency in found.items() if latency is not None},
        dict(reader.left_out), reader.bad, reader.first_bad, tuple(reader.remarks),
    )  # fmt: skip
