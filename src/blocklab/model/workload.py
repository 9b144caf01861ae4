"""What a workload must offer, and what only some workloads can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import msgspec

from blocklab.model.capability import Capability
from blocklab.model.drill import Attempt, Ledger, Verdict
from blocklab.model.ground import LinkSpec
from blocklab.model.plan import Argv, Fact, Kind, Port, Step
from blocklab.model.sample import Parsed
from blocklab.model.stop import Rule


class Command(msgspec.Struct, frozen=True):
    """One command that makes load: at most ``seconds`` long, leaving ``fetch`` (files on the host) behind.

    ``around``: commands whose output is kept from just before and just after the workload, as the raw files
    ``<name>.before`` and ``<name>.after``: a server's counters, of which the workload's part is the difference.
    """

    host: str
    argv: Argv
    seconds: float
    fetch: tuple[str, ...] = ()
    around: Mapping[str, Argv] = {}


class Workload(Protocol):
    """A command that puts work on a stack, and the parser of what it printed. What only some workloads can do is a
    protocol of its own, below."""

    takes: ClassVar[tuple[Kind, ...]]

    @property
    def client(self) -> str:
        """The node that it runs on (``from`` in the study); empty for the stack's own."""

    def problems(self) -> list[tuple[str, str]]:
        """(field, problem and hint) pairs."""

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """Steps before each measurement (files, tables); their undo runs after it."""

    def command(self, port: Port) -> Command:
        """The command to measure."""

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """Samples out of ``raw``: ``stdout``, ``stderr`` and each fetched file by its base name.

        Raises ``ParseError``.
        """


@runtime_checkable
class Ruled(Workload, Capability, Protocol):
    """A workload that can go on for as long as one likes, so that a stopping rule may end it."""

    rates: ClassVar[tuple[str, ...]]
    """The metrics by which one tells whether it was measured long enough."""

    def rule(self) -> Rule | None:
        """When it was measured long enough; None where its fields give it a length."""

    def trials(self, seconds: float) -> Mapping[str, Self]:
        """Each phase by its name as a workload of its own that takes so many seconds; ``""`` for one without
        phases."""


@runtime_checkable
class Reporting(Capability, Protocol):
    """A workload that tells beforehand what it measures."""

    metrics: ClassVar[tuple[str, ...]]
    """Every metric that its values may be of, its server's included."""


@runtime_checkable
class Reseeded(Capability, Protocol):
    """A workload whose program draws the same random numbers each time unless it is told otherwise."""

    def reseeded(self, number: int) -> Self:
        """The same workload with a seed of its own for each ``number``: rounds that draw alike agree more
        than they should."""


@runtime_checkable
class Steadied(Capability, Protocol):
    """A workload whose tool tells how each short round began."""

    def steady(self, parsed: Parsed) -> Parsed:
        """What a round found, its rates without how it began."""


@runtime_checkable
class Live(Capability, Protocol):
    """A workload that can be followed while it runs, and ended early with a whole summary."""

    ends_on: ClassVar[int]
    """The signal upon which its program ends with a summary."""

    def watched(self, command: Command) -> Command:
        """The same command, so that it prints its metrics meanwhile."""

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """Each rate in each second so far, given what a trial has printed. Raises ``ParseError``."""


@runtime_checkable
class SlowStart(Capability, Protocol):
    """A workload whose program takes a while before it begins."""

    head_start: ClassVar[float]
    """So long (s) at least."""


@runtime_checkable
class Armed(Capability, Protocol):
    """A workload whose command needs files that are made again each time."""

    def arm(self, port: Port) -> tuple[Step, ...]:
        """Quick steps before each single start of the command."""


@runtime_checkable
class WithData(Capability, Protocol):
    """A workload that needs much data."""

    def data(self, port: Port) -> tuple[Step, ...]:
        """Steps that load what takes long to load, so that nothing is left to write back. They run once for each
        layout; before each further measurement their result is restored from a copy of the volumes."""


@runtime_checkable
class Lasting(Capability, Protocol):
    """A workload that leaves what was prepared for it as it was."""

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """Steps whose result is as good for the next measurement that asks for the same ones on the same stack, so
        that they run once for all of these; their undo runs before a workload that asks for others."""


@runtime_checkable
class Asking(Capability, Protocol):
    """A workload that has something to ask of its system."""

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """Questions once it is prepared, e.g. the tool's version."""


@runtime_checkable
class Estimated(Capability, Protocol):
    """A workload whose fields tell how long it takes."""

    def lasts(self) -> float | None:
        """Seconds of one start; None where it ends by work done, or by its stopping rule: see ``Ruled.trials``."""


@runtime_checkable
class Phased(Capability, Protocol):
    """A workload with phases that have metrics of their own."""

    @property
    def phases(self) -> tuple[str, ...] | None:
        """Their names; None where only the output tells."""

    @property
    def phase_count(self) -> int:
        """How many there are at least, without making them all."""


@runtime_checkable
class Shaped(Capability, Protocol):
    """A workload whose phases differ in a few options, by which a chart can lay them out."""

    def shapes(self) -> dict[str, dict[str, str]]:
        """Phase -> option -> value: ``{"iodepth": "32", "bs": "16k"}``; empty where that is not known."""


