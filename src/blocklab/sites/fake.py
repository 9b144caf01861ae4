"""A site without machines, for tests: hosts that write down what they are told and answer from a table.

``answer`` gets (host, argv) and returns a ``Result``, or a ``Play`` for a spawned command that goes on; it may
raise ``NodeLost`` to play a crash. It offers every capability, of which a test may leave some out.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import HostError, HostTimeout, NodeLost, SetupError
from blocklab.model.ground import Ground, NodeSpec, Topology, VolumeSpec
from blocklab.model.host import Result
from blocklab.model.knobs import Tables
from blocklab.model.plan import Argv
from blocklab.model.site import (
    EmulatedLinks,
    EmulatedVolumes,
    Journal,
    KnownOptions,
    Leftovers,
    OneMachine,
    Pauses,
    Power,
    Refill,
    Room,
    Snapshots,
)
from blocklab.sites.journal import Due, replay
from blocklab.sites.machine import given_name
from blocklab.sites.names import ground
from blocklab_node.journal import Journal as Journaled

Answer = Callable[[str, Argv], Result]
OK = Result(0, b"", b"")


def always_ok(_host: str, _argv: Argv) -> Result:
    """Every command succeeds and prints nothing."""
    return OK


class Play(Result, frozen=True, kw_only=True):
    """A spawned command that goes on, without any time passing.

    Each ``poll`` lets it print one of ``pieces`` (standard output, standard error). After the last one it ends by
    itself if it ``ends``; a signal out of ``heeds`` ends it at once. Then it prints ``out`` and ``err``, ``code``
    is its exit code and ``cpu`` the seconds that it took of its host's CPU. SIGKILL ends it without a word.
    """

    pieces: tuple[tuple[bytes, bytes], ...] = ()
    ends: bool = False
    heeds: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    cpu: float | None = None


class FakeProc:
    """A command that ended at once, or a ``Play``."""

    def __init__(self, result: Result, host: FakeHost, argv: Argv, out: Path, err: Path) -> None:
        self._result = result
        self._host = host
        self._argv = argv
        self._files = out, err
        self._pieces = list(result.pieces) if isinstance(result, Play) else []
        self._code: int | None = None
        out.touch()
        err.touch()
        if not isinstance(result, Play):
            self._end(result.code)

    def _say(self, *texts: bytes) -> None:
        for file, text in zip(self._files, texts, strict=True):
            with file.open("ab") as stream:
                stream.write(text)

    def _end(self, code: int) -> None:
        if code != -signal.SIGKILL:
            self._say(self._result.out, self._result.err)
        self._code = code

    def poll(self) -> int | None:
        """The exit code; None while it goes on, by one piece of its output."""
        if self._code is None and self._pieces:
            self._say(*self._pieces.pop(0))
        elif isinstance(self._result, Play) and self._result.ends and self._code is None:
            self._end(self._result.code)
        return self._code

    def wait(self, timeout: float) -> int:
        """The exit code. ``HostTimeout`` at once for what does not end by itself."""
        while self._pieces and self._code is None:
            self.poll()
        code = self.poll()
        if code is None:
            raise HostTimeout(self._host.name, timeout)
        return code

    @property
    def cpu(self) -> float | None:
        """What the ``Play`` says, once it has ended; a plain ``Result`` does not tell."""
        return self._result.cpu if isinstance(self._result, Play) and self._code is not None else None

    def signal(self, number: int) -> None:
        """Noted in the log; it ends what heeds it."""
        self._host.log.append((self._host.name, ("signal", str(number), *self._argv)))
        if isinstance(self._result, Play) and self._code is None:
            if number == signal.SIGKILL:
                self._end(-number)
            elif number in self._result.heeds:
                self._end(self._result.code)


class FakeHost:
    """A host whose commands go into ``log`` (shared by all hosts of the lab, in order)."""

    def __init__(self, name: str, answer: Answer, log: list[tuple[str, Argv]]) -> None:
        self.name = name
        self.log = log
        self.files: dict[str, bytes] = {}
        self._answer = answer
        self.crashed = False

    def _ask(self, argv: Sequence[str]) -> Result:
        if self.crashed:
            raise NodeLost(self.name, "crashed on purpose")
        self.log.append((self.name, tuple(argv)))
        return self._answer(self.name, tuple(argv))

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout: float = 60.0) -> Result:
        """Noted, and answered from the table."""
        return self._ask(argv)

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Kept in ``files``."""
        self._ask(("put", path))
        self.files[path] = data

    def get(self, path: str) -> bytes:
        """What was put, or what the table answers to ``get PATH``."""
        if path in self.files:
            return self.files[path]
        return self._ask(("get", path)).out

    def spawn(self, argv: Sequence[str], out: Path, err: Path) -> FakeProc:
        """Answered from the table; a plain ``Result`` is in the files at once."""
        return FakeProc(self._ask(argv), self, tuple(argv), out, err)


OFFERS = frozenset(
    {
        Power,
        Pauses,
        Snapshots,
        Refill,
        EmulatedLinks,
        EmulatedVolumes,
        OneMachine,
        Room,
        Journal,
        Leftovers,
        KnownOptions,
    }
)


