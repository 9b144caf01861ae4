"""What the benchmarks share: small studies, and how values are printed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from blocklab.model.host import Host, must
from blocklab.study.read import build
from blocklab.study.types import Study

PLAIN = {"layer": "volume", "size": "1GiB"}
# As the shipped study sets it: a cloud volume's acknowledgement already means that it is durable.
DISK = {"disk-flushes": False, "md-flushes": False, "al-extents": 6433}


def mirror(peer: str, link: str) -> dict[str, Any]:
    """A DRBD layer with protocol C."""
    return {"layer": "drbd", "peer": peer, "link": link, "disk": DISK}


def study(stacks: dict[str, list[dict[str, Any]]], links: dict[str, tuple[str, float]]) -> Study:
    """A study on the node a1; ``links`` maps a name to its peer and RTT in milliseconds."""
    nodes = {"a1": {"memory": "512MiB"}} | {peer: {"memory": "256MiB"} for peer, _ in links.values()}
    return build(
        {
            "blocklab": 2, "name": "bench", "question": "How fast is the lab itself?", "nodes": nodes,
            "links": {name: {"between": ["a1", peer], "rtt": f"{rtt}ms"} for name, (peer, rtt) in links.items()},
            "stacks": {name: {"on": "a1", "layers": layers} for name, layers in stacks.items()},
            "workloads": {"io": {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write", "bs": "4k"}}}},
        }
    )  # fmt: skip


def fio_ms(host: Host, device: str, seconds: float, *options: str) -> tuple[float, float]:
    """(mean latency in ms, IOPS) of 4 KiB random writes on a device."""
    argv = [
        "fio", "--name=x", f"--filename={device}", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=libaio",
        "--time_based", f"--runtime={seconds:g}", "--ramp_time=1", "--output-format=json", *options,
    ]  # fmt: skip
    text = must(host, argv, timeout=seconds + 60)
    job = json.loads(text[text.index("{") :])["jobs"][0]["write"]
    return job["lat_ns"]["mean"] / 1e6, job["iops"]


def show(name: str, values: Sequence[float], unit: str, bound: str = "") -> None:
    """One line: median, least and most."""
    low, middle, high = min(values), statistics.median(values), max(values)
    print(
        f"{name:<58} median {middle:8.3f} {unit}  ({low:.3f} to {high:.3f}, n={len(values)})  {bound}", flush=True
    )
