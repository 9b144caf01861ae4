"""From plain data to a ``Study``: what does not fit is one error with its path in the file and the hint. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import dec_hook
from blocklab.study.hints import hint
from blocklab.study.kinds import study_type
from blocklab.study.mistakes import mistakes
from blocklab.study.types import Study

# msgspec ends its messages with "... - at `$.stacks[...].layers[1].protocol`" ([...] stands for any key),
# and with "- at `key` in `$.stacks`" for a bad key.
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>\$[^`]*)`| - at `key` in `(?P<parent>\$[^`]*)`)?\Z", re.S)
_PART = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
# "Object contains unknown field `protocool`": the path is that of the map that has it.
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")
# What JSON, in which cells and studies are stored, has room for.
_MOST = 2**63


def decoded(plain: Mapping[str, Any]) -> Study:
    """The study, not checked yet. Raises ``StudyError`` with every mistake and its path, without file and line."""
    try:
        return msgspec.convert(plain, study_type(), dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        raise StudyError.of(list(mistaken(plain))) from error


def mistaken(plain: Mapping[str, Any]) -> Iterator[StudyError]:
    """Every mistake of what should be a study."""
    for place, value, kind, text in mistakes(plain, study_type()):
        problem, inner = located(value, text, kind)
        path = f"{place}.{inner}" if place and inner and not inner.startswith("[") else f"{place}{inner}"
        yield StudyError(path, problem, hint=hint(plain, parts(path), path, problem))


def storable(plain: Mapping[str, Any]) -> None:
    """Raises ``StudyError`` for numbers that YAML has and JSON has not: they could not be stored with the runs."""
    if found := [StudyError(path, problem) for path, problem in _unstorable(plain, "")]:
        raise StudyError.of(found)


def told(text: str) -> tuple[str, str]:
    """msgspec's message as (problem, path): of an unknown field its own path, not that of the map around it."""
    match = _AT.match(text)
    assert match is not None
    problem, path = match["problem"], match["path"] or match["parent"] or "$"
    path = path.removeprefix("$").removeprefix(".")
    if unknown := _UNKNOWN.search(problem):
        path = f"{path}.{unknown['name']}" if path else unknown["name"]
    return problem[:1].lower() + problem[1:], path


def parts(path: str) -> list[str | int]:
    """``stacks.mirror.layers[1].peer`` as its parts."""
    return _parts("." + path if path else "")


def _unstorable(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _unstorable(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _unstorable(each, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "must be finite; for an open bound use a number that is never reached"
    elif isinstance(value, int) and not -_MOST <= value < _MOST:
        yield path, "does not fit into 64 bits; use a smaller number"


def located(plain: Any, text: str, kind: Any) -> tuple[str, str]:
    """msgspec's message and path, of what should be a ``kind``, with each ``[...]`` replaced by the key that
    fails.

    The key is found by leaving the others out: the one whose map alone gives the same message is it.
    """
    problem, path = told(text)
    while "[...]" in path:
        parent = path[: path.index("[...]")]
        items = _at(plain, parts(parent))
        for key in items:
            alone = replaced(plain, parts(parent), {key: items[key]})
            try:
                msgspec.convert(alone, kind, dec_hook=dec_hook)
            except msgspec.ValidationError as error:
                if str(error) == text:
                    path = path.replace("[...]", f".{key}", 1)
                    break
        else:
            break
    return problem, path


def _parts(path: str) -> list[str | int]:
    return [int(m["index"]) if m["index"] else m["field"] for m in _PART.finditer(path) if not m["any"]]


def _at(value: Any, way: list[str | int]) -> Any:
    for part in way:
        value = value[part]
    return value


def replaced(value: Any, way: Sequence[str | int], new: Any) -> Any:
    """Plain data with another value at a place; what lies beside the way to it is shared."""
    if not way:
        return new
    copy: Any = dict(value) if isinstance(value, Mapping) else list(value)
    copy[way[0]] = replaced(value[way[0]], way[1:], new) if way[1:] else new
    return copy
