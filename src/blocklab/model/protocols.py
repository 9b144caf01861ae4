"""What a layer, a load and a probe must offer: the plan (pure) and the parser (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import msgspec

from blocklab.model.ground import Ground, LinkSpec, NodeSpec, Profile
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Step
from blocklab.model.sample import Parsed, Sample


class Place(msgspec.Struct, frozen=True):
    """Where a layer is planned: its stack, the host it is active on, a number unique to the stack in the lab
    (DRBD minors, TCP ports), and the ground."""

    stack: str
    host: str
    number: int
    ground: Ground


class Map(msgspec.Struct, frozen=True):
    """What exists in the study, for checks before any node starts."""

    nodes: Mapping[str, NodeSpec]
    links: Mapping[str, LinkSpec]


class Layer(Protocol):
    """One storey of a stack."""

    takes: ClassVar[Kind | None]
    gives: ClassVar[Kind]

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """What is wrong with this layer on ``host``: (field, problem and cure) pairs; empty when all is well."""

    def spans(self, host: str) -> tuple[str, ...]:
        """The hosts on which the layers below must be built so that this one can be active on ``host``."""

    def profile(self) -> Profile | None:
        """The raw volume that the site must give, one for each host; None for all layers but the lowest."""

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Steps, facts and the port above, given the ports below (``place.host``'s port first)."""


class Load(msgspec.Struct, frozen=True):
    """One command that makes load: at most ``seconds`` long, leaving ``fetch`` (files on the host) behind."""

    host: str
    argv: Argv
    seconds: float
    fetch: tuple[str, ...] = ()


class Workload(Protocol):
    """A load and the parser of what it printed."""

    takes: ClassVar[tuple[Kind, ...]]

    def problems(self) -> list[tuple[str, str]]:
        """(field, problem and cure) pairs."""

    def prepare(self, port: Port) -> tuple[Step, ...]:
        """Steps before the measurement (files, tables); their undo runs after it."""

    def load(self, port: Port) -> Load:
        """The command to measure."""

    def facts(self, port: Port) -> tuple[Fact, ...]:
        """Questions to the system once it is prepared, e.g. the tool's version."""

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """Samples out of ``raw``: ``stdout``, ``stderr`` and each fetched file by its base name.

        Raises ``ParseError``.
        """


class Probe(Protocol):
    """A watcher that prints at an interval, on every node."""

    name: ClassVar[str]

    def argv(self, seconds: int) -> Argv:
        """The command that prints every ``seconds`` until it gets SIGINT."""

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series. A last line cut in the middle is dropped; garbage raises ``ParseError``."""
