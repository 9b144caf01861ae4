"""Whole numbers out of the text of many lines at once.

A block of lines of one form is checked byte by byte and read with a fixed number of array operations, whatever the
number of lines. The trick of eight digits with three multiplications is from Daniel Lemire, "Quickly parsing eight
digits" (https://lemire.me/blog/2022/01/21/swar-explained-parsing-eight-digits/).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

WIDEST = 18
"""Digits: a number of so many fits 64 bits."""
_DIGITS = 8
_ZERO, _NINE, _NEWLINE = b"09\n"


def keep_freed_memory() -> None:
    """Makes glibc keep what is freed for the next block, which takes half the time: it gives arrays of a block's
    size back to the kernel until it has freed a larger one."""
    np.empty(1 << 24, np.uint8)


def lines_of(text: bytes, fields: int, between: bytes) -> Lines | None:
    """The lines of a text that ends with a newline, each of ``fields`` numbers without a sign, with ``between``
    (``", "`` or ``" "``) between them. None unless all lines are of that form."""
    # So that the eight bytes from any digit on can be read.
    padded = text + bytes(2 * _DIGITS - len(text) % _DIGITS)
    block = np.frombuffer(padded, np.uint8, len(text))
    if block.max() > _NINE:
        return None
    # What sorts below the digits has to be between two fields or at the end of a line.
    marks = block < _ZERO
    ends = np.flatnonzero(marks)
    gap = len(between)
    each = (fields - 1) * gap + 1
    count, rest = divmod(len(ends), each)
    if marks[0] or rest or not (block.take(ends[each - 1 :: each]) == _NEWLINE).all():
        return None
    # The number of marks and the newlines are right: if there are as many gaps as there should be, each line has
    # its share. Two marks in a row are the two bytes of one gap, or have an empty field between them.
    gaps = count * (fields - 1)
    first = block == between[0]
    if np.count_nonzero(marks[1:] & marks[:-1]) != gaps * (gap - 1) or np.count_nonzero(first) != gaps:
        return None
    if gap > 1 and (first[: len(block) - gap + 1] != (block == between[-1])[gap - 1 :]).any():
        return None
    return Lines(padded, np.ascontiguousarray(ends.reshape(count, each)[:, ::gap].T), gap)


class Lines:
    """Lines of one form. ``ends`` holds the place after each number: a row for each field."""

    def __init__(self, text: bytes, ends: Integers, gap: int) -> None:
        self._words = np.frombuffer(text, np.uint64)
        self._ends = ends
        self._gap = gap

    def __len__(self) -> int:
        return len(self._ends[0])

    def widths(self, field: int) -> Integers:
        """The digits of each number of a field."""
        ends = self._ends
        starts = ends[field - 1] + self._gap if field else np.concatenate(([0], ends[-1][:-1] + 1))
        widths: Integers = ends[field] - starts
        return widths

    def numbers(self, field: int) -> Integers | None:
        """A field; None if one of its numbers is wider than ``WIDEST``."""
        ends, widths = self._ends[field], self.widths(field)
        widest = int(widths.max())
        if widest > WIDEST:
            return None
        found = self._eight(ends, np.minimum(widths, _DIGITS) if widest > _DIGITS else widths)
        for known in range(_DIGITS, widest, _DIGITS):
            found += self._eight(ends - known, np.clip(widths - known, 0, _DIGITS)) * 10**known
        return found

    def _eight(self, ends: Integers, widths: Integers) -> Integers:
        """The numbers of 0 to 8 digits before ``ends``; 0 for one of none."""
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
        for tens, bits, mask in _PAIRS:
            word *= np.uint64(tens << bits | 1)
            word >>= np.uint64(bits)
            word &= np.uint64(mask)
        return word.view(np.int64)


_PAIRS = ((10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10_000, 32, 0x00000000FFFFFFFF))
