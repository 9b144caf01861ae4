"""What another program put before each line of a tool: a time (``ts``, ``kubectl logs --timestamps``), a text
(``db1 | ``), or both (``docker compose logs -t``).

It is taken off, and the time kept for tools that print none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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
# A text is short, and ends before what parts it from the line.
_LONGEST = 80
_NAME = re.compile(rf"(?=\S*\w)\S.{{0,{_LONGEST}}}[\s|>\]:]")
_LOOKED_AT, _ALL = 200, 3
# Of what collects several programs: 2024-03-01T10:00:00.123456789Z   Mar 01 10:00:00   [10:00:00]   1709287200.5
_STAMP = re.compile(
    r"(?P<time>\[?(?:(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[A-Z][a-z]{2} {1,2}\d{1,2} )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: [AP]M)?(?:Z| ?[+-]\d\d:?\d\d| UTC)?|\d{10}(?:\.\d{1,9})?)\]?)(?:[ \t]|$)"
)
# "pgbench-1  | " (docker compose logs)   "[localhost] out: " (fabric)   "[pod/x/y] " (kubectl logs --prefix)
# "db1 pgbench[123]: " (journalctl, syslog)
_ENDS = re.compile(r" \||\](?: out| err)?:?|:")
# So much of the lines have a prefix that is one; a collector of several programs mixes theirs.
_MOST, _SOME, _FEWEST, _MOST_TRIED = 0.95, 0.2, 2, 8


class Prefix(msgspec.Struct, frozen=True):
    """``pattern`` matches it at the start of a line, its group ``time`` the time where there is one; ``shown`` is
    how it is named to a user."""

    pattern: re.Pattern[str]
    shown: str
    timed: bool = False
    worded: bool = False
    """Whether there are letters in it that are not a time's."""

    def split(self, line: str) -> tuple[str, str] | None:
        """The time (empty without one) and the rest of a line; None for a line without the prefix."""
        match = self.pattern.match(line)
        if match is None:
            return None
        return match["time"] if self.timed else "", line[match.end() :]

    def bare(self, text: str) -> str:
        """The lines of a text that have it, without it."""
        return "\n".join(part[1] for line in text.split("\n") if (part := self.split(line)) is not None)

    def count(self, text: str) -> int:
        """How many lines of a text have it."""
        return sum(self.split(line) is not None for line in text.split("\n"))

    def others(self, text: str) -> str:
        """The lines of a text that do not have it."""
        return "\n".join(line for line in text.split("\n") if self.split(line) is None)


class Others(msgspec.Struct):
    """The lines of a file that have no prefix, where the others do: the number of the first, and how many."""

    first: int = 0
    count: int = 0

    def remarks(self) -> Iterator[str]:
        """What is to be said of them."""
        if self.count:
            yield f"{self.count:,} lines that do not (the first is line {self.first}) are left out"


def numbered(
    lines: Iterable[str], prefix: Prefix | None, others: Others
) -> Iterator[tuple[int, Stamp | None, str]]:
    """Each line with its number from 1 and the time before it; without those that have no prefix, which are
    counted."""
    if prefix is None:
        for number, line in enumerate(lines, 1):
            yield number, None, line
        return
    others.first = others.count = 0
    last, at = "", None
    for number, line in enumerate(lines, 1):
        part = prefix.split(line)
        if part is None:
            others.first = others.first or (number if line.strip() else 0)
            others.count += bool(line.strip())
            continue
        if part[0] != last:
            last, at = part[0], stamp(part[0].strip("[]()"))
        yield number, at, part[1]


def regular(start: str) -> Prefix | None:
    """What stands before each of the first lines of a file that begins so."""
    lines = _whole(start)[:_LOOKED_AT]
    return (_time(lines) or _name(lines)) if len(lines) >= _ALL else None


def prefixes(start: str) -> Iterator[Prefix]:
    """What may stand before the lines of a file that begins so, be it only before those of one program of
    several: the shortest first."""
    lines = _whole(start)
    if len(lines) < _FEWEST:
        return
    first = _timed(lines)
    time = _STAMP.pattern
    if first:
        yield Prefix(_STAMP, "a time", True)
        lines = [line[match.end() :] for line in lines if (match := _STAMP.match(line))]
    for text in _texts(lines)[:_MOST_TRIED]:
        # Of an empty line a collector may have taken the blank away.
        fixed = re.escape(text.rstrip()) + (" ?" if text.endswith(" ") else "")
        worded = any(letter.isalpha() for letter in text)
        yield Prefix(re.compile((time if first else "") + fixed), _shown(text, first), first, worded)
        behind = [line[len(text) :] for line in lines if line.startswith(text)]
        if not first and _timed(behind):
            yield Prefix(re.compile(fixed + time), _shown(text, False, True), True, worded)
    if (before := regular(start)) is not None:
        yield before


def _whole(start: str) -> list[str]:
    """The whole lines of a file's start that have anything in them."""
    lines = start.split("\n")
    return [line for line in lines[:-1] or lines if line.strip()]


def _shown(text: str, before: bool, behind: bool = False) -> str:
    parts = ("a time" if before else "", repr(text) if text else "", "a time" if behind else "")
    return " and ".join(part for part in parts if part)


def _time(lines: Sequence[str]) -> Prefix | None:
    for form in _TIMES:
        first = form.search(lines[0][: 2 * _LONGEST])
        if first is None or first.start() > _LONGEST:
            continue
        text = lines[0][: first.start()]
        pattern = re.compile(rf"{re.escape(text)}(?P<time>{form.pattern})(?!\d)", re.ASCII)
        matches = [pattern.match(line) for line in lines]
        if all(match is not None and stamp(match["time"]) is not None for match in matches):
            rests = [line[match.end() :] for line, match in zip(lines, matches, strict=True) if match]
            between = re.escape(_between(rests))
            whole = re.compile(rf"{pattern.pattern}(?:{between})?", re.ASCII)
            return Prefix(whole, _shown(text, False, True), True)
    return None


def _between(rests: Iterable[str]) -> str:
    """What parts it from the line, alike in all of them."""
    match = _BETWEEN.match(_common([rest for rest in rests if rest.strip()]))
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
    text = match[0]
    return Prefix(re.compile(f"(?:{re.escape(text)}|{re.escape(text.rstrip())}$)"), repr(text))


def _timed(lines: Sequence[str]) -> bool:
    return sum(_STAMP.match(line) is not None for line in lines) >= max(_MOST * len(lines), _FEWEST)


def _texts(lines: Sequence[str]) -> list[str]:
    """The texts with an end of their own that many of the lines begin with."""
    count: Counter[str] = Counter()
    for line in lines:
        count.update({line[: match.end()] for match in _ENDS.finditer(line[:_LONGEST])})
    least = max(_SOME * len(lines), _FEWEST)
    texts = []
    for text in (text for text, number in count.items() if number >= least):
        behind = Counter(line[len(text) : len(text) + 1] for line in lines if line.startswith(text))
        texts.append(text + (" " if behind.most_common(1)[0][0] == " " else ""))
    return sorted(texts, key=len)
