"""What one foreign file held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from blocklab.imports.clock import Clock
from blocklab.imports.text import Bad
from blocklab.model.sample import Latencies, Phase, Sample, Transaction


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is what it was taken for, ``rows`` how many rows of it were good, ``first_bad`` the first other.

    ``host`` is empty where the file does not name one; its samples then have none either. ``clock`` has the times
    as the file writes them: the ``time`` of a sample is a place in it until it is known what they mean. Without a
    clock, times are seconds since the epoch. ``tool`` is the workload that printed it; empty for what watched one.
    """

    kind: str
    path: Path
    rows: int
    tool: str = ""
    host: str = ""
    bad: int = 0
    first_bad: Bad | None = None
    samples: tuple[Sample, ...] = ()
    phases: tuple[Phase, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    latencies: Latencies | None = None
    start: float | None = None
    end: float | None = None
    clock: Clock | None = None
    untimed: bool = False
    """Whether its times are made up, since it has none that are known: they tell nothing but the order."""
    order: int = 0
    """Of fio's logs: the number of the job, from 1 on; 0 where the name has none. Each clone has its own."""
    clients: frozenset[int] = frozenset()
    """Of pgbench's log: the clients that it has transactions of."""
    jobs: tuple[str, ...] = ()
    """Of fio's JSON: the job's name to each number."""
    shapes: Mapping[str, Mapping[str, str]] = {}
    """Of fio's JSON: by the job's name the options by which jobs are laid out."""
    either: str = ""
    """Of fio's latency logs: why their unit is not known, unless a JSON of fio 3 is beside them."""
    remarks: tuple[str, ...] = ()
