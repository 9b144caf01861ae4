"""What the user says of times and reports that files do not tell of themselves."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path

import msgspec

from blocklab.formats.clock import Clock, resolve


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What files do not tell of themselves: the ``zone`` of times without one, the ``order`` of dates that may
    mean several (``ymd``, ``mdy``, ``dmy``; empty: the only possible one), and what the ``first_report`` of iostat
    is (``interval``, ``boot``; empty: what the file shows)."""

    zone: tzinfo = UTC
    order: str = ""
    first_report: str = ""

    def times(self, clock: Clock, path: Path, order: str = "") -> tuple[list[float | None], list[str]]:
        """The times of a file in seconds since the epoch, None for a damaged one, and what had to be assumed.
        Raises ``StudyError`` for dates that may mean several days."""
        return resolve(clock, str(path), zone=self.zone, order=order or self.order, anchors=())
