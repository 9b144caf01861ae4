"""What another program put before each line of a tool: a time (``ts``, awk's strftime), a name (``db1 | ``), or
both (``docker compose logs -t``). It is taken off, and the time kept for tools that print none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from blocklab.formats.clock import Stamp, stamp

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M)?"
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_TIMES = tuple(
    re.compile(rf"[\[(]?(?:{form})[\])]?", re.ASCII)
    for form in (
        # 2024-03-25 11:59:50.000000   2024-03-25T10:00:00.123Z   20/08/11 00:29:55
        rf"\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}[T ]{_CLOCK}{_ZONE}",
        # Mar 05 10:00:00 (ts)   Tue Mar  5 10:00:00 UTC 2024
        rf"(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} +\d{{1,2}} {_CLOCK}(?: [A-Z]{{3,4}})?(?: 20\d\d)?",
        # 1709632800.123456
        r"[1-9]\d{9}(?:\.\d{1,9})?(?!\S)",
        _CLOCK,
    )
)
_BETWEEN = re.compile(r"[\s:|>\]-]*")
# A name is short, and ends before what parts it from the line.
_LONGEST_NAME = 80
_NAME = re.compile(rf"(?=\S*\w)\S.{{0,{_LONGEST_NAME}}}[\s|>\]:]")
_LOOKED_AT, _FEWEST = 200, 3


class Prefix(msgspec.Struct, frozen=True):
    """``pattern`` matches it at the start of a line, its group ``time`` the time where there is one."""

    pattern: re.Pattern[str]
    timed: bool

    def apart(self, line: str) -> tuple[str, str]:
        """The time (empty where there is none) and the rest of a line."""
        match = self.pattern.match(line)
        if match is None:
            return "", line
        return match["time"] if self.timed else "", line[match.end() :]

    def shown(self, line: str) -> str:
        """It, as it stands before a line."""
        match = self.pattern.match(line)
        return match[0] if match else ""

    def bare(self, text: str) -> str:
        """A text without it."""
        return "\n".join(self.apart(line)[1] for line in text.split("\n"))


def of(head: str) -> Prefix | None:
    """What stands before each of the first lines of a file."""
    every = head.split("\n")
    lines = [line for line in (every[:-1] or every)[:_LOOKED_AT] if line.strip()]
    if len(lines) < _FEWEST:
        return None
    return _time(lines) or _name(lines)


def _time(lines: Sequence[str]) -> Prefix | None:
    for form in _TIMES:
        first = form.search(lines[0][: 2 * _LONGEST_NAME])
        if first is None or first.start() > _LONGEST_NAME:
            continue
        name = re.escape(lines[0][: first.start()])
        pattern = re.compile(rf"{name}(?P<time>{form.pattern})(?!\d)", re.ASCII)
        matches = [pattern.match(line) for line in lines]
        if all(match is not None and stamp(match["time"]) is not None for match in matches):
            rests = [line[match.end() :] for line, match in zip(lines, matches, strict=True) if match]
            between = re.escape(_between(rests))
            return Prefix(re.compile(rf"{pattern.pattern}(?:{between})?", re.ASCII), True)
    return None


def _between(rests: Iterable[str]) -> str:
    """What parts it from the line, alike in all of them."""
    common = _common([rest for rest in rests if rest.strip()])
    match = _BETWEEN.match(common)
    return match[0] if match else ""


def _common(lines: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(lines, default=""), max(lines, default="")
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[:same] if same is not None else min(first, last, key=len)


def _name(lines: Sequence[str]) -> Prefix | None:
    match = _NAME.match(_common(lines))
    if match is None:
        return None
    return Prefix(re.compile(f"(?:{re.escape(match[0])}|{re.escape(match[0].rstrip())}$)"), False)


def seen(head: str, fits: Callable[[str], bool]) -> tuple[bool, Prefix | None]:
    """Whether the start of a file is of a kind, and what has to be taken off its lines for that."""
    found = of(head)
    if found is not None and fits(found.bare(head)):
        return True, found
    return fits(head), None


def numbered(lines: Iterable[str], prefix: Prefix | None) -> Iterator[tuple[int, Stamp | None, str]]:
    """Each line with its number from 1 and the time before it."""
    if prefix is None:
        for number, line in enumerate(lines, 1):
            yield number, None, line
        return
    last, at = "", None
    for number, line in enumerate(lines, 1):
        written, rest = prefix.apart(line)
        if written != last:
            last, at = written, stamp(written.strip("[]()"))
        yield number, at, rest