class FakeLab:
    """Hosts of the topology that share one log."""

    def __init__(self, topology: Topology, site: FakeSite) -> None:
        self.offers = site.offers
        self.log: list[tuple[str, Argv]] = []
        self.closed = False
        self.copies: list[str] = []
        self.lacks = ""
        self._site = site
        self._hosts = {name: FakeHost(name, site.answer, self.log) for name in topology.nodes}

    @property
    def hosts(self) -> Mapping[str, FakeHost]:
        """The hosts by name."""
        return self._hosts

    def crash(self, host: str) -> None:
        """Noted; every later call to it raises ``NodeLost``."""
        self.log.append((host, ("crash",)))
        self._hosts[host].crashed = True

    def freeze(self, host: str) -> None:
        """Noted."""
        self.log.append((host, ("freeze",)))

    def thaw(self, host: str) -> None:
        """Noted."""
        self.log.append((host, ("thaw",)))

    def boot(self, host: str) -> None:
        """Noted; it answers again. Raises ``SetupError`` for one that was not crashed."""
        if not self._hosts[host].crashed:
            raise SetupError(f"{host} was not crashed, so it cannot be booted again")
        self.log.append((host, ("boot",)))
        self._hosts[host].crashed = False

    def save(self, name: str) -> None:
        """Noted in the log and in ``copies``."""
        self.log.append(("", ("save", name)))
        self.copies.append(name)

    def restore(self, name: str) -> None:
        """Noted in the log."""
        self.log.append(("", ("restore", name)))

    def set_latencies(self, spec: VolumeSpec, added: Mapping[str, float], *, whole: bool) -> None:
        """Noted in the log."""
        latencies = (f"{way}={latency:g}" for way, latency in added.items())
        self.log.append(("", ("latencies", spec.nodes[0], *latencies, *(("whole",) if whole else ()))))

    def spent(self) -> Mapping[str, float]:
        """Four CPUs of which one is busy, by the lab; programs waited half of the time."""
        now = time.monotonic()
        return {"time": now, "all": 4 * now, "busy": now, "steal": 0.0, "foreign": 0.0, "pressure": now / 2}

    def refill(self) -> None:
        """Noted in the log."""
        self.log.append(("", ("refill", "all")))

    def note(self, host: str, number: int, argv: Argv) -> None:
        """In the host's journal, where the site keeps one. Raises ``HostError``."""
        if self._site.journal is not None:
            with self._site.journaled(host) as journal:
                journal.note(number, list(argv))

    def done(self, host: str, numbers: Sequence[int]) -> None:
        """In the host's journal, where the site keeps one. Raises ``HostError``."""
        if self._site.journal is not None and numbers:
            with self._site.journaled(host) as journal:
                journal.done(list(numbers))

    def shortage(self) -> str:
        """What ``lacks`` says."""
        return self.lacks

    def close(self) -> None:
        """Noted."""
        self.closed = True


class FakeSite:
    """Gives fake labs; ``labs`` keeps them all, for a test to look at.

    ``without``: capabilities that it does not offer. ``journal``: a folder for the journals of its hosts, which
    then outlive their lab: ``clean`` runs what is left.
    """

    name = "fake"

    def __init__(
        self, answer: Answer = always_ok, *, without: Collection[type] = (), journal: Path | None = None
    ) -> None:
        self.offers = OFFERS - set(without)
        self.labs: list[FakeLab] = []
        self.answer = answer
        self.journal = journal
        self.cleaned: list[tuple[str, Argv]] = []
        self.machine = "0123456789ab"
        self.tables: Tables = {}

    def ground(self, topology: Topology) -> Ground:
        """Names by their numbers."""
        return ground(topology)

    def start(self, topology: Topology) -> FakeLab:
        """A new fake lab."""
        self.labs.append(FakeLab(topology, self))
        return self.labs[-1]

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """Its name, and ``machine``, or what ``BLOCKLAB_MACHINE`` says."""
        return {"site": self.name, "machine": self.machine, "name": self.name} | given_name()

    def options(self, addons: tuple[str, ...] = ()) -> Tables:
        """What was kept."""
        return self.tables

    def keep_options(self, tables: Tables, addons: tuple[str, ...] = ()) -> None:
        """In ``tables``."""
        self.tables = {**self.tables, **tables}

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        """All that one wants."""
        return ""

    @contextlib.contextmanager
    def journaled(self, host: str) -> Iterator[Journaled]:
        """A host's own journal. Raises ``HostError``."""
        assert self.journal is not None
        try:
            yield Journaled(str(self.journal / f"{host}.jsonl"))
        except OSError as error:
            raise HostError(host, f"its journal of undos cannot be written: {error.strerror}") from error

    def left(self, host: str) -> list[Due]:
        """The undos that are due on a host, the last one first."""
        with self.journaled(host) as journal:
            return [Due(each["number"], tuple(each["argv"]), True) for each in journal.due()[::-1]]

    def with_undos(self) -> list[str]:
        """The hosts on which something is left."""
        assert self.journal is not None
        return sorted(path.stem for path in self.journal.glob("*.jsonl"))

    def clean(self) -> list[str]:
        """Run what is left in the journals, on hosts that answer as those of a lab do."""
        self.cleaned = []
        lab = FakeLab(Topology(dict.fromkeys(self.with_undos(), NodeSpec()), {}, ()), self)
        failed = []
        for name in lab.hosts:
            host = FakeHost(name, self.answer, self.cleaned)
            said = replay(host, self.left(name), functools.partial(lab.done, name))
            failed += [said] if said else []
        return failed
