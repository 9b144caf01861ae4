"""On a host: a program that lives as long as the connection which started it.

Standard input has an ``Order`` as one line of JSON. Its end is the end of the program, of all that it started in
its process group, and of the order's files.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

import msgspec

HERE = "{folder}"
GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.2


class Leash(Protocol):
    """A program on a host, from here."""

    def told(self, seconds: float) -> bytes:
        """The line that it prints. Raises ``HostError`` where it ended, ``HostTimeout``."""

    def check(self) -> None:
        """Raises ``HostError`` with what it said, once it has ended."""

    def close(self) -> None:
        """End it, and wait until it has ended there."""


class Leashable(Protocol):
    """A host on which a program can be held."""

    name: str

    @property
    def address(self) -> str:
        """What is connected to."""

    def start(self, order: Order) -> Leash:
        """Start one. Raises ``SetupError``."""


class Order(msgspec.Struct, frozen=True):
    """``module`` and ``arguments`` of Python; ``{folder}`` in them is a new folder with the ``files`` (name to
    text), which only this user can read. ``tell``: a file there that is printed, as one line, once it has JSON."""

    module: str
    arguments: tuple[str, ...]
    files: dict[str, str] = {}
    tell: str = ""


def main() -> int:
    """Exit code 0 at the end of standard input, that of the program if it ended before."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    with tempfile.TemporaryDirectory(prefix="blocklab-") as folder:
        for name, text in order.files.items():
            (Path(folder) / name).write_text(text)
        arguments = [each.replace(HERE, folder) for each in order.arguments]
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", order.module, *arguments],
            stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True,
        )  # fmt: skip
        try:
            return _watched(process, Path(folder) / order.tell if order.tell else None)
        finally:
            _end(process)


def _watched(process: subprocess.Popen[bytes], tell: Path | None) -> int:
    while process.poll() is None:
        if tell is not None and (said := _said(tell)):
            print(said, flush=True)
            tell = None
        if select.select([sys.stdin], [], [], _LOOK_SECONDS)[0] and not os.read(0, 1 << 16):
            return 0
    return process.returncode


def _said(tell: Path) -> str:
    """A file's JSON as one line; empty while it has none."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.encode(msgspec.json.decode(tell.read_bytes())).decode()
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and its group: asked first, then not."""
    deadline = time.monotonic() + GRACE_SECONDS
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    process.wait()
