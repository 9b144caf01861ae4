"""fio's latency log with a line for each I/O (``write_lat_log`` without ``log_avg_msec``).
https://fio.readthedocs.io/en/latest/fio_doc.html#log-file-formats"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from blocklab.formats.load.fio.report import DIRECTIONS
from blocklab.formats.load.logs.columns import Lines
from blocklab.formats.load.logs.reader import Reader
from blocklab.formats.load.logs.summary import LogSummary
from blocklab.formats.load.logs.tally import Tally

_NANOSECONDS = 1e9

# 123, 456789, 1, 4096                                  time (ms), latency (ns), direction, block size: fio 2
# 123, 456789, 1, 4096, 0                               with the priority: fio 3
# 123, 456789, 1, 4096, 16384, 0                        with the offset (log_offset)
# 1795232906580, 456789, 0, 4096, 16384, 0x4001         log_unix_epoch; priority in full (log_prio)
# 123, 456789, 1, 4096, 16384, 0, 122871                issue time (log_issue_time)
_ROW = re.compile(rb"(\d{1,18}), (\d{1,18}), ([012])(?:, (?:\d+|0x[0-9a-f]+)){1,4}")


class _Fio(Reader):
    """The rows add up in ``tallies``, one for each direction."""

    tool = "fio"
    between = b", "
    row = _ROW
    fields = 3

    def __init__(self) -> None:
        super().__init__()
        self.tallies = {name: Tally() for name in DIRECTIONS}

    def plain(self, match: re.Match[bytes]) -> bytes:
        """Time, latency, direction."""
        return b"%b, %b, %b\n" % match.groups()

    def take(self, lines: Lines) -> bool:
        """By direction and second of the log's clock."""
        if lines.widths(2).max() > 1:
            return False
        times, values, ways = lines.numbers(0), lines.numbers(1), lines.numbers(2)
        if times is None or values is None or ways is None or ways.max() >= len(DIRECTIONS):
            return False
        times //= 1000
        for way, tally in enumerate(self.tallies.values()):
            mine = np.flatnonzero(ways == way)
            tally.add(times[mine], values[mine])
        return True


def fio_log(paths: Iterable[str | Path]) -> LogSummary:
    """The values of a latency log, of all its files (one for each clone of a job), by direction.

    The lines of a file have as many fields as most of its first 1000 rows; one with fewer was cut. The last line
    needs its newline. A decimal comma makes a line bad, since fields are apart by a comma *and* a space. Raises
    ``ParseError`` for a file that cannot be read.
    """
    log = _Fio()
    log.read(paths)
    found = {name: tally.latency(_NANOSECONDS) for name, tally in log.tallies.items()}
    return LogSummary(
        {name: latency for name, latency in found.items() if latency is not None},
        dict(log.left_out), log.bad, log.first_bad, tuple(log.remarks),
    )  # fmt: skip
