"""Studies of format 1, which called a workload's kind ``load``, in the words of today. Pure, on plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FORMAT = 1
NOW = 2
# "workloads.tx.load" as a factor's field
_KIND = re.compile(r"^(workloads\.[^.\[]+|workloads\[[^\]]+\])\.load\Z")


def modern(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A study as its file has it, and ``quick`` in it. One of another format comes back as it is."""
    if plain.get("blocklab") != FORMAT:
        return dict(plain)
    found = {**plain, "blocklab": NOW}
    for name in ("workloads", "factors"):
        if name in found:
            found[name] = _renamed(found[name])
    if isinstance(quick := found.get("quick"), Mapping):
        found["quick"] = {
            name: each for name, each in modern({**quick, "blocklab": FORMAT}).items() if name in quick
        }
    return found


def _renamed(value: Any) -> Any:
    """The same data with ``workload`` for ``load``. An option of a program may have that name, but no text."""
    if isinstance(value, Mapping):
        return {
            "workload" if name == "load" and isinstance(each, str) else name: _renamed(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_renamed(each) for each in value]
    return _KIND.sub(r"\1.workload", value) if isinstance(value, str) else value
