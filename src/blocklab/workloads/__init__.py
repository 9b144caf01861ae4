"""Loads: commands that put work on a stack, and the parsers of what they print."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.workloads.fio import Fio
from blocklab.workloads.pgbench import Pgbench

AnyWorkload: TypeAlias = Fio | Pgbench

__all__ = ["AnyWorkload", "Fio", "Pgbench"]
