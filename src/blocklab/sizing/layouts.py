"""The layouts that a need is measured on: those of another study, or the candidates of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import Bandwidth, Size
from blocklab.sizing.choice import Candidate, Misfit
from blocklab.study import profiles
from blocklab.study.read import load_yaml

DATABASES = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mariadb"}
"""Products of the statistics to the layer that is such a database."""
# Round trips that are typical of a zone and of two zones of one region; the user's own belong here.
ZONE_RTT, ZONES_RTT = "0.5ms", "2.7ms"
# What a lab's volume needs: fio's file, and a database and a client's tables beside it.
_LEAST, _WITH_DATABASE = Size("512MiB"), Size("1GiB")
_CAPS = (
    "iops", "bandwidth", "read_iops", "write_iops", "read_bandwidth", "write_bandwidth", "burst_iops",
)  # fmt: skip


class Layouts(msgspec.Struct, frozen=True):
    """Where the workload runs: ``plain`` are the parts ``nodes``, ``links``, ``profiles``, ``stacks`` and
    ``factors`` of a study, and what else it has (``faults`` and ``workloads`` for drills). ``database``: the layer
    name of the database that the stacks hold, empty for none."""

    plain: Mapping[str, Any]
    baseline: str
    database: str = ""
    notes: tuple[str, ...] = ()


def of_study(path: Path) -> Layouts:
    """The layouts of another study's file. Raises ``StudyError`` for a file that has none."""
    plain = bare(load_yaml(path))
    stacks = plain.get("stacks") if isinstance(plain, dict) else None
    if not isinstance(stacks, dict) or not stacks:
        raise StudyError(
            "stacks", "the file has no layouts", file=str(path), hint="--layouts takes a study's file"
        )
    found = {name: plain[name] for name in ("nodes", "links", "profiles", "stacks") if plain.get(name)}
    factors = {name: each for name, each in (plain.get("factors") or {}).items() if not _of_workloads(each)}
    found |= {"factors": factors} if factors else {}
    # Of combinations that are left out those that name nothing else.
    exclude = [each for each in plain.get("exclude") or () if set(each) <= {"stack", *factors}]
    found |= {"exclude": exclude} if exclude else {}
    layers = [
        layer.get("layer")
        for stack in stacks.values()
        for layer in (stack.get("layers") or () if isinstance(stack, dict) else ())
        if isinstance(layer, dict)
    ]
    database = next((name for name in DATABASES.values() if name in layers), "")
    baseline = str(plain.get("baseline") or next(iter(stacks)))
    return Layouts(found, baseline, database, (f"The layouts are those of {path.name}.",))


def _of_workloads(factor: Any) -> bool:
    """Whether a factor varies a workload, which the need takes the place of."""
    if not isinstance(factor, dict):
        return False
    values = factor.get("values")
    paths = [path for level in values.values() if level for path in level] if isinstance(values, dict) else []
    return any(str(path).startswith("workloads.") for path in (factor.get("field", ""), *paths))


