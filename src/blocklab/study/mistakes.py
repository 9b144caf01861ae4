"""Every mistake of plain data that should be of a type; msgspec itself stops at the first. Pure."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from blocklab.model.units import dec_hook


def mistakes(value: Any, kind: Any, path: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """(path, value, type, msgspec's message) of each innermost part that does not fit its type, and of each field
    that a map has too many or lacks, in the order of the data."""
    try:
        msgspec.convert(value, kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        inner = [found for part in _parts(value, kind) for found in mistakes(*_below(path, part))]
        own = [(path, value, kind, text) for text in _own(value, kind)]
        yield from [*own, *inner] or [(path, value, kind, str(error))]


def _below(path: str, part: tuple[str | int, Any, Any]) -> tuple[Any, Any, str]:
    name, value, kind = part
    if isinstance(name, int):
        return value, kind, f"{path}[{name}]"
    return value, kind, f"{path}.{name}" if path else name


def _bare(kind: Any, value: Any) -> Any:
    """The type without what is said about it; of several structs the one that the value's tag names."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType) and isinstance(value, Mapping):
        for each in get_args(kind):
            config = getattr(each, "__struct_config__", None)
            if config is not None and config.tag_field and value.get(config.tag_field) == config.tag:
                return each
    return kind


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _parts(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """(name or index, value, type) of what a value is made of."""
    kind = _bare(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(value, Mapping) and _is_struct(kind):
        known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        yield from ((name, each, known[name]) for name, each in value.items() if name in known)
    elif isinstance(value, Mapping) and origin is dict:
        yield from ((str(name), each, inner[1]) for name, each in value.items())
    elif isinstance(value, list | tuple) and (origin is list or (origin is tuple and inner[1:] == (...,))):
        yield from ((index, each, inner[0]) for index, each in enumerate(value))


def _own(value: Any, kind: Any) -> Iterator[str]:
    """What is wrong with a map itself, whatever its fields have."""
    kind = _bare(kind, value)
    if isinstance(value, Mapping) and _is_struct(kind):
        fields = msgspec.structs.fields(kind)
        tag = kind.__struct_config__.tag_field
        known = {field.encode_name for field in fields} | ({tag} if tag else set())
        if kind.__struct_config__.forbid_unknown_fields:
            yield from (f"Object contains unknown field `{name}`" for name in value if name not in known)
        yield from (
            f"Object missing required field `{field.encode_name}`"
            for field in fields
            if field.required and field.encode_name not in value
        )
    elif isinstance(value, Mapping) and get_origin(kind) is dict:
        names = get_args(kind)[0]
        for name in value:
            try:
                msgspec.convert({name: None}, dict[names, Any], dec_hook=dec_hook)  # type: ignore[valid-type]
            except msgspec.ValidationError as error:
                yield str(error)
