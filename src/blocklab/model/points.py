"""Points of a series, kept as columns: of a long log there are millions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

# To import numpy takes time that commands without series do not have.
if TYPE_CHECKING:
    from blocklab.model.watched import Values


class Points(Sequence[tuple[float, float]]):
    """Pairs of a time (seconds since the epoch) and a value, by time."""

    def __init__(self, times: Values, values: Values) -> None:
        self.times = times
        self.values = values

    def later(self, by: float) -> Points:
        """The same, so many seconds later."""
        return Points(self.times + by, self.values)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.times)

    @overload
    def __getitem__(self, at: int) -> tuple[float, float]: ...
    @overload
    def __getitem__(self, at: slice) -> Points: ...
    def __getitem__(self, at: int | slice) -> tuple[float, float] | Points:
        """One of them, or several."""
        if isinstance(at, slice):
            return Points(self.times[at], self.values[at])
        return float(self.times[at]), float(self.values[at])

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """Each of them."""
        return zip(self.times.tolist(), self.values.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        """Whether they are the same pairs."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
