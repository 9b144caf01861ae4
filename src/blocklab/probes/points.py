"""What ``blocklab_node/sampler.py`` prints: a /proc file as it was at each second."""

from __future__ import annotations

import msgspec

from blocklab.errors import ParseError
from blocklab.model.node import program
from blocklab.model.plan import Argv


class Point(msgspec.Struct, frozen=True):
    """The file's text at ``t`` (seconds since the epoch); None while there was no such file."""

    t: float
    text: str | None


def argv(seconds: int, path: str) -> Argv:
    """The command that prints ``path`` every ``seconds``."""
    return program("sampler", str(seconds), path)


def points(text: bytes, tool: str) -> list[Point]:
    """The points by time; a last line that was cut is dropped. Raises ``ParseError`` for anything else."""
    lines = text.split(b"\n")
    cut = lines.pop()
    if not lines:
        raise ParseError(
            tool, "printed nothing" if not cut else "printed no whole line", cut.decode(errors="replace")
        )
    try:
        found = [msgspec.json.decode(line, type=Point) for line in lines]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseError(tool, f"a line is not a sample: {error}", text.decode(errors="replace")) from error
    return sorted(found, key=lambda point: point.t)


def rate(before: int, after: int, seconds: float) -> float | None:
    """Change per second of a counter; None where it was reset, wrapped, or no time passed."""
    return (after - before) / seconds if after >= before and seconds > 0 else None
