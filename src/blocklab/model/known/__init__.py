"""The knobs that the programs of the node image know: what a study may set is told before a node boots.

One table for each program stands beside this file, a knob a line; ``tools/knobs.py`` makes them from what the
programs tell of themselves in a node. A table is read when the first name is looked up in it.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

Number: TypeAlias = int | float
Kind: TypeAlias = Literal["flag", "truth", "integer", "real", "size", "word", "words", "switches", "text"]
# Of a typing error: "barier" and "barrier" are 0.92 alike, "journal" and "barrier" 0.29.
_ALIKE = 0.72


class Knob(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a program tells of one of its knobs.

    ``kind``: ``flag`` takes no value, ``word`` one of ``words``, ``words`` several of them, ``switches`` several
    as ``word=on``; of a ``text`` nothing more is known. ``least`` and ``most``: of a number, in ``unit``; None
    where there is no bound. ``step``: a number is a multiple of it. ``bare``: it may stand without its value.
    ``fixed``: the program has it, but does not take it at its start.
    """

    kind: Kind = "text"
    least: Number | None = None
    most: Number | None = None
    step: int = 1
    unit: str = ""
    words: tuple[str, ...] = ()
    bare: bool = False
    fixed: bool = False


Table: TypeAlias = Mapping[str, Mapping[str, Knob]]


@functools.cache
def table(program: str) -> Table:
    """Section -> name -> knob, of a program's table; one without sections has them all under ``""``."""
    file = importlib.resources.files(__name__).joinpath(f"{program}.txt")
    return parsed(file.read_text(encoding="utf-8"))


def parsed(text: str) -> Table:
    """The table in a text. Raises ``ValueError`` for a line that is none of it."""
    found: dict[str, dict[str, Knob]] = {}
    into: dict[str, Knob] | None = None
    for line in text.splitlines():
        # [net]
        # max-buffers integer 32..131072
        # on-congestion word words=block,pull-ahead,disconnect
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            into = found.setdefault(line[1:-1], {})
            continue
        if into is None:
            into = found.setdefault("", {})
        # At the end, since words may have blanks: "read committed".
        said, _, words = line.partition(" words=")
        name, kind, *rest = said.split()
        into[name] = _knob(kind, rest, tuple(words.split(",")) if words else ())
    return found


def _knob(kind: str, parts: list[str], words: tuple[str, ...]) -> Knob:
    fields: dict[str, object] = {"kind": kind, "words": words}
    for part in parts:
        key, equals, value = part.partition("=")
        low, dots, high = part.partition("..")
        if dots and not equals:
            fields |= {"least": _number(low), "most": _number(high)}
        elif part in ("bare", "fixed"):
            fields[part] = True
        else:
            fields[key] = int(value) if key == "step" else value
    return msgspec.convert(fields, Knob)


def _number(text: str) -> Number | None:
    if not text:
        return None
    # Not by way of a float: 18446744073709551615 is none.
    return int(text) if text.lstrip("-").isdigit() else float(text)


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


def not_among(value: str, words: Iterable[str]) -> str:
    """What is wrong with a word that is none of ``words``; the nearest one is told in lower case."""
    words = list(words)
    return f"{value!r} is not one of its values: {listed(words)}{nearest(value.lower(), map(str.lower, words))}"


def outside(knob: Knob, number: Number, shown: str, unit: str = "") -> str | None:
    """What is wrong with a number (in the knob's unit), which the study has as ``shown``; None if nothing.

    ``unit`` is how the bounds are shown.
    """
    low, high = knob.least, knob.most
    if (low is None or number >= low) and (high is None or number <= high):
        if knob.step > 1 and number % knob.step:
            return f"{shown} is not a multiple of {knob.step}{unit}"
        return None
    if low is None:
        return f"{shown} is out of range: at most {high}{unit}"
    if high is None:
        return f"{shown} is out of range: at least {low}{unit}"
    return f"{shown} is out of range: from {low}{unit} to {high}{unit}"
