"""The programs of ``blocklab_node`` on hosts: where they are, and how they are run."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files

from blocklab.model import places
from blocklab.model.plan import Argv

# Not on a disk: a host that boots again gets them again.
FOLDER = places.run("node")
NAMES = (
    "checksum", "drbd", "fill", "latency", "monitor", "net_mirror", "open_loop", "sampler", "stamp",
    "tables", "verbs",
)  # fmt: skip
# For hosts whose disks are not the lab's.
OF_DISKS = ("claims", "disk_users", "disks")


def path(name: str) -> str:
    """Where a program is on every host."""
    return f"{FOLDER}/{name}.py"


def program(name: str, *words: str) -> Argv:
    """The command that runs a program."""
    return ("python3", "-I", "-S", path(name), *words)


@functools.cache
def text(name: str) -> str:
    """A program's text."""
    return files("blocklab_node").joinpath(f"{name}.py").read_text(encoding="utf-8")


@functools.cache
def digest() -> str:
    """12 hex digits that change with any of them."""
    return hashlib.sha256("".join(map(text, NAMES)).encode()).hexdigest()[:12]
