"""A file line by line, without all of it in memory: statistics of a week are hundreds of megabytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

from blocklab.errors import Unreadable
from blocklab.formats.text import Refused, Text
from blocklab.model import outside

_BLOCK = 1 << 20


class Lines(Sequence[str]):
    """The whole lines of a file, without their ends; each walk through them reads it again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count, self.cut, self.first_crlf = self._looked_through()

    def _looked_through(self) -> tuple[int, str, int]:
        count, crlf, rest = 0, 0, b""
        for block in self._blocks():
            if not crlf and (at := (rest[-1:] + block).find(b"\r\n")) >= 0:
                crlf = count + block[: max(0, at - len(rest[-1:]))].count(b"\n") + 1
            count += block.count(b"\n")
            end = block.rfind(b"\n")
            rest = rest + block if end < 0 else block[end + 1 :]
        return count, _decoded(rest), crlf

    def _blocks(self) -> Iterator[bytes]:
        try:
            with outside.opened(self._path) as file:
                while block := file.read(_BLOCK):
                    yield block
        except Unreadable as error:
            raise Refused(f"cannot be read: {error.problem}") from error
        except OSError as error:
            raise Refused(f"cannot be read: {error.strerror}") from error

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def __iter__(self) -> Iterator[str]:
        """From the first to the last whole one."""
        rest, first = b"", True
        for block in self._blocks():
            whole, end, begun = block.rpartition(b"\n")
            if not end:
                rest += block
                continue
            text = _decoded(rest + whole)
            rest = begun
            yield from (text.removeprefix("\ufeff") if first else text).split("\n")
            first = False

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        """Some of them: it walks through those before them."""
        if isinstance(at, slice):
            return list(islice(self, *at.indices(self._count)))
        place = range(self._count)[at]
        return next(islice(self, place, None))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\r")


def streamed(path: Path) -> Text:
    """A file that need not fit in memory. Raises ``Refused``."""
    lines = Lines(path)
    remarks = []
    if lines.first_crlf:
        remarks.append(f"line {lines.first_crlf}: the line ends in CR and LF; read as if it were LF")
    return Text(path, lines, lines.cut, tuple(remarks))
