"""What watched a host, kept as columns: a week of twenty disks is a million rows, and a row each would be an
object each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from blocklab.formats.clock import Stamp
from blocklab.formats.host.identity import listed
from blocklab.formats.json_documents import MOST
from blocklab.model.watched import Values, Watched

Columns: TypeAlias = Mapping[str, Values]
# What a tool's columns mean: metric, values (NaN where there is none) and unit.
Rates: TypeAlias = Callable[[Columns], Iterable[tuple[str, Values, str]]]
# So many numbers are held as they were read before they become columns.
_HELD = 400_000


class Form:
    """The columns of rows and what they mean; one for all rows that have them, so that it is soon looked up."""

    __slots__ = ("names", "rates")

    def __init__(self, names: tuple[str, ...], rates: Rates) -> None:
        self.names = names
        self.rates = rates


class Collector:
    """Takes rows one by one, and makes columns of them. ``twice``: by layer the rows of a report that had one."""

    def __init__(self) -> None:
        self.rows = 0
        self.twice: dict[str, int] = {}
        self._forms: dict[tuple[tuple[str, ...], Rates], Form] = {}
        self._pending: dict[tuple[str, Form], tuple[array[int], array[float]]] = {}
        self._held = 0
        # Of each layer and metric its places and values in the order of the file.
        self._done: dict[str, dict[str, list[tuple[npt.NDArray[np.int32], Values]]]] = {}
        self._units: dict[str, str] = {}

    def add(self, layer: str, place: int, names: tuple[str, ...], numbers: Iterable[float], rates: Rates) -> None:
        """One row: as many ``numbers`` as ``names``."""
        self.put(layer, place, self.form(names, rates), numbers)

    def form(self, names: tuple[str, ...], rates: Rates) -> Form:
        """What rows with these columns have in common."""
        found = self._forms.get((names, rates))
        return found or self._forms.setdefault((names, rates), Form(names, rates))

    def put(self, layer: str, place: int, form: Form, numbers: Iterable[float]) -> None:
        """One row."""
        held = self._pending.get((layer, form))
        if held is None:
            held = self._pending[layer, form] = (array("i"), array("d"))
        held[0].append(place)
        held[1].extend(numbers)
        self.rows += 1
        self._held += len(form.names)
        if self._held >= _HELD:
            self._flush()

    def _flush(self) -> None:
        for (layer, form), (places, numbers) in self._pending.items():
            names, rates = form.names, form.rates
            table = np.frombuffer(numbers, dtype=float).reshape(-1, len(names))
            at = np.array(places, dtype=np.int32)
            mine = self._done.setdefault(layer, {})
            for metric, values, unit in rates({name: table[:, i] for i, name in enumerate(names)}):
                self._units[metric] = unit
                mine.setdefault(metric, []).append((at, np.array(values, dtype=float)))
        self._pending.clear()
        self._held = 0

    def watched(self, host: str = "") -> tuple[Watched, ...]:
        """All that was taken, which is no longer kept here."""
        self._flush()
        found = []
        for layer in list(self._done):
            columns = {metric: self._joined(layer, parts) for metric, parts in self._done.pop(layer).items()}
            found.append(self._watched(layer, host, columns))
        return tuple(found)

    def _joined(
        self, layer: str, parts: Sequence[tuple[npt.NDArray[np.int32], Values]]
    ) -> tuple[npt.NDArray[np.int32], Values]:
        places, values = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        if len(places) > 1 and not (np.diff(places) > 0).all():
            # The first row of a report counts.
            unique, first = np.unique(places, return_index=True)
            if len(unique) < len(places):
                self.twice[layer] = max(self.twice.get(layer, 0), len(places) - len(unique))
            places, values = unique, values[first]
        return places, values

    def _watched(
        self, layer: str, host: str, columns: Mapping[str, tuple[npt.NDArray[np.int32], Values]]
    ) -> Watched:
        every = [places for places, _ in columns.values()]
        whole = max(every, key=len, default=np.empty(0, dtype=np.int32))
        if not all(places is whole or np.array_equal(places, whole) for places in every):
            whole = np.unique(np.concatenate(every))
        values = {}
        for metric, (places, mine) in columns.items():
            if len(places) != len(whole):
                spread = np.full(len(whole), np.nan)
                spread[np.searchsorted(whole, places)] = mine
                mine = spread
            if not np.isnan(mine).all():
                values[metric] = mine
        return Watched(
            layer, host, whole.astype(float), values, {metric: self._units[metric] for metric in values}
        )


def plain(tokens: Sequence[str], rates: Sequence[bool] = ()) -> list[float] | None:
    """The numbers of a row as tools print it: as many decimals in each, where ``rates`` does not say that some
    have none. None for whatever is unusual, damaged or cut."""
    # The decimals of the first one, with their point.
    size = len(tokens[0]) - tokens[0].rfind(".") if tokens else 0
    if not 2 <= size <= 4 or size > len(tokens[0]):
        return None
    try:
        dots = (
            list(map(itemgetter(-size), tokens)) if all(rates) else [token[-size : 1 - size] for token in tokens]
        )
        alike = dots.count(".") == len(tokens) if all(rates) else [dot == "." for dot in dots] == rates
        digits = "".join(tokens).replace(".", "")
        if not alike or not digits.isascii() or not digits.isdigit():
            return None
        numbers = list(map(float, tokens))
    except (ValueError, IndexError):
        return None
    return numbers if max(numbers) < MOST else None


def rows_of(watched: Sequence[Watched]) -> int:
    """How many rows of devices there are, or of CPUs where there is nothing else."""
    rows = {each.layer: len(each.times) for each in watched}
    return sum(count for layer, count in rows.items() if layer != "cpu") or sum(rows.values())


def twice(collector: Collector) -> Iterator[str]:
    """What there is to say of rows that a report had already."""
    if collector.twice:
        layers, count = listed(sorted(collector.twice)), sum(collector.twice.values())
        yield f"{layers}: {count} reports of a time that was there before: left out"


def used(watched: Sequence[Watched], stamps: Sequence[Stamp]) -> tuple[tuple[Watched, ...], list[Stamp]]:
    """Without the times of reports that do not count."""
    there = np.unique(np.concatenate([each.times for each in watched]))
    moved = tuple(
        msgspec.structs.replace(each, times=np.searchsorted(there, each.times).astype(float)) for each in watched
    )
    return moved, [stamps[int(place)] for place in there]


def from_the_first(watched: Sequence[Watched], stamps: Sequence[Stamp]) -> tuple[tuple[Watched, ...], list[Stamp]]:
    """Reports without times, as if the first one that counts were the first of all."""
    moved, kept = used(watched, stamps)
    return moved, list(stamps[: len(kept)])
