"""What a layer, a load and a probe must offer: the plan (pure) and the parser (pure)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import msgspec

from blocklab.model.drill import Replicas
from blocklab.model.ground import Ground, LinkSpec, Profile, Topology
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Step
from blocklab.model.sample import Parsed, Sample
from blocklab.model.stop import Rule


class Place(msgspec.Struct, frozen=True):
    """Where a layer is planned: its stack, the host it is active on, a number unique to the stack in the lab
    (DRBD minors, TCP ports), and the ground.

    ``listen``: addresses at which loads on other nodes want to reach a database, beside its own socket and
    loopback.
    """

    stack: str
    host: str
    number: int
    ground: Ground
    listen: tuple[str, ...] = ()


class Layer(Protocol):
    """One level of a stack. What only some layers can do is a protocol of its own, below."""

    takes: ClassVar[Kind | None]
    gives: ClassVar[Kind]

    @property
    def tag(self) -> str:
        """The layer's name in a study."""

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """What is wrong with this layer on ``host`` of the study's nodes and links: (field, problem and hint)
        pairs; empty when all is well."""

    def width(self, below: int) -> int:
        """How many ports it gives on a host where the layer below gives ``below`` of them.

        Raises ``ValueError`` with problem and hint when it cannot stand on so many.
        """

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Steps, facts and the ports above, given the ports below (those of ``place.host`` first)."""


@runtime_checkable
class RawVolumes(Protocol):
    """The lowest layer, where the site has to give it volumes."""

    def profiles(self) -> tuple[Profile, ...]:
        """The raw volumes that the site must give on each host."""


@runtime_checkable
class Linked(Protocol):
    """A layer that sends data over a link."""

    @property
    def link(self) -> str:
        """The link's name."""


