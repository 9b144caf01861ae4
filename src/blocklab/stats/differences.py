"""What differed between two sets of runs besides their figures: machine, programs, study, knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from blocklab.model.units import enc_hook
from blocklab.stats.source import Source
from blocklab.study.types import Study

Part = Literal["machine", "environment", "study", "knobs"]
# The fingerprint: figures of machines, kernels or images that differ are no figures of layouts alone.
MACHINE = ("site", "host.cpu", "host.cpus", "host.kernel", "image", "shim")
# They change no figure.
_WORDS = ("blocklab", "question", "notes", "expect", "quick", "name", "baseline", "report")
# What is measured before each load, and differs each time: link zone, ping mean.
_MEASURED = re.compile(r"\bping\b")
UNKNOWN = "not known"


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not the same on both sides: what it is on A, and on B."""

    part: Part
    name: str
    a: str
    b: str


def differences(a: Source, b: Source) -> tuple[Difference, ...]:
    """All of them, those of the machine first."""
    return (*_environments(a, b), *_studies(a.study, b.study), *_knobs(a, b))


def _environments(a: Source, b: Source) -> Iterator[Difference]:
    left, right = (_seen(dict(_flat("", piece.run.environment)) for piece in each.pieces) for each in (a, b))
    names = sorted({*left, *right}, key=lambda name: (name not in MACHINE, name))
    for name in names:
        mine, other = left.get(name, set()), right.get(name, set())
        if mine != other:
            part: Part = "machine" if name in MACHINE else "environment"
            yield Difference(part, name, _text(mine), _text(other))


def _seen(cells: Iterator[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for entries in cells:
        for name, value in entries.items():
            # A float is a measurement, such as a clock's offset.
            if not isinstance(value, float):
                found.setdefault(name, set()).add(str(value))
    return found


def _studies(a: Study | None, b: Study | None) -> Iterator[Difference]:
    if a is None or b is None:
        return
    left, right = (dict(_fields(each)) for each in (a, b))
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            yield Difference("study", name, str(left.get(name, "absent")), str(right.get(name, "absent")))


def _fields(study: Study) -> Iterator[tuple[str, Any]]:
    whole = msgspec.to_builtins(study, enc_hook=enc_hook)
    for name, value in whole.items():
        if name not in _WORDS:
            yield from _flat(name, value)


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
            yield Difference("knobs", name, _text(mine, "absent"), _text(other, "absent"))


def _knobs_of(source: Source) -> Iterator[dict[str, Any]]:
    for piece in source.pieces:
        yield {
            f"{piece.cell.stack}: {knob.host} {knob.layer} {knob.name}": knob.value
            for knob in piece.run.knobs
            if not _MEASURED.search(knob.name)
        }


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        for number, item in enumerate(value):
            yield from _flat(f"{name}[{number}]", item)
    elif isinstance(value, list):
        yield name, ", ".join(str(item) for item in value)
    else:
        yield name, value


def _text(values: set[str], none: str = UNKNOWN) -> str:
    return ", ".join(sorted(values)) if values else none
