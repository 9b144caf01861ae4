"""A host over SSH: the ``Host`` that its agent makes of it, and the journal of undos that the agent keeps
there."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from blocklab.errors import HostError, SetupError
from blocklab.model import node_programs, places
from blocklab.model.host import Result, must
from blocklab.model.plan import Argv
from blocklab.sites import portable
from blocklab.sites.agented import Agented, AgentProc
from blocklab.sites.channel import Call, collect
from blocklab.sites.journal import Due, replay
from blocklab.sites.ssh import facts
from blocklab.sites.ssh.connect import Connection, connect
from blocklab.sites.ssh.hosts import HostEntry, Hosts
from blocklab.sites.ssh.line import HeldLine

T = TypeVar("T")

# Put on hosts where they lack, into a folder that their PATH ends with.
PORTABLE = frozenset({"blocklab-ledger", "go-tpc"})
READY_SECONDS = 20.0
# Its commands get SIGTERM, then SIGKILL.
END_SECONDS = 15.0


def who() -> str:
    """Who is at work, for those who find the host in use."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, since {since}"


class SshHost(Agented):
    """A connected host. Raises ``Unreachable`` where there is no agent to be had."""

    channel: HeldLine

    def __init__(self, name: str, entry: HostEntry, known_hosts: Path) -> None:
        self.name = name
        self.entry = entry
        self._known_hosts = known_hosts
        self._token = secrets.token_hex(8)
        self.address = ""
        self._provided: set[str] = set()
        self._ending: Call | None = None
        self.damaged: list[str] = []
        """The lines of its journal that could not be read."""
        super().__init__(name, HeldLine(name, self._connect))
        until = time.monotonic() + READY_SECONDS
        while not self.channel.ready.wait(0.1) and not self.channel.lost and time.monotonic() < until:
            pass
        if not self.channel.ready.is_set():
            # Where it is lost, this says why.
            self.left()
            self.close()
            raise SetupError(f"{name} ({entry.address}): its agent does not answer", hint="try again")

    def _connect(self, new: bool) -> Connection:
        order = {"token": self._token, "new": new, "who": who()}
        connection = connect(self.name, self.entry, self._known_hosts, order)
        self.address = connection.address
        return connection

    def again(self) -> SshHost:
        """The same host with a new agent, once this one is gone."""
        return SshHost(self.name, self.entry, self._known_hosts)

    # -- programs of our own that no system has -------------------------------------------------------

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0) -> Result:
        """Run a command to its end; ``HostTimeout`` kills it."""
        self._provide(argv)
        return super().run(argv, input=input, timeout=timeout)

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> AgentProc:
        """Start a command; its output streams into ``out`` and ``err``."""
        self._provide(argv)
        return super().spawn(argv, out, err)

    def _provide(self, argv: Sequence[str]) -> None:
        """Put those of them on the host that a command, or one that it starts, asks for the first time: by name
        where it has none, by path as ours."""
        for word in argv:
            program = word.rpartition("/")[2]
            ours = word in (program, f"{places.PROGRAMS}/{program}")
            if program not in PORTABLE or not ours or word in self._provided:
                continue
            self._provided.add(word)
            if self.lacking([word]) and (file := portable(program)) is not None:
                self.put(f"{places.PROGRAMS}/{program}", file.read_bytes(), 0o755)

    def lacking(self, programs: Sequence[str]) -> list[str]:
        """Which of these it has not."""
        return must(self, self.verb("lacking", *programs)).split()

    def verb(self, *words: str) -> Argv:
        """The command of a verb (``blocklab_node.verbs``), which is put there."""
        self.put(node_programs.path("verbs"), node_programs.text("verbs").encode())
        return node_programs.program("verbs", *words)

    # -- the journal -----------------------------------------------------------------------------------

    def note(self, number: int, argv: Sequence[str]) -> None:
        """Keep an undo on the host's disk. Raises ``HostError``."""
        self._journaled("note", number=number, undo=list(argv))

    def done(self, numbers: Sequence[int]) -> None:
        """Drop undos. Raises ``HostError``."""
        self._journaled("done", numbers=list(numbers))

    def left(self) -> list[Due]:
        """The undos that are due, the last one first. Raises ``HostError``."""
        out, err, sink = collect()
        call = self.order("left", sink)
        end = call.wait(60.0)
        if end.errno:
            raise HostError(self.name, f"its journal of undos cannot be read: {end.error}")
        try:
            self.damaged = msgspec.json.decode(b"".join(err), type=list[str])
            return msgspec.json.decode(b"".join(out), type=list[Due])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise HostError(self.name, f"what its agent says of its journal cannot be read: {error}") from error

    def _journaled(self, op: str, **fields: Any) -> None:
        end = self.order(op, lambda *_: None, **fields).wait(60.0)
        if end.errno:
            said = f"its journal of undos cannot be written: {end.error}"
            raise HostError(
                self.name, said, hint="make room below /var/lib on it: without it nothing could be undone"
            )

    def replay(self) -> str:
        """Run the undos that an earlier run has left; in words what could not be undone. Raises ``NodeLost``."""
        failed = replay(self, self.left(), self.done)
        if failed:
            # A program that outlived its agent may hold what is to be undone.
            self._journaled("sweep")
            failed = replay(self, self.left(), self.done)
        if self.damaged and not failed:
            # The file goes with the last undo, and with it what was in these lines: once, this is said.
            self.done([])
            return f"{self.name}: {damage(self.damaged)}"
        return failed

    # -- the end ---------------------------------------------------------------------------------------

    def dismiss(self) -> None:
        """Tell the agent to end all that it started, and itself."""
        self.channel.expected.set()
        with contextlib.suppress(HostError):
            self._ending = self.order("end", lambda *_: None)

    def close(self) -> None:
        """End the agent, then the connection."""
        if self._ending is None:
            self.dismiss()
        with contextlib.suppress(HostError):
            if self._ending is not None:
                # It does not answer: the line ends with it.
                self._ending.wait(END_SECONDS)
        self.channel.close()


