"""What all loads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from blocklab.model.plan import Argv, Fact, Port, Step
from blocklab.model.protocols import Load
from blocklab.model.sample import Parsed
from blocklab.model.stop import DEFAULT, AnyStop, Rule, Stop, rule_of


def version(host: str, layer: str, argv: Argv, find: Callable[[str], str]) -> Fact:
    """The question for a tool's version, which ``find`` takes out of what it prints."""
    return Fact(host, layer, argv, lambda text: {"version": find(text)}, lasting=True)


def seconds_of(steps: Iterable[tuple[float, float]]) -> list[float]:
    """The rate (1/s) in each second, of steps of (seconds, count). One of several seconds, in which a tool printed
    nothing, stands for as many."""
    return [count / took for took, count in steps if took > 0 for _ in range(max(1, round(took)))]


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="load", kw_only=True):
    """A load.

    ``from`` is the node that it runs on, in place of the stack's own: a client of the database, which needs a
    link to it.
    """

    client: str = msgspec.field(default="", name="from")
    """The node that it runs on, in place of the stack's own: a client of the database, which needs a link to the
    node that the stack is active on. Only for a load on a database."""

    refused: ClassVar[tuple[str, ...]] = ()
    """Fields of all loads that this one has no use for."""
    rates: ClassVar[tuple[str, ...]] = ()
    """The figures by which one tells whether it was measured long enough."""
    drilled: ClassVar[bool] = False
    """Whether the study's faults strike while it goes on."""
    head_start: ClassVar[float] = 0.0
    """So long (s) at least its program takes before it begins."""
    ends_on: ClassVar[int | None] = None
    """The signal upon which its program ends early with a whole summary."""

    @property
    def sessions(self) -> int:
        """How many connections to a database it has at once."""
        return 0

    @property
    def room(self) -> int:
        """Bytes that it surely needs of what it is on."""
        return 0

    @property
    def phases(self) -> tuple[str, ...] | None:
        """The names of its phases, ``("",)`` for a load that has figures of the whole only; None where only its
        output tells."""
        return ("",)

    @property
    def has_data(self) -> bool:
        """Whether it loads data of its own."""
        return type(self).data is not Base.data

    def data(self, port: Port) -> tuple[Step, ...]:
        """Nothing that ``prepare`` does not make anew."""
        return ()

    def lasting(self, port: Port) -> tuple[Step, ...]:
        """Nothing that the next measurement could use."""
        return ()

    def arm(self, port: Port) -> tuple[Step, ...]:
        """Nothing that each start needs anew."""
        return ()

    def io_options(self) -> tuple[Mapping[str, str], ...]:
        """Nothing: it does not tell how many bytes it moved."""
        return ()

    def rule(self) -> Rule | None:
        """None: it ends by itself."""
        return None

    def trials(self, seconds: float) -> Mapping[str, Self]:
        """Nothing: it cannot be cut."""
        return {}

    def dealt(self, number: int) -> Self:
        """As it is: its program draws anew each time."""
        return self

    def watched(self, load: Load) -> Load:
        """As it is."""
        return load

    def steady(self, parsed: Parsed) -> Parsed:
        """As it is."""
        return parsed

    def live(self, out: bytes, err: bytes) -> Mapping[str, list[float]]:
        """Nothing that can be read while it goes."""
        return {}


class Stoppable(Base, frozen=True, kw_only=True):
    """A load that has a rate, and can go on for as long as one likes."""

    stop: AnyStop | None = None
    """When it is measured no longer, where no field gives it a fixed length: see ``stop``."""

    def _timed(self) -> bool:
        """Whether the fields give it a length."""
        raise NotImplementedError

    def rule(self) -> Rule | None:
        """None where the fields give it a length."""
        return None if self._timed() else rule_of(self.stop or DEFAULT)

    def _stop_problems(self) -> Iterator[tuple[str, str]]:
        if self.stop is None:
            return
        if self._timed():
            yield "stop", "it has a fixed length already; give one or the other"
        if isinstance(self.stop, Stop):
            problems = list(self.stop.problems())
            yield from ((f"stop.{name}", problem) for name, problem in problems)
            if not problems and self.stop.rule().kind == "long" and self.ends_on is None:
                yield "stop", "its program cannot be ended early; give rounds, like {rounds: 3..15, each: 4s}"

    def _expected(self, phases: int = 1) -> float:
        """About how long (s) its rule lets it go on."""
        rule = self.rule()
        if rule is None:
            return 0.0
        # Most loads are sure enough after a little more than the least.
        return phases * min(rule.longest, 1.3 * rule.shortest)
