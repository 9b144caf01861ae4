"""What a field of a study may have instead, by its type: the hint of a value that does not fit. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import inspect

from blocklab.model.knobs import nearest
from blocklab.study.kinds import study_type
from blocklab.study.old import NOW
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
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")
# "5k"
_SHORT = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<factor>[kKmM])\s*\Z")
_FACTORS = {"k": 1e3, "m": 1e6}
# What other tools and other workloads call a field.
_SAME: tuple[tuple[str, ...], ...] = (
    ("clients", "threads", "connections", "iodepth", "depth", "concurrency", "numjobs", "jobs", "users"),
    ("rtt", "latency", "delay", "ping"),
    ("time", "seconds", "duration", "runtime", "length", "timeout", "run_time"),
    ("memory", "ram", "mem"),
    ("size", "capacity", "table_size"),
    ("rate", "bandwidth", "throughput", "speed"),
    ("scale", "warehouses", "tables"),
    ("between", "nodes", "ends", "hosts"),
    ("on", "node", "host", "from"),
    ("says", "text", "claim", "title", "description"),
    ("field", "path"),
    ("repeats", "runs", "repeat", "times", "iterations"),
    ("expect", "expectations", "assertions"),
)
# Of a field that a study lacks.
_EXAMPLES = {
    "blocklab": ", e.g. blocklab: 2", "name": ", e.g. name: my-study",
    "question": ", e.g. question: What does a mirror cost?", "nodes": ", e.g. nodes: {a1: {memory: 1GiB}}",
    "stacks": ", e.g. stacks: {local: {on: a1, layers: [{layer: volume, size: 1GiB}, {layer: xfs}]}}",
    "workloads": ", e.g. workloads: {io: {workload: fio, size: 64MiB}}",
}  # fmt: skip
_FAULT_AT = re.compile(r"^faults\.[^.\[]+\.at\Z")


def hint(plain: Mapping[str, Any], way: Sequence[str | int], path: str, problem: str) -> str:
    """What to write at ``path``, whose parts are ``way``, instead; empty where the problem says it already."""
    if unknown := _UNKNOWN.search(problem):
        return _instead(unknown["name"], fields(plain, way[:-1]))
    if missing := _MISSING.search(problem):
        known = choices(plain, (*way, missing["name"]))
        example = "" if way else _EXAMPLES.get(missing["name"], "")
        return f"add the field; it is one of {', '.join(known)}" if known else f"add the field{example}"
    if path == "blocklab":
        return _format(_at(plain, way))
    if path == "report.y":
        return "a metric's name or its last parts, like latency.p99"
    if "matching regex" in problem:
        return "names start with a lower-case letter and hold only a-z, 0-9, - and _ (31 at most)"
    return _of_value(_at(plain, way), choices(plain, way), path, problem) or _of_kind(plain, way, problem)


def _of_value(value: Any, known: Sequence[str], path: str, problem: str) -> str:
    if _CHOICE.match(problem) and known:
        return f"one of {', '.join(known)}{nearest(str(value), known)}"
    if _FAULT_AT.match(path):
        return "a time with its unit, like 5s, or a range of two, like 4s..8s"
    if path.endswith(".stop.rounds"):
        return "the least and the most rounds, like 3..15"
    if _BARE_TEXT.match(problem):
        return "put it in quotes"
    if problem.startswith("expected `int"):
        short = _SHORT.match(value) if isinstance(value, str) else None
        if short:
            return f"write {float(short['number']) * _FACTORS[short['factor'].lower()]:.0f}"
        return "a whole number, without quotes and without a unit"
    return ""


def _of_kind(plain: Mapping[str, Any], way: Sequence[str | int], problem: str) -> str:
    """Of a text in place of a map: as the map that was meant."""
    if not problem.startswith("expected `object") or "got `str`" not in problem:
        return ""
    tags = {kind.tag_field: str(kind.tag) for kind in _kinds(plain, way) if isinstance(kind, inspect.StructType)}
    tag = next(filter(None, tags), None)
    if tag is not None:
        return f"write {{{tag}: {_at(plain, way)}}}"
    return f"a map of {', '.join(known)}" if (known := fields(plain, way)) else ""


def _instead(name: str, known: Sequence[str]) -> str:
    """The field that was meant, and those that there are."""
    if not known:
        return ""
    meant = [each for group in _SAME if name in group for each in group if each in known]
    like = f"; did you mean {meant[0]}?" if meant else nearest(name, known)
    listed = f"the fields here are {', '.join(known)}"
    return f"{like.removeprefix('; ')} {listed}" if like else listed


def _format(value: Any) -> str:
    if isinstance(value, int) and value > NOW:
        return f"format {value} is newer than this blocklab, which reads {NOW}: update blocklab"
    return f"write blocklab: {NOW}"


def fields(plain: Mapping[str, Any], way: Sequence[str | int]) -> tuple[str, ...]:
    """The fields of the map there; of one of several kinds those of the kind that it names."""
    found: list[str] = []
    value = _at(plain, way)
    for kind in _kinds(plain, way):
        if isinstance(kind, inspect.StructType):
            tag = _inside(value, kind.tag_field) if kind.tag_field else kind.tag
            if tag == kind.tag:
                found += [str(kind.tag_field)] if kind.tag_field else []
                # What a profile puts in is no field that somebody writes.
                found += [each.encode_name for each in kind.fields if each.encode_name != "performance"]
    return tuple(dict.fromkeys(found))


def _kinds(plain: Mapping[str, Any], way: Sequence[str | int]) -> list[inspect.Type]:
    """The types that the value there may have."""
    around: list[inspect.Type] = [_fields(study_type())]
    value: Any = plain
    for part in way:
        around = [inner for kind in around for inner in _below(kind, value, part)]
        value = _inside(value, part)
    return list(_flat(around))


def _at(plain: Any, way: Sequence[str | int]) -> Any:
    for part in way:
        plain = _inside(plain, part)
    return plain


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
