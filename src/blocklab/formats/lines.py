"""The lines of a file as their tool printed them: without what a collector put before each of them, and with a
last one that lacks its line end where it is whole all the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from blocklab.formats.text import Text
from blocklab.model import outside

# 2024-03-01T10:00:00.123456789Z (kubectl logs --timestamps)   Mar 01 10:00:00 (ts)   [10:00:00]   1709287200.5
_TIME = re.compile(
    r"(?P<time>\[?(?:(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[A-Z][a-z]{2} {1,2}\d{1,2} )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: [AP]M)?(?:Z| ?[+-]\d\d:?\d\d| UTC)?|\d{10}(?:\.\d{1,9})?)\]?)(?:[ \t]|$)"
)
# "pgbench-1  | " (docker compose logs)   "[localhost] out: " (fabric)   "[pod/x/y] " (kubectl logs --prefix)
# "db1 pgbench[123]: " (journalctl, syslog)
_ENDS = re.compile(r" \||\](?: out| err)?:?|:")
_LONGEST = 80
# So much of the lines have a prefix that is one; a collector of several programs mixes theirs.
_MOST, _SOME = 0.95, 0.2
_MOST_TRIED = 8
_FEWEST = 2
_DECIMALS = re.compile(r"\d\.(\d+)(?:%|ms|s)?$")


class Prefix(msgspec.Struct, frozen=True):
    """What stands before each line: a text that is the same, a time, or the one behind the other."""

    constant: str = ""
    times: tuple[bool, bool] = (False, False)
    """Whether there is a time before and behind the text."""

    @property
    def shown(self) -> str:
        """As it is named to a user."""
        parts = ["a time" if self.times[0] else "", repr(self.constant) if self.constant else ""]
        return " and ".join(part for part in (*parts, "a time" if self.times[1] else "") if part)

    def split(self, line: str) -> tuple[str, str] | None:
        """The time ('' without one) and the rest of a line; None for a line without the prefix."""
        time = ""
        if self.times[0]:
            if (match := _TIME.match(line)) is None:
                return None
            time, line = match["time"], line[match.end() :]
        if self.constant:
            bare = self.constant.rstrip()
            if not line.startswith(bare):
                return None
            # Of an empty line a collector may have taken the blank away.
            line = line[len(self.constant) :] if line.startswith(self.constant) else line[len(bare) :]
        if self.times[1]:
            if (match := _TIME.match(line)) is None:
                return None
            time, line = match["time"], line[match.end() :]
        return time, line


def prefixes(start: str) -> Iterator[Prefix]:
    """What may stand before each line of a file that begins so, the shortest first."""
    lines = [line for line in start.split("\n")[:-1] or [start] if line.strip()]
    if len(lines) < _FEWEST:
        return
    first = _all_timed(lines)
    if first:
        yield Prefix(times=(True, False))
        lines = [match.string[match.end() :] for line in lines if (match := _TIME.match(line))]
    for constant in _constants(lines)[:_MOST_TRIED]:
        yield Prefix(constant, (first, False))
        behind = [line[len(constant) :] for line in lines if line.startswith(constant)]
        if not first and _all_timed(behind):
            yield Prefix(constant, (False, True))


def _all_timed(lines: Sequence[str]) -> bool:
    return sum(_TIME.match(line) is not None for line in lines) >= max(_MOST * len(lines), _FEWEST)


def _constants(lines: Sequence[str]) -> list[str]:
    """The texts with an end of their own that many of the lines begin with."""
    count: Counter[str] = Counter()
    for line in lines:
        count.update({line[: match.end()] for match in _ENDS.finditer(line[:_LONGEST])})
    least = max(_SOME * len(lines), _FEWEST)
    known = [text for text, number in count.items() if number >= least]
    found = []
    for text in known:
        behind = Counter(line[len(text) : len(text) + 1] for line in lines if line.startswith(text))
        found.append(text + (" " if behind.most_common(1)[0][0] == " " else ""))
    return sorted(found, key=len)


def without(start: str, prefix: Prefix) -> str:
    """The start of a file without a prefix of its lines."""
    parts = (prefix.split(line) for line in start.split("\n"))
    return "".join(f"{part[1]}\n" for part in parts if part is not None)


def prefix_of(start: str, fits: Callable[[str], bool]) -> Prefix | None:
    """The prefix without which a start ``fits``."""
    return next((prefix for prefix in prefixes(start) if fits(without(start, prefix))), None)


def stripped(text: Text, prefix: Prefix) -> Text:
    """A text without a prefix of its lines, which has the times in them."""
    parts = [(number, prefix.split(line)) for number, line in enumerate(text.lines, 1)]
    kept = [part for _, part in parts if part is not None]
    others = [number for number, part in parts if part is None and text.lines[number - 1].strip()]
    remarks = [*text.remarks, f"each of its lines begins with {prefix.shown}: read without"]
    if others:
        remarks.append(f"{len(others):,} lines that do not (the first is line {others[0]}) are left out")
    last = prefix.split(text.cut) if text.cut else None
    return msgspec.structs.replace(
        text, lines=tuple(line for _, line in kept), cut=last[1] if last is not None else "",
        remarks=tuple(remarks), times=tuple(time for time, _ in kept) if any(prefix.times) else (),
    )  # fmt: skip


def completed(text: Text) -> Text:
    """A text with its last line among the others, where that lacks only its line end: it ends with as many
    decimals as those before it, or is as long as the one before it, or ends with the same word, or is JSON."""
    before = next((line for line in reversed(text.lines) if line.strip()), "")
    if not text.cut.strip() or not before:
        return text
    decimals = _DECIMALS.search(text.cut)
    usual = next((match for line in reversed(text.lines) if (match := _DECIMALS.search(line))), None)
    by_decimals = decimals is not None and usual is not None and len(decimals[1]) == len(usual[1])
    words, usual_words = text.cut.split(), before.split()
    alike = len(words) == len(usual_words) and (len(text.cut) == len(before) or words[-1] == usual_words[-1])
    if not by_decimals and not alike and not _is_json(text.cut):
        return text
    return msgspec.structs.replace(text, lines=(*text.lines, text.cut), cut="")


def _is_json(line: str) -> bool:
    try:
        return line.startswith(("{", "[{")) and bool(outside.as_json(line, ""))
    except ValueError:
        return False
