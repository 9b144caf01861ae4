"""Things by what they are, not by what they say: to compare two studies takes longer than to check one.

Studies and their parts never change, and variants of a study share the parts that they have in common.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Same(Generic[Thing]):
    """A thing as the key of a cache: equal to no other one."""

    def __init__(self, thing: Thing) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing


class Seen:
    """What was looked at before: what was fine in one variant is fine in the next."""

    def __init__(self) -> None:
        # The things are kept, or another one could take the place of one that is gone.
        self._kept: dict[tuple[object, ...], tuple[object, ...]] = {}

    def first(self, place: str, *things: object) -> bool:
        """Whether these things were not seen together at that place before; now they are."""
        key = (place, *map(id, things))
        if key in self._kept:
            return False
        self._kept[key] = things
        return True
