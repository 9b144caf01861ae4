"""What one foreign file held, and how what a tool printed without times becomes that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from blocklab.formats.clock import Clock
from blocklab.formats.text import Bad, Text
from blocklab.model.sample import Latencies, Phase, Sample, Transaction
from blocklab.model.watched import Watched


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is what it was taken for, ``rows`` how many rows of it were good, ``first_bad`` the first other.

    ``host`` is empty where the file does not name one; its samples then have none either. ``clock`` has the times
    as the file writes them: the ``time`` of a sample is a place in it until it is known what they mean. Without a
    clock, times are seconds since the epoch. ``tool`` is the workload that printed it; empty for what watched one,
    which has its series in ``watched``.
    """

    kind: str
    path: Path
    rows: int
    tool: str = ""
    host: str = ""
    bad: int = 0
    first_bad: Bad | None = None
    samples: tuple[Sample, ...] = ()
    watched: tuple[Watched, ...] = ()
    phases: tuple[Phase, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    latencies: Latencies | None = None
    start: float | None = None
    end: float | None = None
    clock: Clock | None = None
    untimed: bool = False
    """Whether its times are made up, since it has none that are known: they tell nothing but the order."""
    since_boot: bool = False
    """Whether its one report may be an average since the boot: nothing tells."""
    joined: str = ""
    """Of what watched a workload: the one that it was joined to, where its times do not tell."""
    order: int = 0
    """Of fio's logs: the number of the job, from 1 on; 0 where the name has none. Each clone has its own."""
    clients: frozenset[int] = frozenset()
    """Of pgbench's log: the clients that it has transactions of."""
    jobs: tuple[str, ...] = ()
    """Of fio's reports: the job's name to each number."""
    shapes: Mapping[str, Mapping[str, str]] = {}
    """Of fio's reports: by the job's name the options by which jobs are laid out."""
    options: Mapping[str, Mapping[str, str]] = {}
    """Of fio's reports: all options of each job, where they are known."""
    partly: bool = False
    """Of fio's reports: whether jobs may have options that it does not tell."""
    major: int = 0
    """Of fio's reports: the version of fio, 2 or 3."""
    either: str = ""
    """Of fio's latency logs: why their unit is not known, unless a JSON of fio 3 is beside them."""
    remarks: tuple[str, ...] = ()


def found_in(text: Text, kind: str, *, bad: Sequence[Bad], remarks: Sequence[str] = (), **more: Any) -> Found:
    """What a text held: a last line that was cut is one of the ``bad`` ones. ``more``: further fields."""
    if text.cut.strip():
        bad = [*bad, Bad(len(text.lines) + 1, text.cut, True)]
    return Found(
        kind=kind, path=text.path, bad=len(bad), first_bad=bad[0] if bad else None,
        remarks=(*text.remarks, *remarks), **more,
    )  # fmt: skip


def in_columns(found: Found) -> Found:
    """The same; of what watched a workload the series are columns, however it was read."""
    if found.tool or not found.samples:
        return found
    series: dict[tuple[str, str], dict[str, tuple[str, dict[float, float]]]] = {}
    for each in found.samples:
        if each.time is not None:
            mine = series.setdefault((each.host, each.layer), {}).setdefault(each.metric, (each.unit, {}))
            mine[1].setdefault(each.time, each.value)
    watched = []
    for (host, layer), metrics in series.items():
        times = sorted({time for _, points in metrics.values() for time in points})
        values = {
            metric: np.array([points.get(time, np.nan) for time in times], dtype=float)
            for metric, (_, points) in metrics.items()
        }
        units = {metric: unit for metric, (unit, _) in metrics.items()}
        watched.append(Watched(layer, host, np.array(times, dtype=float), values, units))
    return msgspec.structs.replace(found, samples=(), watched=tuple(watched))
