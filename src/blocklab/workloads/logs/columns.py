"""Whole numbers out of the text of many lines at once.

A block of lines of one form is checked byte by byte and read with a fixed number of array operations, whatever the
number of lines. The trick of eight digits with three multiplications is from Daniel Lemire, "Quickly parsing eight
digits" (https://lemire.me/blog/2022/01/21/swar-explained-parsing-eight-digits/).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

PAD = 64
"""Bytes before and after a block that can be read, whatever is in them."""
WIDEST = 18
"""Digits: a number of so many fits 64 bits."""
_DIGITS = 8
_NINE = ord("9")
_ZERO = ord("0")
_NEWLINE = ord("\n")


class Columns:
    """Reads blocks that lie in ``buffer``, the first of whose and the last ``PAD`` bytes are no part of a block.

    Lines are ``fields`` numbers without a sign, with ``between`` (``", "`` or ``" "``) between them.
    """

    def __init__(self, buffer: bytearray, between: bytes) -> None:
        self._bytes = np.frombuffer(buffer, np.uint8)
        self._words = np.frombuffer(buffer, np.uint64, count=len(buffer) // _DIGITS)
        self._gap = len(between)
        self._between = tuple(between)
        self._marks = np.empty(len(buffer), np.bool_)
        self._pairs = np.empty(len(buffer), np.bool_)
        self._others = np.empty(len(buffer), np.bool_)

    def lines(self, low: int, high: int, fields: int) -> Lines | None:
        """The lines in ``[low, high)``, which ends with a newline; None unless each of them is of that form."""
        block = self._bytes[low:high]
        if block.max() > _NINE:
            return None
        # What sorts below the digits has to be between two fields or at the end of a line.
        marks = np.less(block, _ZERO, out=self._marks[: len(block)])
        if marks[0]:
            return None
        ends = np.flatnonzero(marks)
        each = (fields - 1) * self._gap + 1
        count, rest = divmod(len(ends), each)
        if rest or not (block.take(ends[each - 1 :: each]) == _NEWLINE).all():
            return None
        if not self._between_all(block, marks, count * (fields - 1)):
            return None
        ends += low
        return Lines(self._bytes, self._words, ends.reshape(count, each), low, self._gap)

    def _between_all(self, block: NDArray[np.uint8], marks: NDArray[np.bool_], gaps: int) -> bool:
        """Whether there are as many gaps between fields, all of them right, and no field is empty.

        The number of marks and the newlines are right already, so a line has its share of the gaps.
        """
        pairs = np.logical_and(marks[1:], marks[:-1], out=self._pairs[: len(block) - 1])
        # Two marks in a row are the two bytes of one gap, or have an empty field between them.
        if np.count_nonzero(pairs) != gaps * (self._gap - 1):
            return False
        first = np.equal(block, self._between[0], out=self._marks[: len(block)])
        if np.count_nonzero(first) != gaps:
            return False
        if self._gap == 1:
            return True
        second = np.equal(block, self._between[1], out=self._others[: len(block)])
        return not np.not_equal(first[:-1], second[1:], out=pairs).any()


class Lines:
    """Lines of one form. ``grid`` holds the places of what is no digit: a row for each line."""

    def __init__(
        self, text: NDArray[np.uint8], words: NDArray[np.uint64], grid: Integers, low: int, gap: int
    ) -> None:
        self._text = text
        self._words = words
        self._grid = grid
        self._low = low
        self._gap = gap
        self._ends: dict[int, Integers] = {}

    def __len__(self) -> int:
        return len(self._grid)

    def ends(self, field: int) -> Integers:
        """The place after each number of a field."""
        if field not in self._ends:
            self._ends[field] = np.ascontiguousarray(self._grid[:, field * self._gap])
        return self._ends[field]

    def widths(self, field: int) -> Integers:
        """The digits of each number of a field."""
        if field:
            widths: Integers = self.ends(field) - self.ends(field - 1)
            widths -= self._gap
            return widths
        widths = self.ends(0).copy()
        widths[0] -= self._low
        widths[1:] -= self._grid[:-1, -1]
        widths[1:] -= 1
        return widths

    def digits(self, field: int) -> Integers | None:
        """A field that is one digit in each line; else None."""
        if self.widths(field).max() > 1:
            return None
        return (self._text.take(self.ends(field) - 1) - _ZERO).astype(np.int64)

    def numbers(self, field: int) -> Integers | None:
        """A field; None if one of its numbers is wider than ``WIDEST``."""
        ends, widths = self.ends(field), self.widths(field)
        narrowest, widest = int(widths.min()), int(widths.max())
        if widest > WIDEST:
            return None
        found = self._low_digits(ends, widths, widest)
        for digit in range(_DIGITS, widest):
            digits = self._text.take(ends - (digit + 1)) - _ZERO
            if narrowest > digit and digits.min() == digits.max():
                # The first digits of the seconds since the epoch are the same for years.
                found += int(digits[0]) * 10**digit
                continue
            part = digits.astype(np.int64)
            part *= 10**digit
            # Where the number is shorter, that byte is another field's.
            part *= widths > digit
            found += part
        return found

    def _low_digits(self, ends: Integers, widths: Integers, widest: int) -> Integers:
        """The last eight digits of each number, or all there are."""
        if widest > _DIGITS:
            widths = np.minimum(widths, _DIGITS)
        # The eight bytes from a start lie in two aligned words; the first byte is the lowest (little-endian).
        at = ends - widths
        shift: NDArray[np.uint64] = (at & 7).view(np.uint64)
        shift <<= np.uint64(3)
        at >>= 3
        word = self._words.take(at)
        word >>= shift
        at += 1
        np.subtract(64, shift, out=shift)
        # A shift by 64, where the bytes are one word, gives 0 in numpy.
        beyond = self._words.take(at)
        beyond <<= shift
        word |= beyond
        word &= np.uint64(0x0F0F0F0F0F0F0F0F)
        # The last digit to the highest byte: what follows the number falls off, zeros go before it.
        widths = widths << 3
        word <<= np.subtract(64, widths, out=widths).view(np.uint64)
        # Pairs of digits, then pairs of pairs, then the two fours.
        word *= np.uint64(10 << 8 | 1)
        word >>= np.uint64(8)
        word &= np.uint64(0x00FF00FF00FF00FF)
        word *= np.uint64(100 << 16 | 1)
        word >>= np.uint64(16)
        word &= np.uint64(0x0000FFFF0000FFFF)
        word *= np.uint64(10_000 << 32 | 1)
        word >>= np.uint64(32)
        return word.view(np.int64)
