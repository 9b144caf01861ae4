"""The options that programs have, as the programs tell: the names, ranges and words that `blocklab check` knows.

A layer or a workload says how its program is asked (``Question``). A site keeps the answers; none are shipped.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from blocklab.model.capability import Capability

Number: TypeAlias = int | float
KnobKind: TypeAlias = Literal["flag", "truth", "integer", "real", "word", "words", "text"]
# Of a typing error: "max-bufers" and "max-buffers" are 0.95 alike, "journal" and "barrier" 0.29.
_ALIKE = 0.72
# What a program tells of a number without a bound: the largest double.
_ENDLESS = 1e300


class Knob(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a program tells of one of its options.

    ``kind``: ``flag`` takes no value, ``word`` one of ``words``, ``words`` several of them; of a ``text`` nothing
    more is known. ``least`` and ``most``: of a number, in ``unit``; None where there is no bound. ``step``: a
    number is a multiple of it. ``fixed``: the program has it, but does not take it at its start.
    """

    kind: KnobKind = "text"
    least: Number | None = None
    most: Number | None = None
    step: int = 1
    unit: str = ""
    words: tuple[str, ...] = ()
    fixed: bool = False


Table: TypeAlias = Mapping[str, Mapping[str, Knob]]
"""Section -> name -> knob; a program without sections has them all under ``""``."""

Tables: TypeAlias = Mapping[str, Table]
"""Program -> its table."""


class Tell(Protocol):
    """Runs a command on a node; all that it printed, whatever its exit code."""

    def __call__(self, *argv: str) -> str: ...


class Question(msgspec.Struct, frozen=True):
    """How a program is asked for its options.

    ``ask`` makes the table of what the program tells; where ``server``, its second argument is where the server
    stands, as its layer's port says. It raises ``ValueError`` where the program tells nothing.
    """

    program: str
    ask: Callable[[Tell, str], Table]
    server: bool = False


@runtime_checkable
class HasKnobs(Capability, Protocol):
    """A layer or a workload that sets options of a program which tells what options it has."""

    question: ClassVar[Question]

    def unknown(self, table: Table) -> Iterable[tuple[str, str]]:
        """(field, problem and hint) of each option that the program does not have, or has with other values."""


def number(text: str | None) -> Number | None:
    """A bound as programs print it; None for none."""
    if text is None or text in ("", "NULL"):
        return None
    # Not by way of a float: 18446744073709551615 is none.
    bound = int(text) if text.lstrip("-").isdigit() else float(text)
    return None if abs(bound) > _ENDLESS else bound


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean x?`` to go behind a message about an unknown name; empty where nothing is like it."""
    found = difflib.get_close_matches(name, list(names), 5, _ALIKE)

    def likeness(other: str) -> tuple[float, bool]:
        # Of two that are as like, people rather get the beginning right: "bss" is "bs", not "ss".
        return difflib.SequenceMatcher(None, other, name).ratio(), other[:1] == name[:1]

    return f"; did you mean {max(found, key=likeness)}?" if found else ""


def listed(words: Iterable[str]) -> str:
    """``a, b or c``, for what one may choose of."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
