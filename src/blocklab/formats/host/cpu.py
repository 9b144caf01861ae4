"""How the CPUs of a host spent their time, as the tools of sysstat and procps print it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from blocklab.formats.host.columns import Columns
from blocklab.model.watched import Values

CPU = "cpu"
"""The layer of a host's CPUs together."""
# What each of ours is made of, by the names of sar -u, -u ALL, iostat, sadf -j and vmstat.
_SUMS: Mapping[str, tuple[str, ...]] = {
    "cpu.user": ("%user", "%usr", "%nice", "%guest", "%gnice", "us", "gu"),
    "cpu.system": ("%system", "%sys", "%irq", "sy"),
    "cpu.softirq": ("%soft",),
    "cpu.iowait": ("%iowait", "wa"),
    "cpu.steal": ("%steal", "st"),
    "cpu.idle": ("%idle", "id"),
}
# Seven of them rounded to whole numbers.
_ROUNDING = 3.5


def shares_of(row: Columns) -> Iterator[tuple[str, Values, str]]:
    """Metric, values and unit of some rows, as the probe ``cpu`` has them: nice programs are programs, hard
    interrupts are the kernel's."""
    for metric, names in _SUMS.items():
        there = [row[name] for name in names if name in row]
        if there:
            yield metric, np.round(np.sum(there, axis=0), 2), "%"


def is_known(names: Iterable[str]) -> bool:
    """Whether all of these are shares that are known: without one the others do not tell of all the time."""
    return set(names) <= {name for known in _SUMS.values() for name in known}


def is_whole(values: Iterable[float]) -> bool:
    """Whether shares come to 100 %: else a digit is lost or too many."""
    return abs(sum(values) - 100.0) <= _ROUNDING
