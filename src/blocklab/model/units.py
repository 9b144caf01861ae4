"""Quantities with a unit: the study file must write the unit, so that 60 MB/s and 60 Mbit/s never mix.

Each class is a number in its base unit (bytes, seconds, bytes per second, bits per second) that is read
from text and written back as text, e.g. ``Size("4GiB") == 4 * 2**30`` and ``str(Size("4GiB")) == "4294967296B"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

# "450us", "2.7 ms", "60MB/s", "100Mbit/s", "4GiB", "2%": a decimal number, then letters (and "/s") or a per cent
# sign.
_QUANTITY = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-zµ]+(?:/s)?|%)\s*\Z")

_NUMBER = re.compile(r"\d+(\.\d+)?$")

# A number of hundreds of digits is a slip; its start tells which one it is.
_MOST_QUOTED = 40

_SIZES: dict[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


class _Quantity:
    """What the quantities share: their table of units and how text becomes a number."""

    units: ClassVar[Mapping[str, float]]
    example: ClassVar[str]
    base: ClassVar[str]
    # Those that a number without one most likely is in.
    usual: ClassVar[tuple[str, ...]]
    # Exact as a float, and below what a 64-bit number holds.
    most: ClassVar[float] = 2.0**62

    @classmethod
    def _like(cls, raw: object) -> str:
        """The same number with a unit; an example for what is no number."""
        text = str(raw).strip()
        number = _NUMBER.match(text) is not None and len(text) <= _MOST_QUOTED and not isinstance(raw, bool)
        return " or ".join(f"{text}{unit}" for unit in cls.usual) if number else cls.example

    @classmethod
    def parse(cls, raw: object) -> float:
        """The number in the base unit. Raises ``ValueError`` that names the hint."""
        if isinstance(raw, cls):
            return float(raw)  # type: ignore[arg-type]
        if isinstance(raw, bool) or not isinstance(raw, str):
            raise ValueError(f"{raw!r} has no unit; write it like {cls._like(raw)}")
        match = _QUANTITY.match(raw)
        if match is None:
            raise ValueError(f"{raw!r} is not a number with a unit; write it like {cls._like(raw)}")
        factor = cls.units.get(match["unit"])
        if factor is None:
            known = ", ".join(cls.units)
            raise ValueError(f"{raw!r}: unknown unit {match['unit']!r}; known are {known}")
        number = float(match["number"]) * factor
        if not math.isfinite(number) or number > cls.most:
            said = raw if len(raw) <= _MOST_QUOTED else f"{raw[:_MOST_QUOTED]}..."
            raise ValueError(f"{said!r} is more than any machine has; use less")
        return number


class Size(_Quantity, int):
    """Bytes."""

    units: ClassVar[Mapping[str, float]] = _SIZES
    example: ClassVar[str] = "4GiB"
    usual: ClassVar[tuple[str, ...]] = ("MiB", "GiB")
    base: ClassVar[str] = "B"

    def __new__(cls, raw: object) -> Self:
        return int.__new__(cls, round(cls.parse(raw)))

    def __str__(self) -> str:
        return f"{int(self)}B"

    __repr__ = __str__


class _Real(_Quantity, float):
    def __new__(cls, raw: object) -> Self:
        return float.__new__(cls, cls.parse(raw))

    def __str__(self) -> str:
        # Fixed point, since "1e-05s" is not what the parser reads.
        return f"{float(self):.9f}".rstrip("0").rstrip(".") + self.base

    __repr__ = __str__


class Duration(_Real):
    """Seconds."""

    # Rounding to a nanosecond keeps 450 * 1e-6 from becoming 0.00044999999999999996.
    units: ClassVar[Mapping[str, float]] = {
        "ns": 1e-9,
        "us": 1e-6,
        "µs": 1e-6,
        "ms": 1e-3,
        "s": 1.0,
        "min": 60.0,
        "h": 3600.0,
    }
    example: ClassVar[str] = "2.7ms"
    usual: ClassVar[tuple[str, ...]] = ("s", "ms")
    base: ClassVar[str] = "s"

    def __new__(cls, raw: object) -> Self:
        return float.__new__(cls, round(cls.parse(raw), 9))


class Bandwidth(_Real):
    """Bytes per second, of a volume."""

    units: ClassVar[Mapping[str, float]] = {f"{name}/s": factor for name, factor in _SIZES.items()}
    example: ClassVar[str] = "60MB/s"
    usual: ClassVar[tuple[str, ...]] = ("MB/s",)
    base: ClassVar[str] = "B/s"


class BitRate(_Real):
    """Bits per second, of a link."""

    units: ClassVar[Mapping[str, float]] = {
        "bit/s": 1,
        "kbit/s": 1e3,
        "Mbit/s": 1e6,
        "Gbit/s": 1e9,
    }
    example: ClassVar[str] = "100Mbit/s"
    usual: ClassVar[tuple[str, ...]] = ("Mbit/s",)
    base: ClassVar[str] = "bit/s"


class Share(_Real):
    """A part of a whole: 0.02 for 2 %."""

    units: ClassVar[Mapping[str, float]] = {"%": 0.01}
    example: ClassVar[str] = "2%"
    usual: ClassVar[tuple[str, ...]] = ("%",)
    base: ClassVar[str] = "%"

    def __str__(self) -> str:
        return f"{100 * float(self):.9g}%"

    __repr__ = __str__


QUANTITIES: tuple[type[Size] | type[Duration] | type[Bandwidth] | type[BitRate] | type[Share], ...] = (
    Size,
    Duration,
    Bandwidth,
    BitRate,
    Share,
)


def dec_hook(kind: type, raw: Any) -> Any:
    """For ``msgspec.convert``: reads the quantities."""
    if isinstance(kind, type) and issubclass(kind, QUANTITIES):
        return kind(raw)
    raise NotImplementedError(f"no decoder for {kind}")


def enc_hook(value: Any) -> Any:
    """For ``msgspec.to_builtins``: writes the quantities."""
    if isinstance(value, QUANTITIES):
        return str(value)
    raise NotImplementedError(f"no encoder for {type(value)}")


def schema_hook(kind: type) -> dict[str, Any]:
    """For ``msgspec.json.schema``: a string with a pattern that an editor can check."""
    if isinstance(kind, type) and issubclass(kind, QUANTITIES):
        units = "|".join(re.escape(unit) for unit in kind.units)
        return {"type": "string", "pattern": rf"^\s*\d+(\.\d+)?\s*({units})\s*$", "examples": [kind.example]}
    raise NotImplementedError(f"no schema for {kind}")
