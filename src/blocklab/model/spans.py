"""A layer that stands on several nodes says four separate things. None of them names a product or a block device.

*Spans*: on which nodes what is below it is built, and for which role. *Heir*: who can take over, by which named
stages, and how nodes come back. *Copies*: what it means that the nodes have the same data, and how that is proven;
a disk that several nodes have is one copy, so its layer has none of this. *Watch*: commands that tell that the
active one is dead, beside the monitor's pings. A mirror of a block device has all four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from blocklab.model.capability import Capability
from blocklab.model.layer import Place, Role
from blocklab.model.plan import Argv, Fact, Kind, Port, Step

Query: TypeAlias = tuple[str, Argv]
"""The host, and a command that prints something there where the answer is yes; it fails where it cannot tell."""


class Side(NamedTuple):
    """A node of a layer, and what it is there."""

    host: str
    role: Role


class Stage(msgspec.Struct, frozen=True):
    """A part of a takeover: steps that are timed together. Each layer names its own (``promotion``, ``mount``).
    ``gives``: what the layers give that are usable after it; ``study.takeover`` fills it in."""

    name: str
    steps: tuple[Step, ...]
    gives: frozenset[Kind] = frozenset()


class Comparison(msgspec.Struct, frozen=True):
    """How the sides of a layer are compared, with nothing above it in use.

    ``settle`` waits until all are whole and in use. ``copies``: for each host a command whose output is the same
    where its data are the same: a checksum, without what the layer keeps for itself, made past the layer.
    ``verify`` makes the layer compare them by itself; ``differ`` (host, argv) prints how many bytes it found to
    differ, None for a layer that has no comparison of its own. ``lone`` answers with yes where the active side has
    given up another one and only ``rejoin`` takes it in again; None for a layer that connects by itself.
    """

    settle: tuple[Step, ...]
    copies: Mapping[str, Argv]
    verify: tuple[Step, ...] = ()
    differ: tuple[str, Argv] | None = None
    lone: Query | None = None


class Follow(msgspec.Struct, frozen=True, tag_field="sign", tag="follow"):
    """A command that goes on and prints a line for each state of a connection to the watched node.

    ``state`` is a regular expression, whose first group is the state in a line that has one. Once the connection
    was in another state than those of ``lost``, one of these and a single ping without an answer say that the node
    is dead. ``listed`` (another one) is of the line after those of the start; a command that has told no state by
    then has nothing to tell. ``what`` is the name of what is connected.
    """

    what: str
    argv: Argv
    state: str
    lost: tuple[str, ...]
    listed: str = ""


class Poll(msgspec.Struct, frozen=True, tag_field="sign", tag="poll"):
    """A command that is run once for each ping: exit code 0 says that what it asks on the watched node lives.

    Another exit code, no end within ``seconds``, or output in which ``alive`` (a regular expression) is not found:
    as many in a row as of pings, and it is dead, though its node may answer pings. Before it has answered once,
    that counts for nothing. ``what`` is its name for people: ``server on a1``.
    """

    what: str
    argv: Argv
    seconds: float = 1.0
    alive: str = ""


Sign: TypeAlias = Follow | Poll


@runtime_checkable
class Spans(Capability, Protocol):
    """A layer on several nodes, active on one; or one whose data are on another node than it is."""

    @property
    def links(self) -> tuple[str, ...]:
        """The links that it sends data over. Which of them joins two of its nodes, its two ends tell."""

    def sides(self, on: str) -> tuple[Side, ...]:
        """Where what is below it is built, and for which role, so that it can be active on the node ``on``: that
        node first, if it is one of them, and its peers in the order of the study."""


@runtime_checkable
class Heir(Capability, Protocol):
    """A layer on several nodes that can be active on another one when the one that it is active on is gone."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """The nodes that can take over, the first choice first; empty where, as it is set, none can."""

    def failed_over(self, old: str, new: str) -> Self:
        """The same layer once it is active on ``new``, with ``old``, where it was, as a peer."""

    def takeover(self, place: Place, below: tuple[Port, ...], gone: Sequence[str]) -> tuple[Stage, ...]:
        """Of a failed-over layer: what makes it active on ``place.host``, and the nodes that are left follow it;
        those of ``gone`` are dead or cut off. The layers below it stand there."""

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Stage, ...]:
        """What makes it active on ``place.host`` again, by itself, after its nodes were all rebooted. The layers
        below it stand there; ``rejoin`` takes the other nodes in."""

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        """What holds on ``place.host`` between ``takeover`` and ``rejoin``. It asks no other node."""

    def rejoin(self, place: Place, below: tuple[Port, ...], back: Sequence[str]) -> tuple[Step, ...]:
        """Steps that take the nodes ``back`` in again, which have just booted or were given up, while this layer
        is active on ``place.host``; at their end all sides have the same data. On these nodes the layers below
        stand again over their data, built for the role that they have now: an old primary's for a replica."""


@runtime_checkable
class Copies(Capability, Protocol):
    """A layer on several nodes that keeps a copy of its data on each. The steps of its plan seed them."""

    exact: ClassVar[bool]
    """Whether the sides are the same to the last byte of the devices below: these have to be equally large, fresh
    ones equally empty, and one side stands in for another whose device fails."""

    @property
    def connected(self) -> bool:
        """Whether it sends each write to its peers; not where it is measured with them cut off."""

    def split_brain(self, place: Place) -> Query:
        """Whether two sides were written to apart from each other, so that neither has all."""

    def comparison(self, place: Place, below: tuple[Port, ...]) -> Comparison | None:
        """How its sides are compared; None where the peers are cut off."""


@runtime_checkable
class Watch(Capability, Protocol):
    """A layer that can tell that the node that it is active on is dead, or that only its server there is."""

    def signs(self, place: Place, of: str) -> tuple[Sign, ...]:
        """What ``place.host`` sees of the node ``of``."""


def one_copy(layer: object) -> bool:
    """Whether it is a disk that several nodes have, of which there is no second copy."""
    return isinstance(layer, Spans) and not isinstance(layer, Copies)
