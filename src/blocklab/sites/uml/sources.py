"""Sources of the image's own programs: their version, and the shell text that writes them down in a build."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

NATIVE = Path(str(resources.files("blocklab"))) / "native"
"""The folder of what is not Python: Rust, Go, C, the kernel's patches, the nodes' first program."""

# Ends a file in a shell text; no source has such a line.
_END = "END_OF_FILE_OF_BLOCKLAB"


def version(sources: Mapping[str, str]) -> str:
    """What a program calls its version: the first 12 hex digits of a hash of its sources."""
    digest = hashlib.sha256()
    for name, text in sources.items():
        digest.update(f"{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()[:12]


def written(sources: Mapping[str, str], folder: str) -> str:
    """Lines for ``sh`` that write the sources into ``folder``, which the shell expands. Raises ``ValueError`` for
    a source that they cannot hold."""
    if any(_END in text or not text.endswith("\n") for text in sources.values()):
        raise ValueError(f"a source has {_END} in it, or no line end at its end")
    return "\n".join(f"cat > \"{folder}/{name}\" <<'{_END}'\n{text}{_END}" for name, text in sources.items())
