"""Repeats of a measurement: folders ``run1``, ``run2``, ... beside each other, or the same point of fio twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blocklab.imports.collect import Given
from blocklab.imports.study import name_of

# run1   run-02   Rep_3   repeat 1   iteration10
_RUN = re.compile(r"(?P<word>run|rep|repeat|round|iter|iteration|trial)[-_ ]?(?P<number>\d+)", re.IGNORECASE)
_WHICH = (
    "it has no times that are known, and there are several repeats: nothing tells which one it watched; put it "
    "into the folder of that repeat"
)


def declared(given: Sequence[Given]) -> None:
    """Of several folders such as ``run1`` and ``run2`` in one folder each is a repeat of the same
    workload."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for each in given:
        if found := _run(each.below):
            numbers.setdefault(found[0], set()).add(found[1])
    for each in given:
        found = _run(each.below)
        if found is not None and len(numbers[found[0]]) > 1:
            each.repeat = sorted(numbers[found[0]]).index(found[1])
            each.folder = name_of(found[2].replace("/", "-")) if found[2] else ""


def _run(below: str) -> tuple[tuple[str, str], int, str] | None:
    """What the runs of one folder have in common, the run's number, and the folder without the run's own."""
    parts = below.split("/")
    for at, part in enumerate(parts):
        if match := _RUN.fullmatch(part):
            return (
                ("/".join(parts[:at]), match["word"].lower()),
                int(match["number"]),
                "/".join((*parts[:at], *parts[at + 1 :])),
            )
    return None


def rounds(given: Sequence[Given]) -> list[list[Given]]:
    """The files of each repeat. What watched all of them is in each; without times it is left out."""
    count = 1 + max((each.repeat or 0 for each in given), default=0)
    for each in given:
        if count > 1 and each.repeat is None and each.found is not None and each.found.untimed:
            each.left_out = each.left_out or _WHICH
    return [[each for each in given if _of(each, number)] for number in range(count)]


def _of(each: Given, number: int) -> bool:
    watches = each.found is not None and not each.found.tool
    return each.repeat == number or (each.repeat is None and (number == 0 or watches))
