"""The kinds of layer, workload and fault that a study may name, and the type that a study file is decoded to.

The catalogue is the unions of ``layers``, ``workloads`` and ``faults``; ``registered`` adds to them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import GenericAlias
from typing import Any, TypeVar, Union, get_args

import msgspec

from blocklab.faults import AnyFault
from blocklab.layers import AnyLayer
from blocklab.study.types import Name, Stack, Study
from blocklab.workloads import AnyWorkload

PartKind = type[msgspec.Struct]
# What layers give and workloads take, in words.
WORDS = {
    "block": "a block device", "dir": "a file system", "postgresql": "a PostgreSQL server",
    "mysql": "a MariaDB or MySQL server",
}  # fmt: skip
SERVERS = frozenset({"postgresql", "mysql"})
T = TypeVar("T", bound=msgspec.Struct)
_OWN: tuple[PartKind, ...] = get_args(AnyLayer | AnyWorkload | AnyFault)
_more: tuple[PartKind, ...] = ()


@contextlib.contextmanager
def registered(*more: PartKind) -> Iterator[None]:
    """Let studies name more kinds of layer, workload or fault until the end of the block."""
    global _more
    before, _more = _more, (*_more, *more)
    try:
        yield
    finally:
        _more = before


def kind_of(field: str, tag: str) -> PartKind | None:
    """The kind that a study calls ``tag``; ``field`` is ``layer``, ``workload`` or ``fault``."""
    return _by_name(_more).get((field, tag))


def study_type() -> type[Study]:
    """The type of a study file."""
    return _study_type(_more)


def with_study(kind: type[T]) -> type[T]:
    """The type of a document whose field ``study`` is a study."""
    return _with_study(kind, _more) if _more else kind


@functools.cache
def _by_name(more: tuple[PartKind, ...]) -> dict[tuple[str, str], PartKind]:
    configs = ((kind.__struct_config__, kind) for kind in (*_OWN, *more))
    return {(str(config.tag_field), str(config.tag)): kind for config, kind in configs}


@functools.cache
def _study_type(more: tuple[PartKind, ...]) -> type[Study]:
    if not more:
        return Study

    def union(known: Any, field: str) -> Any:
        return Union[known, *(kind for kind in more if kind.__struct_config__.tag_field == field)]

    stack = _like(Stack, ("layers", GenericAlias(tuple, (union(AnyLayer, "layer"), ...))))
    study: type[Study] = _like(
        Study,
        ("stacks", GenericAlias(dict, (Name, stack))),
        ("workloads", GenericAlias(dict, (Name, union(AnyWorkload, "workload")))),
        ("faults", GenericAlias(dict, (Name, union(AnyFault, "fault"))), msgspec.field(default_factory=dict)),
    )
    return study


@functools.cache
def _with_study(kind: Any, more: tuple[PartKind, ...]) -> Any:
    return _like(kind, ("study", _study_type(more)))


def _like(base: Any, *fields: Any) -> Any:
    """The same type with other types of these fields."""
    return msgspec.defstruct(base.__name__, fields, bases=(base,), kw_only=True)


def servers() -> dict[str, str]:
    """The layers that are databases, and what each gives."""
    return {tag: str(getattr(kind, "gives", "")) for (field, tag), kind in _by_name(_more).items()
            if field == "layer" and getattr(kind, "gives", "") in SERVERS}  # fmt: skip


def workloads() -> dict[str, frozenset[str]]:
    """The workloads, and what each can run on."""
    return {tag: frozenset(getattr(kind, "takes", ())) for (field, tag), kind in _by_name(_more).items()
            if field == "workload" and tag != "imported"}  # fmt: skip
