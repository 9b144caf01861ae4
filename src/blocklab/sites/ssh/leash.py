"""A program on a host that ends with its connection: see ``sites.leashed``."""

from __future__ import annotations

import contextlib
import selectors
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec

from blocklab.errors import HostError, HostTimeout, SetupError
from blocklab.sites.leashed import GRACE_SECONDS, Order
from blocklab.sites.ssh.connect import ssh_argv
from blocklab.sites.ssh.hosts import HostEntry, known_hosts_of, load

COMMAND = "leashed"
# A shell's codes for a program that is not there, or is none.
_NO_PROGRAM = (126, 127)


class Leashable(msgspec.Struct, frozen=True):
    """A host of a hosts file."""

    name: str
    entry: HostEntry
    known_hosts: Path

    @property
    def address(self) -> str:
        """What ssh connects to."""
        return self.entry.address

    def start(self, order: Order) -> Leash:
        """Start a program there. Raises ``SetupError`` without ssh here."""
        return Leash(self.name, self.entry, self.known_hosts, order)


def leashable(path: Path) -> list[Leashable]:
    """The hosts of a hosts file. Raises ``StudyError``."""
    known = known_hosts_of(path)
    return [Leashable(name, entry, known) for name, entry in load(path).hosts.items()]


class Leash:
    """The program of an order. ``name`` is the host's."""

    def __init__(self, name: str, entry: HostEntry, known_hosts: Path, order: Order) -> None:
        """Start it. Raises ``SetupError`` without ssh here."""
        self.name = name
        self._entry = entry
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        argv = [*ssh_argv(entry, known_hosts), shlex.join([entry.blocklab, COMMAND])]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
            )
        except FileNotFoundError as error:
            self._errors.close()
            raise SetupError("this machine has no ssh", hint="install OpenSSH's client") from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        # One that has ended already says why when it is asked.
        with contextlib.suppress(BrokenPipeError):
            self._in.write(msgspec.json.encode(order) + b"\n")
            self._in.flush()

    def told(self, seconds: float) -> bytes:
        """The line that it prints. Raises ``HostError`` where it ended, ``HostTimeout``."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._out, selectors.EVENT_READ)
            if not waiting.select(seconds):
                raise HostTimeout(self.name, seconds)
        line = self._out.readline()
        self.check(wait=not line)
        return line

    def check(self, *, wait: bool = False) -> None:
        """Raises ``HostError`` with what it said, once it has ended."""
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        code = self._process.poll()
        if code is None and not wait:
            return
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        last = said.splitlines()[-1] if said else f"exit code {code}"
        if code in _NO_PROGRAM:
            hint = "pip install 'blocklab[dask]' there, or name the program in the hosts file: blocklab: PATH"
            raise HostError(self.name, f"it has no {self._entry.blocklab}", hint=hint)
        if "No module named 'distributed'" in said or "No such command" in said:
            hint = f"pip install 'blocklab[dask]' there, of the version that is here ({last})"
            raise HostError(self.name, "its blocklab cannot work for Dask", hint=hint)
        raise HostError(self.name, last, hint="blocklab hosts check FILE tells more" if code == 255 else "")

    def close(self) -> None:
        """End it, and wait until it has ended there."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()
        self._errors.close()
