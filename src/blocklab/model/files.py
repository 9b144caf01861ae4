"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file by one rename: whoever reads meanwhile finds the old content or the new, never a part.

    Raises ``OSError``; then the old content is still there, and nothing else.
    """
    with whole(path) as half:
        half.write_bytes(data)


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The same for what is written piece by piece: a path beside it, which gets its name at the end."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield half
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
