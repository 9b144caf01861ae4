"""Where node images, calibrations and charts' scripts are kept. Standard library only: `doctor` reads it before
anything is installed."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$BLOCKLAB_CACHE``, else ``$XDG_CACHE_HOME/blocklab``, else ``~/.cache/blocklab``. May not exist yet."""
    if own := os.environ.get("BLOCKLAB_CACHE"):
        return Path(own).absolute()
    # The XDG specification: a relative path is to be ignored.
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if shared.startswith("/") else Path.home() / ".cache") / "blocklab"