@runtime_checkable
class CountsIo(Capability, Protocol):
    """A workload that tells how many bytes it moved, so that the kernel's counters can confirm it."""

    program: ClassVar[str]
    """What it is called in a sentence about its counts."""

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """fio's options of each of its jobs, which say how its own counts compare with the devices'."""


@runtime_checkable
class QueueDepths(Capability, Protocol):
    """A workload that does I/O itself, so that the machine's own limits hold for it."""

    def queue_depths(self) -> Mapping[str, int | None]:
        """How many I/Os each phase has under way at once; None for I/O through the page cache."""


@runtime_checkable
class NeedsSpace(Capability, Protocol):
    """A workload whose fields tell how much data it makes."""

    @property
    def room(self) -> int:
        """Bytes that it surely needs; 0 where its fields do not tell after all."""


@runtime_checkable
class Connected(Capability, Protocol):
    """A workload on a database."""

    @property
    def sessions(self) -> int:
        """How many connections it has at once."""


@runtime_checkable
class ByTcp(Capability, Protocol):
    """A workload whose program reaches a database by TCP alone, on its own host too."""

    by_tcp: ClassVar[bool]


class Asked(msgspec.Struct, frozen=True):
    """What was asked of one phase.

    ``rates``: metric (``read.iops``, ``tps``) -> requests per second; empty for a phase that goes as fast as it
    can. ``exact``: there are exactly rate x ``seconds`` requests; else their number is a matter of chance too.
    ``seconds``: how long it goes, None where that is not known. ``level``: in percent of the need.
    """

    rates: Mapping[str, float] = {}
    seconds: float | None = None
    exact: bool = False
    level: int = 100

    @property
    def total(self) -> float:
        """All requests per second."""
        return sum(self.rates.values())


@runtime_checkable
class Paced(Capability, Protocol):
    """A workload that may have phases with an open loop: requests begin when they are due, whatever became of
    others, and their latency counts from then."""

    def asked_rates(self) -> Mapping[str, Asked]:
        """Each phase with a rate, and those that show how much more there would be; empty without any rate."""


class Way(NamedTuple):
    """How a workload's client reaches a host: over which link."""

    host: str
    name: str
    link: LinkSpec


class History(Protocol):
    """What a client has on record of its transactions."""

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Every transaction, by the time when it was due."""

    @property
    def stop(self) -> float | None:
        """When the last one was due (s since the epoch, by the client's clock); None where that is not known."""

    def before(self, struck: float | None, host: str) -> Parsed:
        """The workload's values until the fault struck, which the client's node ``host`` has: what it does on this
        layout in peace. Empty where nothing was acknowledged by then."""


class Checker(Protocol):
    """How a client's history and what the database has are read, and what both say together. All pure.

    ``raw``: what commands printed, by the names that these have here, and as ``<name>.stderr`` their errors.
    """

    def history(self, text: bytes) -> History:
        """What is in the client's file, the first one of ``Command.fetch``. Raises ``ParseError``."""

    def reads(self, port: Port) -> Mapping[str, Argv]:
        """Commands for ``port.host`` that print what the database has, by name."""

    def found(self, raw: Mapping[str, bytes]) -> Ledger:
        """What these printed. Raises ``ParseError`` where nothing is known."""

    def logs(self, raw: Mapping[str, bytes]) -> Mapping[str, Argv]:
        """Commands for the server's own host that print its logs, by name, given what ``reads`` printed; some may
        fail. None where there are none. Raises ``ParseError`` where there are some that cannot be read."""

    def logged(self, raw: Mapping[str, bytes]) -> frozenset[int] | None:
        """The transactions that the logs have as committed; None without any. Raises ``ParseError``."""

    def verdict(
        self,
        attempts: Sequence[Attempt] | None,
        ledger: Ledger | None,
        fault: float | None,
        why_unread: str = "",
        *,
        until: float | None = None,
        binlog_unread: str = "",
    ) -> Verdict:
        """What was lost, and how long nothing was acknowledged; ``unknown`` where what is missing (None) is needed
        for it. Times by the client's clock."""


@runtime_checkable
class Drilled(Workload, Capability, Protocol):
    """A workload whose client keeps what became of each transaction, so that faults may strike under it."""

    checker: ClassVar[Checker]
    """How its history is read and judged."""

    @property
    def after(self) -> float:
        """How long (s) it goes on after writes are accepted again."""

    @property
    def patience(self) -> float:
        """How long (s) a transaction waits for its answer."""

    def writer(self, port: Port, addresses: Sequence[str], seconds: float) -> Command:
        """Its command for ``seconds`` or until SIGTERM, on whichever of ``addresses`` accepts writes. It prints
        its counters, a line of JSON every 100 ms (``runner.strikes.Count``)."""

    def late(self, stack: str, ways: Sequence[Way]) -> list[tuple[str, str]]:
        """What it cannot have in time over these links, the active node's first: (field, problem and hint)
        pairs."""
