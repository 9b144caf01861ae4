"""What an imported run was made from."""

from __future__ import annotations

import msgspec

SITE = "imported"
"""The site in the environment of an imported run."""


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
    shown: str = ""
    """Its name, with the folders below the stack's own."""

    @property
    def name(self) -> str:
        """How it is called where it is told of."""
        return self.shown or self.file.rpartition("/")[2]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the values has to know of it, each with the file's name and line."""
        found = [f"{self.name}: {remark}" for remark in self.remarks]
        if self.bad:
            rows = "1 row is" if self.bad == 1 else f"{self.bad:,} rows are"
            at = f", the first in line {self.first_bad_line}" if self.first_bad_line else ""
            found.insert(0, f"{self.name}: {rows} damaged and left out{at}: {self.first_bad!r}")
        return tuple(found)
