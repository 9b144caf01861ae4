"""Factors: fields of a study that take several values in turn, in every combination. Pure.

A path names a field: ``links.zone.rtt``, ``workloads.tpcc.threads``,
``stacks.mirror.layers.drbd.net.max-buffers`` (a layer by its kind or, with two of a kind, by its number:
``layers[1]``). ``*`` stands for every name at its place that has such a field:
``stacks.*.layers.mariadb.settings.sync_binlog``. A name with dots stands in brackets:
``nodes.a1.sysctl[net.ipv4.tcp_rmem]``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import dec_hook, enc_hook
from blocklab.study import profiles
from blocklab.study.types import Factor, Study

Levels = dict[str, str]
# ".rtt", "[1]", "[net.ipv4.tcp_rmem]", ".*"
_PART = re.compile(r"(?:^|\.)(?P<name>[^.\[\]]+)|\[(?P<bracket>[^\]]+)\]")


def assignments(factor: Factor) -> dict[str, dict[str, Any]]:
    """Level -> the fields that it sets. Raises ``StudyError`` with a path inside the factor."""
    fields = (factor.field,) if isinstance(factor.field, str) else factor.field
    fields = tuple(field for field in fields if field)
    if not factor.values:
        raise StudyError("values", "is empty; a factor needs at least one value")
    if isinstance(factor.values, dict):
        if fields:
            return {level: dict.fromkeys(fields, value) for level, value in factor.values.items()}
        for level, value in factor.values.items():
            if not isinstance(value, dict):
                raise StudyError(f"values.{level}", "without `field`, each level is a map of fields to values")
        return dict(factor.values)
    if not fields:
        raise StudyError("field", "missing: which field of the study takes the values? E.g. links.zone.rtt")
    found: dict[str, dict[str, Any]] = {}
    for index, value in enumerate(factor.values):
        if isinstance(value, dict | list):
            raise StudyError(f"values[{index}]", "give such values a name each: values is then a map, name: value")
        level = level_text(value)
        if level in found:
            raise StudyError(f"values[{index}]", f"{level} is there twice")
        found[level] = dict.fromkeys(fields, value)
    return found


def size(study: Study) -> int:
    """How many cells the grid has at most, before exclusions; reckoned, not built."""
    once = (
        len(study.stacks) * len(study.workloads) * math.prod(len(each.values) for each in study.factors.values())
    )
    return once * study.repeats


def combinations(study: Study) -> Iterator[Levels]:
    """Every combination of levels, the last factor's changing fastest; one empty one without factors."""
    levels = [[(name, level) for level in assignments(factor)] for name, factor in study.factors.items()]
    for chosen in itertools.product(*levels):
        yield dict(chosen)


def excluded(study: Study, levels: Mapping[str, str], stack: str, workload: str) -> bool:
    """Whether an entry of ``exclude`` matches: all its names have that level, or one of a list of levels."""
    here = {**levels, "stack": stack, "workload": workload}

    def matches(entry: Mapping[str, Any]) -> bool:
        return all(here.get(name) in level_texts(wanted) for name, wanted in entry.items())

    return any(matches(entry) for entry in study.exclude)


def level_texts(wanted: Any) -> tuple[str, ...]:
    """The levels that an exclusion names: one, or a list."""
    return (
        tuple(level_text(each) for each in wanted) if isinstance(wanted, list | tuple) else (level_text(wanted),)
    )


def level_text(value: Any) -> str:
    """A level's name: the value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def variant(study: Study, levels: Levels) -> Study:
    """The study at one point of its factors; factors that ``levels`` does not name stay as the file has them.

    Raises ``StudyError``: an unknown factor or level, a path that leads nowhere, a value that does not fit.
    """
    if not levels:
        return study
    plain: dict[str, Any] = _lists(profiles.unfilled(msgspec.to_builtins(study, enc_hook=enc_hook)))
    for name, level in levels.items():
        if name not in study.factors:
            raise StudyError(
                "factors", f"there is no factor {name!r}; there are {', '.join(study.factors) or 'none'}"
            )
        try:
            known = assignments(study.factors[name])
        except StudyError as error:
            raise StudyError(f"factors.{name}.{error.path}", error.problem) from error
        if level not in known:
            raise StudyError(f"factors.{name}", f"there is no level {level!r}; there are {', '.join(known)}")
        for path, value in known[level].items():
            if not (parts := parts_of(path)) or not _assign(plain, parts, value):
                raise StudyError(f"factors.{name}", f"the study has no field {path!r}")
    try:
        return msgspec.convert(profiles.fill(plain), Study, dec_hook=dec_hook)
    except (msgspec.ValidationError, StudyError) as error:
        said = ", ".join(f"{name}={level}" for name, level in levels.items())
        raise StudyError(f"factors.{next(reversed(levels))}", f"with {said}: {error}") from error


def parts_of(path: str) -> list[str]:
    """``stacks.*.layers[1].net`` as its parts."""
    return [match["name"] or match["bracket"] for match in _PART.finditer(path)]


def _assign(value: Any, parts: list[str], new: Any) -> int:
    """Set the field in place; how many places took it."""
    head, rest = parts[0], parts[1:]
    if isinstance(value, list | tuple):
        inner = [index for index, each in enumerate(value) if head in ("*", str(index), _kind(each))]
        if rest:
            return sum(_assign(value[index], rest, new) for index in inner)
        if not isinstance(new, dict) or not isinstance(value, list):
            return 0
        # One layer for another: a new one, with nothing of the old one's fields.
        for index in inner:
            value[index] = new
        return len(inner)
    if not isinstance(value, dict):
        return 0
    if not rest:
        names = list(value) if head == "*" else [head]
        value.update(dict.fromkeys(names, new))
        return len(names)
    return sum(
        _assign(value[name], rest, new) for name in (list(value) if head == "*" else [head]) if name in value
    )


def _lists(value: Any) -> Any:
    """The same with lists for tuples, in which items can be replaced."""
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value


def _kind(item: Any) -> str:
    return str(item.get("layer", "")) if isinstance(item, dict) else ""


def of_workload(factor: Factor) -> bool:
    """Whether a factor changes loads alone, so that all its levels share one build of a stack."""
    paths = {path for fields in assignments(factor).values() for path in fields}
    return bool(paths) and all(path.startswith("workloads.") for path in paths)
