"""Which parameters a PostgreSQL 17 server has, and which values it takes for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from blocklab.model import known

Value: TypeAlias = str | int | float | bool
# "shared_buffers", "TimeZone", "auto_explain.log_min_duration": a parameter, or an extension's parameter.
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)?$")
# Where the layer itself decides.
_OURS = frozenset(
    {"port", "unix_socket_directories", "data_directory", "listen_addresses", "config_file", "hba_file"}
)
# Settings with these endings, set by a study, would make the server start a program of its own.
_SHELL = re.compile(r"(_command|_preload_libraries)$")
BOOLEAN = {
    "true": "on", "yes": "on", "1": "on", "t": "on", "y": "on",
    "false": "off", "no": "off", "0": "off", "f": "off", "n": "off",
}  # fmt: skip
# Where the server shows another word than it was given.
ALIASES = {
    ("wal_compression", "on"): "pglz",
    ("wal_level", "archive"): "replica", ("wal_level", "hot_standby"): "replica",
    ("log_min_messages", "debug"): "debug2", ("client_min_messages", "debug"): "debug2",
}  # fmt: skip
# "128MB", "1 GB", "-1", "0.5", "200ms", "1e3".
_NUMBER = re.compile(r"^(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z]*)$")
# "0x80", "0600": by another base, as in C.
_BASED = {re.compile(r"^0[xX][0-9a-fA-F]+$"): 16, re.compile(r"^0[0-7]+$"): 8}
BYTES = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
TIMES = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


def problems(settings: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """``(name, problem)`` of each setting that a study may not have or the server would not take as it is."""
    spelled: dict[str, str] = {}
    for name, value in settings.items():
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            yield name, f"is set twice: it is the same parameter as {other}"
        elif problem := _problem(name, text_of(value)):
            yield name, problem


def text_of(value: Value) -> str:
    """A value as the server takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _problem(spelled: str, value: str) -> str | None:
    name = spelled.lower()
    if not _NAME.match(name):
        return "is not the name of a server parameter"
    if name in _OURS:
        return "is set by the layer itself; leave it out"
    if _SHELL.search(name):
        return "would make the server run a command; not allowed in a study"
    if "." in name:
        # Whatever extension may read it: the server takes any.
        return None
    parameters = {each.lower(): knob for each, knob in known.table("postgres")[""].items()}
    knob = parameters.get(name)
    if knob is None:
        return f"PostgreSQL 17 has no such parameter{known.nearest(name, parameters)}"
    if knob.fixed:
        return "cannot be set: the server only tells it"
    return _value(name, knob, value)


def _value(name: str, knob: known.Knob, value: str) -> str | None:
    word = value.strip().lower()
    if knob.kind == "truth" and word not in {*BOOLEAN, "on", "off"}:
        return f"{value!r} is neither true nor false"
    if knob.kind == "word":
        meant = ALIASES.get((name, word), word)
        words = [each.lower() for each in knob.words]
        if meant not in words and BOOLEAN.get(word) not in words:
            return known.not_among(value, knob.words)
    return _number(knob, value) if knob.kind in ("integer", "real") else None


def _number(knob: known.Knob, value: str) -> str | None:
    text = value.strip()
    for form, base in _BASED.items():
        if knob.kind == "integer" and form.match(text):
            return known.outside(knob, int(text, base), value, _shown(knob))
    match = _NUMBER.match(text)
    if match is None:
        return f"{value!r} is not a number"
    number = float(match["number"])
    if match["unit"]:
        units = _units(knob)
        factor = units.get(match["unit"])
        if factor is None:
            return f"{value!r} has no unit that it takes: {known.listed(units) if units else 'it has none'}"
        number *= factor
    if knob.kind == "integer":
        number = round(number)
    return known.outside(knob, number, value, _shown(knob))


def _units(knob: known.Knob) -> dict[str, float]:
    """Unit -> how many of the parameter's own: of ``8kB`` pages, a ``MB`` is 128."""
    count, own = re.fullmatch(r"(\d*)(\w*)", knob.unit).groups()  # type: ignore[union-attr]
    factors = BYTES if own in BYTES else TIMES if own in TIMES else {}
    return {unit: factor / (factors[own] * int(count or 1)) for unit, factor in factors.items()}


def _shown(knob: known.Knob) -> str:
    """Of 8kB pages a bound is a count, which is shown with the page."""
    return f" x {knob.unit}" if knob.unit[:1].isdigit() else knob.unit
