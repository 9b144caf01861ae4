"""The undos that are still due: a pile from which they are taken in reverse order."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.model.plan import Argv


class Undos:
    """Pushed before the step that they undo. A mark stays valid although some of them are left out."""

    def __init__(self) -> None:
        # Each with a number that none before it had.
        self._pile: list[tuple[int, str, Argv]] = []
        self._pushed = 0

    def push(self, host: str, argv: Argv) -> int:
        """Undo this by ``argv`` on ``host``, nothing for an empty one; its number."""
        if argv:
            self._pile.append((self._pushed, host, argv))
        self._pushed += 1
        return self._pushed - 1

    def mark(self) -> int:
        """A place in the pile, of its own."""
        self._pushed += 1
        return self._pushed

    def since(self, mark: int) -> Iterator[tuple[int, str, Argv]]:
        """Take off all that was pushed since the mark, the last one first: (number, host, argv)."""
        while self._pile and self._pile[-1][0] >= mark:
            yield self._pile.pop()

    def forget(self, host: str) -> list[int]:
        """Leave out those of a host that is dead, since what they would undo went with it; their numbers."""
        gone = [number for number, where, _ in self._pile if where == host]
        self._pile = [each for each in self._pile if each[1] != host]
        return gone
