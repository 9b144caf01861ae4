"""Systems: what the files were put together to."""

from __future__ import annotations

from pathlib import Path

import msgspec

from blocklab.sizing.curve import Curve
from blocklab.sizing.series import Trust


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file. ``left_out`` says why it is not used; empty where it is."""

    path: Path
    kind: str = ""
    system: str = ""
    intervals: int = 0
    left_out: str = ""
    remarks: tuple[str, ...] = ()


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One source of a system: what it is, how far it is to be trusted, and whether it is the one that counts."""

    name: str
    trust: Trust
    main: bool
    files: tuple[Path, ...]
    devices: tuple[str, ...] = ()


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One database server, or one host: its I/O over time, by its most trusted source.

    ``parts``: names of what can be left out (``backup``). ``untimed``: the curve's times are made up.
    """

    name: str
    product: str
    curve: Curve
    sources: tuple[Source, ...]
    untimed: bool = False
    parts: tuple[str, ...] = ()

    @property
    def trust(self) -> Trust:
        """That of the source that counts."""
        return next(each.trust for each in self.sources if each.main)


class Gathered(msgspec.Struct, frozen=True):
    """The systems, each file, and what had to be left out or assumed."""

    systems: tuple[System, ...]
    files: tuple[Input, ...]
    remarks: tuple[str, ...]
