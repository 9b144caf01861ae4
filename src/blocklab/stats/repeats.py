"""The repeats of a study as one table: means over the repeats, ratios taken within each repeat."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from blocklab.judge.series import t975
from blocklab.model.stop import SYSTEMATIC
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row

Key: TypeAlias = tuple[str, ...]


def _key(row: Row) -> Key:
    """What the repeats' rows of one value have in common."""
    return (row.stack, row.workload, row.phase, row.metric, row.unit, row.layer, row.host, str(row.own))


class Repeats:
    """The values of each repeat, for ratios that are taken within a repeat: what its machine had in common cancels
    out. ``tables`` as ``combined`` takes them."""

    def __init__(self, tables: Sequence[Sequence[Row]] = ()) -> None:
        # With one repeat there is nothing to pair.
        several = tables if len(tables) > 1 else ()
        self._values = [{_key(row): row.value for row in table} for table in several]

    def share(self, of: Sequence[Row], to: Sequence[Row]) -> Estimate | None:
        """The sum of some rows' values relative to that of others, over the repeats that have all of them.

        None where fewer than two repeats do, or their ratio has no meaning: the values of all repeats together
        have to do then."""
        pairs = [(self._sum(repeat, of), self._sum(repeat, to)) for repeat in self._values]
        found = [mine / base for mine, base in pairs if mine is not None and base]
        return paired(found) if len(found) > 1 else None

    def times(self, of: Row, to: Row, against: Row, against_to: Row) -> Estimate | None:
        """One share relative to another one, in the same way."""
        found = []
        for repeat in self._values:
            values = [repeat.get(_key(row)) for row in (of, to, against, against_to)]
            if all(values):
                mine, base, other, other_base = (value for value in values if value is not None)
                found.append((mine / base) / (other / other_base))
        return paired(found) if len(found) > 1 else None

    @staticmethod
    def _sum(repeat: Mapping[Key, float], rows: Sequence[Row]) -> float | None:
        values = [repeat.get(_key(row)) for row in rows]
        return None if None in values else sum(value for value in values if value is not None)


def combined(repeats: Sequence[Sequence[Row]], baselines: Collection[str] = ()) -> tuple[Row, ...]:
    """One row for each value that any repeat has, in the order in which they first come.

    Of several repeats the value is their mean with Student's interval over the repeats, each of which stood on a
    layout of its own; the ratio to the baseline is the geometric mean of the repeats' ratios with the interval of
    their logarithms, so that what a repeat's machine had in common cancels out. A value or a ratio that one repeat
    has keeps what that repeat says. ``baselines``: the stacks whose ratios are to themselves, and have no
    interval.
    """
    if len(repeats) == 1:
        return tuple(repeats[0])
    found: dict[Key, list[Row]] = {}
    for repeat in repeats:
        for row in repeat:
            found.setdefault(_key(row), []).append(row)
    return tuple(
        rows[0] if len(rows) == 1 else _one(rows, itself=rows[0].stack in baselines) for rows in found.values()
    )


def _one(rows: Sequence[Row], *, itself: bool) -> Row:
    value = interval([row.value for row in rows])
    shares = [row.relative for row in rows if row.relative is not None]
    relative = shares[0] if shares else None
    if relative is not None and itself:
        relative = Estimate(1.0)
    elif len(shares) > 1:
        relative = paired([share.value for share in shares])
    return msgspec.structs.replace(
        rows[0], value=value.value, half=value.half, builds=value.builds, relative=relative
    )


def interval(values: Sequence[float]) -> Estimate:
    """The mean of the values of independent builds with the half width of Student's 95 % interval; of one value
    without any. ``SYSTEMATIC`` is in it, for what all builds have in common."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return Estimate(mean)
    return Estimate(mean, math.hypot(_student(values), SYSTEMATIC * mean), count)


def _student(values: Sequence[float]) -> float:
    return t975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def paired(ratios: Sequence[float]) -> Estimate:
    """The geometric mean of ratios, one from each repeat, with the wider side of its 95 % interval.

    Student's interval of the logarithms; the plain mean where a ratio is not above 0. ``SYSTEMATIC`` is in it, so
    that of repeats that agree to the last digit (counts, percentiles in the same bin) it is not 0.
    """
    if len(ratios) < 2 or min(ratios) <= 0:
        return interval(ratios)
    logs = [math.log(ratio) for ratio in ratios]
    value = math.exp(statistics.fmean(logs))
    # Beyond this a float has no number for it.
    half = min(math.hypot(_student(logs), SYSTEMATIC), 300.0)
    return Estimate(value, value * math.expm1(half), len(ratios))
