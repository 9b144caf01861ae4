"""Long logs with a line for each I/O or transaction, as values and a time series in steps of a second.

``fio_log`` and ``pgbench_log`` read any number of files as one log, in blocks: what they need in memory does not
depend on how many lines there are, only on how many seconds the log covers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from blocklab.workloads.logs.summary import (
    RELATIVE_ERROR,
    BadLine,
    Latency,
    LogSummary,
    Numbered,
    Second,
    every_second,
)

if TYPE_CHECKING:
    from blocklab.workloads.logs.fio import fio_log
    from blocklab.workloads.logs.pgbench import pgbench_log

__all__ = [
    "RELATIVE_ERROR", "BadLine", "Latency", "LogSummary", "Numbered", "Second", "every_second", "fio_log",
    "pgbench_log",
]  # fmt: skip

_MODULES = {"fio_log": "fio", "pgbench_log": "pgbench"}


def __getattr__(name: str) -> Any:
    # To import numpy takes a third of a second, which a command that reads no log should not have to wait for.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
