"""Reads log files in blocks of whole lines: fast where all lines of a block are rows, one by one where not."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from blocklab.errors import ParseError, Unreadable
from blocklab.formats.load.logs.columns import Lines, keep_freed_memory, lines_of
from blocklab.formats.load.logs.summary import BadLine
from blocklab.model import outside

# Larger ones take more memory and no less time, smaller ones more calls for each row.
BLOCK = 1 << 20
# Of a bad line that is kept.
_EXCERPT = 200
# The byte order mark that some editors put before a text.
_MARK = b"\xef\xbb\xbf"
# Lines that vote on how many fields a file's lines have.
_VOTERS = 1000
# Bytes that are no longer halved, but read line by line.
_SINGLY = 4096


class Reader(ABC):
    """What was read so far of one kind of log."""

    tool: str
    between: bytes
    """What is between two fields."""
    row: re.Pattern[bytes]
    """A line that is a row, without its end."""
    fields: int
    """Of a line that ``plain`` gives."""
    mixed = False
    """Whether a row may have more or fewer fields than most of its file, which one that was cut may look like."""

    def __init__(self) -> None:
        self.bad = 0
        self.first_bad: BadLine | None = None
        self.left_out: Counter[str] = Counter()
        self.remarks: list[str] = []
        # Of the file that is being read.
        self._file = ""
        self._line = 0
        self._fields = 0
        self._returns = False

    @abstractmethod
    def plain(self, match: re.Match[bytes]) -> bytes:
        """The row with nothing but what ``take`` reads, all numbers, no longer than it was; with the newline."""

    def without(self, match: re.Match[bytes]) -> str:
        """What a row says in place of its latency, which is noted; empty if it has one."""
        return ""

    @abstractmethod
    def take(self, lines: Lines) -> bool:
        """Add the rows of a block; False, with nothing added, if one of them is none."""

    def read(self, paths: Iterable[str | Path]) -> None:
        """All files in this order; raises ``ParseError`` for one that cannot be read."""
        keep_freed_memory()
        for path in paths:
            try:
                with outside.opened(Path(path)) as file:
                    self.add(file, str(path))
            except (OSError, Unreadable) as error:
                why = error.problem if isinstance(error, Unreadable) else error.strerror
                raise ParseError(
                    self.tool, f"its log {path} cannot be read: {why}", hint="was it fetched?"
                ) from error

    def add(self, file: BinaryIO, name: str = "") -> None:
        """One file, from its start."""
        self._file, self._line, self._fields, self._returns = name, 0, 0, False
        if file.read(len(_MARK)) != _MARK:
            file.seek(0)
        self._blocks(file)

    def _blocks(self, file: BinaryIO) -> None:
        rest, endless, empty = b"", False, True
        while text := file.read(BLOCK):
            empty = False
            if endless:
                # The rest of a line that was longer than a block is passed over.
                _, newline, text = text.partition(b"\n")
                self._line += len(newline)
                endless = not newline
            text = rest + text
            end = text.rfind(b"\n") + 1
            if end:
                self._block(text[:end])
            rest = text[end:]
            if len(rest) > BLOCK:
                self._refuse(self._line + 1, rest)
                rest, endless = b"", True
        if empty:
            self.remarks.append(f"{self._file}: empty")
        elif rest:
            # Written by halves: the last number may lack digits, even if it looks whole.
            self._refuse(self._line + 1, rest, cut=True)

    def _block(self, text: bytes) -> None:
        if self._fast(text, self._fields):
            return
        if b"\r\n" in text:
            if not self._returns:
                self._returns = True
                line = self._line + text.count(b"\n", 0, text.index(b"\r\n")) + 1
                self.remarks.append(
                    f"{self._file}: line {line}: the line ends in CR and LF; read as if it were LF"
                )
            text = text.replace(b"\r\n", b"\n")
        self._fields = self._fields or self._vote(text)
        self._halves(text)

    def _halves(self, text: bytes) -> None:
        """Whole lines; those around one that is no plain row are found by halving."""
        if self._fast(text, self._fields):
            return
        middle = text.rfind(b"\n", 0, len(text) // 2) + 1 if len(text) > _SINGLY else 0
        if not middle:
            self._slow(text)
            return
        self._halves(text[:middle])
        self._halves(text[middle:])

    def _vote(self, text: bytes) -> int:
        """How many fields most rows have; 0 without a row. A line cut in the middle may look like a row."""
        lines = text.split(b"\n", _VOTERS)[:-1]
        votes = Counter(line.count(self.between) + 1 for line in lines if self.row.fullmatch(line))
        return votes.most_common(1)[0][0] if votes else 0

    def _fast(self, text: bytes, fields: int) -> bool:
        lines = lines_of(text, fields, self.between) if fields else None
        if lines is None or not self.take(lines):
            return False
        self._line += len(lines)
        return True

    def _slow(self, text: bytes) -> None:
        good = []
        for line in text[:-1].split(b"\n"):
            self._line += 1
            match = self.row.fullmatch(line)
            if match is None or not (self.mixed or line.count(self.between) + 1 == self._fields):
                self._refuse(self._line, line)
            elif why := self.without(match):
                self.left_out[why] += 1
            else:
                good.append(self.plain(match))
        last = self._line
        if good and not self._fast(b"".join(good), self.fields):
            raise AssertionError("a row that its own pattern allows was not taken")
        self._line = last

    def _refuse(self, line: int, text: bytes, *, cut: bool = False) -> None:
        self.bad += 1
        if self.first_bad is None:
            self.first_bad = BadLine(self._file, line, text[:_EXCERPT].decode(errors="replace"), cut)
