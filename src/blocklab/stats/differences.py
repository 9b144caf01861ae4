"""What differed between two sets of runs besides their values: machine, programs, study, knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from blocklab.model.units import enc_hook
from blocklab.stats.source import Source
from blocklab.study.types import Study

Part = Literal["machine", "environment", "study", "knobs"]
# The fingerprint: values of machines, kernels or images that differ are no values of layouts alone.
MACHINE = ("site", "machine", "host.cpu", "host.cpus", "host.kernel", "image", "shim")
# They change no value.
_WORDS = ("blocklab", "question", "notes", "expect", "quick", "name", "baseline", "report")
UNKNOWN = "not known"
# A layer that only one side's stack has: the list of the layers tells it.
_LAYER = re.compile(r"stacks\.[^.]+\.layers(\.[^.]+|\[\d+\])")


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not the same on both sides: what it is on A, and on B."""

    part: Part
    name: str
    a: str
    b: str


def differences(a: Source, b: Source) -> tuple[Difference, ...]:
    """All of them, those of the machine first."""
    found = (*_environments(a, b), *_studies(a, b), *_knobs(a, b))
    return tuple(sorted(found, key=lambda each: each.part != "machine"))


def _environments(a: Source, b: Source) -> Iterator[Difference]:
    left, right = (_seen(dict(flat("", piece.run.environment)) for piece in each.pieces) for each in (a, b))
    rank = {name: number for number, name in enumerate(MACHINE)}
    names = sorted({*left, *right}, key=lambda name: (rank.get(name, len(rank)), name))
    for name in names:
        mine, other = left.get(name, set()), right.get(name, set())
        if mine != other:
            # Runs of before did not say which machine theirs was: that alone makes them no strangers.
            unsaid = name == "machine" and not (mine and other)
            part: Part = "machine" if name in MACHINE and not unsaid else "environment"
            yield Difference(part, name, _text(mine), _text(other))


def _seen(cells: Iterator[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for entries in cells:
        for name, value in entries.items():
            # A float is a measurement, such as a clock's offset.
            if not isinstance(value, float):
                found.setdefault(name, set()).add(str(value))
    return found


def _studies(a: Source, b: Source) -> Iterator[Difference]:
    if a.study is None or b.study is None:
        return
    left, right = (_told(each, a.imported or b.imported) for each in (a.study, b.study))
    for name in dict.fromkeys([*left, *right]):
        yield from _compared(name, left.get(name), right.get(name))


def _told(study: Study, imported: bool) -> dict[str, Any]:
    """What a study says, by field. ``imported``: without its nodes' fields, of which logs tell nothing."""
    whole = msgspec.to_builtins(study, enc_hook=enc_hook)
    stacks = {name: _stack(fields) for name, fields in whole["stacks"].items()}
    nodes = {name: {} if imported else fields for name, fields in whole["nodes"].items()}
    return {
        name: value for name, value in (whole | {"nodes": nodes, "stacks": stacks}).items() if name not in _WORDS
    }


def _stack(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A stack's layers in a word each, and what each of them is set to, by the names that a factor has for it: a
    layer that one side has more would move the numbers of all those above it."""
    kinds = [layer["layer"] for layer in fields["layers"]]
    found = {**fields, "layers": ", ".join(kinds)}
    for number, (kind, layer) in enumerate(zip(kinds, fields["layers"], strict=True)):
        label = f"layers.{kind}" if kinds.count(kind) == 1 else f"layers[{number}]"
        found[label] = {name: value for name, value in layer.items() if name != "layer"}
    return found


def _compared(name: str, mine: Any, other: Any) -> Iterator[Difference]:
    if isinstance(mine, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*mine, *other]):
            yield from _compared(f"{name}.{key}", mine.get(key), other.get(key))
    elif mine != other and not _LAYER.fullmatch(name):
        yield Difference("study", name, _words(mine), _words(other))


def _words(value: Any) -> str:
    """A field's value for people; of what one side lacks as a whole what it is, rather than all its fields."""
    if value is None:
        return "absent"
    if isinstance(value, Mapping):
        kind = next((value[name] for name in ("layers", "workload", "fault") if name in value), "")
        return kind or " ".join(f"{name}={_words(each)}" for name, each in value.items()) or "there"
    return ", ".join(map(_words, value)) if isinstance(value, (list, tuple)) else str(value)


def _knobs(a: Source, b: Source) -> Iterator[Difference]:
    left, right = (_seen(_knobs_of(each)) for each in (a, b))
    single = a.single and b.single
    if single:
        left, right = ({name.partition(": ")[2]: seen for name, seen in each.items()} for each in (left, right))
    stacks = [{name.partition(": ")[0] for name in each} for each in (left, right)]
    for name in dict.fromkeys([*left, *right]):
        mine, other = left.get(name, set()), right.get(name, set())
        # A stack that only one side has is no difference of knobs.
        shared = single or all(name.partition(": ")[0] in each for each in stacks)
        if mine != other and shared:
            # The version of a driver belongs to the kernel, and only a host that runs it tells it.
            part: Part = "machine" if name.endswith(" driver") and mine and other else "knobs"
            yield Difference(part, name, _text(mine, "absent"), _text(other, "absent"))


def _knobs_of(source: Source) -> Iterator[dict[str, Any]]:
    for piece in source.pieces:
        yield {f"{piece.cell.stack}: {knob.host} {knob.layer} {knob.name}": knob.value for knob in piece.run.knobs}


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The entries of an environment by dotted names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        for number, item in enumerate(value):
            yield from flat(f"{name}[{number}]", item)
    elif isinstance(value, list):
        yield name, ", ".join(str(item) for item in value)
    else:
        yield name, value


def _text(values: set[str], none: str = UNKNOWN) -> str:
    return ", ".join(sorted(values)) if values else none
