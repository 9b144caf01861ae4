"""How the CPUs of a host spent their time, as the tools of sysstat and procps print it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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


def shares(row: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """Metric, value and unit of a row, as the probe ``cpu`` has them: nice programs are programs, hard interrupts
    are the kernel's."""
    for metric, names in _SUMS.items():
        there = [row[name] for name in names if name in row]
        if there:
            yield metric, round(sum(there), 2), "%"


def is_known(names: Iterable[str]) -> bool:
    """Whether all of these are shares that are known: without one the others do not tell of all the time."""
    return set(names) <= {name for known in _SUMS.values() for name in known}


def is_whole(values: Iterable[float]) -> bool:
    """Whether shares come to 100 %: else a digit is lost or too many."""
    return abs(sum(values) - 100.0) <= _ROUNDING
