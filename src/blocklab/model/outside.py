"""Files and JSON from outside. Whatever they hold, reading them ends, takes no more memory than its limit, and
fails with one error that names the file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from blocklab.errors import Unreadable

T = TypeVar("T")

# What people write: studies, hosts files, job files.
MOST_TEXT = 4 << 20
# What programs write and blocklab reads as a whole: it takes several times as much memory.
MOST_DATA = 1 << 30
_AT_ONCE = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def opened(path: Path) -> BufferedReader:
    """A regular file, for reading. Raises ``Unreadable`` for anything else, and never waits for a writer."""
    try:
        # A device may do something when it is opened, and a socket cannot be.
        _regular(path, path.stat().st_mode)
        held = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    file = os.fdopen(held, "rb")
    try:
        # Another may have taken its name in between.
        _regular(path, os.fstat(held).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def data(path: Path, most: int = MOST_DATA) -> bytes:
    """All of a regular file. Raises ``Unreadable``."""
    with opened(path) as file:
        try:
            found = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
            # It grew, or is of /proc, which says no size, and waits for nothing.
            while len(found) <= most and (more := file.read(_AT_ONCE)):
                found += more
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(found) > most:
        raise Unreadable(str(path), f"is larger than {most >> 20} MiB", hint="give a part of it")
    return found


def text(path: Path, most: int = MOST_TEXT) -> str:
    """All of a regular file in UTF-8, without a byte order mark. Raises ``Unreadable``."""
    found = data(path, most)
    try:
        return found.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise Unreadable(str(path), "is not UTF-8", line=line, hint="save it as UTF-8") from error


def as_json(source: str | bytes, name: str) -> Any:
    """A document of JSON, as plain data. ``name`` says where it comes from. Raises ``Unreadable``, which is a
    ``ValueError`` too."""
    return _decoded(lambda: json.loads(source), name)


def next_json(source: str, at: int) -> tuple[Any, int]:
    """The document of JSON that begins at a place, and where it ends. Raises ``Unreadable``."""
    return _decoded(lambda: _DECODER.raw_decode(source, at), "")


def typed_json(source: str | bytes, kind: type[T], name: str, *, strict: bool = True) -> T:
    """A document of JSON as a ``kind``. Raises ``Unreadable``."""
    return _decoded(lambda: msgspec.json.decode(source, type=kind, strict=strict), name)


def typed_lines(source: str | bytes, kind: type[T], name: str) -> list[T]:
    """Lines of JSON, each a ``kind``. Raises ``Unreadable``."""
    return _decoded(lambda: msgspec.json.Decoder(kind).decode_lines(source), name)


_DECODER = json.JSONDecoder()


def _decoded(decode: Callable[[], T], name: str) -> T:
    try:
        return decode()
    except RecursionError as error:
        raise Unreadable(name, "JSON that is nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise Unreadable(name, str(error)) from error
    except ValueError as error:
        raise Unreadable(name, "JSON with a number of thousands of digits") from error


def _regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise Unreadable(str(path), f"is {kind}, not a file", hint="give a regular file")


def _unreadable(path: Path, error: OSError | ValueError) -> Unreadable:
    if isinstance(error, Unreadable):
        return error
    # A ValueError is of a name with a NUL.
    return Unreadable(str(path), (error.strerror if isinstance(error, OSError) else "") or str(error))
