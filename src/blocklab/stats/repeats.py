"""The repeats of a study as one table: means over the repeats, ratios taken within each repeat and machine."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from blocklab.model.stop import SYSTEMATIC
from blocklab.stats.pool import pool
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row

Key: TypeAlias = tuple[str, ...]


def key_of(row: Row) -> Key:
    """What the repeats' rows of one value have in common."""
    return (row.stack, row.workload, row.phase, row.metric, row.unit, row.layer, row.host, str(row.own))


class Repeats:
    """The values of each repeat, for ratios that are taken within a repeat: what its machine had in common cancels
    out. ``tables`` and ``machines`` as ``combined`` takes them."""

    def __init__(self, tables: Sequence[Sequence[Row]] = (), machines: Sequence[Hashable] = ()) -> None:
        # With one repeat there is nothing to pair.
        several = tables if len(tables) > 1 else ()
        self._values = [{key_of(row): row.value for row in table} for table in several]
        self._machines = machines or [None] * len(tables)

    def share(self, of: Sequence[Row], to: Sequence[Row]) -> Estimate | None:
        """The sum of some rows' values relative to that of others, over the repeats that have all of them.

        None where fewer than two repeats do, or their ratio has no meaning: the values of all repeats together
        have to do then."""
        return self._paired([(self._sum(repeat, of), self._sum(repeat, to)) for repeat in self._values])

    def times(self, of: Row, to: Row, against: Row, against_to: Row) -> Estimate | None:
        """One share relative to another one, in the same way."""
        found: list[tuple[float | None, float | None]] = []
        for repeat in self._values:
            values = [repeat.get(key_of(row)) for row in (of, to, against, against_to)]
            known = [value for value in values if value]
            found.append((known[0] / known[1], known[2] / known[3]) if len(known) == len(values) else (None, None))
        return self._paired(found)

    def _paired(self, pairs: Sequence[tuple[float | None, float | None]]) -> Estimate | None:
        found = [
            (mine / base, machine)
            for (mine, base), machine in zip(pairs, self._machines, strict=False)
            if mine is not None and base
        ]
        return paired(*zip(*found, strict=True)) if len(found) > 1 else None

    @staticmethod
    def _sum(repeat: Mapping[Key, float], rows: Sequence[Row]) -> float | None:
        values = [repeat.get(key_of(row)) for row in rows]
        return None if None in values else sum(value for value in values if value is not None)


def combined(
    repeats: Sequence[Sequence[Row]], baselines: Collection[str] = (), machines: Sequence[Hashable] = ()
) -> tuple[Row, ...]:
    """One row for each value that any repeat has, in the order in which they first come.

    Of several repeats the value is their mean with Student's interval over the repeats, each of which stood on a
    layout of its own; the ratio to the baseline is the geometric mean of the repeats' ratios with the interval of
    their logarithms, so that what a repeat's machine had in common cancels out. A value or a ratio that one repeat
    has keeps what that repeat says. ``baselines``: the stacks whose ratios are to themselves, and have no
    interval. ``machines``: that of each repeat; of several the interval is over the machines (``stats.pool``).
    """
    if len(repeats) == 1:
        return tuple(repeats[0])
    found: dict[Key, list[tuple[Row, Hashable]]] = {}
    for repeat, machine in zip(repeats, machines or [None] * len(repeats), strict=True):
        for row in repeat:
            found.setdefault(key_of(row), []).append((row, machine))
    return tuple(
        rows[0][0] if len(rows) == 1 else _one(rows, itself=rows[0][0].stack in baselines)
        for rows in found.values()
    )


def _one(rows: Sequence[tuple[Row, Hashable]], *, itself: bool) -> Row:
    value = interval([row.value for row, _ in rows], [machine for _, machine in rows])
    shares = [(row.relative, machine) for row, machine in rows if row.relative is not None]
    relative = shares[0][0] if shares else None
    if relative is not None and itself:
        relative = Estimate(1.0)
    elif len(shares) > 1:
        relative = paired([share.value for share, _ in shares], [machine for _, machine in shares])
    return msgspec.structs.replace(
        rows[0][0], value=value.value, half=value.half, builds=value.builds, machines=value.machines,
        relative=relative,
    )  # fmt: skip


def interval(values: Sequence[float], machines: Sequence[Hashable] = ()) -> Estimate:
    """The mean of the values of independent builds with the half width of its 95 % interval: Student's over the
    builds, of several machines as ``stats.pool`` has it; of one value without any. ``SYSTEMATIC`` is in it, for
    what all builds have in common."""
    found = pool(values, machines)
    half = None if found.half is None else math.hypot(found.half, SYSTEMATIC * found.centre)
    return Estimate(found.centre, half, found.builds, machines=found.machines)


def paired(ratios: Sequence[float], machines: Sequence[Hashable] = ()) -> Estimate:
    """The geometric mean of ratios, one from each repeat, with the wider side of its 95 % interval.

    That of the logarithms, as ``interval`` has it; the plain mean where a ratio is not above 0. ``SYSTEMATIC`` is
    in it, so that of repeats that agree to the last digit (counts, percentiles in the same bin) it is not 0.
    """
    if len(ratios) < 2 or min(ratios) <= 0:
        return interval(ratios, machines)
    found = pool([math.log(ratio) for ratio in ratios], machines)
    value = math.exp(found.centre)
    # Beyond this a float has no number for it.
    half = min(math.hypot(found.half or 0.0, SYSTEMATIC), 300.0)
    return Estimate(value, value * math.expm1(half), found.builds, machines=found.machines)
