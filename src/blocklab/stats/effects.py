"""What the machines did to a study's ratios: each ratio on each machine, and all of them put together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from blocklab.model.stop import SYSTEMATIC
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Item, items, once
from blocklab.stats.holm import LEVEL, rejected
from blocklab.stats.pool import Pool, pool
from blocklab.stats.repeats import Key, key_of, paired
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row


class OnMachine(msgspec.Struct, frozen=True):
    """A ratio on one machine, over its own builds. ``apart``: why it is not put together with the others, nothing
    where it is."""

    machine: str
    share: Estimate
    apart: tuple[str, ...] = ()


class Effect(msgspec.Struct, frozen=True):
    """A headline ratio that several machines have. ``label`` names stack and workload, ``share`` is the ratio that
    the verdict is of. ``pool`` is of the logarithms of the machines that are put together, None of a single one.

    ``disagree``: the machines differ by more than builds on one machine do, also among all ratios of the study
    (Cochran's Q, Holm's method).
    """

    row: Row
    label: str
    share: Estimate
    each: tuple[OnMachine, ...]
    pool: Pool | None = None
    disagree: bool = False

    @property
    def between(self) -> float | None:
        """By what part the ratio differs from machine to machine (standard deviation); None where not known."""
        return _part(self.pool.between if self.pool else None)

    @property
    def within(self) -> float | None:
        """By what part it differs from build to build on one machine; None where not known."""
        return _part(self.pool.within if self.pool else None)

    @property
    def further(self) -> tuple[float, float] | None:
        """Where the ratio of 95 % of further machines is; None of fewer than three."""
        if self.pool is None or self.pool.low is None or self.pool.high is None:
            return None
        # What all builds have in common is in it as in the ratio itself.
        reach = math.hypot(self.pool.high - self.pool.centre, SYSTEMATIC)
        return math.exp(self.pool.centre - reach), math.exp(self.pool.centre + reach)


def _part(sd: float | None) -> float | None:
    return None if sd is None else math.expm1(sd)


@once
def effects(analysis: Analysis) -> tuple[Effect, ...]:
    """Of each headline ratio, in the order of the study; none of a study that one machine measured."""
    if len(analysis.machines) < 2:
        return ()
    known: dict[Key, list[tuple[int, float]]] = {}
    for (_, machine), table in zip(analysis.builds, analysis.tables, strict=True):
        for row in table:
            if row.relative is not None:
                known.setdefault(key_of(row), []).append((machine, row.relative.value))
    found = [
        _effect(analysis, item, stack, known.get(key_of(item.rows[stack]), ()))
        for item in items(analysis)
        for stack in item.shares
    ]
    found = [each for each in found if len(each.each) > 1]
    chances = {at: e.pool.chance for at, e in enumerate(found) if e.pool and e.pool.chance is not None}
    disagree = rejected(chances, LEVEL)
    return tuple(msgspec.structs.replace(each, disagree=at in disagree) for at, each in enumerate(found))


def _effect(analysis: Analysis, item: Item, stack: str, values: Sequence[tuple[int, float]]) -> Effect:
    row = item.rows[stack]
    mine: dict[int, list[float]] = {}
    for machine, value in values:
        mine.setdefault(machine, []).append(value)
    each = tuple(
        OnMachine(
            analysis.machines[machine], paired(shares), analysis.apart.get(((stack, row.workload), machine), ())
        )
        for machine, shares in sorted(mine.items())
    )
    together = [
        (math.log(value), machine)
        for machine, value in values
        if ((stack, row.workload), machine) not in analysis.apart and value > 0
    ]
    whole = pool(*zip(*together, strict=True)) if len({machine for _, machine in together}) > 1 else None
    return Effect(row, f"{stack}, {item.label}", item.shares[stack], each, whole)


def inseparable(found: Sequence[Effect]) -> bool:
    """Whether machine and repeat cannot be told apart: no machine has two builds of anything."""
    pools = [each.pool for each in found if each.pool is not None]
    return bool(pools) and all(each.within is None for each in pools)


def reasons(analysis: Analysis) -> Mapping[str, tuple[str, ...]]:
    """Machine -> why its values of some cells do not belong to the others', each reason once."""
    found: dict[str, dict[str, None]] = {}
    for (_, machine), said in analysis.misfits.items():
        found.setdefault(analysis.machines[machine], {}).update(dict.fromkeys(said))
    return {machine: tuple(said) for machine, said in found.items()}
