"""What single requests to a block device take: the question that is put to a host, for layers and for tuning."""

from __future__ import annotations

from functools import partial

from blocklab.model.node_programs import program
from blocklab.model.plan import Fact
from blocklab.model.stack_map import fields

WAYS = ("read", "write")
MOST, LEAST = 100, 20
# So long (s) may all of them take.
SECONDS = 0.15


def requests(host: str, device: str, way: str, latency: float = 0.0, most: int = MOST) -> Fact:
    """Reads or writes of 4 KiB, one after the other; fewer of a volume with a long ``latency`` (s). Writes need a
    device that nothing else uses."""
    count = min(most, max(LEAST, round(SECONDS / latency))) if latency else most
    name = device.rpartition("/")[2]
    argv = program("latency", device, way, str(count))
    return Fact(host, f"volume {name}", argv, partial(_times, count), timed=f"{way}s of {name} on {host}")


def _times(count: int, text: str) -> dict[str, str]:
    # 452.1
    # 449.8
    return fields([float(line) / 1e6 for line in text.split()], count)
