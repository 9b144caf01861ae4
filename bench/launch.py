"""From nothing to two mirrors that are UpToDate on three nodes, and back to nothing."""

from __future__ import annotations

import time

from bench.common import PLAIN, mirror, show, study
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlSite

TIMES = 10


def main() -> None:
    """Ten times; the take-down includes every undo."""
    what = study(
        {"zone": [PLAIN, mirror("a2", "zone")], "cross": [PLAIN, mirror("b1", "cross")]},
        {"zone": ("a2", 0.5), "cross": ("b1", 2.7)},
    )
    up: list[float] = []
    down: list[float] = []
    for _ in range(TIMES):
        started = time.monotonic()
        with standing(UmlSite(), what, ["zone", "cross"]):
            up.append(time.monotonic() - started)
            leaving = time.monotonic()
        down.append(time.monotonic() - leaving)
    show("launch to two mirrors UpToDate, three nodes", up, "s", "bound: under 5 s")
    show("take-down", down, "s", "bound: under 1 s")


if __name__ == "__main__":
    main()
