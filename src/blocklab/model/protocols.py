"""What a layer, a load and a probe must offer: the plan (pure) and the parser (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

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
    """A layer whose block device the kernel gives a name of its own. Such devices hand requests on, so the kernel
    keeps no count of flushes for them."""

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
    """A load and the parser of what it printed."""

    takes: ClassVar[tuple[Kind, ...]]
    rates: ClassVar[tuple[str, ...]]
    head_start: ClassVar[float]
    ends_on: ClassVar[int | None]

    @property
    def has_data(self) -> bool:
        """Whether ``data`` gives steps."""

    @property
    def client(self) -> str:
        """The node that the load runs on (``from`` in the study); empty for the stack's own."""

    @property
    def sessions(self) -> int:
        """How many connections to a database it has at once."""

    @property
    def room(self) -> int:
        """Bytes that it surely needs of the stack; 0 where its fields do not tell."""

    @property
    def phases(self) -> tuple[str, ...] | None:
        """The names of its phases, ``("",)`` for a load that has figures of the whole only; None where only its
        output tells."""

    def problems(self) -> list[tuple[str, str]]:
        """(field, problem and cure) pairs."""

    def lasts(self) -> float | None:
        """How long the load takes in seconds, where its fields tell; None where it ends by work done."""

    def data(self, port: Port) -> tuple[Step, ...]:
        """Steps that load what takes long to load, so that nothing is left to write back. They run once for each
        layout; before each further load their result is restored from a copy of the volumes. Empty where
        ``prepare`` does it all."""

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """Steps whose result is as good for the next measurement that asks for the same ones on the same stack, so
        that they run once for all of these; their undo runs before a load that asks for others."""

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """Steps before each measurement (files, tables); their undo runs after it."""

    def arm(self, port: Port) -> tuple[Step, ...]:
        """Quick steps before each single start of the command: the files that it reads."""

    def load(self, port: Port) -> Load:
        """The command to measure."""

    def rule(self) -> Rule | None:
        """When it was measured long enough; None where it ends by itself."""

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """fio's options of each of its jobs, which say how its figures compare with the devices'; empty for loads
        that do not tell how many bytes they moved."""

    def trials(self, seconds: float) -> Mapping[str, Self]:
        """Each phase by its name as a load of its own that takes so many seconds; ``""`` for a load without
        phases. Only of a load with a rule."""

    def dealt(self, number: int) -> Self:
        """The same load with other random numbers for each ``number``: rounds that draw the same lots agree
        more than they should."""

    def watched(self, load: Load) -> Load:
        """The same command, so that it prints its figures meanwhile."""

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """Each of ``rates`` in each second so far, given what a trial has printed. Raises ``ParseError``."""

    def steady(self, parsed: Parsed) -> Parsed:
        """What a short round found, its rates without how it began where the tool tells of that."""

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """Questions to the system once it is prepared, e.g. the tool's version."""

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """Samples out of ``raw``: ``stdout``, ``stderr`` and each fetched file by its base name.

        Raises ``ParseError``.
        """


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

    def problems(self, scene: Scene) -> list[tuple[str, str]]:
        """What it names that the stack lacks: (field, problem and cure) pairs."""

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that break it."""

    def heal(self, scene: Scene) -> tuple[Step, ...]:
        """Steps that mend it; empty for what stays broken (a crashed node is booted again anyway)."""

    def mend_data(self, scene: Scene, host: str) -> tuple[Step, ...]:
        """Steps on ``host``, where the stack's data are in use now, that mend what lies in them and so went there
        with them; empty for what does not."""


class Probe(Protocol):
    """A watcher that prints at an interval, on every node."""

    name: ClassVar[str]

    def argv(self, seconds: int) -> Argv:
        """The command that prints every ``seconds`` until it gets SIGINT."""

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series. A last line cut in the middle is dropped; garbage raises ``ParseError``."""
