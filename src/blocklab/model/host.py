"""The narrow seam to machines: hosts that run commands, and sites that give hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from blocklab.errors import CommandError
from blocklab.model.ground import Ground, Topology


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
        """The exit code. Raises ``TimeoutError`` after ``timeout`` seconds, ``NodeLost``, ``StoreError`` as soon
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
        """Run a command to its end. ``TimeoutError`` after ``timeout`` seconds; the command is killed."""

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file; folders above it are made."""

    def get(self, path: str) -> bytes:
        """A file's content. Raises ``FileNotFoundError``."""

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> Proc:
        """Start a command; its standard output and error stream into the local files ``out`` and ``err``."""

    def crash(self) -> None:
        """End the machine at once, as a power cut does; nothing when it is dead already. It is gone on return."""

    def freeze(self) -> None:
        """Stop the machine where it is: it neither answers nor ends, and does not notice."""

    def thaw(self) -> None:
        """Let a frozen machine go on."""


class Lab(Protocol):
    """A started site."""

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The machines by name."""

    def volume(self, stack: str, node: str, index: int = 0) -> Path | None:
        """The local file behind a raw volume, where the site has one."""

    def boot(self, name: str) -> None:
        """Start a machine anew that was crashed, with its volumes as they are; ``hosts`` has the new one.

        Raises ``SetupError`` for one that is not dead, ``NodeLost`` when it does not come up.
        """

    def save(self, name: str) -> None:
        """Keep a copy of all raw volumes for ``restore``, as long as the lab lives. Nothing may use them now.

        Raises ``SetupError`` where there is no room for it.
        """

    def saved(self, name: str) -> bool:
        """Whether there is a copy of that name."""

    def restore(self, name: str) -> None:
        """Put all raw volumes back as they were when the copy was made; empty, for the name ``""``. Nothing may
        use them now."""

    def refill(self) -> None:
        """Give all raw volumes their whole burst again, used or not. Raises ``SetupError``."""

    def shortage(self) -> str:
        """What is lacking where the machines stand (room, say), with the cure; empty where nothing is known to be
        lacking."""

    def close(self) -> None:
        """End every node and remove what was made; safe to call twice."""


class Site(Protocol):
    """A way to get machines."""

    def ground(self, topology: Topology) -> Ground:
        """The names that ``start`` will give; pure. Raises ``StudyError``, ``SetupError``."""

    def start(self, topology: Topology) -> Lab:
        """Start the machines; on an error nothing is left. Raises ``SetupError``, ``NodeLost``."""

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """The fingerprint: kernel, CPU model, tools and their versions, of nodes with these add-ons. JSON-able.

        Raises ``ImageError`` where there are no such nodes.
        """


def must(host: Host, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0, hint: str = "") -> str:
    """Run a command that has to succeed; its standard output. Raises ``CommandError``."""
    try:
        result = host.run(argv, input=input, timeout=timeout)
    except TimeoutError as error:
        raise CommandError(host.name, argv, -9, f"did not end in {timeout:g} s; killed", hint=hint) from error
    if result.code != 0:
        raise CommandError(host.name, argv, result.code, result.said, hint=hint)
    return result.text
