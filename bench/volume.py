"""Volumes with a profile: what the way to the server takes, caps, requests under way, a distribution found again.

``python -m bench.volume``: some two minutes.
"""

from __future__ import annotations

import json
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.common import PLAIN, show, study
from blocklab.model.host import must
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlLab, UmlSite

LATENCIES_US = (250, 450, 1000, 5000)
TABLE = ((0.5, 0.5e-3), (0.99, 3e-3), (0.999, 12e-3))
ROUNDS = 3


def cpu_seconds(lab: UmlLab) -> float:
    """CPU time that the volumes' servers have taken."""
    found = 0.0
    for volume in lab._volumes:
        if volume.server is not None:
            # 29228 (blocklab-volume) S ...: utime and stime are the 14th and 15th field
            fields = Path(f"/proc/{volume.server.pid}/stat").read_text().rpartition(")")[2].split()
            found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def measured(fields: dict[str, Any], seconds: float, *options: str) -> tuple[dict[str, Any], float]:
    """fio's 4 KiB random writes on a volume of a boot of its own, and the share of a core that its server took."""
    with standing(UmlSite(), study({"v": [{**PLAIN, **fields}]}, {}), ["v"]) as stand:
        argv = [
            "fio", "--name=x", f"--filename={stand.ports['v'][-1].where}", "--rw=randwrite", "--bs=4k",
            "--direct=1", "--ioengine=libaio", "--time_based", f"--runtime={seconds:g}", "--ramp_time=1",
            "--clat_percentiles=0", "--lat_percentiles=1", "--percentile_list=50:99:99.9",
            "--output-format=json+", *options,
        ]  # fmt: skip
        assert isinstance(stand.lab, UmlLab)
        before = cpu_seconds(stand.lab)
        text = must(stand.lab.hosts["a1"], argv, timeout=seconds + 60)
        taken = cpu_seconds(stand.lab) - before
        write: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]["write"]
        return write, taken / (seconds + 1)


def share(seconds: float) -> float:
    """The part of requests that takes at most so long, by ``TABLE``."""
    if seconds < TABLE[0][1]:
        return 0.0
    for (low, least), (high, most) in pairwise(TABLE):
        if seconds < most:
            return low + (high - low) * math.log(seconds / least) / math.log(most / least)
    return 1.0


def distance(bins: dict[str, int]) -> float:
    """The Kolmogorov-Smirnov distance between fio's histogram (ns -> requests) and ``TABLE``, from its first
    quantile on: below it the table is constant, and what the way takes makes that a step."""
    total, below, worst = sum(bins.values()), 0, 0.0
    for bound, count in sorted((int(name), count) for name, count in bins.items()):
        below += count
        if bound / 1e9 >= TABLE[0][1] * 1.25:
            worst = max(worst, abs(below / total - share(bound / 1e9)))
    return worst


def main() -> None:
    """One line a value, with what it is bounded by."""
    for asked in LATENCIES_US:
        fields = {"read_latency": f"{asked}us", "write_latency": f"{asked}us"}
        found = [measured(fields, 3.0) for _ in range(ROUNDS)]
        p50 = [write["lat_ns"]["percentile"]["50.000000"] / 1e6 for write, _ in found]
        show(f"volume of {asked} us, QD1 write, p50", p50, "ms")
        show("    beyond what is asked", [each - asked / 1e3 for each in p50], "ms")
    for cap in (1000, 3000):
        found = [measured({"iops": cap}, 8.0, "--iodepth=32") for _ in range(ROUNDS)]
        # What fio waits for at the end lies beyond its time.
        rates = [(write["total_ios"] - 32) / (write["runtime"] / 1e3 - 32 / cap) for write, _ in found]
        show(f"volume capped at {cap} IOPS, QD32", rates, "IOPS", f"bound {cap * 0.99:g} to {cap * 1.01:g}")
        show("    its server", [core for _, core in found], "cores", "bound 0.15" if cap == 3000 else "")
    write, _ = measured({"write_latency": "10ms"}, 5.0, "--iodepth=64")
    show("volume of 10 ms, QD64", [write["iops"]], "IOPS", "16 under way would do 1600")
    write, _ = measured({"write_quantiles": {f"p{100 * q:g}": f"{s * 1e3:g}ms" for q, s in TABLE}}, 20.0)
    for quantile, seconds in TABLE:
        name = f"{100 * quantile:.6f}"
        value = write["lat_ns"]["percentile"][name] / 1e6
        show(f"p{100 * quantile:g} of {seconds * 1e3:g} ms", [value], "ms")
    show("    Kolmogorov-Smirnov distance to the table", [distance(write["lat_ns"]["bins"])], "")


if __name__ == "__main__":
    main()
