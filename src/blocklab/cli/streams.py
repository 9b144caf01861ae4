"""Standard output and standard error: what cannot be written there is one message."""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TextIO


class Unwritable(OSError):
    """Standard output cannot be written."""


class _Output(io.TextIOWrapper):
    """A stream whose failure says whose it is. A reader that has gone away stays a ``BrokenPipeError``."""

    def write(self, text: str) -> int:
        with _Named():
            return super().write(text)

    def flush(self) -> None:
        with _Named():
            super().flush()


class _Errors(io.TextIOWrapper):
    """Standard error: there is no other place to say that it cannot be written."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _away(self)


class _Named:
    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError | Unwritable):
            raise Unwritable(error.errno, error.strerror) from error


class _Closed(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise Unwritable(9, "it is closed")


def prepare() -> None:
    """To be called before anything is printed."""
    # What is opened later would otherwise get the number of one that is closed, and what is printed there.
    while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(held)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), "utf-8", write_through=True)
    else:
        sys.stdout = _again(sys.stdout, _Output)
    if sys.stderr is not None:
        sys.stderr = _again(sys.stderr, _Errors)
    for name in ("COLUMNS", "LINES"):
        # Rich would make a table of no columns.
        text = os.environ.get(name, "1")
        if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) > 0):
            del os.environ[name]


def give_up(error: Unwritable) -> str:
    """Why standard output cannot be written. What is left of it goes nowhere, or the interpreter would say it once
    more at its end."""
    _away(sys.stdout)
    return f"standard output cannot be written: {error.strerror}"


def _again(stream: TextIO, kind: type[_Output] | type[_Errors]) -> TextIO:
    # What the encoding lacks is shown as \\xb1.
    encoding, lines = stream.encoding, getattr(stream, "line_buffering", False)
    return kind(stream.detach(), encoding, "backslashreplace", line_buffering=lines)  # type: ignore[attr-defined]


def _away(stream: IO[str]) -> None:
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
