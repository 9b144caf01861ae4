"""What a field of a study means, in the words that stand below it in the source: for schema and documents."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterator
from typing import Any

import msgspec


@functools.cache
def field_docs(kind: type) -> dict[str, str]:
    """Field -> the text of the string that follows it in its class, or in the class that it inherits it from.

    Fields without one are left out. Names are those of the study file.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            found |= _below(each)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return {names[name]: text for name, text in found.items() if name in names}


def _below(kind: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, text in itertools.pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if (
            isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = " ".join(inspect.cleandoc(text.value.value).split())
    return found


def summary(kind: type) -> str:
    """The first paragraph of a class's docstring, in one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """A struct and every other that its fields lead to, each once; of any other type those that it is made of."""
    found: dict[type[msgspec.Struct], None] = {}
    ahead = [kind]
    while ahead:
        each = ahead.pop()
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            if each not in found:
                found[each] = None
                ahead += [field.type for field in msgspec.structs.fields(each)]
        else:
            ahead += typing.get_args(each)
    return iter(found)


def described(schema: dict[str, Any], root: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of ``root`` with each field's text as its ``description``, for editors."""
    for kind in structs(root):
        definition = schema["$defs"][kind.__name__]
        definition["description"] = summary(kind).replace("``", "")
        for field, text in field_docs(kind).items():
            # A property that only refers to a definition would lose what stands beside the reference.
            if "$ref" in definition["properties"][field]:
                definition["properties"][field] = {"allOf": [definition["properties"][field]]}
            definition["properties"][field]["description"] = text.replace("``", "")
    _anchored(schema)
    return schema


def _anchored(schema: Any) -> None:
    """Ends of patterns as ECMA 262 has them, where ``$`` is what ``\\Z`` is in Python."""
    parts = list(schema.values()) if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    if isinstance(schema, dict) and isinstance(pattern := schema.get("pattern"), str):
        schema["pattern"] = pattern.replace("\\Z", "$")
    for part in parts:
        _anchored(part)
