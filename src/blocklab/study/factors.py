"""Factors: fields of a study that take several values in turn, in every combination. Pure.

A path names a field: ``links.zone.rtt``, ``workloads.tpcc.clients``,
``stacks.mirror.layers.drbd.net.max-buffers`` (a layer by its kind or, with two of a kind, by its number:
``layers[1]``). ``*`` stands for every name at its place that has such a field:
``stacks.*.layers.mariadb.settings.sync_binlog``. A name with dots stands in brackets:
``nodes.a1.sysctl[net.ipv4.tcp_rmem]``.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import enc_hook
from blocklab.model.workload import Phased
from blocklab.study import old, profiles
from blocklab.study.decode import decoded, replaced
from blocklab.study.kinds import kind_of
from blocklab.study.seen import Same
from blocklab.study.types import Factor, Study
from blocklab.study.types import level_text as level_text

Levels = dict[str, str]
# ".rtt", "[1]", "[net.ipv4.tcp_rmem]", ".*"
_PART = re.compile(r"(?:^|\.)(?P<name>[^.\[\]]+)|\[(?P<bracket>[^\[\]]+)\]")
_PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[[^\]]+\])*")
# What no factor changes. A study without them is copied in a moment, however many levels it has.
_UNSWEPT: dict[str, Any] = {"factors": {}, "exclude": (), "expect": (), "notes": (), "quick": {}}
# What is looked up by its name: of these a variant takes over what it does not change.
_PARTS = ("nodes", "links", "stacks", "workloads", "faults")


def assignments(factor: Factor) -> dict[str, dict[str, Any]]:
    """Level -> the fields that it sets. Raises ``StudyError`` with a path inside the factor."""
    return factor.assigned


def size(study: Study) -> int:
    """How many cells the grid has at most, before exclusions; reckoned, not built."""
    return len(study.workloads) * _each(study)


def phase_total(study: Study) -> int:
    """How many phases of workloads the grid has at most: a cell of fio has one for each of its jobs."""
    counts = (workload.phase_count if isinstance(workload, Phased) else 1 for workload in study.workloads.values())
    return sum(counts) * _each(study)


def _each(study: Study) -> int:
    """How often each workload is measured."""
    levels = math.prod(len(each.values) for each in study.factors.values())
    return len(study.stacks) * levels * study.repeats


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


def left_out(study: Study, levels: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """The stacks and workloads of which no cell is left at ``levels``, whatever the other factors' are: as entries
    of an ``exclude`` that names no factor."""
    if not study.exclude:
        return ()
    pairs = itertools.product(study.stacks, study.workloads)
    return tuple(
        {"stack": stack, "workload": workload}
        for stack, workload in pairs
        if all(excluded(study, at, stack, workload) for at in _telling(study, levels))
    )


def is_left_out(study: Study, stack: str, workload: str) -> bool:
    """Whether no cell is left of a stack under a workload."""
    return {"stack": stack, "workload": workload} in left_out(study, {})


def _telling(study: Study, levels: Mapping[str, str]) -> Iterator[Levels]:
    """Levels that tell whether anything is left: of each factor one that no exclusion names, and those that one
    does."""
    named: dict[str, set[str]] = {}
    for entry in study.exclude:
        for name, wanted in entry.items():
            named.setdefault(name, set()).update(level_texts(wanted))
    choices = []
    for name, factor in study.factors.items():
        if name not in levels and name in named and factor.values:
            known = list(assignments(factor))
            others = [level for level in known if level not in named[name]]
            choices.append(
                [(name, level) for level in (*others[:1], *(each for each in known if each in named[name]))]
            )
    for chosen in itertools.product(*choices):
        yield {**dict(chosen), **levels}


def level_texts(wanted: Any) -> tuple[str, ...]:
    """The levels that an exclusion names: one, or a list."""
    return (
        tuple(level_text(each) for each in wanted) if isinstance(wanted, list | tuple) else (level_text(wanted),)
    )


def variant(study: Study, levels: Levels) -> Study:
    """The study at one point of its factors; factors that ``levels`` does not name stay as the file has them.
    Two calls for one study and point may give the same object, and variants share what no level of theirs changes.

    Raises ``StudyError``: an unknown factor or level, a path that leads nowhere, a value that does not fit.
    """
    if not levels:
        return study
    swept = _swept(Same(study))
    point = tuple(levels.items())
    if point not in swept.variants:
        swept.variants[point] = _variant(study, levels, swept)
    return swept.variants[point]


class _Swept:
    """What the variants of a study share: its plain data, which nobody changes, and what was made of it."""

    def __init__(self, study: Study) -> None:
        self.plain = plain_of(study)
        self.base = decoded(profiles.fill(self.plain))
        self.items: dict[tuple[str, str, bytes], Any] = {}
        self.variants: dict[tuple[tuple[str, str], ...], Study] = {}

    def changed(self, plain: dict[str, Any]) -> Study:
        """The study of plain data that were made from these; only what differs is decoded."""
        swept = _changed(self.plain, plain)
        if not all(part in _PARTS and isinstance(items, dict) for part, items in swept.items()):
            return decoded(profiles.fill(plain))
        try:
            items = {part: self._items(part, plain) for part in swept}
        except StudyError:
            # A mistake is said as one of the whole study.
            return decoded(profiles.fill(plain))
        return msgspec.structs.replace(self.base, **items)

    def _items(self, part: str, plain: dict[str, Any]) -> dict[str, Any]:
        """A part with its changed items; those of equal data are one object."""
        found = dict(getattr(self.base, part))
        for name, value in _changed(self.plain[part], plain[part]).items():
            key = (part, name, msgspec.json.encode(value))
            if key not in self.items:
                alone = {**plain, **{each: {} for each in _PARTS}, part: {name: value}}
                self.items[key] = getattr(decoded(profiles.fill(alone)), part)[name]
            found[name] = self.items[key]
        return {name: found[name] for name in plain[part]}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if name not in before or value is not before[name]}


@functools.lru_cache(maxsize=4)
def _swept(study: Same[Study]) -> _Swept:
    return _Swept(study.thing)


def _variant(study: Study, levels: Levels, swept: _Swept) -> Study:
    plain = swept.plain
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
            before = plain
            if not (way := parts_of(path)) or (plain := _assigned(plain, way, value)) is before:
                raise StudyError(f"factors.{name}", f"the study has no field {path!r}")
    try:
        changed = swept.changed(plain)
    except StudyError as error:
        said = ", ".join(f"{name}={level}" for name, level in levels.items())
        problem = f"with {said}: {error.path}: {error.problem}"
        raise StudyError(f"factors.{next(reversed(levels))}", problem, hint=error.hint) from error
    return msgspec.structs.replace(changed, **{name: getattr(study, name) for name in _UNSWEPT})


def plain_of(study: Study) -> dict[str, Any]:
    """What factors may change of a study, as plain data of maps and lists."""
    bare = msgspec.structs.replace(study, **_UNSWEPT)
    plain: dict[str, Any] = _lists(profiles.unfilled(msgspec.to_builtins(bare, enc_hook=enc_hook)))
    return plain


def parts_of(path: str) -> list[str]:
    """``stacks.*.layers[1].net`` as its parts; none for a text that is no path."""
    if not _PATH.fullmatch(path):
        return []
    return [match["name"] or match["bracket"] for match in _PART.finditer(path)]


def places(plain: Any, way: Sequence[str], *, starred: bool = False) -> Iterator[tuple[str | int, ...]]:
    """Where in plain data a path leads to: one way for each place, which is there but for its last part.

    ``starred``: behind a ``*``, which passes over layers, workloads and faults that have no such field.
    """
    head, rest = way[0], way[1:]
    inner: Iterable[str | int] = ()
    if isinstance(plain, list | tuple):
        head = old.kind("layer", head)
        inner = [index for index, each in enumerate(plain) if head in ("*", str(index), _kind(each))]
    elif isinstance(plain, dict):
        head = old.field(plain, head)
        new = not rest and not (starred and _lacks(plain, head))
        inner = list(plain) if head == "*" else [head] if head in plain or new else []
    for name in inner:
        if not rest:
            yield (name,)
        else:
            yield from ((name, *each) for each in places(plain[name], rest, starred=starred or head == "*"))


def _assigned(plain: dict[str, Any], way: list[str], new: Any) -> dict[str, Any]:
    """A copy with the field set, which shares what lies beside the way; the same data where no place takes it."""
    for place in list(places(plain, way)):
        at: Any = plain
        for part in place[:-1]:
            at = at[part]
        # One layer for another: a new one, with nothing of the old one's fields.
        if isinstance(at, dict) or isinstance(new, dict):
            plain = replaced(plain, place, old.kind(str(place[-1]), _lists(new)))
    return plain


def _lists(value: Any) -> Any:
    """The same with lists for tuples, in which items can be replaced."""
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value


def _lacks(plain: dict[str, Any], field: str) -> bool:
    """Whether it is a layer, workload or fault of a kind that has no such field."""
    kinds = (kind_of(tag, str(plain.get(tag))) for tag in ("layer", "workload", "fault"))
    return any(kind is not None and field not in kind.__struct_encode_fields__ for kind in kinds)


def _kind(item: Any) -> str:
    return str(item.get("layer", "")) if isinstance(item, dict) else ""


def of_workload(factor: Factor) -> bool:
    """Whether a factor changes loads alone, so that all its levels share one build of a stack: but for those that
    change where a workload runs (``of_client``)."""
    paths = {path for fields in assignments(factor).values() for path in fields}
    return bool(paths) and all(path.startswith("workloads.") for path in paths)


def of_client(factor: Factor) -> bool:
    """Whether a factor changes the node that a workload runs on, which needs a link that others do not."""
    return any(
        parts_of(path)[-1:] == ["from"] or (isinstance(value, dict) and bool(value.get("from")))
        for fields in assignments(factor).values()
        for path, value in fields.items()
    )
