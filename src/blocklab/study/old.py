"""Studies in the words of today: those of format 1, which called a workload's kind ``load``, and those with names
of kinds and fields that changed since. Pure, on plain data."""

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


# Kinds and fields that had another name, by the field that names the kind. Files with them are read for good. Keys
# of cells are made of them, so that what was measured once stays measured.
_KINDS = {
    ("layer", "lvm_stripe"): "lvm-stripe", ("layer", "net_mirror"): "net-mirror",
    ("workload", "open_loop"): "open-loop",
}  # fmt: skip
_FIELDS = {
    ("workload", "sysbench"): ("threads", "clients"), ("workload", "tpcc"): ("threads", "clients"),
    ("workload", "ledger"): ("connections", "clients"),
}  # fmt: skip
_TAGS = ("layer", "workload")
_BEFORE = {(tag, new): name for (tag, name), new in _KINDS.items()}


def kind(tag: str, name: Any) -> Any:
    """What a layer or a workload of that name is called today; ``tag`` is the field that has it."""
    return _KINDS.get((tag, name), name) if isinstance(name, str) else name


def field(part: Mapping[str, Any], name: str) -> str:
    """What a field of a layer or a workload is called today."""
    for tag in _TAGS:
        before, now = _FIELDS.get((tag, kind(tag, part.get(tag))), ("", ""))
        if name == before:
            return now
    return name


def words(plain: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], list[str]]:
    """A study in the words of today, and a note of each older one. ``base``: of what study it is a patch."""
    found, notes = dict(plain), dict[str, None]()
    for part in ("stacks", "workloads", "factors"):
        if part in found:
            found[part] = _today(found[part], (base or {}).get(part), notes)
    if isinstance(quick := found.get("quick"), Mapping):
        found["quick"], more = words(quick, found)
        notes |= dict.fromkeys(more)
    return found, list(notes)


def _today(value: Any, base: Any, notes: dict[str, None]) -> Any:
    if isinstance(value, list | tuple):
        return [_today(each, None, notes) for each in value]
    if not isinstance(value, Mapping):
        return value
    # A patch of a workload seldom has its kind.
    base = base if isinstance(base, Mapping) else {}
    found = {}
    for name, each in value.items():
        now, new = field({**base, **value}, name), kind(name, each)
        # Where it has both, the old one is a mistake.
        now = name if now in value else now
        changes = [(before, after) for before, after in ((name, now), (each, new)) if before != after]
        notes |= {f"{before} is called {after} now; both are read": None for before, after in changes}
        found[now] = _today(new, base.get(name), notes)
    return found


def of_key(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a cell's key is made of: its spec in the words that studies had first."""
    stack, workload = spec["stack"], spec["workload"]
    layers = [{**each, "layer": _BEFORE.get(("layer", each["layer"]), each["layer"])} for each in stack["layers"]]
    before, now = _FIELDS.get(("workload", workload["workload"]), ("", ""))
    mine = {before if name == now else name: each for name, each in workload.items()}
    mine["workload"] = _BEFORE.get(("workload", workload["workload"]), workload["workload"])
    return {**spec, "stack": {**stack, "layers": layers}, "workload": mine}
