"""How programs write the values of their options; the one check of what a study sets against what they tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from blocklab.model.knobs import Knob, Number, listed, nearest

Value: TypeAlias = str | int | float | bool
Amount: TypeAlias = Callable[[str, Knob], Number | None]
BINARY: Mapping[str, int] = {unit: 2 ** (10 * power) for power, unit in enumerate(["", *"kmgtpe"])}
BITS = {"1": "1", "0": "0"}
_SIZE = re.compile(r"(?P<number>-?\d+)(?P<unit>[A-Za-z]*)")


def size(text: str, units: Mapping[str, int] = BINARY, bare: str = "") -> int | None:
    """A whole number with a unit, such as ``-1`` and ``256m``; ``bare`` is the unit of one without. None for what
    is no such number."""
    match = _SIZE.fullmatch(text)
    factor = units.get(match["unit"] or bare) if match else None
    return None if match is None or factor is None else int(match["number"]) * factor


class Dialect(msgspec.Struct, frozen=True):
    """What is a program's own about its options.

    ``amount`` is a number in the unit of its knob: None where only the program can read it. It raises
    ``ValueError`` with the problem of a value that is none. ``numbers``: whether there may be several, with commas
    between.
    ``true`` and ``false``: how a configuration has them. ``truths``: what the program takes for them, with what
    it calls that. ``cased``: whether it takes no other case.
    ``aliases``: (name, word) -> the same word as the program lists it. ``usual``: words that it takes everywhere.
    ``more``: the sign behind a single word that begins what the program alone can read.
    """

    missing: str
    """What is wrong with a name that the program does not have."""
    amount: Amount
    truths: Mapping[str, str]
    fixed: str = ""
    """The same of one that it does not take at its start."""
    true: str = "on"
    false: str = "off"
    cased: bool = False
    numbers: bool = False
    aliases: Mapping[tuple[str, str], str] = {}
    usual: frozenset[str] = frozenset()
    more: str = "\n"

    def text(self, value: Value) -> str:
        """A value as the program takes it."""
        return str(value) if not isinstance(value, bool) else self.true if value else self.false

    def problems(self, settings: Mapping[str, Value], knobs: Mapping[str, Knob]) -> Iterator[tuple[str, str]]:
        """``(name, problem)`` of each setting that the program would not take as it is."""
        for name, value in settings.items():
            if why := self.problem(name, self.text(value), knobs):
                yield name, why

    def problem(self, name: str, value: str, knobs: Mapping[str, Knob]) -> str | None:
        """The same of one."""
        if (knob := knobs.get(name)) is None:
            return f"{self.missing}{nearest(name, knobs)}"
        return self.fixed if knob.fixed else self.bad_value(name, knob, value.strip())

    def bad_value(self, name: str, knob: Knob, value: str) -> str | None:
        """Why the program would refuse a value, or take another one in its place."""
        if knob.kind == "truth" and (value if self.cased else value.lower()) not in self.truths:
            bits = self.truths == BITS
            return f"{value!r} is neither 1 nor 0" if bits else f"{value!r} is neither true nor false"
        parts = [value]
        if knob.kind == "words" or (self.numbers and knob.kind == "integer"):
            parts = [part.strip() for part in value.split(",") if part.strip()]
        if knob.kind in ("integer", "real"):
            return next(filter(None, (self._bad_number(knob, part) for part in parts)), None)
        return next(filter(None, (self._bad_word(name, knob, part) for part in parts)), None)

    def _bad_word(self, name: str, knob: Knob, value: str) -> str | None:
        """What is wrong with a word, in upper or lower case; the nearest one is told in lower case."""
        # "mrr=on,default": a list of switches
        spelled = value.partition("=" if knob.kind == "words" else self.more)[0]
        word, words = spelled.lower(), [word.lower() for word in knob.words]
        meant = {word, self.truths.get(word), self.aliases.get((name, word))}
        if not words or word in self.usual or meant & set(words):
            return None
        return f"{spelled!r} is not one of its values: {listed(knob.words)}{nearest(word, words)}"

    def _bad_number(self, knob: Knob, value: str) -> str | None:
        if value in knob.words:
            return None
        try:
            found = self.amount(value, knob)
        except ValueError as error:
            return str(error)
        return None if found is None else _outside(knob, found, value)


def _outside(knob: Knob, number: Number, shown: str) -> str | None:
    """What is wrong with a number (in the knob's unit), which the study has as ``shown``; None if nothing."""
    low, high = knob.least, knob.most
    # Of 8kB pages a bound is a count, which is shown with the page.
    unit = f" x {knob.unit}" if knob.unit[:1].isdigit() else knob.unit
    if (low is None or number >= low) and (high is None or number <= high):
        if knob.step > 1 and number % knob.step:
            return f"{shown} is not a multiple of {knob.step}{unit}"
        return None
    if low is None:
        return f"{shown} is out of range: at most {high}{unit}"
    if high is None:
        return f"{shown} is out of range: at least {low}{unit}"
    return f"{shown} is out of range: from {low}{unit} to {high}{unit}"
