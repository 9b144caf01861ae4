"""What a kind of file is: how it is recognised, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from blocklab.formats.found import Found
from blocklab.formats.text import Text

Reads = Literal["whole", "lines", "blocks"]
"""How a reader takes a file: all of its text, line by line, or in blocks that it gets for itself by ``Text.path``.
Of the last two it need not fit in memory."""


class Kind(msgspec.Struct, frozen=True):
    """``label`` is for people, ``fits`` gets the first 64 KiB of a file, ``read`` all of it. It raises
    ``text.Refused``. ``named``, of kinds whose rows look alike: whether a file's name says that it is this one."""

    label: str
    fits: Callable[[str], bool]
    read: Callable[[Text], Found]
    reads: Reads = "whole"
    named: Callable[[str], bool] | None = None
