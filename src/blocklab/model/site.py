"""Sites: where hosts come from. What only some of them can do is a small protocol of its own.

A site says in ``offers`` which of these it and its labs have, before anything is started; ``offered`` gives an
object as one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast

from blocklab.errors import SetupError
from blocklab.model.clock import MACHINE, Timer
from blocklab.model.ground import Ground, Topology, VolumeSpec
from blocklab.model.host import Host
from blocklab.model.knobs import Tables
from blocklab.model.plan import Argv

T = TypeVar("T")


class Offers(Protocol):
    """Says which capabilities it has."""

    @property
    def offers(self) -> frozenset[type]:
        """The protocols of this module that it has."""


class Lab(Offers, Protocol):
    """Hosts that a site has started."""

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name."""

    def shortage(self) -> str:
        """What the hosts lack (room, say) and what to do; empty where nothing is known to be missing."""

    def close(self) -> None:
        """End what ``start`` began; safe to call twice."""


class Site(Offers, Protocol):
    """A way to get hosts."""

    name: str

    def ground(self, topology: Topology) -> Ground:
        """The names that ``start`` will give; pure. Raises ``StudyError``, ``SetupError``."""

    def start(self, topology: Topology) -> Lab:
        """Start the hosts; on an error nothing is left. Raises ``SetupError``, ``NodeLost``."""

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """The fingerprint, JSON-able: ``site``, ``machine`` (an identity that no other machine has), its ``name``
        for people, ``host``, versions. Raises ``ImageError`` where there are no such hosts."""


# -- what a lab may be able to do ------------------------------------------------------------------------------


class Power(Protocol):
    """Control of the hosts' power, by their names."""

    def crash(self, host: str) -> None:
        """End a host at once, as a power cut does; nothing when it is dead. It is gone on return. Raises
        ``SetupError`` where it goes on."""

    def boot(self, host: str) -> None:
        """Start a crashed host again, with its volumes as they are; ``hosts`` has the new one.

        Raises ``SetupError`` for one that is not dead, ``NodeLost`` when it does not come up.
        """


class Pauses(Protocol):
    """Hosts that can be stopped for a while, by their names."""

    def freeze(self, host: str) -> None:
        """Stop a host where it is: it neither answers nor ends, and does not notice."""

    def thaw(self, host: str) -> None:
        """Let a frozen host go on."""


class Snapshots(Protocol):
    """Copies of all raw volumes, kept as long as the lab lives."""

    def save(self, name: str) -> None:
        """Copy all raw volumes under a name. Nothing may use them now. Raises ``SetupError`` without room."""

    def restore(self, name: str) -> None:
        """Put all raw volumes back as they were at ``save``; empty, for the name ``""``."""


class Refill(Protocol):
    """Volumes whose burst credits can be restored."""

    def refill(self) -> None:
        """Give all raw volumes their whole burst again. Raises ``SetupError``."""


class Journal(Protocol):
    """Undos that are kept where the hosts are, so that hosts which outlive blocklab can be cleaned later."""

    def note(self, host: str, number: int, argv: Argv) -> None:
        """Keep an undo, before the step that it undoes runs. Raises ``HostError``."""

    def done(self, host: str, numbers: Sequence[int]) -> None:
        """Drop undos that have run, or whose host is gone. Raises ``HostError``."""


# -- what a site may be able to do -----------------------------------------------------------------------------


class EmulatedLinks(Protocol):
    """Links with any RTT, jitter and rate: netem on the hosts is theirs to change."""


class EmulatedVolumes(Protocol):
    """Raw volumes with any size, latency and cap."""

    def set_latencies(self, spec: VolumeSpec, added: Mapping[str, float], *, whole: bool) -> None:
        """What a volume adds (s) to the time that a request takes by itself, by direction (``read``, ``write``).
        ``whole``: with the caps of its profile, and a table of quantiles that has this as its median; or a
        constant without caps, to measure. Raises ``SetupError``."""


class GivenGround(Protocol):
    """Hosts, links and disks that were there before and stay as they are. What a study asks of a link's round trip
    and of a volume's latency and caps is what is expected there; what is found is stored beside it."""

    def lacking(self, topology: Topology) -> list[tuple[str, str]]:
        """What of a topology is not there: (field of the study, problem) pairs."""


