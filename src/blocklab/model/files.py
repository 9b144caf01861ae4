"""Files that are whole or not there. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file by one rename: whoever reads meanwhile finds the old content or the new, never a part.

    Raises ``OSError``; then the old content is still there, and nothing else.
    """
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_bytes(data)
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
