"""Long logs with a line for each I/O or transaction, as figures and a course in steps of a second.

``fio_log`` and ``pgbench_log`` read any number of files as one log, in blocks: what they need in memory does not
depend on how many lines there are, only on how many seconds the log covers.
"""

from __future__ import annotations

from blocklab.workloads.logs.fio import fio_log
from blocklab.workloads.logs.pgbench import pgbench_log
from blocklab.workloads.logs.summary import RELATIVE_ERROR, BadLine, Latency, LogSummary, Second

__all__ = ["RELATIVE_ERROR", "BadLine", "Latency", "LogSummary", "Second", "fio_log", "pgbench_log"]
