"""What the idle-race shim buys: a 4 KiB write at queue depth 1 on a mirror at RTT 0, with and without in turn."""

from __future__ import annotations

import msgspec

from bench.common import PLAIN, fio_ms, mirror, show, study
from blocklab.runner.run import standing
from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite

ROUNDS = 5


def main() -> None:
    """Interleaved, so that a slow minute of the machine hits both."""
    found = image.require()
    images = {True: found, False: msgspec.structs.replace(found, shim=None)}
    what = study({"m": [PLAIN, mirror("a2", "zone")]}, {"zone": ("a2", 0)})
    means: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for shim in (True, False):
            with standing(UmlSite(image=images[shim]), what, ["m"]) as stand:
                means[shim].append(fio_ms(stand.lab.hosts["a1"], stand.ports["m"][-1].where, 5.0)[0])
    show("QD1 write on a mirror at RTT 0, with the shim", means[True], "ms")
    show("QD1 write on a mirror at RTT 0, without it", means[False], "ms")
    show("ratio, without over with, boot by boot", [b / a for a, b in zip(*means.values(), strict=True)], "")


if __name__ == "__main__":
    main()
