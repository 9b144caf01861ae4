"""blocklab as a user calls it, and a small study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

BLOCKLAB = [sys.executable, "-m", "blocklab.cli.main"]


PLAIN = {"layer": "volume", "size": "512MiB"}


def write(document: dict[str, Any], folder: Path) -> Path:
    path = folder / "study.yaml"
    YAML().dump(document, path)
    return path
