"""A 4 KiB write at queue depth 1: on a plain volume, and on its mirror at several round trips."""

from __future__ import annotations

from bench.common import PLAIN, fio_ms, mirror, show, study
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlSite

RTTS = (0.5, 1.0, 2.0, 5.0, 10.0)
ROUNDS = 3
SECONDS = 4.0


def main() -> None:
    """Each round measures the volume and the mirror of one boot; the value is the mirror's less the volume's."""
    for rtt in RTTS:
        what = study({"m": [PLAIN, mirror("a2", "zone")]}, {"zone": ("a2", rtt)})
        extra: list[float] = []
        whole: list[float] = []
        alone: list[float] = []
        pings: list[float] = []
        for _ in range(ROUNDS):
            with standing(UmlSite(), what, ["m"]) as stand:
                pings.append(1e3 * stand.shapes["m"].tuned["link zone"].reached.median)
                host = stand.lab.hosts["a1"]
                whole.append(fio_ms(host, stand.ports["m"][-1].where, SECONDS)[0])
                stand.engine.undo()
                alone.append(fio_ms(host, stand.ports["m"][0].where, SECONDS)[0])
                extra.append(whole[-1] - rtt)
        show(f"RTT {rtt:g} ms: ping", pings, "ms")
        show(f"RTT {rtt:g} ms: volume alone (the floor)", alone, "ms")
        show(f"RTT {rtt:g} ms: write on the mirror", whole, "ms")
        show(f"RTT {rtt:g} ms: write on the mirror less the RTT", extra, "ms", "bound: at most 0.35 ms")


if __name__ == "__main__":
    main()