class OneMachine(Protocol):
    """Hosts that share one machine: what else it does is in all their results."""

    def spent(self) -> Mapping[str, float]:
        """Seconds so far: ``time`` by the clock, ``all`` CPUs' time, of it ``busy``, ``steal`` and what programs
        took that are not the lab's (``foreign``), and ``pressure`` (PSI) where it is known. Raises
        ``OSError``."""


class OwnTime(Protocol):
    """Hosts whose time is not the machine's, so that the same can happen to them again."""

    @property
    def timer(self) -> Timer:
        """Their time."""

    def begin(self, seed: str) -> None:
        """Boot all hosts anew, with empty volumes. All that happens then follows from the lab's own seed, from
        this one, and from what is done to the hosts. Raises ``SetupError``, ``NodeLost``."""

    def doubts(self) -> list[str]:
        """Why what happened since may happen otherwise another time; empty as long as nothing speaks for it."""


class Room(Protocol):
    """Hosts on a machine whose memory is limited."""

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        """A note on what may not fit, with ``copies`` of each volume, for so many ``labs`` at once; empty where
        there is none. Raises ``StudyError`` for what does not fit."""


class Standing(Protocol):
    """Labs that stay up after the command that started them."""

    def stand(self, build: Callable[[], AbstractContextManager[Lab]], about: Mapping[str, Any]) -> None:
        """Keep what ``build()``, a context manager, holds until ``take_down``. ``about`` says what it is. Raises
        ``SetupError``, and what building raises."""

    def about(self) -> dict[str, Any] | None:
        """What stands; None where nothing does."""

    def shell(self, host: str, argv: Sequence[str], size: tuple[int, int] | None) -> int:
        """Run a command on a host that stands, on this process's own standard streams; its exit code. ``size`` has
        the terminal's rows and columns, None without one. Raises ``SetupError``."""

    def take_down(self) -> dict[str, Any]:
        """End what stands; what it was. Raises ``SetupError`` where nothing stands."""


class Leftovers(Protocol):
    """Hosts on which a run may have left something."""

    def clean(self) -> list[str]:
        """Run all undos that are left in the journal, the last first; what could not be undone stays there, and is
        said."""


class KnownOptions(Protocol):
    """A memory of what the programs on its hosts told of their options."""

    def options(self, addons: tuple[str, ...] = ()) -> Tables:
        """The answers of hosts with these add-ons; without a program that was not asked. Starts nothing."""

    def keep_options(self, tables: Tables, addons: tuple[str, ...] = ()) -> None:
        """Keep answers for ``options``, beside those that it has. Raises ``SetupError``, ``ImageError``."""


class Requirement(Protocol):
    """One thing that a site needs."""

    @property
    def name(self) -> str:
        """What it is."""

    @property
    def ok(self) -> str:
        """``ok``, ``warn`` or ``fail``."""

    @property
    def found(self) -> str:
        """What is there."""

    @property
    def hint(self) -> str:
        """How to fix it; empty where nothing is wrong."""


class Doctor(Protocol):
    """Reports missing requirements."""

    def requirements(self) -> Sequence[Requirement]:
        """All of them, the most important first."""


class Setup(Protocol):
    """Prepares this machine for its hosts."""

    def missing_packages(self) -> Mapping[str, str]:
        """The distribution's packages that are missing on this machine, each with what it is for."""

    def installing(self, names: Sequence[str]) -> Sequence[Argv]:
        """The commands that install them, by ``sudo`` for users other than root. Raises ``SetupError`` where this
        user or machine cannot, with what an administrator has to do."""

    def install(self, names: Sequence[str]) -> None:
        """Run these commands. Raises ``SetupError``."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Build what hosts start from, unless it is there; ``say`` takes a line about progress. Raises
        ``ImageError``."""


def offered(what: Offers, capability: type[T]) -> T:
    """The site or lab as one of its capabilities. Raises ``SetupError`` where it lacks it."""
    if capability not in what.offers:
        raise SetupError(f"this site has no {words(capability)}", hint="another one may have: --site")
    return cast(T, what)


def timer_of(lab: Offers) -> Timer:
    """The time that a lab's hosts live in."""
    return offered(lab, OwnTime).timer if OwnTime in lab.offers else MACHINE


def words(capability: type) -> str:
    """A capability's name in words: ``emulated links``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in capability.__name__).strip()