@runtime_checkable
class Paired(Protocol):
    """A layer on two nodes that is active on one: a mirror, or a disk that both nodes have.

    The layers below are built on both nodes.
    """

    one_copy: ClassVar[bool]
    """Whether both nodes have the same volumes, rather than a copy each."""

    @property
    def peer(self) -> str:
        """The other node."""

    @property
    def survivor(self) -> str:
        """The node that can take over when the active one is gone; empty where none can."""

    def failed_over(self, peer: str) -> Self:
        """The same layer once ``survivor`` is active, with ``peer`` as the other node."""

    def takeover(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Of a failed-over layer: steps on ``place.host`` that make it active there, the other node being gone or
        cut off. The layers below it stand there."""

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Steps that make it active on ``place.host`` again, by itself, after its nodes were all rebooted. The
        layers below it stand there; ``rejoin`` takes the other node in."""

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """What holds on ``place.host`` between ``takeover`` and ``rejoin``. It asks no other node."""

    def rejoin(self, place: Place, below: tuple[Port, ...]) -> tuple[Step, ...]:
        """Steps that take the other node in again, which has just booted, while this layer is active on
        ``place.host``; at their end both sides have the same data."""


@runtime_checkable
class Mirror(Paired, Linked, Protocol):
    """A layer that keeps a copy of the data on another node."""

    @property
    def connected(self) -> bool:
        """Whether it sends each write to its peer; not where it is measured with the peer cut off."""

    def split_brain(self, place: Place) -> tuple[str, Argv]:
        """(host, argv) that prints something where the two sides were written to apart from each other, so that
        neither has all."""

    def replicas(self, place: Place, below: tuple[Port, ...]) -> Replicas | None:
        """How its two sides are compared; None where the peer is cut off."""


@runtime_checkable
class DrbdResource(Protocol):
    """A mirror of whose connection DRBD tells: the monitor of a takeover listens to it beside its pings."""

    def resource(self, stack: str) -> str:
        """The resource's name."""


@runtime_checkable
class Database(Protocol):
    """A layer that is a database server."""

    @property
    def max_connections(self) -> int | None:
        """How many connections it takes at once; None where only the server itself can tell."""

    def memory(self) -> Mapping[str, tuple[str, float]]:
        """The settings that give it memory: field -> (its value in the study, bytes; 0 where only the server can
        read it)."""


@runtime_checkable
class Sized(Protocol):
    """A block device or a file system that needs some of what is below it for itself."""

    def holds(self, below: Sequence[int]) -> list[int]:
        """Bytes of each port above, given those below. Raises ``ValueError`` with problem and hint where these are
        too few."""


@runtime_checkable
class Choosy(Protocol):
    """A layer that not every layer of the right kind may be below."""

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """What keeps it from standing on these layers, the lowest first: (field, problem and hint) pairs."""


@runtime_checkable
class Drawn(Protocol):
    """A layer that says what the diagram of its stack shows."""

    @property
    def title(self) -> str:
        """Its name for people."""

    def details(self) -> Mapping[str, Any]:
        """What the study sets of it: label -> value. The label of what needs none is empty."""


@runtime_checkable
class NamedDevice(Protocol):
    """A layer whose block device the kernel gives a name of its own."""

    device: ClassVar[str]
    """How the name begins: ``drbd`` of ``/dev/drbd0``."""


@runtime_checkable
class Equipped(Protocol):
    """A layer that needs more of its node's image than what every image has."""

    needs: ClassVar[tuple[str, ...]]
    """The add-ons, as in ``blocklab image build --with``."""


@runtime_checkable
class Imported(Protocol):
    """A layer or a workload that was measured elsewhere: it cannot be built or run."""

    imported: ClassVar[Literal[True]]

    @property
    def says(self) -> str:
        """What it was, in the words of whoever measured it."""


class Load(msgspec.Struct, frozen=True):
    """One command that makes load: at most ``seconds`` long, leaving ``fetch`` (files on the host) behind.

    ``around``: commands whose output is kept from just before and just after the load, as the raw files
    ``<name>.before`` and ``<name>.after``: a server's counters, of which the load's part is the difference.
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

    def load(self, port: Port) -> Load:
        """The command to measure."""

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """Samples out of ``raw``: ``stdout``, ``stderr`` and each fetched file by its base name.

        Raises ``ParseError``.
        """


@runtime_checkable
class Ruled(Workload, Protocol):
    """A workload that can go on for as long as one likes, so that a stopping rule may end it."""

    rates: ClassVar[tuple[str, ...]]
    """The metrics by which one tells whether it was measured long enough."""

    def rule(self) -> Rule | None:
        """When it was measured long enough; None where its fields give it a length."""

    def trials(self, seconds: float) -> Mapping[str, Self]:
        """Each phase by its name as a workload of its own that takes so many seconds; ``""`` for one without
        phases."""


@runtime_checkable
class Reseeded(Protocol):
    """A workload whose program draws the same random numbers each time unless it is told otherwise."""

    def reseeded(self, number: int) -> Self:
        """The same workload with a seed of its own for each ``number``: rounds that draw alike agree more
        than they should."""


@runtime_checkable
class Steadied(Protocol):
    """A workload whose tool tells how each short round began."""

    def steady(self, parsed: Parsed) -> Parsed:
        """What a round found, its rates without how it began."""


@runtime_checkable
class Live(Protocol):
    """A workload that can be followed while it runs, and ended early with a whole summary."""

    ends_on: ClassVar[int]
    """The signal upon which its program ends with a summary."""

    def watched(self, load: Load) -> Load:
        """The same command, so that it prints its metrics meanwhile."""

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """Each rate in each second so far, given what a trial has printed. Raises ``ParseError``."""


@runtime_checkable
class SlowStart(Protocol):
    """A workload whose program takes a while before it begins."""

    head_start: ClassVar[float]
    """So long (s) at least."""


@runtime_checkable
class Armed(Protocol):
    """A workload whose command needs files that are made anew each time."""

    def arm(self, port: Port) -> tuple[Step, ...]:
        """Quick steps before each single start of the command."""


@runtime_checkable
class WithData(Protocol):
    """A workload that needs much data."""

    def data(self, port: Port) -> tuple[Step, ...]:
        """Steps that load what takes long to load, so that nothing is left to write back. They run once for each
        layout; before each further measurement their result is restored from a copy of the volumes."""


@runtime_checkable
class Lasting(Protocol):
    """A workload that leaves what was prepared for it as it was."""

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """Steps whose result is as good for the next measurement that asks for the same ones on the same stack, so
        that they run once for all of these; their undo runs before a workload that asks for others."""


@runtime_checkable
class Asking(Protocol):
    """A workload that has something to ask of its system."""

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """Questions once it is prepared, e.g. the tool's version."""


@runtime_checkable
class Estimated(Protocol):
    """A workload whose fields tell how long it takes."""

    def lasts(self) -> float | None:
        """Seconds; None where it ends by work done."""


@runtime_checkable
class Phased(Protocol):
    """A workload with phases that have metrics of their own."""

    @property
    def phases(self) -> tuple[str, ...] | None:
        """Their names; None where only the output tells."""

    @property
    def phase_count(self) -> int:
        """How many there are at least, without making them all."""


@runtime_checkable
class Shaped(Protocol):
    """A workload whose phases differ in a few options, by which a chart can lay them out."""

    def shapes(self) -> dict[str, dict[str, str]]:
        """Phase -> option -> value: ``{"iodepth": "32", "bs": "16k"}``; empty where that is not known."""


@runtime_checkable
class CountsIo(Protocol):
    """A workload that tells how many bytes it moved, so that the kernel's counters can confirm it."""

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """fio's options of each of its jobs, which say how its own counts compare with the devices'."""


@runtime_checkable
class QueueDepths(Protocol):
    """A workload that does I/O itself, so that the machine's own limits hold for it."""

    def queue_depths(self) -> Mapping[str, int | None]:
        """How many I/Os each phase has under way at once; None for I/O through the page cache."""


@runtime_checkable
class NeedsSpace(Protocol):
    """A workload whose fields tell how much data it makes."""

    @property
    def room(self) -> int:
        """Bytes that it surely needs; 0 where its fields do not tell after all."""


@runtime_checkable
class Connected(Protocol):
    """A workload on a database."""

    @property
    def sessions(self) -> int:
        """How many connections it has at once."""


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
class Paced(Protocol):
    """A workload that may have phases with an open loop: requests begin when they are due, whatever became of
    others, and their latency counts from then."""

    def asked_rates(self) -> Mapping[str, Asked]:
        """Each phase with a rate, and those that show how much more there would be; empty without any rate."""


class Way(NamedTuple):
    """How a workload's client reaches a host: over which link."""

    host: str
    name: str
    link: LinkSpec


@runtime_checkable
class Drilled(Workload, Protocol):
    """A workload whose client keeps what became of each transaction, so that faults may strike under it."""

    @property
    def after(self) -> float:
        """How long (s) it goes on after writes are accepted again."""

    @property
    def patience(self) -> float:
        """How long (s) a transaction waits for its answer."""

    def writer(self, port: Port, addresses: Sequence[str], seconds: float) -> Load:
        """Its command for ``seconds`` or until SIGTERM, on whichever of ``addresses`` accepts writes."""

    def late(self, stack: str, ways: Sequence[Way]) -> list[tuple[str, str]]:
        """What it cannot have in time over these links, the active node's first: (field, problem and hint)
        pairs."""


class Scene(msgspec.Struct, frozen=True):
    """Where a fault strikes: the stack's active node and its other one (empty without), its name and number, the
    ground, the links by name, and the ports of each of its hosts, the lowest first."""

    stack: str
    number: int
    active: str
    peer: str
    ground: Ground
    links: Mapping[str, LinkSpec]
    ports: Mapping[str, tuple[Port, ...]]


class Fault(Protocol):
    """Something that breaks."""

    @property
    def at(self) -> str:
        """When it strikes, as the study says it."""

    @property
    def when(self) -> str:
        """What must be so before ``at`` counts; empty for the workload's start."""

    @property
    def lasts(self) -> float | None:
        """After so long (s) it is mended; None for the end of the drill."""

    def moments(self) -> tuple[float, float]:
        """The earliest and the latest time (s) at which it strikes. Raises ``ValueError``."""

    def moment(self, dice: random.Random) -> float:
        """A time (s) in that range."""

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """What it names that the stack lacks: (field, problem and hint) pairs."""

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that break it."""


@runtime_checkable
class Mended(Protocol):
    """A fault that does not stay: a crashed node does, which is booted again anyway."""

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that mend it."""


@runtime_checkable
class InData(Protocol):
    """A fault that lies in the data, and goes to the survivor with them."""

    def mend_data(self, scene: Scene, host: str) -> tuple[Step, ...]:
        """Steps that mend it on ``host``, where the stack's data are in use now."""


@runtime_checkable
class Outdates(Protocol):
    """A fault after which a mirror goes on without one of its copies."""

    def stale(self, scene: Scene) -> str:
        """The node whose copy that is."""


class Probe(Protocol):
    """A watcher that prints at an interval, on every node."""

    name: ClassVar[str]

    def argv(self, seconds: int) -> Argv:
        """The command that prints every ``seconds`` until it gets SIGINT."""

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series. A last line cut in the middle is dropped; garbage raises ``ParseError``."""
