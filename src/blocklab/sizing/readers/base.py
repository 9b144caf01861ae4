"""What the readers of statistics are told by the user."""

from __future__ import annotations

from datetime import UTC, tzinfo

import msgspec


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What files do not tell of themselves: the ``zone`` of times without one, the ``order`` of dates that may
    mean several (``ymd``, ``mdy``, ``dmy``; empty: the only possible one), and what the ``first_report`` of iostat
    is (``interval``, ``boot``; empty: what the file shows)."""

    zone: tzinfo = UTC
    order: str = ""
    first_report: str = ""
