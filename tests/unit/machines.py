"""One study on two machines, lab and hosts, in which every share is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.model.stack_map import Level, StackMap, Took, Tuned
from blocklab.store.folder import StudyFolder
from blocklab.study.types import Cell
from tests.unit import versions

LOCAL = (1000.0, 1010.0, 990.0, 1004.0, 996.0)
# Of the mirror in each repeat, with what varies from build to build.
BUILDS = (1.0, 1.012, 0.991, 1.006, 0.994)
RTT = {"rtt": {"field": "links.zone.rtt", "values": ["1ms", "2ms", "5ms", "10ms", "20ms"]}}
HOSTS = {
    "blocklab": "0.1.0", "site": "ssh", "machine": "beb0efbb1e15", "seed": 7,
    "host": {"kernel": "6.12.1", "cpu": "EPYC 9R14", "cpus": 4},
    "hosts": {name: {"kernel": "6.12.1", "cpu": "EPYC 9R14", "cpus": 4, "memory": 2**34} for name in ("a1", "a2")},
}  # fmt: skip


def on(device: str = "vda", volume: float = 0.45e-3, link: float = 1.0e-3) -> Callable[[Cell], StackMap]:
    """Volumes of that name that take so long (s), and a link below the mirror."""

    def stood(cell: Cell) -> StackMap:
        times = {f"writes of {device} on a1": (0.45e-3, volume)}
        times |= {"link zone": (1.0e-3, link)} if cell.stack == "mirror" else {}
        tuned = {what: Tuned(asked, 0.0, Took(*(took,) * 4, took, took)) for what, (asked, took) in times.items()}
        return StackMap("a1", (Level(0, "volume", "a1", (device,)),), tuned=tuned)

    return stood


def lab(tmp_path: Path, share: float = 0.5, **changes: Any) -> StudyFolder:
    tps = {"local": LOCAL, "mirror": [share * rate * build for rate, build in zip(LOCAL, BUILDS, strict=True)]}
    usual: dict[str, Any] = {"tps": tps, "stood": on()}
    return versions.make(tmp_path / "lab", **usual | changes)


def hosts(
    tmp_path: Path,
    share: float = 0.5,
    builds: Sequence[float] = BUILDS,
    planted: Mapping[str, float] | None = None,
    **changes: Any,
) -> StudyFolder:
    """Three times as fast; its builds go the other way round. ``planted``: other shares, by the stack at
    its levels."""
    base = [3 * rate for rate in LOCAL[: len(builds)]]
    tps = {"local": base} | {
        stack: [each * rate / build for rate, build in zip(base, builds, strict=True)]
        for stack, each in {"mirror": share, **(planted or {})}.items()
    }
    usual: dict[str, Any] = {"tps": tps, "environment": HOSTS, "stood": on("dm-932", 0.71e-3)}
    return versions.make(tmp_path / "hosts", **usual | changes)
