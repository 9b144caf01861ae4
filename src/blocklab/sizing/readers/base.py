"""What a reader of statistics is: how it recognises a file, and how it reads one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo

import msgspec

from blocklab.imports.text import Text
from blocklab.sizing.series import Found


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What files do not tell of themselves: the ``zone`` of times without one, and the ``order`` of dates that may
    mean several (``ymd``, ``mdy``, ``dmy``; empty: the only possible one)."""

    zone: tzinfo = UTC
    order: str = ""


class Kind(msgspec.Struct, frozen=True):
    """``fits`` gets the first 64 KiB of a file, ``read`` all of it; it raises ``imports.text.Refused``."""

    label: str
    fits: Callable[[str], bool]
    read: Callable[[Text, Reading], Found]
