"""What the readers of device statistics share: JSON that may be cut, and values that can be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from blocklab.errors import Unreadable
from blocklab.model import outside

# More than any device or cloud volume does, in requests or bytes per second: a counter that overflowed.
MOST = 1e15
_GAP = re.compile(r"[\s,]*")
_OPEN = re.compile(r"[{\[]")
# "tps": 13,89
_COMMA = re.compile(r'(":[ \t]*\d+),(\d)')


def can_be(value: object) -> float | None:
    """A rate or count as a number; None for what is none, is negative, or is more than there can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number < MOST else None


def number(text: str) -> float | None:
    """A decimal number with a point, as ``can_be`` has it; None for anything else (``1,234.50``, ``12k``)."""
    if not re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{0,12})?(?:[eE][+-]?[0-9]{1,2})?", text):
        return None
    return can_be(float(text))


def line_at(text: str, at: int) -> int:
    """The line of a place in a text, from 1."""
    return text.count("\n", 0, at) + 1


def decimals(text: str) -> str:
    """JSON with decimal points where a locale wrote commas."""
    return _COMMA.sub(r"\1.\2", text)


def objects(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """The values of a JSON array whose bracket is just before ``at``, each with its place, up to the first one
    that is cut or damaged: that is None at its place."""
    at = _end(_GAP, text, at)
    while at < len(text) and text[at] != "]":
        try:
            value, end = outside.next_json(text, at)
        except Unreadable:
            yield at, None
            return
        yield at, value
        at = _end(_GAP, text, end)
    if at >= len(text):
        yield len(text), None


def documents(text: str) -> Iterator[tuple[int, Any]]:
    """JSON documents one after the other, each with its place; None for one that is cut or damaged. What stands
    between them is skipped."""
    at = 0
    while (found := _OPEN.search(text, at)) is not None:
        at = found.start()
        try:
            value, end = outside.next_json(text, at)
        except Unreadable:
            yield at, None
            # The next document begins a line; within this one, lines are indented.
            following = re.compile(r"^[{]", re.MULTILINE).search(text, at + 1)
            if following is None:
                return
            at = following.start()
            continue
        yield at, value
        at = end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
