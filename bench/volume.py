"""Volumes with a profile: what the way to the server takes, caps, requests under way, a distribution found again.

``python -m bench.volume``: some two minutes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.common import PLAIN, show, study
from blocklab.formats.load.fio.report import distribution
from blocklab.model.host import must
from blocklab.model.quantiles import Table, at, distance, share
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlLab, UmlSite

LATENCIES_US = (250, 450, 1000, 5000)
TABLE = ((0.5, 0.5e-3), (0.99, 3e-3), (0.999, 12e-3))
# How far a quantile may be from what was asked for.
WITHIN = 0.1
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


def fio(lab: UmlLab, device: str, seconds: float, *options: str) -> dict[str, Any]:
    """What fio says of 4 KiB random writes."""
    argv = [
        "fio", "--name=x", f"--filename={device}", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=libaio",
        "--time_based", f"--runtime={seconds:g}", "--ramp_time=1", "--clat_percentiles=0", "--lat_percentiles=1",
        "--percentile_list=50:99:99.9", "--output-format=json+", *options,
    ]  # fmt: skip
    text = must(lab.hosts["a1"], argv, timeout=seconds + 60)
    write: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]["write"]
    return write


def measured(fields: dict[str, Any], seconds: float, *options: str) -> tuple[dict[str, Any], float]:
    """fio's 4 KiB random writes on a volume of a boot of its own, and the share of a core that its server took."""
    with standing(UmlSite(), study({"v": [{**PLAIN, **fields}]}, {}), ["v"]) as stand:
        assert isinstance(stand.lab, UmlLab)
        before = cpu_seconds(stand.lab)
        write = fio(stand.lab, stand.ports["v"][-1].where, seconds, *options)
        return write, (cpu_seconds(stand.lab) - before) / (seconds + 1)


class Again(msgspec.Struct, frozen=True):
    """A table of quantiles that was asked for (s), what fio found at the same quantiles, and what is to be
    expected there of this machine, whose way to a volume is late by itself. ``least``: what the server drew there.
    ``distance``: Kolmogorov-Smirnov, of asked and found, beyond the step of the table's first quantile."""

    asked: tuple[tuple[float, float], ...]
    found: tuple[float, ...]
    expected: tuple[float, ...]
    least: tuple[float, ...]
    distance: float
    requests: int

    def lines(self) -> Iterator[str]:
        for (quantile, asked), found, expected in zip(self.asked, self.found, self.expected, strict=True):
            yield (
                f"p{100 * quantile:g}: {found * 1e3:.3f} ms of {asked * 1e3:g} ms ({found / asked - 1:+.1%}; this "
                f"machine's own way to a volume makes it {expected * 1e3:.3f} ms)"
            )
        yield f"Kolmogorov-Smirnov distance {self.distance:.3f} ({self.requests:,} requests)"

    @property
    def true(self) -> bool | None:
        """Whether all were found again. None where they were not, and this machine's own way to a volume takes
        more than half of what a quantile may be off: it cannot tell."""

        def within(values: Sequence[float], most: float) -> bool:
            return all(
                abs(value / asked - 1) <= most for (_, asked), value in zip(self.asked, values, strict=True)
            )

        if within(self.found, WITHIN):
            return True
        return False if within(self.expected, WITHIN / 2) else None


def found_again(times: float = 1.0, depth: int = 1, seconds: float = 20.0) -> Again:
    """Ask for ``TABLE``, ``times`` as long, and let fio measure it, between two measurements of a constant as long
    as its median: how late that is, is how late this machine is. A ``depth`` above 1 makes more requests in
    ``seconds``, which do not wait for each other."""
    asked = [(quantile, latency * times) for quantile, latency in TABLE]
    fields = {"write_quantiles": {f"p{100 * quantile:g}": f"{latency * 1e3:g}ms" for quantile, latency in asked}}
    drawn: Counter[str] = Counter()
    constant: Counter[str] = Counter()
    with standing(UmlSite(), study({"v": [{**PLAIN, **fields}]}, {}), ["v"]) as stand:
        assert isinstance(stand.lab, UmlLab)
        (volume,) = stand.lab._volumes
        tuned = volume.order("stats")["profile"]
        added, table = tuned["write_latency"], tuned["write_quantiles"]
        device = stand.ports["v"][-1].where
        for bins, whole in ((constant, False), (drawn, True), (constant, False)):
            stand.lab.set_latencies(volume.spec, {"write": added}, whole=whole)
            write = fio(stand.lab, device, seconds if whole else seconds / 4, f"--iodepth={depth}")
            bins.update(write["lat_ns"]["bins"])
    late = [(int(centre) / 1e9 - added, count / constant.total()) for centre, count in constant.items()]
    measured = distribution(drawn)
    return Again(
        tuple(asked),
        tuple(at(measured, quantile) for quantile, _ in asked),
        tuple(expected(table, late, quantile) for quantile, _ in asked),
        tuple(at(table, quantile) for quantile, _ in asked),
        distance(asked, measured, beyond=asked[0][1] * (1 + WITHIN)),
        drawn.total(),
    )


def expected(table: Table, late: Sequence[tuple[float, float]], quantile: float) -> float:
    """The quantile of a draw from ``table`` and of a lateness (s, with its share) together, by bisection."""
    low, high = 0.0, table[-1][1] + max(by for by, _ in late)
    for _ in range(40):
        middle = (low + high) / 2
        below = sum(part * share(table, middle - by) for by, part in late)
        low, high = (low, middle) if below >= quantile else (middle, high)
    return high


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
    for times, depth in ((1, 1), (4, 4)):
        again = found_again(times, depth)
        verdict = {True: "found again", False: "not found", None: "unknown: this machine is too late by itself"}
        print(f"table of quantiles, {times} times as long, queue depth {depth}: {verdict[again.true]}")
        print("".join(f"    {line}\n" for line in again.lines()), end="", flush=True)


if __name__ == "__main__":
    main()
