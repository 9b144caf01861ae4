"""What a reader of statistics is: how it recognises a file, and how it reads one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo

import msgspec

from blocklab.formats.text import Text
from blocklab.sizing.series import Statistics


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What files do not tell of themselves: the ``zone`` of times without one, the ``order`` of dates that may
    mean several (``ymd``, ``mdy``, ``dmy``; empty: the only possible one), and what the ``first_report`` of iostat
    is (``interval``, ``boot``; empty: what the file shows)."""

    zone: tzinfo = UTC
    order: str = ""
    first_report: str = ""


class Kind(msgspec.Struct, frozen=True):
    """``fits`` gets the first 64 KiB of a file, ``read`` all of it; it raises ``formats.text.Refused``. ``lines``:
    it reads line by line, so that a file need not fit in memory, and may have a prefix before each line."""

    label: str
    fits: Callable[[str], bool]
    read: Callable[[Text, Reading], Statistics]
    lines: bool = False
