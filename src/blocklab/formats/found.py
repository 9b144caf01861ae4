"""What one foreign file held: one typed table for whatever tool printed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from blocklab.formats.clock import Clock
from blocklab.formats.text import Bad, Text
from blocklab.model.sample import Latencies, Phase, Sample, Transaction

# To import numpy takes time that commands without series do not have.
if TYPE_CHECKING:
    from blocklab.model.watched import Watched

MOST_BAD = 8
"""So many of the rows that are left out are kept."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of what watched a host (iostat, sar): means over intervals, as columns, one ``Watched`` a layer.

    The ``times`` of ``watched`` are places in ``clock``, the ends of the intervals; without a clock they are
    seconds since the epoch. ``seconds`` (by place) are the lengths of the intervals, where the tool tells them;
    ``before`` (by place) is the place at which an interval began, None for a place without an interval, where the
    tool tells that. Without either, the steps between the times are all that is known of lengths.
    """

    watched: tuple[Watched, ...]
    clock: Clock | None = None
    host: str = ""
    output: int = 1
    """Which of several outputs it is of that were put into one file, from 1."""
    seconds: tuple[float, ...] = ()
    before: tuple[int | None, ...] = ()
    untimed: bool = False
    """Whether its times are made up, since it has none that are known: they tell nothing but the order."""
    since_boot: bool = False
    """Whether its one report may be an average since the boot: nothing tells."""
    discards: bool = False
    """Whether ``iops`` count discards (TRIM) too."""


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """Cumulative counters at one moment, by the source's own names; ``units`` are by the same ones.

    ``time`` is a place in the file's clock, None where it tells none. ``uptime`` (s) is that of the server or host
    that counts. ``device`` is the block device, empty for a server's counters. ``line``: where it begins, from 1.
    ``rates`` are the source's own means over its last ``window`` seconds.
    """

    counters: Mapping[str, float]
    units: Mapping[str, str] = {}
    time: int | None = None
    uptime: float | None = None
    device: str = ""
    product: str = ""
    line: int = 0
    window: float = 0.0
    rates: Mapping[str, float] = {}


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A report over a stretch of time: means, and what was counted meanwhile.

    ``start`` and ``end`` are places in the file's clock, None where it tells none; ``seconds`` is how long it was.
    ``sections``: numbers by section, row and column, with ``units`` by column. ``names``: whose it is, by
    ``database``, ``instance``, ``host``, ``container``, each empty where it tells none. It begins in ``line``, its
    times in line ``head``. ``complete``: its end is there. ``wrong``: why it cannot be used.
    """

    line: int
    start: int | None = None
    end: int | None = None
    seconds: float = 0.0
    sections: Mapping[str, Mapping[str, Mapping[str, float]]] = {}
    units: Mapping[str, str] = {}
    names: Mapping[str, str] = {}
    head: int = 0
    complete: bool = True
    remarks: tuple[str, ...] = ()
    wrong: str = ""


class Points(msgspec.Struct, kw_only=True):
    """The data points of one metric of a monitoring service: ``values`` by the place of the start of their period.

    ``summed``: whether a value is the sum of its period; else it is a rate, or a latency. ``statistic`` is
    ``sum``, ``average`` (with the ``counts`` of samples where those are known), ``maximum`` or empty for unknown;
    ``period`` in s. ``device`` and ``system`` are what its labels name.
    """

    metric: str
    unit: str
    summed: bool
    values: dict[int, float]
    statistic: str = ""
    device: str = ""
    system: str = ""
    period: float | None = None
    counts: dict[int, float] = {}
    line: int = 0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is what it was taken for. ``rows``: how many rows of it were good; ``bad``: how many were left out;
    ``bad_rows`` has the first few of those.

    ``host`` is empty where the file does not name one; its samples then have none either. ``clock`` has the times
    as the file writes them: the ``time`` of a sample, a phase or a dump is a place in it until it is known what
    they mean. Without a clock, times are seconds since the epoch. ``tool`` is the workload that printed it; empty
    for what watched one, which has its series in ``tables``, and for counters and
    reports of a server or a service, which are in ``dumps``, ``periods`` and ``points``.
    """

    kind: str
    path: Path
    rows: int
    tool: str = ""
    host: str = ""
    bad: int = 0
    bad_rows: tuple[Bad, ...] = ()
    samples: tuple[Sample, ...] = ()
    tables: tuple[Table, ...] = ()
    dumps: tuple[Dump, ...] = ()
    periods: tuple[Period, ...] = ()
    points: tuple[Points, ...] = ()
    phases: tuple[Phase, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    latencies: Latencies | None = None
    start: float | None = None
    end: float | None = None
    clock: Clock | None = None
    undated: str = ""
    """Of a load tool's times that count from its start: what is to be said if nothing tells when that was."""
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
    reason: str = ""
    """Of reports: what the tool itself says of why there is none; more may be there all the same."""
    settings: Mapping[str, str] = {}
    """Of a server's counters: the variables that are shown beside them."""
    remarks: tuple[str, ...] = ()

    @property
    def first_bad(self) -> Bad | None:
        """The first row that was left out."""
        return self.bad_rows[0] if self.bad_rows else None

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The series of all its tables."""
        return tuple(series for table in self.tables for series in table.watched)

    @property
    def untimed(self) -> bool:
        """Whether the times of its tables are made up."""
        return any(table.untimed for table in self.tables)

    def of_series(self, change: Callable[[Watched], Watched], **more: Any) -> Found:
        """The same with each series of its tables changed. ``more``: further fields of the tables."""
        tables = tuple(
            msgspec.structs.replace(table, watched=tuple(map(change, table.watched)), **more)
            for table in self.tables
        )
        return msgspec.structs.replace(self, tables=tables)


def found_in(
    text: Text, kind: str, *, bad: Sequence[Bad], remarks: Sequence[str] = (), cut_read: bool = False, **more: Any
) -> Found:
    """What a text held. A last line that was cut is one of the ``bad`` ones, unless the reader saw it with the
    others (``cut_read``). ``more``: further fields."""
    last = len(text.lines) + 1
    if not text.cut.strip():
        rows = list(bad)
    elif cut_read:
        # It may have nothing wrong but that it has no end.
        rows = [msgspec.structs.replace(row, cut=row.cut or row.line == last) for row in bad]
    else:
        rows = [*bad, Bad(last, text.cut, True)]
    return Found(
        kind=kind, path=text.path, bad=len(rows), bad_rows=tuple(rows[:MOST_BAD]),
        remarks=(*text.remarks, *remarks), **more,
    )  # fmt: skip
