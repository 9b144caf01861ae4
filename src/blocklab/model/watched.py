"""What watched a host, kept as columns: a week of twenty disks is a million rows, and an object for each point
would take gigabytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]


class Watched(msgspec.Struct, frozen=True):
    """One layer of a host (a device, all disks, the CPUs). ``times[i]`` is a place in the file's clock until it is
    known what that means, then seconds since the epoch; times rise. ``values`` are by metric, NaN where a report
    tells none, ``units`` their units; ``phase`` is that of a workload, empty for what watched one."""

    layer: str
    host: str
    times: Values
    values: Mapping[str, Values]
    units: Mapping[str, str]
    phase: str = ""

    def points(self, metric: str) -> tuple[Values, Values]:
        """The times and values of a metric, where it has one."""
        values = self.values.get(metric)
        if values is None:
            return np.empty(0), np.empty(0)
        there = ~np.isnan(values)
        return self.times[there], values[there]

    def total(self, metric: str) -> float:
        """The sum of a metric over all reports."""
        values = self.values.get(metric)
        return float(np.nansum(values)) if values is not None else 0.0

    def at(self, mask: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Watched:
        """Only some of the reports."""
        values = {metric: each[mask] for metric, each in self.values.items()}
        return msgspec.structs.replace(self, times=self.times[mask], values=values)

    def dated(self, times: Values) -> Watched:
        """``times`` by place, NaN for those that are not known: without the reports that have none, in order."""
        known = times[self.times.astype(np.intp)]
        there = ~np.isnan(known)
        found = msgspec.structs.replace(self if there.all() else self.at(there), times=known[there])
        if (np.diff(found.times) > 0).all():
            return found
        # Of two reports of one time the first counts.
        return found.at(np.unique(found.times, return_index=True)[1])

    def between(self, low: float, high: float) -> Watched:
        """The reports from one time to another."""
        first, last = np.searchsorted(self.times, low, "left"), np.searchsorted(self.times, high, "right")
        return self.at(slice(int(first), int(last)))

    def moved(self, by: float) -> Watched:
        """So many seconds later."""
        return msgspec.structs.replace(self, times=self.times + by)


def together(several: Sequence[Watched]) -> Watched:
    """What several files tell of one layer; of two values of one time the later file's counts."""
    if len(several) == 1:
        return several[0]
    times = np.unique(np.concatenate([each.times for each in several]))
    values: dict[str, Values] = {}
    units: dict[str, str] = {}
    for each in several:
        units |= each.units
        at = np.searchsorted(times, each.times)
        for metric, mine in each.values.items():
            whole = values.setdefault(metric, np.full(len(times), np.nan))
            whole[at] = np.where(np.isnan(mine), whole[at], mine)
    return msgspec.structs.replace(several[0], times=times, values=values, units=units)