def of_candidates(choices: Sequence[Candidate | Misfit], database: str = "") -> Layouts:
    """A stack for each candidate; with a ``database`` also one on each, and a client whose primary is killed, for
    ``blocklab drill``. Raises ``StudyError`` where nothing fits."""
    fitting = [each for each in choices if isinstance(each, Candidate)]
    if not fitting:
        reasons = "; ".join(each.reason for each in choices if isinstance(each, Misfit))
        raise StudyError(
            "", f"no layout of the catalogue carries the need: {reasons}", hint="--catalogue adds yours"
        )
    top: list[dict[str, Any]] = [{"layer": "xfs"}, {"layer": database}] if database else []
    stacks = {
        name: {"on": "a1", "layers": [*_sized(each, database), *top]} for name, each in _named(fitting).items()
    }
    mirrored = any(each.nodes > 1 for each in fitting)
    memory = "1GiB" if database else "512MiB"
    nodes: dict[str, Any] = {"a1": {"memory": memory}}
    links: dict[str, Any] = {}
    if mirrored:
        nodes["a2"] = {"memory": memory}
        links |= {
            name: {"between": ["a1", "a2"], "rtt": rtt}
            for name, rtt, layout in (("zone", ZONE_RTT, "mirror"), ("zones", ZONES_RTT, "zones"))
            if any(each.layout == layout for each in fitting)
        }
    plain: dict[str, Any] = {"profiles": _profiles(fitting), "nodes": nodes, "links": links, "stacks": stacks}
    if database and mirrored:
        # First, so that on two CPUs it shares one with the survivor and not with the busy primary.
        plain["nodes"] = {"c1": {"memory": "256MiB"}, **nodes}
        # The survivor's monitor pings over a link of its own.
        links |= {
            "beat": {"between": ["a1", "a2"], "rtt": ZONE_RTT},
            "front": {"between": ["c1", "a1"], "rtt": ZONE_RTT},
            "back": {"between": ["c1", "a2"], "rtt": ZONE_RTT},
        }
        plain["workloads"] = {"ledger": {"workload": "ledger", "from": "c1", "clients": 8, "after": "2s"}}
        plain["faults"] = {"kill": {"fault": "crash", "node": "active", "at": "3s..5s"}}
    notes = [
        f"Round trips of {ZONE_RTT} in the zone and {ZONES_RTT} across zones are typical values: put in yours."
    ]
    return Layouts(
        {name: part for name, part in plain.items() if part}, next(iter(stacks)), database,
        tuple(notes if mirrored else ()),
    )  # fmt: skip


def _named(fitting: Sequence[Candidate]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    for each in fitting:
        name = f"{each.cloud}-{each.layout}"
        found[name if name not in found else f"{name}-{each.kind}"] = each
    return found


def _sized(each: Candidate, database: str) -> list[dict[str, Any]]:
    """The layers, with the size that the lab gives: caps come from the one that is provisioned."""
    total = _WITH_DATABASE if database else _LEAST
    size = f"{max(128, -(-total // 2**20 // each.count))}MiB"
    return [{**layer, "size": size} if layer["layer"] == "volume" else dict(layer) for layer in each.layers]


def _profiles(fitting: Sequence[Candidate]) -> dict[str, Any]:
    return {name: {**plain} for each in fitting for name, plain in each.profiles.items()}


def scaled(layouts: Layouts, scale: float) -> Layouts:
    """The same with all caps of volumes and instances times ``scale``; sizes, latencies and links stay.
    Bursts are dropped: what they save up does not scale with the time that a workload takes."""
    if scale == 1:
        return layouts
    plain = profiles.fill(bare(layouts.plain))
    stacks = {
        name: {**stack, "layers": [_capped(layer, scale) for layer in stack["layers"]]}
        for name, stack in plain["stacks"].items()
    }
    kept = {name: part for name, part in plain.items() if name != "profiles"}
    return msgspec.structs.replace(layouts, plain={**kept, "stacks": stacks})


def _capped(layer: Mapping[str, Any], scale: float) -> dict[str, Any]:
    if layer["layer"] not in profiles.LAYERS:
        return dict(layer)
    performance = {**dict(layer.get("performance") or {}), **layer}
    dropped = ("profile", "provisioned", "performance", "burst_seconds", *_CAPS)
    found = {name: value for name, value in performance.items() if name not in dropped and value is not None}
    for name in _CAPS:
        if not (value := performance.get(name)) or name == "burst_iops":
            continue
        if name.endswith("iops"):
            found[name] = max(1, round(value * scale))
        else:
            found[name] = f"{max(4096, round(float(Bandwidth(value)) * scale))}B/s"
    if layer["layer"] == "cap":
        # A cap has its limits for each direction.
        for way in ("iops", "bandwidth"):
            if (value := found.pop(way, None)) is not None:
                found |= {f"read_{way}": value, f"write_{way}": value}
    return found


def bare(value: Any) -> Any:
    """Plain dictionaries and lists, without anchors and comments of the file that it comes from."""
    if isinstance(value, Mapping):
        return {str(key): bare(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [bare(each) for each in value]
    return value
