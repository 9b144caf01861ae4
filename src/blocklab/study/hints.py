"""What a field of a study may have instead, by its type: the hint of a value that does not fit. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import inspect

from blocklab.study.kinds import study_type
from blocklab.study.types import Study

_BARE: dict[type, str] = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
}
# "invalid value 'zfs'", "invalid enum value 'c'", "object missing required field `layer`"
_CHOICE = re.compile(r"^invalid (enum )?value")
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")
# "expected `str`, got `int`", "expected `str | null`, got `bool`"
_BARE_TEXT = re.compile(r"^expected `str( \| null)?`, got `(int|float|bool)`")
_FAULT_AT = re.compile(r"^faults\.[^.\[]+\.at\Z")


def hint(plain: Mapping[str, Any], way: Sequence[str | int], path: str, problem: str) -> str:
    """What to write at ``path``, whose parts are ``way``, instead; empty where the problem says it already."""
    if "unknown field" in problem:
        return "blocklab schema prints every field that a study may have"
    if missing := _MISSING.search(problem):
        known = choices(plain, (*way, missing["name"]))
        return f"add the field; it is one of {', '.join(known)}" if known else "add the field"
    if path == "report.y":
        return "a metric's name or its last parts, like latency.p99"
    if "matching regex" in problem:
        return "names start with a lower-case letter and hold only a-z, 0-9, - and _ (31 at most)"
    if _CHOICE.match(problem) and (known := choices(plain, way)):
        return f"one of {', '.join(known)}"
    if _FAULT_AT.match(path):
        return "a time with its unit, like 5s, or a range of two, like 4s..8s"
    if path.endswith(".stop.rounds"):
        return "the least and the most rounds, like 3..15"
    if _BARE_TEXT.match(problem):
        return "put it in quotes"
    if problem.startswith("expected `int"):
        return "a whole number, without quotes and without a unit"
    return ""


def choices(plain: Mapping[str, Any], way: Sequence[str | int]) -> tuple[str, ...]:
    """What the field there may have: its words, or the kinds that it tells apart (``layer``, ``load``,
    ``fault``); empty where it takes more than one could list."""
    if not way:
        return ()
    *outer, last = way
    around = [_fields(study_type())]
    value: Any = plain
    for part in outer:
        around = [inner for kind in around for inner in _below(kind, value, part)]
        value = _inside(value, part)
    tags = [
        str(kind.tag)
        for kind in _flat(around)
        # What was imported is in no file that somebody writes.
        if isinstance(kind, inspect.StructType) and kind.tag_field == last and kind.tag != "imported"
    ]
    found = tags or list(_words(_flat(inner for kind in around for inner in _below(kind, value, last))))
    return tuple(dict.fromkeys(found))


@functools.cache
def _fields(study: type[Study]) -> inspect.Type:
    return inspect.type_info(study)


def _flat(kinds: Any) -> Iterator[inspect.Type]:
    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _flat([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _flat(kind.types)
        else:
            yield kind


def _inside(value: Any, part: str | int) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def _below(kind: inspect.Type, value: Any, part: str | int) -> Iterator[inspect.Type]:
    """The types of a field, of a map's values or of a list's items."""
    for each in _flat([kind]):
        if isinstance(each, inspect.StructType):
            tag = _inside(value, each.tag_field) if each.tag_field else each.tag
            if tag == each.tag:
                yield from (field.type for field in each.fields if field.encode_name == part)
        elif isinstance(each, inspect.DictType):
            yield each.value_type
        elif isinstance(each, inspect.ListType | inspect.VarTupleType):
            yield each.item_type
        elif isinstance(each, inspect.TupleType) and isinstance(part, int) and part < len(each.item_types):
            yield each.item_types[part]


def _words(kinds: Iterator[inspect.Type]) -> Iterator[str]:
    """Nothing without a list of words: that a text is a text goes without saying."""
    listed = list(kinds)
    if any(isinstance(kind, inspect.LiteralType) for kind in listed):
        for kind in listed:
            if isinstance(kind, inspect.LiteralType):
                yield from (str(value) for value in kind.values if value != "")
            elif type(kind) in _BARE:
                yield _BARE[type(kind)]
