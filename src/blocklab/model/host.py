"""The narrow seam to machines: hosts that run commands. ``model.site`` has the sites that give them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from blocklab.errors import CommandError, HostTimeout


class Result(msgspec.Struct, frozen=True):
    """How a command ended: exit code (negative: the signal that killed it) and what it printed."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode(errors="replace")

    @property
    def said(self) -> str:
        """Both streams, for a message."""
        return (self.out + self.err).decode(errors="replace")


class Proc(Protocol):
    """A command that runs on a host by itself, its output streaming into files of ours."""

    def poll(self) -> int | None:
        """The exit code, or None while it runs. Raises ``NodeLost`` when its host is gone, ``StoreError`` when its
        output cannot be written."""

    def wait(self, timeout: float) -> int:
        """The exit code. Raises ``HostTimeout`` after ``timeout`` seconds, ``NodeLost``, ``StoreError`` as soon
        as its output cannot be written."""

    def signal(self, number: int) -> None:
        """Send a signal to the command; nothing happens when it has ended."""

    @property
    def cpu(self) -> float | None:
        """The seconds of its host's CPU that it took, with what it waited for; None while it runs, and where the
        host does not tell."""


class Host(Protocol):
    """One machine. Every method raises ``NodeLost`` when the machine is gone, and may raise the ``StoreError`` of
    a command that was spawned."""

    name: str

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0) -> Result:
        """Run a command to its end. ``HostTimeout`` after ``timeout`` seconds; the command is killed."""

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file; folders above it are made."""

    def get(self, path: str) -> bytes:
        """A file's content. Raises ``FileNotFoundError``."""

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> Proc:
        """Start a command; its standard output and error stream into the local files ``out`` and ``err``."""


def must(host: Host, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0, hint: str = "") -> str:
    """Run a command that has to succeed; its standard output. Raises ``CommandError``."""
    try:
        result = host.run(argv, input=input, timeout=timeout)
    except HostTimeout as error:
        raise CommandError(host.name, argv, -9, f"did not end in {timeout:g} s; killed", hint=hint) from error
    if result.code != 0:
        raise CommandError(host.name, argv, result.code, result.said, hint=hint)
    return result.text
