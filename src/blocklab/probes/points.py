"""What ``blocklab_node/sampler.py`` prints: files of /proc as they were at each second."""

from __future__ import annotations

import msgspec

from blocklab.errors import ParseError, Unreadable
from blocklab.model import outside


class Point(msgspec.Struct, frozen=True):
    """The text of the file ``path`` at ``t`` (seconds since the epoch); None while there was no such file."""

    t: float
    path: str
    text: str | None


def points(text: bytes, path: str) -> list[Point]:
    """The points of one file by time; a last line that was cut is dropped. Raises ``ParseError`` for anything
    else."""
    lines = text.split(b"\n")
    cut = lines.pop()
    if not lines:
        raise ParseError(
            path, "printed nothing" if not cut else "printed no whole line", cut.decode(errors="replace")
        )
    try:
        found = [outside.typed_json(line, Point, "") for line in lines]
    except Unreadable as error:
        raise ParseError(path, f"a line is not a sample: {error}", text.decode(errors="replace")) from error
    mine = [point for point in found if point.path == path]
    if not mine:
        raise ParseError(path, "no line is a sample of it", text.decode(errors="replace"))
    return sorted(mine, key=lambda point: point.t)


def rate(before: int, after: int, seconds: float) -> float | None:
    """Change per second of a counter; None where it was reset, wrapped, or no time passed."""
    return (after - before) / seconds if after >= before and seconds > 0 else None
