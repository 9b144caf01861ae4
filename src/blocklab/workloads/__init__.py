"""Workloads: commands that put work on a stack, and the parsers of what they print."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.workloads.commit import Commit
from blocklab.workloads.dd import Dd
from blocklab.workloads.fio import Fio
from blocklab.workloads.imported import ImportedWorkload
from blocklab.workloads.ledger import Ledger
from blocklab.workloads.open_loop import OpenLoop
from blocklab.workloads.pgbench import Pgbench
from blocklab.workloads.sysbench import Sysbench
from blocklab.workloads.tpcc import Tpcc

AnyWorkload: TypeAlias = Fio | Pgbench | Tpcc | Sysbench | Dd | Commit | Ledger | OpenLoop | ImportedWorkload

__all__ = [
    "AnyWorkload", "Commit", "Dd", "Fio", "ImportedWorkload", "Ledger", "OpenLoop", "Pgbench", "Sysbench", "Tpcc",
]  # fmt: skip
