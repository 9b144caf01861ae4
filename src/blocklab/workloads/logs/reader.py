"""Reads log files in blocks of whole lines: fast where all lines of a block are rows, one by one where not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from blocklab.errors import ParseError
from blocklab.workloads.logs.columns import PAD, Columns, Lines
from blocklab.workloads.logs.summary import BadLine

# Fits a core's second cache together with what is computed from it.
BLOCK = 1 << 19
# Of a bad line that is kept.
_EXCERPT = 200
# The byte order mark that some editors put before a text.
_MARK = b"\xef\xbb\xbf"
# Lines that vote on how many fields a file's lines have.
_VOTERS = 1000
# Bytes that are no longer halved, but read line by line.
_SINGLY = 4096


class Rules(Protocol):
    """A kind of log."""

    tool: str
    between: bytes
    """What is between two fields."""
    row: re.Pattern[bytes]
    """A line that is a row, without its end."""
    fields: int
    """Of a line that ``plain`` gives."""

    def plain(self, match: re.Match[bytes]) -> bytes:
        """The row with nothing but what ``take`` reads, all numbers, no longer than it was; with the newline."""

    def without(self, match: re.Match[bytes]) -> str:
        """What a row says in place of its latency, which is noted; empty if it has one."""

    def take(self, lines: Lines) -> bool:
        """Add the rows of a block; False, with nothing added, if one of them is none."""


class Reader:
    """What was read so far, by one set of rules."""

    def __init__(self, rules: Rules) -> None:
        self.bad = 0
        self.first_bad: BadLine | None = None
        self.left_out: Counter[str] = Counter()
        self.remarks: list[str] = []
        self._rules = rules
        self._buffer, self._columns = self._space()
        self._aside: tuple[bytearray, Columns] | None = None
        # Of the file that is being read.
        self._file = ""
        self._line = 0
        self._fields = 0
        self._returns = False

    def _space(self) -> tuple[bytearray, Columns]:
        buffer = bytearray(BLOCK + 2 * PAD)
        return buffer, Columns(buffer, self._rules.between)

    def read(self, paths: Iterable[str | Path]) -> None:
        """All files in this order; raises ``ParseError`` for one that cannot be read."""
        for path in paths:
            self._file, self._line, self._fields, self._returns = str(path), 0, 0, False
            try:
                with Path(path).open("rb", buffering=0) as file:
                    if file.read(len(_MARK)) != _MARK:
                        file.seek(0)
                    self._blocks(file)
            except OSError as error:
                raise ParseError(
                    self._rules.tool, f"its log {path} cannot be read: {error.strerror}", hint="was it fetched?"
                ) from error

    def _blocks(self, file: BinaryIO) -> None:
        view = memoryview(self._buffer)
        have, endless, empty = 0, False, True
        while got := file.readinto(view[PAD + have : PAD + BLOCK]):  # type: ignore[attr-defined]
            empty = False
            top = PAD + have + got
            # The rest of a line that was longer than a block is passed over.
            low = self._buffer.find(b"\n", PAD, top) + 1 if endless else PAD
            high = self._buffer.rfind(b"\n", PAD, top) + 1
            if not high:
                if not endless and top == PAD + BLOCK:
                    endless = True
                    self._refuse(self._line + 1, bytes(view[PAD : PAD + _EXCERPT]))
                have = 0 if endless else top - PAD
                continue
            self._line += endless
            endless = False
            if low < high:
                self._block(low, high)
            have = top - high
            view[PAD : PAD + have] = view[high:top]
        if empty:
            self.remarks.append(f"{self._file}: empty")
        elif have:
            # Written by halves: the last number may lack digits, even if it looks whole.
            self._refuse(self._line + 1, bytes(view[PAD : PAD + have]))

    def _block(self, low: int, high: int) -> None:
        if self._fast(self._columns, low, high, self._fields):
            return
        text = bytes(memoryview(self._buffer)[low:high])
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
        if self._beside(text, self._fields):
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
        votes = Counter(line.count(self._rules.between) + 1 for line in lines if self._rules.row.fullmatch(line))
        return votes.most_common(1)[0][0] if votes else 0

    def _fast(self, columns: Columns, low: int, high: int, fields: int) -> bool:
        if not fields:
            return False
        lines = columns.lines(low, high, fields)
        if lines is None or not self._rules.take(lines):
            return False
        self._line += len(lines)
        return True

    def _beside(self, text: bytes, fields: int) -> bool:
        """As ``_fast``, of a text that is not in the buffer."""
        if self._aside is None:
            self._aside = self._space()
        buffer, columns = self._aside
        buffer[PAD : PAD + len(text)] = text
        return self._fast(columns, PAD, PAD + len(text), fields)

    def _slow(self, text: bytes) -> None:
        rules, good = self._rules, []
        for line in text[:-1].split(b"\n"):
            self._line += 1
            match = rules.row.fullmatch(line)
            if match is None or line.count(rules.between) + 1 != self._fields:
                self._refuse(self._line, line)
            elif why := rules.without(match):
                self.left_out[why] += 1
            else:
                good.append(rules.plain(match))
        last = self._line
        if good and not self._beside(b"".join(good), rules.fields):
            raise AssertionError("a row that its own pattern allows was not taken")
        self._line = last

    def _refuse(self, line: int, text: bytes) -> None:
        self.bad += 1
        if self.first_bad is None:
            self.first_bad = BadLine(self._file, line, text[:_EXCERPT].decode(errors="replace"))
