"""A study with one field changed."""

from __future__ import annotations

from typing import Any


def put(document: dict[str, Any], path: str, value: Any) -> None:
    """Set ``a.b.0.c`` in a document."""
    *parents, last = path.split(".")
    at: Any = document
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    at[int(last) if isinstance(at, list) else last] = value
