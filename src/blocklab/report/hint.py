"""What to do about a file that cannot be written."""

from __future__ import annotations

import errno
from pathlib import Path


def hint(path: Path, error: OSError) -> str:
    """The hint for an error on the way to writing ``path``."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}: make it, or name another file"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"name another file, or ask the owner of {path.parent}"
    return "make room, or name another file"
