"""The lab's own floor, and how true its emulated volumes and links are."""

from __future__ import annotations

from typing import Any

from bench.common import PLAIN, fio_ms, show, study
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlSite

LATENCIES_US = (0, 300, 450, 1000, 5000)
RTTS = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
ROUNDS = 3


def volume(latency: int) -> dict[str, Any]:
    """A volume with a latency; the tiny latency of the first one only takes it the long way round."""
    return {**PLAIN, "read_latency": f"{latency or 1}us", "write_latency": f"{latency or 1}us"}


def main() -> None:
    """Volumes one by one, then links."""
    plain: list[float] = []
    deep: list[float] = []
    for _ in range(ROUNDS):
        with standing(UmlSite(), study({"v": [PLAIN]}, {}), ["v"]) as stand:
            host, device = stand.lab.hosts["a1"], stand.ports["v"][-1].where
            plain.append(fio_ms(host, device, 3.0)[0])
            deep.append(fio_ms(host, device, 3.0, "--iodepth=32")[1])
    show("plain volume, QD1 write", plain, "ms")
    show("plain volume, QD32 writes", deep, "IOPS")
    for latency in LATENCIES_US:
        found = []
        for _ in range(ROUNDS):
            with standing(UmlSite(), study({"v": [volume(latency)]}, {}), ["v"]) as stand:
                found.append(fio_ms(stand.lab.hosts["a1"], stand.ports["v"][-1].where, 3.0)[0])
        show(f"volume of {latency} us, QD1 write", found, "ms")
    for iops in (1000, 3000):
        with standing(UmlSite(), study({"v": [{**PLAIN, "iops": iops}]}, {}), ["v"]) as stand:
            host, device = stand.lab.hosts["a1"], stand.ports["v"][-1].where
            show(f"volume capped at {iops} IOPS, QD32", [fio_ms(host, device, 5.0, "--iodepth=32")[1]], "IOPS")
    for rtt in RTTS:
        link = study({"m": [PLAIN, {"layer": "drbd", "peer": "a2", "link": "z"}]}, {"z": ("a2", rtt)})
        with standing(UmlSite(), link, ["m"]) as stand:
            took = stand.shapes["m"].tuned["link z"].reached
            show(f"link of {rtt:g} ms, ping", [1e3 * each for each in (took.least, took.median, took.most)], "ms")


if __name__ == "__main__":
    main()
