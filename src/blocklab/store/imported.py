"""What an imported run was made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

SITE = "imported"
"""The site in the environment of an imported run."""

_MOST_NAMED = 3


class ImportedFile(msgspec.Struct, frozen=True):
    """One foreign file. ``kind`` is what it was taken for, empty for one that was left out; ``rows`` are the good
    ones, ``bad`` those that are left out, with the number and the start of the first of them.

    ``start`` and ``end`` are seconds since the epoch; None where the file does not tell. ``remarks``: what is odd,
    or had to be assumed.
    """

    file: str
    kind: str
    rows: int = 0
    bad: int = 0
    first_bad_line: int = 0
    first_bad: str = ""
    host: str = ""
    start: float | None = None
    end: float | None = None
    sha256: str = ""
    remarks: tuple[str, ...] = ()
    cut: bool = False
    """Whether the first bad row is so only in that it is the last line, and has no line end."""
    shown: str = ""
    """Its name, with the folders below the stack's own."""

    @property
    def name(self) -> str:
        """How it is called where it is told of."""
        return self.shown or self.file.rpartition("/")[2]

    @property
    def odd(self) -> tuple[str, ...]:
        """What a reader of the values has to know of it, with the line of what is damaged."""
        if not self.bad:
            return self.remarks
        if self.bad == 1 and self.cut:
            why = f"its last line ({self.first_bad_line}) has no line end, so it may be cut: left out"
            return f"{why}: {self.first_bad!r}", *self.remarks
        rows = "1 row is" if self.bad == 1 else f"{self.bad:,} rows are"
        at = f", the first in line {self.first_bad_line}" if self.first_bad_line else ""
        return f"{rows} damaged and left out{at}: {self.first_bad!r}", *self.remarks


def warnings(files: Iterable[ImportedFile]) -> list[str]:
    """What is odd in each file; what is the same in several is one line with the names of some."""
    found: dict[str, dict[str, None]] = {}
    for file in files:
        for odd in file.odd:
            found.setdefault(odd, {})[file.name] = None
    return [f"{_some(list(names))}: {odd}" for odd, names in found.items()]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return f"{', '.join(names[:_MOST_NAMED])} and {more} more" if more > 1 else ", ".join(names)
