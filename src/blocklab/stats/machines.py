"""Which machines the runs of a study were measured on, and whose figures are kept apart from the others'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from blocklab.rules.fit import fits
from blocklab.store.identity import Identity, identity

# (stack, workload), by their labels.
At: TypeAlias = tuple[str, str]
# Of a machine's identity, beside names that several machines share.
_DIGITS = 4


class Stood(msgspec.Struct, frozen=True):
    """One good run: its cell, the number of its machine, and its environment."""

    at: At
    machine: int
    environment: Mapping[str, Any]


class Machines:
    """The machines of some runs, numbered as they come.

    Runs that do not say which machine theirs was (those of older versions, imported ones) are of the first one
    that it can have been, by what they do tell; so all of them are one where nothing speaks against it.
    """

    def __init__(self) -> None:
        self._known: list[Identity] = []
        self._names: list[str] = []

    def number(self, environment: Mapping[str, Any]) -> int:
        """The number of the machine of an environment, from 0."""
        mine, name = identity(environment), str(environment.get("name", ""))
        for number, known in enumerate(self._known):
            if known.may_be(mine):
                # What one run does not tell another does.
                told = {
                    field: value or getattr(mine, field) for field, value in msgspec.structs.asdict(known).items()
                }
                self._known[number] = Identity(**told)
                self._names[number] = self._names[number] or name
                return number
        self._known.append(mine)
        self._names.append(name)
        return len(self._known) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each, by number, that no other has."""
        names = [name or known.cpu or "machine" for name, known in zip(self._names, self._known, strict=True)]
        count = Counter(names)
        found: list[str] = []
        for number, (name, known) in enumerate(zip(names, self._known, strict=True), 1):
            label = name if count[name] == 1 else f"{name} {known.machine[:_DIGITS] or number}"
            found.append(f"{label} ({number})" if label in found else label)
        return tuple(found)


def misfits(runs: Sequence[Stood], bases: Mapping[At, At]) -> dict[tuple[At, int], tuple[str, ...]]:
    """(cell, machine) -> why that machine's figures of that cell do not belong to the others'.

    Of the machines that measured a cell the one with the most runs of the study leads, of equals the first; the
    others have to fit to it (``judge.fit``), under the cell and under what it is compared with (``bases``). Cells
    have images of their own, by what their layouts need: hence one by one.
    """
    first: dict[At, dict[int, Mapping[str, Any]]] = {}
    for run in runs:
        first.setdefault(run.at, {}).setdefault(run.machine, run.environment)
    counts = Counter(run.machine for run in runs)
    found = {}
    for at, mine in first.items():
        base = first.get(bases.get(at, at), {})
        lead, *others = sorted(mine, key=lambda machine: (-counts[machine], machine))
        for machine in others:
            reasons = [each for on in (mine, base) for each in fits(on.get(lead, {}), on.get(machine, {}))]
            if reasons:
                found[at, machine] = tuple(dict.fromkeys(reasons))
    return found
