"""Studies of format 1, and what was stored of them, in the words of today. Pure, on plain data.

Format 1 called a workload's kind ``load``, what a profile says of a layer ``figures``, and a cell's repeat
``block``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FORMAT = 1
NOW = 2
# "workloads.tx.load" as a factor's field
_KIND = re.compile(r"^(workloads\.[^.\[]+|workloads\[[^\]]+\])\.load$")


def modern(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A study as its file has it, and ``quick`` in it. One of another format comes back as it is."""
    if plain.get("blocklab") != FORMAT:
        return dict(plain)
    found = {**plain, "blocklab": NOW}
    for name in ("workloads", "factors"):
        if name in found:
            found[name] = _renamed(found[name], {"load": "workload"})
    if isinstance(quick := found.get("quick"), Mapping):
        found["quick"] = {
            name: each for name, each in modern({**quick, "blocklab": FORMAT}).items() if name in quick
        }
    return found


def modern_study(study: Mapping[str, Any]) -> dict[str, Any]:
    """A study as a run folder stores it."""
    return {**modern(study), "stacks": _renamed(study.get("stacks"), {"figures": "performance"})}


def modern_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell as a run folder stores it, under the key that its folder has."""
    words = {"load": "workload", "figures": "performance", "block": "repeat"}
    return {**_renamed({**cell, "spec": None}, words), "spec": _renamed(cell["spec"], words)}


def _renamed(value: Any, words: Mapping[str, str]) -> Any:
    """The same data under other names; a name is replaced where it stands for what format 1 called so."""
    if isinstance(value, Mapping):
        return {
            words[name] if name in words and _meant(name, each) else name: _renamed(each, words)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_renamed(each, words) for each in value]
    if isinstance(value, str) and "load" in words:
        return _KIND.sub(r"\1.workload", value)
    return value


def _meant(name: str, value: Any) -> bool:
    """Whether it is a field of blocklab's. An option of a program may have the same name, with another value."""
    return isinstance(value, {"load": str, "figures": Mapping | None, "block": int}[name])