def damage(lines: Sequence[str]) -> str:
    """In words what of a journal cannot be read."""
    count, first = len(lines), lines[0]
    return f"lines in its journal of undos that cannot be read: {count}, the first of them {first!r}"


def suits(host: SshHost, path: Path, hosts: Hosts) -> Iterator[tuple[str, str]]:
    """What of a host is not as its file says, with a hint; and netem where our own connection is."""
    entry = hosts.hosts[host.name]
    called = host.run(facts.MACHINE["name"]).text.strip()
    if called != (entry.hostname or host.name):
        yield (
            f"{host.name}: it calls itself {called}, not {entry.hostname or host.name}",
            f"is it the right host? Then write to {path}: hosts.{host.name}.hostname: {called}",
        )
    for name, link in hosts.links.items():
        end = link.ends.get(host.name)
        if end is None:
            continue
        there = host.run(("ip", "-4", "-o", "addr", "show", "dev", end.interface)).text
        # 2: ens5    inet 10.0.1.10/24 brd 10.0.1.255 scope global dynamic ens5\       valid_lft ...
        addresses = [part.partition("/")[0] for part in there.split() if "/" in part]
        if end.address not in addresses:
            yield (
                f"links.{name}.ends.{host.name}: {end.interface} on {host.name} has not the address "
                f"{end.address}, but {', '.join(addresses) or 'none'}",
                f"correct {path}; blocklab changes no address",
            )
        if link.emulate and host.address in addresses:
            yield (
                f"links.{name}: {end.interface} on {host.name} carries this connection, so netem is not put on it",
                "use another interface for the link, or leave out `emulate`",
            )


def parallel(work: Callable[[Any], T], things: Sequence[Any]) -> list[T]:
    """The results in order; the first error is raised after all have ended."""
    if not things:
        return []
    with ThreadPoolExecutor(len(things)) as pool:
        return [each.result() for each in [pool.submit(work, thing) for thing in things]]
